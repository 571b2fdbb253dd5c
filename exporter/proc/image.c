/* SPDX-License-Identifier: Apache-2.0
 *
 * Process images: made, inherited, ended, and freed when nothing needs them any more. The other files of the table stand on it.
 */
#include "exporter/proc/publish.h"
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include <string.h>

struct text *proc_text_new(const char *s, size_t n)
{
	struct text *t = xmalloc(sizeof(*t) + n + 1);

	t->n_refs = 1;
	memcpy(t->s, s, n);
	t->s[n] = '\0';
	return t;
}

struct text *proc_text_ref(struct text *t)
{
	if (t)
		t->n_refs++;
	return t;
}

void proc_text_put(struct text **t)
{
	if (*t && --(*t)->n_refs == 0)
		free(*t);
	*t = NULL;
}

struct process *proc_newest(const struct proc_table *t, uint32_t pid)
{
	const uint64_t *slot = table_find(&t->by_pid, pid);

	return slot ? pointer_of(*slot) : NULL;
}

struct process *proc_image_new(struct proc_table *t, uint32_t pid, uint64_t begin_ns)
{
	uint64_t *slot;
	struct process *p;

	if (t->n_images >= t->o.max_processes ||
		(t->o.budget && budget_charge(t->o.budget, sizeof(*p), NULL) < 0)) {
		t->stats.table_full++;
		return NULL;
	}
	slot = table_insert(&t->by_pid, pid, NULL);
	if (!slot) {
		if (t->o.budget)
			budget_release(t->o.budget, sizeof(*p));
		t->stats.table_full++;
		return NULL;
	}
	p = xcalloc(1, sizeof(*p));
	p->pid = pid;
	p->begin_ns = begin_ns;
	p->end_ns = UINT64_MAX;
	p->older = pointer_of(*slot);
	*slot = number_of(p);
	p->next = t->all;
	if (t->all)
		t->all->prev = p;
	t->all = p;
	t->n_images++;
	t->n_live++;
	t->stats.created++;
	return p;
}

static void unlink_image(struct proc_table *t, struct process *p)
{
	uint64_t *slot = table_find(&t->by_pid, p->pid);
	struct process *at = pointer_of(*slot);

	if (at == p) {
		*slot = number_of(p->older);
		if (!p->older)
			table_remove(&t->by_pid, p->pid);
	} else {
		while (at->older != p)
			at = at->older;
		at->older = p->older;
	}
	if (p->prev)
		p->prev->next = p->next;
	else
		t->all = p->next;
	if (p->next)
		p->next->prev = p->prev;
	t->n_images--;
}

void proc_image_free(struct proc_table *t, struct process *p)
{
	maps_put(&p->maps);
	free(p->interp);
	proc_text_put(&p->executable);
	proc_text_put(&p->cmdline);
	proc_text_put(&p->dump);
	proc_cgroup_put(t, &p->cgroup);
	if (t->o.budget)
		budget_release(t->o.budget, sizeof(*p));
	free(p);
}

void proc_image_release(struct proc_table *t, struct process *p)
{
	while (p && p != t->other && p->reaped && !p->n_refs) {
		struct process *parent = p->parent;

		unlink_image(t, p);
		proc_image_free(t, p);
		if (parent)
			parent->n_refs--;
		p = parent;
	}
}

void proc_ref(struct process *p)
{
	p->n_refs++;
}

void proc_unref(struct proc_table *t, struct process *p)
{
	ASSERT(p->n_refs);
	p->n_refs--;
	proc_image_release(t, p);
}

void proc_image_inherit(
	struct proc_table *t, struct process *p, struct process *from, bool is_child)
{
	struct process *parent = is_child ? from : from->parent;

	if (parent && parent->depth < PROC_MAX_DEPTH) {
		p->parent = parent;
		p->depth = parent->depth + 1;
		proc_ref(parent);
	}
	memcpy(p->comm, from->comm, sizeof(p->comm));
	p->exec_id = from->exec_id;
	p->exec_known = from->exec_known;
	p->cgroup = proc_cgroup_ref(from->cgroup);
	p->cgroup_id = from->cgroup_id;
	p->root = from->root ? binary_root_ref(t->o.binaries, from->root) : 0;
	p->ns_pid = is_child ? 0 : from->ns_pid;
	if (!is_child) {
		p->labels_own = from->labels_own;
		p->start_ns = from->start_ns;
		p->start_ticks = from->start_ticks;
		return;
	}
	p->root_checked = from->root_checked;
	p->kernel_thread = from->kernel_thread;
	p->has_jvm = from->has_jvm;
	p->has_jit_code = from->has_jit_code;
	p->runtime = from->runtime;
	p->exe_binary = from->exe_binary;
	p->exe_place = from->exe_place;
	p->executable = proc_text_ref(from->executable);
	p->cmdline = proc_text_ref(from->cmdline);
	p->maps = maps_ref(from->maps);
	proc_interp_inherit(p, from);
	p->maps_complete = from->maps_complete;
	p->is_heir = p->parent && !from->maps_complete && !from->kernel_thread;
	from->has_heirs |= p->is_heir;
	p->maps_due_ns = p->maps_complete ? p->begin_ns + PROC_MAPS_YOUNG_NS : 0;
}

void proc_image_end(struct proc_table *t, struct process *p, uint64_t time_ns)
{
	if (p->exited)
		return;
	p->exited = true;
	proc_unpublish(t, p);
	p->end_ns = time_ns;
	p->next_exited = NULL;
	if (t->exited_tail)
		t->exited_tail->next_exited = p;
	else
		t->exited_head = p;
	t->exited_tail = p;
	t->n_live--;
	t->stats.exited++;
}

void proc_image_revive(struct proc_table *t, struct process *p)
{
	struct process **at = &t->exited_head, *last = NULL;

	if (!p->exited)
		return;
	for (; *at && *at != p; at = &(*at)->next_exited)
		last = *at;
	if (*at) {
		*at = p->next_exited;
		if (t->exited_tail == p)
			t->exited_tail = last;
	}
	if (p->reaped)
		p->maps_complete = false;
	p->exited = p->reaped = false;
	p->end_ns = UINT64_MAX;
	t->n_live++;
	t->stats.exited--;
}

bool proc_may(struct proc_table *t, struct bucket *b, double per_s)
{
	double elapsed_s = (double)(int64_t)(t->now_ns - b->filled_ns) / NS_PER_S;

	if (elapsed_s > 0) {
		b->tokens = MIN(b->tokens + elapsed_s * per_s, per_s);
		b->filled_ns = t->now_ns;
	}
	if (b->tokens < 1)
		return false;
	b->tokens -= 1;
	return true;
}
