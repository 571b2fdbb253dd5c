/* SPDX-License-Identifier: Apache-2.0
 *
 * Flame graphs level by level. A frame's number here is the rank of its name among all names of both sides, so that trees over
 * ranks have their siblings by name and fall together by name.
 */
#include "lib/render/flamebearer.h"
#include "lib/base/table.h"
#include <stdlib.h>
#include <stdlib.h>
#include <string.h>

enum { SIDES = 2 };

struct name {
	const char *text;
	size_t n;
	unsigned side;
	uint32_t frame;
};

struct maker {
	const struct flamebearer_side *sides[SIDES];
	unsigned n_sides;
	struct arena *arena;
	struct budget *budget;
	uint32_t *ranks[SIDES]; /* per frame of a side: rank of its name */
	const char **texts;	/* per rank */
	size_t n_ranks;
	struct tree named[SIDES];
	struct tree all, limited, shown;
	struct flamebearer *out;
	struct errbuf *eb;
};

static void maker_done(struct maker *m)
{
	for (unsigned i = 0; i < SIDES; i++)
		tree_done(&m->named[i]);
	tree_done(&m->all);
	tree_done(&m->limited);
	tree_done(&m->shown);
}

static int compare_names(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int r = memcmp(x->text, y->text, MIN(x->n, y->n));

	return r ? r : x->n < y->n ? -1 : x->n > y->n;
}

/* The frames that a side's tree uses, each once. */
static size_t used_frames(struct maker *m, unsigned side, struct name *ret)
{
	const struct tree *t = m->sides[side]->tree;
	const struct tree_symbols *s = m->sides[side]->symbols;
	uint32_t *rank = m->ranks[side];
	size_t n = 0;

	for (size_t i = 1; i < t->n; i++) {
		struct name *name = &ret[n];

		if (rank[t->frame[i]])
			continue;
		rank[t->frame[i]] = 1;
		*name = (struct name) {.side = side, .frame = t->frame[i]};
		name->text = tree_symbols_text(s, s->frames[t->frame[i]].name, &name->n);
		n++;
	}
	return n;
}

static int rank_names(struct maker *m)
{
	size_t room = 1, n = 0;
	struct name *names;
	uint32_t rank = 0;

	for (unsigned i = 0; i < m->n_sides; i++) {
		m->ranks[i] = arena_zalloc(
			m->arena, (m->sides[i]->symbols->n_frames + 1) * sizeof(uint32_t));
		room += MIN(m->sides[i]->tree->n, m->sides[i]->symbols->n_frames);
	}
	names = arena_alloc_array(m->arena, room, sizeof(*names));
	m->texts = arena_alloc_array(m->arena, room, sizeof(*m->texts));
	if (arena_error(m->arena, m->eb))
		return -ENOMEM;
	for (unsigned i = 0; i < m->n_sides; i++)
		n += used_frames(m, i, names + n);
	qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 0; i < n; i++) {
		rank += i && compare_names(&names[i - 1], &names[i]) != 0;
		m->ranks[names[i].side][names[i].frame] = rank;
		m->texts[rank] = names[i].text;
	}
	m->n_ranks = n ? rank + 1UL : 0;
	return 0;
}

/* A tree over ranks; what a limit cut has the rank after all names. */
static int name_tree(struct maker *m, unsigned side, const struct tree *t, struct tree *ret)
{
	uint32_t *frame = arena_alloc_array(m->arena, t->n, sizeof(*frame));

	if (!frame)
		return arena_error(m->arena, m->eb);
	frame[0] = 0;
	for (size_t i = 1; i < t->n; i++)
		frame[i] = tree_is_cut(t, i) ? (uint32_t)m->n_ranks : m->ranks[side][t->frame[i]];
	return tree_from_nodes(t->parent, frame, t->self, t->n, ret, m->eb);
}

static bool is_cut(const struct maker *m, size_t i)
{
	return i && (tree_is_cut(&m->shown, i) || m->shown.frame[i] == m->n_ranks);
}

