/* SPDX-License-Identifier: Apache-2.0
 *
 * The union of two trees is their merge by magnitudes; its nodes meet those of each side in one pass, since all are in preorder with
 * siblings in the same order.
 */
#include "lib/tree/diff.h"
#include "lib/base/alloc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tree_mark_name(enum tree_mark m)
{
	static const char *const names[TREE_N_MARKS] = {"same", "changed", "new", "gone"};

	return m < TREE_N_MARKS ? names[m] : "same";
}

enum tree_mark tree_mark_of(int64_t a, int64_t b, double scale_a, double scale_b)
{
	double x = (double)a * scale_a, y = (double)b * scale_b;

	if (!a != !b)
		return a ? TREE_GONE : TREE_NEW;
	return fabs(x - y) > 1e-9 * fmax(fabs(x), fabs(y)) ? TREE_CHANGED : TREE_SAME;
}

void tree_diff_done(struct tree_diff *d)
{
	tree_done(&d->shape);
	free(d->self_a);
	free(d->self_b);
	free(d->total_a);
	free(d->total_b);
	*d = (struct tree_diff) {};
}

static int64_t magnitude(int64_t v)
{
	return v < 0 ? tree_add(0, v == INT64_MIN ? INT64_MAX : -v) : v;
}

/* A copy with magnitudes, which cannot cancel out. */
static int copy_magnitudes(const struct tree *in, struct tree *ret, struct errbuf *eb)
{
	_cleanup_free_ int64_t *self = try_realloc(NULL, in->n + 1, sizeof(*self));

	if (!self)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", in->n);
	for (size_t i = 0; i < in->n; i++)
		self[i] = magnitude(in->self[i]);
	return tree_from_ordered(in->parent, in->frame, self, in->n, ret, eb);
}

static int make_union(
	const struct tree *a, const struct tree *b, struct tree *ret, struct errbuf *eb)
{
	_cleanup_tree_ struct tree x, y;
	const struct tree *const sides[] = {&x, &y};
	int r;

	tree_init(&x, ret->budget);
	tree_init(&y, ret->budget);
	r = copy_magnitudes(a, &x, eb);
	if (!r)
		r = copy_magnitudes(b, &y, eb);
	return r ? r : tree_merge(sides, 2, ret, eb);
}

/* Adds the selfs of one side where to[] sends the nodes of the union. Both are in the same order, so one pointer moves along. */
static int add_side(const struct tree *all, const struct tree *side, const uint32_t *to,
	int64_t *self, struct errbuf *eb)
{
	_cleanup_free_ uint32_t *at = try_realloc(NULL, side->n + 1, sizeof(*at));
	size_t u = 0;

	if (!at)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", side->n);
	for (size_t i = 0; i < side->n; i++) {
		while (i &&
			(all->parent[u] != at[side->parent[i]] || all->frame[u] != side->frame[i]))
			u++;
		at[i] = (uint32_t)u;
		self[to[u]] = tree_add(self[to[u]], side->self[i]);
		u++;
	}
	return 0;
}

/* to[i]: where node i of the union is in the limited tree, or the cut node that stands for it. */
static void map_union(const struct tree *all, const struct tree *shape, const uint32_t *cut_of,
	uint32_t *to, uint8_t *kept)
{
	size_t next = 1;

	to[0] = 0;
	kept[0] = 1;
	for (size_t i = 1; i < all->n; i++) {
		uint32_t up = to[all->parent[i]];

		while (next < shape->n && tree_is_cut(shape, next))
			next++;
		kept[i] = kept[all->parent[i]] && next < shape->n && shape->parent[next] == up &&
			  shape->frame[next] == all->frame[i];
		if (kept[i])
			to[i] = (uint32_t)next++;
		else
			to[i] = kept[all->parent[i]] ? cut_of[up] : up;
	}
}

static void sum(const struct tree *shape, const int64_t *self, int64_t *total)
{
	memcpy(total, self, shape->n * sizeof(*total));
	for (size_t i = shape->n; i-- > 1;)
		total[shape->parent[i]] = tree_add(total[shape->parent[i]], total[i]);
}

static int64_t *new_column(size_t n)
{
	int64_t *v = try_realloc(NULL, n + 1, sizeof(*v));

	if (v)
		memset(v, 0, (n + 1) * sizeof(*v));
	return v;
}

