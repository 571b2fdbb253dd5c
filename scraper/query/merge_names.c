/* SPDX-License-Identifier: Apache-2.0
 *
 * The locations that nodes of all parts use, in order of their keys, which is the order of a block's locations: each part's come sorted
 * and are merged. A location is the same in every part that has its key, so its names are read from one part only. Its place in that
 * order stands for it until the names are read, which one thread does while others go on.
 */
#include "lib/base/alloc.h"
#include "lib/base/bitmap.h"
#include "scraper/query/import.h"
#include "scraper/query/merge_names.h"
#include <stdlib.h>
#include <string.h>

/* Of one part. */
struct names_part {
	const size_t *entries; /* of m->nodes */
	size_t n_entries;
	const uint64_t *keys; /* of its locations */
	uint32_t *used;	      /* locations, in order of their keys */
	size_t n_used;
	uint32_t *ranks; /* of those, per location; undefined for others */
	size_t n_locations;
};

struct list {
	struct known *items;
	size_t n, cap;
	unsigned level; /* 2 to the power of it parts */
};

static void list_done(struct merger *m, struct list *l)
{
	budget_free(m->scan.env->budget, l->items, l->cap, sizeof(*l->items));
	*l = (struct list) {};
}

void merge_names_done(struct merger *m, struct merge_names *n)
{
	for (size_t i = 0; n->parts && i < m->scan.n_parts; i++) {
		struct names_part *p = &n->parts[i];

		budget_free(m->scan.env->budget, p->used, p->n_used, sizeof(*p->used));
		budget_free(m->scan.env->budget, p->ranks, p->ranks ? p->n_locations : 0,
			sizeof(*p->ranks));
	}
	budget_free(m->scan.env->budget, n->known, n->cap_known, sizeof(*n->known));
	arena_done(&n->arena);
	*n = (struct merge_names) {};
}

/* ---- what each part uses ---- */

static int alloc_u32(struct merger *m, uint32_t **p, size_t n, struct errbuf *eb)
{
	struct budget *b = m->scan.env->budget;
	int r = b ? budget_charge(b, n * sizeof(**p), eb) : 0;

	if (r)
		return r;
	*p = try_realloc(NULL, n, sizeof(**p));
	if (!*p && b)
		budget_release(b, n * sizeof(**p));
	return *p ? 0 : merge_no_memory(eb);
}

struct place {
	uint64_t key;
	uint32_t location;
};

static int by_key(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

/* What a head uses, whose locations are in order of arrival. */
static int sort_used(struct names_part *p)
{
	_cleanup_free_ struct place *places = NULL;
	bool sorted = true;

	for (size_t i = 1; i < p->n_used; i++)
		sorted &= p->keys[p->used[i - 1]] < p->keys[p->used[i]];
	if (sorted)
		return 0;
	places = try_realloc(NULL, p->n_used, sizeof(*places));
	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_used; i++)
		places[i] = (struct place) {p->keys[p->used[i]], p->used[i]};
	qsort(places, p->n_used, sizeof(*places), by_key);
	for (size_t i = 0; i < p->n_used; i++)
		p->used[i] = places[i].location;
	return 0;
}

static int mark_used(struct merger *m, const struct names_part *p, const struct scan_part *of,
	struct bitmap *b, struct errbuf *eb)
{
	for (size_t e = 0; e < p->n_entries; e++) {
		const struct merge_nodes *n = &m->nodes[p->entries[e]];

		for (size_t i = 1; i < n->n; i++) {
			if (n->location[i] >= of->info->n_locations)
				return scan_contradicts(
					of, of->reader, "a node refers to no location", eb);
			bitmap_set(b, n->location[i]);
		}
	}
	return 0;
}

static int take_used(
	struct merger *m, struct names_part *p, const struct bitmap *b, struct errbuf *eb)
{
	const size_t n_words = (b->n + 63UL) / 64;
	size_t n = 0;
	int r;

	for (size_t w = 0; w < n_words; w++)
		n += (size_t)__builtin_popcountll(b->words[w]);
	r = alloc_u32(m, &p->used, n, eb);
	if (r)
		return r;
	for (size_t w = 0; w < n_words; w++)
		for (uint64_t bits = b->words[w]; bits; bits &= bits - 1)
			p->used[p->n_used++] = (uint32_t)(w * 64 + (size_t)__builtin_ctzll(bits));
	return sort_used(p) ? merge_no_memory(eb) : 0;
}

