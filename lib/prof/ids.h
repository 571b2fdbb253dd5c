/* SPDX-License-Identifier: Apache-2.0
 *
 * The ids of one kind of pprof row → row numbers. Ids are any distinct non-zero 64-bit numbers. Nearly every writer
 * numbers rows 1, 2, 3 …: then nothing is stored. Else small ids go through a direct table, wild ones through a hash.
 */
#pragma once
#include "lib/base/hash.h"
#include "lib/prof/index.h"
#include <stdbool.h>

struct prof_ids {
	size_t n; /* rows */
	size_t n_added;
	uint64_t *ids;	  /* per row; NULL while sequential */
	uint32_t *direct; /* id → row + 1, 0 for none; NULL when hashed */
	size_t n_direct;
	struct prof_index hash;
	uint64_t seed;
	struct budget *budget;
};

void prof_ids_init(struct prof_ids *t, size_t n, struct budget *budget);
void prof_ids_done(struct prof_ids *t);
/* Rows in order, n times; `id` is not 0. 0 or -ENOMEM. */
int prof_ids_add(struct prof_ids *t, uint64_t id, struct errbuf *eb) _must_check_;
/* The usual case of it: false, and nothing is added, where ids are not 1, 2, 3 …. */
static inline bool prof_ids_add_next(struct prof_ids *t, uint64_t id)
{
	if (t->ids || id != t->n_added + 1)
		return false;
	t->n_added++;
	return true;
}
/* After the last row: prof_ids_row works from now on. 0, -ENOMEM, or -EEXIST with both rows of an id that occurs twice. */
int prof_ids_finish(struct prof_ids *t, size_t ret_twice[2], struct errbuf *eb) _must_check_;

static inline bool prof_ids_are_sequential(const struct prof_ids *t)
{
	return !t->ids;
}

/* The row of an id, UINT32_MAX when there is none. */
static inline uint32_t prof_ids_row(const struct prof_ids *t, uint64_t id)
{
	uint64_t hash, pos;
	uint32_t row;

	if (!t->ids)
		return id - 1 < t->n ? (uint32_t)(id - 1) : UINT32_MAX;
	if (t->direct)
		return id < t->n_direct ? t->direct[id] - 1 : UINT32_MAX;
	hash = hash_xxh3_seed(&id, sizeof(id), t->seed);
	for (pos = hash; (row = prof_index_next(&t->hash, hash, &pos)) != UINT32_MAX;)
		if (t->ids[row] == id)
			return row;
	return UINT32_MAX;
}
