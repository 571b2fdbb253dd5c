/* SPDX-License-Identifier: Apache-2.0
 *
 * Control groups that processes are in, with what is known of their containers and pods: from the files of runtimes, and from
 * the cluster, which has the last word.
 */
#include "exporter/proc/table.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

static void set_text(char *to, size_t cap, const char *text)
{
	if (*text && strlen(text) < cap)
		memcpy(to, text, strlen(text) + 1);
}

/* One block: the addresses, then the texts. */
static void set_pod_values(struct cgroup *c, const char *const *values, uint32_t n)
{
	size_t size = n * sizeof(*values);
	const char **copy;
	char *at;

	for (uint32_t i = 0; i < n; i++)
		size += strlen(values[i]) + 1;
	copy = xmalloc(MAX(size, sizeof(*copy)));
	at = (char *)(copy + n);
	for (uint32_t i = 0; i < n; i++) {
		size_t len = strlen(values[i]) + 1;

		memcpy(at, values[i], len);
		copy[i] = at;
		at += len;
	}
	free(c->pod_values);
	c->pod_values = copy;
}

/* A container that the pod's status does not name yet, such as that of the pod itself, is known by the group above it. */
static void apply_pod(const struct proc_table *t, struct cgroup *c)
{
	const struct pod_container *container;
	const struct pod *pod;

	if (!t->pods)
		return;
	container = pod_table_find_container(t->pods, c->info.container_id);
	pod = container ? container->pod : pod_table_find(t->pods, c->info.pod_uid);
	if (!pod)
		return;
	set_text(c->container.pod, sizeof(c->container.pod), pod->name);
	set_text(c->container.namespace_, sizeof(c->container.namespace_), pod->namespace_);
	if (container) {
		set_text(c->container.name, sizeof(c->container.name), container->name);
		set_text(c->container.image, sizeof(c->container.image), container->image);
	}
	set_pod_values(c, pod->values, t->o.n_pod_labels);
}

void proc_table_set_pods(struct proc_table *t, struct pod_table *pods)
{
	uint64_t key, value;

	assert_table_held(t);
	pod_table_freep(&t->pods);
	t->pods = pods;
	for (size_t pos = 0; table_next(&t->by_cgroup, &pos, &key, &value);)
		for (struct cgroup *c = pointer_of(value); c; c = c->next_same_hash)
			apply_pod(t, c);
}

static void ask_container(struct proc_table *t, struct cgroup *c)
{
	if (c->is_asked)
		return;
	c->is_asked = true;
	proc_cgroup_ref(c);
	t->n_open++;
	c->next_asked = NULL;
	if (t->containers_tail)
		t->containers_tail->next_asked = c;
	else
		t->containers_head = c;
	t->containers_tail = c;
}

/* Mostly there at once: runtimes write a container's file before they start it. */
static void look_for_container(struct proc_table *t, struct cgroup *c)
{
	if (c->info.container_id[0] && t->now_ns >= c->container_due_ns &&
		c->container_tries < PROC_CONTAINER_TRIES)
		ask_container(t, c);
}

void proc_cgroup_found(struct proc_table *t, struct cgroup *c, const struct container_info *found)
{
	if (found) {
		c->container = *found;
		c->container_due_ns = UINT64_MAX;
		t->stats.containers_found++;
		apply_pod(t, c);
		return;
	}
	c->container_due_ns = t->now_ns + ((uint64_t)PROC_CONTAINER_RETRY_NS << c->container_tries);
	c->container_tries++;
	t->stats.containers_missed++;
}

struct cgroup *proc_cgroup_get(struct proc_table *t, const char *path, size_t n)
{
	uint64_t hash = hash_xxh3(path, n), *slot = table_insert(&t->by_cgroup, hash, NULL);
	struct cgroup *c;

	if (!slot)
		return NULL;
	for (c = pointer_of(*slot); c; c = c->next_same_hash)
		if (strlen(c->path) == n && memcmp(c->path, path, n) == 0) {
			look_for_container(t, c);
			return proc_cgroup_ref(c);
		}
	c = xcalloc(1, sizeof(*c) + n + 1);
	memcpy(c->path, path, n);
	c->n_refs = 1;
	c->hash = hash;
	c->next_same_hash = pointer_of(*slot);
	cgroup_parse(c->path, &c->info);
	look_for_container(t, c);
	apply_pod(t, c);
	*slot = number_of(c);
	return c;
}

struct cgroup *proc_cgroup_ref(struct cgroup *c)
{
	if (c)
		c->n_refs++;
	return c;
}

void proc_cgroup_put(struct proc_table *t, struct cgroup **cp)
{
	struct cgroup *c = TAKE(*cp), *at;
	uint64_t *slot;

	if (!c || --c->n_refs)
		return;
	slot = table_find(&t->by_cgroup, c->hash);
	at = pointer_of(*slot);
	if (at == c) {
		*slot = number_of(c->next_same_hash);
		if (!*slot)
			table_remove(&t->by_cgroup, c->hash);
	} else {
		while (at->next_same_hash != c)
			at = at->next_same_hash;
		at->next_same_hash = c->next_same_hash;
	}
	free(c->pod_values);
	free(c);
}

struct cgroup *proc_cgroup_known(const struct proc_table *t, uint64_t cgroup_id)
{
	const uint64_t *known = cgroup_id ? table_find(&t->by_cgroup_id, cgroup_id) : NULL;

	return known ? pointer_of(*known) : NULL;
}

void proc_cgroup_learn(struct proc_table *t, uint64_t cgroup_id, struct cgroup *c)
{
	bool is_new = false;
	uint64_t *slot;

	/* Most of so many are gone; those that are not are soon learned again. */
	if (t->by_cgroup_id.n_used >= PROC_MAX_CGROUP_IDS)
		proc_cgroups_forget(t);
	slot = table_insert(&t->by_cgroup_id, cgroup_id, &is_new);
	if (slot && is_new)
		*slot = number_of(proc_cgroup_ref(c));
}

void proc_cgroups_forget(struct proc_table *t)
{
	uint64_t key, value;

	for (size_t pos = 0; table_next(&t->by_cgroup_id, &pos, &key, &value);) {
		struct cgroup *c = pointer_of(value);

		proc_cgroup_put(t, &c);
	}
	table_clear(&t->by_cgroup_id);
}
