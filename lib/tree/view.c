/* SPDX-License-Identifier: Apache-2.0
 *
 * What is shown of a function tree: the node limit, the subtree at a path, the table.
 */
#include "lib/base/alloc.h"
#include "lib/tree/tree_internal.h"
#include <stdlib.h>
#include <string.h>

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

/* Sum of the magnitudes of the selfs in each subtree: equals total without negative values, and
 * never grows downwards. */
static void weigh(const struct tree *t, uint64_t *ret)
{
	for (size_t i = 0; i < t->n; i++)
		ret[i] = magnitude(t->self[i]);
	for (size_t i = t->n; i-- > 1;)
		if (__builtin_add_overflow(ret[t->parent[i]], ret[i], &ret[t->parent[i]]))
			ret[t->parent[i]] = UINT64_MAX;
}

/* The n-th largest of the values, found a byte at a time from the top; *ret_above: how many exceed it. */
static uint64_t nth_largest(const uint64_t *v, size_t n_items, size_t n, size_t *ret_above)
{
	uint64_t found = 0, mask = 0;
	size_t above = 0;

	for (int shift = 56; shift >= 0; shift -= 8) {
		size_t count[256] = {0};
		unsigned byte = 255;

		for (size_t i = 0; i < n_items; i++)
			if ((v[i] & mask) == found)
				count[v[i] >> shift & 255]++;
		while (above + count[byte] < n)
			above += count[byte--];
		found |= (uint64_t)byte << shift;
		mask |= 255ULL << shift;
	}
	*ret_above = above;
	return found;
}

static int copy_tree(const struct tree *in, struct tree *ret, struct errbuf *eb)
{
	int r = tree_reserve(ret, in->n, eb);

	if (r)
		return r;
	ret->n = in->n;
	memcpy(ret->parent, in->parent, in->n * sizeof(*in->parent));
	memcpy(ret->frame, in->frame, in->n * sizeof(*in->frame));
	memcpy(ret->self, in->self, in->n * sizeof(*in->self));
	memcpy(ret->total, in->total, in->n * sizeof(*in->total));
	memcpy(ret->line, in->line, in->n * sizeof(*in->line));
	if (!in->n_cut)
		return 0;
	r = tree_reserve_cuts(ret, eb);
	if (!r)
		memcpy(ret->n_cut, in->n_cut, in->n * sizeof(*in->n_cut));
	return r;
}

/* What is cut below each kept node. */
struct cut {
	int64_t value;
	uint32_t n;
};

struct limiting {
	uint64_t *weight;
	bool *keep;
	struct cut *cuts;
	uint32_t *to;
};

static void limiting_done(struct limiting *l)
{
	free(l->weight);
	free(l->keep);
	free(l->cuts);
	free(l->to);
}

static int limiting_init(struct limiting *l, size_t n)
{
	l->weight = try_realloc(NULL, n, sizeof(*l->weight));
	l->keep = try_realloc(NULL, n, sizeof(*l->keep));
	l->cuts = try_realloc(NULL, n, sizeof(*l->cuts));
	l->to = try_realloc(NULL, n, sizeof(*l->to));
	if (!l->weight || !l->keep || !l->cuts || !l->to)
		return -ENOMEM;
	memset(l->cuts, 0, n * sizeof(*l->cuts));
	return 0;
}

/* Returns how many kept nodes have something cut below them. */
static size_t choose(struct limiting *l, const struct tree *in, size_t max_nodes)
{
	size_t above, ties, n_cut = 0;
	uint64_t least;

	weigh(in, l->weight);
	least = nth_largest(l->weight, in->n, max_nodes, &above);
	ties = max_nodes - above;
	for (size_t i = 0; i < in->n; i++) {
		l->keep[i] = l->weight[i] > least || (l->weight[i] == least && ties > 0);
		if (l->keep[i] && l->weight[i] == least)
			ties--;
	}
	/* Backwards, so that the count of a cut subtree reaches its topmost node before that
	 * reaches its kept parent. */
	for (size_t i = in->n; i-- > 1;) {
		struct cut *up = &l->cuts[in->parent[i]];

		if (l->keep[i])
			continue;
		up->n += l->cuts[i].n + 1;
		if (l->keep[in->parent[i]])
			up->value = tree_add(up->value, in->total[i]);
	}
	for (size_t i = 0; i < in->n; i++)
		n_cut += l->keep[i] && l->cuts[i].n;
	return n_cut;
}

/* Puts the CUT child of the kept node `i` after all its kept descendants. */
static int close_node(struct limiting *l, size_t i, struct tree *ret, struct errbuf *eb)
{
	int r;

	if (!l->cuts[i].n)
		return 0;
	r = tree_append(ret, l->to[i], TREE_NONE, l->cuts[i].value, 0, eb);
	if (!r)
		ret->n_cut[ret->n - 1] = l->cuts[i].n;
	return r;
}

