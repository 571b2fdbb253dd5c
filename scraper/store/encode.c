/* SPDX-License-Identifier: Apache-2.0
 *
 * A scrape into a record: interned into a head's dictionaries, freed of what is stored already, laid out as pages. Appending and
 * importing share it.
 */
#include "scraper/store/encode.h"
#include "scraper/store/store_impl.h"
#include <string.h>

void encode_init(struct encoder *e, struct budget *budget)
{
	*e = (struct encoder) {.pages = page_writer_new(false)};
	arena_init(&e->scratch, budget);
	known_init(&e->known, budget);
}

void encode_done(struct encoder *e)
{
	arena_done(&e->scratch);
	known_done(&e->known);
	bytes_done(&e->record);
	bytes_done(&e->page);
	page_writer_free(e->pages);
}

static int entries_alloc(struct arena *a, size_t cap, size_t n_values, struct encode_entries *e)
{
	*e = (struct encode_entries) {.n_values = n_values, .cap = cap};
	e->stream = arena_alloc_array(a, cap, sizeof(*e->stream));
	e->n_rows = arena_alloc_array(a, cap, sizeof(*e->n_rows));
	e->time = arena_alloc_array(a, cap, sizeof(*e->time));
	e->duration = arena_alloc_array(a, cap, sizeof(*e->duration));
	e->period = arena_alloc_array(a, cap, sizeof(*e->period));
	e->totals = arena_alloc_array(a, cap * n_values, sizeof(*e->totals));
	return arena_error(a, NULL);
}

static int put_page(struct encoder *e, enum record_tag tag, uint32_t n)
{
	unsigned n_columns = 0;
	int r;

	bytes_reset(&e->page);
	r = page_writer_finish(e->pages, &e->page, &n_columns);
	if (r < 0)
		return r;
	record_put_group(&e->record, &(struct record_group) {.tag = tag,
					     .n = n,
					     .n_columns = n_columns,
					     .data = e->page.data,
					     .len = (uint32_t)e->page.len});
	return bytes_error(&e->record);
}

static int put_entries(struct encoder *to, const struct encode_entries *e)
{
	struct page_writer *w = to->pages;

	if (!e->n)
		return 0;
	page_writer_begin(w);
	page_writer_u32(w, e->stream, e->n);
	page_writer_i64(w, e->time, e->n);
	page_writer_i64(w, e->duration, e->n);
	page_writer_i64(w, e->period, e->n);
	page_writer_u32(w, e->n_rows, e->n);
	for (size_t k = 0; k < e->n_values; k++) {
		const int64_t *v = e->totals + k * e->cap;

		if (k)
			page_writer_ratio(
				w, v, e->n, (unsigned)(PROFILE_COLUMNS + k - 1), v - e->cap);
		else
			page_writer_i64(w, v, e->n);
	}
	return put_page(to, RECORD_PROFILES, (uint32_t)e->n);
}

static int put_rows(struct encoder *e, const struct interned *in, size_t n_values, uint32_t n)
{
	struct page_writer *w = e->pages;
	int r = 0;

	for (uint32_t at = 0, some; !r && at < n; at += some) {
		some = MIN(n - at, (uint32_t)PAGE_MAX_ROWS);
		page_writer_begin(w);
		page_writer_u32(w, in->label_set + at, some);
		page_writer_u32(w, in->node + at, some);
		for (size_t k = 0; k < n_values; k++) {
			const int64_t *v = in->values + k * in->n + at;

			if (k)
				page_writer_ratio(
					w, v, some, (unsigned)(ROW_COLUMNS + k - 1), v - in->n);
			else
				page_writer_i64(w, v, some);
		}
		r = put_page(e, RECORD_ROWS, some);
	}
	return r;
}

/* Keeps the streams that are not stored yet; their rows move up. *ret_n rows are left. */
static int keep_new(struct store *s, struct head *h, const struct store_scrape *scrape,
	struct interned *in, struct encode_entries *e, uint32_t *ret_n, struct store_result *ret,
	struct errbuf *eb)
{
	uint32_t from = 0, to = 0;

