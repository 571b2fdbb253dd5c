/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * CPU samples: a perf_event program on the software CPU clock, one event per CPU. Runs in the timer interrupt. Each tick
 * outside the idle task becomes one record (bpf/abi.h) in the ring of its group of CPUs; user space drains the rings.
 * Oldest kernel tested: 6.18. Needs bpf_loop (5.17), bpf_task_pt_regs (5.15), bpf_get_current_task_btf (5.11).
 */
#include "bpf/kernel.h"
#include "bpf/abi.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "bpf/unwind_tables.h"

/* No tables and no mappings yet: every step is by frame pointer. */
struct walk;
static __always_inline struct unwind_binary *unwind_binary_at(struct walk *w, __u32 binary)
{
	(void)w, (void)binary;
	return NULL;
}

static __always_inline const __u32 *unwind_slab_at(struct walk *w, __u32 slab)
{
	(void)w, (void)slab;
	return NULL;
}

static __always_inline const struct unwind_rule *unwind_rule_at(struct walk *w, __u32 rule)
{
	(void)w, (void)rule;
	return NULL;
}

static __always_inline __u64 *unwind_cache_at(struct walk *w, __u32 i)
{
	(void)w, (void)i;
	return NULL;
}

#define unwind_locate(w, addr) UNWIND_SOMEWHERE
#include "bpf/unwind_step.h"

char dual_license[] SEC("license") = "GPL";

const volatile struct abi_config config;

/* Walker scratch: one record under construction. Claimed by exchange of `busy`, so that a program that interrupts another one
 * of the same attach kind on its CPU takes the next slot instead of its memory. */
enum { N_SCRATCH = 2 };

struct scratch {
	__u32 busy, pad;
	struct walk walk;
	__u64 spare[ABI_USER_TAIL_WORDS];
	__u64 record[sizeof(struct abi_record) /
		     sizeof(__u64)]; /* struct abi_record, its frames follow */
	__u64 words[ABI_MAX_WORDS + 1];
};
_Static_assert(sizeof(struct scratch) <= 32 * 1024, "limit of per-CPU map values");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, N_SCRATCH);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch_cpu SEC(".maps");

struct counter_row {
	__u64 count[ABI_COUNTERS_STRIDE];
};
_Static_assert(ABI_N_COUNTERS <= ABI_COUNTERS_STRIDE, "counters fit their row");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* possible CPUs, set at load */
	__type(key, __u32);
	__type(value, struct counter_row);
} counters SEC(".maps");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* rings, set at load */
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

/* What a tick works on; lives on the BPF stack and holds pointers only. */
struct tick {
	struct bpf_perf_event_data *ctx;
	struct task_struct *task;
	__u64 *count;
	struct scratch *s;
	__u64 period;
	__u32 cpu;
};

static __always_inline __u64 *counter_row(__u32 cpu)
{
	struct counter_row *row = bpf_map_lookup_elem(&counters, &cpu);

	return row ? row->count : NULL;
}

static __always_inline struct scratch *scratch_claim(void)
{
	for (__u32 i = 0; i < N_SCRATCH; i++) {
		__u32 key = i;
		struct scratch *s = bpf_map_lookup_elem(&scratch_cpu, &key);

		if (s && __sync_lock_test_and_set(&s->busy, 1) == 0)
			return s;
	}
	return NULL;
}

static __always_inline struct abi_record *record_of(struct scratch *s)
{
	return (struct abi_record *)s->record;
}

static __always_inline void scratch_release(struct scratch *s)
{
	*(volatile __u32 *)&s->busy = 0;
}

/* Context fields are read as whole, separate words: narrowed or merged loads are refused by the verifier. */
#define CTX_READ(ctx, field) (*(volatile __u64 *)&(ctx)->field)

/*
 * The period in force. ctx->sample_period would be natural, but the kernel takes it from hw.last_period, which
 * PERF_EVENT_IOC_PERIOD does not touch on software clocks (seen on 6.18): samples would keep the weight of the first rate.
 */
static __always_inline __u64 period_ns(struct bpf_perf_event_data *ctx)
{
	struct bpf_perf_event_data_kern *kern = (void *)ctx;

	return BPF_CORE_READ(kern, event, hw.sample_period);
}

/*
 * Sets the record's n_kernel. Readers take it from there, not from a register: the verifier would else follow each possible
 * count through the rest of the program.
 */
static __always_inline void kernel_frames(struct tick *t)
{
	struct scratch *s = t->s;
	long bytes = bpf_get_stack(t->ctx, s->words, ABI_MAX_KERNEL_FRAMES * sizeof(__u64), 0);
	__u32 n;

	if (bytes < 0) {
		t->count[ABI_COUNT_KERNEL_STACK_FAILED]++;
		return;
	}
	n = (__u32)bytes / sizeof(__u64);
	record_of(s)->n_kernel = n;
	t->count[ABI_COUNT_FRAMES_KERNEL] += n;
	for (__u32 i = 0; i < ABI_MAX_KERNEL_FRAMES && i < n; i++)
		s->words[i] = ABI_FRAME(ABI_FRAME_KERNEL, s->words[i]);
}

static long walk_callback(__u32 i, struct tick *t)
{
	(void)i;
	return walk_turn(&t->s->walk, t->s->words);
}

static long copy_callback(__u32 i, struct frames_copy *c)
{
	frames_copy_word(c, i);
	return 0;
}

/* Walks the user stack from the registers in scratch; returns the number of words. */
static __always_inline __u32 walk_user(struct tick *t)
{
	struct scratch *s = t->s;
	struct frames_copy copy;
	__u32 steps;

	bpf_loop(ABI_MAX_STEPS + 1, walk_callback, t, 0);
	t->count[ABI_COUNT_FRAMES_FP] += s->walk.n_steps;
	steps = frames_finish(&s->walk.frames, s->words, s->spare, &copy);
	if (steps)
		bpf_loop(steps, copy_callback, &copy, 0);
	return frames_close(&s->walk.frames, s->words, s->walk.cut);
}

