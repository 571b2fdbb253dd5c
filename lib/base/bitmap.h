/* SPDX-License-Identifier: Apache-2.0
 *
 * Bit sets with rank and select: a map between two numberings of the same things in the same order costs one bit a thing.
 */
#pragma once
#include "lib/base/bits.h"
#include "lib/base/budget.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bitmap {
	uint64_t *words;
	uint32_t *before; /* bits set before each BITMAP_BLOCK; NULL until bitmap_index() */
	uint32_t n, n_set;
	struct budget *budget; /* NULL: none */
};
enum { BITMAP_BLOCK = 512 };

/* n zero bits, charged to a budget, which may be NULL. -ENOMEM; -EFBIG: n is 2^32 or more. bitmap_done is due in any case. */
int bitmap_init(struct bitmap *b, size_t n, struct budget *budget, struct errbuf *eb) _must_check_;
void bitmap_done(struct bitmap *b);
static inline void bitmap_set(struct bitmap *b, uint32_t i)
{
	bits_set(b->words, i);
}
static inline bool bitmap_has(const struct bitmap *b, uint32_t i)
{
	return bits_has(b->words, i);
}
/* Makes rank and select possible; nothing may be set any more. -ENOMEM. */
int bitmap_index(struct bitmap *b, struct errbuf *eb) _must_check_;
/* How many bits are set below i, i ≤ n. */
uint32_t bitmap_rank(const struct bitmap *b, uint32_t i);
/* Place of the k-th set bit, k < n_set. *hint: a block to try first, for ascending k. */
uint32_t bitmap_select(const struct bitmap *b, uint32_t k, uint32_t *hint);
