/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * A sample of whatever event: its record filled, its user stack walked, packed and written to the ring of its group of CPUs. What is
 * particular to an event is in bpf/event/NAME.bpf.c: which registers the context has, how its kernel stack is taken, what the sample
 * stands for. The program of an event is, in all:
 *
 *	SEC("…") int sample_NAME(CONTEXT *ctx)
 *	{
 *		struct sampling g = {};
 *
 *		if (!sampling_begin(&g, ABI_EVENT_NAME))
 *			return 0;
 *		if (sampling_claim(&g)) {
 *			sampling_fill(&g, weight, second_weight);
 *			…                                          kernel frames, where the event has some (bpf/core/kernel_frames.h)
 *			sampling_user_frames(&g, registers, whether they are user mode's);
 *			sampling_output(&g);
 *		}
 *		sampling_end(&g);
 *		return 0;
 *	}
 */
#pragma once
#include "bpf/core/output.h"

static __always_inline __u32 cut_at_once(struct scratch *s, enum abi_cut why)
{
	s->words[record_of(s)->n_kernel & UNWIND_BASE_MASK] = ABI_FRAME(ABI_FRAME_TRUNCATED, why);
	return 1;
}

static __always_inline void count_steps(struct sampling *g)
{
	const struct walk *w = &g->s->walk;

	sampling_count(g, ABI_COUNT_FRAMES_CFI, w->by[UNWIND_BY_CFI]);
	sampling_count(g, ABI_COUNT_FRAMES_FP, w->by[UNWIND_BY_FP]);
	sampling_count(g, ABI_COUNT_FRAMES_PLT, w->by[UNWIND_BY_PLT]);
	sampling_count(g, ABI_COUNT_FRAMES_SIGNAL, w->by[UNWIND_BY_SIGNAL]);
}

/* Of a stack of n words with frames of a language. Its code objects go before it. Counters of runtimes stand side by side. */
static __always_inline void take_interp(struct sampling *g, __u32 n)
{
	const struct interp *in = &g->s->interp;
	__u32 runtime = in->layout.kind == INTERP_RUBY, cut = in->cut;

	record_of(g->s)->n_user = n;
	codes_tell(g->s);
	sampling_count(g, ABI_COUNT_FRAMES_INTERP, in->n_frames);
	if (RARE(cut == ABI_CUT_INTERP_MISMATCH))
		sampling_count(g, ABI_COUNT_INTERP_MISMATCHES_PYTHON + runtime, 1);
	if (RARE(cut == ABI_CUT_INTERP_LOST))
		sampling_count(g, ABI_COUNT_INTERP_LOST_PYTHON + runtime, 1);
	/* Such a frame keeps its native word; of V8 the stack is whole. */
	if (config.interp & (ABI_INTERP_FRAMES | ABI_INTERP_CODE) && RARE(in->is_lost))
		sampling_count(g,
			in->layout.kind == INTERP_HOTSPOT ? ABI_COUNT_INTERP_LOST_HOTSPOT
							  : ABI_COUNT_INTERP_LOST_V8,
			1);
	sampling_count(g, ABI_COUNT_INTERP_CODES, in->n_told);
	sampling_count(g, ABI_COUNT_INTERP_CODES_LATER, in->n_untold);
}

/* Walks from the registers in scratch; returns the number of words. */
static __always_inline __u32 walk_user(struct sampling *g)
{
	struct scratch *s = g->s;
	__u32 n;

	if (RARE(!regs_pc(&s->regs)))
		return cut_at_once(s, ABI_CUT_NO_USER_REGS);
	walker_begin(s, g->task);
	if (RARE(regs_are_32bit(&s->regs))) {
		record_of(s)->flags |= ABI_FLAG_COMPAT32;
		s->walk.is_compat = 1;
	}
	n = walker_run(s);
	count_steps(g);
	if (config.interp && RARE(s->walk.has_interp))
		take_interp(g, n);
	/* The program that called execve is gone by now; its registers are not. */
	if (RARE(s->walk.cut != ABI_CUT_NONE) && BPF_CORE_READ_BITFIELD(g->task, in_execve)) {
		s->walk.cut = s->walk.lacks = 0;
		n = 0;
	}
	return n;
}

/*
 * The user half of the stack, behind the kernel frames. `regs`: of a context that came upon user code (is_user); else the task is in
 * the kernel, and its registers are those with which it left user mode.
 */
static __always_inline void sampling_user_frames(
	struct sampling *g, const struct perf_event_regs *regs, bool is_user)
{
	struct scratch *s = g->s;
	struct abi_record *r = record_of(s);

	if (RARE(g->task->flags & PF_KTHREAD || !g->task->mm)) {
		r->flags |= ABI_FLAG_KTHREAD;
		return;
	}
	if (RARE(g->task->flags & (PF_IO_WORKER | PF_USER_WORKER)))
		return;
	if (USUAL(is_user)) {
		regs_of_context(&s->regs, regs);
		r->flags |= ABI_FLAG_USER_MODE;
	} else {
		regs_of_task(&s->regs, g->task);
		if (regs_are_of_call(&s->regs, g->task))
			r->flags |= ABI_FLAG_FIRST_IS_RETURN;
	}
	r->n_user = walk_user(g);
}
