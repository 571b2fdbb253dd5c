/* SPDX-License-Identifier: Apache-2.0
 *
 * All processes of a list: those that were there before the first record, and, after records were lost, which of those that
 * are known are still there.
 */
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"

/* The live image of a listed process, made when it is new; NULL when nothing of it is to be read. */
static struct process *image_of(
	struct proc_table *t, const struct proc_listed *listed, uint64_t read_ns)
{
	struct process *p = proc_newest(t, listed->pid);

	if (p && !p->exited && proc_is_same(p, &listed->stat)) {
		p->in_scan = true;
		return p->maps_complete || p->kernel_thread ? NULL : p;
	}
	/* One that ended after it was listed. */
	if (p && p->exited && proc_is_same(p, &listed->stat))
		return NULL;
	if (p && !p->exited)
		proc_image_end(t, p, t->now_ns);
	t->stats.recycled += p != NULL;
	p = proc_image_new(t, listed->pid, read_ns);
	if (!p)
		return NULL;
	p->found_running = p->in_scan = true;
	proc_note_stat(t, p, &listed->stat);
	return p;
}

/* After lost records: what was not found any more ended meanwhile. */
static void end_unseen(struct proc_table *t, uint64_t begun_ns)
{
	for (struct process *p = t->all; p; p = p->next)
		if (!p->exited && !p->in_scan && p->begin_ns < begun_ns)
			proc_image_end(t, p, begun_ns);
}

void proc_take_list(struct proc_table *t, const struct proc_answer *a)
{
	struct scan *s = &t->scan;

	s->is_asked = false;
	if (a->error < 0)
		return;
	for (struct process *p = t->all; p; p = p->next)
		p->in_scan = false;
	for (size_t i = 0; i < a->n; i++) {
		struct process *p = image_of(t, &a->listed[i], a->read_ns);

		if (!p || alloc_grow(&s->items, &s->cap, s->n + 1, sizeof(struct process *)) < 0)
			continue;
		proc_ref(p);
		s->items[s->n++] = p;
	}
	end_unseen(t, a->begun_ns);
}

bool proc_table_is_scanning(const struct proc_table *t)
{
	assert_table_held(t);
	return t->scan.at < t->scan.n;
}

bool proc_table_scan_step(struct proc_table *t)
{
	struct scan *s = &t->scan;
	struct process *p;

	assert_table_held(t);
	if (s->at == s->n)
		return false;
	p = s->items[s->at++];
	if (!p->exited) {
		if (!p->labels_read)
			proc_ask(t, p, PROC_ASK_LABELS);
		if (!p->kernel_thread && !p->maps_complete)
			proc_ask(t, p, PROC_ASK_MAPS);
		proc_ask_root(t, p);
	}
	proc_unref(t, p);
	if (s->at == s->n)
		s->at = s->n = 0;
	return true;
}
