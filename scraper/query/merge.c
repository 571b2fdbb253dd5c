/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging profiles to trees: the steps.
 */
#include "scraper/query/merge.h"
#include "lib/base/alloc.h"
#include "scraper/query/workers.h"
#include <stdlib.h>
#include <string.h>

static void covers_done(struct merge_covers *c)
{
	table_done(&c->counted);
	free(c->items);
}

static void merger_done(struct merger *m)
{
	for (size_t i = 0; i < m->n_nodes; i++)
		merge_nodes_done(m, &m->nodes[i]);
	budget_free(m->scan.env->budget, m->nodes, m->cap_nodes, sizeof(*m->nodes));
	for (size_t i = 0; i < m->n_sources; i++)
		merge_source_done(m, &m->sources[i]);
	coverage_done(&m->coverage);
	covers_done(&m->group_covers);
	covers_done(&m->watched_covers);
	group_set_done(&m->watched);
	group_set_done(&m->groups);
	lock_done(&m->lock);
	scan_done(&m->scan);
}

/* ---- stretches ---- */

static int compare_tasks(const void *a, const void *b)
{
	const struct merge_task *x = a, *y = b;
	uint64_t nx = x->to_row - x->from_row, ny = y->to_row - y->from_row;

	return nx != ny ? (nx < ny ? 1 : -1) : (x->source > y->source) - (x->source < y->source);
}

/*
 * Parts are taken whole where there are enough of them; one that holds more than a thread's share of the rows is cut at pages. The
 * longest go first.
 */
static int make_tasks(struct merger *m, struct errbuf *eb)
{
	size_t threads = query_workers_n(m->scan.env->workers) + 1UL;
	uint64_t rows = 0, share;

	for (size_t i = 0; i < m->n_sources; i++)
		rows += m->sources[i].plan.n_rows;
	share = m->scan.env->share_rows ? m->scan.env->share_rows : 1 << 18;
	share = MAX(rows / threads, share);
	m->tasks = arena_alloc_array(&m->scan.arena, m->n_sources * threads + 1, sizeof(*m->tasks));
	if (!m->tasks)
		return arena_error(&m->scan.arena, eb);
	for (uint32_t i = 0; i < m->n_sources; i++) {
		const struct merge_plan *p = &m->sources[i].plan;
		uint64_t cuts = MIN((p->n_rows + share / 2) / share, (uint64_t)threads), first,
			 span;

		if (!p->ranges.n)
			continue;
		cuts = MAX(cuts, (uint64_t)1);
		first = p->ranges.items[0].first_row;
		span = p->ranges.items[p->ranges.n - 1].first_row +
		       p->ranges.items[p->ranges.n - 1].n_rows - first;
		for (uint64_t k = 0; k < cuts; k++)
			m->tasks[m->n_tasks++] = (struct merge_task) {.source = i,
				.from_row = first + span / cuts * k,
				.to_row =
					k + 1 == cuts ? UINT64_MAX : first + span / cuts * (k + 1)};
	}
	ASSERT(m->n_tasks <= m->n_sources * threads);
	qsort(m->tasks, m->n_tasks, sizeof(*m->tasks), compare_tasks);
	return 0;
}

/* ---- the result ---- */

static void add_up(struct merger *m)
{
	struct query_trees *o = m->out;

	for (size_t i = 0; i < m->n_sources; i++) {
		const struct merge_counts *c = &m->sources[i].plan.counts;

		if (!c->n_profiles)
			continue;
		o->period = !o->n_profiles || o->period == c->period ? c->period : 0;
		o->min_time_ns =
			o->n_profiles ? MIN(o->min_time_ns, c->min_time_ns) : c->min_time_ns;
		o->max_time_ns =
			o->n_profiles ? MAX(o->max_time_ns, c->max_time_ns) : c->max_time_ns;
		o->duration_ns = tree_add(o->duration_ns, c->duration_ns);
		o->n_profiles += c->n_profiles;
		m->scan.env->stats.rollups += m->sources[i].resolution != PART_RAW;
	}
	for (size_t i = 0; i < m->scan.series_keys.n; i++)
		o->n_series += m->scrapes[i] != 0;
	m->scan.env->stats.profiles += o->n_profiles;
}

