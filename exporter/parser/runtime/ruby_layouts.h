/* SPDX-License-Identifier: Apache-2.0
 *
 * Where each version of Ruby has its fields.
 */
#pragma once
#include "exporter/symfile/ruby.h"

struct ruby_layout {
	uint8_t major, minor;
	uint16_t offsets[N_RUBY_OFFSETS];
};

/* NULL: none of 2.5 to 4.0. */
const struct ruby_layout *ruby_layout_of(uint32_t major, uint32_t minor);
