/* SPDX-License-Identifier: Apache-2.0
 *
 * sum, avg, min, max, count and topk.
 */
#include "lib/base/alloc.h"
#include "lib/base/table.h"
#include "scraper/promql/eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct groups {
	struct interner keys;
	struct labels *labels; /* per group */
	size_t cap;
	uint32_t *of; /* per series of the operand */
};

static void groups_done(struct groups *g)
{
	for (size_t i = 0; g->labels && i < g->keys.n; i++)
		labels_done(&g->labels[i]);
	free(g->labels);
	free(g->of);
	interner_done(&g->keys);
}

/* The labels of a series' group. */
static int group_labels(const struct promql_expr *e, const struct labels *from, struct labels *ret)
{
	const char **names = xcalloc(e->n_grouping + 1, sizeof(*names));
	size_t n = 0;
	int r = labels_copy(from, ret);

	for (; n < e->n_grouping; n++)
		names[n] = e->grouping[n];
	if (e->without)
		names[n++] = "__name__";
	if (!r)
		r = eval_drop_labels(ret, names, n, !e->without);
	free(names);
	return r;
}

static int group_of(
	struct groups *g, const struct promql_expr *e, const struct labels *l, uint32_t *ret)
{
	_cleanup_labels_ struct labels labels = {};
	_cleanup_bytes_ struct bytes key = {};
	bool is_new;
	int r = group_labels(e, l, &labels);

	if (r)
		return r;
	labels_encode(&labels, &key);
	r = alloc_grow(&g->labels, &g->cap, g->keys.n + 1, sizeof(*g->labels));
	if (r || bytes_error(&key))
		return -ENOMEM;
	*ret = interner_add(&g->keys, key.data, key.len, &is_new);
	if (*ret == INTERNER_NONE)
		return -ENOMEM;
	if (is_new) {
		g->labels[*ret] = labels;
		labels = (struct labels) {};
	}
	return 0;
}

static int make_groups(struct groups *g, const struct promql_expr *e, const struct promql_value *v,
	struct errbuf *eb)
{
	int r = 0;

	interner_init(&g->keys, NULL);
	g->of = try_realloc(NULL, v->n_series + 1, sizeof(*g->of));
	if (!g->of)
		return eval_no_memory(eb);
	for (size_t i = 0; !r && i < v->n_series; i++)
		r = group_of(g, e, &v->series[i].labels, &g->of[i]);
	return r ? eval_no_memory(eb) : 0;
}

static void add(enum promql_aggregation kind, double *to, uint8_t *present, double v)
{
	if (!*present)
		*to = kind == PROMQL_COUNT ? 1 : v;
	else if (kind == PROMQL_COUNT)
		*to += 1;
	else if (kind == PROMQL_MIN)
		*to = *to > v || isnan(*to) ? v : *to;
	else if (kind == PROMQL_MAX)
		*to = *to < v || isnan(*to) ? v : *to;
	else
		*to += v;
	*present = 1;
}

static int fold(struct promql_run *r, const struct promql_expr *e, struct groups *g,
	const struct promql_value *v, struct promql_value *ret, struct errbuf *eb)
{
	uint32_t *counts = arena_zalloc(r->arena, (g->keys.n * r->n_points + 1) * sizeof(*counts));

	if (!counts)
		return eval_no_memory(eb);
	for (size_t i = 0; i < g->keys.n; i++) {
		struct promql_series *s = promql_add_series(ret, r->arena, r->n_points);

		if (!s)
			return eval_no_memory(eb);
		s->labels = g->labels[i];
		g->labels[i] = (struct labels) {};
	}
	for (size_t i = 0; i < v->n_series; i++) {
		const struct promql_series *from = &v->series[i];
		struct promql_series *to = &ret->series[g->of[i]];

		for (size_t k = 0; k < r->n_points; k++) {
			if (!from->present[k])
				continue;
			add(e->aggregation, &to->values[k], &to->present[k], from->values[k]);
			counts[g->of[i] * r->n_points + k]++;
		}
	}
	for (size_t i = 0; e->aggregation == PROMQL_AVG && i < ret->n_series; i++)
		for (size_t k = 0; k < r->n_points; k++)
			if (ret->series[i].present[k])
				ret->series[i].values[k] /= counts[i * r->n_points + k];
	return 0;
}