	for (size_t i = 0; i < scrape->n_streams; i++) {
		struct duplicate_rows rows = {
			.n = in->n_rows[i],
			.label_set = in->label_set ? in->label_set + from : NULL,
			.node = in->node ? in->node + from : NULL,
			.values = in->values ? in->values + from : NULL,
			.stride = in->n,
			.n_values = (uint32_t)scrape->n_columns,
		};
		enum store_duplicate what;
		int r = store_find_duplicate(
			s, h, in->streams[i], scrape->time_ns, &rows, &what, eb);

		if (r < 0)
			return r;
		ret->n_duplicates += what == STORE_EQUAL;
		ret->n_conflicts += what == STORE_DIFFERENT;
		if (what == STORE_NEW) {
			e->stream[e->n] = in->streams[i];
			e->n_rows[e->n] = rows.n;
			e->time[e->n] = scrape->time_ns;
			e->duration[e->n] = scrape->duration_ns;
			e->period[e->n] = scrape->period;
			for (size_t k = 0; k < e->n_values; k++)
				e->totals[k * e->cap + e->n] = in->totals[i * e->n_values + k];
			e->n++;
			if (to != from && rows.n) {
				memmove(in->label_set + to, in->label_set + from,
					rows.n * sizeof(*in->label_set));
				memmove(in->node + to, in->node + from, rows.n * sizeof(*in->node));
				for (size_t k = 0; k < e->n_values; k++)
					memmove(in->values + k * in->n + to,
						in->values + k * in->n + from,
						rows.n * sizeof(*in->values));
			}
			to += rows.n;
		}
		from += rows.n;
	}
	*ret_n = to;
	return 0;
}

/* Whether (stream, time) of a gauge or coverage entry is there: in this scrape or stored. */
static int have_entry(struct store *s, struct head *h, const struct encode_entries *e,
	uint32_t stream, int64_t time_ns, struct errbuf *eb)
{
	enum store_duplicate what;
	int r;

	for (size_t i = 0; i < e->n; i++)
		if (e->stream[i] == stream && e->time[i] == time_ns)
			return 1;
	r = store_find_duplicate(s, h, stream, time_ns, NULL, &what, eb);
	return r ? r : what != STORE_NEW;
}

/* A new entry without rows, its totals (e->cap apart) not set yet; NULL when it is there already (*ret_r 0) or on failure. */
static int64_t *add_entry(struct store *s, struct head *h, struct encode_entries *e, int64_t stream,
	int64_t time_ns, int *ret_r, struct errbuf *eb)
{
	int r = stream < 0 ? (int)stream : have_entry(s, h, e, (uint32_t)stream, time_ns, eb);
	size_t i = e->n;

	*ret_r = MIN(r, 0);
	if (r)
		return NULL;
	e->n++;
	e->stream[i] = (uint32_t)stream;
	e->n_rows[i] = 0;
	e->time[i] = time_ns;
	e->duration[i] = e->period[i] = 0;
	return &e->totals[i];
}

static int gather_gauges(struct store *s, struct head *h, const struct store_scrape *scrape,
	struct encode_entries *e, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0; !r && i < scrape->n_gauges; i++) {
		const struct store_gauge *g = &scrape->gauges[i];
		int64_t *total = add_entry(
			s, h, e, intern_gauge_stream(&h->dict, g->labels, eb), g->time_ns, &r, eb);

		if (total)
			memcpy(total, &g->value, sizeof(g->value));
	}
	return r;
}

static int gather_ends(struct store *s, struct head *h, const struct store_scrape *scrape,
	struct encode_entries *e, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0; !r && i < scrape->n_ends; i++) {
		const struct store_end *end = &scrape->ends[i];
		int64_t *total = add_entry(s, h, e, intern_end_stream(&h->dict, end->labels, eb),
			end->time_ns, &r, eb);

		if (total)
			*total = 0;
	}
	return r;
}