static int compare_groups(const void *a, const void *b)
{
	const struct query_group *x = a, *y = b;

	if (x->tree.total[0] != y->tree.total[0])
		return x->tree.total[0] < y->tree.total[0] ? 1 : -1;
	return labels_compare(&x->labels, &y->labels);
}

static int name_watched(struct merger *m, struct errbuf *eb)
{
	struct query_trees *o = m->out;
	int r = 0;

	o->watched = xcalloc(m->watched_covers.n + 1, sizeof(*o->watched));
	for (; !r && o->n_watched < m->watched_covers.n; o->n_watched++) {
		struct query_watched *w = &o->watched[o->n_watched];

		w->covered = m->watched_covers.items[o->n_watched];
		r = group_set_labels(&m->watched, (uint32_t)o->n_watched, &w->labels);
	}
	return r ? merge_no_memory(eb) : 0;
}

static int finish(struct merger *m, struct errbuf *eb)
{
	struct query_trees *o = m->out;
	int r = merge_unify(m, eb);

	if (!r && !o->n_groups && !m->spec->n_group_by) { /* nothing was found: one empty tree */
		tree_init(&o->groups[0].tree, m->scan.env->budget);
		o->n_groups = 1;
		r = tree_merge(NULL, 0, &o->groups[0].tree, eb);
	}
	if (!r)
		qsort(o->groups, o->n_groups, sizeof(*o->groups), compare_groups);
	return r ? r : name_watched(m, eb);
}

/* A target that a series belongs to: a series' mean is over all its scrapes, whether or not the series was in them. */
static void cover_series(struct merger *m, uint32_t series, uint32_t target, bool *seen)
{
	const struct coverage_target *t = &m->coverage.items[target];

	ASSERT(target < m->coverage.targets.n);
	if (m->is_mean)
		m->scrapes[series] = MAX(m->scrapes[series], (uint64_t)t->n);
	if (seen[target])
		return;
	seen[target] = true;
	m->out->covered = coverage_sum(m->out->covered, t->covered);
	m->out->n_targets++;
}

static int covers_add(
	struct merge_covers *c, uint32_t group, uint32_t target, struct query_cover covered)
{
	bool is_new;
	int r = 0;

	if (!table_insert(&c->counted, (uint64_t)group << 32 | target, &is_new))
		return -ENOMEM;
	if (group >= c->n) {
		r = alloc_grow(&c->items, &c->cap, group + 1UL, sizeof(*c->items));
		if (r)
			return r;
		memset(c->items + c->n, 0, (group + 1 - c->n) * sizeof(*c->items));
		c->n = group + 1UL;
	}
	if (is_new)
		c->items[group] = coverage_sum(c->items[group], covered);
	return 0;
}

/* What views of the two sets share while streams are gone through. */
struct cover_views {
	struct group_view groups, watched;
};

static void cover_views_done(struct cover_views *v)
{
	group_view_done(&v->groups);
	group_view_done(&v->watched);
}

/* Counts the target for the group of this stream's series, unless rows decide the group, and for what its own labels make. */
static int cover_group(struct merger *m, const struct scan_part *p, const struct scan_hit *hit,
	uint32_t target, struct cover_views *v)
{
	struct query_cover covered = m->coverage.items[target].covered;
	int r = group_view_start(&v->groups, &m->groups, p, hit);
	int64_t id;

	if (!r && v->groups.constant != TREE_NONE)
		r = covers_add(&m->group_covers, v->groups.constant, target, covered);
	if (!r)
		r = group_view_start(&v->watched, &m->watched, p, hit);
	if (r)
		return r;
	id = group_view_of_stream(&v->watched);
	return id < 0 ? (int)id : covers_add(&m->watched_covers, (uint32_t)id, target, covered);
}

