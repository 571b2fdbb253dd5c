/* SPDX-License-Identifier: Apache-2.0
 *
 * One record into the head: dictionaries, then the profiles of each schema with their pages of
 * rows, then publication.
 */
#include "lib/base/alloc.h"
#include "lib/prof/profile.h"
#include "scraper/store/head/head.h"
#include <string.h>

/* One group of profiles and the row groups that follow it. */
struct head_unit {
	uint32_t n, n_values;
	uint32_t *stream, *n_rows;
	int64_t *time, *duration, *period, *totals; /* totals row-major */
	struct record_group *pages;
	size_t n_pages, cap_pages;
	uint64_t rows_expected, rows_seen;
	struct bytes filtered; /* pages that were rewritten without rows that refer to holes */
};

static void unit_done(struct head_unit *u)
{
	free(u->stream);
	free(u->n_rows);
	free(u->time);
	free(u->duration);
	free(u->period);
	free(u->totals);
	free(u->pages);
	bytes_done(&u->filtered);
	*u = (struct head_unit) {.n = 0};
}

static int unit_alloc(struct head_unit *u)
{
	u->stream = try_realloc(NULL, u->n, sizeof(*u->stream));
	u->n_rows = try_realloc(NULL, u->n, sizeof(*u->n_rows));
	u->time = try_realloc(NULL, u->n, sizeof(*u->time));
	u->duration = try_realloc(NULL, u->n, sizeof(*u->duration));
	u->period = try_realloc(NULL, u->n, sizeof(*u->period));
	u->totals = try_realloc(NULL, (size_t)u->n * (u->n_values + 1), sizeof(*u->totals));
	return u->stream && u->n_rows && u->time && u->duration && u->period && u->totals ? 0
											  : -ENOMEM;
}

static int unit_begin(
	struct head_unit *u, struct head *h, const struct record_group *g, struct errbuf *eb)
{
	struct page p;
	int64_t *column;
	int r = page_view(g->data, g->len, g->n_columns, g->n, &p, eb);

	if (r < 0)
		return r;
	if (g->n > PAGE_MAX_ROWS || g->n_columns < PROFILE_COLUMNS)
		return err_set(
			eb, -EBADMSG, "group of %u profiles, %u columns", g->n, g->n_columns);
	u->n = g->n;
	u->n_values = g->n_columns - PROFILE_COLUMNS;
	r = unit_alloc(u);
	if (r < 0)
		return r;
	r = page_u32(&p, 0, u->n, (uint32_t)h->dict.streams.n, u->stream, eb);
	r = r ? r : page_i64(&p, 1, u->n, u->time, eb);
	r = r ? r : page_i64(&p, 2, u->n, u->duration, eb);
	r = r ? r : page_i64(&p, 3, u->n, u->period, eb);
	r = r ? r : page_u32(&p, 4, u->n, UINT32_MAX, u->n_rows, eb);
	column = u->totals + (size_t)u->n * u->n_values;
	for (uint32_t k = 0; r >= 0 && k < u->n_values; k++) {
		r = page_i64(&p, PROFILE_COLUMNS + k, u->n, column, eb);
		for (uint32_t i = 0; r >= 0 && i < u->n; i++)
			u->totals[(size_t)i * u->n_values + k] = column[i];
	}
	for (uint32_t i = 0; r >= 0 && i < u->n; i++) {
		const struct part_schema *s =
			&dict_schemas(&h->dict)[dict_streams(&h->dict)[u->stream[i]].schema];

		u->rows_expected += u->n_rows[i];
		if (s->n_columns != u->n_values &&
			!dict_is_hole(&h->dict, DICT_STREAMS, u->stream[i]))
			r = err_set(eb, -EBADMSG, "stream %u has %u columns, %u expected",
				u->stream[i], s->n_columns, u->n_values);
	}
	return r;
}

static int unit_add_page(struct head_unit *u, const struct record_group *g, struct errbuf *eb)
{
	if (!g->n || g->n > PAGE_MAX_ROWS || g->n_columns != ROW_COLUMNS + u->n_values ||
		g->n > u->rows_expected - u->rows_seen)
		return err_set(eb, -EBADMSG, "group of %u rows where none is expected", g->n);
	if (alloc_grow(&u->pages, &u->cap_pages, u->n_pages + 1, sizeof(*u->pages)) < 0)
		return -ENOMEM;
	u->pages[u->n_pages++] = *g;
	u->rows_seen += g->n;
	return 0;
}

/* Rows of a unit decoded, for checks and for filtering. */
struct rows {
	uint32_t *label_set, *node;
	int64_t *value; /* column by column, PAGE_MAX_ROWS apart */
};

