/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * From a frame to its caller by one rule. There is no check that stacks only grow: OCaml 5's fibers, Go's stack switches,
 * signal stacks and coroutines go elsewhere.
 */
#pragma once
#include "bpf/unwind/walk.h"

/* A signal frame: the interrupted code's registers are all in its ucontext, and its pc is exact. */
UNWIND_FN enum unwind_result walk_by_signal(struct walk *w)
{
	__u64 *r = w->regs, ucontext = r[UNWIND_SP] + (__s64)w->rule.off;
	const __u64 *g = w->gregs;

	if (!WALK_KNOWS(w, UNWIND_SP))
		return walk_cut(w, ABI_CUT_LOST_REGISTER);

	/* asm/ucontext.h: uc_flags, uc_link, uc_stack; arm64: and the signal mask, in 128 bytes, and fault_address */
	if (unwind_read_user(w, w->gregs, sizeof(w->gregs), ucontext + (UNWIND_ARM64 ? 184 : 40)))
		return walk_cut(w, ABI_CUT_READ_FAULT);
	w->fp_at = w->bx_at = 0;
	w->known = UNWIND_ALL_REGS;
	w->exact = 1;
#if UNWIND_ARM64
	for (__u32 i = 0; i < UNWIND_N_REGS; i++)
		r[i] = g[i];
	return walk_arrive(w, g[32], g[31], UNWIND_BY_SIGNAL);
#else
	for (__u32 i = 0; i < 8; i++)
		r[8 + i] = g[i];
	r[5] = g[8]; /* rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip */
	r[4] = g[9];
	r[6] = g[10];
	r[3] = g[11];
	r[1] = g[12];
	r[0] = g[13];
	r[2] = g[14];
	return walk_arrive(w, g[16], g[15], UNWIND_BY_SIGNAL);
#endif
}

/*
 * By frame pointer. The ABI has 0 in it in the outermost frame; at the leaf a zero says that the code uses the register for
 * something else. w->fp_cut is the reason to give when it points nowhere sensible; where there is one nothing says that the
 * code keeps frame pointers, so the frame must lie above the stack pointer and near it.
 */
UNWIND_FN enum unwind_result walk_by_fp(struct walk *w)
{
	enum unwind_result r = walk_need(w, UNWIND_FP);
	__u64 fp = w->regs[UNWIND_FP], sp = w->regs[UNWIND_SP];
	bool guess = w->fp_cut != ABI_CUT_NONE;

	if (r != UNWIND_MORE)
		return r;
	if (!fp)
		return w->n_steps || !guess ? UNWIND_ROOT : walk_cut(w, w->fp_cut);
	if (fp & 7 || fp >= UNWIND_USER_MAX)
		return walk_cut(w, guess ? w->fp_cut : ABI_CUT_FP_INSANE);
	if (guess && WALK_KNOWS(w, UNWIND_SP) && (fp < sp || fp - sp > UNWIND_MAX_FRAME_BYTES))
		return walk_cut(w, w->fp_cut);
	if (unwind_read_stack(w, w->pair, 2, fp))
		return walk_cut(w, ABI_CUT_READ_FAULT);
	w->regs[UNWIND_FP] = w->pair[0];
	/* Unknown: whether the code saved other registers and, on arm64, where in its frame the record lies. */
	w->known &= UNWIND_ARM64 ? 1U << UNWIND_FP : 1U << UNWIND_FP | 1U << UNWIND_SP;
	w->exact = 0;
	return walk_arrive(w, w->pair[1], fp + sizeof(w->pair), UNWIND_BY_FP);
}

