/* SPDX-License-Identifier: Apache-2.0
 *
 * What a parser child may use.
 */
#pragma once
#include "exporter/parser/parser.h"
#include <stdint.h>

enum { PARSER_MEMORY_BYTES = 512 << 20, PARSER_OUTPUT_BYTES = 1 << 30 };
/* Files that a child asks for are mapped too: what they may come to at a time. */
#define PARSER_LINKED_BYTES (32ULL << 30)

/* Limits memory, CPU time and output of this process, then its system calls to reading the input
 * that it already maps, writing the output that it already has and, when it has `links`, asking
 * for files. No way back. The inputs count towards the address space, not the memory. */
int parser_limit_child(uint32_t timeout_ms, const int *inputs, size_t n_inputs, bool links,
	struct errbuf *eb) _must_check_;
