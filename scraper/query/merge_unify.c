/* SPDX-License-Identifier: Apache-2.0
 *
 * From nodes of parts to trees over one set of symbols. Locations become their ranks (merge_names.h), by which a block's nodes are an
 * ordered tree as they stand; nodes of a head, and what does not keep that order, are sorted. Large groups are merged in pieces. Ranks
 * become symbols at the end.
 */
#include "lib/base/alloc.h"
#include "scraper/query/merge_names.h"
#include "scraper/query/workers.h"
#include <stdlib.h>
#include <string.h>

/* Fewer nodes are not worth a piece, nor more pieces the looking for where they begin. */
enum { PIECE_NODES = 8192, MAX_PIECES = 4 };

/* Entries of m->nodes of one group, next to each other. */
struct merged_group {
	size_t first, n, n_pieces;
	struct tree_nodes *in;
	uint32_t *places; /* tree_merge_cut */
	struct tree pieces[MAX_PIECES];
	_Atomic size_t n_left; /* pieces not merged yet: who merges the last one joins them */
	struct query_group *ret;
};

struct merged_piece {
	uint32_t group, piece;
};

struct unifier {
	struct merger *m;
	struct arena arena;
	struct merged_group *groups;
	struct merged_piece *pieces;
	size_t n_groups, n_pieces;
};

static void unifier_done(struct unifier *u)
{
	for (size_t i = 0; i < u->n_groups; i++)
		for (size_t k = 0; k < u->groups[i].n_pieces; k++)
			tree_done(&u->groups[i].pieces[k]);
	arena_done(&u->arena);
}

/*
 * Locations to ranks, and the depth of each node. False: this is not the preorder of a tree whose siblings are in order of their
 * ranks.
 */
static bool rename_nodes(struct merge_nodes *n, const uint32_t *map)
{
	uint32_t path[STORE_MAX_DEPTH + 2], last[STORE_MAX_DEPTH + 2], before = 0;
	bool ordered = true;

	n->depth[0] = path[0] = 0;
	for (uint32_t i = 1; i < n->n; i++) {
		uint32_t above = n->depth[n->parent[i]], depth = above + 1;

		n->location[i] = map[n->location[i]];
		n->depth[i] = MIN(depth, (uint32_t)STORE_MAX_DEPTH + 1);
		ordered &= depth <= before + 1 && depth <= STORE_MAX_DEPTH + 1 &&
			   path[above] == n->parent[i] &&
			   (depth > before || last[depth] < n->location[i]);
		before = n->depth[i];
		path[before] = i;
		last[before] = n->location[i];
	}
	return ordered;
}

/* Nodes in an order of their own, as those of a head are. */
static int sort_nodes(struct merger *m, struct merge_nodes *n, struct errbuf *eb)
{
	_cleanup_tree_ struct tree t = {};
	int r;

	tree_init(&t, m->scan.env->budget);
	r = tree_from_nodes(n->parent, n->location, n->self, n->n, &t, eb);
	if (r)
		return r;
	ASSERT(t.n <= n->cap);
	n->n = t.n;
	memcpy(n->location, t.frame, t.n * sizeof(*t.frame));
	memcpy(n->self, t.self, t.n * sizeof(*t.self));
	tree_depths(&t, n->depth);
	return 0;
}

/* Names are read while others put nodes in order. */
static int name_or_order(struct merger *m, size_t i, struct errbuf *eb)
{
	struct merge_nodes *n;

	if (!i)
		return merge_names_import(m, eb);
	n = &m->nodes[i - 1];
	return rename_nodes(n, merge_names_ranks(m, n->part)) ? 0 : sort_nodes(m, n, eb);
}

/* Fewer nodes are in order before another thread has woken up and has them in its cache. */
enum { NODES_WORTH_A_THREAD = 32768 };

static int name_and_order(struct merger *m, size_t n_nodes, struct errbuf *eb)
{
	int r = 0;

	if (n_nodes >= NODES_WORTH_A_THREAD)
		return merge_run(m, m->n_nodes + 1, name_or_order, eb);
	for (size_t i = 0; !r && i <= m->n_nodes; i++)
		r = name_or_order(m, i, eb);
	return r;
}

static int by_group(const void *a, const void *b)
{
	const struct merge_nodes *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->part > y->part) - (x->part < y->part);
}

/* ---- groups ---- */

/* How many entries from `first` on are of one group. */
static size_t group_length(const struct merger *m, size_t first)
{
	size_t n = 1;

	while (first + n < m->n_nodes && m->nodes[first + n].group == m->nodes[first].group)
		n++;
	return n;
}

/* As many pieces as threads would do, were all groups like this one. */
static size_t count_pieces(const struct unifier *u, const struct merged_group *g, size_t all_nodes)
{
	size_t threads = query_workers_n(u->m->scan.env->workers) + 1UL, nodes = 0;

	for (size_t i = 0; i < g->n; i++)
		nodes += g->in[i].n;
	if (g->n < 2)
		return 1;
	threads = (threads * nodes + all_nodes - 1) / all_nodes;
	return MAX(MIN(MIN(nodes / PIECE_NODES, threads), (size_t)MAX_PIECES), (size_t)1);
}

static int prepare_group(
	struct unifier *u, struct merged_group *g, size_t all_nodes, struct errbuf *eb)
{
	int r;

