/* SPDX-License-Identifier: Apache-2.0
 *
 * Subtraction of sorted columns.
 */
#include "scraper/scrape/delta.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

enum { RESET_SHARE = 64 };

/* One sample in key order. */
struct entry {
	uint64_t key;
	size_t sample;
};

void scrape_delta_init(struct scrape_delta *d, struct budget *budget)
{
	*d = (struct scrape_delta) {.budget = budget};
}

static void forget(struct scrape_delta *d)
{
	struct budget *budget = d->budget;

	if (d->charged_bytes)
		budget_release(budget, d->charged_bytes);
	free(d->keys);
	free(d->values);
	free(d->totals);
	scrape_delta_init(d, budget);
}

void scrape_delta_done(struct scrape_delta *d)
{
	forget(d);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	return hash_mix(h ^ v) + 0x9e3779b97f4a7c15ULL;
}

static uint64_t str_key(const struct profile *p, uint32_t i)
{
	struct prof_str s = profile_str(p, i);

	return hash_xxh3(s.p, s.len);
}

static uint64_t location_key(const struct profile *p, const struct prof_location *l)
{
	uint64_t h = mix(0, l->address);

	if (l->mapping != PROF_NONE)
		h = mix(h, str_key(p, p->mappings[l->mapping].build_id));
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct prof_line *line = &p->lines[l->first_line + i];

		h = mix(h, (uint64_t)line->line);
		if (line->function != PROF_NONE)
			h = mix(h, str_key(p, p->functions[line->function].name));
	}
	return h;
}

uint64_t scrape_delta_key(const struct profile *p, const uint64_t *location_keys, size_t sample)
{
	uint64_t h = mix(0, p->stack_first[sample + 1] - p->stack_first[sample]);

	for (uint64_t i = p->stack_first[sample]; i < p->stack_first[sample + 1]; i++)
		h = mix(h, location_keys[p->stacks[i]]);
	for (uint64_t i = p->label_first[sample]; i < p->label_first[sample + 1]; i++) {
		const struct prof_label *l = &p->labels[i];

		h = mix(mix(h, str_key(p, l->key)), l->str ? str_key(p, l->str) : (uint64_t)l->num);
	}
	return h;
}

static uint64_t types_hash(const struct profile *p)
{
	uint64_t h = 0;

	for (size_t i = 0; i < p->n_types; i++)
		h = mix(mix(h, str_key(p, p->types[i].type)), str_key(p, p->types[i].unit));
	return h;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static int sorted_entries(const struct profile *p, struct entry **ret)
{
	_cleanup_free_ uint64_t *keys = try_realloc(NULL, p->n_locations + 1, sizeof(*keys));
	_cleanup_free_ struct entry *entries =
		try_realloc(NULL, p->n_samples + 1, sizeof(*entries));

	if (!keys || !entries)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_locations; i++)
		keys[i] = location_key(p, &p->locations[i]);
	for (size_t i = 0; i < p->n_samples; i++)
		entries[i] = (struct entry) {.key = scrape_delta_key(p, keys, i), .sample = i};
	qsort(entries, p->n_samples, sizeof(*entries), compare_entries);
	*ret = TAKE(entries);
	return 0;
}

/* Sums of a profile per distinct key; the other samples of the key are set to 0, so that each key counts once. */
static size_t fold_equal(struct profile *p, struct entry *entries)
{
	size_t n = 0, k = p->n_types;

	for (size_t i = 0; i < p->n_samples; i++) {
		int64_t *values = &p->values[entries[i].sample * k];

		if (!n || entries[n - 1].key != entries[i].key) {
			entries[n++] = entries[i];
			continue;
		}
		for (size_t c = 0; c < k; c++) {
			int64_t *sum = &p->values[entries[n - 1].sample * k + c];

			if (__builtin_add_overflow(*sum, values[c], sum))
				*sum = INT64_MAX;
			values[c] = 0;
		}
	}
	return n;
}

