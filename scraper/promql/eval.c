/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation, all points of an expression at a time.
 */
#include "lib/base/alloc.h"
#include "scraper/promql/eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void promql_value_done(struct promql_value *v)
{
	for (size_t i = 0; i < v->n_series; i++)
		labels_done(&v->series[i].labels);
	free(v->series);
	*v = (struct promql_value) {};
}

struct promql_series *promql_add_series(struct promql_value *v, struct arena *a, size_t n_points)
{
	struct promql_series *s;

	if (alloc_grow(&v->series, &v->cap_series, v->n_series + 1, sizeof(*v->series)) < 0)
		return NULL;
	s = &v->series[v->n_series];
	*s = (struct promql_series) {};
	s->values = arena_alloc_array(a, n_points, sizeof(*s->values));
	s->present = arena_zalloc(a, n_points);
	if (!s->values || !s->present)
		return NULL;
	v->n_series++;
	return s;
}

int eval_no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the query");
}

int eval_drop_labels(struct labels *l, const char *const *names, size_t n, bool keep)
{
	_cleanup_labels_builder_ struct labels_builder b = {};
	struct labels out;
	int r;

	labels_builder_init(&b);
	for (size_t i = 0; i < l->n; i++) {
		bool named = false;

		for (size_t k = 0; k < n; k++)
			named |= !strcmp(l->items[i].name, names[k]);
		if (named == keep)
			labels_builder_set(&b, l->items[i].name, l->items[i].value);
	}
	r = labels_builder_finish(&b, &out);
	if (r)
		return r;
	labels_done(l);
	*l = out;
	return 0;
}

static int drop_names(struct promql_value *v, struct errbuf *eb)
{
	static const char *const name[] = {"__name__"};

	for (size_t i = 0; i < v->n_series; i++)
		if (*labels_get(&v->series[i].labels, "__name__") &&
			eval_drop_labels(&v->series[i].labels, name, 1, false) < 0)
			return eval_no_memory(eb);
	return 0;
}

static int compare_series(const void *a, const void *b)
{
	const struct promql_series *x = a, *y = b;

	return labels_compare(&x->labels, &y->labels);
}

static void sort_series(struct promql_value *v)
{
	if (v->n_series)
		qsort(v->series, v->n_series, sizeof(*v->series), compare_series);
}

/* Orders by labels; series with equal labels become one, unless both have a value at some point. */
static int unite(const struct promql_run *r, struct promql_value *v, struct errbuf *eb)
{
	size_t n = 0;

	sort_series(v);
	for (size_t i = 0; i < v->n_series; i++) {
		struct promql_series *s = &v->series[i], *last = n ? &v->series[n - 1] : NULL;

		if (!last || !labels_equal(&last->labels, &s->labels)) {
			v->series[n++] = *s;
			continue;
		}
		for (size_t k = 0; k < r->n_points; k++) {
			if (s->present[k] && last->present[k]) {
				/* The rest still belongs to the value. */
				memmove(&v->series[n], s, (v->n_series - i) * sizeof(*s));
				v->n_series = n + (v->n_series - i);
				return err_set(eb, -EDOM,
					"vector cannot contain metrics with the same labelset");
			}
			if (s->present[k]) {
				last->present[k] = 1;
				last->values[k] = s->values[k];
			}
		}
		labels_done(&s->labels);
	}
	v->n_series = n;
	return 0;
}

/* ---- selectors and functions ---- */

static int select_series(struct promql_run *r, const struct promql_expr *e, int64_t window_ns,
	const struct eval_by *by, struct promql_value *ret, struct errbuf *eb)
{
	struct promql_select s = {.selector = &e->selector,
		.step_ns = r->step_ns,
		.n_points = r->n_points,
		.window_ns = window_ns,
		.sum = by != NULL,
		.by = by ? by->names : NULL,
		.n_by = by ? by->n : 0};

	ret->type = PROMQL_VECTOR;
	if (__builtin_sub_overflow(r->start_ns, e->offset_ns, &s.start_ns))
		return err_set(eb, -EINVAL, "offset: out of range");
	return r->select(r->ctx, &s, ret, eb);
}

