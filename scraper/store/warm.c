/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables that every question about labels and series begins with, decoded before somebody asks: of the newest blocks, as long as
 * they take no more than a quarter of the page cache. What others drive out of it does not come back by itself.
 */
#include "lib/base/cleanup.h"
#include "scraper/store/store_impl.h"

enum { CACHE_SHARE = 4, ROUND_MS = 50, STRINGS_BYTES = 128 << 10, PAIRS_A_SET = 8 };

/* About what they take when they are decoded. */
static uint64_t table_bytes(const struct meta *m)
{
	return m->stats.streams * (sizeof(struct part_stream) + sizeof(uint64_t)) +
	       m->stats.label_sets * (sizeof(uint32_t) + PAIRS_A_SET * sizeof(struct part_label)) +
	       STRINGS_BYTES;
}

/* The newest block that was not looked at, counted; NULL when there is none or no room for it. */
static struct block *next_block(struct store *s)
{
	struct block *b = NULL;
	struct cache_stats cache;

	cache_get_stats(s->cache, &cache);
	lock_take(&s->state_lock);
	for (size_t i = 0; i < s->n_blocks; i++)
		if (!s->blocks[i]->warmed && !s->blocks[i]->damaged &&
			(!b || s->blocks[i]->meta.max_time_ns > b->meta.max_time_ns))
			b = s->blocks[i];
	if (b && cache.bytes + table_bytes(&b->meta) > s->o.cache_bytes / CACHE_SHARE)
		b = NULL;
	if (b)
		part_get(&b->part);
	lock_release(&s->state_lock);
	return b;
}

/* Damage that is met is reported as of any reader. */
static void warm(struct block *b)
{
	_cleanup_part_reader_ struct part_reader *r = NULL;
	const struct part_schema *schemas;
	const struct part_stream *streams;
	const struct prof_str *strings;
	struct part_label_sets sets;
	int e = part_reader_open(&b->part, NULL, &r, NULL);

	e = e ? e : part_schemas(r, &schemas);
	e = e ? e : part_streams(r, &streams);
	e = e ? e : part_label_sets(r, &sets);
	e = e ? e : part_label_strings(r, &strings);
	b->warmed = true;
}

void store_warm(struct store *s)
{
	const int64_t until_ns = clock_monotonic_ns(s->clock) + ROUND_MS * NS_PER_MS;
	struct block *b;

	ASSERT_HELD(&s->maintain_lock);
	while (!s->cancelled && clock_monotonic_ns(s->clock) < until_ns &&
		(b = next_block(s)) != NULL) {
		warm(b);
		part_put(&b->part);
	}
}
