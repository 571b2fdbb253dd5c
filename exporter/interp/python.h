/* SPDX-License-Identifier: Apache-2.0
 *
 * Code objects of CPython 3.6 to 3.15.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/interp/interp.h"

int python_read_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t object,
	uint64_t context, struct interp_code *ret);
/* Sets what tells one code object from the next at its address: code_check and what follows it in a layout. */
void python_check_of(const struct runtime_record *r, struct interp_layout *ret);
/* position: in units of an instruction, 2 bytes. */
uint32_t python_line(const struct interp_code *c, uint32_t position);