static int call(struct promql_run *r, const struct promql_expr *e, const struct eval_by *by,
	struct promql_value *ret, struct errbuf *eb)
{
	const struct promql_expr *arg = e->left;
	double seconds;
	int err;

	while (arg->kind == PROMQL_PAREN)
		arg = arg->left;
	seconds = (double)arg->range_ns / 1e9;
	err = select_series(r, arg, arg->range_ns, by, ret, eb);
	if (err)
		return err;
	for (size_t i = 0; e->function == PROMQL_RATE && i < ret->n_series; i++)
		for (size_t k = 0; k < r->n_points; k++)
			ret->series[i].values[k] /= seconds;
	err = drop_names(ret, eb);
	return err || by ? err : unite(r, ret, eb);
}

/* ---- arithmetic ---- */

static double compute(char op, double a, double b)
{
	switch (op) {
	case '+': return a + b;
	case '-': return a - b;
	case '*': return a * b;
	case '/': return a / b;
	case '%': return fmod(a, b);
	default: return pow(a, b);
	}
}

static int scalar_value(struct promql_run *r, double v, struct promql_value *ret)
{
	ret->type = PROMQL_SCALAR;
	ret->scalar = arena_alloc_array(r->arena, r->n_points, sizeof(double));
	for (size_t k = 0; ret->scalar && k < r->n_points; k++)
		ret->scalar[k] = v;
	return ret->scalar ? 0 : -ENOMEM;
}

/* Each series with the one of equal labels on the other side. Both sides are in order and have no equal labels. */
static int match_vectors(struct promql_run *r, char op, struct promql_value *a,
	struct promql_value *b, struct errbuf *eb)
{
	size_t j = 0, n = 0;
	int err = drop_names(a, eb);

	if (!err)
		err = drop_names(b, eb);
	if (!err)
		err = unite(r, a, eb);
	if (!err)
		err = unite(r, b, eb);
	if (err == -EDOM)
		return err_set(eb, err,
			"many-to-many matching not allowed: labels other than __name__ must be "
			"unique on "
			"each side of %c",
			op);
	if (err)
		return err;
	for (size_t i = 0; i < a->n_series; i++) {
		struct promql_series *s = &a->series[i];
		int c = 1;

		while (j < b->n_series &&
			(c = labels_compare(&b->series[j].labels, &s->labels)) < 0)
			j++;
		if (j == b->n_series || c != 0) {
			labels_done(&s->labels);
			continue;
		}
		for (size_t k = 0; k < r->n_points; k++) {
			s->present[k] &= b->series[j].present[k];
			if (s->present[k])
				s->values[k] = compute(op, s->values[k], b->series[j].values[k]);
		}
		a->series[n++] = *s;
	}
	a->n_series = n;
	return 0;
}

/* `v` op scalar, or scalar op `v`. */
static int scale(struct promql_run *r, char op, struct promql_value *v, const double *scalar,
	bool scalar_first, struct errbuf *eb)
{
	int err;

	for (size_t i = 0; i < v->n_series; i++)
		for (size_t k = 0; k < r->n_points; k++)
			if (v->series[i].present[k])
				v->series[i].values[k] =
					scalar_first
						? compute(op, scalar[k], v->series[i].values[k])
						: compute(op, v->series[i].values[k], scalar[k]);
	err = drop_names(v, eb);
	return err ? err : unite(r, v, eb);
}

static int binary(struct promql_run *r, const struct promql_expr *e, struct promql_value *ret,
	struct errbuf *eb)
{
	_cleanup_promql_value_ struct promql_value left = {}, right = {};
	int err = eval_expr(r, e->left, &left, eb);

