/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives the kernel half the mappings of processes: of those that a sample came from, and of their children from the fork on.
 * Changes are collected and published at the end of each drain, so a program that maps twenty libraries is published once.
 */
#include "exporter/proc/runs.h"
#include "exporter/proc/publish.h"
#include <string.h>

void proc_publish_soon(struct proc_table *t, struct process *p)
{
	if (!t->o.runs || p->to_publish || p->exited || p->kernel_thread || p == t->other ||
		!p->image)
		return;
	p->to_publish = true;
	p->next_publish = t->publish_list;
	t->publish_list = p;
}

void proc_publish_sampled(struct proc_table *t, struct process *p, const struct abi_record *r)
{
	uint64_t image = process_image(r->start_ns, r->exec_id);

	if (p->has_head && p->image == image)
		return;
	p->image = image;
	p->has_head = false;
	proc_publish_soon(t, p);
}

void proc_publish_child(struct proc_table *t, struct process *p)
{
	uint64_t image, start_ns;

	if (!t->o.runs)
		return;
	image = runs_image(t->o.runs, p->pid);
	start_ns = process_image_start(image, p->exec_id);
	/* By now the head may be that of the child's next image. */
	if (!image || !p->exec_known || start_ns > p->begin_ns ||
		p->begin_ns - start_ns > PROC_FORK_SLACK_NS)
		return;
	/* The head may name a run that is not the parent's any more. */
	p->image = image;
	p->has_head = true;
	proc_publish_soon(t, p);
}

void proc_unpublish(struct proc_table *t, struct process *p)
{
	if (t->o.runs && p->has_head)
		runs_clear(t->o.runs, p->pid, p->image);
	p->has_head = false;
}

void proc_publish_now(struct proc_table *t, struct process *p)
{
	if (t->o.runs && p->image)
		p->has_head |= runs_set(t->o.runs, p->pid, p->image, maps_run(p->maps, t->o.runs),
			proc_flags(p), proc_interp_row(p));
}

void proc_publish(struct proc_table *t, uint64_t now_ns)
{
	while (t->publish_list) {
		struct process *p = t->publish_list;

		t->publish_list = p->next_publish;
		p->next_publish = NULL;
		p->to_publish = false;
		if (p->exited)
			continue;
		proc_publish_now(t, p);
		proc_interp_ask(t, p);
	}
	if (t->o.runs)
		runs_expire(t->o.runs, now_ns);
}
