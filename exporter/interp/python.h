/* SPDX-License-Identifier: Apache-2.0
 *
 * Code objects of CPython 3.6 to 3.15.
 */
#pragma once
#include "exporter/interp/interp.h"

int python_read_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t object,
	struct interp_code *ret);
/* position: in units of an instruction, 2 bytes. */
uint32_t python_line(const struct interp_code *c, uint32_t position);
