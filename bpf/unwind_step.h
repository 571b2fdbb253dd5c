/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * One turn of a walk: where the frame's code is, what its frame is called, and one step to its caller: by unwind tables where
 * a row covers the code, by what the code itself says or by frame pointer where none does. ABI_MAX_STEPS bounds a walk that goes
 * in circles.
 */
#pragma once
#include "bpf/unwind_rule.h"

/* A rule of the walker's own: the return address lies `above` bytes above sp, below it the frame pointer when there is room. */
UNWIND_FN void walk_set_rule(struct walk *w, enum unwind_cfa cfa, __s32 above)
{
	w->rule = (struct unwind_rule) {
		.cfa = cfa,
		.reg = UNWIND_SP,
		.ra = UNWIND_AT_CFA,
		.fp = above ? UNWIND_AT_CFA : UNWIND_SAME,
		.off = above + 8,
		.ra_off = -8,
		.fp_off = -16,
	};
}

/* mov $15, %rax (or %eax); syscall; arm64: mov x8, #139; svc #0 */
UNWIND_FN bool walk_is_trampoline(__u64 lo, __u64 hi)
{
	if (UNWIND_ARM64)
		return lo == 0xd4000001d2801168ULL;
	return (lo == 0x0f0000000fc0c748ULL && (__u8)hi == 0x05) ||
	       (lo & 0xffffffffffffffULL) == 0x050f0000000fb8ULL;
}

/*
 * No row covers the code. It may still be the trampoline of a signal handler (musl and Go have no rows for theirs); where pc
 * is exact, the first instructions of a function and its return tell that the frame pointer is not set up yet or no more;
 * everywhere else the frame pointer is what there is. What tells a root by its code are places in files: in JIT code the same
 * instructions always have a caller.
 */
UNWIND_FN void walk_rule_from_code(struct walk *w, bool is_in_file)
{
	__u64 lo;

	walk_set_rule(w, UNWIND_CFA_FP, 0);
	if (unwind_read_user(w, w->code, sizeof(w->code), w->pc))
		return;
	lo = w->code[0];
	if (walk_is_trampoline(lo, w->code[1])) {
		walk_set_rule(w, UNWIND_CFA_SIGNAL, 0);
		w->rule.off = UNWIND_SIGNAL_UCONTEXT;
	}
	if (UNWIND_ARM64)
		return;
	/* test %rax, %rax; jl: behind the system call in clone and clone3, where glibc has no rows because the two threads that
	 * return there want different ones. The new one has no caller. */
	if (is_in_file && !w->n_steps && (lo & 0xffffff) == 0xc08548 &&
		((__u8)(lo >> 24) == 0x7c || (__u16)(lo >> 24) == 0x8c0f)) {
		walk_set_rule(w, UNWIND_CFA_REG, 0);
		if (!w->regs[0])
			w->rule.ra = UNWIND_GONE;
		return;
	}
	if (!w->exact) {
		/* mov %eax, %edi (or 64 bits wide); call: what main or a thread's function returned may go to exit, which does
		 * not return. musl has no rows for where it calls them. Other code without rows (Chromium's) passes results
		 * on like this too, and keeps frame pointers. */
		if (is_in_file && ((lo & 0xffffff) == 0xe8c789 || (__u32)lo == 0xe8c78948))
			w->fp_cut = WALK_MAY_BE_ROOT;
		return;
	}
	/* push %rbp; ret; endbr64 */
	if ((__u8)lo == 0x55 || (__u8)lo == 0xc3 || (__u32)lo == 0xfa1e0ff3)
		walk_set_rule(w, UNWIND_CFA_REG, 0);
	/* mov %rsp, %rbp in its two encodings */
	else if ((lo & 0xffffff) == 0xe58948 || (lo & 0xffffff) == 0xec8b48)
		walk_set_rule(w, UNWIND_CFA_REG, 8);
}

/* The rule at w->off of w->binary by its table, into w->rule: enum unwind_found. */
UNWIND_ALONE int unwind_find(struct walk *w)
{
	return w ? unwind_lookup(w, w->binary, w->off, &w->rule, &w->scratch) : UNWIND_NO_TABLE;
}

/* The step that w->rule says: enum unwind_result. */
UNWIND_ALONE int unwind_apply(struct walk *w)
{
	return w ? walk_by_rule(w) : UNWIND_CUT;
}

