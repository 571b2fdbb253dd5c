/* SPDX-License-Identifier: Apache-2.0
 *
 * From nodes of parts to trees over one set of symbols. A location's key is the same in every part, so its names are read from one
 * part only. Ids are given in order of the keys, which is the order of a block's locations: its nodes then are an ordered tree as they
 * stand. Nodes of a head, and what does not keep that order, are sorted.
 */
#include "lib/base/alloc.h"
#include "scraper/query/import.h"
#include "scraper/query/merge.h"
#include "scraper/query/workers.h"
#include <stdlib.h>
#include <string.h>

enum { WANTED = TREE_NONE - 1 }; /* in a map: used, not looked up yet */

/* A location that some part's nodes use. */
struct known {
	uint64_t key;
	uint32_t part, location; /* where its names are read */
	uint32_t at;		 /* among those of this part */
	uint32_t id;		 /* in the symbols */
};

struct unifier {
	struct merger *m;
	struct arena arena;
	struct table by_key; /* → index in known */
	struct known *known;
	size_t n_known, cap_known;
	uint32_t **maps; /* per part: location → index in known, later → id; NULL: no nodes */
	struct stretch *stretches;
	size_t n_stretches;
};

/* Entries of m->nodes of one group, next to each other, that one thread merges to a tree. */
struct stretch {
	size_t first, n;
	struct tree tree;
};

static void unifier_done(struct unifier *u)
{
	for (size_t i = 0; i < u->n_stretches; i++)
		tree_done(&u->stretches[i].tree);
	budget_free(u->m->scan.env->budget, u->known, u->cap_known, sizeof(*u->known));
	table_done(&u->by_key);
	arena_done(&u->arena);
}

static int add_known(
	struct unifier *u, uint64_t key, uint32_t part, uint32_t location, uint32_t *ret)
{
	bool is_new;
	uint64_t *slot = table_insert(&u->by_key, key, &is_new);
	int r = slot ? 0 : -ENOMEM;

	if (!r && is_new)
		r = budget_grow(u->m->scan.env->budget, &u->known, &u->cap_known, u->n_known + 1,
			sizeof(*u->known), NULL);
	if (r)
		return r;
	if (is_new) {
		*slot = u->n_known;
		u->known[u->n_known++] =
			(struct known) {.key = key, .part = part, .location = location};
	}
	*ret = (uint32_t)*slot;
	return 0;
}

static int know_nodes(struct unifier *u, const struct merge_nodes *n, struct errbuf *eb)
{
	struct scan_part *p = &u->m->scan.parts[n->part];
	uint32_t n_locations = p->info->n_locations, **map = &u->maps[n->part];
	const uint64_t *keys;
	int r = part_location_keys(p->reader, &keys);

	if (r)
		return scan_failed(p, r, eb);
	if (!*map) {
		*map = arena_alloc_array(&u->arena, n_locations + 1UL, sizeof(**map));
		r = arena_error(&u->arena, eb);
		if (r)
			return r;
		memset(*map, 0xff, (n_locations + 1UL) * sizeof(**map));
	}
	for (size_t i = 1; i < n->n; i++) {
		uint32_t l = n->location[i];

		if (l >= n_locations)
			return err_set(eb, -EBADMSG, "part %s: a node refers to no location",
				p->info->ulid);
		if ((*map)[l] == TREE_NONE)
			(*map)[l] = WANTED;
	}
	for (uint32_t l = 0; !r && l < n_locations; l++)
		if ((*map)[l] == WANTED)
			r = add_known(u, keys[l], n->part, l, &(*map)[l]);
	return r ? merge_no_memory(eb) : 0;
}

struct place {
	uint64_t key;
	size_t at;
};

