/* SPDX-License-Identifier: Apache-2.0
 *
 * One mutex, one table, one list from oldest to newest use.
 */
#include "scraper/store/part/cache.h"
#include "lib/base/alloc.h"
#include "lib/base/err.h"
#include "lib/base/lock.h"
#include "lib/base/table.h"

struct cache {
	struct lock lock;
	struct budget budget;
	struct table by_key;	/* → struct cache_entry * */
	struct cache_entry lru; /* list head: newer = oldest entry, older = newest entry */
	struct cache_stats stats;
};

/* part 24 bits, table 8 bits, page 32 bits: ids of parts wrap after 16 million blocks, which no
 * cache outlives. */
static uint64_t key_of(uint32_t part, uint32_t table, uint32_t page)
{
	return (uint64_t)(part & 0xffffff) << 40 | (uint64_t)(table & 0xff) << 32 | page;
}

struct cache *cache_new(uint64_t max_bytes, struct budget *parent)
{
	struct cache *c = xcalloc(1, sizeof(*c));

	lock_init(&c->lock);
	budget_init(&c->budget, parent, "page_cache", "--storage.cache-bytes", max_bytes);
	table_init(&c->by_key, NULL);
	c->lru.newer = c->lru.older = &c->lru;
	return c;
}

static void unlink_entry(struct cache_entry *e)
{
	e->newer->older = e->older;
	e->older->newer = e->newer;
}

static void link_newest(struct cache *c, struct cache_entry *e)
{
	e->older = c->lru.older;
	e->newer = &c->lru;
	c->lru.older->newer = e;
	c->lru.older = e;
}

static void link_oldest(struct cache *c, struct cache_entry *e)
{
	e->newer = c->lru.newer;
	e->older = &c->lru;
	c->lru.newer->older = e;
	c->lru.newer = e;
}

static void free_entry(struct cache_entry *e)
{
	free(e->data);
	free(e);
}

static void evict(struct cache *c, struct cache_entry *e)
{
	ASSERT(!e->pins && e->cached);
	unlink_entry(e);
	table_remove(&c->by_key, e->key);
	budget_release(&c->budget, e->bytes);
	free_entry(e);
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	while (c->lru.newer != &c->lru) {
		ASSERT(!c->lru.newer->pins);
		evict(c, c->lru.newer);
	}
	table_done(&c->by_key);
	lock_done(&c->lock);
	free(c);
}

static struct cache_entry *find(struct cache *c, uint64_t key)
{
	uint64_t *v = table_find(&c->by_key, key);
	struct cache_entry *e = v ? (struct cache_entry *)(uintptr_t)*v : NULL;

	ASSERT_HELD(&c->lock);
	if (e) {
		unlink_entry(e);
		link_newest(c, e);
		e->pins++;
	}
	return e;
}

struct cache_entry *cache_get(struct cache *c, uint32_t part, uint32_t table, uint32_t page)
{
	struct cache_entry *e;

	lock_take(&c->lock);
	e = find(c, key_of(part, table, page));
	if (e)
		c->stats.hits++;
	else
		c->stats.misses++;
	lock_release(&c->lock);
	return e;
}

/* Charges `bytes`, evicting what is not pinned, oldest first. */
static bool make_room(struct cache *c, size_t bytes)
{
	struct cache_entry *e = c->lru.newer, *next;

	ASSERT_HELD(&c->lock);
	if (c->budget.limit_bytes && bytes > c->budget.limit_bytes)
		return false;
	while (budget_charge(&c->budget, bytes, NULL) < 0) {
		while (e != &c->lru && e->pins)
			e = e->newer;
		if (e == &c->lru)
			return false;
		next = e->newer;
		evict(c, e);
		e = next;
	}
	return true;
}

static struct cache_entry *add(struct cache *c, uint32_t part, uint32_t table, uint32_t page,
	void *data, size_t bytes, bool cold)
{
	uint64_t key = key_of(part, table, page), *slot;
	struct cache_entry *e;

	lock_take(&c->lock);
	e = find(c, key);
	if (e) {
		free(data);
		lock_release(&c->lock);
		return e;
	}
	e = try_malloc(sizeof(*e));
	if (!e) {
		free(data);
		lock_release(&c->lock);
		return NULL;
	}
	*e = (struct cache_entry) {
		.key = key, .data = data, .bytes = bytes + sizeof(*e), .pins = 1};
	if (make_room(c, e->bytes)) {
		slot = table_insert(&c->by_key, key, NULL);
		if (slot) {
			*slot = (uintptr_t)e;
			e->cached = true;
			if (cold)
				link_oldest(c, e);
			else
				link_newest(c, e);
		} else {
			budget_release(&c->budget, e->bytes);
		}
	}
	lock_release(&c->lock);
	return e;
}

struct cache_entry *cache_add(
	struct cache *c, uint32_t part, uint32_t table, uint32_t page, void *data, size_t bytes)
{
	return add(c, part, table, page, data, bytes, false);
}

struct cache_entry *cache_add_cold(
	struct cache *c, uint32_t part, uint32_t table, uint32_t page, void *data, size_t bytes)
{
	return add(c, part, table, page, data, bytes, true);
}

void cache_unpin(struct cache *c, struct cache_entry *e)
{
	bool last;

	lock_take(&c->lock);
	ASSERT(e->pins);
	last = !--e->pins && !e->cached;
	lock_release(&c->lock);
	if (last)
		free_entry(e);
}

void cache_drop(struct cache *c, uint32_t part)
{
	struct cache_entry *next;

	lock_take(&c->lock);
	for (struct cache_entry *e = c->lru.newer; e != &c->lru; e = next) {
		next = e->newer;
		if (e->key >> 40 == (part & 0xffffff) && !e->pins)
			evict(c, e);
	}
	lock_release(&c->lock);
}

void cache_get_stats(struct cache *c, struct cache_stats *ret)
{
	lock_take(&c->lock);
	*ret = c->stats;
	ret->bytes = c->budget.used_bytes;
	lock_release(&c->lock);
}
