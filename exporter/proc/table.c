/* SPDX-License-Identifier: Apache-2.0
 *
 * The process table: which image a record belongs to, and when images go.
 */
#include "exporter/proc/publish.h"
#include "exporter/proc/runs.h"
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/hash.h"
#include <string.h>

struct proc_table *proc_table_new(const struct proc_options *o)
{
	struct proc_table *t = xcalloc(1, sizeof(*t));

	t->o = *o;
	t->reads.tokens = PROC_READS_PER_S;
	t->roots.tokens = PROC_ROOTS_PER_S;
	t->scan.pending = true;
	table_init(&t->by_pid, o->budget);
	table_init(&t->by_cgroup, o->budget);
	table_init(&t->by_cgroup_id, o->budget);
	table_init(&t->by_task, o->budget);
	table_init(&t->by_address, o->budget);
	table_init(&t->by_text, o->budget);
	t->other = xcalloc(1, sizeof(*t->other));
	t->other->n_refs = 1;
	t->other->end_ns = UINT64_MAX;
	t->other->maps_complete = t->other->labels_read = true;
	/* Task 0 and address 0 stand for what the caps left out. */
	t->tasks = xcalloc(1, sizeof(*t->tasks));
	t->tasks[0] = (struct task) {.used = true, .process = t->other};
	t->cap_tasks = t->n_tasks = 1;
	t->addresses = xcalloc(1, sizeof(*t->addresses));
	t->cap_addresses = t->n_addresses = 1;
	return t;
}

void proc_table_freep(struct proc_table **tp)
{
	struct proc_table *t = *tp;

	if (!t)
		return;
	proc_interp_done(t);
	proc_asks_done(t);
	proc_tasks_done(t);
	proc_addresses_done(t);
	for (struct process *p = t->all, *next; p; p = next) {
		next = p->next;
		if (p->root)
			binary_root_put(t->o.binaries, p->root);
		proc_image_free(t, p);
	}
	proc_cgroups_forget(t);
	pod_table_freep(&t->pods);
	table_done(&t->by_pid);
	table_done(&t->by_cgroup);
	table_done(&t->by_cgroup_id);
	table_done(&t->by_task);
	table_done(&t->by_address);
	table_done(&t->by_text);
	free(t->other);
	free(t);
	*tp = NULL;
}

void proc_table_come(struct proc_table *t, uint64_t up_to_ns)
{
	assert_table_held(t);
	proc_take_answers(t, up_to_ns);
}

void proc_table_expire(struct proc_table *t, uint64_t up_to_ns)
{
	assert_table_held(t);
	t->now_ns = MAX(t->now_ns, up_to_ns);
	proc_publish(t, t->now_ns);
	while (t->exited_head && t->exited_head->end_ns + PROC_LINGER_NS < up_to_ns) {
		struct process *p = t->exited_head;

		t->exited_head = p->next_exited;
		if (!t->exited_head)
			t->exited_tail = NULL;
		p->reaped = true;
		maps_put(&p->maps);
		if (p->root)
			binary_root_put(t->o.binaries, p->root);
		p->root = 0;
		proc_image_release(t, p);
	}
}

static bool start_fits(const struct process *p, uint64_t start_ns)
{
	if (p->start_ns)
		return p->start_ns == start_ns;
	return start_ns <= p->begin_ns &&
	       (p->found_running || start_ns + PROC_FORK_SLACK_NS >= p->begin_ns);
}

/* True when the record can be of this image; what the image did not know yet it learns then. */
static bool claim(struct process *p, const struct process *newest, const struct abi_record *r)
{
	if (!start_fits(p, r->start_ns) || (p->exec_known && p->exec_id != r->exec_id))
		return false;
	/* Among images whose exec count is not known, time decides. */
	if (!p->exec_known && p->older && (r->time_ns < p->begin_ns || r->time_ns >= p->end_ns))
		return false;
	if (!p->exec_known && p != newest && r->time_ns >= p->end_ns)
		return false;
	p->start_ns = r->start_ns;
	/* In the kernel the exec may still be under way, however long ago its record came. */
	if (!p->older ||
		(r->flags & ABI_FLAG_USER_MODE && r->time_ns - p->begin_ns > PROC_EXEC_SLACK_NS)) {
		p->exec_id = r->exec_id;
		p->exec_known = true;
	}
	return true;
}

