/* SPDX-License-Identifier: Apache-2.0
 *
 * Places where functions may begin in code that nothing describes: targets of calls, addresses that code takes, and the code behind a
 * return, a jump, or a call with alignment behind it. For exporter/parser/unwind/unwind_flow.c. Pure.
 */
#pragma once
#include "exporter/parser/unwind/unwind_flow.h"
#include "exporter/parser/unwind/x86.h"

enum {
	FLOW_ALIGNMENT = 16
}; /* of functions, and of the stack where one is called (System V ABI, 3.2.2) */

/* Bits of the code's bytes; targets of calls, and what else is surely a function, are in both. */
struct flow_candidates {
	const struct unwind_flow_code *code;
	uint64_t *maybe, *called;
};

/* Reads bytes [at, end), and an instruction that begins there to its end. */
void flow_candidates_find(const struct flow_candidates *c, size_t at, size_t end);

/*
 * Is that code of a compiler that keeps frame pointers (Chromium's), as the candidates begin? They do as well there, and rows for all of
 * it take memory and time. Assembly for codecs has frame pointers in some functions and not in others.
 */
bool flow_candidates_keep_frame_pointers(const struct flow_candidates *c);

/* The instruction at byte `at`, or X86_BAD. */
void flow_decode(const struct unwind_flow_code *code, size_t at, struct x86_insn *ret);

/* The first byte from `at` on that only aligns nothing. */
size_t flow_skip_padding(const struct unwind_flow_code *code, size_t at);
