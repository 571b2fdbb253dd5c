/* SPDX-License-Identifier: Apache-2.0
 *
 * Few series ever end, so only those remember when in each step they were scraped; of others it is enough that they were.
 */
#include "scraper/query/lookback.h"
#include "lib/base/alloc.h"
#include <stdlib.h>
#include <string.h>

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int series_at(struct lookback *l, uint32_t series, struct lookback_series **ret)
{
	size_t old = l->cap;
	int r = alloc_grow_in(
		l->arena->budget, &l->series, &l->cap, series + 1UL, sizeof(*l->series), NULL);

	if (r)
		return r;
	for (size_t i = old; i < l->cap; i++)
		l->series[i] = (struct lookback_series) {.before_ns = INT64_MIN};
	*ret = &l->series[series];
	return 0;
}

static int add_ends(struct lookback *l, const struct scan_part *p, uint32_t stream, uint32_t series,
	struct errbuf *eb)
{
	int64_t until = l->start_ns + (int64_t)(l->n_points - 1) * l->step_ns;
	struct part_profiles profiles;
	struct lookback_series *s;
	int r = part_profiles(
		p->reader, stream, l->start_ns - l->step_ns - l->for_ns, until, &profiles);

	if (r)
		return scan_failed(p, r, eb);
	r = series_at(l, series, &s);
	if (!r)
		r = alloc_grow_in(l->arena->budget, &s->ends_ns, &s->cap_ends,
			s->n_ends + profiles.n, sizeof(*s->ends_ns), NULL);
	if (r)
		return err_set(eb, r, "out of memory for the query");
	for (size_t i = 0; i < profiles.n; i++)
		if (profiles.resolution[i] == PART_RAW)
			s->ends_ns[s->n_ends++] = profiles.time_ns[i];
	return 0;
}

int lookback_load(struct lookback *l, const struct scan *s, uint32_t type, struct errbuf *eb)
{
	int r = 0;

	ASSERT(l->arena && l->n_points && l->step_ns > 0 && !l->series);
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct scan_part *p = &s->parts[i];

		for (uint32_t st = 0; !r && st < p->info->n_streams; st++) {
			uint32_t series;

			if (!scan_is_end(p, &p->schemas[p->streams[st].schema]))
				continue;
			r = scan_find_series(s, p, p->streams[st].label_set, type, &series);
			if (!r && series != TREE_NONE)
				r = add_ends(l, p, st, series, eb);
		}
	}
	for (size_t i = 0; i < l->cap; i++)
		if (l->series[i].n_ends)
			qsort(l->series[i].ends_ns, l->series[i].n_ends, sizeof(int64_t),
				compare_times);
	return r;
}

void lookback_done(struct lookback *l)
{
	struct budget *b = l->arena ? l->arena->budget : NULL;

	for (size_t i = 0; i < l->cap; i++)
		budget_free(b, l->series[i].ends_ns, l->series[i].cap_ends, sizeof(int64_t));
	budget_free(b, l->series, l->cap, sizeof(*l->series));
}

int lookback_note(struct lookback *l, uint32_t series, int64_t time_ns)
{
	int64_t after = time_ns - l->start_ns;
	struct lookback_series *s;
	int r = series_at(l, series, &s);
	size_t k;

	if (r)
		return r;
	if (!s->seen) {
		s->seen = arena_zalloc(l->arena, l->n_points);
		s->last_ns = s->n_ends ? arena_zalloc(l->arena, l->n_points * sizeof(*s->last_ns))
				       : NULL;
		if (!s->seen || (s->n_ends && !s->last_ns))
			return -ENOMEM;
	}
	if (after <= -l->step_ns) {
		s->before_ns = MAX(s->before_ns, time_ns);
		return 0;
	}
	k = after > 0 ? (size_t)((after - 1) / l->step_ns + 1) : 0;
	if (k >= l->n_points)
		return 0;
	if (s->last_ns)
		s->last_ns[k] = s->seen[k] ? MAX(s->last_ns[k], time_ns) : time_ns;
	s->seen[k] = 1;
	return 0;
}

void lookback_walk(
	const struct lookback *l, uint32_t series, uint32_t *ret_from, uint8_t *ret_ended)
{
	static const struct lookback_series none = {.before_ns = INT64_MIN};
	const struct lookback_series *s = series < l->cap ? &l->series[series] : &none;
	int64_t last_ns = s->before_ns;
	uint32_t from = last_ns == INT64_MIN ? LOOKBACK_NONE : LOOKBACK_BEFORE;
	size_t e = 0;

	for (size_t k = 0; k < l->n_points; k++) {
		int64_t t = l->start_ns + (int64_t)k * l->step_ns;

		if (s->seen && s->seen[k]) {
			from = (uint32_t)k;
			last_ns = s->last_ns ? s->last_ns[k] : t;
		}
		while (e < s->n_ends && s->ends_ns[e] <= t)
			e++;
		ret_ended[k] = e && s->ends_ns[e - 1] > last_ns;
		ret_from[k] = from == LOOKBACK_NONE || ret_ended[k] || last_ns <= t - l->for_ns
				      ? LOOKBACK_NONE
				      : from;
	}
}