/* Do siblings of different frames have one name? Without such twins a tree keeps its shape when it is named. */
static int find_twins(struct maker *m, bool *ret)
{
	const struct tree *t = m->sides[0]->tree;
	uint32_t *first = arena_zalloc(m->arena, t->n * sizeof(*first));
	uint32_t *next = arena_alloc_array(m->arena, t->n, sizeof(*next));
	uint32_t *seen = arena_zalloc(m->arena, (m->n_ranks + 1) * sizeof(*seen));

	if (arena_error(m->arena, m->eb))
		return -ENOMEM;
	for (size_t i = t->n; i-- > 1;) {
		next[i] = first[t->parent[i]];
		first[t->parent[i]] = (uint32_t)i;
	}
	*ret = false;
	for (size_t p = 0; p < t->n && !*ret; p++)
		for (uint32_t i = first[p]; i; i = next[i]) {
			uint32_t *last = &seen[m->ranks[0][t->frame[i]]];

			*ret |= *last == p + 1;
			*last = (uint32_t)p + 1;
		}
	return 0;
}

/* Values of the shown nodes, per side. */
struct values {
	int64_t *self, *total;
	uint32_t *node; /* in the side's tree, or TREE_NONE */
	int64_t *rest;	/* total less self and what the children seen so far have */
};

static int index_children(const struct tree *t, struct table *ret)
{
	for (size_t i = 1; i < t->n; i++) {
		uint64_t *slot =
			table_insert(ret, (uint64_t)t->parent[i] << 32 | t->frame[i], NULL);

		if (!slot)
			return -ENOMEM;
		*slot = i;
	}
	return 0;
}

/* One side's values for the shown nodes; a cut node has what its parent has left. */
static int take_values(struct maker *m, unsigned side, struct values *v)
{
	const struct tree *shown = &m->shown, *t = &m->named[side];
	_cleanup_table_ struct table children = {};
	size_t n = shown->n;
	int r;

	table_init(&children, m->budget);
	v->self = arena_zalloc(m->arena, n * sizeof(*v->self));
	v->total = arena_zalloc(m->arena, n * sizeof(*v->total));
	v->rest = arena_zalloc(m->arena, n * sizeof(*v->rest));
	v->node = arena_alloc_array(m->arena, n, sizeof(*v->node));
	r = index_children(t, &children);
	if (r || arena_error(m->arena, m->eb))
		return err_set(m->eb, -ENOMEM, "out of memory for a flame graph");
	for (size_t i = 0; i < n; i++) {
		uint32_t parent = shown->parent[i], at = i ? v->node[parent] : 0;
		const uint64_t *slot = NULL;

		if (tree_is_cut(shown, i)) {
			v->node[i] = TREE_NONE;
			v->self[i] = v->total[i] = v->rest[parent];
			continue;
		}
		if (i && at != TREE_NONE)
			slot = table_find(&children, (uint64_t)at << 32 | shown->frame[i]);
		v->node[i] = !i ? 0 : slot ? (uint32_t)*slot : TREE_NONE;
		if (v->node[i] == TREE_NONE)
			continue;
		v->self[i] = t->self[v->node[i]];
		v->total[i] = t->total[v->node[i]];
		v->rest[i] = v->total[i] - v->self[i];
		if (i)
			v->rest[parent] -= v->total[i];
	}
	return 0;
}

/*
 * The format knows no negative value: a difference that was stored (Go's heap?seconds=N) is drawn as wide as its values without their
 * signs, and frames that fell say so in their names. `ret_negative`: per shown node.
 */
static void take_magnitudes(const struct tree *shown, struct values *v, bool *ret_negative)
{
	for (size_t i = 0; i < shown->n; i++) {
		ret_negative[i] = v->total[i] < 0;
		v->self[i] = v->self[i] == INT64_MIN ? INT64_MAX : llabs(v->self[i]);
		v->total[i] = v->self[i];
	}
	for (size_t i = shown->n; i-- > 1;)
		v->total[shown->parent[i]] = tree_add(v->total[shown->parent[i]], v->total[i]);
}

/* Begins of nodes, per side: x of the node and where its next child begins; per level, where the last node ended. */
struct place {
	int64_t *next, *end;
};

static int64_t place(
	struct place *p, size_t i, uint32_t parent, uint32_t depth, int64_t total, int64_t self)
{
	int64_t x = i ? p->next[parent] : 0, distance = x - p->end[depth];