static int fill(const struct tree *a, const struct tree *b, const struct tree *all,
	struct tree_diff *d, struct errbuf *eb)
{
	const struct tree *shape = &d->shape;
	_cleanup_free_ uint32_t *cut_of = try_realloc(NULL, shape->n + 1, sizeof(*cut_of));
	_cleanup_free_ uint32_t *to = try_realloc(NULL, all->n + 1, sizeof(*to));
	_cleanup_free_ uint8_t *kept = try_malloc(all->n + 1);
	int r;

	d->self_a = new_column(shape->n);
	d->self_b = new_column(shape->n);
	d->total_a = new_column(shape->n);
	d->total_b = new_column(shape->n);
	if (!cut_of || !to || !kept || !d->self_a || !d->self_b || !d->total_a || !d->total_b)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", all->n);
	memset(cut_of, 0, (shape->n + 1) * sizeof(*cut_of));
	for (uint32_t i = 1; i < shape->n; i++)
		if (tree_is_cut(shape, i))
			cut_of[shape->parent[i]] = i;
	map_union(all, shape, cut_of, to, kept);
	r = add_side(all, a, to, d->self_a, eb);
	if (!r)
		r = add_side(all, b, to, d->self_b, eb);
	sum(shape, d->self_a, d->total_a);
	sum(shape, d->self_b, d->total_b);
	return r;
}

int tree_diff_make(const struct tree *a, const struct tree *b, size_t max_nodes,
	struct budget *budget, struct tree_diff *ret, struct errbuf *eb)
{
	_cleanup_tree_ struct tree all;
	int r;

	*ret = (struct tree_diff) {};
	tree_init(&all, budget);
	tree_init(&ret->shape, budget);
	r = make_union(a, b, &all, eb);
	if (!r)
		r = tree_limit(&all, max_nodes, &ret->shape, eb);
	if (!r)
		r = fill(a, b, &all, ret, eb);
	if (r)
		tree_diff_done(ret);
	return r;
}

/* ---- the table ---- */

static int compare_rows(const void *a, const void *b, void *ctx)
{
	const struct tree_diff_row *x = a, *y = b;
	const struct tree_symbols *s = ctx;
	int c;

	if (fabs(x->delta_self) != fabs(y->delta_self))
		return fabs(x->delta_self) < fabs(y->delta_self) ? 1 : -1;
	if (fabs(x->delta_total) != fabs(y->delta_total))
		return fabs(x->delta_total) < fabs(y->delta_total) ? 1 : -1;
	c = strcmp(tree_symbols_text(s, s->frames[x->frame].name, NULL),
		tree_symbols_text(s, s->frames[y->frame].name, NULL));
	return c ? c : (x->frame > y->frame) - (x->frame < y->frame);
}

int tree_diff_top(const struct tree *a, const struct tree *b, const struct tree_symbols *symbols,
	double scale_a, double scale_b, struct arena *arena, struct tree_diff_row **ret_rows,
	size_t *ret_n, struct errbuf *eb)
{
	struct tree_row *of_a = NULL, *of_b = NULL;
	size_t n_a = 0, n_b = 0, n = 0;
	struct tree_diff_row *rows;
	uint32_t *row_of; /* per frame: row + 1 */
	int r = tree_top(a, symbols, arena, &of_a, &n_a, eb);

	if (!r)
		r = tree_top(b, symbols, arena, &of_b, &n_b, eb);
	row_of = arena_zalloc(arena, (symbols->n_frames + 1) * sizeof(*row_of));
	rows = arena_alloc_array(arena, n_a + n_b + 1, sizeof(*rows));
	if (!r)
		r = arena_error(arena, eb);
	if (r)
		return r;
	for (size_t i = 0; i < n_a; i++) {
		rows[n] = (struct tree_diff_row) {
			.frame = of_a[i].frame, .self_a = of_a[i].self, .total_a = of_a[i].total};
		row_of[of_a[i].frame] = (uint32_t)++n;
	}
	for (size_t i = 0; i < n_b; i++) {
		uint32_t *at = &row_of[of_b[i].frame];

		if (!*at) {
			rows[n] = (struct tree_diff_row) {.frame = of_b[i].frame};
			*at = (uint32_t)++n;
		}
		rows[*at - 1].self_b = of_b[i].self;
		rows[*at - 1].total_b = of_b[i].total;
	}
	for (size_t i = 0; i < n; i++) {
		rows[i].delta_self =
			(double)rows[i].self_b * scale_b - (double)rows[i].self_a * scale_a;
		rows[i].delta_total =
			(double)rows[i].total_b * scale_b - (double)rows[i].total_a * scale_a;
	}
	qsort_r(rows, n, sizeof(*rows), compare_rows, (void *)(uintptr_t)symbols);
	*ret_rows = rows;
	*ret_n = n;
	return 0;
}
