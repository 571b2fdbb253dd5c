/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows into dense arrays, one per group, and from them the nodes that have a value below. The loop in add_plain is what the rest of
 * the merge is there for.
 */
#include "lib/base/alloc.h"
#include "scraper/query/merge.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One thread's work on one stretch. */
struct adder {
	struct merger *m;
	struct scan_part *part;
	uint32_t part_number;
	struct part_reader *reader;
	size_t n_tree; /* nodes of the reader: a head may have grown since the plan was made */
	struct arena arena;
	struct group_view view;
	uint32_t view_hit;
	void **sums; /* per group: int64_t or double per node, NULL until touched */
	size_t n_sums, cap_sums;
};

static void adder_done(struct adder *a)
{
	group_view_done(&a->view);
	free(a->sums);
	part_reader_closep(&a->reader);
	arena_done(&a->arena);
}

static int sums_of(struct adder *a, uint32_t group, void **ret)
{
	size_t old = a->cap_sums;
	int r = alloc_grow(&a->sums, &a->cap_sums, group + 1UL, sizeof(*a->sums));

	if (r)
		return r;
	if (a->cap_sums > old)
		memset(a->sums + old, 0, (a->cap_sums - old) * sizeof(*a->sums));
	a->n_sums = MAX(a->n_sums, group + 1UL);
	if (!a->sums[group])
		a->sums[group] = arena_zalloc(&a->arena, (a->n_tree + 1UL) * sizeof(int64_t));
	*ret = a->sums[group];
	return a->sums[group] ? 0 : -ENOMEM;
}

static double weight_of(const struct adder *a, const struct rows_piece *p)
{
	return 1.0 /
	       (double)atomic_load_explicit(&a->m->scrapes[p->hit->series], memory_order_relaxed);
}

/* One group, no row matchers. Sums wrap as unsigned, so hostile values are harmless. */
static int add_plain(struct adder *a, const struct rows_piece *p, uint32_t group)
{
	void *sums = NULL;
	int r = sums_of(a, group, &sums);

	if (r)
		return r;
	if (a->m->is_mean) {
		double weight = weight_of(a, p), *to = sums;

		for (size_t i = 0; i < p->n; i++)
			to[p->nodes[i]] += (double)p->values[i] * weight;
	} else {
		const uint32_t *nodes = p->nodes;
		const int64_t *values = p->values;
		uint64_t *to = sums;

		for (size_t i = 0; i < p->n; i++)
			to[nodes[i]] += (uint64_t)values[i];
	}
	return 0;
}

/* Rows of a profile come ordered by label set, so neighbours with the same one are added together. */
static int add_by_row(struct adder *a, const struct rows_piece *p)
{
	uint32_t mask = p->hit->row_mask;
	size_t n;

	for (size_t i = 0; i < p->n; i += n) {
		uint32_t set = p->label_sets ? p->label_sets[i] : p->const_label_set;
		struct rows_piece part = *p;
		int64_t group;
		int r;

		n = p->label_sets ? 1 : p->n;
		while (i + n < p->n && p->label_sets[i + n] == set)
			n++;
		if (!scan_row_passes(a->part, mask, set))
			continue;
		group = group_view_of(&a->view, set);
		part.n = n;
		part.nodes += i;
		part.values += i;
		r = group < 0 ? (int)group : add_plain(a, &part, (uint32_t)group);
		if (r)
			return r;
	}
	return 0;
}

static int add_piece(const struct rows_piece *p, void *ctx, struct errbuf *eb)
{
	struct adder *a = ctx;
	int r = 0;

	if (p->range->group != TREE_NONE) {
		r = add_plain(a, p, p->range->group);
	} else {
		if (a->view_hit != p->range->hit)
			r = group_view_start(&a->view, &a->m->groups, a->part, p->hit);
		a->view_hit = p->range->hit;
		if (!r)
			r = add_by_row(a, p);
	}
	if (r)
		return arena_error(&a->arena, eb) ? r : merge_no_memory(eb);
	return 0;
}

/* ---- touched nodes ---- */

static int64_t self_of(const struct adder *a, const void *sums, size_t node)
{
	double mean;

	if (!a->m->is_mean)
		return ((const int64_t *)sums)[node];
	mean = ((const double *)sums)[node] * MERGE_MEAN_SCALE;
	return fabs(mean) < 9e18 ? llround(mean) : mean > 0 ? INT64_MAX : INT64_MIN;
}

enum { NODE_BYTES = sizeof(int64_t) + 3 * sizeof(uint32_t) };