int tree_limit(const struct tree *in, size_t max_nodes, struct tree *ret, struct errbuf *eb)
{
	_cleanup_(limiting_done)
	struct limiting l = {};
	size_t n_cut, open = 0; /* the node in hand; its ancestors are still open */
	int r;

	if (!max_nodes || in->n <= max_nodes)
		return copy_tree(in, ret, eb);
	if (limiting_init(&l, in->n) < 0)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", in->n);
	n_cut = choose(&l, in, max_nodes);
	r = tree_reserve(ret, max_nodes + n_cut, eb);
	if (!r)
		r = tree_reserve_cuts(ret, eb);
	for (size_t i = 0; !r && i < in->n; i++) {
		if (!l.keep[i])
			continue;
		while (!r && i && open != in->parent[i]) {
			r = close_node(&l, open, ret, eb);
			open = in->parent[open];
		}
		l.to[i] = (uint32_t)ret->n;
		if (!r)
			r = tree_append(ret, i ? l.to[in->parent[i]] : 0, in->frame[i], in->self[i],
				in->line[i], eb);
		open = i;
	}
	while (!r) {
		r = close_node(&l, open, ret, eb);
		if (!open)
			break;
		open = in->parent[open];
	}
	if (!r)
		tree_sum(ret);
	return r;
}

/* How many elements of the path node i answers, given how many its parent does; TREE_NONE once off
 * the path. */
static uint32_t match_path(const struct tree *in, const struct tree_symbols *symbols, size_t i,
	uint32_t up, const char *const *path, size_t n_path)
{
	const char *name;

	if (up == TREE_NONE || up == n_path)
		return up;
	if (in->frame[i] == TREE_NONE)
		return TREE_NONE;
	name = tree_symbols_text(symbols, symbols->frames[in->frame[i]].name, NULL);
	return !strcmp(name, path[up]) ? up + 1 : TREE_NONE;
}

int tree_at(const struct tree *in, const struct tree_symbols *symbols, const char *const *path,
	size_t n_path, struct tree *ret, struct errbuf *eb)
{
	_cleanup_free_ uint32_t *matched = try_realloc(NULL, in->n, sizeof(*matched));
	_cleanup_free_ int64_t *self = try_realloc(NULL, in->n, sizeof(*self));

	if (!matched || !self)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", in->n);
	for (size_t i = 0; i < in->n; i++) {
		matched[i] =
			i ? match_path(in, symbols, i, matched[in->parent[i]], path, n_path) : 0;
		self[i] = matched[i] == n_path ? in->self[i] : 0;
	}
	return tree_from_lined_nodes(in->parent, in->frame, self, in->line, in->n, ret, eb);
}

struct topping {
	const struct tree_symbols *symbols;
	struct tree_row *rows;
	uint32_t *row_of;  /* per frame: row + 1, 0 none */
	uint32_t *on_path; /* per row: how often its function is among the open nodes */
	size_t n;
};

static int compare_rows(const void *a, const void *b, void *ctx)
{
	const struct tree_row *x = a, *y = b;
	const struct tree_symbols *s = ctx;
	uint64_t xs = magnitude(x->self), ys = magnitude(y->self);
	int c;

	if (xs != ys)
		return xs < ys ? 1 : -1;
	if (magnitude(x->total) != magnitude(y->total))
		return magnitude(x->total) < magnitude(y->total) ? 1 : -1;
	c = strcmp(tree_symbols_text(s, s->frames[x->frame].name, NULL),
		tree_symbols_text(s, s->frames[y->frame].name, NULL));
	return c ? c : (x->frame > y->frame) - (x->frame < y->frame);
}

static void top_enter(struct topping *t, const struct tree *in, size_t i)
{
	uint32_t frame = in->frame[i];
	struct tree_row *row;

	if (frame == TREE_NONE)
		return;
	if (!t->row_of[frame]) {
		t->rows[t->n] = (struct tree_row) {.frame = frame, .line = in->line[i]};
		t->on_path[t->n] = 0;
		t->row_of[frame] = (uint32_t)++t->n;
	}
	row = &t->rows[t->row_of[frame] - 1];
	if (row->line != in->line[i])
		row->line = 0;
	row->self = tree_add(row->self, in->self[i]);
	if (t->on_path[t->row_of[frame] - 1]++ == 0)
		row->total = tree_add(row->total, in->total[i]);
}

static void top_leave(struct topping *t, const struct tree *in, size_t i)
{
	if (in->frame[i] != TREE_NONE)
		t->on_path[t->row_of[in->frame[i]] - 1]--;
}

int tree_top(const struct tree *in, const struct tree_symbols *symbols, struct arena *arena,
	struct tree_row **ret_rows, size_t *ret_n, struct errbuf *eb)
{
	size_t n_frames = MAX(symbols->n_frames, (size_t)1), open = 0;
	struct topping t = {.symbols = symbols};
	int r;

	t.row_of = arena_zalloc(arena, n_frames * sizeof(*t.row_of));
	t.on_path = arena_alloc_array(arena, n_frames, sizeof(*t.on_path));
	t.rows = arena_alloc_array(arena, n_frames, sizeof(*t.rows));
	r = arena_error(arena, eb);
	if (r)
		return r;
	for (size_t i = 1; i < in->n; i++) {
		for (; open != in->parent[i]; open = in->parent[open])
			top_leave(&t, in, open);
		top_enter(&t, in, i);
		open = i;
	}
	qsort_r(t.rows, t.n, sizeof(*t.rows), compare_rows, (void *)(uintptr_t)symbols);
	*ret_rows = t.rows;
	*ret_n = t.n;
	return 0;
}
