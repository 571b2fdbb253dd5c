/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks: what samples refer to. A task is a process image, a thread, both their names and the
 * control group at that time.
 */
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include "lib/base/bits.h"
#include "lib/base/hash.h"
#include <string.h>

struct task_key {
	struct process *process;
	struct cgroup *cgroup;
	uint32_t tid, zero;
	char comm[ABI_COMM_LEN], thread_name[ABI_COMM_LEN];
};

static bool is_key(const struct task *k, const struct task_key *key)
{
	return k->process == key->process && k->cgroup == key->cgroup && k->tid == key->tid &&
	       memcmp(k->comm, key->comm, ABI_COMM_LEN) == 0 &&
	       memcmp(k->thread_name, key->thread_name, ABI_COMM_LEN) == 0;
}

/* Kernel threads carry what they work on in their names: `kworker/1:2-events` is kworker. The
 * names of user processes, which may hold anything, stay. */
static void without_suffix(char comm[ABI_COMM_LEN])
{
	size_t n = strcspn(comm, "/");

	if (comm[n] == '/' && n)
		memset(comm + n, 0, ABI_COMM_LEN - n);
}

static void set_name(char to[ABI_COMM_LEN], const char *from)
{
	size_t n = strnlen(from, ABI_COMM_LEN - 1);

	memset(to, 0, ABI_COMM_LEN);
	memcpy(to, from, n);
}

static uint32_t find_task(const struct proc_table *t, const struct task_key *key, uint64_t hash)
{
	const uint64_t *slot = table_find(&t->by_task, hash);
	uint32_t id = slot ? (uint32_t)*slot : 0;

	while (id && !is_key(&t->tasks[id], key))
		id = t->tasks[id].next;
	return id;
}

/* 0 when there is no room. */
static uint32_t add_task(
	struct proc_table *t, const struct task_key *key, uint64_t hash, uint32_t max_tasks)
{
	uint32_t id = t->free_tasks;
	uint64_t *slot;

	if (!id && (t->n_tasks >= max_tasks || alloc_grow(&t->tasks, &t->cap_tasks, t->n_tasks + 1,
						       sizeof(*t->tasks)) < 0))
		return 0;
	slot = table_insert(&t->by_task, hash, NULL);
	if (!slot)
		return 0;
	if (id)
		t->free_tasks = t->tasks[id].next;
	else
		id = t->n_tasks++;
	t->tasks[id] = (struct task) {
		.used = true,
		.tid = key->tid,
		.hash = hash,
		.next = (uint32_t)*slot,
		.process = key->process,
		.cgroup = proc_cgroup_ref(key->cgroup),
	};
	memcpy(t->tasks[id].comm, key->comm, ABI_COMM_LEN);
	memcpy(t->tasks[id].thread_name, key->thread_name, ABI_COMM_LEN);
	proc_ref(key->process);
	*slot = id;
	return id;
}

uint32_t proc_task_of_record(struct proc_table *t, struct process *p, const struct abi_record *r)
{
	struct task_key key = {.process = p, .tid = r->tid};
	uint64_t hash;
	uint32_t id;

	assert_table_held(t);
	if (p == t->other)
		return 0;
	proc_want_executable(t, p);
	key.cgroup = p->cgroup;
	set_name(key.comm, r->leader_comm);
	set_name(key.thread_name, r->comm);
	if (p->kernel_thread)
		without_suffix(key.comm);
	hash = hash_xxh3(&key, sizeof(key));
	id = find_task(t, &key, hash);
	if (!id)
		id = add_task(t, &key, hash, t->o.max_tasks);
	if (id)
		return id;
	/* Full: all threads of the process in one, for which a quarter more is kept. */
	t->stats.tasks_full++;
	key.tid = 0;
	set_name(key.thread_name, key.comm);
	hash = hash_xxh3(&key, sizeof(key));
	id = find_task(t, &key, hash);
	return id ? id : add_task(t, &key, hash, t->o.max_tasks + t->o.max_tasks / 4);
}

