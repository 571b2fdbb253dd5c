/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of JIT code: which addresses wait for one, and what they were given.
 */
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

bool proc_code_is_waiting(const struct proc_table *t, enum proc_code_kind kind)
{
	assert_table_held(t);
	return t->waiting[kind].n;
}

static bool is_hopeless(const struct address *a)
{
	if (a->is_object)
		return proc_object_is_settled(a->object);
	return !a->process || a->name || a->is_retired || (a->process->reaped && !a->process->root);
}

/* The list without those that need no name any more. */
static void drop_settled(struct proc_table *t, enum proc_code_kind kind)
{
	struct waiting *w = &t->waiting[kind];
	size_t kept = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct address *a = &t->addresses[w->ids[i]];

		/* The id may be of the other kind by now. */
		if (proc_kind_of(a) == kind && !is_hopeless(a))
			w->ids[kept++] = w->ids[i];
		else
			a->waiting &= (uint8_t) ~(1U << kind);
	}
	w->n = kept;
}

struct found {
	struct process *process;
	uint32_t id;
};

static int by_process(const void *pa, const void *pb)
{
	const struct found *a = pa, *b = pb;

	if (a->process != b->process)
		return number_of(a->process) < number_of(b->process) ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static void add_process(struct proc_code_batch *b, const struct process *p)
{
	struct proc_code_process *to = &b->processes[b->n_processes++];

	*to = (struct proc_code_process) {
		.pid = p->pid,
		.ns_pid = p->ns_pid ? p->ns_pid : p->pid,
		.uid = p->uid,
		.uid_known = p->uid_known,
		.start_ns = p->start_ns,
		.root = p->root,
		.exited = p->exited,
		.has_jvm = p->has_jvm,
		.dump = p->dump ? xstrdup(p->dump->s) : NULL,
	};
	to->has_runtime = proc_runtime(p, &to->runtime);
}

/* The newest, since older ones have been tried. One process has a quarter of the places at most while others wait. */
static void choose(struct proc_table *t, const struct waiting *w, size_t max, struct found *ret,
	size_t n, struct found *more)
{
	const size_t share = MAX(max / 4, 1U);
	size_t n_found = 0, n_more = 0;

	for (size_t i = w->n; i && n_found < n; i--) {
		uint32_t id = w->ids[i - 1];
		const struct found f = {.process = t->addresses[id].process, .id = id};

		if (f.process->n_taken < share) {
			f.process->n_taken++;
			ret[n_found++] = f;
		} else if (n_more < n) {
			more[n_more++] = f;
		}
	}
	for (size_t i = 0; i < n_found; i++)
		ret[i].process->n_taken = 0;
	memcpy(ret + n_found, more, (n - n_found) * sizeof(*ret));
}

void proc_code_take(
	struct proc_table *t, enum proc_code_kind kind, size_t max, struct proc_code_batch *ret)
{
	const struct waiting *w = &t->waiting[kind];
	_cleanup_free_ struct found *found = NULL, *more = NULL;
	size_t n;

	assert_table_held(t);
	*ret = (struct proc_code_batch) {0};
	drop_settled(t, kind);
	n = MIN(w->n, max);
	if (!n)
		return;
	found = try_realloc(NULL, n, sizeof(*found));
	more = try_realloc(NULL, n, sizeof(*more));
	ret->addresses = try_realloc(NULL, n, sizeof(*ret->addresses));
	ret->processes = try_realloc(NULL, n, sizeof(*ret->processes));
	if (!found || !more || !ret->addresses || !ret->processes) {
		proc_code_batch_done(ret);
		return;
	}
	choose(t, w, max, found, n, more);
	qsort(found, n, sizeof(*found), by_process);
	for (size_t i = 0; i < n; i++) {
		const struct address *a = &t->addresses[found[i].id];

		if (!i || found[i].process != found[i - 1].process)
			add_process(ret, found[i].process);
		ret->addresses[ret->n_addresses++] = (struct proc_code_address) {
			.addr = a->addr,
			.id = found[i].id,
			.process = (uint32_t)(ret->n_processes - 1),
			.was_tried = a->was_tried,
			.check = a->is_object ? a->object->check : 0,
			.context = a->is_object ? a->object->context : 0,
			.flags = a->is_object ? a->object->flags : 0,
		};
	}
}

void proc_code_batch_done(struct proc_code_batch *b)
{
	for (size_t i = 0; i < b->n_processes; i++)
		free(b->processes[i].dump);
	free(b->addresses);
	free(b->processes);
	*b = (struct proc_code_batch) {0};
}

static bool is_name(const struct code_name *n, const char *name, const char *file, uint32_t line)
{
	return n && n->line == line && strcmp(n->name, name) == 0 && strcmp(n->file, file) == 0;
}

/* A new name, or that of the address before it in the batch when it is the same. */
static struct code_name *name_of(struct proc_table *t, const struct proc_code_batch *b,
	const struct proc_code_address *a, const char *name, const char *file, uint32_t line)
{
	const struct proc_code_address *before = a > b->addresses ? a - 1 : NULL;
	const struct proc_code_process *p = &b->processes[a->process];
	const struct address *other = before && before->process == a->process
					      ? proc_address_still(t, p, before->id, before->addr)
					      : NULL;
	size_t n = strlen(name) + 1, n_file = strlen(file) + 1;
	struct code_name *fresh;

	if (other && is_name(other->name, name, file, line)) {
		other->name->n_refs++;
		return other->name;
	}
	fresh = try_malloc(sizeof(*fresh) + n + n_file);
	if (!fresh)
		return NULL;
	*fresh = (struct code_name) {.n_refs = 1, .line = line, .file = fresh->name + n};
	memcpy(fresh->name, name, n);
	memcpy(fresh->name + n, file, n_file);
	return fresh;
}

void proc_code_name(struct proc_table *t, const struct proc_code_batch *b,
	const struct proc_code_address *a, const char *name, const char *file, uint32_t line)
{
	struct address *at = proc_address_still(t, &b->processes[a->process], a->id, a->addr);

	assert_table_held(t);
	if (!at)
		return;
	at->was_tried = true;
	if (name && !at->name)
		at->name = name_of(t, b, a, name, file, line);
}

size_t proc_code_list_named(
	const struct proc_table *t, const struct proc_code_process *p, struct proc_code_named **ret)
{
	size_t n = 0, cap = 0;

	assert_table_held(t);
	*ret = NULL;
	for (uint32_t id = 1; id < t->n_addresses; id++) {
		const struct address *a = &t->addresses[id];

		if (!a->process || a->is_object || !a->name || a->is_retired ||
			a->process->pid != p->pid || a->process->start_ns != p->start_ns)
			continue;
		if (alloc_grow(ret, &cap, n + 1, sizeof(**ret)) < 0)
			break;
		(*ret)[n++] = (struct proc_code_named) {.addr = a->addr,
			.id = id,
			.name_hash = hash_xxh3(a->name->name, strlen(a->name->name))};
	}
	return n;
}

void proc_code_retire(struct proc_table *t, const struct proc_code_process *p,
	const struct proc_code_named *named)
{
	struct address *a = proc_address_still(t, p, named->id, named->addr);

	assert_table_held(t);
	if (!a || a->is_retired)
		return;
	proc_address_unlink(t, named->id);
	a->is_retired = true;
}
