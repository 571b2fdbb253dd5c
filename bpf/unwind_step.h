/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * One step from a frame to its caller. unwind_step() is the walker's interface: the loop and the frames know nothing of how
 * the caller is found. Here it is found by frame pointer (rbp → {saved rbp, return address}). Compiled for BPF and for the
 * host, which supplies unwind_read_user.
 */
#pragma once
#include "bpf/unwind_frames.h"

/* Reads user memory: 0, or negative when the page is not there. */
#ifdef __bpf__
#define unwind_read_user(w, to, len, from) bpf_probe_read_user(to, len, (const void *)(from))
#endif

#define UNWIND_USER_MAX \
	(1ULL << 47) /* x86-64, four-level page tables; larger addresses need an explicit mmap hint */
#define UNWIND_USER_MIN 4096
#define UNWIND_MAX_FRAME_BYTES \
	(1ULL << 20) /* a larger distance between two frames is taken for a stray rbp */

enum unwind_result {
	UNWIND_MORE,
	UNWIND_ROOT, /* the outermost frame was the last one */
	UNWIND_CUT,  /* walk.cut says why */
};

struct walk {
	__u64 pc, sp, fp;
	__u64 pair[2]; /* {saved rbp, return address} */
	__u32 n_steps; /* callers found so far */
	__u32 cut;     /* enum abi_cut */
	struct frames frames;
};

UNWIND_FN void walk_init(struct walk *w, __u64 pc, __u64 sp, __u64 fp, __u32 n_kernel)
{
	w->pc = pc;
	w->sp = sp;
	w->fp = fp;
	w->n_steps = 0;
	w->cut = ABI_CUT_NONE;
	frames_init(&w->frames, n_kernel);
}

UNWIND_FN enum unwind_result walk_cut(struct walk *w, enum abi_cut why)
{
	w->cut = why;
	return UNWIND_CUT;
}

/*
 * By frame pointer. The ABI has rbp = 0 in the outermost frame; at the leaf a zero says that the code uses rbp for something
 * else. The stack grows down, so each frame must lie above the last one.
 */
UNWIND_FN enum unwind_result unwind_step(struct walk *w)
{
	__u64 fp = w->fp, pc;

	if (!fp)
		return w->n_steps ? UNWIND_ROOT : walk_cut(w, ABI_CUT_FP_INSANE);
	if (fp < w->sp || fp - w->sp > UNWIND_MAX_FRAME_BYTES || fp & 7)
		return walk_cut(w, ABI_CUT_FP_INSANE);
	if (unwind_read_user(w, w->pair, sizeof(w->pair), fp))
		return walk_cut(w, ABI_CUT_READ_FAULT);
	pc = w->pair[1];
	if (!pc)
		return UNWIND_ROOT;
	if (pc < UNWIND_USER_MIN || pc >= UNWIND_USER_MAX)
		return walk_cut(w, ABI_CUT_BAD_PC);
	w->pc = pc;
	w->sp = fp + sizeof(w->pair);
	w->fp = w->pair[0];
	w->n_steps++;
	return UNWIND_MORE;
}

/* One turn of the loop: 1 ends it. */
UNWIND_FN int walk_turn(struct walk *w, __u64 *words)
{
	if (unwind_step(w) != UNWIND_MORE)
		return 1;
	frames_add(&w->frames, words, ABI_FRAME(ABI_FRAME_RAW, w->pc));
	if (w->n_steps < ABI_MAX_STEPS)
		return 0;
	w->cut = ABI_CUT_DEPTH;
	return 1;
}
