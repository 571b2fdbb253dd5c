/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging profiles to trees. Per part: a dense array per group takes the rows, one pass keeps the touched nodes, and their
 * locations get ids that hold in all parts; then the parts' trees merge in order.
 */
#include "lib/base/alloc.h"
#include "scraper/query/coverage.h"
#include "scraper/query/group.h"
#include "scraper/query/import.h"
#include "scraper/query/rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Means are kept in this fraction until all parts are merged, so that rounding happens once. */
enum { MEAN_SCALE = 1024 };

/* Trees of one group, one per part that had any of it. */
struct pile {
	struct tree *trees;
	size_t n, cap;
};

struct merger {
	struct scan scan;
	struct group_set groups;
	struct query_trees *out;
	uint32_t type;
	bool is_mean;		  /* instant column: mean over the scrapes of each series */
	struct coverage coverage; /* of an instant column */
	uint64_t *scrapes;	  /* per series */
	size_t cap_scrapes;
	struct pile *piles; /* per group */
	size_t n_piles, cap_piles;
	uint32_t previous_series; /* of which profiles were counted last */

	/* of the part in hand */
	struct arena arena;
	struct scan_part *part;
	struct rows_ranges ranges;
	struct group_view view;
	uint32_t view_hit;
	void **sums; /* per group: int64_t or double per node, NULL until touched */
	size_t n_sums, cap_sums;
};

static void merger_done(struct merger *m)
{
	for (size_t i = 0; i < m->n_piles; i++) {
		for (size_t k = 0; k < m->piles[i].n; k++)
			tree_done(&m->piles[i].trees[k]);
		free(m->piles[i].trees);
	}
	free(m->piles);
	free(m->scrapes);
	coverage_done(&m->coverage);
	free(m->sums);
	free(m->ranges.items);
	group_view_done(&m->view);
	group_set_done(&m->groups);
	arena_done(&m->arena);
	scan_done(&m->scan);
}

static int no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the query");
}

/* ---- first pass: profiles ---- */

static int count_scrape(struct merger *m, uint32_t series, uint64_t n)
{
	size_t old = m->cap_scrapes;
	int r = alloc_grow(&m->scrapes, &m->cap_scrapes, series + 1UL, sizeof(*m->scrapes));

	if (r)
		return r;
	if (m->cap_scrapes > old)
		memset(m->scrapes + old, 0, (m->cap_scrapes - old) * sizeof(*m->scrapes));
	m->out->n_series += m->scrapes[series] == 0;
	m->scrapes[series] += n;
	return 0;
}

static void count_profile(struct merger *m, const struct part_profiles *p, size_t i)
{
	struct query_trees *o = m->out;
	int64_t begin = tree_add(p->time_ns[i], -MAX(p->duration_ns[i], 0));

	if (!o->n_profiles)
		o->period = p->period[i];
	else if (o->period != p->period[i])
		o->period = 0;
	o->min_time_ns = o->n_profiles ? MIN(o->min_time_ns, begin) : begin;
	o->max_time_ns = o->n_profiles ? MAX(o->max_time_ns, p->time_ns[i]) : p->time_ns[i];
	o->duration_ns = tree_add(o->duration_ns, MAX(p->duration_ns[i], 0));
	o->n_profiles++;
}

static int plan_hit(struct merger *m, struct scan_part *p, uint32_t h,
	const struct query_spec *spec, bool add_rows, struct errbuf *eb)
{
	const struct scan_hit *hit = &p->hits[h];
	struct part_profiles profiles;
	int r = part_profiles(p->reader, hit->stream, spec->start_ns, spec->end_ns, &profiles);

	if (r)
		return scan_failed(p, r, eb);
	for (size_t i = 0; !r && i < profiles.n; i++) {
		if (profiles.resolution[i] != PART_RAW)
			continue;
		if (add_rows) {
			r = rows_add(&m->ranges, &profiles, i, h);
			continue;
		}
		count_profile(m, &profiles, i);
		r = count_scrape(m, hit->series, MAX(profiles.n_profiles[i], 1U));
	}
	return r ? no_memory(eb) : 0;
}

/* ---- second pass: rows ---- */

static int sums_of(struct merger *m, uint32_t group, void **ret)
{
	size_t old = m->cap_sums;
	int r = alloc_grow(&m->sums, &m->cap_sums, group + 1UL, sizeof(*m->sums));

	if (r)
		return r;
	if (m->cap_sums > old)
		memset(m->sums + old, 0, (m->cap_sums - old) * sizeof(*m->sums));
	m->n_sums = MAX(m->n_sums, group + 1UL);
	if (!m->sums[group])
		m->sums[group] = arena_zalloc(&m->arena, m->part->info->n_nodes * sizeof(int64_t));
	*ret = m->sums[group];
	return m->sums[group] ? 0 : -ENOMEM;
}