	if (!err)
		err = eval_expr(r, e->right, &right, eb);
	if (err)
		return err;
	if (left.type == PROMQL_SCALAR && right.type == PROMQL_SCALAR) {
		for (size_t k = 0; k < r->n_points; k++)
			left.scalar[k] = compute(e->op, left.scalar[k], right.scalar[k]);
		*ret = left;
		left = (struct promql_value) {};
	} else if (left.type == PROMQL_SCALAR) {
		err = scale(r, e->op, &right, left.scalar, true, eb);
		*ret = right;
		right = (struct promql_value) {};
	} else {
		err = right.type == PROMQL_SCALAR ? scale(r, e->op, &left, right.scalar, false, eb)
						  : match_vectors(r, e->op, &left, &right, eb);
		*ret = left;
		left = (struct promql_value) {};
	}
	return err;
}

static int negate(struct promql_run *r, const struct promql_expr *e, struct promql_value *ret,
	struct errbuf *eb)
{
	int err = eval_expr(r, e->left, ret, eb);

	if (err)
		return err;
	for (size_t k = 0; ret->scalar && k < r->n_points; k++)
		ret->scalar[k] = -ret->scalar[k];
	for (size_t i = 0; i < ret->n_series; i++)
		for (size_t k = 0; k < r->n_points; k++)
			ret->series[i].values[k] = -ret->series[i].values[k];
	err = drop_names(ret, eb);
	return err ? err : unite(r, ret, eb);
}

/* ---- the tree ---- */

int eval_summed(struct promql_run *r, const struct promql_expr *e, const struct eval_by *by,
	struct promql_value *ret, struct errbuf *eb)
{
	if (e->kind == PROMQL_CALL)
		return call(r, e, by, ret, eb);
	return select_series(r, e, 0, by, ret, eb);
}

int eval_expr(struct promql_run *r, const struct promql_expr *e, struct promql_value *ret,
	struct errbuf *eb)
{
	int err = 0;

	if (r->cancel && atomic_load_explicit(r->cancel, memory_order_relaxed))
		return err_set(eb, -ECANCELED, "the query was cancelled or ran into its deadline");
	switch (e->kind) {
	case PROMQL_NUMBER: err = scalar_value(r, e->number, ret); break;
	case PROMQL_PAREN: return eval_expr(r, e->left, ret, eb);
	case PROMQL_NEGATE: return negate(r, e, ret, eb);
	case PROMQL_BINARY: return binary(r, e, ret, eb);
	case PROMQL_AGGREGATE: return eval_aggregate(r, e, ret, eb);
	case PROMQL_CALL:
	case PROMQL_SELECTOR: return eval_summed(r, e, NULL, ret, eb);
	}
	return err ? eval_no_memory(eb) : 0;
}

/* Series without any value go; of topk at one point the largest comes first. */
static int finish(struct promql_run *r, const struct promql_expr *root, struct promql_value *v,
	struct errbuf *eb)
{
	size_t n = 0;

	while (root->kind == PROMQL_PAREN)
		root = root->left;
	for (size_t i = 0; i < v->n_series; i++) {
		if (memchr(v->series[i].present, 1, r->n_points))
			v->series[n++] = v->series[i];
		else
			labels_done(&v->series[i].labels);
	}
	v->n_series = n;
	if (root->kind == PROMQL_AGGREGATE && root->aggregation == PROMQL_TOPK && r->n_points == 1)
		return 0;
	return unite(r, v, eb);
}

int promql_eval(struct promql_run *r, const struct promql_query *q, struct promql_value *ret,
	struct errbuf *eb)
{
	int err;

	*ret = (struct promql_value) {};
	if (q->root->type == PROMQL_RANGE)
		return err_set(eb, -EINVAL,
			"1:%zu: not supported: a range vector as the result; profiles are no "
			"samples",
			q->root->pos + 1);
	err = eval_expr(r, q->root, ret, eb);
	if (!err && ret->type == PROMQL_VECTOR)
		err = finish(r, q->root, ret, eb);
	if (err)
		promql_value_done(ret);
	return err;
}
