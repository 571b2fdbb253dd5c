/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of the tables.
 */
#include "scraper/store/intern/known.h"
#include "lib/base/alloc.h"
#include <string.h>
#include <sys/random.h>

enum { TABLE_BYTES = KNOWN_SLOTS * sizeof(struct known_slot) };

void known_init(struct known *k, struct budget *budget)
{
	*k = (struct known) {.budget = budget};
	if (getrandom(&k->seed, sizeof(k->seed), GRND_NONBLOCK) != sizeof(k->seed))
		k->seed = (uintptr_t)k; /* early boot: address randomisation must do */
}

static void free_table(struct known *k, struct known_slot *table)
{
	if (table && k->budget)
		budget_release(k->budget, TABLE_BYTES);
	free(table);
}

void known_done(struct known *k)
{
	free_table(k, k->locations);
	free_table(k, k->stacks);
	k->locations = k->stacks = NULL;
}

static struct known_slot *new_table(struct known *k)
{
	struct known_slot *table;

	if (k->budget && budget_charge(k->budget, TABLE_BYTES, NULL) < 0)
		return NULL;
	table = try_malloc(TABLE_BYTES);
	if (table)
		return memset(table, 0, TABLE_BYTES);
	if (k->budget)
		budget_release(k->budget, TABLE_BYTES);
	return NULL;
}

void known_use(struct known *k, const uint8_t generation[16])
{
	if (k->locations && k->stacks && !memcmp(k->generation, generation, sizeof(k->generation)))
		return;
	known_done(k);
	memcpy(k->generation, generation, sizeof(k->generation));
	k->locations = new_table(k);
	k->stacks = new_table(k);
}
