/* SPDX-License-Identifier: Apache-2.0
 *
 * The windows of a line's targets, spread over its points as values are.
 */
#include "scraper/query/watched.h"
#include "lib/base/alloc.h"
#include <stdlib.h>
#include <string.h>

int watched_note(struct watched *w, uint32_t line, uint32_t target)
{
	return table_insert(&w->pairs, (uint64_t)line << 32 | target, NULL) ? 0 : -ENOMEM;
}

/* Adds to each point its part of the window. */
static void spread(const struct watched_points *points, const struct coverage_window *w, double *to)
{
	int64_t since_ns = w->begin_ns - points->start_ns;
	size_t k = since_ns < 0 ? 0 : (size_t)(since_ns / points->step_ns);
	double share = (double)w->covered_ns / (double)MAX(w->end_ns - w->begin_ns, 1);

	for (; k < points->n; k++) {
		int64_t t = points->start_ns + (int64_t)k * points->step_ns;
		int64_t from = MAX(w->begin_ns, t - points->window_ns), until = MIN(w->end_ns, t);

		if (t - points->window_ns >= w->end_ns)
			break;
		if (until > from)
			to[k] += share * (double)(until - from);
	}
}

static int compare(const void *pa, const void *pb)
{
	const uint64_t *a = pa, *b = pb;

	return (*a > *b) - (*a < *b);
}

/* All (line, target), sorted. */
static uint64_t *sorted_pairs(const struct watched *w)
{
	uint64_t *pairs = try_realloc(NULL, w->pairs.n_used + 1, sizeof(*pairs)), unused;
	size_t pos = 0, n = 0;

	while (pairs && table_next(&w->pairs, &pos, &pairs[n], &unused))
		n++;
	if (pairs)
		qsort(pairs, n, sizeof(*pairs), compare);
	return pairs;
}

static int add_up(const struct coverage *c, const struct watched_points *points, const bool *chosen,
	bool as_one, double *ns)
{
	_cleanup_coverage_windows_ struct coverage_windows any = {};
	int r = as_one ? coverage_union(c, chosen, &any) : 0;

	memset(ns, 0, points->n * sizeof(*ns));
	for (size_t i = 0; i < any.n; i++)
		spread(points, &any.items[i], ns);
	for (size_t i = 0; !as_one && i < c->targets.n; i++)
		for (size_t k = 0; chosen[i] && k < c->items[i].n; k++)
			spread(points, &c->items[i].windows[k], ns);
	return r;
}

int watched_each(const struct watched *w, const struct coverage *c,
	const struct watched_points *points, bool as_one, watched_fn *fn, void *ctx)
{
	_cleanup_free_ uint64_t *pairs = sorted_pairs(w);
	_cleanup_free_ bool *chosen = try_realloc(NULL, c->targets.n + 1, sizeof(*chosen));
	_cleanup_free_ double *ns = try_realloc(NULL, points->n + 1, sizeof(*ns));
	int r = pairs && chosen && ns ? 0 : -ENOMEM;

	for (size_t i = 0, n = w->pairs.n_used; !r && i < n;) {
		uint32_t line = (uint32_t)(pairs[i] >> 32);

		memset(chosen, 0, c->targets.n * sizeof(*chosen));
		for (; i < n && pairs[i] >> 32 == line; i++)
			chosen[(uint32_t)pairs[i]] = true;
		r = add_up(c, points, chosen, as_one, ns);
		if (!r)
			fn(ctx, line, ns);
	}
	return r;
}
