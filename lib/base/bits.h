/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of small numbers as arrays of words, a bit for each. The caller says how many there are.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BITS_WORD = 64 };

/* Words enough for n bits, at least one. */
static inline size_t bits_words(size_t n)
{
	return n / BITS_WORD + 1;
}

static inline bool bits_has(const uint64_t *bits, size_t i)
{
	return bits[i / BITS_WORD] >> i % BITS_WORD & 1;
}

static inline void bits_set(uint64_t *bits, size_t i)
{
	bits[i / BITS_WORD] |= 1ULL << i % BITS_WORD;
}

/* Nothing when i is not below n. */
static inline void bits_set_below(uint64_t *bits, size_t i, size_t n)
{
	if (i < n)
		bits_set(bits, i);
}

static inline void bits_clear(uint64_t *bits, size_t i)
{
	bits[i / BITS_WORD] &= ~(1ULL << i % BITS_WORD);
}

/* One more than the number of the last bit below n that is set; 0: none is. */
static inline size_t bits_last(const uint64_t *bits, size_t n)
{
	for (; n; n -= (n - 1) % BITS_WORD + 1) {
		uint64_t word = bits[(n - 1) / BITS_WORD] << (BITS_WORD - 1 - (n - 1) % BITS_WORD);

		if (word)
			return n - (size_t)__builtin_clzll(word);
	}
	return 0;
}
