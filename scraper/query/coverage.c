/* SPDX-License-Identifier: Apache-2.0
 *
 * A series is matched to its target by restricting its labels to the names that coverage streams have: few distinct sets of
 * names exist, so that is a look-up or two per series.
 */
#include "scraper/query/coverage.h"
#include "lib/base/alloc.h"
#include <string.h>

void coverage_done(struct coverage *c)
{
	struct budget *b;

	if (!c->scan)
		return;
	b = c->scan->env->budget;
	for (size_t i = 0; i < c->targets.n && i < c->cap; i++)
		budget_free(b, c->items[i].windows, c->items[i].cap, sizeof(*c->items[i].windows));
	budget_free(b, c->items, c->cap, sizeof(*c->items));
	interner_done(&c->name_sets);
	interner_done(&c->targets);
}

static void put_pair(struct bytes *key, struct prof_str name, struct prof_str value)
{
	bytes_put_varint(key, name.len);
	bytes_put(key, name.p, name.len);
	bytes_put_varint(key, value.len);
	bytes_put(key, value.p, value.len);
}

static int add_target(
	struct coverage *c, const struct scan_part *p, uint32_t set, struct coverage_target **ret)
{
	_cleanup_bytes_ struct bytes names = {}, key = {};
	size_t old = c->cap;
	uint32_t id;
	int r;

	for (uint32_t i = p->sets.first[set]; i < p->sets.first[set + 1]; i++) {
		struct prof_str name = scan_string(p, p->sets.pairs[i].name);

		bytes_put(&names, name.p, name.len);
		bytes_put_u8(&names, 0);
		put_pair(&key, name, scan_string(p, p->sets.pairs[i].value));
	}
	if (names.error || key.error ||
		interner_add(&c->name_sets, names.data, names.len, NULL) == INTERNER_NONE)
		return -ENOMEM;
	id = interner_add(&c->targets, key.data, key.len, NULL);
	r = id == INTERNER_NONE ? -ENOMEM
				: alloc_grow_in(c->scan->env->budget, &c->items, &c->cap, id + 1UL,
					  sizeof(*c->items), NULL);
	if (r)
		return r;
	memset(c->items + old, 0, (c->cap - old) * sizeof(*c->items));
	*ret = &c->items[id];
	return 0;
}

/* Columns are the time lost and, of newer exporters, the number of CPUs. */
static struct query_cover entry_cover(const struct part_profiles *p, size_t i)
{
	int64_t lost = p->total[0] ? p->total[0][i] : 0, cpus = p->total[1] ? p->total[1][i] : 0;
	struct query_cover c = {.ns = MAX(tree_add(p->duration_ns[i], -lost), 0)};

	if (cpus <= 0 || __builtin_mul_overflow(c.ns, cpus, &c.cpu_ns))
		c.cpu_ns = -1;
	return c;
}

static int compare_windows(const void *a, const void *b)
{
	const struct coverage_window *x = a, *y = b;

	return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

void coverage_windows_done(struct coverage_windows *w)
{
	budget_free(w->budget, w->items, w->cap, sizeof(*w->items));
}

/* What overlaps becomes one. */
static void join(struct coverage_windows *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++)
		if (n && w->items[i].begin_ns <= w->items[n - 1].end_ns)
			w->items[n - 1].end_ns = MAX(w->items[n - 1].end_ns, w->items[i].end_ns);
		else if (w->items[i].begin_ns < w->items[i].end_ns)
			w->items[n++] = w->items[i];
	for (size_t i = 0; i < n; i++)
		w->items[i].covered_ns = w->items[i].end_ns - w->items[i].begin_ns;
	w->n = n;
}

int coverage_union(const struct coverage *c, const bool *chosen, struct coverage_windows *ret)
{
	*ret = (struct coverage_windows) {.budget = c->scan->env->budget};
	for (size_t i = 0; i < c->targets.n; i++) {
		const struct coverage_target *t = &c->items[i];
		int r;

		if (!chosen[i] || !t->n)
			continue;
		r = alloc_grow_in(ret->budget, &ret->items, &ret->cap, ret->n + t->n,
			sizeof(*ret->items), NULL);
		if (r)
			return r;
		memcpy(ret->items + ret->n, t->windows, t->n * sizeof(*ret->items));
		ret->n += t->n;
	}
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items), compare_windows);
	join(ret);
	return 0;
}

static int load_stream(struct coverage *c, struct scan_part *p, uint32_t stream, int64_t from_ns,
	int64_t to_ns, struct errbuf *eb)
{
	struct part_profiles profiles;
	struct coverage_target *t;
	int r = part_profiles(p->reader, stream, from_ns, to_ns, &profiles);

	if (r)
		return scan_failed(p, r, eb);
	r = add_target(c, p, p->streams[stream].label_set, &t);
	if (!r)
		r = alloc_grow_in(c->scan->env->budget, &t->windows, &t->cap, t->n + profiles.n + 1,
			sizeof(*t->windows), NULL);
	if (r)
		return err_set(eb, r, "out of memory for the query");
	for (size_t i = 0; i < profiles.n; i++)
		if (profiles.resolution[i] == PART_RAW) {
			struct query_cover covered = entry_cover(&profiles, i);

			t->windows[t->n++] = (struct coverage_window) {
				tree_add(profiles.time_ns[i], -profiles.duration_ns[i]),
				profiles.time_ns[i], covered.ns};
			t->covered = coverage_sum(t->covered, covered);
		}
	return 0;
}

int coverage_load(
	struct coverage *c, struct scan *s, int64_t from_ns, int64_t to_ns, struct errbuf *eb)
{
	int r = 0;

	ASSERT(!c->scan);
	c->scan = s;
	interner_init(&c->name_sets, s->env->budget);
	interner_init(&c->targets, s->env->budget);
	for (size_t i = 0; i < s->n_parts; i++) {
		struct scan_part *p = &s->parts[i];

		for (uint32_t st = 0; !r && st < p->info->n_streams; st++)
			if (p->schemas[p->streams[st].schema].kind == STORE_COVERAGE)
				r = load_stream(c, p, st, from_ns, to_ns, eb);
	}
	return r;
}

/* The labels of the set with these names, as a key; false when one is missing. */
static bool restrict_set(const struct scan_part *p, uint32_t set, const struct interner_item *names,
	struct bytes *key)
{
	const char *name = names->bytes, *end = names->bytes + names->len;
	uint32_t i = p->sets.first[set];

	bytes_reset(key);
	while (name < end && i < p->sets.first[set + 1]) { /* both are sorted by name */
		struct prof_str have = scan_string(p, p->sets.pairs[i].name);

		if (have.len == strlen(name) && !memcmp(have.p, name, have.len)) {
			put_pair(key, have, scan_string(p, p->sets.pairs[i].value));
			name += have.len + 1;
		}
		i++;
	}
	return name >= end;
}

int coverage_find(
	const struct coverage *c, const struct scan_part *p, uint32_t label_set, uint32_t *ret)
{
	_cleanup_bytes_ struct bytes key = {};

	*ret = TREE_NONE;
	for (size_t i = 0; i < c->name_sets.n; i++) {
		uint32_t id;

		if (!restrict_set(p, label_set, &c->name_sets.items[i], &key))
			continue;
		if (key.error)
			return key.error;
		id = interner_find(&c->targets, key.data, key.len);
		if (id != INTERNER_NONE && (*ret == TREE_NONE || c->items[id].n > c->items[*ret].n))
			*ret = id;
	}
	return 0;
}
