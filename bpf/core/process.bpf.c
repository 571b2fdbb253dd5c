/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Forks and exits, as far as the walker must not learn of them late: a child has its parent's mappings from its first
 * instruction on. An exec needs nothing: it makes another image of the pid (task->self_exec_id), of which the head says nothing.
 */
#include "bpf/core/maps.h"
#include <bpf/bpf_core_read.h>
#pragma clang diagnostic ignored "-Wunused-parameter" /* of BPF_PROG */
#include <bpf/bpf_tracing.h>

static __always_inline __u64 image_of(struct task_struct *task)
{
	return process_image(task->group_leader->start_time, (__u32)task->self_exec_id);
}

/* The child's threads, and its runtime, are where the parent's were. Without a row it has no flag. */
static __always_inline void copy_interp(
	struct process_head *to, struct process_head *from, __u64 image)
{
	const struct interp_process *parent = interp_row_of(from->pid, config.bucket_mask);
	struct interp_process *child = interp_row_of(to->pid, config.bucket_mask);

	if (parent && child && parent->image == from->image) {
		*child = *parent;
		child->image = image;
	} else {
		to->flags &= ~PROCESS_INTERP;
	}
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct process_head *from, *to;
	__u64 image, run;

	if (child->pid != child->tgid) /* a thread */
		return 0;
	from = head_of(parent->tgid, config.bucket_mask, false);
	run = from ? process_run(from, image_of(parent)) : 0;
	if (!run)
		return 0;
	to = head_of(child->tgid, config.bucket_mask, true);
	if (!to)
		return 0;
	image = image_of(child);
	process_begin(to, image);
	to->flags = from->flags;
	if (config.interp && to->flags & PROCESS_INTERP)
		copy_interp(to, from, image);
	process_set_run(to, image, run);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct process_head *h;

	if (task->signal->live.counter > 0)
		return 0;
	h = head_of(task->tgid, config.bucket_mask, false);
	if (!h || h->image != image_of(task))
		return 0;
	*(volatile __u64 *)&h->run = 0;
	*(volatile __u32 *)&h->pid = 0;
	return 0;
}
