/* SPDX-License-Identifier: Apache-2.0
 *
 * What queries made of a block, beside its pages in the cache: by a hash of the key, which is compared when it is found.
 */
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "scraper/store/block/block.h"
#include "scraper/store/block/part_block.h"
#include <string.h>

/* A larger one would drive out more than it saves. */
enum { MAX_ANSWER_BYTES = 4 << 20 };

struct answer {
	size_t n_key, n;
	uint8_t bytes[]; /* key, data */
};

static uint32_t page_of(const void *key, size_t n)
{
	return (uint32_t)hash_xxh3(key, n);
}

int part_block_recall(
	struct part_reader *r, const void *key, size_t n_key, const uint8_t **ret, size_t *ret_n)
{
	struct cache *c = ((struct block *)r->part)->cache;
	struct cache_entry *e = cache_get(c, r->part->id, CACHE_ANSWERS, page_of(key, n_key));
	const struct answer *a = e ? e->data : NULL;
	int x;

	if (!e)
		return 0;
	if (a->n_key != n_key || memcmp(a->bytes, key, n_key) != 0) {
		cache_unpin(c, e);
		return 0;
	}
	x = part_reader_pin(r, e);
	if (x < 0) {
		cache_unpin(c, e);
		return x;
	}
	*ret = a->bytes + n_key;
	*ret_n = a->n;
	return 1;
}

void part_block_remember(
	struct part_reader *r, const void *key, size_t n_key, const void *data, size_t n)
{
	struct cache *c = ((struct block *)r->part)->cache;
	const size_t bytes = sizeof(struct answer) + n_key + n;
	struct cache_entry *e;
	struct answer *a;

	a = n_key <= MAX_ANSWER_BYTES && n <= MAX_ANSWER_BYTES ? try_malloc(bytes) : NULL;
	if (!a)
		return;
	*a = (struct answer) {.n_key = n_key, .n = n};
	memcpy(a->bytes, key, n_key);
	if (n)
		memcpy(a->bytes + n_key, data, n);
	e = cache_add(c, r->part->id, CACHE_ANSWERS, page_of(key, n_key), a, bytes);
	if (e)
		cache_unpin(c, e);
}
