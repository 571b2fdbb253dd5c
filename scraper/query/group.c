/* SPDX-License-Identifier: Apache-2.0
 *
 * Group keys are the bytes of the grouping labels' values, so equal values in different parts are one group.
 */
#include "scraper/query/group.h"
#include "lib/base/cursor.h"

void group_set_init(struct group_set *g, struct scan *s, size_t max_groups)
{
	*g = (struct group_set) {
		.scan = s, .max_groups = max_groups ? max_groups : 1000, .other = TREE_NONE};
	lock_init(&g->lock);
	interner_init(&g->keys, s->env->budget);
}

void group_set_done(struct group_set *g)
{
	if (!g->scan)
		return;
	interner_done(&g->keys);
	lock_done(&g->lock);
}

static uint32_t value_of(const struct group_view *v, uint32_t row_set, size_t label)
{
	size_t n = v->set->scan->n_group_by;
	uint32_t value = v->part->group_values[v->stream_set * n + label];

	return value != STORE_NONE ? value : v->part->group_values[row_set * n + label];
}

static int64_t add_key_locked(struct group_set *g, const struct bytes *key)
{
	static const char other[] = "__other__";
	struct bytes all_other = {};
	uint32_t id;

	ASSERT_HELD(&g->lock);
	id = interner_find(&g->keys, key->data, key->len);
	if (id == INTERNER_NONE && g->keys.n < g->max_groups)
		id = interner_add(&g->keys, key->data, key->len, NULL);
	else if (id == INTERNER_NONE && g->other != TREE_NONE)
		id = g->other;
	else if (id == INTERNER_NONE) {
		for (size_t i = 0; i < g->scan->n_group_by; i++) {
			bytes_put_u8(&all_other, 1);
			bytes_put_varint(&all_other, sizeof(other) - 1);
			bytes_put_str(&all_other, other);
		}
		if (!all_other.error)
			id = interner_add(&g->keys, all_other.data, all_other.len, NULL);
		g->other = id;
		bytes_done(&all_other);
	}
	return id == INTERNER_NONE ? -ENOMEM : (int64_t)id;
}

static int64_t add_key(struct group_set *g, const struct bytes *key)
{
	int64_t id;

	lock_take(&g->lock);
	id = add_key_locked(g, key);
	lock_release(&g->lock);
	return id;
}

static int64_t find_group(struct group_view *v, uint32_t row_set)
{
	_cleanup_bytes_ struct bytes key = {};

	for (size_t i = 0; i < v->set->scan->n_group_by; i++) {
		uint32_t value = value_of(v, row_set, i);
		struct prof_str s =
			value == STORE_NONE ? (struct prof_str) {} : scan_string(v->part, value);

		bytes_put_u8(&key, value != STORE_NONE);
		if (value == STORE_NONE)
			continue;
		bytes_put_varint(&key, s.len);
		bytes_put(&key, s.p, s.len);
	}
	bytes_put_u8(&key, 0);
	return bytes_error(&key) ? -ENOMEM : add_key(v->set, &key);
}

int group_view_start(struct group_view *v, struct group_set *g, const struct scan_part *p,
	const struct scan_hit *hit)
{
	const struct scan *s = g->scan;
	uint32_t open = 0;
	int64_t id;

	ASSERT(!v->set || v->set == g);
	if (!v->set)
		table_init(&v->by_row_set, s->env->budget);
	v->set = g;
	v->part = p;
	v->stream_set = p->streams[hit->stream].label_set;
	v->constant = TREE_NONE;
	table_clear(&v->by_row_set);
	for (size_t i = 0; i < s->n_group_by; i++)
		if (p->group_values[v->stream_set * s->n_group_by + i] == STORE_NONE)
			open |= 1U << i;
	if (p->schemas[p->streams[hit->stream].schema].kind == STORE_PROFILE &&
		(open & p->group_labels_any))
		return 0;
	id = find_group(v, v->stream_set);
	if (id < 0)
		return (int)id;
	v->constant = (uint32_t)id;
	return 0;
}

int64_t group_view_of_stream(struct group_view *v)
{
	ASSERT(v->set);
	return v->constant != TREE_NONE ? v->constant : find_group(v, v->stream_set);
}

void group_view_done(struct group_view *v)
{
	if (v->set)
		table_done(&v->by_row_set);
}

int64_t group_view_of(struct group_view *v, uint32_t row_set)
{
	bool is_new;
	uint64_t *slot;
	int64_t id;

	ASSERT(v->set);
	if (v->constant != TREE_NONE)
		return v->constant;
	slot = table_insert(&v->by_row_set, row_set, &is_new);
	if (!slot)
		return -ENOMEM;
	if (!is_new)
		return (int64_t)*slot;
	id = find_group(v, row_set);
	if (id >= 0)
		*slot = (uint64_t)id;
	else
		table_remove(&v->by_row_set, row_set);
	return id;
}

int group_set_labels(const struct group_set *g, uint32_t i, struct labels *ret)
{
	_cleanup_labels_builder_ struct labels_builder b = {};
	struct cursor c;

	ASSERT(i < group_set_n(g));
	c = cursor_of(g->keys.items[i].bytes, g->keys.items[i].len);
	labels_builder_init(&b);
	for (size_t k = 0; k < g->scan->n_group_by; k++) {
		const char *name = g->scan->group_by[k];
		size_t n;

		if (!cursor_u8(&c))
			continue;
		n = (size_t)cursor_varint(&c);
		labels_builder_set_n(&b, name, strlen(name), (const char *)cursor_take(&c, n), n);
	}
	return labels_builder_finish(&b, ret);
}
