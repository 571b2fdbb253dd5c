/* SPDX-License-Identifier: Apache-2.0
 *
 * The page cache: what blocks decode, capped in bytes, least recently used first. Entries are
 * pinned while in use; what does not fit beside the pinned ones lives only until it is unpinned.
 * Thread-safe.
 */
#pragma once
#include "lib/base/budget.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_INDEX = 0xffffffffU, CACHE_TABLE = 0xfffffffeU }; /* pages that are not pages */
/* Tables that are none: what queries made of a part, by a hash; pages of profiles with the total of one column, by column. */
enum { CACHE_ANSWERS = 0xff, CACHE_TOTALS = 0x80 };

struct cache;
struct cache_entry {
	uint64_t key;
	void *data; /* freed with free() */
	size_t bytes;
	unsigned pins;
	bool cached;
	struct cache_entry *newer, *older;
};
struct cache_stats {
	uint64_t bytes, hits, misses;
};

struct cache *cache_new(uint64_t max_bytes, struct budget *parent);
/* Nothing may be pinned. */
void cache_free(struct cache *c);
/* Pinned, or NULL. */
struct cache_entry *cache_get(struct cache *c, uint32_t part, uint32_t table, uint32_t page);
/* Takes `data` (heap, of `bytes`) and pins it; an entry that another thread has put is returned instead. NULL without memory. `data` is
 * freed where it is not kept. */
struct cache_entry *cache_add(
	struct cache *c, uint32_t part, uint32_t table, uint32_t page, void *data, size_t bytes);
/* The same for what one pass reads: it is the first to go until it is asked for again, so a long query does not drive out what short
 * ones share. */
struct cache_entry *cache_add_cold(
	struct cache *c, uint32_t part, uint32_t table, uint32_t page, void *data, size_t bytes);
void cache_unpin(struct cache *c, struct cache_entry *e);
/* Forgets everything of a part that has no pins left. */
void cache_drop(struct cache *c, uint32_t part);
void cache_get_stats(struct cache *c, struct cache_stats *ret);