/* The loop that everything else is there for: one group, no row matchers. Sums wrap as unsigned, so hostile values are harmless. */
static int add_plain(struct merger *m, const struct rows_piece *p, uint32_t group)
{
	void *sums = NULL;
	int r = sums_of(m, group, &sums);

	if (r)
		return r;
	if (m->is_mean) {
		double weight = 1.0 / (double)m->scrapes[p->hit->series], *to = sums;

		for (size_t i = 0; i < p->n; i++)
			to[p->nodes[i]] += (double)p->values[i] * weight;
	} else {
		uint64_t *to = sums;

		for (size_t i = 0; i < p->n; i++)
			to[p->nodes[i]] += (uint64_t)p->values[i];
	}
	return 0;
}

/* Rows come ordered by label set, so equal ones are added together. */
static int add_by_row(struct merger *m, const struct rows_piece *p)
{
	uint32_t mask = p->hit->row_mask;
	size_t n;

	for (size_t i = 0; i < p->n; i += n) {
		uint32_t set = p->label_sets ? p->label_sets[i] : p->const_label_set;
		struct rows_piece run = *p;
		int64_t group;
		int r;

		for (n = 1; i + n < p->n && (!p->label_sets || p->label_sets[i + n] == set);)
			n++;
		if (mask && !scan_row_passes(m->part, mask, set))
			continue;
		group = group_view_of(&m->view, set);
		if (group < 0)
			return (int)group;
		run.n = n;
		run.nodes += i;
		run.values += i;
		r = add_plain(m, &run, (uint32_t)group);
		if (r)
			return r;
	}
	return 0;
}

static int add_piece(const struct rows_piece *p, void *ctx, struct errbuf *eb)
{
	struct merger *m = ctx;
	int r = 0;

	if (m->view_hit != p->range->hit) {
		r = group_view_start(&m->view, &m->groups, m->part, p->hit);
		m->view_hit = p->range->hit;
	}
	if (!r && m->view.constant != TREE_NONE && !p->hit->row_mask)
		r = add_plain(m, p, m->view.constant);
	else if (!r && !p->label_sets && m->view.constant != TREE_NONE)
		r = scan_row_passes(m->part, p->hit->row_mask, p->const_label_set)
			    ? add_plain(m, p, m->view.constant)
			    : 0;
	else if (!r)
		r = add_by_row(m, p);
	if (r)
		return arena_error(&m->arena, eb) ? r : no_memory(eb);
	return 0;
}

/* ---- touched nodes to a tree ---- */

struct touched {
	uint32_t *to; /* per node of the part: new number, 0 not touched */
	uint32_t *parent, *location;
	int64_t *self;
	size_t n;
};

static int64_t self_of(const struct merger *m, const void *sums, size_t node)
{
	double mean;

	if (!m->is_mean)
		return ((const int64_t *)sums)[node];
	mean = ((const double *)sums)[node] * MEAN_SCALE;
	return fabs(mean) < 9e18 ? llround(mean) : mean > 0 ? INT64_MAX : INT64_MIN;
}

static int find_touched(struct merger *m, const void *sums, const uint32_t *parents,
	const uint32_t *locations, struct touched *t, struct errbuf *eb)
{
	size_t n_nodes = m->part->info->n_nodes, n = 1;
	int r;

	t->to = arena_zalloc(&m->arena, (n_nodes + 1) * sizeof(*t->to));
	r = arena_error(&m->arena, eb);
	if (r)
		return r;
	for (size_t i = n_nodes; i-- > 1;) {
		if (parents[i] >= i)
			return err_set(eb, -EBADMSG, "part %s: node %zu comes before its parent",
				m->part->info->ulid, i);
		if (!t->to[i] && !self_of(m, sums, i))
			continue;
		t->to[i] = t->to[parents[i]] = 1;
		n++;
	}
	t->parent = arena_alloc_array(&m->arena, n, sizeof(*t->parent));
	t->location = arena_alloc_array(&m->arena, n, sizeof(*t->location));
	t->self = arena_alloc_array(&m->arena, n, sizeof(*t->self));
	r = arena_error(&m->arena, eb);
	if (r)
		return r;
	t->to[0] = 0;
	t->parent[0] = t->location[0] = 0;
	t->self[0] = self_of(m, sums, 0);
	t->n = 1;
	for (size_t i = 1; i < n_nodes; i++) {
		if (!t->to[i])
			continue;
		t->to[i] = (uint32_t)t->n;
		t->parent[t->n] = t->to[parents[i]];
		t->location[t->n] = locations[i];
		t->self[t->n++] = self_of(m, sums, i);
	}
	return 0;
}

