/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of V8's versions (rows.h).
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/symfile/v8.h"
#include <stdbool.h>

/* False: what the walk needs is missing, or lies where it does not read. */
bool v8_rows_layout(const struct runtime_record *r, struct interp_layout *ret);
