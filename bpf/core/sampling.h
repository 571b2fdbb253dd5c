/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * One run of an event's program (bpf/core/sample.h): what it counts, the scratch that it has, the head of its record.
 */
#pragma once
#include "bpf/core/user_frames.h"

/* One run of an event's program, for the current task; lives on the BPF stack and holds pointers only. */
struct sampling {
	struct task_struct *task;
	__u64 *count, *event_count; /* of the CPU; its block of the event */
	struct scratch *s;	    /* NULL: none was free */
	__u64 now_ns;
	__u32 cpu, event; /* enum abi_event */
	enum scratch_kind kind;
	bool is_measured;
};

/* Counters that are there once: another program may come between. */
static __always_inline void sampling_count(struct sampling *g, enum abi_counter which, __u64 n)
{
	__sync_fetch_and_add(&g->count[which], n);
}

/* Those of the event: its program does not come between its own runs, unless it can be preempted. */
static __always_inline void sampling_count_event(
	struct sampling *g, enum abi_event_counter which, __u64 n)
{
	if (g->kind == SCRATCH_ATOMIC)
		g->event_count[which] += n;
	else
		__sync_fetch_and_add(&g->event_count[which], n);
}

/* By its row; of an event without one (a test's), the kind that is right in either context. */
static __always_inline enum scratch_kind sampling_kind(enum abi_event event)
{
	switch (event) {
#define EVENT(NAME, name, CONTEXT) \
	case ABI_EVENT_##NAME:     \
		return SCRATCH_##CONTEXT;
#include "bpf/events.def"
#undef EVENT
	case ABI_N_EVENTS: break;
	}
	return SCRATCH_PREEMPTIBLE;
}

/* False: nothing can be done, not even counted. */
static __always_inline bool sampling_begin(struct sampling *g, enum abi_event event)
{
	g->now_ns = bpf_ktime_get_ns();
	g->cpu = bpf_get_smp_processor_id();
	g->task = bpf_get_current_task_btf();
	g->event = event;
	g->kind = sampling_kind(event);
	g->count = counter_row(g->cpu);
	if (RARE(!g->count))
		return false;
	g->event_count = g->count + ABI_EVENT_COUNTERS(event);
	g->is_measured = (g->event_count[ABI_EVENT_COUNT_RUNS] & (config.cost_interval - 1)) == 0;
	sampling_count_event(g, ABI_EVENT_COUNT_RUNS, 1);
	return true;
}

/* Takes scratch for the record. False: none was free, which is counted. */
static __always_inline bool sampling_claim(struct sampling *g)
{
	walker_ask(g->kind);
	g->s = scratch_claim(g->kind);
	if (RARE(!g->s))
		sampling_count_event(g, ABI_EVENT_COUNT_SCRATCH_BUSY, 1);
	return g->s;
}

/* A run that took longer was interrupted, by a hypervisor, an NMI or another task, and says nothing of what it costs. */
#define SAMPLING_MAX_COST_NS 1000000

/* Gives back what was taken; the last of a run. */
static __always_inline void sampling_end(struct sampling *g)
{
	__u64 ns;

	if (g->s)
		scratch_release(g->s);
	if (USUAL(!g->is_measured))
		return;
	ns = bpf_ktime_get_ns() - g->now_ns;
	if (ns > SAMPLING_MAX_COST_NS)
		return;
	sampling_count_event(g, ABI_EVENT_COUNT_COST_RUNS, 1);
	sampling_count_event(g, ABI_EVENT_COUNT_COST_NS, ns);
}

/* Two loads: what bpf_get_current_comm does for it was 0.6 of 16 us. */
static __always_inline void copy_comm(char *to, const struct task_struct *task)
{
	_Static_assert(sizeof(task->comm) == ABI_COMM_LEN && ABI_COMM_LEN == 16, "two words");
	const __u64 *from = (const __u64 *)task->comm;

	((__u64 *)to)[0] = from[0];
	((__u64 *)to)[1] = from[1];
}

/* The head of the record, of a sample that has no frames yet. What weights mean says the event's row in exporter/event. */
static __always_inline void sampling_fill(struct sampling *g, __u64 weight, __u64 second_weight)
{
	struct abi_record *r = record_of(g->s);
	struct task_struct *leader = g->task->group_leader;

	r->type = ABI_RECORD_SAMPLE;
	r->event = g->event;
	r->flags = 0;
	r->n_kernel = r->n_user = 0;
	r->time_ns = g->now_ns;
	r->weight[0] = weight;
	r->weight[1] = second_weight;
	r->start_ns = leader->start_time;
	r->pid = g->task->tgid;
	r->tid = g->task->pid;
	r->exec_id = g->task->self_exec_id;
	r->cpu = g->cpu;
	r->cgroup_id = bpf_get_current_cgroup_id();
	copy_comm(r->comm, g->task);
	copy_comm(r->leader_comm, leader);
}