static int find_used(struct merger *m, size_t part, struct errbuf *eb)
{
	struct names_part *p = &m->names->parts[part];
	struct scan_part *of = &m->scan.parts[part];
	struct bitmap b = {};
	int r;

	if (!p->n_entries)
		return 0;
	r = part_location_keys(of->reader, &p->keys);
	if (r)
		return scan_failed(of, r, eb);
	r = bitmap_init(&b, of->info->n_locations, m->scan.env->budget, eb);
	if (!r)
		r = mark_used(m, p, of, &b, eb);
	if (!r)
		r = take_used(m, p, &b, eb);
	bitmap_done(&b);
	return r;
}

/* Which entries of m->nodes are of which part. */
static int sort_entries(struct merger *m, struct merge_names *n, struct errbuf *eb)
{
	const size_t n_parts = m->scan.n_parts;
	size_t *entries = arena_alloc_array(&n->arena, m->n_nodes + 1, sizeof(*entries)),
	       *first = arena_zalloc(&n->arena, (n_parts + 2) * sizeof(*first));
	int r;

	n->parts = arena_zalloc(&n->arena, (n_parts + 1) * sizeof(*n->parts));
	r = arena_error(&n->arena, eb);
	if (r)
		return r;
	for (size_t i = 0; i < m->n_nodes; i++)
		first[m->nodes[i].part + 2]++;
	for (size_t i = 2; i < n_parts + 2; i++)
		first[i] += first[i - 1];
	for (size_t i = 0; i < m->n_nodes; i++)
		entries[first[m->nodes[i].part + 1]++] = i;
	for (size_t i = 0; i < n_parts; i++) {
		n->parts[i].entries = entries + first[i];
		n->parts[i].n_entries = first[i + 1] - first[i];
	}
	return 0;
}

/* ---- what all use ---- */

static int list_of_part(struct merger *m, uint32_t part, struct list *ret)
{
	const struct names_part *p = &m->names->parts[part];
	int r = alloc_grow_in(
		m->scan.env->budget, &ret->items, &ret->cap, p->n_used, sizeof(*ret->items), NULL);

	for (size_t i = 0; !r && i < p->n_used; i++)
		ret->items[ret->n++] = (struct known) {p->keys[p->used[i]], part, p->used[i]};
	return r;
}

/* Into `a`, whose parts come first: names are read from the first part that has them. */
static int join_lists(struct merger *m, struct list *a, struct list *b)
{
	const struct known *x = a->items, *y = b->items, *x_end = x + a->n, *y_end = y + b->n;
	struct list both = {.level = a->level + 1};
	struct known *to;
	int r = alloc_grow_in(m->scan.env->budget, &both.items, &both.cap, a->n + b->n,
		sizeof(*both.items), NULL);

	if (r)
		return r;
	to = both.items;
	while (x < x_end && y < y_end) {
		const uint64_t xk = x->key, yk = y->key;

		*to++ = xk <= yk ? *x : *y;
		x += xk <= yk;
		y += yk <= xk;
	}
	while (x < x_end)
		*to++ = *x++;
	while (y < y_end)
		*to++ = *y++;
	both.n = (size_t)(to - both.items);
	list_done(m, a);
	list_done(m, b);
	*a = both;
	return 0;
}

/* The last two. */
static int join_last(struct merger *m, struct list *stack, size_t *depth)
{
	int r = join_lists(m, &stack[*depth - 2], &stack[*depth - 1]);

	*depth -= !r;
	return r;
}

/* Lists of as many parts each are merged first, so that no list is copied often. */
static int join_parts(struct merger *m, struct merge_names *n)
{
	struct list stack[40];
	size_t depth = 0;
	int r = 0;

	for (uint32_t i = 0; !r && i < m->scan.n_parts; i++) {
		if (!n->parts[i].n_used)
			continue;
		stack[depth] = (struct list) {};
		r = list_of_part(m, i, &stack[depth++]);
		while (!r && depth > 1 && stack[depth - 2].level == stack[depth - 1].level)
			r = join_last(m, stack, &depth);
	}
	while (!r && depth > 1)
		r = join_last(m, stack, &depth);
	if (!r && depth) {
		n->known = stack[0].items;
		n->n_known = stack[0].n;
		n->cap_known = stack[0].cap;
		return 0;
	}
	while (depth)
		list_done(m, &stack[--depth]);
	return r;
}

