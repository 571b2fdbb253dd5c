/* SPDX-License-Identifier: Apache-2.0
 *
 * Process images: which record belongs to which, what they share, when they go.
 */
#include "exporter/proc/publish.h"
#include "exporter/proc/runs.h"
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/hash.h"
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

static void free_image(struct proc_table *t, struct process *p)
{
	maps_put(&p->maps);
	proc_text_put(&p->executable);
	proc_text_put(&p->cmdline);
	proc_text_put(&p->dump);
	proc_cgroup_put(t, &p->cgroup);
	if (t->o.budget)
		budget_release(t->o.budget, sizeof(*p));
	free(p);
}

void proc_table_freep(struct proc_table **tp)
{
	struct proc_table *t = *tp;

	if (!t)
		return;
	proc_asks_done(t);
	proc_tasks_done(t);
	proc_addresses_done(t);
	for (struct process *p = t->all, *next; p; p = next) {
		next = p->next;
		if (p->root)
			binary_root_put(t->o.binaries, p->root);
		free_image(t, p);
	}
	proc_cgroups_forget(t);
	pod_table_freep(&t->pods);
	table_done(&t->by_pid);
	table_done(&t->by_cgroup);
	table_done(&t->by_cgroup_id);
	table_done(&t->by_task);
	table_done(&t->by_address);
	free(t->other);
	free(t);
	*tp = NULL;
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

void proc_ref(struct process *p)
{
	p->n_refs++;
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

/* Frees an image that nothing needs any more, and then its parents for which the same is true
 * now. */
static void release_image(struct proc_table *t, struct process *p)
{
	while (p && p != t->other && p->reaped && !p->n_refs) {
		struct process *parent = p->parent;

		unlink_image(t, p);
		free_image(t, p);
		if (parent)
			parent->n_refs--;
		p = parent;
	}
}

void proc_unref(struct proc_table *t, struct process *p)
{
	ASSERT(p->n_refs);
	p->n_refs--;
	release_image(t, p);
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
	p->executable = proc_text_ref(from->executable);
	p->cmdline = proc_text_ref(from->cmdline);
	p->maps = maps_ref(from->maps);
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

void proc_table_come(struct proc_table *t, uint64_t up_to_ns)
{
	proc_take_answers(t, up_to_ns);
}

void proc_table_expire(struct proc_table *t, uint64_t up_to_ns)
{
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
		release_image(t, p);
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

	t->now_ns = MAX(t->now_ns, r->time_ns);
	if (!p)
		p = adopt(t, r);
	if (p->start_ns == r->start_ns)
		proc_publish_sampled(t, p, r);
	return p;
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

void proc_table_mark_binaries(const struct proc_table *t, uint64_t *bitmap, uint32_t n_bits)
{
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
	*ret = t->stats;
	ret->tracked = t->n_live;
	ret->mappings = 0;
	for (const struct process *p = t->all; p; p = p->next)
		ret->mappings += maps_count(p->maps);
	ret->tasks = t->by_task.n_used + 1;
	ret->addresses = t->by_address.n_used;
	ret->code_waiting = t->n_waiting;
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