static struct process *find_image(struct proc_table *t, const struct abi_record *r)
{
	struct process *newest = proc_newest(t, r->pid);

	for (struct process *p = newest; p; p = p->older) {
		if (!claim(p, newest, r))
			continue;
		if (p->exited && p == newest && r->time_ns > p->end_ns)
			proc_image_revive(t, p);
		return p;
	}
	return NULL;
}

/* An image without a side-band record: the record was lost, or is from before the start. */
static struct process *adopt(struct proc_table *t, const struct abi_record *r)
{
	struct process *before = proc_newest(t, r->pid), *p;
	bool same_process = before && before->start_ns == r->start_ns;

	if (before && !before->exited)
		proc_image_end(t, before, r->time_ns);
	p = proc_image_new(t, r->pid, r->start_ns);
	if (!p)
		return t->other;
	if (same_process)
		proc_image_inherit(t, p, before, false);
	else if (before)
		t->stats.recycled++;
	p->start_ns = r->start_ns;
	p->exec_id = r->exec_id;
	p->exec_known = true;
	p->kernel_thread = r->flags & ABI_FLAG_KTHREAD;
	memcpy(p->comm, r->leader_comm, sizeof(p->comm));
	p->cgroup_id = p->cgroup_id ? p->cgroup_id : r->cgroup_id;
	proc_ask_first(t, p);
	if (!p->kernel_thread)
		proc_ask_maps(t, p);
	return p;
}

struct process *proc_table_of_record(struct proc_table *t, const struct abi_record *r)
{
	struct process *p = find_image(t, r);

	assert_table_held(t);
	t->now_ns = MAX(t->now_ns, r->time_ns);
	if (!p)
		p = adopt(t, r);
	if (p->start_ns == r->start_ns)
		proc_publish_sampled(t, p, r);
	return p;
}

struct process *proc_table_of_code(const struct proc_table *t, const struct abi_code *c)
{
	struct process *p = proc_newest(t, c->pid);

	assert_table_held(t);
	while (p && (p->start_ns != c->start_ns || !p->exec_known || p->exec_id != c->exec_id))
		p = p->older;
	return p;
}

void proc_table_mark_binaries(const struct proc_table *t, uint64_t *bitmap, uint32_t n_bits)
{
	assert_table_held(t);
	for (const struct process *p = t->all; p; p = p->next) {
		bits_set_below(bitmap, p->exe_binary, n_bits);
		for (uint32_t i = 0; i < maps_count(p->maps); i++)
			bits_set_below(bitmap, maps_at(p->maps, i)->binary, n_bits);
	}
	for (uint32_t id = 1; t->n_read_late && id < t->n_addresses; id++)
		if (t->addresses[id].word)
			bits_set_below(bitmap, ABI_NATIVE_BINARY(t->addresses[id].word), n_bits);
}

void proc_table_stats(const struct proc_table *t, struct proc_stats *ret)
{
	assert_table_held(t);
	*ret = t->stats;
	ret->tracked = t->n_live;
	ret->mappings = 0;
	for (const struct process *p = t->all; p; p = p->next) {
		ret->mappings += maps_count(p->maps);
		if (p->interp && !p->exited)
			ret->interp[p->interp->runtime.kind][p->interp->state]++;
	}
	ret->tasks = t->by_task.n_used + 1;
	ret->addresses = t->by_address.n_used;
	ret->code_waiting = t->waiting[PROC_CODE_JIT].n;
	ret->objects_waiting = t->waiting[PROC_CODE_OBJECTS].n;
	ret->asks_open = t->n_open;
	if (t->o.runs) {
		struct runs_stats runs;

		runs_stats(t->o.runs, &runs);
		ret->published_bytes = runs.words * sizeof(uint64_t);
		ret->published_capacity_bytes = runs.n_words * sizeof(uint64_t);
		ret->unpublished_maps = runs.no_words;
		ret->unpublished_heads = runs.no_head;
	}
}
