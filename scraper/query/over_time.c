/* SPDX-License-Identifier: Apache-2.0
 *
 * Series over time. Most of it reads profile totals only; rows are read where a matcher or grouping label is not a label of
 * the series, or where it depends on their stacks whether they count.
 *
 * A delta column adds to the buckets of its line as it comes. An instant column or gauge adds to a cell of (series, line),
 * with the number of scrapes per series and bucket beside it, since its mean is per series.
 */
#include "lib/base/alloc.h"
#include "scraper/query/coverage.h"
#include "scraper/query/group.h"
#include "scraper/query/lookback.h"
#include "scraper/query/rows.h"
#include "scraper/query/stacks.h"
#include "scraper/query/watched.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 11000 };
static const int64_t MAX_WINDOW_NS = 100000000000000000; /* three years; longer ones are cut */

/* One array of buckets, with what was put there at all. */
struct buckets {
	double *sum;
	uint8_t *present;
};

struct line {
	struct buckets b;
	uint32_t *profiles; /* of averages: how many there are in each bucket */
	uint64_t last;	    /* serial of the profile that was counted last */
	uint8_t *holds;	    /* a counter's points that are there when looking back */
	bool has_labels;
	struct labels labels;
};

struct cell {
	uint32_t series, line;
	struct buckets b;
};

/* Of an instant column or gauge, or when values are of what was watched. */
struct series {
	uint32_t *scrapes; /* of an instant column or gauge, in each bucket; NULL until touched */
	uint32_t target;   /* of the coverage, or TREE_NONE */
	bool is_found;	   /* the target was looked for */
	bool is_noted;	   /* the target's scrapes, when looking back */
};

struct over_time {
	struct scan scan;
	struct group_set groups;
	const struct query_spec *spec;
	struct arena arena; /* buckets */
	size_t n_points;
	int64_t window_ns;
	uint32_t type;
	bool is_delta;
	bool is_watched; /* values are of the time that was watched */
	struct line *lines;
	size_t n_lines, cap_lines;
	struct cell *cells;
	size_t n_cells, cap_cells;
	struct table cell_of; /* series << 32 | line → cell */
	struct series *series;
	size_t cap_series;
	struct coverage coverage; /* of an instant column, or when values are of what was watched */
	struct watched watched;
	uint32_t **covered; /* per target: scrapes in each bucket */
	bool by_stack;
	uint32_t n_classes; /* lines of a group or series, next to each other */
	struct lookback lookback;

	/* of the part in hand */
	struct scan_part *part;
	struct rows_ranges ranges;
	struct group_view view;
	uint32_t view_hit;
	struct arena part_arena;
	uint64_t serial; /* of the profile in hand, over all parts */
	const struct rows_range *range;
	const uint64_t *classes; /* by_stack: what a node's rows count for */
};

static struct budget *budget_of(const struct over_time *o)
{
	return o->scan.env->budget;
}

static void over_time_done(struct over_time *o)
{
	for (size_t i = 0; i < o->n_lines; i++)
		labels_done(&o->lines[i].labels);
	budget_free(budget_of(o), o->lines, o->cap_lines, sizeof(*o->lines));
	budget_free(budget_of(o), o->cells, o->cap_cells, sizeof(*o->cells));
	budget_free(budget_of(o), o->series, o->cap_series, sizeof(*o->series));
	coverage_done(&o->coverage);
	lookback_done(&o->lookback);
	rows_done(&o->ranges);
	table_done(&o->cell_of);
	table_done(&o->watched.pairs);
	group_view_done(&o->view);
	group_set_done(&o->groups);
	arena_done(&o->arena);
	arena_done(&o->part_arena);
	scan_done(&o->scan);
}

static int no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the query");
}

static int buckets_alloc(struct over_time *o, struct buckets *b)
{
	if (b->sum)
		return 0;
	b->sum = arena_zalloc(&o->arena, o->n_points * sizeof(*b->sum));
	b->present = arena_zalloc(&o->arena, o->n_points);
	return b->sum && b->present ? 0 : -ENOMEM;
}

