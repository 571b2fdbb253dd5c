/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The walker: from the registers of a thread to the frames of its user stack. One source for the kernel half, for walks over copied
 * stacks in user space (exporter/walk/deferred.c) and for tests, on x86-64 and arm64.
 *
 * Whoever walks includes this header and defines the nine functions of bpf/unwind/hooks.h behind it: how memory is read, what an
 * address lies in, where the tables are. Then
 *
 *	walk_init(&w, n_kernel);                 // n_kernel words of kernel frames lie in front
 *	w.pc = …, w.regs[…] = …;                 // DWARF numbers
 *	w.known = UNWIND_ALL_REGS;               // which of them hold the thread's values
 *	w.exact = …;                             // 0: pc is a return address
 *	while (!walk_turn(&w, words))
 *		;                                // at most ABI_MAX_STEPS + 1 turns; bpf_loop in the kernel half
 *	…                                        // where languages have frames, what is left of them (bpf/interp/interp.h)
 *	n = frames_end(&w.frames, words, spare, w.cut);
 *
 * leaves n frame words (bpf/abi.h), leaf first, behind the kernel's in `words`. w.cut says why the stack ends before its root
 * (ABI_CUT_NONE: it does not), w.lacks whether a mapping or a table that may still come was missing.
 *
 * The parts, each including the one before:
 *
 *	frames.h   the frames found: recursion as REPEAT words, the middle of deep stacks as one ELIDED word
 *	tables.h   unwind tables as they lie in memory
 *	near.h     what the last walks on a CPU found, and rules as one word
 *	hooks.h    what the walker asks of its surroundings
 *	cache.h    answers of the tables, by place
 *	lookup.h   place in a file → rule
 *	walk.h     the state of a walk, its window on the stack
 *	rule.h     one step by a rule
 *	given_back.h  frames that code without rows gives back before it returns
 *	code.h     what else such code says of its frame
 *	root.h     where stacks begin that no row marks
 *	step.h     one step, by whatever applies
 */
#pragma once
#include "bpf/unwind/step.h"

/*
 * The word that a located frame is recorded as. Readers look one byte lower for all but the leaf, as return addresses want it;
 * code that a signal interrupted, and the trampoline below its handler, are recorded one byte higher so that this finds them.
 */
UNWIND_FN __u64 walk_frame(const struct walk *w, enum unwind_place place, bool leaf)
{
	__u32 up = !leaf || !w->exact;

	if (USUAL(place == UNWIND_IN_FILE))
		return ABI_NATIVE(w->binary, w->off + up);
	return ABI_FRAME(place >= UNWIND_IN_JIT && place <= UNWIND_IN_JIT_CHAIN ? ABI_FRAME_JIT
										: ABI_FRAME_RAW,
		w->pc - !w->exact + up);
}

/* One turn of the loop: records the frame and goes on to its caller. 1 ends it. */
UNWIND_FN int walk_turn(struct walk *w, __u64 *words)
{
	enum unwind_place place = unwind_locate(w, w->pc - !w->exact);
	enum unwind_result r = UNWIND_CUT;
	__u64 frame;

	w->is_exact_leaf = !w->n_steps && w->exact;

	if (RARE(place == UNWIND_IN_DATA && w->n_steps)) {
		w->cut = w->fp_cut == WALK_MAY_BE_ROOT ? ABI_CUT_NONE : ABI_CUT_BAD_PC;
		return 1;
	}
	if (RARE(!walk_holds(w, place))) {
		w->cut = ABI_CUT_FP_INSANE;
		return 1;
	}
	frame = walk_frame(w, place, !w->n_steps);
	if (USUAL(w->n_steps < ABI_MAX_STEPS)) {
		__u32 trampoline = !w->exact && w->n_steps;

		if (RARE(unwind_own_step(w, place)))
			frame = w->word ? w->word : frame;
		else
			w->result = unwind_step(w, place);
		r = UNWIND_ONCE(w->result);
		frame += trampoline && w->rule.cfa == UNWIND_CFA_SIGNAL;
		if (RARE(r == UNWIND_CUT) && w->fp_cut == WALK_MAY_BE_ROOT) {
			w->cut = ABI_CUT_NONE;
		} else if (RARE(r != UNWIND_MORE) && trampoline && place == UNWIND_IN_FILE &&
			   unwind_is_written(w)) {
			w->cut = ABI_CUT_NONE;
			frame++; /* it is no return address: its own byte is the function's */
		}
	} else {
		w->cut = ABI_CUT_DEPTH;
	}
	if (RARE(w->has_interp == WALK_HAS_RUNS))
		frame += unwind_interp(w, words);
	frames_add(&w->frames, words, frame);
	/* Readers look one byte lower for return addresses: no cycle may have one that is none in it. */
	if (RARE(UNWIND_ONCE(w->is_exact_leaf)))
		frames_forget(&w->frames);
	return r != UNWIND_MORE;
}
