/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * A walk in progress: the registers of the frame that it has reached, and the frames found so far. Compiled for BPF and for
 * the host, x86-64 and arm64.
 */
#pragma once
#include "bpf/unwind/lookup.h"

/*
 * Stack is read this much at a time: frames lie side by side, and asking the kernel for user memory costs more than all else
 * of a step.
 */
#define UNWIND_WINDOW_WORDS 64

#define UNWIND_USER_MAX \
	(1ULL << (UNWIND_ARM64 ? 52 : 47)) /* larger ones on x86-64 need an explicit mmap hint */
#define UNWIND_USER_MIN 4096
#define UNWIND_STACK_PAGE 4096U /* no page is smaller */
/*
 * Bits of a return address that may be its signature (arm64, pointer authentication): 48 to 54. Code above 2^48 exists only
 * where a program asked for it by an mmap hint, and is not walked through.
 */
#define UNWIND_PAC_MASK (UNWIND_ARM64 ? 0x7fULL << 48 : 0)
#define UNWIND_MAX_FRAME_BYTES \
	(1ULL << 20) /* a larger distance between two frames is taken for a stray frame pointer */

enum unwind_result {
	UNWIND_MORE,
	UNWIND_ROOT, /* the outermost frame was the last one */
	UNWIND_CUT,  /* walk.cut says why */
};

/* From the stack pointer in a signal trampoline to the ucontext. arm64 has the siginfo_t before it. */
#define UNWIND_SIGNAL_UCONTEXT (UNWIND_ARM64 ? 128 : 0)

/* How callers were found. */
enum unwind_method {
	UNWIND_BY_CFI,
	UNWIND_BY_FP,
	UNWIND_BY_PLT,
	UNWIND_BY_SIGNAL,
	UNWIND_N_METHODS
};

/* Stack that was read, from `at` up. */
struct unwind_window {
	__u64 at, bytes;
	__u64 words[UNWIND_WINDOW_WORDS];
};

/* Where a language has its frames. */
enum walk_languages {
	WALK_HAS_NONE,
	WALK_HAS_RUNS,	 /* in a chain of its own, between native ones */
	WALK_HAS_FRAMES, /* they are native frames */
};

/* The frame's code may have no caller: it has none when its frame pointer leads to none. */
#define WALK_MAY_BE_ROOT ABI_N_CUTS

struct walk {
	__u64 pc;
	__u64 regs[UNWIND_N_REGS]; /* DWARF numbers */
	__u64 fp_at,
		bx_at; /* where the value of that register is in memory, not read yet; 0: in regs */
	__u64 off;     /* of the code looked up, in file `binary` */
	__u64 cfa;
	union {
		__u64 pair[2];		     /* {saved frame pointer, return address} */
		__u64 code[2];		     /* at pc */
		__u64 gregs[UNWIND_N_GREGS]; /* of a signal frame */
	};
	struct unwind_rule rule;
	__u64 plain; /* the same in short (bpf/unwind/near.h) of what was found last */
	__u32 binary;
	__u32 known;   /* registers that hold the frame's values, a bit each */
	__u32 exact;   /* pc is the instruction to run next; otherwise a return address */
	__u32 n_steps; /* callers found so far */
	__u32 by[UNWIND_N_METHODS];
	__u32 lacks; /* for want of what may still come, mappings or a table, it was cut or guessed */
	__u32 lacking; /* the binary whose table that is, 0: of mappings */
	__u32 fp_cut;  /* enum abi_cut of a frame pointer that leads nowhere, or WALK_MAY_BE_ROOT */
	__u32 cut;     /* enum abi_cut */
	__u32 place;   /* enum unwind_place of the frame before this one, then of this */
	__u32 method;  /* enum unwind_method by which this frame was found */
	__u32 is_exact_leaf; /* of a turn: its frame is the first, and no return address */
	__u32 is_made; /* its return address and frame pointer are an outermost frame's, written there by hand */
	__u32 scratch;
	__u32 result;	  /* of a turn */
	__u32 near;	  /* step of the last answer in unwind_near */
	__u32 is_compat;  /* 32-bit code: by frame pointers of half the width alone */
	__u32 has_interp; /* enum walk_languages: frames of a language are looked for too */
	__u64 word;	  /* of a frame that is a language's own; 0: its native one */
	struct frames frames;
	struct unwind_window window;
};