static int line_at(struct over_time *o, uint32_t i, struct line **ret)
{
	size_t old = o->cap_lines;
	int r = alloc_grow_in(
		budget_of(o), &o->lines, &o->cap_lines, i + 1UL, sizeof(*o->lines), NULL);

	if (r)
		return r;
	if (o->cap_lines > old)
		memset(o->lines + old, 0, (o->cap_lines - old) * sizeof(*o->lines));
	o->n_lines = MAX(o->n_lines, i + 1UL);
	*ret = &o->lines[i];
	if (o->is_delta && o->spec->lookback_ns && !(*ret)->holds)
		(*ret)->holds = arena_zalloc(&o->arena, o->n_points);
	return arena_error(&o->arena, NULL) ? -ENOMEM : buckets_alloc(o, &(*ret)->b);
}

static int64_t reads_from(const struct over_time *o)
{
	return o->spec->start_ns - o->window_ns - o->spec->lookback_ns + 1;
}

/* The first point at or after time t, which may lie outside 0 .. n_points − 1. */
static int64_t point_from(const struct over_time *o, int64_t t)
{
	int64_t step = o->spec->step_ns, d = t - o->spec->start_ns;

	return d > 0 ? (d - 1) / step + 1 : -(-d / step);
}

/* The points whose windows (t − window, t] touch (after, until]: [*ret_first, *ret_end). */
static void points_of(const struct over_time *o, int64_t after, int64_t until, int64_t *ret_first,
	int64_t *ret_end)
{
	*ret_first = MAX(point_from(o, after + 1), (int64_t)0);
	*ret_end = MIN(point_from(o, until + o->window_ns), (int64_t)o->n_points);
}

/* Spreads `value` evenly over (time − duration, time]. */
static void spread(
	const struct over_time *o, struct buckets *b, int64_t time, int64_t duration, double value)
{
	int64_t first, end;

	duration = MIN(MAX(duration, 0), MAX_WINDOW_NS);
	points_of(o, time - MAX(duration, (int64_t)1), time, &first, &end);
	for (int64_t k = first; k < end; k++) {
		int64_t t = o->spec->start_ns + k * o->spec->step_ns;
		int64_t from = MAX(time - duration, t - o->window_ns), to = MIN(time, t);

		b->sum[k] += duration ? value * ((double)(to - from) / (double)duration) : value;
		b->present[k] = 1;
	}
}

static int cell_at(struct over_time *o, uint32_t series, uint32_t line, struct cell **ret)
{
	bool is_new;
	uint64_t *slot = table_insert(&o->cell_of, (uint64_t)series << 32 | line, &is_new);
	struct line *unused;
	int r = slot ? line_at(o, line, &unused) : -ENOMEM;

	if (!r && is_new)
		r = alloc_grow_in(budget_of(o), &o->cells, &o->cap_cells, o->n_cells + 1,
			sizeof(*o->cells), NULL);
	if (r)
		return r;
	if (is_new) {
		*slot = o->n_cells;
		o->cells[o->n_cells++] = (struct cell) {.series = series, .line = line};
	}
	*ret = &o->cells[*slot];
	return o->is_delta ? 0 : buckets_alloc(o, &(*ret)->b);
}

/* Scrapes per bucket of every target. */
static int load_coverage(struct over_time *o, struct errbuf *eb)
{
	int64_t first, end;
	int r = coverage_load(&o->coverage, &o->scan, reads_from(o), o->spec->end_ns, eb);
	size_t n = o->coverage.targets.n;

	o->covered = arena_alloc_array(&o->arena, n + 1, sizeof(*o->covered));
	for (size_t i = 0; !r && o->covered && i < n; i++) {
		const struct coverage_target *t = &o->coverage.items[i];

		o->covered[i] = arena_zalloc(&o->arena, o->n_points * sizeof(uint32_t));
		for (size_t k = 0; o->covered[i] && k < t->n; k++) {
			points_of(o, t->windows[k].end_ns - 1, t->windows[k].end_ns, &first, &end);
			for (int64_t at = first; at < end; at++)
				o->covered[i][at]++;
		}
	}
	if (!r && (!o->covered || arena_error(&o->arena, NULL)))
		r = no_memory(eb);
	return r;
}

static int series_at(struct over_time *o, const struct scan_hit *hit, struct series **ret)
{
	const struct scan_part *p = o->part;
	size_t old = o->cap_series;
	int r = alloc_grow_in(budget_of(o), &o->series, &o->cap_series, hit->series + 1UL,
		sizeof(*o->series), NULL);

	if (r)
		return r;
	memset(o->series + old, 0, (o->cap_series - old) * sizeof(*o->series));
	*ret = &o->series[hit->series];
	if ((*ret)->is_found)
		return 0;
	(*ret)->is_found = true;
	return coverage_find(&o->coverage, p, p->streams[hit->stream].label_set, &(*ret)->target);
}

