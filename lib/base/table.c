/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash tables, linear probing, at most 3/4 full, power-of-two sizes.
 */
#include "lib/base/table.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

enum { FIRST_SLOTS = 16, FREE = 0, USED = 1, DELETED = 2 };

void table_init(struct table *t, struct budget *budget)
{
	*t = (struct table) {.budget = budget};
}

static size_t table_bytes(size_t n_slots)
{
	return n_slots * (sizeof(struct table_slot) + 1);
}

void table_done(struct table *t)
{
	if (t->budget && t->n_slots)
		budget_release(t->budget, table_bytes(t->n_slots));
	free(t->slots);
	free(t->used);
	table_init(t, t->budget);
}

void table_clear(struct table *t)
{
	if (t->n_slots)
		memset(t->used, FREE, t->n_slots);
	t->n_used = t->n_tombs = 0;
}

static size_t probe(const struct table *t, uint64_t key)
{
	size_t mask = t->n_slots - 1, i = hash_mix(key) & mask, first_tomb = SIZE_MAX;

	/* in large tables both miss the cache: let them miss together */
	__builtin_prefetch(&t->slots[i]);
	for (; t->used[i] != FREE; i = (i + 1) & mask) {
		if (t->used[i] == USED && t->slots[i].key == key)
			return i;
		if (t->used[i] == DELETED && first_tomb == SIZE_MAX)
			first_tomb = i;
	}
	return first_tomb != SIZE_MAX ? first_tomb : i;
}

uint64_t *table_find(const struct table *t, uint64_t key)
{
	size_t i;

	if (!t->n_slots)
		return NULL;
	i = probe(t, key);
	return t->used[i] == USED ? &t->slots[i].value : NULL;
}

static int rehash(struct table *t)
{
	size_t n = t->n_slots ? t->n_slots : FIRST_SLOTS;
	struct table bigger = {.budget = t->budget};

	while ((t->n_used + 1) * 2 > n)
		n *= 2;
	if (t->budget && budget_charge(t->budget, table_bytes(n), NULL) < 0)
		return -ENOMEM;
	bigger.n_slots = n;
	bigger.slots = try_realloc(NULL, n, sizeof(*bigger.slots));
	bigger.used = try_realloc(NULL, n, 1);
	if (!bigger.slots || !bigger.used) {
		table_done(&bigger);
		return -ENOMEM;
	}
	memset(bigger.used, FREE, n);
	for (size_t i = 0; i < t->n_slots; i++) {
		size_t to;

		if (t->used[i] != USED)
			continue;
		to = probe(&bigger, t->slots[i].key);
		bigger.slots[to] = t->slots[i];
		bigger.used[to] = USED;
	}
	bigger.n_used = t->n_used;
	table_done(t);
	*t = bigger;
	return 0;
}

uint64_t *table_insert(struct table *t, uint64_t key, bool *ret_new)
{
	size_t i;

	if ((t->n_used + t->n_tombs + 1) * 4 > t->n_slots * 3 && rehash(t) < 0)
		return NULL;
	i = probe(t, key);
	if (ret_new)
		*ret_new = t->used[i] != USED;
	if (t->used[i] != USED) {
		t->n_tombs -= t->used[i] == DELETED;
		t->n_used++;
		t->used[i] = USED;
		t->slots[i] = (struct table_slot) {.key = key};
	}
	return &t->slots[i].value;
}

bool table_remove(struct table *t, uint64_t key)
{
	size_t i;

	if (!t->n_slots)
		return false;
	i = probe(t, key);
	if (t->used[i] != USED)
		return false;
	t->used[i] = DELETED;
	t->n_used--;
	t->n_tombs++;
	return true;
}

bool table_next(const struct table *t, size_t *pos, uint64_t *ret_key, uint64_t *ret_value)
{
	for (; *pos < t->n_slots; (*pos)++) {
		if (t->used[*pos] != USED)
			continue;
		*ret_key = t->slots[*pos].key;
		*ret_value = t->slots[*pos].value;
		(*pos)++;
		return true;
	}
	return false;
}

void interner_init(struct interner *t, struct budget *budget)
{
	*t = (struct interner) {.items = NULL};
	arena_init(&t->arena, budget);
}

static size_t interner_bytes(const struct interner *t)
{
	return t->cap_items * sizeof(*t->items) + t->n_slots * sizeof(*t->slots);
}

void interner_done(struct interner *t)
{
	if (t->arena.budget)
		budget_release(t->arena.budget, interner_bytes(t));
	free(t->items);
	free(t->slots);
	arena_done(&t->arena);
	interner_init(t, t->arena.budget);
}

static size_t interner_probe(const struct interner *t, const void *bytes, size_t len, uint32_t hash)
{
	size_t mask = t->n_slots - 1, i = hash & mask;

	for (; t->slots[i]; i = (i + 1) & mask) {
		const struct interner_item *it = &t->items[t->slots[i] - 1];

		if (it->hash == hash && it->len == len && (!len || !memcmp(it->bytes, bytes, len)))
			break;
	}
	return i;
}

uint32_t interner_find(const struct interner *t, const void *bytes, size_t len)
{
	if (!t->n_slots)
		return INTERNER_NONE;
	return t->slots[interner_probe(t, bytes, len, (uint32_t)hash_xxh3(bytes, len))] - 1;
}

static int interner_grow(struct interner *t)
{
	size_t n = MAX(t->n_slots * 2, (size_t)FIRST_SLOTS), cap = n / 4 * 3;
	struct interner_item *items;
	uint32_t *slots;
	uint64_t more = cap * sizeof(*items) + n * sizeof(*slots) - interner_bytes(t);

	if (t->arena.budget && budget_charge(t->arena.budget, more, NULL) < 0)
		return -ENOMEM;
	slots = try_realloc(NULL, n, sizeof(*slots));
	items = slots ? try_realloc(t->items, cap, sizeof(*items)) : NULL;
	if (!items) {
		free(slots);
		if (t->arena.budget)
			budget_release(t->arena.budget, more);
		return -ENOMEM;
	}
	memset(slots, 0, n * sizeof(*slots));
	free(t->slots);
	t->slots = slots;
	t->n_slots = n;
	t->items = items;
	t->cap_items = cap;
	for (size_t i = 0; i < t->n; i++) {
		size_t at = items[i].hash & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = (uint32_t)i + 1;
	}
	return 0;
}

uint32_t interner_add(struct interner *t, const void *bytes, size_t len, bool *ret_new)
{
	uint32_t hash = (uint32_t)hash_xxh3(bytes, len);
	const char *copy;
	size_t at;

	if (ret_new)
		*ret_new = false;
	if (t->n_slots) {
		at = interner_probe(t, bytes, len, hash);
		if (t->slots[at])
			return t->slots[at] - 1;
	}
	if (len > UINT32_MAX || (t->n == t->cap_items && interner_grow(t) < 0))
		return INTERNER_NONE;
	copy = arena_strndup(&t->arena, bytes, len);
	if (!copy)
		return INTERNER_NONE;
	at = interner_probe(t, bytes, len, hash);
	t->items[t->n] = (struct interner_item) {.bytes = copy, .len = (uint32_t)len, .hash = hash};
	t->slots[at] = (uint32_t)++t->n;
	if (ret_new)
		*ret_new = true;
	return (uint32_t)t->n - 1;
}
