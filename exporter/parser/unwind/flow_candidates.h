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

/* Bits of the code's bytes; targets of calls, and what else is surely a function, are in the first two. */
struct flow_candidates {
	const struct unwind_flow_code *code;
	uint64_t *maybe, *called;
	uint64_t *pointed; /* code takes the address */
};

/* Reads bytes [at, end), and an instruction that begins there to its end. */
void flow_candidates_find(const struct flow_candidates *c, size_t at, size_t end);

/*
 * Is that code of a compiler that keeps frame pointers (Chromium's), as the candidates begin? They do as well there, and rows for all of
 * it take memory and time. Assembly for codecs has frame pointers in some functions and not in others.
 */
bool flow_candidates_keep_frame_pointers(const struct flow_candidates *c);

/* Does a function that begins at `at` have a frame, and does it set a frame pointer first? */
enum flow_prologue { FLOW_NO_FRAME, FLOW_FRAME_POINTER, FLOW_OTHER_FRAME, FLOW_N_PROLOGUES };
enum flow_prologue flow_prologue_at(const struct unwind_flow_code *code, size_t at);

/* The instruction at byte `at`, or X86_BAD. */
void flow_decode(const struct unwind_flow_code *code, size_t at, struct x86_insn *ret);

/* Is that a call of the next instruction, which takes the return address off the stack? Position-independent code asks like this where it is. */
bool flow_asks_where(const struct unwind_flow_code *code, size_t at, const struct x86_insn *i);

/* The first byte from `at` on that only aligns nothing. */
size_t flow_skip_padding(const struct unwind_flow_code *code, size_t at);