/* Makes `map` hold every location of the touched nodes, importing those it lacks. */
static int map_locations(
	struct merger *m, const struct touched *t, uint32_t *map, struct errbuf *eb)
{
	uint32_t n_locations = m->part->info->n_locations, *ids;
	size_t n = 0;
	int r;

	ids = arena_alloc_array(&m->arena, t->n, sizeof(*ids));
	r = arena_error(&m->arena, eb);
	for (size_t i = 1; !r && i < t->n; i++) {
		uint32_t l = t->location[i];

		if (l >= n_locations)
			return err_set(eb, -EBADMSG, "part %s: a node refers to no location",
				m->part->info->ulid);
		if (map[l] != TREE_NONE)
			continue;
		map[l] = 0;
		ids[n++] = l;
	}
	return r ? r : import_locations(m->part, ids, n, &m->out->symbols, &m->arena, map, eb);
}

static int add_to_pile(struct merger *m, uint32_t group, struct tree *t)
{
	size_t old = m->cap_piles;
	struct pile *pile;
	int r = alloc_grow(&m->piles, &m->cap_piles, group + 1UL, sizeof(*m->piles));

	if (r)
		return r;
	if (m->cap_piles > old)
		memset(m->piles + old, 0, (m->cap_piles - old) * sizeof(*m->piles));
	m->n_piles = MAX(m->n_piles, group + 1UL);
	pile = &m->piles[group];
	r = alloc_grow(&pile->trees, &pile->cap, pile->n + 1, sizeof(*pile->trees));
	if (!r)
		pile->trees[pile->n++] = *t;
	return r;
}

static int finish_group(struct merger *m, uint32_t group, uint32_t *map, struct errbuf *eb)
{
	const uint32_t *parents, *locations;
	struct touched t = {};
	struct tree tree;
	int r = part_nodes(m->part->reader, &parents, &locations);

	if (r)
		return scan_failed(m->part, r, eb);
	r = find_touched(m, m->sums[group], parents, locations, &t, eb);
	if (!r)
		r = map_locations(m, &t, map, eb);
	if (r)
		return r;
	for (size_t i = 1; i < t.n; i++)
		t.location[i] = map[t.location[i]];
	m->scan.env->stats.nodes += t.n;
	tree_init(&tree, m->scan.env->budget);
	r = tree_from_nodes(t.parent, t.location, t.self, t.n, &tree, eb);
	if (!r)
		r = add_to_pile(m, group, &tree);
	if (r)
		tree_done(&tree);
	return r;
}

static int merge_part(
	struct merger *m, struct scan_part *p, const struct query_spec *spec, struct errbuf *eb)
{
	uint32_t *map;
	int r = 0;

	arena_done(&m->arena);
	arena_init(&m->arena, m->scan.env->budget);
	m->part = p;
	m->ranges.n = 0;
	m->view_hit = TREE_NONE;
	m->n_sums = 0;
	if (m->cap_sums)
		memset(m->sums, 0, m->cap_sums * sizeof(*m->sums));
	for (uint32_t h = 0; !r && h < p->n_hits; h++)
		r = plan_hit(m, p, h, spec, true, eb);
	if (!r)
		r = rows_walk(&m->scan, p, &m->ranges, add_piece, m, eb);
	map = r ? NULL : arena_alloc_array(&m->arena, p->info->n_locations + 1UL, sizeof(*map));
	if (!r)
		r = arena_error(&m->arena, eb);
	if (r)
		return r;
	memset(map, 0xff, (p->info->n_locations + 1UL) * sizeof(*map));
	for (uint32_t g = 0; !r && g < m->n_sums; g++)
		if (m->sums[g])
			r = finish_group(m, g, map, eb);
	return r;
}

/* ---- the result ---- */

static int merge_pile(struct merger *m, uint32_t group, struct query_group *ret, struct errbuf *eb)
{
	struct pile *pile = &m->piles[group];
	_cleanup_free_ const struct tree **trees =
		try_realloc(NULL, pile->n + 1, sizeof(struct tree *));
	int r;

	if (!trees)
		return no_memory(eb);
	for (size_t i = 0; i < pile->n; i++)
		trees[i] = &pile->trees[i];
	tree_init(&ret->tree, m->scan.env->budget);
	r = tree_merge((const struct tree *const *)trees, pile->n, &ret->tree, eb);
	if (!r && m->is_mean)
		r = tree_divide(&ret->tree, MEAN_SCALE, eb);
	if (!r)
		r = group_set_labels(&m->groups, group, &ret->labels);
	return r;
}

