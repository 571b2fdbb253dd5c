/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of profiles and of rows, filled side by side.
 */
#include "scraper/store/block/row_writer.h"
#include "lib/base/alloc.h"
#include "scraper/store/block/block.h"
#include "scraper/store/block/table_writer.h"
#include <string.h>

enum { PROFILE_PAGE = 8192, MAX_VALUES = STORE_MAX_COLUMNS };

/* Columns of the page of rows that is being filled. */
struct row_writer_page {
	uint32_t label_set[PAGE_MAX_ROWS], node[PAGE_MAX_ROWS], n;
	int64_t *value[MAX_VALUES];
	uint32_t first_stream, last_stream;
	int64_t min_time, max_time;
};

struct row_writer_profiles {
	int64_t time[PROFILE_PAGE], duration[PROFILE_PAGE], period[PROFILE_PAGE], first_row;
	int64_t before_begin[PROFILE_PAGE], after_last[PROFILE_PAGE]; /* of rollups */
	uint32_t n_rows[PROFILE_PAGE], n_profiles[PROFILE_PAGE], n;
	int64_t *total[MAX_VALUES];
	uint32_t first_stream, last_stream;
	int64_t min_time, max_time;
};

static enum frame_file profiles_of(enum part_resolution r)
{
	return r == PART_RAW   ? FRAME_PROFILES
	       : r == PART_10M ? FRAME_PROFILES_10M
			       : FRAME_PROFILES_1H;
}

static enum frame_file rows_of(enum part_resolution r)
{
	return r == PART_RAW ? FRAME_ROWS : r == PART_10M ? FRAME_ROWS_10M : FRAME_ROWS_1H;
}

int row_writer_open(struct row_writer *w, struct fs *fs, const char *dir,
	enum part_resolution resolution, int level)
{
	_cleanup_free_ char *rows = xasprintf("%s/%s", dir, frame_file_name(rows_of(resolution)));
	_cleanup_free_ char *profiles =
		xasprintf("%s/%s", dir, frame_file_name(profiles_of(resolution)));
	int r;

	*w = (struct row_writer) {.resolution = resolution,
		.rows_file = {.fd = -1},
		.profiles_file = {.fd = -1},
		.n_values = STORE_NONE,
		.min_time_ns = INT64_MAX,
		.max_time_ns = INT64_MIN};
	w->rows = try_malloc(sizeof(*w->rows));
	w->profiles = try_malloc(sizeof(*w->profiles));
	if (w->rows)
		memset(w->rows, 0, sizeof(*w->rows));
	if (w->profiles)
		memset(w->profiles, 0, sizeof(*w->profiles));
	if (!w->rows || !w->profiles)
		return -ENOMEM;
	r = frame_writer_open(&w->rows_file, fs, rows, rows_of(resolution));
	r = r < 0 ? r : frame_writer_open(&w->profiles_file, fs, profiles, profiles_of(resolution));
	if (r < 0)
		return r;
	page_writer_level(w->rows_file.pages, level);
	page_writer_level(w->profiles_file.pages, level);
	frame_writer_table_begin(&w->rows_file, TABLE_ROWS);
	frame_writer_table_begin(&w->profiles_file, TABLE_PROFILES);
	return 0;
}

void row_writer_done(struct row_writer *w)
{
	for (unsigned i = 0; i < MAX_VALUES; i++) {
		free(w->rows ? w->rows->value[i] : NULL);
		free(w->profiles ? w->profiles->total[i] : NULL);
	}
	free(w->rows);
	free(w->profiles);
	frame_writer_done(&w->rows_file);
	frame_writer_done(&w->profiles_file);
}

static void flush_rows(struct row_writer *s)
{
	struct page_writer *w = s->rows_file.pages;
	struct row_writer_page *p = s->rows;

	if (!p->n)
		return;
	page_writer_begin(w);
	page_writer_u32(w, p->label_set, p->n);
	page_writer_u32(w, p->node, p->n);
	for (uint32_t k = 0; k < s->n_values; k++) {
		if (k)
			page_writer_ratio(w, p->value[k], p->n, k + 1, p->value[k - 1]);
		else
			page_writer_i64(w, p->value[0], p->n);
	}
	frame_writer_page(
		&s->rows_file, p->n, p->first_stream, p->last_stream, p->min_time, p->max_time);
	s->n_row_pages++;
	p->n = 0;
}

static void flush_profiles(struct row_writer *s)
{
	struct page_writer *w = s->profiles_file.pages;
	struct row_writer_profiles *p = s->profiles;
	const int64_t resolution = s->resolution;
	unsigned first_total;

	if (!p->n)
		return;
	page_writer_begin(w);
	page_writer_i64(w, p->time, p->n);
	page_writer_i64(w, p->duration, p->n);
	page_writer_i64(w, p->period, p->n);
	page_writer_i64(w, &resolution, 1); /* const: holds for every row */
	page_writer_u32(w, p->n_profiles, p->n);
	page_writer_u32(w, p->n_rows, p->n);
	page_writer_i64(w, &p->first_row, 1);
	first_total = FRAME_PROFILE_COLUMNS;
	if (s->resolution != PART_RAW) {
		page_writer_i64(w, p->before_begin, p->n);
		page_writer_i64(w, p->after_last, p->n);
		first_total = FRAME_ROLLUP_COLUMNS;
	}
	for (uint32_t k = 0; k < s->n_values; k++) {
		if (k)
			page_writer_ratio(
				w, p->total[k], p->n, first_total + k - 1, p->total[k - 1]);
		else
			page_writer_i64(w, p->total[0], p->n);
	}
	frame_writer_page(
		&s->profiles_file, p->n, p->first_stream, p->last_stream, p->min_time, p->max_time);
	p->n = 0;
}

