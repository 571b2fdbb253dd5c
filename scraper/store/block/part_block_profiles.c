/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiles of a block: pages are decoded one at a time, since a day of many small streams has more of them than memory should
 * hold; page tables answer what many streams have in common, where they suffice.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block/part_block.h"
#include <string.h>

/* First index of time[0 .. n) that is ≥ t. */
static size_t lower_bound(const int64_t *time, size_t n, int64_t t)
{
	size_t lo = 0;

	while (n) {
		size_t half = n / 2;

		if (time[lo + half] < t) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

/* Arrays of a page that was decoded for its totals alone are not all there. */
static const int64_t *after_i64(const int64_t *p, size_t n)
{
	return p ? p + n : NULL;
}

static const uint32_t *after_u32(const uint32_t *p, size_t n)
{
	return p ? p + n : NULL;
}

static const uint64_t *after_u64(const uint64_t *p, size_t n)
{
	return p ? p + n : NULL;
}

static void view_profiles(
	const struct profile_page *p, size_t first, size_t n, struct part_profiles *ret)
{
	*ret = (struct part_profiles) {
		.n = n,
		.time_ns = p->time_ns + first,
		.duration_ns = p->duration_ns + first,
		.period = after_i64(p->period, first),
		.resolution = p->resolution + first,
		.n_profiles = p->n_profiles + first,
		.n_rows = after_u32(p->n_rows, first),
		.first_row = after_u64(p->first_row, first),
		.begin_ns = after_i64(p->begin_ns, first),
		.last_ns = after_i64(p->last_ns, first),
	};
	for (uint32_t k = 0; k < p->n_columns; k++)
		ret->total[k] = after_i64(p->total[k], first);
}

/* What is asked of pages: the total of one column, or everything. */
enum { ALL_COLUMNS = STORE_MAX_COLUMNS };

/* Pages with one total stand in the cache beside whole ones. */
static uint32_t cache_table(const struct part_reader *r, uint32_t column)
{
	return column == ALL_COLUMNS ? part_block_cache_table(r, TABLE_PROFILES)
				     : CACHE_TOTALS + column;
}

static int decode_page(
	struct part_reader *r, const struct frame_page *at, uint32_t column, struct decoded *d)
{
	struct block *b = (struct block *)r->part;
	_cleanup_free_ char *path = part_block_path(r, TABLE_PROFILES);
	_cleanup_free_ struct page *p = NULL;
	int x = frame_read_columns(b->fs, path, at,
		column == ALL_COLUMNS ? UINT32_MAX : block_totals_columns(column), &p, &r->errbuf);

	if (x < 0)
		return x;
	return column == ALL_COLUMNS ? block_decode_profiles(p, r->info.resolution, d, &r->errbuf)
				     : block_decode_totals(p, column, d, &r->errbuf);
}

/* Pins the page in r->profiles_pin. */
static int load_page(
	struct part_reader *r, const struct frame_pages *pages, uint32_t number, uint32_t column)
{
	struct cache *c = ((struct block *)r->part)->cache;
	struct decoded d = {.data = NULL};
	int x;

	r->profiles_pin = cache_get(c, r->part->id, cache_table(r, ALL_COLUMNS), number);
	if (!r->profiles_pin && column != ALL_COLUMNS)
		r->profiles_pin = cache_get(c, r->part->id, cache_table(r, column), number);
	if (r->profiles_pin)
		return 0;
	x = decode_page(r, &pages->pages[number], column, &d);
	if (x < 0) {
		free(d.data);
		return part_block_failed(r, x);
	}
	r->profiles_pin =
		cache_add_cold(c, r->part->id, cache_table(r, column), number, d.data, d.bytes);
	return r->profiles_pin ? 0 : err_set(&r->errbuf, -ENOMEM, "out of memory reading a block");
}

/* Page `number` decoded, until the next call on this reader. */
static int profile_page(struct part_reader *r, const struct frame_pages *pages, uint32_t number,
	uint32_t column, uint32_t n_columns, const struct profile_page **ret)
{
	int x = 0;

	if (!r->profiles_pin || r->profiles_number != number || r->profiles_column != column) {
		if (r->profiles_pin)
			cache_unpin(((struct block *)r->part)->cache, TAKE(r->profiles_pin));
		x = load_page(r, pages, number, column);
		r->profiles_number = number;
		r->profiles_column = column;
	}
	if (x < 0)
		return x;
	*ret = r->profiles_pin->data;
	return (*ret)->n_columns == n_columns
		       ? 0
		       : part_block_failed(r, err_set(&r->errbuf, -EBADMSG,
						      "profile page %u has %u columns, %u expected",
						      number, (*ret)->n_columns, n_columns));
}

/* A stream that goes over pages is copied together. */
struct joined {
	int64_t *time, *duration, *period, *begin, *last, *total[STORE_MAX_COLUMNS];
	uint8_t *resolution;
	uint32_t *n_profiles, *n_rows;
	uint64_t *first_row;
};

static int joined_alloc(
	struct part_reader *r, struct joined *j, size_t n, uint32_t column, uint32_t n_columns)
{
	struct arena *a = &r->profiles;

	j->time = arena_alloc_array(a, n, sizeof(*j->time));
	j->duration = arena_alloc_array(a, n, sizeof(*j->duration));
	j->resolution = arena_alloc(a, n);
	j->n_profiles = arena_alloc_array(a, n, sizeof(*j->n_profiles));
	if (r->info.resolution != PART_RAW) {
		j->begin = arena_alloc_array(a, n, sizeof(*j->begin));
		j->last = arena_alloc_array(a, n, sizeof(*j->last));
	}
	if (column == ALL_COLUMNS) {
		j->period = arena_alloc_array(a, n, sizeof(*j->period));
		j->n_rows = arena_alloc_array(a, n, sizeof(*j->n_rows));
		j->first_row = arena_alloc_array(a, n, sizeof(*j->first_row));
	}
	for (uint32_t k = 0; k < n_columns; k++)
		if (column == ALL_COLUMNS || column == k)
			j->total[k] = arena_alloc_array(a, n, sizeof(**j->total));
	return arena_error(a, &r->errbuf);
}

/* What was made room for is in every page. */
static void join(struct joined *j, size_t at, const struct part_profiles *p, uint32_t n_columns)
{
	memcpy(j->time + at, p->time_ns, p->n * sizeof(*j->time));
	memcpy(j->duration + at, p->duration_ns, p->n * sizeof(*j->duration));
	memcpy(j->resolution + at, p->resolution, p->n);
	memcpy(j->n_profiles + at, p->n_profiles, p->n * sizeof(*j->n_profiles));
	if (j->begin) {
		memcpy(j->begin + at, p->begin_ns, p->n * sizeof(*j->begin));
		memcpy(j->last + at, p->last_ns, p->n * sizeof(*j->last));
	}
	if (j->first_row) {
		memcpy(j->period + at, p->period, p->n * sizeof(*j->period));
		memcpy(j->n_rows + at, p->n_rows, p->n * sizeof(*j->n_rows));
		memcpy(j->first_row + at, p->first_row, p->n * sizeof(*j->first_row));
	}
	for (uint32_t k = 0; k < n_columns; k++)
		if (j->total[k])
			memcpy(j->total[k] + at, p->total[k], p->n * sizeof(**j->total));
}

static int join_pages(struct part_reader *r, const struct frame_pages *pages, uint64_t first,
	uint64_t end, uint32_t column, uint32_t n_columns, struct part_profiles *ret)
{
	struct joined j = {.time = NULL};
	int x = joined_alloc(r, &j, (size_t)(end - first), column, n_columns);

	for (uint64_t row = first; x >= 0 && row < end;) {
		uint32_t number = frame_page_of(pages, row);
		const struct frame_page *at = &pages->pages[number];
		uint64_t last = MIN(end, at->first_row + at->n_rows);
		struct part_profiles view;
		const struct profile_page *p = NULL;

		x = profile_page(r, pages, number, column, n_columns, &p);
		if (x < 0)
			return x;
		view_profiles(p, (size_t)(row - at->first_row), (size_t)(last - row), &view);
		join(&j, (size_t)(row - first), &view, n_columns);
		row = last;
	}
	*ret = (struct part_profiles) {
		.n = (size_t)(end - first),
		.time_ns = j.time,
		.duration_ns = j.duration,
		.period = j.period,
		.resolution = j.resolution,
		.n_profiles = j.n_profiles,
		.n_rows = j.n_rows,
		.first_row = j.first_row,
		.begin_ns = j.begin,
		.last_ns = j.last,
	};
	for (uint32_t k = 0; k < n_columns; k++)
		ret->total[k] = j.total[k];
	return x;
}

static void cut_to_range(struct part_profiles *p, int64_t from, int64_t to)
{
	size_t lo = lower_bound(p->time_ns, p->n, from);
	size_t hi = to == INT64_MAX ? p->n : lower_bound(p->time_ns, p->n, to + 1);

	p->n = hi > lo ? hi - lo : 0;
	p->time_ns += lo;
	p->duration_ns += lo;
	p->period = after_i64(p->period, lo);
	p->resolution += lo;
	p->n_profiles += lo;
	p->n_rows = after_u32(p->n_rows, lo);
	p->first_row = after_u64(p->first_row, lo);
	p->begin_ns = after_i64(p->begin_ns, lo);
	p->last_ns = after_i64(p->last_ns, lo);
	for (unsigned k = 0; k < STORE_MAX_COLUMNS; k++)
		p->total[k] = after_i64(p->total[k], lo);
}

static int read_profiles(struct part_reader *r, uint32_t stream, uint32_t column, int64_t from,
	int64_t to, struct part_profiles *ret)
{
	const struct frame_pages *pages = NULL;
	const struct stream_table *streams = NULL;
	const struct part_schema *schemas = NULL;
	const struct profile_page *p = NULL;
	uint64_t first, end;
	uint32_t number, n_columns;
	int x = part_block_streams(r, &streams);

	*ret = (struct part_profiles) {.n = 0};
	arena_reset(&r->profiles);
	x = x < 0 ? x : part_block_schemas(r, &schemas);
	x = x < 0 ? x : part_block_pages(r, TABLE_PROFILES, r->info.n_profiles, &pages);
	if (x < 0)
		return x;
	first = streams->first_profile[stream];
	end = streams->first_profile[stream + 1];
	if (first == end || streams->streams[stream].max_time_ns < from ||
		streams->streams[stream].min_time_ns > to)
		return 0;
	n_columns = schemas[streams->streams[stream].schema].n_columns;
	number = frame_page_of(pages, first);
	if (end > pages->pages[number].first_row + pages->pages[number].n_rows) {
		x = join_pages(r, pages, first, end, column, n_columns, ret);
	} else {
		x = profile_page(r, pages, number, column, n_columns, &p);
		if (x >= 0)
			view_profiles(p, (size_t)(first - pages->pages[number].first_row),
				(size_t)(end - first), ret);
	}
	if (x >= 0)
		cut_to_range(ret, from, to);
	return x;
}

int block_profiles_written(
	struct part_reader *r, uint32_t stream, int64_t from, int64_t to, struct part_profiles *ret)
{
	return read_profiles(r, stream, ALL_COLUMNS, from, to, ret);
}

int part_block_totals(struct part_reader *r, uint32_t stream, uint32_t column, int64_t from,
	int64_t to, struct part_profiles *ret)
{
	const struct block *b = (const struct block *)r->part;

	return r->info.resolution == PART_RAW && !b->meta.tombstones.n
		       ? read_profiles(r, stream, column, from, to, ret)
		       : part_block_profiles(r, stream, from, to, ret);
}

int part_block_profiles(
	struct part_reader *r, uint32_t stream, int64_t from, int64_t to, struct part_profiles *ret)
{
	const struct block *b = (const struct block *)r->part;
	int x = block_profiles_written(r, stream, from, to, ret);

	return x < 0 || !b->meta.tombstones.n ? x : block_profiles_left(r, stream, ret);
}

/* ---- spans ---- */

enum {
	COLUMN_TIME,
	COLUMN_DURATION,
	COLUMN_PERIOD,
	COLUMN_RESOLUTION,
	COLUMN_MERGED,
	COLUMN_ROWS,
	COLUMN_FIRST_ROW,
	CONSTANT_COLUMNS = 1 << COLUMN_DURATION | 1 << COLUMN_PERIOD | 1 << COLUMN_RESOLUTION |
			   1 << COLUMN_MERGED,
	SPAN_COLUMNS =
		CONSTANT_COLUMNS | 1 << COLUMN_TIME | 1 << COLUMN_ROWS | 1 << COLUMN_FIRST_ROW,
};

static void span_add(struct part_span *s, uint64_t n, int64_t begin, int64_t time, int64_t duration,
	int64_t period)
{
	int64_t sum;

	if (__builtin_mul_overflow((int64_t)n, duration, &sum) ||
		__builtin_add_overflow(sum, s->duration_ns, &s->duration_ns))
		s->duration_ns = INT64_MAX;
	s->period = !s->n_profiles || s->period == period ? period : 0;
	s->min_begin_ns = s->n_profiles ? MIN(s->min_begin_ns, begin) : begin;
	s->max_time_ns = s->n_profiles ? MAX(s->max_time_ns, time) : time;
	s->n_profiles += n;
}

static int64_t begin_of(int64_t time, int64_t duration)
{
	int64_t begin;

	return __builtin_sub_overflow(time, MAX(duration, 0), &begin) ? INT64_MIN : begin;
}

/* Profiles [lo, hi) of a page that have columns of their own values; *ret_row: the first row of profile lo, *ret_end of hi. */
static int span_decode(struct part_reader *r, const struct page *p, size_t lo, size_t hi,
	struct part_span *s, uint64_t *ret_row, uint64_t *ret_end)
{
	_cleanup_free_ int64_t *v = try_realloc(NULL, p->n_rows, 4 * sizeof(*v));
	int64_t *time = v, *duration = v + p->n_rows, *period = v + 2UL * p->n_rows,
		*rows = v + 3UL * p->n_rows, first = 0;
	struct errbuf *eb = &r->errbuf;
	uint64_t row;
	int x = v ? 0 : err_set(eb, -ENOMEM, "out of memory reading profiles");

	x = x ? x : page_i64(p, COLUMN_TIME, p->n_rows, time, eb);
	x = x ? x : page_i64(p, COLUMN_DURATION, p->n_rows, duration, eb);
	x = x ? x : page_i64(p, COLUMN_PERIOD, p->n_rows, period, eb);
	x = x ? x : page_i64(p, COLUMN_ROWS, p->n_rows, rows, eb);
	x = x ? x : page_i64(p, COLUMN_FIRST_ROW, 1, &first, eb);
	row = (uint64_t)first;
	for (size_t i = 0; !x && i < hi; i++) {
		if (i == lo)
			*ret_row = row;
		row += (uint64_t)rows[i];
		if (i >= lo)
			span_add(s, 1, begin_of(time[i], duration[i]), time[i], MAX(duration[i], 0),
				period[i]);
	}
	*ret_end = row;
	return x;
}

/*
 * One page of a span. The entry in the page table suffices for an inner one with a constant window and period; others are decoded.
 * 1: it holds other than raw profiles.
 */
static int span_page(struct part_reader *r, const struct frame_page *at, uint64_t first,
	uint64_t end, struct part_span *s)
{
	const struct block *b = (const struct block *)r->part;
	_cleanup_free_ char *path = part_block_path(r, TABLE_PROFILES);
	uint64_t after = at->first_row + at->n_rows, row = 0, row_end = 0;
	bool inner = at->first_row > first && after < end;
	int64_t duration = 0, period = 0, resolution = 0, merged = 0;
	_cleanup_free_ struct page *p = NULL, *more = NULL;
	int x = frame_read_columns(
		b->fs, path, at, inner ? CONSTANT_COLUMNS : SPAN_COLUMNS, &p, &r->errbuf);

	if (x < 0)
		return x;
	if (!page_is_const(p, COLUMN_RESOLUTION, &resolution) || resolution != PART_RAW ||
		!page_is_const(p, COLUMN_MERGED, &merged) || merged != 1)
		return 1;
	if (inner && page_is_const(p, COLUMN_DURATION, &duration) &&
		page_is_const(p, COLUMN_PERIOD, &period)) {
		span_add(s, at->n_rows, begin_of(at->min_time_ns, duration), at->max_time_ns,
			MAX(duration, 0), period);
		return 0;
	}
	if (inner)
		x = frame_read_columns(b->fs, path, at, SPAN_COLUMNS, &more, &r->errbuf);
	if (x >= 0)
		x = span_decode(r, inner ? more : p,
			(size_t)(MAX(first, at->first_row) - at->first_row),
			(size_t)(MIN(end, after) - at->first_row), s, &row, &row_end);
	if (at->first_row <= first)
		s->first_row = row;
	if (after >= end)
		s->n_rows = row_end - s->first_row;
	return x;
}

int part_block_span(
	struct part_reader *r, uint32_t stream, uint32_t n_streams, struct part_span *ret)
{
	const struct frame_pages *pages = NULL;
	const struct stream_table *streams = NULL;
	uint64_t first, end;
	int x;

	*ret = (struct part_span) {.n_rows = 0};
	if (r->info.resolution != PART_RAW || r->info.has_deletions)
		return 1;
	x = part_block_streams(r, &streams);
	x = x < 0 ? x : part_block_pages(r, TABLE_PROFILES, r->info.n_profiles, &pages);
	if (x < 0)
		return x;
	first = streams->first_profile[stream];
	end = streams->first_profile[stream + n_streams];
	if (first == end)
		return 0;
	for (uint32_t i = frame_page_of(pages, first);
		!x && i < pages->n_pages && pages->pages[i].first_row < end; i++)
		x = span_page(r, &pages->pages[i], first, end, ret);
	return x < 0 ? part_block_failed(r, x) : x;
}
