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

void tree_weigh(const struct tree *t, uint64_t *ret)
{
	for (size_t i = 0; i < t->n; i++)
		ret[i] = magnitude(t->self[i]);
	for (size_t i = t->n; i-- > 1;)
		if (__builtin_add_overflow(ret[t->parent[i]], ret[i], &ret[t->parent[i]]))
			ret[t->parent[i]] = UINT64_MAX;
}

int64_t tree_magnitude(const struct tree *t)
{
	int64_t sum = 0;

	for (size_t i = 0; i < t->n; i++)
		sum = tree_add(sum, (int64_t)MIN(magnitude(t->self[i]), (uint64_t)INT64_MAX));
	return sum;
}

/* Bins that are 1/256 of their values wide at most; below 512 each value has its own. */
enum { EXACT_BINS = 512, MANTISSA_BITS = 8, N_BINS = EXACT_BINS + 55 * 256 };

static unsigned bin_of(uint64_t v)
{
	unsigned e;

	if (v < EXACT_BINS)
		return (unsigned)v;
	e = 63U - (unsigned)__builtin_clzll(v);
	return EXACT_BINS + (e - 9) * 256 + (unsigned)(v >> (e - MANTISSA_BITS) & 255);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

/*
 * The n-th largest of the values: by bins, then among those of one bin alone. *ret_above: how many exceed it. -ENOMEM.
 */
static int nth_largest(
	const uint64_t *v, size_t n_items, size_t n, uint64_t *ret, size_t *ret_above)
{
	_cleanup_free_ uint32_t *count = try_realloc(NULL, N_BINS, sizeof(*count));
	_cleanup_free_ uint64_t *of_bin = NULL;
	size_t above = 0, n_of_bin = 0, at;
	bool mixed = false;
	unsigned bin = N_BINS - 1;

	if (!count)
		return -ENOMEM;
	memset(count, 0, N_BINS * sizeof(*count));
	for (size_t i = 0; i < n_items; i++)
		count[bin_of(v[i])]++;
	while (above + count[bin] < n)
		above += count[bin--];
	*ret_above = above;
	*ret = bin;
	if (bin < EXACT_BINS)
		return 0;
	of_bin = try_realloc(NULL, count[bin], sizeof(*of_bin));
	if (!of_bin)
		return -ENOMEM;
	for (size_t i = 0; i < n_items; i++) {
		if (bin_of(v[i]) != bin)
			continue;
		mixed |= n_of_bin && v[i] != *of_bin;
		of_bin[n_of_bin++] = v[i];
	}
	*ret = *of_bin;
	if (!mixed) /* as often: so many nodes of one sample each */
		return 0;
	qsort(of_bin, n_of_bin, sizeof(*of_bin), compare_u64);
	*ret = of_bin[n - above - 1];
	for (at = n - above - 1; at && of_bin[at - 1] == *ret; at--)
		;
	*ret_above = above + at;
	return 0;
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

/* A node that stays, and what is cut below it. */
struct kept {
	uint32_t node, n_cut;
	int64_t cut;
	uint32_t up;	   /* the kept node that is its parent */
	uint32_t n_below;  /* nodes below it in the result */
	uint32_t at, next; /* its place there, and that of its next child */
};

struct limiting {
	uint64_t *weight;
	uint32_t *to; /* place in kept, or TREE_NONE */
	struct kept *kept;
	size_t n_kept;
};

static void limiting_done(struct limiting *l)
{
	free(l->weight);
	free(l->kept);
	free(l->to);
}

static int limiting_init(struct limiting *l, size_t n, size_t max_nodes)
{
	l->weight = try_realloc(NULL, n, sizeof(*l->weight));
	l->kept = try_realloc(NULL, max_nodes, sizeof(*l->kept));
	l->to = try_realloc(NULL, n, sizeof(*l->to));
	return l->weight && l->kept && l->to ? 0 : -ENOMEM;
}

/*
 * Whose parent stays is kept or the top of a cut subtree; what follows until the next of either is in that subtree, since nodes are in
 * preorder. Sets how many kept nodes have something cut below them.
 */
static int choose(struct limiting *l, const struct tree *in, size_t max_nodes, size_t *ret_n_cut)
{
	size_t above, ties, n_cut = 0;
	uint64_t least;
	uint32_t owner = 0;

	tree_weigh(in, l->weight);
	if (nth_largest(l->weight, in->n, max_nodes, &least, &above) < 0)
		return -ENOMEM;
	ties = max_nodes - above;
	for (size_t i = 0; i < in->n; i++) {
		bool is_tie = l->weight[i] == least;

		if (l->weight[i] > least || (is_tie && ties)) {
			ties -= is_tie;
			l->to[i] = (uint32_t)l->n_kept;
			l->kept[l->n_kept++] = (struct kept) {
				.node = (uint32_t)i, .up = i ? l->to[in->parent[i]] : 0};
			continue;
		}
		l->to[i] = TREE_NONE;
		if (l->to[in->parent[i]] != TREE_NONE) {
			owner = l->to[in->parent[i]];
			l->kept[owner].cut = tree_add(l->kept[owner].cut, in->total[i]);
			n_cut += !l->kept[owner].n_cut;
		}
		l->kept[owner].n_cut++;
	}
	*ret_n_cut = n_cut;
	return 0;
}

static void put(struct tree *t, size_t at, uint32_t parent, uint32_t frame, int64_t self,
	int64_t line, uint32_t n_cut)
{
	t->parent[at] = parent;
	t->frame[at] = frame;
	t->self[at] = self;
	t->line[at] = line;
	t->n_cut[at] = n_cut;
}

/*
 * The kept nodes, each with its CUT child after all that is below it. How many nodes each one's subtree has then says where it ends,
 * and with it where the next one begins, without looking for it.
 */
static void put_kept(struct limiting *l, const struct tree *in, struct tree *ret)
{
	struct kept *kept = l->kept;

	for (size_t k = 0; k < l->n_kept; k++)
		kept[k].n_below = kept[k].n_cut > 0;
	for (size_t k = l->n_kept; k-- > 1;)
		kept[kept[k].up].n_below += 1 + kept[k].n_below;
	kept[0].at = 0;
	for (size_t k = 0; k < l->n_kept; k++) {
		const struct kept *up = &kept[kept[k].up];
		const size_t i = kept[k].node;

		if (k) {
			kept[k].at = up->next;
			kept[up - kept].next += 1 + kept[k].n_below;
		}
		kept[k].next = kept[k].at + 1;
		put(ret, kept[k].at, up->at, in->frame[i], in->self[i], in->line[i], 0);
		if (kept[k].n_cut)
			put(ret, kept[k].at + kept[k].n_below, kept[k].at, TREE_NONE, kept[k].cut,
				0, kept[k].n_cut);
	}
	ret->n = kept[0].n_below + 1UL;
}

int tree_limit(const struct tree *in, size_t max_nodes, struct tree *ret, struct errbuf *eb)
{
	_cleanup_(limiting_done)
	struct limiting l = {};
	size_t n_cut = 0;
	int r;

	if (!max_nodes || in->n <= max_nodes)
		return copy_tree(in, ret, eb);
	if (limiting_init(&l, in->n, max_nodes) < 0 || choose(&l, in, max_nodes, &n_cut) < 0)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", in->n);
	r = tree_reserve(ret, max_nodes + n_cut, eb);
	if (!r)
		r = tree_reserve_cuts(ret, eb);
	if (r)
		return r;
	put_kept(&l, in, ret);
	tree_sum(ret);
	return 0;
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
	int64_t line = tree_line_number(in->line[i]);
	struct tree_row *row;

	if (frame == TREE_NONE)
		return;
	if (!t->row_of[frame]) {
		t->rows[t->n] = (struct tree_row) {.frame = frame, .line = line};
		t->on_path[t->n] = 0;
		t->row_of[frame] = (uint32_t)++t->n;
	}
	row = &t->rows[t->row_of[frame] - 1];
	if (row->line != line)
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