static int nodes_alloc(struct merger *m, size_t n, struct merge_nodes *ret, struct errbuf *eb)
{
	size_t bytes = n * NODE_BYTES;
	struct budget *b = m->scan.env->budget;
	int r = b ? budget_charge(b, bytes, eb) : 0;

	if (r)
		return r;
	ret->self = try_malloc(bytes);
	if (!ret->self) {
		if (b)
			budget_release(b, bytes);
		return merge_no_memory(eb);
	}
	ret->n = ret->cap = n;
	ret->parent = (uint32_t *)(void *)(ret->self + n);
	ret->location = ret->parent + n;
	ret->depth = ret->location + n;
	return 0;
}

void merge_nodes_done(struct merger *m, struct merge_nodes *n)
{
	struct budget *b = m->scan.env->budget;

	if (n->self && b)
		budget_release(b, n->cap * NODE_BYTES);
	free(n->self);
	n->self = NULL;
	n->n = n->cap = 0;
}

/* Marks in to[] (zeroed) the nodes with a sum below them, counts them. A double is all zero bits too when nothing was added. */
static int mark_touched(struct adder *a, const uint64_t *sums, const uint32_t *parents,
	uint32_t *to, size_t *ret_n, struct errbuf *eb)
{
	size_t n = 1;

	for (size_t i = a->n_tree; i-- > 1;) {
		uint32_t touched = to[i] | (sums[i] != 0);

		if (parents[i] >= i)
			return err_set(eb, -EBADMSG, "part %s: node %zu comes before its parent",
				a->part->info->ulid, i);
		to[i] = touched;
		to[parents[i]] |= touched;
		n += touched;
	}
	*ret_n = n;
	return 0;
}

static int finish_group(struct adder *a, uint32_t group, uint32_t *to, struct errbuf *eb)
{
	const void *sums = a->sums[group];
	const uint32_t *parents, *locations;
	struct merge_nodes nodes = {.group = group, .part = a->part_number};
	size_t n_nodes = a->n_tree, n = 0;
	int r = part_nodes(a->reader, &parents, &locations);

	if (r)
		return scan_reader_failed(a->part, a->reader, r, eb);
	memset(to, 0, n_nodes * sizeof(*to));
	r = mark_touched(a, sums, parents, to, &n, eb);
	if (!r)
		r = nodes_alloc(a->m, n, &nodes, eb);
	if (r || !nodes.self)
		return r;
	to[0] = *nodes.parent = *nodes.location = 0;
	*nodes.self = n_nodes ? self_of(a, sums, 0) : 0;
	n = 1;
	for (size_t i = 1; i < n_nodes; i++) {
		if (!to[i])
			continue;
		to[i] = (uint32_t)n;
		nodes.parent[n] = to[parents[i]];
		nodes.location[n] = locations[i];
		nodes.self[n++] = self_of(a, sums, i);
	}
	pthread_mutex_lock(&a->m->lock);
	r = budget_grow(a->m->scan.env->budget, &a->m->nodes, &a->m->cap_nodes, a->m->n_nodes + 1,
		sizeof(nodes), NULL);
	if (!r)
		a->m->nodes[a->m->n_nodes++] = nodes;
	pthread_mutex_unlock(&a->m->lock);
	if (r)
		merge_nodes_done(a->m, &nodes);
	return r ? merge_no_memory(eb) : 0;
}

static int add_rows(struct adder *a, const struct merge_task *t, struct errbuf *eb)
{
	struct merger *m = a->m;
	struct query_stats stats = {};
	struct rows_job job = {.scan = &m->scan,
		.part = a->part,
		.reader = a->reader,
		.ranges = &m->sources[t->source].plan.ranges,
		.from_row = t->from_row,
		.to_row = t->to_row,
		.stats = &stats};
	int r = rows_walk(&job, add_piece, a, eb);

	pthread_mutex_lock(&m->lock);
	m->scan.env->stats.rows += stats.rows;
	m->scan.env->stats.pages += stats.pages;
	pthread_mutex_unlock(&m->lock);
	return r;
}

int merge_add_task(struct merger *m, size_t task, struct errbuf *eb)
{
	const struct merge_task *t = &m->tasks[task];
	_cleanup_(adder_done)
	struct adder a = {.m = m,
		.part = &m->sources[t->source].part,
		.part_number = m->sources[t->source].part_number,
		.view_hit = TREE_NONE};
	uint32_t *to;
	int r;

	arena_init(&a.arena, m->scan.env->budget);
	r = part_reader_open_at(
		a.part->part, m->sources[t->source].resolution, m->scan.env->budget, &a.reader, eb);
	if (!r) {
		a.n_tree = part_reader_info(a.reader)->n_nodes;
		r = add_rows(&a, t, eb);
	}
	to = r ? NULL : arena_alloc_array(&a.arena, a.n_tree + 1UL, sizeof(*to));
	if (!r)
		r = arena_error(&a.arena, eb);
	for (uint32_t g = 0; !r && g < a.n_sums; g++)
		if (a.sums[g])
			r = finish_group(&a, g, to, eb);
	return r;
}
