/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows are walked once for their nodes; those and their ancestors become a small location tree over the query's symbols, which
 * tree_choose judges.
 */
#include "scraper/query/stacks.h"
#include "scraper/query/import.h"
#include <string.h>

struct stacks {
	struct scan *scan;
	struct scan_part *part;
	struct tree_symbols *symbols;
	struct arena arena;
	uint32_t *number; /* per node of the part: 0 not used, then number among those used + 1 */
	uint32_t *location_at;	     /* per location of the part: index in `ids` + 1 */
	uint32_t *parent, *location; /* per used node; location: of the symbols */
	size_t n;
	const uint32_t *parents, *locations; /* the part's */
	size_t n_nodes;
};

static int mark(const struct rows_piece *p, void *ctx, struct errbuf *eb)
{
	struct stacks *s = ctx;

	(void)eb;
	for (size_t i = 0; i < p->n; i++)
		s->number[p->nodes[i]] = 1;
	return 0;
}

static int bad(const struct stacks *s, const char *what, struct errbuf *eb)
{
	return scan_contradicts(s->part, s->part->reader, what, eb);
}

/* Nodes above those used are used too; then all are numbered in the part's order. */
static int number_nodes(struct stacks *s, struct errbuf *eb)
{
	s->number[0] = 1;
	for (size_t i = s->n_nodes; i-- > 1;) {
		if (s->parents[i] >= i)
			return bad(s, "a node comes before its parent", eb);
		if (s->number[i])
			s->number[s->parents[i]] = 1;
	}
	for (size_t i = 0; i < s->n_nodes; i++)
		if (s->number[i])
			s->number[i] = (uint32_t)++s->n;
	s->parent = arena_zalloc(&s->arena, s->n * sizeof(*s->parent));
	s->location = arena_zalloc(&s->arena, s->n * sizeof(*s->location));
	return arena_error(&s->arena, eb);
}

/* Locations of the used nodes, each once. */
static int find_locations(struct stacks *s, uint32_t **ret_ids, size_t *ret_n, struct errbuf *eb)
{
	size_t n_locations = s->part->info->n_locations, n = 0;
	uint32_t *ids = arena_alloc_array(&s->arena, MIN(s->n, n_locations) + 1, sizeof(*ids));
	int r;

	s->location_at = arena_zalloc(&s->arena, (n_locations + 1) * sizeof(*s->location_at));
	r = arena_error(&s->arena, eb);
	for (size_t i = 1; !r && i < s->n_nodes; i++) {
		uint32_t location = s->locations[i];

		if (!s->number[i])
			continue;
		if (location >= n_locations)
			return bad(s, "a node refers to no location", eb);
		if (s->location_at[location])
			continue;
		ids[n++] = location;
		s->location_at[location] = (uint32_t)n;
	}
	*ret_ids = ids;
	*ret_n = n;
	return r;
}

/* The used nodes as a tree over the query's symbols. */
static int import_nodes(struct stacks *s, struct errbuf *eb)
{
	struct import *im = NULL;
	uint32_t *ids = NULL;
	size_t n = 0;
	int r = find_locations(s, &ids, &n, eb);

	if (!r && n)
		r = import_open(s->part, ids, n, s->symbols, &s->arena, &im, eb);
	if (r)
		return r;
	for (size_t i = 0; i < n; i++)
		ids[i] = import_location(im, i);
	for (size_t i = 1; i < s->n_nodes; i++) {
		uint32_t to = s->number[i] - 1;

		if (!s->number[i])
			continue;
		s->parent[to] = s->number[s->parents[i]] - 1;
		s->location[to] = ids[s->location_at[s->locations[i]] - 1];
	}
	return tree_symbols_error(s->symbols, eb);
}

static int choose(struct stacks *s, const struct tree_choice *choice, struct arena *arena,
	const uint64_t **ret, struct errbuf *eb)
{
	uint64_t *classes = arena_alloc_array(&s->arena, s->n, sizeof(*classes));
	uint64_t *all = arena_zalloc(arena, (s->n_nodes + 1) * sizeof(*all));
	int r = arena_error(arena, eb);

	if (!r)
		r = arena_error(&s->arena, eb);
	if (!r)
		r = tree_choose(s->parent, s->location, s->n, choice, s->symbols,
			s->scan->env->budget, classes, eb);
	for (size_t i = 0; !r && i < s->n_nodes; i++)
		if (s->number[i])
			all[i] = classes[s->number[i] - 1];
	*ret = all;
	return r;
}

static int run(struct stacks *s, const struct rows_ranges *ranges, const struct tree_choice *choice,
	struct arena *arena, const uint64_t **ret, struct errbuf *eb)
{
	struct query_stats unused = {};
	const struct rows_job job = {.scan = s->scan,
		.part = s->part,
		.reader = s->part->reader,
		.ranges = ranges,
		.to_row = UINT64_MAX,
		.nodes_only = true,
		.stats = &unused};
	int r = part_nodes(s->part->reader, &s->parents, &s->locations);

	if (r)
		return scan_failed(s->part, r, eb);
	s->n_nodes = s->part->info->n_nodes;
	s->number = arena_zalloc(&s->arena, (s->n_nodes + 1) * sizeof(*s->number));
	r = arena_error(&s->arena, eb);
	if (!r)
		r = rows_walk(&job, mark, s, eb);
	if (!r)
		r = number_nodes(s, eb);
	if (!r)
		r = import_nodes(s, eb);
	return r ? r : choose(s, choice, arena, ret, eb);
}

int stacks_of_part(struct scan *scan, struct scan_part *p, const struct rows_ranges *ranges,
	const struct tree_choice *choice, struct tree_symbols *symbols, struct arena *arena,
	const uint64_t **ret, struct errbuf *eb)
{
	struct stacks s = {.scan = scan, .part = p, .symbols = symbols};
	int r;

	ASSERT(symbols && choice);
	*ret = NULL;
	if (!ranges->n)
		return 0;
	arena_init(&s.arena, scan->env->budget);
	r = run(&s, ranges, choice, arena, ret, eb);
	arena_done(&s.arena);
	return r;
}
