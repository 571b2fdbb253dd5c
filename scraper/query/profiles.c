/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of profiles. What is kept is a heap of the largest, so that a limit bounds the memory whatever the range holds.
 */
#include "lib/base/alloc.h"
#include "scraper/query/listing.h"
#include <stdlib.h>
#include <string.h>

struct top {
	struct query_profiles *out;
	size_t limit;
	struct listing_item *heap; /* the smallest first */
	size_t n, cap;
};

/* Whether x is to be left out rather than y: smaller, or as large and later. */
static bool is_less(const struct listing_item *x, const struct listing_item *y)
{
	if (x->value != y->value)
		return x->value < y->value;
	if (x->time_ns != y->time_ns)
		return x->time_ns > y->time_ns;
	return x->series > y->series;
}

static void sift_up(struct top *l, size_t i)
{
	for (size_t up = (i - 1) / 2; i && is_less(&l->heap[i], &l->heap[up]); up = (i - 1) / 2) {
		struct listing_item f = l->heap[i];

		l->heap[i] = l->heap[up];
		l->heap[up] = f;
		i = up;
	}
}

static void sift_down(struct top *l)
{
	for (size_t i = 0, k = 1; k < l->n; k = 2 * i + 1) {
		struct listing_item f = l->heap[i];

		k += k + 1 < l->n && is_less(&l->heap[k + 1], &l->heap[k]);
		if (!is_less(&l->heap[k], &f))
			return;
		l->heap[i] = l->heap[k];
		l->heap[k] = f;
		i = k;
	}
}

static int offer(void *ctx, const struct listing_item *f, struct errbuf *eb)
{
	struct top *l = ctx;
	int r;

	l->out->n_found++;
	l->out->total = tree_add(l->out->total, f->value);
	if (l->limit && l->n == l->limit) {
		if (is_less(f, &l->heap[0]))
			return 0;
		l->heap[0] = *f;
		sift_down(l);
		return 0;
	}
	r = alloc_grow_in(l->out->budget, &l->heap, &l->cap, l->n + 1, sizeof(*l->heap), eb);
	if (r)
		return r;
	l->heap[l->n++] = *f;
	if (l->limit)
		sift_up(l, l->n - 1);
	return 0;
}

static int compare_profiles(const void *a, const void *b)
{
	const struct query_profile *x = a, *y = b;

	if (x->id.time_ns != y->id.time_ns)
		return x->id.time_ns < y->id.time_ns ? -1 : 1;
	return labels_compare(&x->labels, &y->labels);
}

static int finish(const struct top *t, const struct listing *l, struct errbuf *eb)
{
	struct query_profiles *out = t->out;
	int r = alloc_grow_in(
		out->budget, &out->items, &out->cap, MAX(t->n, (size_t)1), sizeof(*out->items), eb);

	for (size_t i = 0; !r && i < t->n; i++) {
		_cleanup_labels_builder_ struct labels_builder b = {};
		const struct listing_item *f = &t->heap[i];
		struct query_profile *to = &out->items[i];

		listing_labels(l, f->part, f->label_set, &b);
		*to = (struct query_profile) {.id = {f->series, f->time_ns},
			.duration_ns = f->duration_ns,
			.value = f->value};
		r = labels_builder_finish(&b, &to->labels);
		if (r)
			return err_set(eb, -ENOMEM, "out of memory for the query");
		out->n++;
	}
	if (!r)
		qsort(out->items, out->n, sizeof(*out->items), compare_profiles);
	return r;
}

static int profiles_once(struct query_env *env, const struct query_spec *spec, size_t limit,
	struct query_profiles *ret, struct errbuf *eb)
{
	struct top top = {.out = ret, .limit = limit};
	_cleanup_(listing_done)
	struct listing l = {.fn = offer, .ctx = &top};
	int r;

	*ret = (struct query_profiles) {.budget = env->budget};
	r = listing_run(&l, env, spec, &ret->type, eb);
	if (!r)
		r = finish(&top, &l, eb);
	budget_free(env->budget, top.heap, top.cap, sizeof(*top.heap));
	if (r)
		query_profiles_done(ret);
	return r;
}

int query_profiles(struct query_env *env, const struct query_spec *spec, size_t limit,
	struct query_profiles *ret, struct errbuf *eb)
{
	size_t n_damaged;
	int r;

	do {
		n_damaged = scan_n_damaged(env);
		r = profiles_once(env, spec, limit, ret, eb);
	} while (scan_met_damage(env, r, n_damaged));
	return r;
}

void query_profiles_done(struct query_profiles *p)
{
	for (size_t i = 0; i < p->n; i++)
		labels_done(&p->items[i].labels);
	budget_free(p->budget, p->items, p->cap, sizeof(*p->items));
	query_type_done(&p->type);
	*p = (struct query_profiles) {};
}
