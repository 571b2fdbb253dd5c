/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of pods, read once and kept in an arena.
 */
#include "exporter/proc/pod_table.h"
#include "lib/base/alloc.h"
#include "lib/base/arena.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include <string.h>

enum { MAGIC = 0x31445053 }; /* "SPD1" */

struct pod_entry {
	struct pod pod;
	const char *uid;
};
struct container_entry {
	struct pod_container container;
	const char *id;
};

struct pod_table {
	struct arena arena;
	struct table by_uid, by_container; /* hash → address of the entry */
	size_t n_pods, n_containers;
};

static const char *take_text(struct pod_table *t, struct cursor *c)
{
	uint16_t n = cursor_u16(c);
	const uint8_t *p = cursor_take(c, n);
	const char *text = (const char *)p;

	if (p && (memchr(p, 0, n) || !str_is_utf8(text, n)))
		cursor_fail(c);
	return p && !c->error ? arena_strndup(&t->arena, text, n) : NULL;
}

/* The first of equals stays. */
static bool add(struct table *t, const char *key, const void *entry)
{
	uint64_t *slot = *key ? table_insert(t, hash_xxh3(key, strlen(key)), NULL) : NULL;

	if (slot && !*slot)
		*slot = (uint64_t)(uintptr_t)entry;
	return slot || !*key;
}

static bool take_container(struct pod_table *t, struct cursor *c, const struct pod *pod)
{
	struct container_entry *e = arena_zalloc(&t->arena, sizeof(*e));

	if (!e)
		return false;
	e->container.pod = pod;
	e->id = take_text(t, c);
	e->container.name = take_text(t, c);
	e->container.image = take_text(t, c);
	t->n_containers++;
	return !c->error && !t->arena.error && add(&t->by_container, e->id, e);
}

static bool take_pod(struct pod_table *t, struct cursor *c, uint32_t n_values)
{
	struct pod_entry *e = arena_zalloc(&t->arena, sizeof(*e));
	const char **values = arena_alloc_array(&t->arena, n_values, sizeof(*values));
	uint32_t n;

	if (!e || !values)
		return false;
	e->pod.namespace_ = take_text(t, c);
	e->pod.name = take_text(t, c);
	e->uid = take_text(t, c);
	e->pod.values = values;
	for (uint32_t i = 0; i < n_values; i++)
		values[i] = take_text(t, c);
	n = cursor_u32(c);
	if (c->error || t->arena.error || !add(&t->by_uid, e->uid, e))
		return false;
	t->n_pods++;
	for (uint32_t i = 0; i < n; i++)
		if (!take_container(t, c, &e->pod))
			return false;
	return true;
}

static int read_all(struct pod_table *t, struct cursor *c, uint32_t n_values, struct errbuf *eb)
{
	uint32_t magic = cursor_u32(c), n = cursor_u32(c), own_values = cursor_u32(c);
	bool ok = !c->error && magic == MAGIC && own_values == n_values;

	for (uint32_t i = 0; ok && i < n; i++)
		ok = take_pod(t, c, n_values);
	if (ok && !cursor_left(c))
		return 0;
	if (!c->error && t->arena.error)
		return arena_error(&t->arena, eb);
	return err_set(eb, -EBADMSG, "the fetcher's records of pods are malformed at byte %zu",
		c->error ? c->error_off : cursor_off(c));
}

int pod_table_read(const void *p, size_t n, uint32_t n_values, struct budget *budget,
	struct pod_table **ret, struct errbuf *eb)
{
	_cleanup_(pod_table_freep)
	struct pod_table *t = xcalloc(1, sizeof(*t));
	struct cursor c = cursor_of(p, n);
	int r;

	arena_init(&t->arena, budget);
	table_init(&t->by_uid, budget);
	table_init(&t->by_container, budget);
	r = read_all(t, &c, n_values, eb);
	if (r == 0)
		*ret = TAKE(t);
	return r;
}

void pod_table_freep(struct pod_table **tp)
{
	struct pod_table *t = *tp;

	if (!t)
		return;
	table_done(&t->by_uid);
	table_done(&t->by_container);
	arena_done(&t->arena);
	free(t);
	*tp = NULL;
}

static const void *find(const struct table *t, const char *key)
{
	const uint64_t *slot = *key ? table_find(t, hash_xxh3(key, strlen(key))) : NULL;

	return slot ? (const void *)(uintptr_t)*slot : NULL; /* NOLINT: the inverse of add */
}

const struct pod_container *pod_table_find_container(const struct pod_table *t, const char *id)
{
	const struct container_entry *e = find(&t->by_container, id);

	return e && !strcmp(e->id, id) ? &e->container : NULL;
}

const struct pod *pod_table_find(const struct pod_table *t, const char *uid)
{
	const struct pod_entry *e = find(&t->by_uid, uid);

	return e && !strcmp(e->uid, uid) ? &e->pod : NULL;
}

size_t pod_table_count(const struct pod_table *t, size_t *ret_n_containers)
{
	*ret_n_containers = t->n_containers;
	return t->n_pods;
}