static int cover(struct merger *m, struct errbuf *eb)
{
	int r = coverage_load(&m->coverage, &m->scan, m->spec->start_ns, m->spec->end_ns, eb);
	_cleanup_free_ bool *seen = xcalloc(m->coverage.targets.n + 1, 1);
	_cleanup_(cover_views_done)
	struct cover_views views = {};
	_cleanup_coverage_windows_ struct coverage_windows watched = {};

	for (size_t i = 0; i < m->scan.n_parts; i++) {
		const struct scan_part *p = &m->scan.parts[i];

		for (size_t h = 0; !r && h < p->n_hits; h++) {
			uint32_t series = p->hits[h].series, target;

			if (!m->scrapes[series])
				continue;
			r = coverage_find(
				&m->coverage, p, p->streams[p->hits[h].stream].label_set, &target);
			if (r)
				return merge_no_memory(eb);
			if (target == TREE_NONE)
				continue;
			cover_series(m, series, target, seen);
			if (cover_group(m, p, &p->hits[h], target, &views))
				return merge_no_memory(eb);
		}
	}
	if (r)
		return r;
	if (coverage_union(&m->coverage, seen, &watched) < 0)
		return merge_no_memory(eb);
	for (size_t i = 0; i < watched.n; i++)
		m->out->watched_ns = tree_add(
			m->out->watched_ns, watched.items[i].end_ns - watched.items[i].begin_ns);
	return 0;
}

static int run(struct merger *m, struct errbuf *eb)
{
	struct scan *s = &m->scan;
	uint32_t type;
	int r = scan_select(s, m->spec->selector, eb);

	if (!r)
		r = query_find_type(s, m->spec->selector, &type, &m->out->type, eb);
	if (r)
		return r == -ENOENT ? finish(m, eb) : r;
	if (m->out->type.kind == STORE_GAUGE)
		return err_set(eb, -EINVAL,
			"%s is a number over time and has no stacks; ask /api/v1/query_series",
			m->out->type.id);
	m->is_mean = m->out->type.kind == STORE_INSTANT;
	m->sources =
		arena_zalloc(&s->arena, (s->n_parts * MERGE_RESOLUTIONS + 1) * sizeof(*m->sources));
	m->scrapes = arena_alloc_array(&s->arena, s->series_keys.n + 1, sizeof(*m->scrapes));
	r = arena_error(&s->arena, eb);
	if (r)
		return r;
	m->n_sources = s->n_parts * MERGE_RESOLUTIONS;
	for (size_t i = 0; i <= s->series_keys.n; i++)
		atomic_init(&m->scrapes[i], 0);
	r = merge_run(m, s->n_parts, merge_find_sources, eb);
	if (!r)
		r = merge_run(m, m->n_sources, merge_plan_source, eb);
	if (r)
		return r;
	add_up(m);
	if ((m->is_mean || m->spec->want_coverage) && !m->spec->n_profiles)
		r = cover(m, eb);
	if (!r)
		r = make_tasks(m, eb);
	if (!r)
		r = merge_run(m, m->n_tasks, merge_add_task, eb);
	return r ? r : finish(m, eb);
}

static int merge_once(struct query_env *env, const struct query_spec *spec, struct query_trees *ret,
	struct errbuf *eb)
{
	_cleanup_(merger_done)
	struct merger m = {.out = ret, .spec = spec, .symbols = &ret->symbols};
	int r;

	*ret = (struct query_trees) {};
	lock_init(&m.lock);
	tree_symbols_init(&ret->symbols, env->budget);
	if (spec->symbols)
		m.symbols = spec->symbols;
	r = scan_open(&m.scan, env, QUERY_PROFILE_TERMS, spec->start_ns, spec->end_ns,
		spec->group_by, spec->n_group_by, eb);
	group_set_init(&m.groups, &m.scan, spec->max_groups);
	/* As many as there are: what is watched is not told under "__other__". */
	group_set_init(&m.watched, &m.scan, SIZE_MAX);
	table_init(&m.group_covers.counted, env->budget);
	table_init(&m.watched_covers.counted, env->budget);
	if (!r)
		r = run(&m, eb);
	if (r)
		query_trees_done(ret);
	return r;
}

int query_merge(struct query_env *env, const struct query_spec *spec, struct query_trees *ret,
	struct errbuf *eb)
{
	size_t n_damaged;
	int r;

	do {
		n_damaged = scan_n_damaged(env);
		r = merge_once(env, spec, ret, eb);
	} while (scan_met_damage(env, r, n_damaged));
	return r;
}

void query_trees_done(struct query_trees *t)
{
	for (size_t i = 0; i < t->n_groups; i++) {
		labels_done(&t->groups[i].labels);
		tree_done(&t->groups[i].tree);
	}
	for (size_t i = 0; i < t->n_watched; i++)
		labels_done(&t->watched[i].labels);
	free(t->groups);
	free(t->watched);
	query_type_done(&t->type);
	tree_symbols_done(&t->symbols);
	*t = (struct query_trees) {};
}
