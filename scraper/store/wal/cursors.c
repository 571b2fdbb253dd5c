/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of durable cursors.
 */
#include "scraper/store/wal/cursors.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

void cursors_init(struct cursors *c)
{
	*c = (struct cursors) {.items = NULL};
	lock_init(&c->lock);
	table_init(&c->by_key, NULL);
}

static void free_items(struct cursors *c)
{
	for (size_t i = 0; i < c->n; i++)
		cleanup_freep(&c->items[i].key.p);
	free(c->items);
	table_done(&c->by_key);
	c->items = NULL;
	c->n = c->cap = 0;
}

void cursors_done(struct cursors *c)
{
	free_items(c);
	lock_done(&c->lock);
}

static bool blob_equal(struct store_blob a, struct store_blob b)
{
	return a.len == b.len && (!a.len || !memcmp(a.p, b.p, a.len));
}

static struct cursors_entry *find(struct cursors *c, struct store_blob key)
{
	uint64_t hash = hash_xxh3(key.p, key.len), *v;

	for (; (v = table_find(&c->by_key, hash)) != NULL; hash++)
		if (blob_equal(c->items[*v].key, key))
			return &c->items[*v];
	return NULL;
}

static int fill(
	struct cursors_entry *e, struct store_blob key, struct store_blob value, int64_t time_ns)
{
	uint8_t *p = try_malloc(key.len + value.len);

	if (!p)
		return -ENOMEM;
	memcpy(p, key.p, key.len);
	if (value.len)
		memcpy(p + key.len, value.p, value.len);
	*e = (struct cursors_entry) {
		.key = {.p = p, .len = key.len},
		.value = {.p = p + key.len, .len = value.len},
		.time_ns = time_ns,
		.present = true,
	};
	return 0;
}

static int add_entry(struct cursors *c, const struct cursors_entry *e)
{
	uint64_t hash = hash_xxh3(e->key.p, e->key.len), *v;
	bool is_new = false;

	if (alloc_grow(&c->items, &c->cap, c->n + 1, sizeof(*c->items)) < 0)
		return -ENOMEM;
	while (!is_new) {
		v = table_insert(&c->by_key, hash++, &is_new);
		if (!v)
			return -ENOMEM;
		if (is_new)
			*v = c->n;
	}
	c->items[c->n++] = *e;
	return 0;
}

static int set_locked(
	struct cursors *c, struct store_blob key, struct store_blob value, int64_t time_ns)
{
	struct cursors_entry *have, e;
	int r;

	ASSERT_HELD(&c->lock);
	have = find(c, key);
	r = fill(&e, key, value, time_ns);
	if (r < 0)
		return r;
	if (have) {
		cleanup_freep(&have->key.p);
		*have = e;
		return 0;
	}
	r = add_entry(c, &e);
	if (r < 0)
		cleanup_freep(&e.key.p);
	return r;
}

int cursors_set(struct cursors *c, struct store_blob key, struct store_blob value, int64_t time_ns)
{
	int r;

	lock_take(&c->lock);
	r = set_locked(c, key, value, time_ns);
	lock_release(&c->lock);
	return r;
}

int cursors_prepare(struct cursors *c, struct store_blob key, struct store_blob value,
	int64_t time_ns, struct cursors_pending *ret)
{
	struct store_blob none = {.len = 0};
	int r = fill(&ret->entry, key, value, time_ns);

	if (r < 0)
		return r;
	lock_take(&c->lock);
	if (!find(c, key)) {
		r = set_locked(c, key, none, INT64_MAX);
		if (r >= 0)
			find(c, key)->present = false;
	}
	lock_release(&c->lock);
	if (r < 0)
		cursors_abort(ret);
	return r;
}

void cursors_commit(struct cursors *c, struct cursors_pending *p)
{
	struct cursors_entry *e;

	if (!p->entry.key.p)
		return;
	lock_take(&c->lock);
	e = find(c, p->entry.key);
	ASSERT(e);
	cleanup_freep(&e->key.p);
	*e = p->entry;
	p->entry.key.p = NULL;
	lock_release(&c->lock);
}

void cursors_abort(struct cursors_pending *p)
{
	cleanup_freep(&p->entry.key.p);
	p->entry.key.p = NULL;
}

int cursors_get(struct cursors *c, struct store_blob key, struct bytes *ret)
{
	struct cursors_entry *e;
	int r = -ENOENT;

	lock_take(&c->lock);
	e = find(c, key);
	if (e && e->present) {
		bytes_put(ret, e->value.p, e->value.len);
		r = bytes_error(ret);
	}
	lock_release(&c->lock);
	return r;
}

int cursors_check(struct cursors *c, struct store_blob key, struct store_blob before)
{
	struct cursors_entry *e;
	int r = 0;

	lock_take(&c->lock);
	e = find(c, key);
	if (e && e->present && !blob_equal(e->value, before))
		r = -ESTALE;
	lock_release(&c->lock);
	return r;
}

static bool is_kept(const struct cursors_entry *e, int64_t oldest_ns)
{
	return e->present && e->time_ns >= oldest_ns;
}

void cursors_expire(struct cursors *c, int64_t oldest_ns)
{
	struct cursors kept = {.items = NULL};

	table_init(&kept.by_key, NULL);
	lock_take(&c->lock);
	for (size_t i = 0; i < c->n; i++) {
		struct cursors_entry *e = &c->items[i];

		/* When memory is out an old entry stays: it does no harm. */
		if (is_kept(e, oldest_ns) && add_entry(&kept, e) < 0) {
			free(kept.items);
			table_done(&kept.by_key);
			lock_release(&c->lock);
			return;
		}
	}
	for (size_t i = 0; i < c->n; i++)
		if (!is_kept(&c->items[i], oldest_ns))
			cleanup_freep(&c->items[i].key.p);
	free(c->items);
	table_done(&c->by_key);
	c->items = kept.items;
	c->n = kept.n;
	c->cap = kept.cap;
	c->by_key = kept.by_key;
	lock_release(&c->lock);
}

void cursors_put_all(struct cursors *c, struct bytes *out, size_t *ret_n)
{
	lock_take(&c->lock);
	*ret_n = 0;
	for (size_t i = 0; i < c->n; i++) {
		if (!c->items[i].present)
			continue;
		record_put_cursor(out, &(struct record_cursor) {.key = c->items[i].key,
					       .after = c->items[i].value,
					       .time_ns = c->items[i].time_ns});
		++*ret_n;
	}
	lock_release(&c->lock);
}

int cursors_apply(struct cursors *c, const struct record *record, struct errbuf *eb)
{
	struct record groups = *record;
	struct record_cursor rc;
	struct record_group g;
	int r;

	while ((r = record_next(&groups, &g, eb)) > 0) {
		struct cursor bytes = cursor_of(g.data, g.len);

		if (g.tag != RECORD_CURSOR && g.tag != RECORD_RESTATED)
			continue;
		for (uint32_t i = 0; i < g.n; i++) {
			if (record_next_cursor(&bytes, &rc) < 0 || !rc.key.len)
				return err_set(eb, -EBADMSG, "cursor group ends early");
			r = cursors_set(c, rc.key, rc.after, rc.time_ns);
			if (r < 0)
				return r;
		}
	}
	return r;
}

size_t cursors_count(struct cursors *c)
{
	size_t n = 0;

	lock_take(&c->lock);
	for (size_t i = 0; i < c->n; i++)
		n += c->items[i].present;
	lock_release(&c->lock);
	return n;
}