/* The caller's stack pointer by the rule in w->rule, into w->cfa. */
UNWIND_FN enum unwind_result walk_cfa(struct walk *w)
{
	const struct unwind_rule *rule = &w->rule;
	__u32 reg = rule->reg & (UNWIND_N_REGS - 1);
	enum unwind_result r = walk_need(w, reg);

	if (r != UNWIND_MORE)
		return r;
	w->cfa = w->regs[reg];
	if (rule->cfa == UNWIND_CFA_DEREF || rule->cfa == UNWIND_CFA_DEREF2)
		if (unwind_read_user(w, &w->cfa, sizeof(w->cfa), w->cfa + (__s64)rule->d1))
			return walk_cut(w, ABI_CUT_READ_FAULT);
	if (rule->cfa == UNWIND_CFA_DEREF2)
		if (unwind_read_user(w, &w->cfa, sizeof(w->cfa), w->cfa + (__s64)rule->d2))
			return walk_cut(w, ABI_CUT_READ_FAULT);
	if (rule->cfa == UNWIND_CFA_PLT && (w->pc & 15) >= (__u32)rule->d1)
		w->cfa += 8;
	w->cfa += (__s64)rule->off;
	return w->cfa & 7 ? walk_cut(w, ABI_CUT_CFA_INSANE) : UNWIND_MORE;
}

/* Address of a save slot, 0 when the register is not in memory. */
UNWIND_FN __u64 walk_slot(const struct walk *w, __u32 where, __s32 off)
{
	switch (where) {
	case UNWIND_AT_CFA: return w->cfa + (__s64)off;
	case UNWIND_AT_FP: return w->regs[UNWIND_FP] + (__s64)off;
	case UNWIND_AT_SP: return w->regs[UNWIND_SP] + (__s64)off;
	default: return 0;
	}
}

/* A followed register on the way to the caller: its slot is remembered and read only when something needs the value. */
UNWIND_FN void walk_follow(struct walk *w, __u32 reg, __u64 *at, __u32 where, __s32 off)
{
	__u64 slot = walk_slot(w, where, off);

	if (where == UNWIND_GONE ||
		(where == UNWIND_IN_REG && !WALK_KNOWS(w, off & (UNWIND_N_REGS - 1)))) {
		w->known &= ~(1U << reg);
	} else if (where == UNWIND_IN_REG) {
		w->regs[reg] = w->regs[off & (UNWIND_N_REGS - 1)];
		*at = 0;
	} else if (where != UNWIND_SAME) {
		w->known |= 1U << reg;
		*at = slot;
	}
}

/* The return address into w->pair[1]. */
UNWIND_FN enum unwind_result walk_return_address(struct walk *w, bool *ret_paired)
{
	const struct unwind_rule *rule = &w->rule;
	__u32 reg = rule->ra_off & (UNWIND_N_REGS - 1);
	__u64 at;

	*ret_paired = false;
	if (rule->ra == UNWIND_IN_REG) {
		w->pair[1] = w->regs[reg];
		return WALK_KNOWS(w, reg) ? UNWIND_MORE : walk_cut(w, ABI_CUT_LOST_REGISTER);
	}
	at = walk_slot(w, rule->ra, rule->ra_off);
	/* The usual frame has both side by side: one read for two. */
	*ret_paired = rule->ra == UNWIND_AT_CFA && rule->fp == UNWIND_AT_CFA &&
		      rule->fp_off == rule->ra_off - 8;
	if (*ret_paired ? unwind_read_stack(w, w->pair, 2, at - 8)
			: unwind_read_stack(w, &w->pair[1], 1, at))
		return walk_cut(w, ABI_CUT_READ_FAULT);
	return UNWIND_MORE;
}

UNWIND_FN enum unwind_result walk_by_cfi(struct walk *w)
{
	const struct unwind_rule *rule = &w->rule;
	enum unwind_result r;
	bool paired;

	if (rule->ra == UNWIND_GONE)
		return UNWIND_ROOT;
	/* Slots that hang on the frame pointer want its value of this frame. */
	if (rule->fp == UNWIND_AT_FP || rule->bx == UNWIND_AT_FP || rule->ra == UNWIND_AT_FP) {
		r = walk_need(w, UNWIND_FP);
		if (r != UNWIND_MORE)
			return r;
	}
	r = walk_cfa(w);
	if (r == UNWIND_MORE)
		r = walk_return_address(w, &paired);
	if (r != UNWIND_MORE)
		return r;
	walk_follow(w, UNWIND_BX, &w->bx_at, rule->bx, rule->bx_off);
	walk_follow(w, UNWIND_FP, &w->fp_at, rule->fp, rule->fp_off);
	if (paired) {
		w->regs[UNWIND_FP] = w->pair[0];
		w->fp_at = 0;
	}
	w->known = (w->known & (1U << UNWIND_FP | 1U << UNWIND_BX)) | 1U << UNWIND_SP;
	w->exact = 0;
	return walk_arrive(
		w, w->pair[1], w->cfa, rule->cfa == UNWIND_CFA_PLT ? UNWIND_BY_PLT : UNWIND_BY_CFI);
}