	if (i)
		p->next[parent] = x + total;
	p->next[i] = x + self;
	p->end[depth] = x + total;
	return distance;
}

/* `known`: per frame and sign, the first of each sign for what was cut. */
static uint32_t name_index(struct maker *m, uint32_t *known, size_t i, bool is_negative)
{
	struct flamebearer *o = m->out;
	bool cut = is_cut(m, i);
	uint32_t *slot = known + (is_negative ? m->n_ranks + 2 : 0);
	const char *name;

	if (!i)
		return 0;
	slot += cut ? 0 : 1 + m->shown.frame[i];
	if (!*slot) {
		name = cut ? "other" : m->texts[m->shown.frame[i]];
		if (is_negative)
			name = arena_printf(m->arena, "%s (negative)", name);
		*slot = (uint32_t)o->n_names;
		o->names[o->n_names++] = name ? name : ""; /* the arena's error sticks */
	}
	return *slot;
}

/* Room for every level; values are put in afterwards. */
static int make_levels(struct maker *m, const bool *skip, const uint32_t *depth, size_t width)
{
	struct flamebearer *o = m->out;
	size_t *count;

	o->n_levels = tree_max_depth(&m->shown) + 1UL;
	count = arena_zalloc(m->arena, o->n_levels * sizeof(*count));
	o->levels = arena_zalloc(m->arena, o->n_levels * sizeof(*o->levels));
	if (arena_error(m->arena, m->eb))
		return -ENOMEM;
	for (size_t i = 0; i < m->shown.n; i++)
		count[depth[i]] += !skip[i];
	while (o->n_levels > 1 && !count[o->n_levels - 1])
		o->n_levels--;
	for (size_t d = 0; d < o->n_levels; d++)
		o->levels[d].values = arena_alloc_array(m->arena, count[d] * width + 1, 8);
	return arena_error(m->arena, m->eb);
}

/* Nodes without value on any side, and what is below them. */
static void find_skipped(const struct maker *m, const struct values *v, bool *ret)
{
	for (size_t i = 1; i < m->shown.n; i++) {
		int64_t most = v[0].total[i];

		if (m->n_sides == SIDES)
			most = MAX(most, v[1].total[i]);
		ret[i] = ret[m->shown.parent[i]] || most <= 0;
	}
}

static int emit(struct maker *m, struct values *v)
{
	struct flamebearer *o = m->out;
	size_t n = m->shown.n, width = m->n_sides == 1 ? 4 : 7,
	       depths = tree_max_depth(&m->shown) + 1UL;
	uint32_t *depth = arena_alloc_array(m->arena, n, sizeof(*depth));
	uint32_t *known = arena_zalloc(m->arena, 2 * (m->n_ranks + 2) * sizeof(*known));
	bool *skip = arena_zalloc(m->arena, n), *is_negative = arena_zalloc(m->arena, n);
	struct place places[SIDES] = {};

	for (unsigned s = 0; s < m->n_sides; s++) {
		places[s].next = arena_zalloc(m->arena, n * sizeof(int64_t));
		places[s].end = arena_zalloc(m->arena, depths * sizeof(int64_t));
	}
	o->names = arena_alloc_array(m->arena, n + 1, sizeof(*o->names));
	if (arena_error(m->arena, m->eb))
		return -ENOMEM;
	o->names[o->n_names++] = "total";
	tree_depths(&m->shown, depth);
	if (m->n_sides == 1 && tree_magnitude(&m->shown) != m->shown.total[0])
		take_magnitudes(&m->shown, v, is_negative);
	find_skipped(m, v, skip);
	if (make_levels(m, skip, depth, width))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct flamebearer_level *l = &o->levels[depth[i]];

		if (skip[i])
			continue;
		for (unsigned s = 0; s < m->n_sides; s++) {
			int64_t total = MAX(v[s].total[i], (int64_t)0);
			int64_t self = MAX(v[s].self[i], (int64_t)0);

			l->values[l->n++] =
				place(&places[s], i, m->shown.parent[i], depth[i], total, self);
			l->values[l->n++] = total;
			l->values[l->n++] = self;
			o->max_self = MAX(o->max_self, self);
		}
		l->values[l->n++] = name_index(m, known, i, is_negative[i]);
	}
	return 0;
}