/* The columns that the next scrape is compared with; charged before they are made. False when the budget refuses. */
static bool remember(struct scrape_delta *d, const struct profile *p, const struct entry *entries,
	size_t n, int64_t time_ns)
{
	size_t k = p->n_types;
	uint64_t bytes = (uint64_t)n * (8 + 8 * k) + 8 * k;

	forget(d);
	if (budget_charge(d->budget, bytes, NULL) < 0)
		return false;
	d->charged_bytes = bytes;
	d->keys = try_realloc(NULL, n + 1, sizeof(*d->keys));
	d->values = try_realloc(NULL, n * k + 1, sizeof(*d->values));
	d->totals = try_realloc(NULL, k + 1, sizeof(*d->totals));
	if (!d->keys || !d->values || !d->totals) {
		forget(d);
		return false;
	}
	memset(d->totals, 0, (k + 1) * sizeof(*d->totals));
	d->n = n;
	d->n_columns = k;
	d->time_ns = time_ns;
	d->types_hash = types_hash(p);
	for (size_t i = 0; i < n; i++) {
		d->keys[i] = entries[i].key;
		for (size_t c = 0; c < k; c++) {
			d->values[i * k + c] = p->values[entries[i].sample * k + c];
			if (__builtin_add_overflow(
				    d->totals[c], d->values[i * k + c], &d->totals[c]))
				d->totals[c] = INT64_MAX;
		}
	}
	return true;
}

static bool has_fallen(const struct scrape_delta *before, const struct profile *p,
	const struct entry *entries, size_t n, const bool *is_cumulative)
{
	for (size_t c = 0; c < p->n_types; c++) {
		int64_t total = 0;

		if (!is_cumulative[c])
			continue;
		for (size_t i = 0; i < n; i++)
			if (__builtin_add_overflow(
				    total, p->values[entries[i].sample * p->n_types + c], &total))
				total = INT64_MAX;
		if (total < before->totals[c] - before->totals[c] / RESET_SHARE)
			return true;
	}
	return false;
}

/* Both sides are in key order: one walk. `before` may be empty (first scrape, reset). */
static void subtract(const struct scrape_delta *before, struct profile *p,
	const struct entry *entries, size_t n, const bool *is_cumulative)
{
	size_t k = p->n_types, j = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t *values = &p->values[entries[i].sample * k];

		while (j < before->n && before->keys[j] < entries[i].key)
			j++;
		if (j == before->n || before->keys[j] != entries[i].key)
			continue;
		for (size_t c = 0; c < k; c++)
			if (is_cumulative[c] && __builtin_sub_overflow(values[c],
							before->values[j * k + c], &values[c]))
				values[c] = 0;
	}
}

static void clamp(struct profile *p, const bool *is_cumulative, bool to_zero)
{
	for (size_t i = 0; i < p->n_samples; i++)
		for (size_t c = 0; c < p->n_types; c++)
			if (is_cumulative[c] && (to_zero || p->values[i * p->n_types + c] < 0))
				p->values[i * p->n_types + c] = 0;
}

int scrape_delta_apply(struct scrape_delta *d, struct profile *p, const bool *is_cumulative,
	int64_t time_ns, enum scrape_delta_result *ret, int64_t *ret_duration_ns, bool *ret_evicted,
	struct errbuf *eb)
{
	_cleanup_free_ struct entry *entries = NULL;
	_cleanup_(scrape_delta_done)
	struct scrape_delta before = {0};
	bool is_first = !d->keys || d->n_columns != p->n_types || d->types_hash != types_hash(p);
	size_t n;

	if (sorted_entries(p, &entries) < 0)
		return err_set(eb, -ENOMEM, "no memory to subtract %zu samples", p->n_samples);
	n = fold_equal(p, entries);
	*ret = is_first					     ? SCRAPE_DELTA_FIRST
	       : has_fallen(d, p, entries, n, is_cumulative) ? SCRAPE_DELTA_RESET
							     : SCRAPE_DELTA_DIFFERENCE;
	before = *d;
	scrape_delta_init(d, before.budget);
	*ret_evicted = !remember(d, p, entries, n, time_ns);
	*ret_duration_ns = is_first ? 0 : MAX(time_ns - before.time_ns, 0);
	if (*ret == SCRAPE_DELTA_DIFFERENCE)
		subtract(&before, p, entries, n, is_cumulative);
	clamp(p, is_cumulative, is_first);
	return 0;
}
