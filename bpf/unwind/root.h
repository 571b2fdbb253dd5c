/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Where stacks begin that no row marks: entries of programs and threads, fibers, frames made by hand.
 */
#pragma once
#include "bpf/unwind/code.h"

/* Where a program begins: before the call the dynamic linker has mov %rsp, %rdi or xor %ebp, %ebp, other C libraries have
 * and $-16, %rsp. Returns the four bytes before what the call calls; 0: it is no such place. */
#define WALK_ENTRY_ALIGNS 0xe8f0e483U
UNWIND_FN __u32 walk_is_entry(struct walk *w)
{
	__u32 code;

	w->code[0] = 0;
	if (UNWIND_ARM64 || w->exact || unwind_read_user(w, w->code, sizeof(code), w->pc - 8))
		return 0;
	code = (__u32)w->code[0];
	return code == 0xe8e78948 || code >> 8 == 0xe8ed31 || code == WALK_ENTRY_ALIGNS ? code : 0;
}

/*
 * The first function of a fiber or coroutine was never called: whoever made its stack wrote a return address there, mostly the first byte of
 * a function that is to run at the end, or to abort. Rows led to it, no call did, and above it the stack ends: in no memory, or in zeros of
 * what lies there. (A call of the
 * next byte is one of a function that follows at once: glibc's abort has it in front.)
 */
UNWIND_ALONE int unwind_is_written(struct walk *w)
{
	if (!w || w->method != UNWIND_BY_CFI ||
		(w->result == UNWIND_ROOT ? w->pair[1] != 0 : w->cut != ABI_CUT_READ_FAULT))
		return 0;
	if (unwind_read_user(w, w->code, sizeof(w->code[0]), w->pc - sizeof(w->code[0])))
		return 0;
	return !walk_ends_in_call(w->code[0]) || (!UNWIND_ARM64 && w->code[0] >> 24 == 0xe8);
}

/*
 * Code that keeps no frame pointer, and does not say where its frame is: does a thread or a program begin there? The register may be
 * unknown, since what does not return saves nothing. Without a frame pointer only a program's entry aligns the stack.
 */
UNWIND_ALONE int unwind_begins(struct walk *w)
{
	__u32 code;

	if (!w)
		return 0;
	if (w->fp_cut == WALK_MAY_BE_ROOT)
		return 1;
	code = walk_is_entry(w);
	if (!code)
		return 0;
	return code == WALK_ENTRY_ALIGNS ||
	       (walk_need(w, UNWIND_FP) == UNWIND_MORE && !w->regs[UNWIND_FP]);
}

/*
 * A frame pointer or a return address of 0 ends a stack where the code is known to have the one or keeps the other: by its row,
 * because a frame pointer led here, or where a thread or a program begins. Elsewhere it is any number in a register. JIT code
 * always has a caller in a file, but for frames made by hand.
 */
UNWIND_ALONE int unwind_may_end(struct walk *w)
{
	if (!w)
		return 0;
	if (w->place == UNWIND_IN_JIT || w->place == UNWIND_IN_JIT_FP)
		return w->is_made;
	return w->fp_cut == ABI_CUT_NONE || w->fp_cut == WALK_MAY_BE_ROOT ||
	       w->method == UNWIND_BY_FP || w->rule.ra == UNWIND_GONE || walk_is_entry(w) != 0;
}
