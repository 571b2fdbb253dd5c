/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The kernel's own frames of a sample. bpf_get_stack looks each frame up in the kernel's unwind table, in some six lines that
 * other programs took out of the CPU's caches; here what the last walks found is kept side by side (bpf/unwind/near.h), and the
 * table is asked for the rest. The kernel stays the oracle: it walks the first stacks of each CPU too, and later ones by chance;
 * its answer is what counts, and after one difference it walks all.
 */
#pragma once
#include "bpf/core/kernel_lookup.h"

#define KERNEL_FRAME(pc) ABI_FRAME(ABI_FRAME_KERNEL, pc)
enum { KERNEL_CHECK_FIRST = 256 };

/* bpf_loop wants its context on the stack. */
struct kernel_walking {
	struct kernel_cpu *k;
	struct kernel_orc *orc;
	__u64 *words;
	__u32 n; /* to be compared */
};

/* Sets k->walk.result. Verified once, by itself. */
UNWIND_ALONE int kernel_step_by_rule(struct kernel_cpu *k)
{
	if (k)
		k->walk.result = k->rule ? kernel_step(&k->walk, k->rule) : KERNEL_REFUSED;
	return 0;
}

static long kernel_turn(__u32 i, struct kernel_walking *g)
{
	struct kernel_walk *w = &g->k->walk;

	g->words[i & (KERNEL_WORDS - 1)] = KERNEL_FRAME(w->pc);
	w->n = i + 1;
	kernel_rule_here(g->k, g->orc);
	kernel_step_by_rule(g->k);
	return w->result != KERNEL_MORE;
}

#if UNWIND_ARM64

static __always_inline bool kernel_walk_begin(
	struct kernel_walking *g, const struct perf_event_regs *regs, struct task_struct *task)
{
	(void)g, (void)regs, (void)task;
	return false;
}

#else

static __always_inline bool kernel_walk_begin(
	struct kernel_walking *g, const struct perf_event_regs *regs, struct task_struct *task)
{
	struct kernel_walk *w = &g->k->walk;

	w->pc = CTX_READ(regs, rip);
	w->sp = CTX_READ(regs, rsp);
	w->bp = CTX_READ(regs, rbp);
	w->exact = 1;
	w->near = w->n = 0;
	w->stack_bytes = g->orc->stack_bytes;
	kernel_walk_place(w, (__u64)task->stack);
	return true;
}

#endif

/* Frames into s->words; 0: they could not be walked exactly. */
static __always_inline __u32 kernel_walk(struct kernel_walking *g, struct scratch *s,
	const struct perf_event_regs *regs, struct task_struct *task)
{
	__u32 zero = 0, near = s->near;

	g->orc = bpf_map_lookup_elem(&kernel_orc, &zero);
	if (near == SCRATCH_NO_NEAR || !g->orc || !g->orc->is_on)
		return 0;
	g->k = bpf_map_lookup_elem(&kernel_cpus, &near);
	if (!g->k)
		return 0;
	g->words = s->words;
	if (!kernel_walk_begin(g, regs, task))
		return 0;
	bpf_loop(g->orc->max_frames, kernel_turn, g, 0);
	return g->k->walk.result == KERNEL_REFUSED ? 0 : g->k->walk.n;
}

static long kernel_compare(__u32 i, struct kernel_walking *g)
{
	i &= KERNEL_WORDS - 1;
	if (g->words[i] != KERNEL_FRAME(g->k->asked[i]))
		return 1;
	g->n--;
	return 0;
}

/* Is what was walked, n frames, what the kernel says? */
static __always_inline bool kernel_agrees(struct kernel_walking *g, void *ctx, __u32 n)
{
	long bytes = bpf_get_stack(ctx, g->k->asked, ABI_MAX_KERNEL_FRAMES * sizeof(__u64), 0);

	if (bytes != n * (long)sizeof(__u64))
		return false;
	g->n = n;
	bpf_loop(n, kernel_compare, g, 0);
	return g->n == 0;
}

/* How many frames were walked into s->words; 0: the kernel is to be asked. */
static __always_inline __u32 kernel_walk_checked(
	struct scratch *s, void *ctx, const struct perf_event_regs *regs, __u64 *count)
{
	struct kernel_walking g = {};
	__u32 n = kernel_walk(&g, s, regs, bpf_get_current_task_btf());

	if (!n)
		return 0;
	__sync_fetch_and_add(&count[ABI_EVENT_COUNT_KERNEL_ORC], 1);
	if (count[ABI_EVENT_COUNT_KERNEL_ORC] > KERNEL_CHECK_FIRST &&
		bpf_get_prandom_u32() % g.orc->check_each)
		return n;
	if (kernel_agrees(&g, ctx, n)) {
		__sync_fetch_and_add(&count[ABI_EVENT_COUNT_KERNEL_MATCH], 1);
		return n;
	}
	__sync_fetch_and_add(&count[ABI_EVENT_COUNT_KERNEL_MISMATCH], 1);
	g.orc->is_on = 0;
	return 0;
}

static long kernel_tag(__u32 i, struct kernel_walking *g)
{
	i &= KERNEL_WORDS - 1;
	g->words[i] = KERNEL_FRAME(g->words[i]);
	return 0;
}

/* The kernel's own walk. */
static __always_inline __u32 kernel_ask_stack(struct scratch *s, void *ctx, __u64 *count)
{
	struct kernel_walking g = {.words = s->words};
	long bytes = bpf_get_stack(ctx, s->words, ABI_MAX_KERNEL_FRAMES * sizeof(__u64), 0);

	if (bytes < 0) {
		__sync_fetch_and_add(&count[ABI_EVENT_COUNT_KERNEL_STACK_FAILED], 1);
		return 0;
	}
	__sync_fetch_and_add(&count[ABI_EVENT_COUNT_KERNEL_ASKED], 1);
	bpf_loop((__u32)bytes / sizeof(__u64), kernel_tag, &g, 0);
	return (__u32)bytes / sizeof(__u64);
}

/*
 * Sets the record's n_kernel. `ctx`: the program's context, of which the kernel is asked; `regs`: the registers in it, of code in
 * the kernel that was interrupted, or NULL where it has none (tracepoints): then the kernel walks.
 *
 * An event's program calls this from a function of its own that is UNWIND_ALONE: verified once, by itself. Readers take n_kernel
 * from the record, not from a register: the verifier would else follow each possible count through the rest of the program.
 */
static __always_inline void kernel_frames(void *ctx, const struct perf_event_regs *regs,
	struct scratch *s, struct counter_row *row, enum abi_event event)
{
	__u64 *count = row->count + ABI_EVENT_COUNTERS(event);
	__u32 n = regs ? kernel_walk_checked(s, ctx, regs, count) : 0;

	if (!n)
		n = kernel_ask_stack(s, ctx, count);
	record_of(s)->n_kernel = n;
	__sync_fetch_and_add(&row->count[ABI_COUNT_FRAMES_KERNEL], n);
}