static int count_scrapes(struct over_time *o, const struct scan_hit *hit, int64_t time, uint32_t n)
{
	int64_t first, end;
	struct series *series;
	int r = series_at(o, hit, &series);

	if (r)
		return r;
	if (!series->scrapes)
		series->scrapes = arena_zalloc(&o->arena, o->n_points * sizeof(uint32_t));
	if (!series->scrapes)
		return -ENOMEM;
	points_of(o, time - 1, time, &first, &end);
	for (int64_t k = first; k < end; k++)
		series->scrapes[k] += MAX(n, 1U);
	return 0;
}

/* An average takes profiles whole; a profile that comes in pieces counts once. */
static int put_average(struct over_time *o, uint32_t line, int64_t time, double value)
{
	int64_t first, end;
	struct line *l;
	int r = line_at(o, line, &l);

	if (!r && !l->profiles)
		l->profiles = arena_zalloc(&o->arena, o->n_points * sizeof(*l->profiles));
	if (r || !l->profiles)
		return -ENOMEM;
	points_of(o, time - 1, time, &first, &end);
	for (int64_t k = first; k < end; k++) {
		l->b.sum[k] += value;
		l->b.present[k] = 1;
		l->profiles[k] += l->last != o->serial;
	}
	l->last = o->serial;
	return 0;
}

static int note_target(struct over_time *o, const struct scan_hit *hit, uint32_t line)
{
	struct series *series;
	int r;

	if (!o->is_watched)
		return 0;
	r = series_at(o, hit, &series);
	return r || series->target == TREE_NONE
		       ? r
		       : watched_note(&o->watched, line / o->n_classes, series->target);
}

/* Puts the value of one profile (or of some of its rows) where it belongs. */
static int put(struct over_time *o, const struct scan_hit *hit, uint32_t line, int64_t time,
	int64_t duration, double value)
{
	struct line *l;
	struct cell *c = NULL;
	int64_t first, end;
	int r;

	if (o->spec->average)
		return put_average(o, line, time, value);
	if (o->is_delta) {
		r = o->spec->lookback_ns ? cell_at(o, hit->series, line, &c) : 0;
		r = r ? r : note_target(o, hit, line);
		r = r ? r : line_at(o, line, &l);
		if (!r)
			spread(o, &l->b, time, duration, value);
		return r;
	}
	r = cell_at(o, hit->series, line, &c);
	points_of(o, time - 1, time, &first, &end);
	for (int64_t k = first; !r && k < end; k++) {
		c->b.sum[k] += value;
		c->b.present[k] = 1;
	}
	return r;
}

/* Labels of an ungrouped series' line, once. */
static int label_series(struct over_time *o, const struct scan_part *p, const struct scan_hit *hit)
{
	_cleanup_labels_builder_ struct labels_builder b = {};
	struct line *l;
	int r;

	if (o->spec->group)
		return 0;
	r = line_at(o, hit->series * o->n_classes, &l);
	if (r || l->has_labels)
		return r;
	labels_builder_init(&b);
	scan_set_labels(p, p->streams[hit->stream].label_set, &b);
	r = labels_builder_finish(&b, &l->labels);
	l->has_labels = !r;
	return r;
}

/* Of rows that are not looked at, so there is one class. */
static uint32_t line_of_stream(const struct over_time *o, const struct scan_hit *hit)
{
	return o->spec->group ? o->view.constant : hit->series;
}

static int add_profile(
	struct over_time *o, uint32_t h, const struct part_profiles *p, size_t i, bool by_row)
{
	const struct scan_hit *hit = &o->part->hits[h];
	int64_t total = p->total[hit->column] ? p->total[hit->column][i] : 0;
	bool is_gauge = o->scan.types[o->type].kind == STORE_GAUGE;
	int r = 0;