static int by_key(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

/* Indices of `known` in order of the keys. What came from one block is in order already. */
static struct place *sort_known(struct unifier *u)
{
	struct place *order = arena_alloc_array(&u->arena, u->n_known + 1, sizeof(*order));
	bool sorted = true;

	for (size_t i = 0; order && i < u->n_known; i++) {
		order[i] = (struct place) {u->known[i].key, i};
		sorted &= !i || order[i - 1].key < order[i].key;
	}
	if (order && !sorted)
		qsort(order, u->n_known, sizeof(*order), by_key);
	return order;
}

/* Reads the names of the locations that are read from this part. */
static int open_import(struct unifier *u, uint32_t part, struct import **ret, struct errbuf *eb)
{
	uint32_t *ids, n = 0;
	int r;

	ids = arena_alloc_array(&u->arena, u->n_known + 1, sizeof(*ids));
	r = arena_error(&u->arena, eb);
	if (r)
		return r;
	for (size_t i = 0; i < u->n_known; i++)
		if (u->known[i].part == part) {
			u->known[i].at = n;
			ids[n++] = u->known[i].location;
		}
	return n ? import_open(&u->m->scan.parts[part], ids, n, u->m->symbols, &u->arena, ret, eb)
		 : 0;
}

/* Gives every known location its id, in order of the keys. */
static int import_known(struct unifier *u, struct errbuf *eb)
{
	size_t n_parts = u->m->scan.n_parts;
	struct place *order = sort_known(u);
	struct import **imports = arena_zalloc(&u->arena, (n_parts + 1) * sizeof(*imports));
	int r = arena_error(&u->arena, eb);

	for (uint32_t p = 0; !r && p < n_parts; p++)
		if (u->maps[p])
			r = open_import(u, p, &imports[p], eb);
	if (r)
		return r;
	for (size_t i = 0; i < u->n_known; i++) {
		struct known *k = &u->known[order[i].at];

		k->id = import_location(imports[k->part], k->at);
	}
	for (uint32_t p = 0; p < n_parts; p++)
		for (uint32_t l = 0; u->maps[p] && l < u->m->scan.parts[p].info->n_locations; l++)
			if (u->maps[p][l] != TREE_NONE)
				u->maps[p][l] = u->known[u->maps[p][l]].id;
	return tree_symbols_error(u->m->symbols, eb);
}

/*
 * Locations to symbols, and the depth of each node. False: this is not the preorder of a tree whose siblings are in order of their
 * symbols.
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

static int order_nodes(struct merger *m, size_t i, struct errbuf *eb)
{
	struct merge_nodes *n = &m->nodes[i];

	return rename_nodes(n, m->unifier->maps[n->part]) ? 0 : sort_nodes(m, n, eb);
}

static int by_group(const void *a, const void *b)
{
	const struct merge_nodes *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->part > y->part) - (x->part < y->part);
}

static int merge_stretch(struct merger *m, size_t i, struct errbuf *eb)
{
	struct stretch *s = &m->unifier->stretches[i];
	_cleanup_free_ struct tree_nodes *in = try_realloc(NULL, s->n, sizeof(*in));
	int r;

	if (!in)
		return merge_no_memory(eb);
	for (size_t k = 0; k < s->n; k++) {
		const struct merge_nodes *n = &m->nodes[s->first + k];

		in[k] = (struct tree_nodes) {n->n, n->depth, n->location, n->self, NULL};
	}
	r = tree_merge_nodes(in, s->n, &s->tree, eb);
	for (size_t k = 0; k < s->n; k++)
		merge_nodes_done(m, &m->nodes[s->first + k]);
	return r;
}

/* How many entries from `first` on are of one group. */
static size_t group_length(const struct merger *m, size_t first)
{
	size_t n = 1;

	while (first + n < m->n_nodes && m->nodes[first + n].group == m->nodes[first].group)
		n++;
	return n;
}

/* A group of many trees is cut for the threads that there are; what they leave is merged at the end. */
static int merge_stretches(struct unifier *u, struct errbuf *eb)
{
	struct merger *m = u->m;
	size_t threads = query_workers_n(m->scan.env->workers) + 1UL;
	int r;

	u->stretches = arena_alloc_array(&u->arena, m->n_nodes + 1, sizeof(*u->stretches));
	r = arena_error(&u->arena, eb);
	if (r)
		return r;
	for (size_t i = 0, n; i < m->n_nodes; i += n) {
		size_t cuts;

		n = group_length(m, i);
		cuts = MAX(MIN(threads, n / 2), (size_t)1);
		for (size_t k = 0; k < cuts; k++) {
			struct stretch *s = &u->stretches[u->n_stretches++];

			*s = (struct stretch) {
				.first = i + n * k / cuts, .n = n * (k + 1) / cuts - n * k / cuts};
			tree_init(&s->tree, m->scan.env->budget);
		}
	}
	return merge_run(m, u->n_stretches, merge_stretch, eb);
}

/* Stretches first … first + n - 1 are of one group. */
static int merge_group(struct unifier *u, size_t first, size_t n, struct errbuf *eb)
{
	struct merger *m = u->m;
	struct query_group *ret = &m->out->groups[m->out->n_groups++];
	uint32_t group = m->nodes[u->stretches[first].first].group;
	_cleanup_free_ const struct tree **trees = try_realloc(NULL, n, sizeof(struct tree *));
	int r = trees ? 0 : merge_no_memory(eb);

	tree_init(&ret->tree, m->scan.env->budget);
	if (group < m->cap_group_covered)
		ret->covered = m->group_covered[group];
	if (n == 1) {
		ret->tree = u->stretches[first].tree;
		tree_init(&u->stretches[first].tree, NULL);
	} else if (!r) {
		for (size_t i = 0; i < n; i++)
			trees[i] = &u->stretches[first + i].tree;
		r = tree_merge(trees, n, &ret->tree, eb);
		for (size_t i = 0; i < n; i++)
			tree_done(&u->stretches[first + i].tree);
	}
	if (!r && m->is_mean)
		r = tree_divide(&ret->tree, MERGE_MEAN_SCALE, eb);
	return r ? r : group_set_labels(&m->groups, group, &ret->labels);
}

static int merge_groups(struct unifier *u, struct errbuf *eb)
{
	const struct merge_nodes *nodes = u->m->nodes;
	int r = 0;

	for (size_t i = 0, n; !r && i < u->n_stretches; i += n) {
		for (n = 1; i + n < u->n_stretches && nodes[u->stretches[i + n].first].group ==
							      nodes[u->stretches[i].first].group;)
			n++;
		r = merge_group(u, i, n, eb);
	}
	return r;
}

static int run(struct unifier *u, struct errbuf *eb)
{
	struct merger *m = u->m;
	int r;

	u->maps = arena_zalloc(&u->arena, (m->scan.n_parts + 1) * sizeof(*u->maps));
	m->out->groups = xcalloc(m->n_nodes + 1, sizeof(*m->out->groups));
	r = arena_error(&u->arena, eb);
	if (m->n_nodes)
		qsort(m->nodes, m->n_nodes, sizeof(*m->nodes), by_group);
	for (size_t i = 0; !r && i < m->n_nodes; i++)
		r = know_nodes(u, &m->nodes[i], eb);
	if (!r)
		r = import_known(u, eb);
	for (size_t p = 0; p < m->scan.n_parts; p++)
		scan_close_part(&m->scan.parts[p]);
	for (size_t i = 0; i < m->n_nodes; i++)
		m->scan.env->stats.nodes += m->nodes[i].n;
	if (!r)
		r = merge_run(m, m->n_nodes, order_nodes, eb);
	if (!r)
		r = merge_stretches(u, eb);
	return r ? r : merge_groups(u, eb);
}

int merge_unify(struct merger *m, struct errbuf *eb)
{
	_cleanup_(unifier_done)
	struct unifier u = {.m = m};

	arena_init(&u.arena, m->scan.env->budget);
	table_init(&u.by_key, m->scan.env->budget);
	m->unifier = &u;
	return run(&u, eb);
}