static void rows_done(struct rows *w)
{
	free(w->label_set);
	free(w->node);
	free(w->value);
}

static int rows_alloc(struct rows *w, uint32_t n_values)
{
	w->label_set = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*w->label_set));
	w->node = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*w->node));
	w->value = try_realloc(NULL, (size_t)PAGE_MAX_ROWS * (n_values + 1), sizeof(*w->value));
	return w->label_set && w->node && w->value ? 0 : -ENOMEM;
}

static int read_rows(const struct head *h, const struct record_group *g, struct rows *w,
	bool with_values, struct errbuf *eb)
{
	struct page p;
	int r = page_view(g->data, g->len, g->n_columns, g->n, &p, eb);

	r = r ? r
	      : page_u32(
			&p, 0, g->n, (uint32_t)dict_n(&h->dict, DICT_LABEL_SETS), w->label_set, eb);
	r = r ? r : page_u32(&p, 1, g->n, (uint32_t)dict_n(&h->dict, DICT_NODES), w->node, eb);
	for (uint32_t k = 0; r >= 0 && with_values && k < g->n_columns - ROW_COLUMNS; k++)
		r = page_i64(&p, ROW_COLUMNS + k, g->n, w->value + (size_t)k * PAGE_MAX_ROWS, eb);
	return r;
}

static void add_page(
	struct head *h, const struct head_unit *u, const void *data, size_t len, uint32_t n_rows)
{
	int r = 0;
	struct part_page *page = varr_room(&h->pages, 1, &r);
	struct head_page *where = varr_room(&h->page_data, 1, &r);
	void *copy = arena_alloc(&h->bytes, len);

	/* head_reserve made room. */
	ASSERT(page && where && copy);
	memcpy(copy, data, len);
	*where = (struct head_page) {
		.data = copy, .len = (uint32_t)len, .n_columns = ROW_COLUMNS + u->n_values};
	*page = (struct part_page) {
		.first_row = h->published.n_rows,
		.n_rows = n_rows,
		.first_stream = u->stream[0],
		.last_stream = u->stream[0],
		.min_time_ns = u->time[0],
		.max_time_ns = u->time[0],
	};
	for (uint32_t i = 1; i < u->n; i++) {
		page->first_stream = MIN(page->first_stream, u->stream[i]);
		page->last_stream = MAX(page->last_stream, u->stream[i]);
		page->min_time_ns = MIN(page->min_time_ns, u->time[i]);
		page->max_time_ns = MAX(page->max_time_ns, u->time[i]);
	}
	h->pages.n++;
	h->page_data.n++;
	h->published.n_rows += n_rows;
}

static void add_profile(struct head *h, const struct head_unit *u, uint32_t i, uint64_t first_row)
{
	int r = 0;
	struct head_profile *p = varr_room(&h->profiles, 1, &r);
	int64_t *totals = varr_room(&h->totals, u->n_values, &r);
	struct head_stream *s = &head_streams(h)[u->stream[i]];
	struct head_published *all = &h->published;

	ASSERT(p && totals);
	*p = (struct head_profile) {
		.stream = u->stream[i],
		.previous = s->last_profile - 1, /* 0 - 1 is STORE_NONE */
		.window = (uint32_t)h->windows.n - 1,
		.n_rows = u->n_rows[i],
		.first_row = first_row,
		.first_total = h->totals.n,
	};
	memcpy(totals, u->totals + (size_t)i * u->n_values, u->n_values * sizeof(*totals));
	h->totals.n += u->n_values;
	s->min_time_ns = s->n_profiles ? MIN(s->min_time_ns, u->time[i]) : u->time[i];
	s->max_time_ns = s->n_profiles ? MAX(s->max_time_ns, u->time[i]) : u->time[i];
	s->max_duration_ns = MAX(s->max_duration_ns, u->duration[i]);
	s->n_profiles++;
	s->last_profile = (uint32_t)++h->profiles.n;
	all->min_time_ns = MIN(all->min_time_ns, u->time[i]);
	all->max_time_ns = MAX(all->max_time_ns, u->time[i]);
	all->max_duration_ns = MAX(all->max_duration_ns, u->duration[i]);
}

/* Profiles of one scrape share their window. */
static void add_window(struct head *h, const struct head_unit *u, uint32_t i)
{
	const struct head_window *last = h->windows.n ? &head_windows(h)[h->windows.n - 1] : NULL;
	int r = 0;
	struct head_window *w;

	if (last && u->time[i] == last->time_ns && u->duration[i] == last->duration_ns &&
		u->period[i] == last->period)
		return;
	w = varr_room(&h->windows, 1, &r);
	ASSERT(w);
	*w = (struct head_window) {
		.time_ns = u->time[i], .duration_ns = u->duration[i], .period = u->period[i]};
	h->windows.n++;
}

