/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of one file, each once.
 */
#include "exporter/parser/unwind/unwind.h"
#include "lib/base/alloc.h"
#include <stdlib.h>

enum { N_SLOTS = 4 * UNWIND_MAX_LOCAL_RULES };
_Static_assert(UNWIND_MAX_LOCAL_RULES < UINT16_MAX, "numbers are u16");

int unwind_rules_init(struct unwind_rules *r)
{
	static const struct unwind_rule unknown = {.cfa = UNWIND_CFA_UNKNOWN};

	*r = (struct unwind_rules) {
		.items = try_realloc(NULL, UNWIND_MAX_LOCAL_RULES, sizeof(*r->items)),
		.slots = try_realloc(NULL, N_SLOTS, sizeof(*r->slots)),
		.n = UNWIND_RULE_NONE + 1,
	};
	if (!r->items || !r->slots)
		return -ENOMEM;
	memset(r->slots, 0, N_SLOTS * sizeof(*r->slots));
	r->items[UNWIND_RULE_NONE] = (struct unwind_rule) {0};
	return unwind_rules_number(r, &unknown) == UNWIND_RULE_UNKNOWN ? 0 : -EINVAL;
}

void unwind_rules_done(struct unwind_rules *r)
{
	free(r->items);
	free(r->slots);
	*r = (struct unwind_rules) {0};
}

static uint32_t hash_of(const struct unwind_rule *rule)
{
	uint64_t w[4], h;

	_Static_assert(sizeof(*rule) == sizeof(w), "no padding");
	memcpy(w, rule, sizeof(w));
	h = (w[0] ^ w[2] * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
	h ^= (w[1] ^ w[3] * 0xc4ceb9fe1a85ec53ULL) * 0x9e3779b97f4a7c15ULL;
	return (uint32_t)((h ^ h >> 32) * 0x9e3779b1U);
}

uint32_t unwind_rules_number(struct unwind_rules *r, const struct unwind_rule *rule)
{
	uint32_t i = hash_of(rule) % N_SLOTS;

	for (; r->slots[i]; i = (i + 1) % N_SLOTS)
		if (memcmp(&r->items[r->slots[i]], rule, sizeof(*rule)) == 0)
			return r->slots[i];
	if (r->n == UNWIND_MAX_LOCAL_RULES) {
		r->n_refused++;
		return UNWIND_RULE_UNKNOWN;
	}
	r->items[r->n] = *rule;
	r->slots[i] = (uint16_t)r->n;
	return r->n++;
}