/*
 * The rule of nearly all code, as one word (unwind_plain). In the kernel a walk is mostly this, and function calls are what it
 * costs: so it is a path of its own, without any. w->rule is not touched but for its kind.
 */
UNWIND_FN bool walk_can_plain(const struct walk *w, __u64 plain)
{
	return USUAL(plain && WALK_KNOWS(w, plain & UNWIND_PLAIN_BY_FP ? UNWIND_FP : UNWIND_SP));
}

UNWIND_FN enum unwind_result walk_by_plain(struct walk *w, __u64 plain)
{
	bool by_fp = plain & UNWIND_PLAIN_BY_FP;
	__s64 ra_off = UNWIND_PLAIN_RA_OFF(plain), fp_off = UNWIND_PLAIN_FP_OFF(plain);
	bool paired = plain & UNWIND_PLAIN_FP && fp_off == ra_off - 8;
	__u64 cfa;

	w->rule.cfa = UNWIND_CFA_REG;
	if (RARE(!ra_off))
		return UNWIND_ROOT;
	if (by_fp && RARE(w->fp_at) && walk_fetch(w, UNWIND_FP, &w->fp_at) != UNWIND_MORE)
		return UNWIND_CUT;
	cfa = w->regs[by_fp ? UNWIND_FP : UNWIND_SP] + UNWIND_PLAIN_OFF(plain);
	if (RARE(cfa & 7))
		return walk_cut(w, ABI_CUT_CFA_INSANE);
	/* One read for both where the frame pointer is below the return address, and no other code where it is not. */
	if (RARE(unwind_read_stack(w, w->pair, 2, cfa + ra_off - 8)) &&
		(paired || unwind_read_user(w, &w->pair[1], sizeof(w->pair[1]), cfa + ra_off)))
		return walk_cut(w, ABI_CUT_READ_FAULT);
	if (plain & UNWIND_PLAIN_BX) {
		w->bx_at = cfa + UNWIND_PLAIN_BX_OFF(plain);
		w->known |= 1U << UNWIND_BX;
	}
	if (plain & UNWIND_PLAIN_FP) {
		w->fp_at = paired ? 0 : cfa + fp_off;
		w->known |= 1U << UNWIND_FP;
	}
	if (paired)
		w->regs[UNWIND_FP] = w->pair[0];
	w->known = (w->known & (1U << UNWIND_FP | 1U << UNWIND_BX)) | 1U << UNWIND_SP;
	w->exact = 0;
	return walk_arrive(w, w->pair[1], cfa, UNWIND_BY_CFI);
}

/* The step that w->rule says. */
UNWIND_FN enum unwind_result walk_by_rule(struct walk *w)
{
	const struct unwind_rule *rule = &w->rule;
	__u32 cfa = rule->cfa;

	/* arm64: a caller that was found by frame record has no sp; its own record is all that is left. */
	if (UNWIND_ARM64 && rule->reg == UNWIND_SP && !WALK_KNOWS(w, UNWIND_SP))
		cfa = UNWIND_CFA_FP;
	if (cfa == UNWIND_CFA_UNKNOWN)
		return walk_cut(w, ABI_CUT_BAD_RULE);
	if (cfa == UNWIND_CFA_FP)
		return walk_by_fp(w);
	if (cfa == UNWIND_CFA_SIGNAL)
		return walk_by_signal(w);
	return walk_by_cfi(w);
}
