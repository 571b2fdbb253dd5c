/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows into sums by node, for each group, and from them the nodes that have a value below. The loop in add_to_all is what the rest of
 * the merge is there for.
 */
#include "lib/base/alloc.h"
#include "lib/base/bitmap.h"
#include "lib/prof/profile.h"
#include "scraper/query/merge.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

union sum {
	int64_t whole; /* by prof_add */
	double mean;
};

struct entry {
	union sum value;
	uint32_t node;
};

/*
 * Of one group: an array over all nodes, but as long as rows are few beside the nodes, those rows. Hundreds of groups, commands say,
 * would each have an array of mostly nothing otherwise.
 */
struct sums {
	union sum *all; /* per node; NULL: the list is all there is */
	struct entry *list;
	size_t n, cap;
};

enum { NODES_PER_ENTRY = 8 };

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
	struct sums *groups;
	size_t n_groups, cap_groups;
	/* For the end. Of the nodes; all zero from one group to the next, but for `to`. */
	union sum *of_list;  /* NULL until a list needs it */
	struct bitmap marks; /* a node with a value, or above one */
	uint32_t *to;	     /* of marked nodes: number among them */
};

static void list_done(struct adder *a, struct sums *s)
{
	budget_free(a->m->scan.env->budget, s->list, s->cap, sizeof(*s->list));
	s->list = NULL;
	s->n = s->cap = 0;
}

static void adder_done(struct adder *a)
{
	for (size_t g = 0; g < a->n_groups; g++)
		list_done(a, &a->groups[g]);
	bitmap_done(&a->marks);
	group_view_done(&a->view);
	free(a->groups);
	part_reader_closep(&a->reader);
	arena_done(&a->arena);
}

static int sums_of(struct adder *a, uint32_t group, struct sums **ret)
{
	size_t old = a->cap_groups;
	int r = alloc_grow(&a->groups, &a->cap_groups, group + 1UL, sizeof(*a->groups));

	ASSERT(group != TREE_NONE);
	if (r)
		return r;
	if (a->cap_groups > old)
		memset(a->groups + old, 0, (a->cap_groups - old) * sizeof(*a->groups));
	a->n_groups = MAX(a->n_groups, group + 1UL);
	*ret = &a->groups[group];
	return 0;
}

static void add_list(const struct adder *a, const struct sums *s, union sum *to)
{
	for (size_t i = 0; i < s->n; i++)
		if (a->m->is_mean)
			to[s->list[i].node].mean += s->list[i].value.mean;
		else
			to[s->list[i].node].whole =
				prof_add(to[s->list[i].node].whole, s->list[i].value.whole);
}

/* From the list to an array. */
static int spread_list(struct adder *a, struct sums *s)
{
	s->all = arena_zalloc(&a->arena, (a->n_tree + 1UL) * sizeof(*s->all));
	if (!s->all)
		return -ENOMEM;
	add_list(a, s, s->all);
	list_done(a, s);
	return 0;
}

static double weight_of(const struct adder *a, const struct rows_piece *p)
{
	return 1.0 /
	       (double)atomic_load_explicit(&a->m->scrapes[p->hit->series], memory_order_relaxed);
}

static void add_to_all(const struct adder *a, const struct rows_piece *p, union sum *to)
{
	const uint32_t *nodes = p->nodes;
	const int64_t *values = p->values;

	if (a->m->is_mean) {
		double weight = weight_of(a, p);

		for (size_t i = 0; i < p->n; i++)
			to[nodes[i]].mean += (double)values[i] * weight;
	} else {
		for (size_t i = 0; i < p->n; i++)
			to[nodes[i]].whole = prof_add(to[nodes[i]].whole, values[i]);
	}
}

static int add_to_list(struct adder *a, const struct rows_piece *p, struct sums *s)
{
	double weight = a->m->is_mean ? weight_of(a, p) : 0;
	int r = alloc_grow_in(
		a->m->scan.env->budget, &s->list, &s->cap, s->n + p->n, sizeof(*s->list), NULL);

	for (size_t i = 0; !r && i < p->n; i++) {
		struct entry *e = &s->list[s->n++];

		e->node = p->nodes[i];
		if (a->m->is_mean)
			e->value.mean = (double)p->values[i] * weight;
		else
			e->value.whole = p->values[i];
	}
	return r;
}