/* Next the caller fills in pc, regs, known and exact. */
UNWIND_FN void walk_init(struct walk *w, __u32 n_kernel)
{
	w->fp_at = w->bx_at = 0;
	w->known = 0;
	w->exact = 1;
	w->n_steps = w->lacks = w->lacking = w->near = w->is_compat = w->has_interp = 0;
	w->place = UNWIND_IN_FILE;
	w->method = UNWIND_BY_CFI;
	w->is_made = 0;
	for (__u32 i = 0; i < UNWIND_N_METHODS; i++)
		w->by[i] = 0;
	w->cut = ABI_CUT_NONE;
	w->window.bytes = 0;
	frames_init(&w->frames, n_kernel);
}

UNWIND_FN enum unwind_result walk_cut(struct walk *w, enum abi_cut why)
{
	w->cut = why;
	return UNWIND_CUT;
}

#define WALK_KNOWS(w, reg) ((w)->known >> (reg)&1)

/* Moves the window to `from`, as far as its page goes; its size is 0 when that is not in memory. */
UNWIND_ALONE int unwind_fill(struct walk *w, __u64 from)
{
	__u64 n = UNWIND_STACK_PAGE - (from & (UNWIND_STACK_PAGE - 1));

	if (!w)
		return 0;
	if (n > sizeof(w->window.words))
		n = sizeof(w->window.words);
	w->window.at = from;
	w->window.bytes = unwind_read_user(w, w->window.words, n, from) ? 0 : n;
	return 0;
}

/* n words (1 or 2) of the stack: 0, or negative when they are not in memory. */
UNWIND_FN int unwind_read_stack(struct walk *w, __u64 *to, __u32 n, __u64 from)
{
	const struct unwind_window *v = &w->window;
	__u64 bytes = n * sizeof(*to), off = from - v->at;
	__u32 i;

	if (RARE(off & 7 || off >= v->bytes || v->bytes - off < bytes)) {
		unwind_fill(w, from);
		off = 0;
		if (RARE(v->bytes < bytes)) /* on two pages, or at the end of what there is */
			return unwind_read_user(w, to, bytes, from);
	}
	i = (__u32)off / sizeof(*to) & (UNWIND_WINDOW_WORDS - 1);
	to[0] = v->words[i];
	if (n > 1)
		to[1] = v->words[(i + 1) & (UNWIND_WINDOW_WORDS - 1)];
	return 0;
}

/* Fetches a followed register's value that is still in memory. */
UNWIND_FN enum unwind_result walk_fetch(struct walk *w, __u32 reg, __u64 *at)
{
	__u64 from = *at;

	*at = 0;
	if (from && unwind_read_stack(w, &w->regs[reg], 1, from))
		return walk_cut(w, ABI_CUT_READ_FAULT);
	return UNWIND_MORE;
}

/* Makes regs[reg] hold the value that the register has in this frame. */
UNWIND_FN enum unwind_result walk_need(struct walk *w, __u32 reg)
{
	if (!WALK_KNOWS(w, reg))
		return walk_cut(w, ABI_CUT_LOST_REGISTER);
	if (reg == UNWIND_FP)
		return walk_fetch(w, UNWIND_FP, &w->fp_at);
	if (reg == UNWIND_BX)
		return walk_fetch(w, UNWIND_BX, &w->bx_at);
	return UNWIND_MORE;
}

/* To the caller, whose registers are in place but for these three. */
UNWIND_FN enum unwind_result walk_arrive(
	struct walk *w, __u64 pc, __u64 sp, enum unwind_method method)
{
	pc &= ~UNWIND_PAC_MASK;
	if (RARE(!pc))
		return UNWIND_ROOT;
	if (RARE(pc < UNWIND_USER_MIN || pc >= UNWIND_USER_MAX))
		return walk_cut(w, ABI_CUT_BAD_PC);
	w->pc = pc;
	w->regs[UNWIND_SP] = sp;
	w->n_steps++;
	w->by[method]++;
	w->method = method;
	return UNWIND_MORE;
}
