/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules by content: chained buckets over the kernel half's own array.
 */
#include "exporter/unwind/rules.h"
#include "lib/base/alloc.h"
#include "lib/base/err.h"
#include "lib/base/hash.h"
#include <stdlib.h>
#include <string.h>

void rules_init(struct rules *t, struct unwind_rule *rules, uint32_t n)
{
	static const struct unwind_rule unknown = {.cfa = UNWIND_CFA_UNKNOWN};

	ASSERT(n > RULES_UNKNOWN);
	*t = (struct rules) {.rules = rules, .n = MIN(n, UNWIND_MAX_RULES), .n_buckets = 2 * n};
	t->refs = xcalloc(n, sizeof(*t->refs));
	t->next = xcalloc(n, sizeof(*t->next));
	t->buckets = xcalloc(t->n_buckets, sizeof(*t->buckets));
	t->n_touched = RULES_UNKNOWN;
	(void)rules_get(t, &unknown); /* never put */
}

void rules_done(struct rules *t)
{
	free(t->refs);
	free(t->next);
	free(t->buckets);
	*t = (struct rules) {0};
}

static uint32_t *bucket_of(const struct rules *t, const struct unwind_rule *rule)
{
	return &t->buckets[hash_xxh3(rule, sizeof(*rule)) % t->n_buckets];
}

static uint32_t take_id(struct rules *t)
{
	uint32_t id = t->first_free;

	if (id) {
		t->first_free = t->next[id];
		return id;
	}
	return t->n_touched < t->n ? t->n_touched++ : 0;
}

uint32_t rules_get(struct rules *t, const struct unwind_rule *rule)
{
	uint32_t *bucket = bucket_of(t, rule), id;

	for (id = *bucket; id; id = t->next[id]) {
		if (memcmp(&t->rules[id], rule, sizeof(*rule)) == 0) {
			t->refs[id]++;
			return id;
		}
	}
	id = take_id(t);
	if (!id)
		return RULES_UNKNOWN;
	t->rules[id] = *rule;
	t->refs[id] = 1;
	t->next[id] = *bucket;
	*bucket = id;
	t->n_used++;
	return id;
}

void rules_put(struct rules *t, uint32_t id)
{
	uint32_t *at;

	if (id <= RULES_UNKNOWN)
		return;
	ASSERT(id < t->n && t->refs[id]);
	if (--t->refs[id])
		return;
	for (at = bucket_of(t, &t->rules[id]); *at != id; at = &t->next[*at])
		;
	*at = t->next[id];
	t->next[id] = t->first_free;
	t->first_free = id;
	t->n_used--;
}