int row_writer_schema(struct row_writer *s, uint32_t n_values)
{
	flush_rows(s);
	flush_profiles(s);
	s->n_values = n_values;
	for (uint32_t k = 0; k < n_values; k++) {
		if (!s->rows->value[k])
			s->rows->value[k] = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(int64_t));
		if (!s->profiles->total[k])
			s->profiles->total[k] = try_realloc(NULL, PROFILE_PAGE, sizeof(int64_t));
		if (!s->rows->value[k] || !s->profiles->total[k])
			return -ENOMEM;
	}
	return 0;
}

void row_writer_row(struct row_writer *s, uint32_t stream, int64_t time, uint32_t label_set,
	uint32_t node, const int64_t *values)
{
	struct row_writer_page *p = s->rows;

	if (!p->n) {
		p->first_stream = stream;
		p->min_time = p->max_time = time;
	}
	p->last_stream = stream;
	p->min_time = MIN(p->min_time, time);
	p->max_time = MAX(p->max_time, time);
	p->label_set[p->n] = label_set;
	p->node[p->n] = node;
	for (uint32_t k = 0; k < s->n_values; k++)
		p->value[k][p->n] = values[k];
	if (++p->n == PAGE_MAX_ROWS)
		flush_rows(s);
}

void row_writer_profile(
	struct row_writer *s, uint32_t stream, const struct row_writer_profile *from)
{
	struct row_writer_profiles *p = s->profiles;

	if (!p->n) {
		p->first_stream = stream;
		p->first_row = (int64_t)s->n_rows;
		p->min_time = p->max_time = from->time_ns;
	}
	p->last_stream = stream;
	p->min_time = MIN(p->min_time, from->time_ns);
	p->max_time = MAX(p->max_time, from->time_ns);
	p->time[p->n] = from->time_ns;
	p->duration[p->n] = from->duration_ns;
	p->period[p->n] = from->period;
	p->before_begin[p->n] = (int64_t)((uint64_t)from->time_ns - (uint64_t)from->begin_ns);
	p->after_last[p->n] = (int64_t)((uint64_t)from->time_ns - (uint64_t)from->last_ns);
	p->n_rows[p->n] = from->n_rows;
	p->n_profiles[p->n] = from->n_profiles;
	for (uint32_t k = 0; k < s->n_values; k++)
		p->total[k][p->n] = from->totals[k];
	s->n_rows += from->n_rows;
	s->n_profiles++;
	s->min_time_ns = MIN(s->min_time_ns, from->time_ns);
	s->max_time_ns = MAX(s->max_time_ns, from->time_ns);
	s->max_duration_ns = MAX(s->max_duration_ns, from->duration_ns);
	if (++p->n == PROFILE_PAGE)
		flush_profiles(s);
}

static int put_streams(struct row_writer *w, const struct part_stream *streams, uint32_t n)
{
	_cleanup_(table_writer_done)
	struct table_writer t;
	int r = table_writer_begin(&t, &w->profiles_file, TABLE_STREAMS);

	for (uint32_t i = 0; !r && i < n; i++)
		table_writer_stream(&t, &streams[i]);
	if (!r)
		table_writer_end(&t);
	return r;
}

static void note(const struct row_writer *w, uint32_t n_streams, struct meta *m)
{
	if (w->resolution == PART_RAW) {
		m->stats.profiles = w->n_profiles;
		m->stats.rows = w->n_rows;
		m->stats.row_pages = w->n_row_pages;
		m->min_time_ns = w->min_time_ns;
		m->max_time_ns = w->max_time_ns;
		m->max_duration_ns = w->max_duration_ns;
		return;
	}
	m->rollups[w->resolution] = (struct meta_rollup) {.streams = n_streams,
		.profiles = w->n_profiles,
		.rows = w->n_rows,
		.row_pages = w->n_row_pages};
}

int row_writer_finish(struct row_writer *w, const struct part_stream *streams, uint32_t n_streams,
	struct meta *m, struct errbuf *eb)
{
	int r = 0;

	flush_rows(w);
	flush_profiles(w);
	frame_writer_table_end(&w->rows_file);
	frame_writer_table_end(&w->profiles_file);
	if (w->resolution != PART_RAW)
		r = put_streams(w, streams, n_streams);
	note(w, n_streams, m);
	r = r < 0 ? r : block_finish_file(&w->rows_file, rows_of(w->resolution), m, eb);
	return r < 0 ? r : block_finish_file(&w->profiles_file, profiles_of(w->resolution), m, eb);
}