	o->scan.env->stats.profiles++;
	o->serial++;
	if (!o->is_delta && !o->spec->average)
		r = count_scrapes(o, hit, p->time_ns[i], p->n_profiles[i]);
	if (!r && o->spec->lookback_ns)
		r = lookback_note(&o->lookback, hit->series, p->time_ns[i]);
	if (r)
		return r;
	if (by_row && (!o->spec->group || o->view.constant != TREE_NONE))
		r = note_target(o, hit, line_of_stream(o, hit) * o->n_classes);
	if (by_row)
		return r || hit->no_rows ? r : rows_add(&o->ranges, p, i, h);
	return put(o, hit, line_of_stream(o, hit), p->time_ns[i], p->duration_ns[i],
		is_gauge ? part_f64(total) : (double)total);
}

/*
 * The totals of a counter's stream that belong to one line. Most profiles lie inside one point's window, their neighbour's mostly, and
 * add to it as they are; those that cross a border are spread.
 */
static int add_totals(
	struct over_time *o, const struct scan_hit *hit, const struct part_profiles *p)
{
	const int64_t *total = p->total[hit->column], step = o->spec->step_ns;
	int64_t k = -1, until = 0;
	struct line *l = NULL;
	uint64_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		const int64_t time = p->time_ns[i], duration = MAX(p->duration_ns[i], 0);
		const double value = total ? (double)total[i] : 0;

		if (p->resolution[i] != PART_RAW)
			continue;
		if (!n++ && line_at(o, line_of_stream(o, hit), &l) < 0)
			return -ENOMEM;
		if (k >= 0 && time <= until && time - (until - step) >= MAX(duration, (int64_t)1)) {
			l->b.sum[k] += value;
			l->b.present[k] = 1;
			continue;
		}
		spread(o, &l->b, time, duration, value);
		k = o->window_ns == step ? point_from(o, time) : -1;
		k = k < (int64_t)o->n_points ? k : -1;
		until = o->spec->start_ns + k * step;
	}
	o->scan.env->stats.profiles += n;
	o->serial += n;
	return n ? note_target(o, hit, line_of_stream(o, hit)) : 0;
}

/* Does a counter's stream need no more than its totals, and one look at its line? */
static bool wants_totals(const struct over_time *o, bool by_row)
{
	return o->is_delta && !by_row && !o->spec->average && !o->spec->lookback_ns;
}

static int add_hit(struct over_time *o, uint32_t h, struct errbuf *eb)
{
	const struct query_spec *q = o->spec;
	struct scan_part *p = o->part;
	const struct scan_hit *hit = &p->hits[h];
	const struct part_stream *st = &p->streams[hit->stream];
	int64_t until = q->start_ns + (int64_t)(o->n_points - 1) * q->step_ns;
	struct part_profiles profiles;
	bool by_row = hit->row_mask || o->by_stack;
	int r = label_series(o, p, hit);

	if (!r && q->group) {
		r = group_view_start(&o->view, &o->groups, p, hit);
		by_row |= o->view.constant == TREE_NONE;
	}
	if (r)
		return no_memory(eb);
	if (o->is_delta && !q->average)
		until = tree_add(until, MAX(st->max_duration_ns, 0));
	r = by_row ? part_profiles(p->reader, hit->stream, reads_from(o), until, &profiles)
		   : part_totals(
			     p->reader, hit->stream, hit->column, reads_from(o), until, &profiles);
	if (r)
		return scan_failed(p, r, eb);
	if (wants_totals(o, by_row))
		return add_totals(o, hit, &profiles) < 0 ? no_memory(eb) : 0;
	for (size_t i = 0; !r && i < profiles.n; i++)
		if (profiles.resolution[i] == PART_RAW)
			r = add_profile(o, h, &profiles, i, by_row);
	return r ? no_memory(eb) : 0;
}

/* Rows of one profile, summed per line before they are spread: neighbours mostly belong to the same line. */
struct piece_sums {
	double of[TREE_MAX_CHOSEN + 1]; /* per class */
	uint64_t touched;		/* classes */
};

static int put_sums(
	struct over_time *o, const struct rows_piece *p, int64_t line, struct piece_sums *sums)
{
	int r = 0;

	for (; !r && sums->touched; sums->touched &= sums->touched - 1) {
		unsigned class = (unsigned)__builtin_ctzll(sums->touched);

		r = put(o, p->hit, (uint32_t)line * o->n_classes + class, p->range->time_ns,
			p->range->duration_ns, sums->of[class]);
		sums->of[class] = 0;
	}
	return r;
}

