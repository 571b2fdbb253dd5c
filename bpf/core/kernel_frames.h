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
	struct kernel_walking *g, const struct bpf_perf_event_data *ctx, struct task_struct *task)
{
	(void)g, (void)ctx, (void)task;
	return false;
}

#else

static __always_inline bool kernel_walk_begin(
	struct kernel_walking *g, const struct bpf_perf_event_data *ctx, struct task_struct *task)
{
	struct kernel_walk *w = &g->k->walk;

	w->pc = CTX_READ(ctx, regs.rip);
	w->sp = CTX_READ(ctx, regs.rsp);
	w->bp = CTX_READ(ctx, regs.rbp);
	w->exact = 1;
	w->near = w->n = 0;
	w->stack_bytes = g->orc->stack_bytes;
	kernel_walk_place(w, (__u64)task->stack);
	return true;
}

#endif

/* Frames into s->words; 0: they could not be walked exactly. */
static __always_inline __u32 kernel_walk(struct kernel_walking *g, struct scratch *s,
	const struct bpf_perf_event_data *ctx, struct task_struct *task)
{
	__u32 zero = 0;

	g->orc = bpf_map_lookup_elem(&kernel_orc, &zero);
	if (s->slot || !g->orc || !g->orc->is_on)
		return 0;
	g->k = bpf_map_lookup_elem(&kernel_cpus, &zero);
	if (!g->k)
		return 0;
	g->words = s->words;
	if (!kernel_walk_begin(g, ctx, task))
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
static __always_inline bool kernel_agrees(
	struct kernel_walking *g, struct bpf_perf_event_data *ctx, __u32 n)
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
	struct scratch *s, struct bpf_perf_event_data *ctx, struct task_struct *task, __u64 *count)
{
	struct kernel_walking g = {};
	__u32 n = kernel_walk(&g, s, ctx, task);

	if (!n)
		return 0;
	count[ABI_EVENT_COUNT_KERNEL_ORC]++;
	if (count[ABI_EVENT_COUNT_KERNEL_ORC] > KERNEL_CHECK_FIRST &&
		bpf_get_prandom_u32() % g.orc->check_each)
		return n;
	if (kernel_agrees(&g, ctx, n)) {
		count[ABI_EVENT_COUNT_KERNEL_MATCH]++;
		return n;
	}
	count[ABI_EVENT_COUNT_KERNEL_MISMATCH]++;
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
static __always_inline __u32 kernel_ask_stack(
	struct scratch *s, struct bpf_perf_event_data *ctx, __u64 *count)
{
	struct kernel_walking g = {.words = s->words};
	long bytes = bpf_get_stack(ctx, s->words, ABI_MAX_KERNEL_FRAMES * sizeof(__u64), 0);

	if (bytes < 0) {
		count[ABI_EVENT_COUNT_KERNEL_STACK_FAILED]++;
		return 0;
	}
	count[ABI_EVENT_COUNT_KERNEL_ASKED]++;
	bpf_loop((__u32)bytes / sizeof(__u64), kernel_tag, &g, 0);
	return (__u32)bytes / sizeof(__u64);
}

/*
 * Sets the record's n_kernel. Readers take it from there, not from a register: the verifier would else follow each possible
 * count through the rest of the program. Verified once, by itself.
 */
UNWIND_ALONE int kernel_frames(
	struct bpf_perf_event_data *ctx, struct scratch *s, struct counter_row *row)
{
	__u64 *count;
	__u32 n;

	if (!ctx || !s || !row)
		return 0;
	count = row->count + ABI_EVENT_COUNTERS(ABI_EVENT_CPU);
	n = kernel_walk_checked(s, ctx, bpf_get_current_task_btf(), count);
	if (!n)
		n = kernel_ask_stack(s, ctx, count);
	record_of(s)->n_kernel = n;
	row->count[ABI_COUNT_FRAMES_KERNEL] += n;
	return 0;
}
