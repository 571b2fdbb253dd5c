/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * A walk of the kernel's stack by its unwind table, as unwind_next_frame of arch/x86/kernel/unwind_orc.c takes it. Cases
 * that are not written here are refused, and the kernel then walks the whole stack: another kind of entry, another stack than
 * the task's and the CPU's for interrupts, code outside the kernel's own text. Compiled for BPF
 * and for the host.
 */
#pragma once
#include "bpf/kernel/search.h"

enum kernel_result {
	KERNEL_MORE,
	KERNEL_ROOT, /* the frame before was the outermost */
	KERNEL_REFUSED,
};

/* Of struct pt_regs (x86-64). */
enum { KERNEL_REGS_BYTES = 168, KERNEL_REGS_BP = 32, KERNEL_REGS_IP = 128 };

#define KERNEL_FRAME_WORDS 8

struct kernel_walk {
	__u64 pc, sp, bp;
	__u64 low, high; /* the stack that sp lies on */
	__u64 task_low;	 /* where the task's begins, while the walk is on another; else 0 */
	union {
		__u64 frame[KERNEL_FRAME_WORDS]; /* what lies below the caller's frame */
		__u64 iret[4];			 /* ip, cs, flags, sp of a pt_regs */
	};
	__u32 stack_bytes;
	__u32 exact;  /* pc is the instruction to run next; otherwise a return address */
	__u32 result; /* enum kernel_result of the last turn */
	__u32 n;      /* frames */
	__u32 near;   /* step of the last answer in unwind_near */
};

#define KERNEL_ON_STACK(w, at, bytes) \
	((at) >= (w)->low && (at) <= (w)->high && (w)->high - (at) >= (bytes) && !((at)&7))

/* The address whose entry holds for this frame: of a caller the call, not what comes behind it. */
UNWIND_FN __u64 kernel_walk_addr(const struct kernel_walk *w)
{
	return w->exact ? w->pc : w->pc - 1;
}

/*
 * Before the first step. Where a stack that is not the task's begins and ends is not asked for: what is read of it lies between sp
 * and where it says from where it was switched to (ORC_REG_SP_INDIRECT), which must be the task's, at most a stack further on.
 */
UNWIND_FN void kernel_walk_place(struct kernel_walk *w, __u64 task_low)
{
	w->task_low = 0;
	w->low = task_low;
	w->high = task_low + w->stack_bytes;
	if (KERNEL_ON_STACK(w, w->sp, 8))
		return;
	w->task_low = task_low;
	w->low = w->sp - sizeof(w->frame);
	w->high = w->sp + w->stack_bytes;
}

UNWIND_FN enum kernel_result kernel_walk_end(const struct kernel_walk *w)
{
	return w->task_low ? KERNEL_REFUSED : KERNEL_ROOT;
}

/* A word of the stack that lies at sp or above it. */
UNWIND_FN bool kernel_walk_word(struct kernel_walk *w, __u64 *to, __u64 at)
{
	return at >= w->sp && KERNEL_ON_STACK(w, at, 8) && !kernel_read(to, 8, at);
}

/* From the CPU's stack for interrupts to that of what they interrupted. */
UNWIND_FN bool kernel_switch_stack(struct kernel_walk *w, __u64 *cfa, __u64 off)
{
	if (!w->task_low || !kernel_walk_word(w, cfa, w->sp))
		return false;
	*cfa += off;
	w->low = w->task_low;
	w->high = w->low + w->stack_bytes;
	w->sp = w->low;
	w->task_low = 0;
	return true;
}

/* Where the caller's frame ends, or what an interrupt saved begins. */
UNWIND_FN bool kernel_cfa(struct kernel_walk *w, __u64 rule, __u64 *cfa)
{
	__u64 off = (__u64)(__s64)KERNEL_RULE_SP_OFF(rule);

	switch (KERNEL_RULE_SP_REG(rule)) {
	case ORC_REG_SP: *cfa = w->sp + off; return true;
	case ORC_REG_BP: *cfa = w->bp + off; return true;
	case ORC_REG_BP_INDIRECT: return kernel_walk_word(w, cfa, w->bp + off);
	default: return kernel_switch_stack(w, cfa, off);
	}
}

/* The frame pointer of the caller, whose return address has been read with what lies below it. */
UNWIND_FN bool kernel_take_bp(struct kernel_walk *w, __u64 rule, __u64 cfa)
{
	__u64 off = (__u64)(__s64)KERNEL_RULE_BP_OFF(rule);

	switch (KERNEL_RULE_BP_REG(rule)) {
	case ORC_REG_UNDEFINED: return true;
	case ORC_REG_BP: return kernel_walk_word(w, &w->bp, w->bp + off);
	}
	if (off & 7 || off < -sizeof(w->frame))
		return kernel_walk_word(w, &w->bp, cfa + off);
	w->bp = w->frame[off / 8 & (KERNEL_FRAME_WORDS - 1)];
	return cfa + off >= w->sp;
}

/* The caller's frame lies above this one's. */
UNWIND_FN enum kernel_result kernel_step_call(struct kernel_walk *w, __u64 rule, __u64 cfa)
{
	__u64 from = cfa - sizeof(w->frame);

	if (cfa <= w->sp || !KERNEL_ON_STACK(w, from, sizeof(w->frame)) ||
		kernel_read(w->frame, sizeof(w->frame), from) || !kernel_take_bp(w, rule, cfa))
		return KERNEL_REFUSED;
	w->pc = w->frame[KERNEL_FRAME_WORDS - 1];
	w->sp = cfa;
	return KERNEL_MORE;
}

/* Over what an interrupt or a fault saved: user mode ends the stack. */
UNWIND_FN enum kernel_result kernel_step_regs(struct kernel_walk *w, __u64 regs)
{
	if (regs < w->sp || !KERNEL_ON_STACK(w, regs, KERNEL_REGS_BYTES) ||
		kernel_read(w->iret, sizeof(w->iret), regs + KERNEL_REGS_IP))
		return KERNEL_REFUSED;
	if (w->iret[1] & 3)
		return kernel_walk_end(w);
	if (w->iret[3] < regs + KERNEL_REGS_BYTES || kernel_read(&w->bp, 8, regs + KERNEL_REGS_BP))
		return KERNEL_REFUSED;
	w->pc = w->iret[0];
	w->sp = w->iret[3];
	return KERNEL_ON_STACK(w, w->sp, 8) ? KERNEL_MORE : KERNEL_REFUSED;
}

/* To the caller by a rule for which kernel_rule_is_known. */
UNWIND_FN enum kernel_result kernel_step(struct kernel_walk *w, __u64 rule)
{
	enum kernel_result r;
	__u64 cfa;

	if (KERNEL_RULE_TYPE(rule) == ORC_TYPE_END_OF_STACK)
		return kernel_walk_end(w);
	if (!kernel_cfa(w, rule, &cfa))
		return KERNEL_REFUSED;
	r = KERNEL_RULE_TYPE(rule) == ORC_TYPE_REGS ? kernel_step_regs(w, cfa)
						    : kernel_step_call(w, rule, cfa);
	w->exact = KERNEL_RULE_SIGNAL(rule);
	return r;
}