static void add_value(struct piece_sums *sums, uint64_t classes, int64_t value)
{
	sums->touched |= classes;
	for (; classes; classes &= classes - 1)
		sums->of[__builtin_ctzll(classes)] += (double)value;
}

static int add_piece(const struct rows_piece *p, void *ctx, struct errbuf *eb)
{
	struct over_time *o = ctx;
	struct piece_sums sums = {};
	int64_t line = 0;
	int r = 0;

	if (o->spec->group && o->view_hit != p->range->hit)
		r = group_view_start(&o->view, &o->groups, o->part, p->hit);
	o->view_hit = p->range->hit;
	o->serial += o->range != p->range;
	o->range = p->range;
	for (size_t i = 0; !r && i < p->n; i++) {
		uint32_t set = p->label_sets ? p->label_sets[i] : p->const_label_set;
		uint64_t classes = o->classes ? o->classes[p->nodes[i]] : 1;
		int64_t at;

		if (!classes || !scan_row_passes(o->part, p->hit->row_mask, set))
			continue;
		at = o->spec->group ? group_view_of(&o->view, set) : (int64_t)p->hit->series;
		if (at < 0)
			return no_memory(eb);
		if (at != line)
			r = put_sums(o, p, line, &sums);
		line = at;
		add_value(&sums, classes, p->values[i]);
	}
	if (!r)
		r = put_sums(o, p, line, &sums);
	return r ? no_memory(eb) : 0;
}

static int read_part(struct over_time *o, struct scan_part *p, struct errbuf *eb)
{
	int r = scan_cancelled(&o->scan, eb);

	o->part = p;
	o->ranges.n = 0;
	o->range = NULL;
	for (uint32_t h = 0; !r && h < p->n_hits; h++)
		r = add_hit(o, h, eb);
	o->view_hit = TREE_NONE;
	rows_sort(&o->ranges);
	arena_reset(&o->part_arena);
	if (!r && o->by_stack)
		r = stacks_of_part(&o->scan, p, &o->ranges, o->spec->stacks, o->spec->symbols,
			&o->part_arena, &o->classes, eb);
	return r ? r
		 : rows_walk(&(struct rows_job) {.scan = &o->scan,
				     .part = p,
				     .reader = p->reader,
				     .ranges = &o->ranges,
				     .to_row = UINT64_MAX,
				     .stats = &o->scan.env->stats},
			   add_piece, o, eb);
}

/* What point k of the cell is: the mean over all scrapes of the series' target, whether or not the series was in them. */
static double mean_of(const struct over_time *o, const struct cell *c, size_t k)
{
	const struct series *series = &o->series[c->series];
	uint32_t n = series->scrapes[k];

	if (series->target != TREE_NONE)
		n = MAX(n, o->covered[series->target][k]);
	return c->b.sum[k] / MAX(n, 1U);
}

static void fold_cells(struct over_time *o)
{
	for (size_t i = 0; i < o->n_cells; i++) {
		const struct cell *c = &o->cells[i];
		struct buckets *to = &o->lines[c->line].b;

		for (size_t k = 0; k < o->n_points; k++) {
			if (!c->b.present[k])
				continue;
			to->sum[k] += mean_of(o, c, k);
			to->present[k] = 1;
		}
	}
}

static void divide(struct over_time *o)
{
	for (size_t i = 0; i < o->n_lines; i++)
		for (size_t k = 0; o->lines[i].profiles && k < o->n_points; k++)
			o->lines[i].b.sum[k] /= MAX(o->lines[i].profiles[k], 1U);
}

static void divide_by_watched(void *ctx, uint32_t line, const double *ns)
{
	struct over_time *o = ctx;
	size_t first = (size_t)line * o->n_classes;

	for (size_t i = first; i < MIN(first + o->n_classes, o->n_lines); i++)
		for (size_t k = 0; o->lines[i].b.sum && k < o->n_points; k++)
			if (ns[k] > 0)
				o->lines[i].b.sum[k] *= (double)o->window_ns / ns[k];
}

/* Scrapes of the target count, so that a series which the last one lacked is gone. */
static int note_coverage(struct over_time *o, uint32_t at)
{
	struct series *series = &o->series[at];
	const struct coverage_target *t;
	int r = 0;

	if (series->is_noted || series->target == TREE_NONE)
		return 0;
	series->is_noted = true;
	t = &o->coverage.items[series->target];
	for (size_t i = 0; !r && i < t->n; i++)
		r = lookback_note(&o->lookback, at, t->windows[i].end_ns);
	return r;
}

