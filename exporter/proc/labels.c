/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, control groups and command lines of processes: when they are asked for, and what the answers say.
 */
#include "exporter/proc/publish.h"
#include <string.h>

static void set_cgroup(
	struct proc_table *t, struct process *p, struct cgroup *c, uint64_t cgroup_id)
{
	proc_cgroup_put(t, &p->cgroup);
	p->cgroup = c;
	p->cgroup_id = cgroup_id;
	p->cgroup_read_ns = 0;
}

/* The process's own file shows where the process was when it was read: it counts only while the record's id is not known. */
static void take_cgroup(struct proc_table *t, struct process *p, const struct proc_answer *a)
{
	const struct cgroup *known = proc_cgroup_known(t, p->cgroup_id);
	const char *path = known ? known->path : a->cgroup;
	uint64_t id = p->cgroup_id;
	struct cgroup *c = path && *path ? proc_cgroup_get(t, path, strlen(path)) : NULL;

	if (!c)
		return;
	set_cgroup(t, p, c, id);
	if (!known && a->cgroup_is_v2 && strlen(path) > 1 && id)
		p->cgroup_read_ns = a->read_ns;
}

/* Before its file was read and after it the process was in the same group, so that is the one of this id. From now on the id in a
 * record is enough, also for processes that have ended or moved when they are looked at. */
static void learn_cgroup(struct proc_table *t, struct process *p, const struct abi_record *r)
{
	if (!p->cgroup_read_ns || r->time_ns <= p->cgroup_read_ns || r->cgroup_id != p->cgroup_id)
		return;
	p->cgroup_read_ns = 0;
	proc_cgroup_learn(t, r->cgroup_id, p->cgroup);
}

void proc_note_stat(struct proc_table *t, struct process *p, const struct proc_stat *st)
{
	struct process *parent = p->parent || !st->ppid ? NULL : proc_newest(t, st->ppid);

	memcpy(p->comm, st->comm, sizeof(p->comm));
	p->start_ticks = st->start_ticks;
	p->kernel_thread = st->kernel_thread;
	if (parent && parent != p && parent->depth < PROC_MAX_DEPTH) {
		p->parent = parent;
		p->depth = parent->depth + 1;
		proc_ref(parent);
	}
}

bool proc_is_same(const struct process *p, const struct proc_stat *st)
{
	return !p->start_ticks || p->start_ticks == st->start_ticks;
}

/*
 * Gone before it could be asked: it was where its parent is. That one may not have been asked either, and what it has from its
 * own parent may be from before it entered a container: then it is asked now. True when that is worth waiting for.
 */
static bool labels_of_ancestor(struct proc_table *t, struct process *p)
{
	p->wants_ancestor = false;
	for (struct process *at = p->parent; !p->labels_own && at && at != t->other;
		at = at->parent) {
		if (!at->labels_own && !at->labels_read && !at->exited &&
			(proc_is_asked(at, PROC_ASK_LABELS) || proc_may_read(t))) {
			/* Its group is its parent's, whatever record that was known from. */
			if (!proc_is_asked(at, PROC_ASK_LABELS))
				at->cgroup_id = 0;
			proc_ask(t, at, PROC_ASK_LABELS);
			proc_await(at, PROC_ASK_LABELS);
			p->wants_ancestor = true;
			return proc_is_awaited(t, at);
		}
		if (!at->labels_own)
			continue;
		proc_cgroup_put(t, &p->cgroup);
		p->cgroup = proc_cgroup_ref(at->cgroup);
		return false;
	}
	return false;
}