/* One group, no row matchers. */
static int add_plain(struct adder *a, const struct rows_piece *p, uint32_t group)
{
	struct sums *s;
	int r = sums_of(a, group, &s);

	if (!r && !s->all && s->n + p->n > a->n_tree / NODES_PER_ENTRY)
		r = spread_list(a, s);
	if (r || !s->all)
		return r ? r : add_to_list(a, p, s);
	add_to_all(a, p, s->all);
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

static int64_t self_of(const struct adder *a, union sum sum)
{
	double mean;

	if (!a->m->is_mean)
		return sum.whole;
	mean = sum.mean * MERGE_MEAN_SCALE;
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

/* Nodes of the list, and up from each until one is marked. How many; -EBADMSG. */
static int64_t mark_list(struct adder *a, const struct sums *s, const uint32_t *parents)
{
	int64_t n = 0;

	for (size_t k = 0; k < s->n; k++) {
		uint32_t i = s->list[k].node;

		if (!a->of_list[i].whole)
			continue;
		while (i && !bitmap_has(&a->marks, i)) {
			if (parents[i] >= i)
				return -EBADMSG;
			bitmap_set(&a->marks, i);
			n++;
			i = parents[i];
		}
	}
	return n;
}

/* Of all nodes, children before their parents. */
static int64_t mark_all(struct adder *a, const union sum *sums, const uint32_t *parents)
{
	int64_t n = 0;

	for (size_t i = a->n_tree; i-- > 1;) {
		if (!sums[i].whole && !bitmap_has(&a->marks, (uint32_t)i))
			continue;
		if (parents[i] >= i)
			return -EBADMSG;
		bitmap_set(&a->marks, (uint32_t)i);
		bitmap_set(&a->marks, parents[i]);
		n++;
	}
	a->marks.words[0] &= ~1ULL; /* the root has its place anyway */
	return n;
}

/* Marks the nodes with a value at or below them, counts them with the root. A double is all zero bits too when nothing was added. */
static int mark_touched(struct adder *a, const struct sums *s, const uint32_t *parents,
	size_t *ret_n, struct errbuf *eb)
{
	int64_t n = s->all ? mark_all(a, s->all, parents) : mark_list(a, s, parents);

	if (n < 0)
		return scan_contradicts(a->part, a->reader, "a node comes before its parent", eb);
	*ret_n = (size_t)n + 1;
	return 0;
}

/* The marked nodes, in order; clears the marks. */
static void take_marked(struct adder *a, const union sum *sums, const uint32_t *parents,
	const uint32_t *locations, struct merge_nodes *ret)
{
	size_t n = 1;

	a->to[0] = *ret->parent = *ret->location = 0;
	*ret->self = a->n_tree ? self_of(a, sums[0]) : 0;
	for (size_t w = 0; w <= a->n_tree / 64; w++) {
		for (uint64_t bits = a->marks.words[w]; bits; bits &= bits - 1) {
			size_t i = w * 64 + (size_t)__builtin_ctzll(bits);

			a->to[i] = (uint32_t)n;
			ret->parent[n] = a->to[parents[i]];
			ret->location[n] = locations[i];
			ret->self[n++] = self_of(a, sums[i]);
		}
		a->marks.words[w] = 0;
	}
}

static int keep_nodes(struct merger *m, struct merge_nodes *nodes, struct errbuf *eb)
{
	int r;

	lock_take(&m->lock);
	r = alloc_grow_in(m->scan.env->budget, &m->nodes, &m->cap_nodes, m->n_nodes + 1,
		sizeof(*nodes), NULL);
	if (!r)
		m->nodes[m->n_nodes++] = *nodes;
	lock_release(&m->lock);
	if (r)
		merge_nodes_done(m, nodes);
	return r ? merge_no_memory(eb) : 0;
}

static int finish_group(struct adder *a, uint32_t group, struct errbuf *eb)
{
	struct sums *s = &a->groups[group];
	union sum *sums = s->all;
	struct merge_nodes nodes = {.group = group, .part = a->part_number};
	const uint32_t *parents, *locations;
	size_t n = 0;
	int r = part_nodes(a->reader, &parents, &locations);

	if (r)
		return scan_reader_failed(a->part, a->reader, r, eb);
	if (!sums && !a->of_list)
		a->of_list = arena_zalloc(&a->arena, (a->n_tree + 1UL) * sizeof(*a->of_list));
	sums = sums ? sums : a->of_list;
	if (!sums)
		return arena_error(&a->arena, eb);
	add_list(a, s, sums);
	r = mark_touched(a, s, parents, &n, eb);
	if (!r)
		r = nodes_alloc(a->m, n, &nodes, eb);
	if (r || !nodes.self)
		return r;
	take_marked(a, sums, parents, locations, &nodes);
	for (size_t i = 0; i < s->n; i++)
		sums[s->list[i].node].whole = 0;
	list_done(a, s);
	return keep_nodes(a->m, &nodes, eb);
}

static int finish_groups(struct adder *a, struct errbuf *eb)
{
	int r;

	a->to = arena_alloc_array(&a->arena, a->n_tree + 1UL, sizeof(*a->to));
	r = arena_error(&a->arena, eb);
	if (!r)
		r = bitmap_init(&a->marks, a->n_tree + 1UL, a->m->scan.env->budget, eb);
	for (uint32_t g = 0; !r && g < a->n_groups; g++)
		if (a->groups[g].all || a->groups[g].n)
			r = finish_group(a, g, eb);
	return r;
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

	lock_take(&m->lock);
	m->scan.env->stats.rows += stats.rows;
	m->scan.env->stats.pages += stats.pages;
	lock_release(&m->lock);
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
	int r;

	ASSERT(task < m->n_tasks);
	arena_init(&a.arena, m->scan.env->budget);
	r = part_reader_open_at(
		a.part->part, m->sources[t->source].resolution, m->scan.env->budget, &a.reader, eb);
	if (r)
		return r;
	a.n_tree = part_reader_info(a.reader)->n_nodes;
	r = add_rows(&a, t, eb);
	return r ? r : finish_groups(&a, eb);
}
