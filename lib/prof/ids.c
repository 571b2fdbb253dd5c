/* SPDX-License-Identifier: Apache-2.0
 *
 * Building the id → row tables of the decoder.
 */
#include "lib/prof/ids.h"
#include "lib/base/alloc.h"
#include <string.h>

/* A direct table may have this many entries per row, and so many more. */
enum { DIRECT_PER_ROW = 4, DIRECT_EXTRA = 1024 };

void prof_ids_init(struct prof_ids *t, size_t n, struct budget *budget)
{
	*t = (struct prof_ids) {.n = n, .budget = budget};
}

void prof_ids_done(struct prof_ids *t)
{
	if (t->budget && t->ids)
		budget_release(t->budget, t->n * sizeof(*t->ids));
	if (t->budget && t->direct)
		budget_release(t->budget, t->n_direct * sizeof(*t->direct));
	free(t->ids);
	free(t->direct);
	prof_index_done(&t->hash, t->budget);
	prof_ids_init(t, 0, t->budget);
}

static void *charged_alloc(struct prof_ids *t, size_t n, size_t bytes, struct errbuf *eb)
{
	void *p;

	if (t->budget && budget_charge(t->budget, n * bytes, eb) < 0)
		return NULL;
	p = try_realloc(NULL, n, bytes);
	if (p)
		return memset(p, 0, n * bytes);
	if (t->budget)
		budget_release(t->budget, n * bytes);
	err_set(eb, -ENOMEM, "out of memory for a table of %zu ids", n);
	return NULL;
}

int prof_ids_add(struct prof_ids *t, uint64_t id, struct errbuf *eb)
{
	ASSERT(id && t->n_added < t->n);
	if (prof_ids_add_next(t, id))
		return 0;
	if (!t->ids) {
		t->ids = charged_alloc(t, t->n, sizeof(*t->ids), eb);
		if (!t->ids)
			return -ENOMEM;
		for (size_t i = 0; i < t->n_added; i++)
			t->ids[i] = i + 1;
	}
	t->ids[t->n_added++] = id;
	return 0;
}

static int fill_direct(struct prof_ids *t, size_t ret_twice[2])
{
	for (size_t row = 0; row < t->n; row++) {
		uint32_t *slot = &t->direct[t->ids[row]];

		if (*slot) {
			ret_twice[0] = *slot - 1;
			ret_twice[1] = row;
			return -EEXIST;
		}
		*slot = (uint32_t)row + 1;
	}
	return 0;
}

static int fill_hash(struct prof_ids *t, size_t ret_twice[2], struct errbuf *eb)
{
	int r = prof_index_reserve(&t->hash, t->n, t->budget, eb);

	t->seed = prof_index_seed();
	for (size_t row = 0; r >= 0 && row < t->n; row++) {
		uint32_t other = prof_ids_row(t, t->ids[row]);

		if (other != UINT32_MAX) {
			ret_twice[0] = other;
			ret_twice[1] = row;
			return -EEXIST;
		}
		r = prof_index_add(&t->hash,
			hash_xxh3_seed(&t->ids[row], sizeof(uint64_t), t->seed), (uint32_t)row,
			t->budget, eb);
	}
	return r;
}

int prof_ids_finish(struct prof_ids *t, size_t ret_twice[2], struct errbuf *eb)
{
	uint64_t max = 0;

	ASSERT(t->n_added == t->n);
	if (!t->ids)
		return 0;
	for (size_t row = 0; row < t->n; row++)
		max = MAX(max, t->ids[row]);
	if (max >= DIRECT_PER_ROW * (uint64_t)t->n + DIRECT_EXTRA)
		return fill_hash(t, ret_twice, eb);
	t->direct = charged_alloc(t, (size_t)max + 1, sizeof(*t->direct), eb);
	if (!t->direct)
		return -ENOMEM;
	t->n_direct = (size_t)max + 1;
	return fill_direct(t, ret_twice);
}