/* ---- topk ---- */

struct ranked {
	double value;
	uint32_t group;
	size_t series;
};

/* By group, then the largest first; NaN comes last. */
static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (isnan(x->value) != isnan(y->value))
		return isnan(x->value) ? 1 : -1;
	if (x->value != y->value && !isnan(x->value))
		return x->value > y->value ? -1 : 1;
	return x->series < y->series ? -1 : x->series > y->series;
}

/* What is among the k largest of its group at point `at` stays. */
static size_t rank_point(
	struct promql_value *v, const struct groups *g, size_t at, double k, struct ranked *list)
{
	size_t n = 0, in_group = 0;

	for (size_t i = 0; i < v->n_series; i++)
		if (v->series[i].present[at])
			list[n++] = (struct ranked) {v->series[i].values[at], g->of[i], i};
	if (n)
		qsort(list, n, sizeof(*list), compare_ranked);
	for (size_t i = 0; i < n; i++) {
		in_group = i && list[i].group == list[i - 1].group ? in_group + 1 : 0;
		if ((double)in_group >= floor(k))
			v->series[list[i].series].present[at] = 0;
	}
	return n;
}

static int topk(struct promql_run *r, const struct promql_expr *e, const struct groups *g,
	struct promql_value *v, struct promql_value *ret, struct errbuf *eb)
{
	struct ranked *list = arena_alloc_array(r->arena, v->n_series + 1, sizeof(*list));
	_cleanup_promql_value_ struct promql_value number = {};
	size_t n = 0;
	int err = list ? eval_expr(r, e->right, &number, eb) : eval_no_memory(eb);

	for (size_t k = 0; !err && k < r->n_points; k++) {
		if (isnan(number.scalar[k]) || fabs(number.scalar[k]) > 9.2e18)
			return err_set(
				eb, -EDOM, "Scalar value %g overflows int64", number.scalar[k]);
		n = rank_point(v, g, k, number.scalar[k], list);
	}
	if (err)
		return err;
	*ret = *v;
	*v = (struct promql_value) {};
	if (r->n_points != 1 || !n)
		return 0;
	/* At one point the order says the rank. */
	for (size_t i = 0; i < n; i++) {
		struct promql_series *s = promql_add_series(&number, r->arena, 1);

		if (!s)
			return eval_no_memory(eb);
		*s = ret->series[list[i].series];
		ret->series[list[i].series].labels = (struct labels) {};
	}
	promql_value_done(ret);
	*ret = number;
	ret->type = PROMQL_VECTOR;
	ret->scalar = NULL;
	number = (struct promql_value) {};
	return 0;
}

/* Sums over a selector or call may be made where rows are read; labels of rows can be summed by only there. */
static bool can_be_summed(const struct promql_expr *e, const struct promql_expr *operand)
{
	if (e->aggregation != PROMQL_SUM || e->without ||
		(operand->kind != PROMQL_CALL && operand->kind != PROMQL_SELECTOR))
		return false;
	for (size_t i = 0; i < e->n_grouping; i++)
		if (!strncmp(e->grouping[i], "__", 2))
			return false;
	return true;
}

int eval_aggregate(struct promql_run *r, const struct promql_expr *e, struct promql_value *ret,
	struct errbuf *eb)
{
	_cleanup_promql_value_ struct promql_value v = {};
	_cleanup_(groups_done)
	struct groups g = {};
	const struct eval_by by = {e->grouping, e->n_grouping};
	const struct promql_expr *operand = e->left;
	int err;

	while (operand->kind == PROMQL_PAREN)
		operand = operand->left;
	err = can_be_summed(e, operand) ? eval_summed(r, operand, &by, &v, eb)
					: eval_expr(r, operand, &v, eb);
	if (!err)
		err = make_groups(&g, e, &v, eb);
	if (err)
		return err;
	ret->type = PROMQL_VECTOR;
	return e->aggregation == PROMQL_TOPK ? topk(r, e, &g, &v, ret, eb)
					     : fold(r, e, &g, &v, ret, eb);
}