uint32_t proc_n_tasks(const struct proc_table *t)
{
	assert_table_held(t);
	return t->n_tasks;
}

static void unlink_task(struct proc_table *t, uint32_t id)
{
	uint64_t *slot = table_find(&t->by_task, t->tasks[id].hash);
	uint32_t at = (uint32_t)*slot;

	if (at == id) {
		*slot = t->tasks[id].next;
		if (!*slot)
			table_remove(&t->by_task, t->tasks[id].hash);
		return;
	}
	while (t->tasks[at].next != id)
		at = t->tasks[at].next;
	t->tasks[at].next = t->tasks[id].next;
}

void proc_tasks_retain(struct proc_table *t, const uint64_t *used_bitmap)
{
	assert_table_held(t);
	for (uint32_t id = 1; id < t->n_tasks; id++) {
		struct task *k = &t->tasks[id];

		if (!k->used || bits_has(used_bitmap, id))
			continue;
		unlink_task(t, id);
		proc_cgroup_put(t, &k->cgroup);
		proc_unref(t, k->process);
		*k = (struct task) {.next = t->free_tasks};
		t->free_tasks = id;
	}
}

void proc_tasks_done(struct proc_table *t)
{
	for (uint32_t id = 1; id < t->n_tasks; id++)
		proc_cgroup_put(t, &t->tasks[id].cgroup);
	free(t->tasks);
}

bool proc_is_descendant(const struct proc_table *t, uint32_t task, uint32_t ancestor_pid)
{
	const struct process *p =
		task < t->n_tasks && t->tasks[task].used ? t->tasks[task].process : NULL;

	assert_table_held(t);
	for (; p && p != t->other; p = p->parent)
		if (p->pid == ancestor_pid)
			return true;
	return false;
}

void proc_task_info(const struct proc_table *t, uint32_t task, struct proc_task_info *ret)
{
	static const struct cgroup_info none;
	const struct task *k = &t->tasks[task < t->n_tasks && t->tasks[task].used ? task : 0];
	const struct process *p = k->process;
	const struct cgroup_info *c = k->cgroup ? &k->cgroup->info : &none;
	struct binary_labels labels;
	static const struct container_info unknown;
	const struct container_info *container = k->cgroup ? &k->cgroup->container : &unknown;

	assert_table_held(t);
	binary_labels(t->o.binaries, p->exe_binary, t->o.build_ids, &labels);
	*ret = (struct proc_task_info) {
		.pid = p->pid,
		.tid = k->tid,
		.ppid = p->parent ? p->parent->pid : 0,
		.ns_pid = p->ns_pid ? p->ns_pid : p->pid,
		.start_ns = p->start_ns,
		.comm = k->comm,
		.thread_name = k->thread_name,
		.executable = proc_text_str(p->executable),
		.cmdline = proc_text_str(p->cmdline),
		.cgroup = k->cgroup ? k->cgroup->path : "",
		.container_id = c->container_id,
		.container_name = container->name[0] ? container->name : c->container_name,
		.container_image = container->image,
		.pod = container->pod,
		.namespace_ = container->namespace_,
		.systemd_unit = c->systemd_unit,
		.pod_values = k->cgroup ? k->cgroup->pod_values : NULL,
		.compiler = labels.compiler,
		.language = p->has_objects && p->interp ? runtime_language(p->interp->runtime.kind)
							: labels.language,
		.exe_binary = p->exe_binary,
		.jit = proc_jit_name(p),
		.kernel_thread = p->kernel_thread,
		.exited = p->exited,
	};
	memcpy(ret->build_id, labels.build_id, sizeof(ret->build_id));
	if (!p->interp || p->interp->state == PROC_INTERP_NONE)
		return;
	ret->interp.kind = p->interp->runtime.kind;
	ret->interp.version = p->interp->runtime.version;
	if (p->interp->state == PROC_INTERP_REFUSED)
		ret->interp.refusal = p->interp->refusal;
}

const char *proc_comm(const struct proc_table *t, const struct process *p)
{
	assert_table_held(t);
	return p ? p->comm : "";
}