static int64_t count_cut(const struct tree *t)
{
	int64_t n = 0;

	for (size_t i = 0; t->n_cut && i < t->n; i++)
		n += t->n_cut[i];
	return n;
}

/* One tree. Limiting before naming gives the same and touches far fewer nodes, unless twins must be added up first. */
static int make_single(struct maker *m, size_t max_nodes)
{
	const struct tree *t = m->sides[0]->tree;
	bool twins = true;
	int r = max_nodes && t->n > max_nodes ? find_twins(m, &twins) : 0;

	if (!r && twins)
		r = name_tree(m, 0, t, &m->named[0]);
	if (!r && twins)
		r = tree_limit(&m->named[0], max_nodes, &m->shown, m->eb);
	if (!r && !twins)
		r = tree_limit(t, max_nodes, &m->limited, m->eb);
	if (!r && !twins)
		r = name_tree(m, 0, &m->limited, &m->shown);
	m->out->cut_nodes = count_cut(twins ? &m->shown : &m->limited);
	return r;
}

static int make_double(struct maker *m, size_t max_nodes)
{
	const struct tree *trees[SIDES] = {&m->named[0], &m->named[1]};
	int r = 0;

	for (unsigned s = 0; s < SIDES && !r; s++)
		r = name_tree(m, s, m->sides[s]->tree, &m->named[s]);
	if (!r)
		r = tree_merge(trees, SIDES, &m->all, m->eb);
	if (!r)
		r = tree_limit(&m->all, max_nodes, &m->shown, m->eb);
	m->out->cut_nodes = count_cut(&m->shown);
	return r;
}

static int make(struct maker *m, size_t max_nodes)
{
	struct values v[SIDES] = {};
	struct flamebearer *o = m->out;
	int r = rank_names(m);

	if (!r)
		r = m->n_sides == 1 ? make_single(m, max_nodes) : make_double(m, max_nodes);
	if (!r && m->n_sides == 1)
		v[0] = (struct values) {.self = m->shown.self, .total = m->shown.total};
	for (unsigned s = 0; s < m->n_sides && m->n_sides == SIDES && !r; s++)
		r = take_values(m, s, &v[s]);
	if (!r)
		r = emit(m, v);
	if (r)
		return r;
	o->left_ticks = MAX(v[0].total[0], (int64_t)0);
	o->right_ticks = m->n_sides == SIDES ? MAX(v[1].total[0], (int64_t)0) : 0;
	o->total = tree_add(o->left_ticks, o->right_ticks);
	return 0;
}

static int run(const struct flamebearer_side *left, const struct flamebearer_side *right,
	size_t max_nodes, struct arena *arena, struct flamebearer *ret, struct errbuf *eb)
{
	_cleanup_(maker_done)
	struct maker m = {.sides = {left, right},
		.n_sides = right ? 2 : 1,
		.arena = arena,
		.budget = arena->budget,
		.out = ret,
		.eb = eb};

	*ret = (struct flamebearer) {};
	for (unsigned s = 0; s < SIDES; s++)
		tree_init(&m.named[s], arena->budget);
	tree_init(&m.all, arena->budget);
	tree_init(&m.limited, arena->budget);
	tree_init(&m.shown, arena->budget);
	return make(&m, max_nodes);
}

int flamebearer_single(const struct flamebearer_side *side, size_t max_nodes, struct arena *arena,
	struct flamebearer *ret, struct errbuf *eb)
{
	return run(side, NULL, max_nodes, arena, ret, eb);
}

int flamebearer_double(const struct flamebearer_side *left, const struct flamebearer_side *right,
	size_t max_nodes, struct arena *arena, struct flamebearer *ret, struct errbuf *eb)
{
	const struct flamebearer_side *sides[SIDES] = {left, right};

	for (unsigned s = 0; s < SIDES; s++)
		for (size_t i = 0; i < sides[s]->tree->n; i++)
			if (sides[s]->tree->self[i] < 0)
				return err_set(eb, -EINVAL,
					"a value of the %s profile is negative: no diff can be "
					"drawn",
					s ? "right" : "left");
	return run(left, right, max_nodes, arena, ret, eb);
}