/* Rewrites the pages of a unit without the rows that refer to holes; counts and totals follow. */
static int filter_rows(struct head *h, struct head_unit *u, struct bytes *out, size_t *ends,
	uint32_t *ret_n_rows, uint64_t *ret_dropped, struct errbuf *eb)
{
	_cleanup_(rows_done)
	struct rows w = {.node = NULL};
	uint32_t profile = 0, left = u->n ? u->n_rows[0] : 0;
	int r = rows_alloc(&w, u->n_values);

	if (r < 0)
		return r;
	memset(u->totals, 0, (size_t)u->n * u->n_values * sizeof(*u->totals));
	memset(ret_n_rows, 0, u->n * sizeof(*ret_n_rows));
	for (size_t at = 0; at < u->n_pages; at++) {
		uint32_t kept = 0;
		unsigned n_columns;

		r = read_rows(h, &u->pages[at], &w, true, eb);
		if (r < 0)
			return r;
		for (uint32_t i = 0; i < u->pages[at].n; i++, left--) {
			while (!left)
				left = u->n_rows[++profile];
			if (dict_is_hole(&h->dict, DICT_STREAMS, u->stream[profile]) ||
				dict_is_hole(&h->dict, DICT_LABEL_SETS, w.label_set[i]) ||
				dict_is_hole(&h->dict, DICT_NODES, w.node[i])) {
				++*ret_dropped;
				continue;
			}
			w.label_set[kept] = w.label_set[i];
			w.node[kept] = w.node[i];
			for (uint32_t k = 0; k < u->n_values; k++) {
				int64_t *v = w.value + (size_t)k * PAGE_MAX_ROWS;

				v[kept] = v[i];
				u->totals[(size_t)profile * u->n_values + k] = prof_add(
					u->totals[(size_t)profile * u->n_values + k], v[i]);
			}
			ret_n_rows[profile]++;
			kept++;
		}
		page_writer_begin(h->writer);
		page_writer_u32(h->writer, w.label_set, kept);
		page_writer_u32(h->writer, w.node, kept);
		for (uint32_t k = 0; k < u->n_values; k++)
			page_writer_i64(h->writer, w.value + (size_t)k * PAGE_MAX_ROWS, kept);
		r = page_writer_finish(h->writer, out, &n_columns);
		if (r < 0)
			return r;
		u->pages[at].n = kept;
		ends[at] = out->len;
	}
	return 0;
}

static int unit_filter(
	struct head *h, struct head_unit *u, uint64_t *ret_dropped, struct errbuf *eb)
{
	struct bytes *out = &u->filtered;
	_cleanup_free_ uint32_t *n_rows = try_realloc(NULL, u->n, sizeof(*n_rows));
	_cleanup_free_ size_t *ends = try_realloc(NULL, u->n_pages, sizeof(*ends));
	_cleanup_free_ int64_t *totals =
		try_realloc(NULL, (size_t)u->n * (u->n_values + 1), sizeof(*totals));
	int r;

	if (!n_rows || !ends || !totals)
		return -ENOMEM;
	memcpy(totals, u->totals, (size_t)u->n * u->n_values * sizeof(*totals));
	r = filter_rows(h, u, out, ends, n_rows, ret_dropped, eb);
	if (r < 0)
		return r;
	for (size_t at = 0; at < u->n_pages; at++) {
		size_t from = at ? ends[at - 1] : 0;

		u->pages[at].data = out->data + from;
		u->pages[at].len = (uint32_t)(ends[at] - from);
	}
	/* Profiles that never had rows (gauges, coverage, empty ones) keep their totals. */
	for (uint32_t i = 0; i < u->n; i++)
		if (!u->n_rows[i])
			memcpy(u->totals + (size_t)i * u->n_values,
				totals + (size_t)i * u->n_values, u->n_values * sizeof(*totals));
	memcpy(u->n_rows, n_rows, u->n * sizeof(*n_rows));
	return 0;
}

static int unit_check(struct head *h, const struct head_unit *u, struct errbuf *eb)
{
	_cleanup_(rows_done)
	struct rows w = {.node = NULL};
	int r = rows_alloc(&w, 0);

	for (size_t at = 0; r >= 0 && at < u->n_pages; at++)
		r = read_rows(h, &u->pages[at], &w, false, eb);
	return r;
}

