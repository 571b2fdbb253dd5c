/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank and select over blocks of 512 bits.
 */
#include "lib/base/bitmap.h"
#include "lib/base/alloc.h"
#include <string.h>

enum { BLOCK_WORDS = BITMAP_BLOCK / 64 };

static size_t n_blocks(const struct bitmap *b)
{
	return ((size_t)b->n + BITMAP_BLOCK - 1) / BITMAP_BLOCK;
}

static size_t n_words(const struct bitmap *b)
{
	return (n_blocks(b) + 1) * BLOCK_WORDS;
}

int bitmap_init(struct bitmap *b, size_t n, struct budget *budget, struct errbuf *eb)
{
	int r;

	*b = (struct bitmap) {.n = (uint32_t)n, .budget = budget};
	if (n > UINT32_MAX)
		return -EFBIG;
	r = budget ? budget_charge(budget, n_words(b) * sizeof(*b->words), eb) : 0;
	if (r < 0)
		return r;
	b->words = try_realloc(NULL, n_words(b), sizeof(*b->words));
	if (!b->words) {
		budget_release(budget, n_words(b) * sizeof(*b->words));
		return -ENOMEM;
	}
	memset(b->words, 0, n_words(b) * sizeof(*b->words));
	return 0;
}

void bitmap_done(struct bitmap *b)
{
	if (b->words)
		budget_release(b->budget, n_words(b) * sizeof(*b->words));
	if (b->before)
		budget_release(b->budget, (n_blocks(b) + 1) * sizeof(*b->before));
	free(b->words);
	free(b->before);
	*b = (struct bitmap) {.words = NULL};
}

static uint32_t count_block(const struct bitmap *b, size_t block)
{
	uint32_t n = 0;

	for (size_t i = 0; i < BLOCK_WORDS; i++)
		n += (uint32_t)__builtin_popcountll(b->words[block * BLOCK_WORDS + i]);
	return n;
}

int bitmap_index(struct bitmap *b, struct errbuf *eb)
{
	size_t n = n_blocks(b) + 1;
	int r = b->budget ? budget_charge(b->budget, n * sizeof(*b->before), eb) : 0;

	if (r < 0)
		return r;
	b->before = try_realloc(NULL, n, sizeof(*b->before));
	if (!b->before) {
		budget_release(b->budget, n * sizeof(*b->before));
		return -ENOMEM;
	}
	b->n_set = 0;
	for (size_t i = 0; i < n; i++) {
		b->before[i] = b->n_set;
		b->n_set += count_block(b, i);
	}
	return 0;
}

uint32_t bitmap_rank(const struct bitmap *b, uint32_t i)
{
	size_t block = i / BITMAP_BLOCK;
	uint32_t n = b->before[block];

	for (size_t w = block * BLOCK_WORDS; w < i / 64; w++)
		n += (uint32_t)__builtin_popcountll(b->words[w]);
	if (i % 64)
		n += (uint32_t)__builtin_popcountll(b->words[i / 64] << (64 - i % 64));
	return n;
}

/* The block that holds the k-th set bit. */
static uint32_t find_block(const struct bitmap *b, uint32_t k)
{
	uint32_t lo = 0, hi = (uint32_t)n_blocks(b);

	while (lo + 1 < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (b->before[mid] <= k)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static uint32_t nth_bit(uint64_t word, uint32_t k)
{
	while (k--)
		word &= word - 1;
	return (uint32_t)__builtin_ctzll(word);
}

uint32_t bitmap_select(const struct bitmap *b, uint32_t k, uint32_t *hint)
{
	uint32_t block = *hint, left;
	size_t w;

	if (block >= n_blocks(b) || b->before[block] > k || b->before[block + 1] <= k)
		*hint = block = find_block(b, k);
	left = k - b->before[block];
	for (w = (size_t)block * BLOCK_WORDS;; w++) {
		uint32_t n = (uint32_t)__builtin_popcountll(b->words[w]);

		if (left < n)
			return (uint32_t)(w * 64) + nth_bit(b->words[w], left);
		left -= n;
	}
}