static int gather_coverage(struct store *s, struct head *h, const struct store_scrape *scrape,
	struct encode_entries *e, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0; !r && i < scrape->n_coverage; i++) {
		const struct store_coverage *c = &scrape->coverage[i];
		int64_t *total =
			add_entry(s, h, e, intern_coverage_stream(&h->dict, scrape, c->labels, eb),
				c->time_ns, &r, eb);

		if (!total)
			continue;
		total[0] = c->lost_ns;
		if (e->n_values > 1)
			total[e->cap] = c->n_cpus;
		e->duration[e->n - 1] = c->duration_ns;
		e->period[e->n - 1] = scrape->period;
	}
	return r;
}

int encode_prepare(struct encoder *e, struct store *s, struct head *h,
	const struct store_scrape *scrape, struct encoded *ret, struct store_result *res,
	struct errbuf *eb)
{
	struct arena *a = &e->scratch;
	int r;

	arena_reset(a);
	*ret = (struct encoded) {.n_rows = 0};
	*res = (struct store_result) {.n_rows = 0};
	known_use(&e->known, h->generation);
	r = intern_scrape(&h->dict, &e->known, scrape, a, &ret->in, eb);
	r = r ? r : entries_alloc(a, scrape->n_streams, scrape->n_columns, &ret->profiles);
	r = r ? r : entries_alloc(a, scrape->n_gauges, 1, &ret->gauges);
	r = r ? r
	      : entries_alloc(
			a, scrape->n_coverage, intern_coverage_columns(scrape), &ret->coverage);
	r = r ? r : entries_alloc(a, scrape->n_ends, 1, &ret->ends);
	r = r ? r : keep_new(s, h, scrape, &ret->in, &ret->profiles, &ret->n_rows, res, eb);
	r = r ? r : gather_gauges(s, h, scrape, &ret->gauges, eb);
	r = r ? r : gather_ends(s, h, scrape, &ret->ends, eb);
	return r ? r : gather_coverage(s, h, scrape, &ret->coverage, eb);
}

int encode_record(struct encoder *e, const struct head *h, const struct store_scrape *scrape,
	const struct encoded *from, uint64_t synced_sequence, int64_t now_ns)
{
	struct bytes *b = &e->record;
	_cleanup_bytes_ struct bytes cursor = {.data = NULL};
	int r;

	bytes_reset(b);
	if (bytes_reserve(b, WAL_RECORD_HEADER))
		b->len = WAL_RECORD_HEADER;
	record_begin(b, RECORD_SCRAPE, synced_sequence);
	r = record_put_dict(b, e->pages, &h->dict, &h->mark);
	r = r ? r : put_entries(e, &from->profiles);
	r = r ? r : put_rows(e, &from->in, scrape->n_columns, from->n_rows);
	r = r ? r : put_entries(e, &from->gauges);
	r = r ? r : put_entries(e, &from->coverage);
	r = r ? r : put_entries(e, &from->ends);
	if (r < 0 || !scrape->cursor_key.len)
		return r ? r : bytes_error(b);
	record_put_cursor(&cursor, &(struct record_cursor) {.key = scrape->cursor_key,
					   .before = scrape->cursor_before,
					   .after = scrape->cursor_after,
					   .time_ns = now_ns});
	record_put_group(b, &(struct record_group) {.tag = RECORD_CURSOR,
				    .n = 1,
				    .data = cursor.data,
				    .len = (uint32_t)cursor.len});
	return cursor.error ? cursor.error : bytes_error(b);
}

int encode_plan(struct encoder *e, struct head *h, struct head_plan *ret, struct errbuf *eb)
{
	struct record record;
	int r = record_parse(
		e->record.data + WAL_RECORD_HEADER, e->record.len - WAL_RECORD_HEADER, &record, eb);

	return r ? r : head_plan_make(h, &record, true, ret, eb);
}