/* The unit is complete: checked, or filtered when the generation has holes. */
static int unit_end(
	struct head *h, struct head_unit *u, bool live, uint64_t *ret_dropped, struct errbuf *eb)
{
	if (u->rows_seen != u->rows_expected)
		return err_set(eb, -EBADMSG, "%llu rows, %llu expected",
			(unsigned long long)u->rows_seen, (unsigned long long)u->rows_expected);
	if (h->dict.holes.n_used)
		return unit_filter(h, u, ret_dropped, eb);
	return live ? 0 : unit_check(h, u, eb);
}

static void unit_commit(struct head *h, const struct head_unit *u, struct head_applied *ret)
{
	uint64_t first_row = h->published.n_rows;

	for (size_t at = 0; at < u->n_pages; at++)
		if (u->pages[at].n)
			add_page(h, u, u->pages[at].data, u->pages[at].len, u->pages[at].n);
	for (uint32_t i = 0; i < u->n; i++) {
		if (dict_is_hole(&h->dict, DICT_STREAMS, u->stream[i]))
			continue;
		add_window(h, u, i);
		add_profile(h, u, i, first_row);
		first_row += u->n_rows[i];
		ret->n_profiles++;
		ret->n_rows += u->n_rows[i];
	}
}

void head_plan_done(struct head_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		unit_done(&p->units[i]);
	free(p->units);
	*p = (struct head_plan) {.n = 0};
}

static int begin_unit(
	struct head *h, struct head_plan *p, const struct record_group *g, struct errbuf *eb)
{
	struct head_unit *u;

	if (alloc_grow(&p->units, &p->cap, p->n + 1, sizeof(*p->units)) < 0)
		return -ENOMEM;
	u = &p->units[p->n++];
	*u = (struct head_unit) {.n = 0};
	return unit_begin(u, h, g, eb);
}

static int plan_group(struct head *h, struct head_plan *p, const struct record_group *g, bool live,
	struct errbuf *eb)
{
	int r = 0;

	if (g->tag >= (enum record_tag)DICT_STRINGS && g->tag < (enum record_tag)DICT_N)
		return live ? 0 : record_apply_dict(&h->dict, g, eb);
	switch (g->tag) {
	case RECORD_PROFILES:
		if (p->n)
			r = unit_end(h, &p->units[p->n - 1], live, &p->applied.dropped_rows, eb);
		return r ? r : begin_unit(h, p, g, eb);
	case RECORD_ROWS:
		if (!p->n)
			return err_set(eb, -EBADMSG, "rows before any profile");
		return unit_add_page(&p->units[p->n - 1], g, eb);
	case RECORD_CURSOR:
	case RECORD_RESTATED: return 0;
	default: return err_set(eb, -EBADMSG, "record group of unknown tag %u", g->tag);
	}
}

static int plan_reserve(struct head *h, const struct head_plan *p)
{
	size_t n = 0, n_totals = 0, n_pages = 0, n_bytes = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct head_unit *u = &p->units[i];

		n += u->n;
		n_totals += (size_t)u->n * u->n_values;
		n_pages += u->n_pages;
		for (size_t at = 0; at < u->n_pages; at++)
			n_bytes += u->pages[at].len;
	}
	return head_reserve(h, n, n, n_totals, n_pages, n_bytes);
}

int head_plan_make(struct head *h, const struct record *record, bool live, struct head_plan *ret,
	struct errbuf *eb)
{
	struct record groups = *record;
	struct record_group g;
	int r;

	while ((r = record_next(&groups, &g, eb)) > 0) {
		r = plan_group(h, ret, &g, live, eb);
		if (r < 0)
			return r;
	}
	if (r >= 0 && ret->n)
		r = unit_end(h, &ret->units[ret->n - 1], live, &ret->applied.dropped_rows, eb);
	return r < 0 ? r : plan_reserve(h, ret);
}

void head_plan_commit(struct head *h, struct head_plan *p)
{
	lock_take(&h->lock);
	ASSERT(!h->sealed);
	h->streams.n = h->dict.streams.n;
	for (size_t i = 0; i < p->n; i++)
		unit_commit(h, &p->units[i], &p->applied);
	for (unsigned k = DICT_STRINGS; k < DICT_N; k++) {
		ASSERT(h->published.n[k] <= dict_n(&h->dict, k));
		h->published.n[k] = dict_n(&h->dict, k);
	}
	h->published.n_profiles = h->profiles.n;
	h->published.n_pages = h->pages.n;
	lock_release(&h->lock);
}

int head_apply(
	struct head *h, const struct record *record, struct head_applied *ret, struct errbuf *eb)
{
	_cleanup_(head_plan_done)
	struct head_plan p = {.n = 0};
	int r = head_plan_make(h, record, false, &p, eb);

	if (!r)
		head_plan_commit(h, &p);
	*ret = p.applied;
	return r;
}
