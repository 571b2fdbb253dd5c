/* SPDX-License-Identifier: Apache-2.0
 *
 * Two hash tables with open addressing:
 *  - struct table: u64 key → u64 value, for ids and hashes;
 *  - struct interner: byte strings → dense ids 0, 1, 2 … that never move.
 * Both grow. A failed allocation or a budget's refusal is reported by the inserting call and changes nothing; an interner may
 * refuse everything new from then on (the error of its arena sticks). Not thread-safe. The hashes have no seed: whoever chooses the
 * keys can make them collide.
 */
#pragma once
#include "lib/base/arena.h"
#include <stdbool.h>
#include <stdint.h>

struct table_slot {
	uint64_t key, value;
};
struct table {
	struct table_slot *slots;
	uint8_t *used; /* 0 free, 1 used, 2 deleted */
	size_t n_slots, n_used, n_tombs;
	struct budget *budget;
};

void table_init(struct table *t, struct budget *budget);
void table_done(struct table *t);
#define _cleanup_table_ _cleanup_(table_done)
/* Pointer to the value of `key`, valid until the next insertion; NULL when absent. */
uint64_t *table_find(const struct table *t, uint64_t key);
/* Pointer to the value of `key`, inserted with value 0 when absent (*ret_new, may be NULL, says which). Valid until the next
 * insertion. NULL when memory is out. */
uint64_t *table_insert(struct table *t, uint64_t key, bool *ret_new);
/* False when it was not there. */
bool table_remove(struct table *t, uint64_t key);
void table_clear(struct table *t);
/* Iteration in no order: start with *pos = 0; false at the end. Removing meanwhile is fine, inserting is not. */
bool table_next(const struct table *t, size_t *pos, uint64_t *ret_key, uint64_t *ret_value);

struct interner {
	struct arena arena; /* holds the bytes, each NUL-terminated */
	struct interner_item {
		const char *bytes;
		uint32_t len;
		uint32_t hash;
	} * items;
	size_t n, cap_items;
	uint32_t *slots; /* id + 1; 0 free */
	size_t n_slots;
};

enum { INTERNER_NONE = 0xffffffffU };
void interner_init(struct interner *t, struct budget *budget);
void interner_done(struct interner *t);
#define _cleanup_interner_ _cleanup_(interner_done)
/* The id of these bytes, added when new (*ret_new, may be NULL). INTERNER_NONE when memory is out.
 */
uint32_t interner_add(struct interner *t, const void *bytes, size_t len, bool *ret_new);
/* The id, or INTERNER_NONE. */
uint32_t interner_find(const struct interner *t, const void *bytes, size_t len);
static inline const char *interner_str(const struct interner *t, uint32_t id)
{
	return t->items[id].bytes;
}
