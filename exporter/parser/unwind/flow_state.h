/* SPDX-License-Identifier: Apache-2.0
 *
 * The known state of the stack at an instruction, and the effect of instructions on it. For exporter/parser/unwind/unwind_flow.c, which
 * follows code. Pure.
 */
#pragma once
#include "bpf/unwind/tables.h"
#include "exporter/parser/unwind/x86.h"
#include <stdbool.h>

enum { FLOW_WORD = 8 };

/*
 * What is known at an instruction, in bytes below the CFA: where the stack pointer is (or FLOW_LOST); what the frame pointer and rbx hold:
 * the caller's value, another, or of the frame pointer the place that it leads to; and where the caller's value lies (0: nowhere).
 */
struct flow_state {
	int32_t height;
	int32_t held[2]; /* FLOW_CALLERS, FLOW_OTHER, or a place */
	int32_t saved[2];
};
enum { FLOW_FP, FLOW_BX };
enum { FLOW_LOST = -1, FLOW_CALLERS = 0, FLOW_OTHER = -1 };

/* What becomes of a way through the code: it goes on, it ends, or it shows that the code is not what it was taken for. */
enum flow_verdict { FLOW_ON, FLOW_END, FLOW_FAIL };

/* What an instruction does to the stack; control is the caller's matter. FLOW_END: the caller's frame is not found from there. */
enum flow_verdict flow_apply(struct flow_state *s, const struct x86_insn *i);
/* A push of machine register `reg`, or of something else (X86_NONE). */
enum flow_verdict flow_push(struct flow_state *s, uint8_t reg);
/* What two ways to one place have in common, in *a; false: they contradict each other. */
bool flow_merge(struct flow_state *a, const struct flow_state *b);
/* Do the two differ in what registers hold, and in nothing else? */
bool flow_differs_in_registers(const struct flow_state *a, const struct flow_state *b);
/* Is what is known at a place true of a way that arrives there? */
bool flow_says_no_more(const struct flow_state *known, const struct flow_state *s);
/* Is all as the function found it: the return address on top of the stack, the caller's values in both registers? */
bool flow_is_clean(const struct flow_state *s);
struct unwind_rule flow_rule(const struct flow_state *s);
