/* SPDX-License-Identifier: Apache-2.0
 *
 * What a parser child may use.
 */
#pragma once
#include "lib/base/err.h"
#include <stdint.h>

enum { PARSER_MEMORY_BYTES = 512 << 20, PARSER_OUTPUT_BYTES = 1 << 30 };

/* Limits memory, CPU time and output of this process, then its system calls to reading the input
 * that it already maps and writing the output that it already has. No way back. The inputs
 * count towards the address space, not the memory. */
int parser_limit_child(
	uint32_t timeout_ms, const int *inputs, size_t n_inputs, struct errbuf *eb) _must_check_;
