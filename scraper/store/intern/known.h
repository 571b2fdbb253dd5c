/* SPDX-License-Identifier: Apache-2.0
 *
 * What scrapes brought before, remembered by content: the next answer of the same program has nearly the same locations and stacks, and
 * finds their ids without a look at strings, functions, mappings and nodes. Two tables of fixed size that forget: what is not found is
 * looked up in the dictionaries.
 *
 * Equal 128-bit hashes under a secret seed count as equal content. One thread.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/hash.h"
#include <stddef.h>

struct known_slot {
	struct hash128 hash;
	uint32_t id; /* + 1; 0: free */
};

struct known {
	struct budget *budget;
	uint64_t seed;
	uint8_t generation[16]; /* whose ids they are */
	struct known_slot *locations,
		*stacks; /* NULL until first used, or where the budget has no room for them */
};

void known_init(struct known *k, struct budget *budget);
void known_done(struct known *k);
/* For ids of this generation: those of another one are forgotten. */
void known_use(struct known *k, const uint8_t generation[16]);

enum { KNOWN_SLOTS = 1 << 15, KNOWN_WAYS = 2 };

static inline struct known_slot *known_set(struct known_slot *table, struct hash128 hash)
{
	return &table[hash.lo & (KNOWN_SLOTS - KNOWN_WAYS)];
}

/* Starts the fetch of where a hash would be. */
static inline void known_prefetch(const struct known_slot *table, struct hash128 hash)
{
	if (table)
		__builtin_prefetch(known_set((struct known_slot *)(uintptr_t)table, hash));
}

/* The id, or UINT32_MAX. */
static inline uint32_t known_find(const struct known_slot *table, struct hash128 hash)
{
	const struct known_slot *s;

	if (!table)
		return UINT32_MAX;
	s = known_set((struct known_slot *)(uintptr_t)table, hash);
	for (unsigned way = 0; way < KNOWN_WAYS; way++)
		if (s[way].id && s[way].hash.lo == hash.lo && s[way].hash.hi == hash.hi)
			return s[way].id - 1;
	return UINT32_MAX;
}

/* The newest comes first in its set, the oldest goes. */
static inline void known_add(struct known_slot *table, struct hash128 hash, uint32_t id)
{
	struct known_slot *s;

	if (!table)
		return;
	s = known_set(table, hash);
	s[1] = s[0];
	s[0] = (struct known_slot) {.hash = hash, .id = id + 1};
}