static int compare_groups(const void *a, const void *b)
{
	const struct query_group *x = a, *y = b;

	if (x->tree.total[0] != y->tree.total[0])
		return x->tree.total[0] < y->tree.total[0] ? 1 : -1;
	return labels_compare(&x->labels, &y->labels);
}

static int finish(struct merger *m, const struct query_spec *spec, struct errbuf *eb)
{
	struct query_trees *o = m->out;
	size_t n = spec->n_group_by ? m->n_piles : MAX(m->n_piles, (size_t)1);
	int r = 0;

	o->groups = xcalloc(n + 1, sizeof(*o->groups));
	for (uint32_t g = 0; !r && g < m->n_piles; g++)
		if (m->piles[g].n)
			r = merge_pile(m, g, &o->groups[o->n_groups++], eb);
	if (!r && !o->n_groups && n) { /* nothing was found: one empty tree */
		tree_init(&o->groups[0].tree, m->scan.env->budget);
		o->n_groups = 1;
		r = tree_merge(NULL, 0, &o->groups[0].tree, eb);
	}
	if (!r)
		qsort(o->groups, o->n_groups, sizeof(*o->groups), compare_groups);
	return r;
}

/* A series' mean is over all scrapes of its target, whether or not it was in them. */
static int cover(struct merger *m, const struct query_spec *spec, struct errbuf *eb)
{
	int r = coverage_load(&m->coverage, &m->scan, spec->start_ns, spec->end_ns, eb);

	for (size_t i = 0; i < m->scan.n_parts; i++) {
		const struct scan_part *p = &m->scan.parts[i];

		for (size_t h = 0; !r && h < p->n_hits; h++) {
			uint32_t series = p->hits[h].series, target;

			if (series >= m->cap_scrapes || !m->scrapes[series])
				continue;
			r = coverage_find(
				&m->coverage, p, p->streams[p->hits[h].stream].label_set, &target);
			if (!r && target != TREE_NONE)
				m->scrapes[series] =
					MAX(m->scrapes[series], m->coverage.items[target].n);
			r = r ? no_memory(eb) : 0;
		}
	}
	return r;
}

static int run(struct merger *m, const struct query_spec *spec, struct errbuf *eb)
{
	struct scan *s = &m->scan;
	int r = scan_select(s, spec->selector, eb);

	if (!r)
		r = query_find_type(s, spec->selector, &m->type, &m->out->type, eb);
	if (r == -ENOENT)
		return 0;
	if (r)
		return r;
	if (m->out->type.kind == STORE_GAUGE)
		return err_set(eb, -EINVAL,
			"%s is a number over time and has no stacks; ask /api/v1/query_series",
			m->out->type.id);
	m->is_mean = m->out->type.kind == STORE_INSTANT;
	for (size_t i = 0; !r && i < s->n_parts; i++)
		for (uint32_t h = 0; !r && h < s->parts[i].n_hits; h++)
			r = plan_hit(m, &s->parts[i], h, spec, false, eb);
	s->env->stats.profiles += m->out->n_profiles;
	if (!r && m->is_mean)
		r = cover(m, spec, eb);
	for (size_t i = 0; !r && i < s->n_parts; i++) {
		r = merge_part(m, &s->parts[i], spec, eb);
		scan_close_part(&s->parts[i]);
	}
	return r;
}

int query_merge(struct query_env *env, const struct query_spec *spec, struct query_trees *ret,
	struct errbuf *eb)
{
	_cleanup_(merger_done)
	struct merger m = {.out = ret};
	int r;

	*ret = (struct query_trees) {};
	tree_symbols_init(&ret->symbols, env->budget);
	arena_init(&m.arena, env->budget);
	r = scan_open(&m.scan, env, QUERY_PROFILE_TERMS, spec->start_ns, spec->end_ns,
		spec->group_by, spec->n_group_by, eb);
	group_set_init(&m.groups, &m.scan, spec->max_groups);
	if (!r)
		r = run(&m, spec, eb);
	if (!r)
		r = finish(&m, spec, eb);
	if (r)
		query_trees_done(ret);
	return r;
}

void query_trees_done(struct query_trees *t)
{
	for (size_t i = 0; i < t->n_groups; i++) {
		labels_done(&t->groups[i].labels);
		tree_done(&t->groups[i].tree);
	}
	free(t->groups);
	query_type_done(&t->type);
	tree_symbols_done(&t->symbols);
	*t = (struct query_trees) {};
}
