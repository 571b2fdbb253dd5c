/* SPDX-License-Identifier: Apache-2.0
 *
 * Which resolution of a part serves which times. A rollup serves when no matcher and no grouping label is one that its rows lack.
 */
#include "lib/base/alloc.h"
#include "scraper/query/merge.h"
#include <string.h>

static const int64_t widths_ns[MERGE_RESOLUTIONS] = {
	[PART_10M] = 600LL * 1000000000, [PART_1H] = 3600LL * 1000000000};

static bool lacks(const struct part_info *info, const char *label)
{
	for (size_t i = 0; i < info->n_rollup_without; i++)
		if (!strcmp(info->rollup_without[i], label))
			return true;
	return false;
}

static bool rollups_serve(const struct merger *m, const struct part_info *info)
{
	const struct query_selector *q = m->spec->selector;

	if (!info->rollups || m->scan.env->without_rollups || m->spec->n_profiles)
		return false;
	for (size_t i = 0; q && i < q->n_matchers; i++)
		if (lacks(info, q->matchers[i].name))
			return false;
	for (size_t i = 0; i < m->spec->n_group_by; i++)
		if (lacks(info, m->spec->group_by[i]))
			return false;
	return true;
}

/* The raw hits as those of the rollup's streams, which are the raw ones in the same order, some left out. False: they are not. */
static int map_hits(struct budget *budget, const struct scan_part *raw, struct scan_part *p)
{
	uint32_t at = 0;

	p->n_hits = p->cap_hits = 0;
	if (alloc_grow_in(budget, &p->hits, &p->cap_hits, raw->n_hits + 1, sizeof(*p->hits), NULL) <
		0)
		return -ENOMEM;
	for (size_t h = 0; h < raw->n_hits; h++) {
		const struct part_stream *want = &raw->streams[raw->hits[h].stream];

		while (at < p->info->n_streams &&
			(p->streams[at].schema != want->schema ||
				p->streams[at].label_set != want->label_set))
			at++;
		if (at == p->info->n_streams)
			return 0;
		p->hits[p->n_hits] = raw->hits[h];
		p->hits[p->n_hits++].stream = at;
	}
	return 1;
}

/* 1 when the part has this rollup. */
static int open_rollup(
	struct merger *m, struct merge_source *s, const struct scan_part *raw, struct errbuf *eb)
{
	struct scan_part *p = &s->part;
	int r;

	if (!(raw->info->rollups >> s->resolution & 1))
		return 0;
	*p = *raw;
	p->hits = NULL;
	p->cap_hits = 0;
	p->reader = NULL;
	r = part_reader_open_at(raw->part, s->resolution, m->scan.env->budget, &p->reader, eb);
	if (r)
		return r == -ENOENT ? 0 : r;
	p->info = part_reader_info(p->reader);
	r = part_streams(p->reader, &p->streams);
	if (r)
		return scan_failed(p, r, eb);
	r = map_hits(m->scan.env->budget, raw, p);
	return r < 0 ? merge_no_memory(eb) : r;
}

static void add_span(struct merge_source *s, int64_t from, int64_t to)
{
	if (from > to)
		return;
	ASSERT(s->n_spans < ARRAY_SIZE(s->spans));
	s->spans[s->n_spans].from_ns = from;
	s->spans[s->n_spans++].to_ns = to;
}

/* The multiple of `width` at or above t; at or below. */
static int64_t up(int64_t t, int64_t width)
{
	int64_t rest = t % width;

	return rest > 0 ? t + (width - rest) : t - rest;
}

static int64_t down(int64_t t, int64_t width)
{
	int64_t rest = t % width;

	return rest < 0 ? t - (width + rest) : t - rest;
}

/* Raw times [from, to] from the sources[0 .. n), the coarsest first; what is left at both ends goes to the finer ones. */
static void divide(struct merge_source *sources, unsigned n, int64_t from, int64_t to)
{
	struct merge_source *s = &sources[n - 1];
	int64_t width = widths_ns[s->resolution], first, last;

	if (from > to)
		return;
	if (n == 1) {
		add_span(s, from, to);
		return;
	}
	if (!s->part.hits) {
		divide(sources, n - 1, from, to);
		return;
	}
	first = up(from - 1 + width, width); /* the bucket (first - width, first] lies within */
	last = down(to, width);
	if (first > last) {
		divide(sources, n - 1, from, to);
		return;
	}
	add_span(s, first, last);
	divide(sources, n - 1, from, first - width);
	divide(sources, n - 1, last + 1, to);
}

int merge_find_sources(struct merger *m, size_t part, struct errbuf *eb)
{
	struct merge_source *s = &m->sources[part * MERGE_RESOLUTIONS];
	const struct scan_part *raw = &m->scan.parts[part];
	const struct part_info *info = raw->info;
	int64_t from = m->spec->start_ns, to = m->spec->end_ns, hour = widths_ns[PART_1H];
	bool serve = raw->n_hits && rollups_serve(m, info);
	int r = 0;

	ASSERT(part < m->scan.n_parts);
	for (unsigned i = 0; i < MERGE_RESOLUTIONS; i++) {
		s[i].part_number = (uint32_t)part;
		s[i].resolution = (enum part_resolution)i;
		s[i].plan.ranges.budget = m->scan.env->budget;
	}
	s[PART_RAW].part = *raw;
	for (unsigned i = PART_10M; r >= 0 && serve && i < MERGE_RESOLUTIONS; i++) {
		r = open_rollup(m, &s[i], raw, eb);
		if (!r)
			merge_source_done(m, &s[i]);
	}
	if (r < 0)
		return r;
	/* Where the range holds all that the part has, its first and last bucket do too. */
	if (serve && info->min_time_ns >= from)
		from = down(info->min_time_ns - 1, hour) + 1;
	if (serve && info->max_time_ns <= to)
		to = up(info->max_time_ns, hour);
	divide(s, serve ? MERGE_RESOLUTIONS : 1, from, to);
	return 0;
}

void merge_source_done(struct merger *m, struct merge_source *s)
{
	rows_done(&s->plan.ranges);
	if (s->resolution == PART_RAW)
		return;
	part_reader_closep(&s->part.reader);
	budget_free(m->scan.env->budget, s->part.hits, s->part.cap_hits, sizeof(*s->part.hits));
	s->part.reader = NULL;
	s->part.hits = NULL;
	s->part.cap_hits = 0;
}
