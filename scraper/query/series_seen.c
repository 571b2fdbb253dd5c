/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of a day mostly hold the same series: 12 × 10,000 texts cost ten times as much as telling that they are the same.
 */
#include "scraper/query/series_seen.h"
#include <string.h>

void series_seen_init(struct series_seen *s, struct budget *b)
{
	*s = (struct series_seen) {.string_of = NULL};
	interner_init(&s->strings, b);
	interner_init(&s->sets, b);
	interner_init(&s->types, b);
	table_init(&s->series, b);
	bytes_init(&s->key, b, 0);
}

void series_seen_done(struct series_seen *s)
{
	interner_done(&s->strings);
	interner_done(&s->sets);
	interner_done(&s->types);
	table_done(&s->series);
	bytes_done(&s->key);
}

static uint32_t *unasked(struct arena *a, size_t n)
{
	uint32_t *p = arena_alloc_array(a, n + 1, sizeof(*p));

	if (p)
		memset(p, 0xff, (n + 1) * sizeof(*p));
	return p;
}

int series_seen_start(struct series_seen *s, struct scan *scan)
{
	const struct part_info *in = scan->parts[0].info;

	ASSERT(scan->n_parts == 1);
	s->string_of = unasked(&scan->arena, in->n_label_strings);
	s->set_of = unasked(&scan->arena, in->n_label_sets);
	s->type_of = unasked(&scan->arena, scan->n_types);
	return s->string_of && s->set_of && s->type_of ? 0 : -ENOMEM;
}

static inline uint32_t string_number(struct series_seen *s, const struct scan_part *p, uint32_t id)
{
	struct prof_str text;

	if (s->string_of[id] == STORE_NONE) {
		text = scan_string(p, id);
		s->string_of[id] = interner_add(&s->strings, text.p, text.len, NULL);
	}
	return s->string_of[id];
}

/* INTERNER_NONE, which is STORE_NONE, when memory is out: nobody asks again. */
static uint32_t set_number(struct series_seen *s, const struct scan_part *p, uint32_t set)
{
	const uint32_t first = p->sets.first[set], n = p->sets.first[set + 1] - first;
	uint32_t *key;

	if (s->set_of[set] != STORE_NONE)
		return s->set_of[set];
	bytes_reset(&s->key);
	key = (uint32_t *)(void *)bytes_reserve(&s->key, 2UL * n * sizeof(*key));
	if (!key)
		return INTERNER_NONE;
	for (uint32_t i = 0; i < n; i++) {
		const struct part_label *pair = &p->sets.pairs[first + i];

		key[2 * i] = string_number(s, p, pair->name);
		key[2 * i + 1] = string_number(s, p, pair->value);
		if (key[2 * i] == INTERNER_NONE || key[2 * i + 1] == INTERNER_NONE)
			return INTERNER_NONE;
	}
	s->set_of[set] = interner_add(&s->sets, key, 2UL * n * sizeof(*key), NULL);
	return s->set_of[set];
}

static uint32_t type_number(struct series_seen *s, const struct scan *scan, uint32_t type)
{
	const struct interner_item *key = &scan->type_keys.items[type];

	if (s->type_of[type] == STORE_NONE)
		s->type_of[type] = interner_add(&s->types, key->bytes, key->len, NULL);
	return s->type_of[type];
}

int series_seen_add(struct series_seen *s, const struct scan *scan, const struct scan_hit *hit)
{
	const struct scan_part *p = &scan->parts[0];
	const uint32_t set = set_number(s, p, p->streams[hit->stream].label_set),
		       type = type_number(s, scan, hit->type);
	bool is_new;

	ASSERT(scan->n_parts == 1);
	if (set == INTERNER_NONE || type == INTERNER_NONE ||
		!table_insert(&s->series, (uint64_t)set << 32 | type, &is_new))
		return -ENOMEM;
	return is_new;
}