/* What is known only of the process, not of the image: another image of it may have been read. */
void proc_take_labels(struct proc_table *t, struct process *p, const struct proc_answer *a)
{
	bool first = !p->labels_read, is_image = p->end_ns > a->read_ns;

	p->labels_read = true;
	p->labels_due_ns = t->now_ns + PROC_LABELS_TTL_NS;
	if (a->error < 0 || !proc_is_same(p, &a->stat)) {
		t->stats.labels_unread += first;
		if (first && p->found_running && !p->start_ns)
			proc_image_end(t, p, t->now_ns); /* listed, and gone before it was read */
		if (first && !proc_cgroup_known(t, p->cgroup_id))
			p->wants_ancestor = true;
		return;
	}
	t->stats.labels_read++;
	p->labels_own = true;
	take_cgroup(t, p, a);
	if (!first || !is_image)
		return;
	proc_note_stat(t, p, &a->stat);
	if (a->uid_known) {
		p->uid = a->uid;
		p->uid_known = true;
	}
	if (a->ns_pid)
		p->ns_pid = a->ns_pid;
	if (!a->cmdline)
		return;
	proc_text_put(&p->cmdline);
	p->cmdline = proc_text_new(a->cmdline, strlen(a->cmdline));
	if (p->runtime)
		proc_publish_soon(t, p);
}

void proc_ask_first(struct proc_table *t, struct process *p)
{
	if (p->exited) {
		p->labels_read = true;
		p->wants_ancestor = !proc_cgroup_known(t, p->cgroup_id);
		return;
	}
	proc_ask(t, p, PROC_ASK_LABELS);
	proc_await(p, PROC_ASK_LABELS);
	proc_ask_root(t, p);
}

/* Asks for labels when that is due, or when the record's control group is another. */
static void refresh(struct proc_table *t, struct process *p, const struct abi_record *r)
{
	uint64_t id = r->cgroup_id;
	bool moved = id && p->cgroup_id && id != p->cgroup_id;
	struct cgroup *known;

	learn_cgroup(t, p, r);
	if (p->labels_read && !moved && t->now_ns < p->labels_due_ns && (p->cgroup_id || !id))
		return;
	known = proc_cgroup_known(t, id);
	if (known && p->cgroup != known)
		set_cgroup(t, p, proc_cgroup_ref(known), id);
	if (proc_is_asked(p, PROC_ASK_LABELS)) {
		p->cgroup_id = p->cgroup_id ? p->cgroup_id : id;
		return;
	}
	if ((p->exited && p->labels_read) || !proc_may_read(t))
		return;
	p->cgroup_id = id;
	if (!p->labels_read) {
		proc_ask_first(t, p);
		return;
	}
	p->cgroup_read_ns = 0;
	p->labels_due_ns = t->now_ns + PROC_LABELS_TTL_NS;
	proc_ask(t, p, PROC_ASK_LABELS);
	if (moved && !known)
		proc_await(p, PROC_ASK_LABELS);
}

/* What lies where a file's code was may be that code, as /proc/PID/maps shows (reader/moved.h). */
static void look_at_moved_code(struct proc_table *t, struct process *p)
{
	if (!p->has_moved_code || p->exited || proc_is_asked(p, PROC_ASK_MAPS) || !proc_may_read(t))
		return;
	p->has_moved_code = false;
	proc_ask_maps(t, p);
}

enum proc_wait proc_table_awaits(
	struct proc_table *t, struct process *p, const struct abi_record *r)
{
	const uint64_t *user = (const uint64_t *)r->frames + r->n_kernel;
	struct process *from;
	bool ancestor;

	assert_table_held(t);
	if (p == t->other)
		return PROC_READY;
	refresh(t, p, r);
	look_at_moved_code(t, p);
	for (uint32_t i = 0; i < r->n_user; i++)
		if (abi_frame_is_address(user[i]))
			(void)proc_locate(t, p, ABI_FRAME_VALUE(user[i]) - (i > 0), r->time_ns);
	ancestor = p->wants_ancestor && labels_of_ancestor(t, p);
	from = p->maps_complete ? NULL : proc_maps_asked(p);
	if (proc_is_awaited(t, p) || (from && proc_is_awaited(t, from)) || ancestor)
		return PROC_AWAITED;
	return p->asks.awaited || (from && from->asks.awaited) || p->wants_ancestor ? PROC_GIVEN_UP
										    : PROC_READY;
}
