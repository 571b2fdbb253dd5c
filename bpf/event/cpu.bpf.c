/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * CPU samples: a perf_event program on the software CPU clock, one event per CPU. Runs in the timer interrupt. Each tick
 * outside the idle task becomes one record (bpf/abi.h) in the ring of its group of CPUs; user space drains the rings.
 * docs/exporter.md has the kernels tried. Needs bpf_loop (5.17), bpf_task_pt_regs (5.15), bpf_get_current_task_btf (5.11).
 */
#include "bpf/core/user_frames.h"
#include "bpf/unwind/frame_pack.h"
#include "bpf/core/kernel_frames.h"
#include "bpf/core/stack_copy.h"

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* rings, set at load */
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps") __weak;

/* What a tick works on; lives on the BPF stack and holds pointers only. */
struct tick {
	struct bpf_perf_event_data *ctx;
	struct task_struct *task;
	__u64 *count, *event_count;
	struct scratch *s;
	__u64 period;
	__u32 cpu;
};

/*
 * The period in force. ctx->sample_period would be natural, but the kernel takes it from hw.last_period, which
 * PERF_EVENT_IOC_PERIOD does not touch on software clocks (seen on 6.18): samples would keep the weight of the first rate.
 */
static __always_inline __u64 period_ns(struct bpf_perf_event_data *ctx)
{
	struct bpf_perf_event_data_kern *kern = (void *)ctx;

	return BPF_CORE_READ(kern, event, hw.sample_period);
}

static __always_inline __u32 cut_at_once(struct scratch *s, enum abi_cut why)
{
	s->words[record_of(s)->n_kernel & UNWIND_BASE_MASK] = ABI_FRAME(ABI_FRAME_TRUNCATED, why);
	return 1;
}

static __always_inline void count_steps(struct tick *t)
{
	const struct walk *w = &t->s->walk;

	t->count[ABI_COUNT_FRAMES_CFI] += w->by[UNWIND_BY_CFI];
	t->count[ABI_COUNT_FRAMES_FP] += w->by[UNWIND_BY_FP];
	t->count[ABI_COUNT_FRAMES_PLT] += w->by[UNWIND_BY_PLT];
	t->count[ABI_COUNT_FRAMES_SIGNAL] += w->by[UNWIND_BY_SIGNAL];
}

/* The user half of a stack; sets the record's flags. */
static __always_inline __u32 user_frames(struct tick *t, bool user_mode)
{
	struct scratch *s = t->s;
	struct abi_record *r = record_of(s);
	__u32 n;

	if (USUAL(user_mode)) {
		regs_of_context(&s->regs, t->ctx);
		r->flags |= ABI_FLAG_USER_MODE;
	} else {
		regs_of_task(&s->regs, t->task);
		if (regs_are_of_call(&s->regs, t->task))
			r->flags |= ABI_FLAG_FIRST_IS_RETURN;
	}
	if (RARE(regs_are_32bit(&s->regs))) {
		r->flags |= ABI_FLAG_COMPAT32;
		return cut_at_once(s, ABI_CUT_COMPAT32);
	}
	if (RARE(!regs_pc(&s->regs)))
		return cut_at_once(s, ABI_CUT_NO_USER_REGS);
	walker_begin(s, t->task);
	n = walker_run(s);
	count_steps(t);
	/* The program that called execve is gone by now; its registers are not. */
	if (RARE(s->walk.cut != ABI_CUT_NONE) && BPF_CORE_READ_BITFIELD(t->task, in_execve)) {
		s->walk.cut = s->walk.lacks = 0;
		n = 0;
	}
	return n;
}

/* Two loads: what bpf_get_current_comm does for it was 0.6 of 16 us. */
static __always_inline void copy_comm(char *to, const struct task_struct *task)
{
	_Static_assert(sizeof(task->comm) == ABI_COMM_LEN && ABI_COMM_LEN == 16, "two words");
	const __u64 *from = (const __u64 *)task->comm;

	((__u64 *)to)[0] = from[0];
	((__u64 *)to)[1] = from[1];
}

static __always_inline void fill_header(struct tick *t, __u64 now)
{
	struct abi_record *r = record_of(t->s);
	struct task_struct *leader = t->task->group_leader;

	r->type = ABI_RECORD_SAMPLE;
	r->event = ABI_EVENT_CPU;
	r->flags = 0;
	r->time_ns = now;
	r->weight[0] = t->period;
	r->weight[1] = 0;
	r->start_ns = leader->start_time;
	r->pid = t->task->tgid;
	r->tid = t->task->pid;
	r->exec_id = t->task->self_exec_id;
	r->cpu = t->cpu;
	r->cgroup_id = bpf_get_current_cgroup_id();
	copy_comm(r->comm, t->task);
	copy_comm(r->leader_comm, leader);
}