/* The rule of code in a file: enum unwind_found, and *ret_plain when the rule is of the usual kind; else it is in w->rule. */
UNWIND_FN int walk_find(struct walk *w, __u64 *ret_plain)
{
	struct unwind_near *near = unwind_near_at(w);
	__u32 seq = 0;
	__u64 key = unwind_key_of(w, w->binary, w->off, &seq, &w->scratch);
	int found = UNWIND_FOUND;

	*ret_plain = !near || !key ? 0
		     : w->n_steps  ? unwind_near_find(near, &w->near, key, seq)
				   : unwind_near_find_leaf(near, key, seq);
	if (walk_can_plain(w, *ret_plain))
		return UNWIND_FOUND;
	if (!key || !unwind_recall(w, w->binary, key, seq, &w->rule, &w->scratch))
		found = unwind_find(w);
	*ret_plain = found == UNWIND_FOUND ? unwind_plain(&w->rule) : 0;
	if (!walk_can_plain(w, *ret_plain))
		*ret_plain = 0;
	else if (near && key && w->n_steps)
		unwind_near_add(near, &w->near, key, *ret_plain, seq);
	else if (near && key)
		unwind_near_add_leaf(near, key, *ret_plain, seq);
	return found;
}

/* From a located frame to its caller. */
UNWIND_FN enum unwind_result unwind_step(struct walk *w, enum unwind_place place)
{
	int found = UNWIND_NO_ROW;
	__u64 plain = 0;

	w->fp_cut = ABI_CUT_NONE;
	if (place == UNWIND_IN_JIT_NO_FP)
		return walk_cut(w, ABI_CUT_NO_TABLE);
	if (place == UNWIND_IN_FILE)
		found = walk_find(w, &plain);
	if (plain)
		return walk_by_plain(w, plain);
	if (place == UNWIND_UNTOLD) {
		w->lacks = 1;
		w->fp_cut = ABI_CUT_FP_INSANE;
		walk_set_rule(w, UNWIND_CFA_FP, 0);
		return unwind_apply(w);
	}
	if (found == UNWIND_NO_TABLE || place == UNWIND_SOMEWHERE || place == UNWIND_IN_DATA) {
		/* A frame pointer would be a guess: in a prologue, or in code that keeps none, it skips callers. */
		w->lacks = 1;
		w->lacking = place == UNWIND_IN_FILE ? w->binary : 0;
		return walk_cut(w, ABI_CUT_NO_TABLE);
	}
	if (found == UNWIND_NO_ROW) {
		/* JIT code that calls C may have its own stack elsewhere (BEAM): below a leaf its frame pointer
		 * is taken as it is. */
		w->fp_cut = place == UNWIND_IN_FILE ? ABI_CUT_NO_TABLE
			    : w->n_steps	    ? ABI_CUT_NONE
						    : ABI_CUT_FP_INSANE;
		walk_rule_from_code(w, place == UNWIND_IN_FILE);
	}
	return unwind_apply(w);
}

/*
 * The word that a located frame is recorded as. Readers look one byte lower for all but the leaf, as return addresses want it;
 * code that a signal interrupted, and the trampoline below its handler, are recorded one byte higher so that this finds them.
 */
UNWIND_FN __u64 walk_frame(const struct walk *w, enum unwind_place place, bool leaf)
{
	__u32 up = !leaf || !w->exact;

	if (place == UNWIND_IN_FILE)
		return ABI_NATIVE(w->binary, w->off + up);
	return ABI_FRAME(place == UNWIND_IN_JIT || place == UNWIND_IN_JIT_NO_FP ? ABI_FRAME_JIT
										: ABI_FRAME_RAW,
		w->pc - !w->exact + up);
}

/* One turn of the loop: records the frame and goes on to its caller. 1 ends it. */
UNWIND_FN int walk_turn(struct walk *w, __u64 *words)
{
	enum unwind_place place = unwind_locate(w, w->pc - !w->exact);
	enum unwind_result r = UNWIND_CUT;
	__u64 frame;

	if (place == UNWIND_IN_DATA && w->n_steps) {
		w->cut = w->fp_cut == WALK_MAY_BE_ROOT ? ABI_CUT_NONE : ABI_CUT_BAD_PC;
		return 1;
	}
	frame = walk_frame(w, place, !w->n_steps);
	if (w->n_steps < ABI_MAX_STEPS) {
		__u32 trampoline = !w->exact && w->n_steps;

		w->result = unwind_step(w, place);
		r = UNWIND_ONCE(w->result);
		frame += trampoline && w->rule.cfa == UNWIND_CFA_SIGNAL;
		if (r == UNWIND_CUT && w->fp_cut == WALK_MAY_BE_ROOT)
			w->cut = ABI_CUT_NONE;
	} else {
		w->cut = ABI_CUT_DEPTH;
	}
	frames_add(&w->frames, words, frame);
	return r != UNWIND_MORE;
}