/* Cells with what their series were last; of counters only whether the line holds. */
static int fold_looking_back(struct over_time *o)
{
	uint32_t *from = arena_alloc_array(&o->arena, o->n_points, sizeof(*from));
	uint8_t *ended = arena_alloc(&o->arena, o->n_points);
	int r = from && ended ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < o->n_cells; i++) {
		const struct cell *c = &o->cells[i];
		struct line *to = &o->lines[c->line];

		if (!o->is_delta)
			r = note_coverage(o, c->series);
		lookback_walk(&o->lookback, c->series, from, ended);
		for (size_t k = 0; !r && k < o->n_points; k++) {
			if (o->is_delta) {
				to->holds[k] |=
					from[k] != LOOKBACK_NONE || (to->b.present[k] && !ended[k]);
			} else if (from[k] < o->n_points && c->b.present[from[k]]) {
				to->b.sum[k] += mean_of(o, c, from[k]);
				to->b.present[k] = 1;
			}
		}
	}
	for (size_t i = 0; o->is_delta && i < o->n_lines; i++)
		if (o->lines[i].holds)
			memcpy(o->lines[i].b.present, o->lines[i].holds, o->n_points);
	return r;
}

static int emit_line(struct over_time *o, uint32_t i, struct arena *arena, struct query_line *ret)
{
	struct line *l = &o->lines[i];
	size_t n = 0;

	for (size_t k = 0; k < o->n_points; k++)
		n += l->b.present[k];
	if (!n)
		return 0;
	ret->points = arena_alloc_array(arena, n, sizeof(*ret->points));
	if (!ret->points)
		return -ENOMEM;
	for (size_t k = 0; k < o->n_points; k++) {
		if (!l->b.present[k])
			continue;
		ret->points[ret->n_points++] = (struct query_point) {
			o->spec->start_ns + (int64_t)k * o->spec->step_ns, l->b.sum[k]};
		ret->sum += l->b.sum[k];
	}
	ret->function = i % o->n_classes;
	if (o->spec->group)
		return group_set_labels(&o->groups, i / o->n_classes, &ret->labels);
	return labels_copy(&o->lines[i / o->n_classes * o->n_classes].labels, &ret->labels);
}

static int compare_lines(const void *a, const void *b)
{
	const struct query_line *x = a, *y = b;

	if (x->sum != y->sum)
		return x->sum < y->sum ? 1 : -1;
	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	return labels_compare(&x->labels, &y->labels);
}

static int finish(struct over_time *o, struct query_matrix *ret, struct errbuf *eb)
{
	int r = 0;

	if (o->spec->lookback_ns)
		r = fold_looking_back(o);
	else
		fold_cells(o);
	divide(o);
	if (!r && o->is_watched)
		r = watched_each(&o->watched, &o->coverage,
			&(struct watched_points) {
				o->spec->start_ns, o->spec->step_ns, o->window_ns, o->n_points},
			o->spec->of == QUERY_OF_SERVICE, divide_by_watched, o);
	ret->lines = arena_zalloc(&ret->arena, (o->n_lines + 1) * sizeof(*ret->lines));
	if (!ret->lines)
		return no_memory(eb);
	for (uint32_t i = 0; !r && i < o->n_lines; i++) {
		if (!o->lines[i].b.sum)
			continue;
		r = emit_line(o, i, &ret->arena, &ret->lines[ret->n_lines]);
		ret->n_lines += ret->lines[ret->n_lines].n_points > 0;
	}
	qsort(ret->lines, ret->n_lines, sizeof(*ret->lines), compare_lines);
	return r ? no_memory(eb) : 0;
}

static int check_spec(const struct query_spec *q, struct errbuf *eb)
{
	if (q->step_ns < 1000000)
		return err_set(eb, -EINVAL, "step: must be at least 1 ms");
	if (q->window_ns < 0 || q->window_ns > MAX_WINDOW_NS)
		return err_set(eb, -EINVAL, "window: must be between 0 and three years");
	if (q->end_ns < q->start_ns)
		return err_set(eb, -EINVAL, "end is before start");
	if ((q->end_ns - q->start_ns) / q->step_ns >= MAX_POINTS)
		return err_set(eb, -EINVAL,
			"exceeded maximum resolution of 11,000 points per timeseries; use a larger "
			"step");
	return 0;
}