	g->in = arena_alloc_array(&u->arena, g->n, sizeof(*g->in));
	for (size_t k = 0; g->in && k < g->n; k++) {
		const struct merge_nodes *n = &u->m->nodes[g->first + k];

		g->in[k] = (struct tree_nodes) {n->n, n->depth, n->location, n->self, NULL};
	}
	r = arena_error(&u->arena, eb);
	if (r)
		return r;
	g->n_pieces = count_pieces(u, g, all_nodes);
	g->n_left = g->n_pieces;
	for (size_t i = 0; i < g->n_pieces; i++)
		tree_init(&g->pieces[i], u->m->scan.env->budget);
	g->places = arena_alloc_array(&u->arena, (g->n_pieces + 1) * g->n, sizeof(*g->places));
	r = arena_error(&u->arena, eb);
	return r ? r : tree_merge_cut(g->in, g->n, g->n_pieces, g->places, eb);
}

static int prepare_groups(struct unifier *u, struct errbuf *eb)
{
	struct merger *m = u->m;
	size_t all_nodes = 0, n_groups = 0;
	int r;

	for (size_t i = 0; i < m->n_nodes; i += group_length(m, i))
		n_groups++;
	for (size_t i = 0; i < m->n_nodes; i++)
		all_nodes += m->nodes[i].n;
	u->groups = arena_alloc_array(&u->arena, n_groups + 1, sizeof(*u->groups));
	u->pieces = arena_alloc_array(&u->arena,
		n_groups + query_workers_n(m->scan.env->workers) + 1, sizeof(*u->pieces));
	r = arena_error(&u->arena, eb);
	for (size_t i = 0; !r && i < m->n_nodes;) {
		struct merged_group *g = &u->groups[u->n_groups];

		*g = (struct merged_group) {
			.first = i, .n = group_length(m, i), .ret = &m->out->groups[u->n_groups]};
		tree_init(&g->ret->tree, m->scan.env->budget);
		u->n_groups++;
		r = prepare_group(u, g, all_nodes, eb);
		for (size_t k = 0; !r && k < g->n_pieces; k++)
			u->pieces[u->n_pieces++] =
				(struct merged_piece) {(uint32_t)u->n_groups - 1, (uint32_t)k};
		i += g->n;
	}
	m->out->n_groups = u->n_groups;
	return r;
}

/* Ranks to symbols. These are in another order where some were there before, or two locations look the same. */
static int name_tree(struct merger *m, struct tree *t, struct errbuf *eb)
{
	_cleanup_tree_ struct tree unsorted = {};
	const uint32_t *ids = m->names->ids;

	for (size_t i = 1; i < t->n; i++)
		t->frame[i] = ids[t->frame[i]];
	if (m->names->ascending)
		return 0;
	unsorted = *t;
	tree_init(t, m->scan.env->budget);
	return tree_from_nodes(unsorted.parent, unsorted.frame, unsorted.self, unsorted.n, t, eb);
}

static int join_group(struct merger *m, struct merged_group *g, struct errbuf *eb)
{
	struct tree *ret = &g->ret->tree;
	int r = tree_merge_join(g->in, g->n, g->pieces, g->n_pieces, ret, eb);

	for (size_t i = 0; i < g->n; i++)
		merge_nodes_done(m, &m->nodes[g->first + i]);
	if (!r)
		r = name_tree(m, ret, eb);
	return !r && m->is_mean ? tree_divide(ret, MERGE_MEAN_SCALE, eb) : r;
}

static int merge_piece(struct merger *m, size_t i, struct errbuf *eb)
{
	const struct merged_piece *p = &m->unifier->pieces[i];
	struct merged_group *g = &m->unifier->groups[p->group];
	const uint32_t *from = g->places + p->piece * g->n;
	int r = tree_merge_piece(g->in, g->n, from, from + g->n, &g->pieces[p->piece], eb);

	if (r)
		return r;
	return atomic_fetch_sub(&g->n_left, 1) == 1 ? join_group(m, g, eb) : 0;
}

static int label_groups(struct unifier *u)
{
	struct merger *m = u->m;
	int r = 0;

	for (size_t i = 0; !r && i < u->n_groups; i++) {
		const uint32_t group = m->nodes[u->groups[i].first].group;
		struct query_group *ret = u->groups[i].ret;

		if (group < m->group_covers.n)
			ret->covered = m->group_covers.items[group];
		r = group_set_labels(&m->groups, group, &ret->labels);
	}
	return r;
}

static int run(struct unifier *u, struct errbuf *eb)
{
	struct merger *m = u->m;
	size_t n_nodes = 0;
	int r;

	m->out->groups = xcalloc(m->n_nodes + 1, sizeof(*m->out->groups));
	if (m->n_nodes)
		qsort(m->nodes, m->n_nodes, sizeof(*m->nodes), by_group);
	for (size_t i = 0; i < m->n_nodes; i++)
		n_nodes += m->nodes[i].n;
	m->scan.env->stats.nodes += n_nodes;
	r = merge_names_find(m, eb);
	if (!r)
		r = name_and_order(m, n_nodes, eb);
	for (size_t p = 0; p < m->scan.n_parts; p++)
		scan_close_part(&m->scan.parts[p]);
	if (!r)
		r = prepare_groups(u, eb);
	if (!r)
		r = merge_run(m, u->n_pieces, merge_piece, eb);
	return r ? r : label_groups(u);
}

int merge_unify(struct merger *m, struct errbuf *eb)
{
	_cleanup_(unifier_done)
	struct unifier u = {.m = m};
	struct merge_names names = {};
	int r;

	arena_init(&u.arena, m->scan.env->budget);
	m->unifier = &u;
	m->names = &names;
	r = run(&u, eb);
	merge_names_done(m, &names);
	m->names = NULL;
	return r;
}
