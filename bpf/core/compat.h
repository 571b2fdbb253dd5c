/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * User stacks of 32-bit processes: the function that runs, and its callers as far as frame pointers lead to return addresses behind
 * calls. Such programs have no unwind tables here, and most keep no frame pointers: the stack is always said to be cut.
 */
#pragma once
#include "bpf/core/user_frames.h"

enum { COMPAT_MAX_FRAMES = 256 };

struct compat {
	struct scratch *s;
};

/* Records the frame at w->pc and goes on to its caller; 1 when there is none. */
static long compat_callback(__u32 i, struct compat *c)
{
	struct walk *w = &c->s->walk;
	__u64 fp = w->regs[UNWIND_FP];
	__u32 pair[2] = {0, 0}; /* the caller's frame pointer, the return address */
	enum unwind_place place = unwind_locate(w, w->pc - !w->exact);

	if (i && place != UNWIND_IN_FILE && place != UNWIND_IN_JIT)
		return 1;
	frames_add(&w->frames, c->s->words, walk_frame(w, place, !i));
	if (UNWIND_ARM64 || !fp || bpf_probe_read_user(pair, sizeof(pair), (const void *)fp))
		return 1;
	if (pair[0] && pair[0] <= fp)
		return 1;
	w->pc = pair[1];
	w->exact = 0;
	w->regs[UNWIND_FP] = pair[0];
	if (bpf_probe_read_user(w->code, sizeof(w->code[0]), (const void *)(w->pc - 8)))
		return 1;
	return !walk_ends_in_call(w->code[0]);
}

/* From the registers in scratch; returns the number of words. */
static __always_inline __u32 compat_walk(struct scratch *s, struct task_struct *task)
{
	struct compat c = {.s = s};
	struct frames_copy copy;

	walker_begin(s, task);
	bpf_loop(COMPAT_MAX_FRAMES, compat_callback, &c, 0);
	(void)frames_finish(&s->walk.frames, s->words, s->spare, &copy);
	return frames_close(&s->walk.frames, s->words, ABI_CUT_COMPAT32);
}
