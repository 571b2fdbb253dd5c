/* SPDX-License-Identifier: Apache-2.0
 *
 * Growth of the hash index. Places follow from the 32 bits of hash that a slot keeps, so there are
 * at most 2^31 slots.
 */
#include "lib/prof/index.h"
#include "lib/base/alloc.h"
#include <string.h>
#include <sys/random.h>

enum { FIRST_SLOTS = 64 };
#define MAX_SLOTS ((size_t)1 << 31)

uint64_t prof_index_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uintptr_t)&seed; /* early boot: address randomisation must do */
	return seed;
}

void prof_index_done(struct prof_index *x, struct budget *budget)
{
	if (budget && x->n_slots)
		budget_release(budget, x->n_slots * sizeof(*x->slots));
	free(x->slots);
	*x = (struct prof_index) {.n_slots = 0};
}

static void put(struct prof_index *x, uint64_t slot)
{
	size_t mask = x->n_slots - 1, at = (slot >> 32) & mask;

	while (x->slots[at])
		at = (at + 1) & mask;
	x->slots[at] = slot;
}

int prof_index_reserve(struct prof_index *x, size_t n, struct budget *budget, struct errbuf *eb)
{
	struct prof_index bigger = {
		.n_slots = MAX(x->n_slots, (size_t)FIRST_SLOTS), .n_used = x->n_used};
	int r;

	if (n > MAX_SLOTS / 4 * 3)
		return err_set(eb, -ENOMEM, "a profile has more than %zu distinct entries",
			MAX_SLOTS / 4 * 3);
	while (n > bigger.n_slots / 4 * 3)
		bigger.n_slots *= 2;
	if (bigger.n_slots == x->n_slots)
		return 0;
	r = budget ? budget_charge(budget, bigger.n_slots * sizeof(*x->slots), eb) : 0;
	if (r < 0)
		return r;
	bigger.slots = try_realloc(NULL, bigger.n_slots, sizeof(*x->slots));
	if (!bigger.slots) {
		if (budget)
			budget_release(budget, bigger.n_slots * sizeof(*x->slots));
		return err_set(
			eb, -ENOMEM, "out of memory growing an index to %zu slots", bigger.n_slots);
	}
	memset(bigger.slots, 0, bigger.n_slots * sizeof(*x->slots));
	for (size_t i = 0; i < x->n_slots; i++)
		if (x->slots[i])
			put(&bigger, x->slots[i]);
	prof_index_done(x, budget);
	*x = bigger;
	return 0;
}

int prof_index_add(
	struct prof_index *x, uint64_t hash, uint32_t row, struct budget *budget, struct errbuf *eb)
{
	int r = prof_index_reserve(x, x->n_used + 1, budget, eb);

	if (r < 0)
		return r;
	put(x, hash << 32 | ((uint64_t)row + 1));
	x->n_used++;
	return 0;
}