/* The first of known[at .. n), which are sorted, with this key or one above: mostly at once or soon. */
static size_t seek(const struct known *known, size_t at, size_t n, uint64_t key)
{
	size_t step = 1;

	if (at < n && known[at].key >= key)
		return at;
	while (at + step < n && known[at + step].key < key) {
		at += step;
		step *= 2;
	}
	for (n = MIN(n, at + step); n - at > 1;) { /* known[at] is below, known[n] is not */
		size_t mid = at + (n - at) / 2;

		if (known[mid].key < key)
			at = mid;
		else
			n = mid;
	}
	return n;
}

static int find_ranks(struct merger *m, size_t part, struct errbuf *eb)
{
	struct names_part *p = &m->names->parts[part];
	size_t at = 0;
	int r;

	if (!p->n_used)
		return 0;
	p->n_locations = m->scan.parts[part].info->n_locations;
	r = alloc_u32(m, &p->ranks, p->n_locations, eb);
	for (size_t i = 0; !r && i < p->n_used; i++) {
		at = seek(m->names->known, at, m->names->n_known, p->keys[p->used[i]]);
		p->ranks[p->used[i]] = (uint32_t)at;
	}
	return r;
}

int merge_names_find(struct merger *m, struct errbuf *eb)
{
	struct merge_names *n = m->names;
	int r;

	arena_init(&n->arena, m->scan.env->budget);
	r = sort_entries(m, n, eb);
	if (!r)
		r = merge_run(m, m->scan.n_parts, find_used, eb);
	if (!r && join_parts(m, n))
		r = merge_no_memory(eb);
	return r ? r : merge_run(m, m->scan.n_parts, find_ranks, eb);
}

const uint32_t *merge_names_ranks(const struct merger *m, uint32_t part)
{
	ASSERT(m->names && part < m->scan.n_parts);
	return m->names->parts[part].ranks;
}

/* ---- names ---- */

/* Reads the names of the locations that are read from this part. */
static int open_import(struct merger *m, uint32_t part, struct import **ret, struct errbuf *eb)
{
	struct merge_names *n = m->names;
	size_t n_used = n->parts[part].n_used, k = 0;
	uint32_t *ids;
	int r;

	if (!n_used)
		return 0;
	ids = arena_alloc_array(&n->arena, n_used, sizeof(*ids));
	r = arena_error(&n->arena, eb);
	if (r)
		return r;
	for (size_t i = 0; i < n->n_known; i++)
		if (n->known[i].part == part)
			ids[k++] = n->known[i].location;
	return k ? import_open(&m->scan.parts[part], ids, k, m->symbols, &n->arena, ret, eb) : 0;
}

/* Ids are given in the order of the keys: where all are new, they are in the same order. */
int merge_names_import(struct merger *m, struct errbuf *eb)
{
	struct merge_names *n = m->names;
	const size_t n_parts = m->scan.n_parts;
	struct import **imports = arena_zalloc(&n->arena, (n_parts + 1) * sizeof(*imports));
	size_t *at = arena_zalloc(&n->arena, (n_parts + 1) * sizeof(*at)), n_imports = 0;
	int r;

	n->ids = arena_alloc_array(&n->arena, n->n_known + 1, sizeof(*n->ids));
	r = arena_error(&n->arena, eb);
	for (uint32_t p = 0; !r && p < n_parts; p++) {
		r = open_import(m, p, &imports[p], eb);
		n_imports += !r && imports[p];
	}
	if (r)
		return r;
	if (n_imports == 1)
		import_alone(imports[n->known[0].part]);
	n->ascending = true;
	for (size_t i = 0; i < n->n_known; i++) {
		const uint32_t part = n->known[i].part;

		n->ids[i] = import_location(imports[part], at[part]++);
		n->ascending &= !i || n->ids[i - 1] < n->ids[i];
	}
	return tree_symbols_error(m->symbols, eb);
}