/* Of targets: one that ends after the last point may have begun before it. */
static int64_t longest_window(const struct scan *s)
{
	int64_t longest = 0;

	for (size_t i = 0; i < s->n_parts; i++)
		for (uint32_t k = 0; k < s->parts[i].info->n_streams; k++)
			if (s->parts[i].schemas[s->parts[i].streams[k].schema].kind ==
				STORE_COVERAGE)
				longest = MAX(longest, s->parts[i].streams[k].max_duration_ns);
	return longest;
}

static int run(struct over_time *o, struct query_matrix *ret, struct errbuf *eb)
{
	int r = scan_select(&o->scan, o->spec->selector, eb);

	if (!r)
		r = query_find_type(&o->scan, o->spec->selector, &o->type, &ret->type, eb);
	if (r)
		return r == -ENOENT ? 0 : r;
	o->is_delta = ret->type.kind == STORE_DELTA;
	o->is_watched = o->is_delta && o->spec->of != QUERY_OF_MEASURED;
	if (o->by_stack && ret->type.kind == STORE_GAUGE)
		return err_set(eb, -EINVAL,
			"%s is a number over time and has no stacks to choose from", ret->type.id);
	if (ret->type.kind == STORE_INSTANT && !o->spec->average)
		r = load_coverage(o, eb);
	if (o->is_watched)
		r = coverage_load(&o->coverage, &o->scan, reads_from(o),
			tree_add(o->spec->end_ns, longest_window(&o->scan)), eb);
	o->lookback = (struct lookback) {.arena = &o->arena,
		.start_ns = o->spec->start_ns,
		.step_ns = o->spec->step_ns,
		.for_ns = o->spec->lookback_ns,
		.n_points = o->n_points};
	if (!r && o->spec->lookback_ns)
		r = lookback_load(&o->lookback, &o->scan, o->type, eb);
	for (size_t i = 0; !r && i < o->scan.n_parts; i++) {
		r = read_part(o, &o->scan.parts[i], eb);
		scan_close_part(&o->scan.parts[i]);
	}
	return r ? r : finish(o, ret, eb);
}

static int over_time_once(struct query_env *env, const struct query_spec *spec,
	struct query_matrix *ret, struct errbuf *eb)
{
	_cleanup_(over_time_done)
	struct over_time o = {.spec = spec, .scan.env = env};
	int r = check_spec(spec, eb);

	*ret = (struct query_matrix) {};
	if (r)
		return r;
	arena_init(&ret->arena, env->budget);
	arena_init(&o.arena, env->budget);
	arena_init(&o.part_arena, env->budget);
	o.ranges.budget = env->budget;
	o.by_stack = spec->stacks && !tree_choice_is_empty(spec->stacks);
	o.n_classes =
		o.by_stack && spec->stacks->n_frames ? (uint32_t)spec->stacks->n_frames + 1 : 1;
	table_init(&o.cell_of, env->budget);
	table_init(&o.watched.pairs, env->budget);
	o.n_points = (size_t)((spec->end_ns - spec->start_ns) / spec->step_ns) + 1;
	o.window_ns = spec->window_ns ? spec->window_ns : spec->step_ns;
	r = scan_open(&o.scan, env, spec->terms, reads_from(&o), spec->end_ns, spec->group_by,
		spec->n_group_by, eb);
	group_set_init(&o.groups, &o.scan, spec->max_groups);
	if (!r)
		r = run(&o, ret, eb);
	if (r)
		query_matrix_done(ret);
	return r;
}

int query_over_time(struct query_env *env, const struct query_spec *spec, struct query_matrix *ret,
	struct errbuf *eb)
{
	size_t n_damaged;
	int r;

	do {
		n_damaged = scan_n_damaged(env);
		r = over_time_once(env, spec, ret, eb);
	} while (scan_met_damage(env, r, n_damaged));
	return r;
}

void query_matrix_done(struct query_matrix *m)
{
	for (size_t i = 0; i < m->n_lines; i++)
		labels_done(&m->lines[i].labels);
	arena_done(&m->arena);
	query_type_done(&m->type);
	*m = (struct query_matrix) {};
}
