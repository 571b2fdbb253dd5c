/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting of label sets and of each label's distinct values, by hash.
 */
#include "scraper/scrape/limit.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <stdio.h>
#include <string.h>

/* A profile may have millions of names and of values: so many are counted, of these so many times the limit of sets. */
enum { MAX_NAMES = 4096, VALUES_PER_SET = 8 };

struct scrape_limit_name {
	char *name;
	struct table values;
	bool is_collapsed;
};

struct scrape_limit *scrape_limit_new(uint64_t max_sets, int64_t generation_ns)
{
	struct scrape_limit *l = xcalloc(1, sizeof(*l));

	l->refs = 1;
	l->max_sets = max_sets;
	l->generation_ns = generation_ns;
	lock_init(&l->lock);
	table_init(&l->sets, NULL);
	table_init(&l->by_name, NULL);
	return l;
}

struct scrape_limit *scrape_limit_get(struct scrape_limit *l)
{
	l->refs++;
	return l;
}

static void clear_names(struct scrape_limit *l)
{
	for (size_t i = 0; i < l->n_names; i++) {
		free(l->names[i].name);
		table_done(&l->names[i].values);
	}
	l->n_names = l->n_values = 0;
	table_clear(&l->by_name);
}

void scrape_limit_put(struct scrape_limit *l)
{
	if (!l || --l->refs)
		return;
	clear_names(l);
	free(l->names);
	table_done(&l->sets);
	table_done(&l->by_name);
	lock_done(&l->lock);
	free(l);
}

static struct scrape_limit_name *find_name(struct scrape_limit *l, const char *name, size_t n)
{
	const uint64_t *slot = table_find(&l->by_name, hash_xxh3(name, n));
	struct scrape_limit_name *found = slot ? &l->names[*slot] : NULL;

	return found && strlen(found->name) == n && !memcmp(found->name, name, n) ? found : NULL;
}

/* NULL when there are too many, or memory is out. */
static struct scrape_limit_name *add_name(struct scrape_limit *l, const char *name)
{
	bool is_new = false;
	uint64_t *slot;

	if (l->n_names >= MAX_NAMES ||
		alloc_grow(&l->names, &l->cap_names, l->n_names + 1, sizeof(*l->names)) < 0)
		return NULL;
	slot = table_insert(&l->by_name, hash_xxh3(name, strlen(name)), &is_new);
	if (!slot || !is_new)
		return NULL;
	*slot = l->n_names;
	l->names[l->n_names] = (struct scrape_limit_name) {.name = xstrdup(name)};
	table_init(&l->names[l->n_names].values, NULL);
	return &l->names[l->n_names++];
}

bool scrape_limit_is_collapsed(struct scrape_limit *l, const char *name, size_t n)
{
	const struct scrape_limit_name *found;
	bool collapsed;

	lock_take(&l->lock);
	found = find_name(l, name, n);
	collapsed = found && found->is_collapsed;
	lock_release(&l->lock);
	return collapsed;
}

static void count_value(struct scrape_limit *l, const struct label *label)
{
	struct scrape_limit_name *name = find_name(l, label->name, strlen(label->name));
	bool is_new = false;

	if (l->n_values / VALUES_PER_SET >= l->max_sets)
		return;
	if (!name)
		name = add_name(l, label->name);
	if (name &&
		table_insert(&name->values, hash_xxh3(label->value, strlen(label->value)), &is_new))
		l->n_values += is_new;
}

static void collapse(struct scrape_limit *l, struct scrape_limit_name *name)
{
	name->is_collapsed = true;
	l->n_collapsed_total++;
	l->n_values -= name->values.n_used;
	table_clear(&name->values);
}

/* The label with most values that is not collapsed yet; NULL when none has two. */
static struct scrape_limit_name *widest(struct scrape_limit *l)
{
	struct scrape_limit_name *best = NULL;

	for (size_t i = 0; i < l->n_names; i++)
		if (!l->names[i].is_collapsed &&
			l->names[i].values.n_used > (best ? best->values.n_used : 1))
			best = &l->names[i];
	return best;
}

static void start_generation(struct scrape_limit *l, int64_t now_ns)
{
	if (l->generation_started_ns && now_ns - l->generation_started_ns < l->generation_ns)
		return;
	l->generation_started_ns = now_ns;
	table_clear(&l->sets);
	clear_names(l);
}

static size_t count_new(struct scrape_limit *l, const struct scrape_limit_set *sets, size_t n)
{
	size_t n_new = 0;

	for (size_t i = 0; i < n; i++) {
		if (table_find(&l->sets, sets[i].hash))
			continue;
		n_new++;
		for (size_t j = 0; j < sets[i].n; j++)
			count_value(l, &sets[i].labels[j]);
	}
	return n_new;
}

/* Sets with a collapsed label are new too: each collapse leaves room for an eighth more, else one would bring on all others. */
static uint64_t allowed_sets(const struct scrape_limit *l)
{
	uint64_t allowed = l->max_sets;

	for (size_t i = 0; i < l->n_names; i++)
		if (l->names[i].is_collapsed)
			allowed += MAX(l->max_sets / 8, 8U);
	return allowed;
}

bool scrape_limit_admit(
	struct scrape_limit *l, const struct scrape_limit_set *sets, size_t n, int64_t now_ns)
{
	struct scrape_limit_name *name = NULL;
	uint64_t allowed;

	if (!l->max_sets)
		return true;
	lock_take(&l->lock);
	start_generation(l, now_ns);
	allowed = allowed_sets(l);
	if (l->sets.n_used + count_new(l, sets, n) > allowed)
		name = widest(l);
	if (name)
		collapse(l, name);
	/* those above it, of an answer that has nothing to collapse, are not known again */
	for (size_t i = 0; i < n && !name && l->sets.n_used < allowed; i++)
		(void)!table_insert(&l->sets, sets[i].hash, NULL);
	lock_release(&l->lock);
	return !name;
}

void scrape_limit_describe(struct scrape_limit *l, char *ret, size_t n)
{
	size_t len = 0;

	ret[0] = '\0';
	lock_take(&l->lock);
	for (size_t i = 0; i < l->n_names && len < n; i++)
		if (l->names[i].is_collapsed)
			len += (size_t)snprintf(
				ret + len, n - len, "%s%s", len ? ", " : "", l->names[i].name);
	lock_release(&l->lock);
}