/* A copy of the stack goes before the sample that it belongs to; `flags` say what it is for. */
static __always_inline void output_copy(struct tick *t, void *ring, __u32 flags)
{
	struct stack_copy *c;
	__u64 bytes;

	/* What is left of the ring is for samples. */
	if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >
		bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 2) {
		t->event_count[ABI_EVENT_COUNT_COPIES_RING_FULL]++;
		return;
	}
	c = stack_copy_take(t->s, t->task);
	if (!c)
		return;
	bytes = sizeof(c->head) + c->head.bytes;
	if (bytes > sizeof(c->head) + ABI_MAX_STACK_BYTES)
		bytes = sizeof(c->head) + ABI_MAX_STACK_BYTES;
	if (bpf_ringbuf_output(ring, &c->head, bytes, BPF_RB_NO_WAKEUP) == 0) {
		record_of(t->s)->flags |= flags;
		t->event_count[ABI_EVENT_COUNT_COPIES] += !!(flags & ABI_FLAG_COPIED);
		t->count[ABI_COUNT_SHADOWS] += !!(flags & ABI_FLAG_SHADOW);
	} else {
		t->event_count[ABI_EVENT_COUNT_COPIES_RING_FULL]++;
	}
	stack_copy_release(c);
}

static __always_inline __u32 copy_flags(struct scratch *s)
{
	__u32 flags = 0;

	if (stack_copy_is_wanted(s) && stack_copy_is_allowed(s))
		flags |= ABI_FLAG_COPIED;
	if (stack_copy_is_shadow(s))
		flags |= ABI_FLAG_SHADOW;
	return flags;
}

/* Packs the record's words if they are few; returns its bytes then. */
static __always_inline __u64 pack(struct scratch *s)
{
	struct abi_record *r = record_of(s);
	__u32 n = (__u32)r->n_kernel + r->n_user;

	if (RARE(n > FRAME_PACK_MAX))
		return sizeof(*r) + n * (__u64)sizeof(__u64);
	r->type = ABI_RECORD_PACKED_SAMPLE;
	return sizeof(*r) + frame_pack(s->words, n) * (__u64)sizeof(__u32);
}

/*
 * User space sleeps for up to a second while all is calm. It is woken for what it has to look at while that is there: a process that
 * was never sampled, and a stack that could not be walked here.
 */
static __always_inline __u64 output_flags(struct scratch *s)
{
	if (USUAL(!s->is_first && !(record_of(s)->flags & ABI_FLAG_COPIED)))
		return BPF_RB_NO_WAKEUP;
	s->is_first = 0;
	return BPF_RB_FORCE_WAKEUP;
}

static __always_inline void output(struct tick *t)
{
	struct abi_record *r = record_of(t->s);
	__u32 group = t->cpu / ABI_CPUS_PER_RING;
	__u64 bytes;
	void *ring = bpf_map_lookup_elem(&rings, &group);
	__u32 copy = ring && r->n_user ? copy_flags(t->s) : 0;

	if (RARE(copy))
		output_copy(t, ring, copy);

	bytes = pack(t->s);
	if (RARE(bytes > ABI_MAX_RECORD_BYTES))
		bytes = ABI_MAX_RECORD_BYTES;
	if (USUAL(ring && bpf_ringbuf_output(ring, r, bytes, output_flags(t->s)) == 0))
		t->event_count[ABI_EVENT_COUNT_SAMPLES]++;
	else
		t->event_count[ABI_EVENT_COUNT_RING_FULL]++;
}

static __always_inline void sample(struct tick *t, __u64 now)
{
	struct abi_record *r = record_of(t->s);
	bool user_mode = regs_are_user(t->ctx);

	fill_header(t, now);
	r->n_kernel = 0;
	if (RARE(!user_mode))
		kernel_frames(t->ctx, t->s, (void *)t->count);
	if (RARE(t->task->flags & PF_KTHREAD || !t->task->mm)) {
		r->flags |= ABI_FLAG_KTHREAD;
		r->n_user = 0;
	} else {
		r->n_user = user_frames(t, user_mode);
	}
	output(t);
}

static __always_inline void tick_run(struct tick *t, __u64 now)
{
	if (RARE(!t->task->tgid)) {
		t->event_count[ABI_EVENT_COUNT_IDLE]++;
		return;
	}
	t->period = period_ns(t->ctx);
	t->count[ABI_COUNT_BUSY_NS] += t->period;
	walker_ask();
	t->s = scratch_claim();
	if (RARE(!t->s)) {
		t->event_count[ABI_EVENT_COUNT_SCRATCH_BUSY]++;
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
	t->event_count[ABI_EVENT_COUNT_COST_RUNS]++;
	t->event_count[ABI_EVENT_COUNT_COST_NS] += ns;
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
	if (RARE(!t.count))
		return 0;
	t.event_count = t.count + ABI_EVENT_COUNTERS(ABI_EVENT_CPU);
	measured = (t.event_count[ABI_EVENT_COUNT_RUNS]++ & (config.cost_interval - 1)) == 0;
	tick_run(&t, now);
	if (RARE(measured))
		count_cost(&t, bpf_ktime_get_ns() - now);
	return 0;
}
