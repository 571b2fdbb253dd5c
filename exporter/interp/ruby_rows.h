/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of Ruby's versions (rows.h).
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/symfile/ruby.h"
#include <stdbool.h>

/* False: what the walk needs is missing, or lies where it does not read. */
bool ruby_rows_layout(const struct runtime_record *r, struct interp_layout *ret);
