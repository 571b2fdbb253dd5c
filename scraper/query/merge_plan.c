/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rows of a part a merge reads. Neighbouring streams that lie wholly in the range and go to the same group are one stretch of
 * rows, whose profiles need not be decoded; of the others the profiles are read one by one.
 */
#include "lib/base/alloc.h"
#include "scraper/query/merge.h"

struct planner {
	struct merger *m;
	struct merge_source *source;
	struct scan_part *part;
	struct merge_plan *plan;
	struct group_view view;
	uint32_t first_hit, n_hits; /* of the stretch that is still growing */
	uint32_t group;
	uint64_t series; /* of the hit in hand, when the query names profiles */
	struct bytes scratch;
};

static void add_counts(struct merge_counts *to, const struct merge_counts *c)
{
	if (!c->n_profiles)
		return;
	if (!to->n_profiles) {
		*to = *c;
		return;
	}
	to->n_profiles += c->n_profiles;
	to->period = to->period == c->period ? to->period : 0;
	to->duration_ns = tree_add(to->duration_ns, c->duration_ns);
	to->min_time_ns = MIN(to->min_time_ns, c->min_time_ns);
	to->max_time_ns = MAX(to->max_time_ns, c->max_time_ns);
}

static int plan_span(
	struct planner *pl, uint32_t h, uint32_t group, unsigned span, struct errbuf *eb)
{
	const struct scan_hit *hit = &pl->part->hits[h];
	struct part_profiles p;
	uint64_t scrapes = 0;
	int r = part_profiles(pl->part->reader, hit->stream, pl->source->spans[span].from_ns,
		pl->source->spans[span].to_ns, &p);

	if (r)
		return scan_failed(pl->part, r, eb);
	for (size_t i = 0; !r && i < p.n; i++) {
		int64_t duration = MAX(p.duration_ns[i], 0);

		if (!scan_wants_profile(pl->m->spec, pl->series, p.time_ns[i]))
			continue;
		add_counts(&pl->plan->counts,
			&(struct merge_counts) {.n_profiles = p.n_profiles[i],
				.period = p.period[i],
				.duration_ns = duration,
				.min_time_ns = p.begin_ns ? p.begin_ns[i]
							  : tree_add(p.time_ns[i], -duration),
				.max_time_ns = p.last_ns ? p.last_ns[i] : p.time_ns[i]});
		scrapes += MAX(p.n_profiles[i], 1U);
		if (hit->no_rows)
			continue;
		pl->plan->n_rows += p.n_rows[i];
		r = rows_extend(&pl->plan->ranges, p.first_row[i], p.n_rows[i], h, group);
	}
	atomic_fetch_add_explicit(&pl->m->scrapes[hit->series], scrapes, memory_order_relaxed);
	return r ? merge_no_memory(eb) : 0;
}

static int plan_profiles(struct planner *pl, uint32_t h, uint32_t group, struct errbuf *eb)
{
	int r = 0;

	for (unsigned i = 0; !r && i < pl->source->n_spans; i++)
		r = plan_span(pl, h, group, i, eb);
	return r;
}

/* Does the source take all profiles of a stream? */
static bool takes_all(const struct merge_source *s, const struct part_stream *st)
{
	return s->n_spans == 1 && st->min_time_ns >= s->spans[0].from_ns &&
	       st->max_time_ns <= s->spans[0].to_ns;
}

/* The stretch of streams that was growing. */
static int end_stretch(struct planner *pl, struct errbuf *eb)
{
	uint32_t first = pl->first_hit, n = pl->n_hits;
	const struct scan_hit *hits = pl->part->hits;
	struct part_span s;
	int r;

	if (!n)
		return 0;
	pl->n_hits = 0;
	r = part_span(pl->part->reader, hits[first].stream, n, &s);
	if (r < 0)
		return scan_failed(pl->part, r, eb);
	if (r) {
		for (r = 0; !r && n--; first++)
			r = plan_profiles(pl, first, pl->group, eb);
		return r;
	}
	add_counts(&pl->plan->counts, &(struct merge_counts) {.n_profiles = s.n_profiles,
					      .period = s.period,
					      .duration_ns = s.duration_ns,
					      .min_time_ns = s.min_begin_ns,
					      .max_time_ns = s.max_time_ns});
	for (uint32_t h = first; h < first + n; h++)
		atomic_fetch_add_explicit(&pl->m->scrapes[hits[h].series],
			pl->part->streams[hits[h].stream].n_profiles, memory_order_relaxed);
	pl->plan->n_rows += s.n_rows;
	return rows_extend(&pl->plan->ranges, s.first_row, s.n_rows, first, pl->group)
		       ? merge_no_memory(eb)
		       : 0;
}

static bool continues(const struct planner *pl, const struct scan_hit *hit, uint32_t group)
{
	const struct scan_hit *last = &pl->part->hits[pl->first_hit + pl->n_hits - 1];

	return pl->n_hits && last->stream + 1 == hit->stream && last->column == hit->column &&
	       pl->group == group &&
	       pl->part->streams[last->stream].schema == pl->part->streams[hit->stream].schema;
}

static int plan_hit(struct planner *pl, uint32_t h, struct errbuf *eb)
{
	const struct scan_hit *hit = &pl->part->hits[h];
	const struct part_stream *st = &pl->part->streams[hit->stream];
	uint32_t group = TREE_NONE;
	const struct query_spec *q = pl->m->spec;
	int r;

	if (q->n_profiles) {
		pl->series = scan_set_hash(pl->part, st->label_set, &pl->scratch);
		if (bytes_error(&pl->scratch))
			return merge_no_memory(eb);
		if (!scan_wants_series(q, pl->series))
			return 0;
	}
	r = group_view_start(&pl->view, &pl->m->groups, pl->part, hit);
	if (r)
		return merge_no_memory(eb);
	if (!hit->row_mask)
		group = pl->view.constant;
	if (st->n_profiles && (pl->m->is_mean || group == TREE_NONE || q->n_profiles ||
				      pl->part->info->is_head || !takes_all(pl->source, st))) {
		r = end_stretch(pl, eb);
		return r ? r : plan_profiles(pl, h, group, eb);
	}
	if (!continues(pl, hit, group)) {
		r = end_stretch(pl, eb);
		pl->first_hit = h;
		pl->group = group;
	}
	pl->n_hits++;
	return r;
}

int merge_plan_source(struct merger *m, size_t source, struct errbuf *eb)
{
	struct merge_source *s = &m->sources[source];
	struct planner pl = {.m = m, .source = s, .part = &s->part, .plan = &s->plan};
	int r = scan_cancelled(&m->scan, eb);

	ASSERT(source < m->n_sources);
	bytes_init(&pl.scratch, m->scan.env->budget, 0);
	for (uint32_t h = 0; !r && s->n_spans && h < pl.part->n_hits; h++) {
		r = plan_hit(&pl, h, eb);
		if (!r && h % 1024 == 1023)
			r = scan_cancelled(&m->scan, eb);
	}
	if (!r)
		r = end_stretch(&pl, eb);
	group_view_done(&pl.view);
	bytes_done(&pl.scratch);
	rows_sort(&pl.plan->ranges);
	return r;
}
