/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash index over rows that live elsewhere: hash → candidate row numbers, of which the caller
 * picks the equal one. A slot keeps 32 bits of the hash, so that a miss rarely looks at a row and
 * growing never does. Linear probing, at most three quarters full. Keys come from outside, so callers hash
 * with prof_index_seed(): nobody can choose collisions.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/cleanup.h"
#include <stdint.h>

struct prof_index {
	uint64_t *slots; /* hash in the upper half, row + 1 in the lower; 0 free */
	size_t n_slots, n_used;
};

/* A random number, new at each call. */
uint64_t prof_index_seed(void);
/* `budget`: the one that its memory was charged to. */
void prof_index_done(struct prof_index *x, struct budget *budget);
/* Room for n rows in all, so that adding them allocates nothing. 0 or -ENOMEM. */
int prof_index_reserve(
	struct prof_index *x, size_t n, struct budget *budget, struct errbuf *eb) _must_check_;
/* Adds a row that is not there; row < UINT32_MAX. 0 or -ENOMEM. */
int prof_index_add(struct prof_index *x, uint64_t hash, uint32_t row, struct budget *budget,
	struct errbuf *eb) _must_check_;

/*
 * Candidates one by one: start with pos = hash; UINT32_MAX at the end.
 *
 *	for (pos = hash; (row = prof_index_next(x, hash, &pos)) != UINT32_MAX;)
 *		if (rows[row] equals the key) …
 */
static inline uint32_t prof_index_next(const struct prof_index *x, uint64_t hash, uint64_t *pos)
{
	uint32_t h = (uint32_t)hash;

	if (!x->n_slots)
		return UINT32_MAX;
	for (;;) {
		uint64_t slot = x->slots[(*pos)++ & (x->n_slots - 1)];

		if (!slot)
			return UINT32_MAX;
		if (slot >> 32 == h)
			return (uint32_t)slot - 1;
	}
}
