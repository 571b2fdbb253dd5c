/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Frames of code without rows that the code itself gives back before it returns, and the walker's own rules.
 */
#pragma once
#include "bpf/unwind/rule.h"

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

/*
 * Does the code at `lo` give back its frame and return: [add $n, %rsp] [pop %rbp] ret? Then what follows the call says where the return
 * address lies, whether there is a frame pointer or not. w->rule is set then. Python's trampolines (-X perf) are like this.
 */
UNWIND_FN bool walk_gives_back(struct walk *w, __u64 lo)
{
	__u32 above = 0, pops;

	if ((__u32)(lo & 0xffffff) == 0xc48348 && !(lo >> 31 & 1)) { /* 8 bits */
		above = (__u8)(lo >> 24);
		lo >>= 32;
	} else if ((__u32)(lo & 0xffffff) == 0xc48148 && !(lo >> 55 & 1)) { /* 32 bits */
		above = (__u32)(lo >> 24);
		lo >>= 56;
	}
	pops = (__u8)lo == 0x5d;
	if (pops)
		lo >>= 8;
	if ((__u8)lo != 0xc3)
		return false;
	walk_set_rule(w, UNWIND_CFA_REG, (__s32)(above + 8 * pops));
	if (!pops)
		w->rule.fp = UNWIND_SAME;
	return true;
}

/* Python's trampoline, at its first instruction and at its call: sub $8, %rsp; call *%rcx; add $8, %rsp; ret. */
UNWIND_FN bool walk_is_in_python(struct walk *w, __u64 lo)
{
	if (lo == 0x8348d1ff08ec8348ULL) {
		walk_set_rule(w, UNWIND_CFA_REG, 0);
		return true;
	}
	return (__u16)lo == 0xd1ff && walk_gives_back(w, lo >> 16);
}