static __always_inline __u32 cut_at_once(struct scratch *s, enum abi_cut why)
{
	s->words[record_of(s)->n_kernel & UNWIND_BASE_MASK] = ABI_FRAME(ABI_FRAME_TRUNCATED, why);
	return 1;
}

/* The user half of a stack; sets the record's flags. */
static __always_inline __u32 user_frames(struct tick *t, bool user_mode)
{
	struct abi_record *r = record_of(t->s);
	struct pt_regs *regs;
	__u64 pc, sp, fp, cs;

	if (user_mode) {
		r->flags |= ABI_FLAG_USER_MODE;
		pc = CTX_READ(t->ctx, regs.rip);
		sp = CTX_READ(t->ctx, regs.rsp);
		fp = CTX_READ(t->ctx, regs.rbp);
		cs = CTX_READ(t->ctx, regs.cs);
	} else {
		regs = (struct pt_regs *)bpf_task_pt_regs(t->task);
		pc = BPF_CORE_READ(regs, ip);
		sp = BPF_CORE_READ(regs, sp);
		fp = BPF_CORE_READ(regs, bp);
		cs = BPF_CORE_READ(regs, cs);
		if ((__s64)BPF_CORE_READ(regs, orig_ax) >= 0)
			r->flags |= ABI_FLAG_FIRST_IS_RETURN;
	}
	if ((cs & 0xffff) == USER32_CS) {
		r->flags |= ABI_FLAG_COMPAT32;
		return cut_at_once(t->s, ABI_CUT_COMPAT32);
	}
	if (!pc)
		return cut_at_once(t->s, ABI_CUT_NO_USER_REGS);
	walk_init(&t->s->walk, r->n_kernel);
	t->s->walk.pc = pc;
	t->s->walk.regs[UNWIND_SP] = sp;
	t->s->walk.regs[UNWIND_FP] = fp;
	t->s->walk.known = 1U << UNWIND_SP | 1U << UNWIND_FP;
	return walk_user(t);
}

static __always_inline void fill_header(struct tick *t, __u64 now)
{
	struct abi_record *r = record_of(t->s);
	struct task_struct *leader = t->task->group_leader;

	r->type = ABI_RECORD_CPU_SAMPLE;
	r->flags = 0;
	r->time_ns = now;
	r->weight = t->period;
	r->start_ns = leader->start_time;
	r->pid = t->task->tgid;
	r->tid = t->task->pid;
	r->exec_id = t->task->self_exec_id;
	r->cpu = t->cpu;
	r->cgroup_id = bpf_get_current_cgroup_id();
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	bpf_probe_read_kernel(r->leader_comm, sizeof(r->leader_comm), leader->comm);
}

static __always_inline void output(struct tick *t)
{
	struct abi_record *r = record_of(t->s);
	__u32 group = t->cpu / ABI_CPUS_PER_RING;
	__u64 bytes = sizeof(*r) + (r->n_kernel + (__u64)r->n_user) * sizeof(__u64);
	void *ring = bpf_map_lookup_elem(&rings, &group);

	if (bytes > ABI_MAX_RECORD_BYTES)
		bytes = ABI_MAX_RECORD_BYTES;
	if (ring && bpf_ringbuf_output(ring, r, bytes, BPF_RB_NO_WAKEUP) == 0)
		t->count[ABI_COUNT_SAMPLES]++;
	else
		t->count[ABI_COUNT_RING_FULL]++;
}

static __always_inline void sample(struct tick *t, __u64 now)
{
	struct abi_record *r = record_of(t->s);
	bool user_mode = (CTX_READ(t->ctx, regs.cs) & 3) == 3;

	fill_header(t, now);
	r->n_kernel = 0;
	if (!user_mode)
		kernel_frames(t);
	if (t->task->flags & PF_KTHREAD || !t->task->mm) {
		r->flags |= ABI_FLAG_KTHREAD;
		r->n_user = 0;
	} else {
		r->n_user = user_frames(t, user_mode);
	}
	output(t);
}

static __always_inline void tick_run(struct tick *t, __u64 now)
{
	if (!t->task->tgid) {
		t->count[ABI_COUNT_IDLE]++;
		return;
	}
	t->period = period_ns(t->ctx);
	t->count[ABI_COUNT_BUSY_NS] += t->period;
	t->s = scratch_claim();
	if (!t->s) {
		t->count[ABI_COUNT_SCRATCH_BUSY]++;
		return;
	}
	sample(t, now);
	scratch_release(t->s);
}

/* A run that took longer was interrupted, by a hypervisor or an NMI, and says nothing of what it costs. */
#define MAX_COST_NS 1000000

static __always_inline void count_cost(struct tick *t, __u64 ns)
{
	if (ns > MAX_COST_NS)
		return;
	t->count[ABI_COUNT_COST_RUNS]++;
	t->count[ABI_COUNT_COST_NS] += ns;
}

SEC("perf_event")
int sample_cpu(struct bpf_perf_event_data *ctx)
{
	struct tick t = {.ctx = ctx};
	__u64 now = bpf_ktime_get_ns();
	bool measured;

	t.cpu = bpf_get_smp_processor_id();
	t.task = bpf_get_current_task_btf();
	t.count = counter_row(t.cpu);
	if (!t.count)
		return 0;
	measured = (t.count[ABI_COUNT_RUNS]++ & (config.cost_interval - 1)) == 0;
	tick_run(&t, now);
	if (measured)
		count_cost(&t, bpf_ktime_get_ns() - now);
	return 0;
}
