/* SPDX-License-Identifier: Apache-2.0
 *
 * One scrape: checked, interned, written as one record, published. The order is fixed by what may fail: everything that can is done
 * before the write, nothing after it can.
 */
#include "lib/base/alloc.h"
#include "scraper/store/intern.h"
#include "scraper/store/store_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 1000 };

const char *const store_refusal_names[STORE_N_REFUSALS] = {
	[STORE_REFUSED_TIMESTAMP] = "timestamp",
	[STORE_REFUSED_CONFLICT] = "conflict",
	[STORE_REFUSED_CURSOR] = "cursor",
	[STORE_REFUSED_SPACE] = "space",
	[STORE_REFUSED_SIZE] = "size",
	[STORE_REFUSED_MEMORY] = "memory",
	[STORE_REFUSED_INVALID] = "invalid",
	[STORE_REFUSED_IO] = "io",
};

static enum store_refusal refusal_of(int error)
{
	switch (error) {
	case -ERANGE: return STORE_REFUSED_TIMESTAMP;
	case -EEXIST: return STORE_REFUSED_CONFLICT;
	case -ESTALE: return STORE_REFUSED_CURSOR;
	case -ENOSPC: return STORE_REFUSED_SPACE;
	case -EFBIG: return STORE_REFUSED_SIZE;
	case -ENOMEM: return STORE_REFUSED_MEMORY;
	case -EINVAL: return STORE_REFUSED_INVALID;
	default: return STORE_REFUSED_IO;
	}
}

void store_set_stopped(struct store *s, const char *reason)
{
	pthread_mutex_lock(&s->state_lock);
	s->stats.stopped = reason != NULL;
	snprintf(s->stats.stop_reason, sizeof(s->stats.stop_reason), "%s", reason ? reason : "");
	pthread_mutex_unlock(&s->state_lock);
}

static int check_time(struct store *s, int64_t time_ns, struct errbuf *eb)
{
	int64_t now = clock_realtime_ns(s->clock), off;

	if (__builtin_sub_overflow(time_ns, now, &off))
		return err_set(eb, -ERANGE, "timestamp: the profile's time is not a time");
	if (off > FUTURE_MINUTES * 60LL * NS_PER_S)
		return err_set(eb, -ERANGE,
			"timestamp: the profile is %.3f s ahead of this machine's clock, at most "
			"%d s are accepted",
			(double)off / 1e9, FUTURE_MINUTES * 60);
	if (-off > s->o.out_of_order_ns)
		return err_set(eb, -ERANGE,
			"timestamp: the profile is %.3f s old, at most %.0f s are accepted "
			"(--storage.out-of-order)",
			(double)-off / 1e9, (double)s->o.out_of_order_ns / 1e9);
	return 0;
}

static int check_scrape(struct store *s, const struct store_scrape *scrape, struct errbuf *eb)
{
	int r = scrape->n_streams ? check_time(s, scrape->time_ns, eb) : 0;

	for (size_t i = 0; !r && i < scrape->n_gauges; i++)
		r = check_time(s, scrape->gauges[i].time_ns, eb);
	for (size_t i = 0; !r && i < scrape->n_coverage; i++)
		r = check_time(s, scrape->coverage[i].time_ns, eb);
	if (r < 0)
		return r;
	if (scrape->duration_ns < 0)
		return err_set(eb, -EINVAL, "the profile's duration is negative");
	if (scrape->n_gauges > PAGE_MAX_ROWS || scrape->n_coverage > PAGE_MAX_ROWS)
		return err_set(eb, -EFBIG, "scrape of %zu gauges and %zu coverage entries",
			scrape->n_gauges, scrape->n_coverage);
	if (scrape->cursor_key.len > CURSOR_MAX_BYTES ||
		scrape->cursor_after.len > CURSOR_MAX_BYTES)
		return err_set(eb, -EFBIG, "cursor of more than %d bytes", CURSOR_MAX_BYTES);
	if (scrape->cursor_key.len &&
		cursors_check(&s->cursors, scrape->cursor_key, scrape->cursor_before) < 0)
		return err_set(
			eb, -ESTALE, "the answer does not begin where the stored cursor ends");
	return 0;
}

/* One group of profile entries while it is gathered. */
struct entries {
	size_t n, n_values;
	uint32_t *stream, *n_rows;
	int64_t *time, *duration, *period, *totals; /* totals column by column, `cap` apart */
	size_t cap;
};

static int entries_alloc(struct arena *a, size_t cap, size_t n_values, struct entries *e)
{
	*e = (struct entries) {.n_values = n_values, .cap = cap};
	e->stream = arena_alloc_array(a, cap, sizeof(*e->stream));
	e->n_rows = arena_alloc_array(a, cap, sizeof(*e->n_rows));
	e->time = arena_alloc_array(a, cap, sizeof(*e->time));
	e->duration = arena_alloc_array(a, cap, sizeof(*e->duration));
	e->period = arena_alloc_array(a, cap, sizeof(*e->period));
	e->totals = arena_alloc_array(a, cap * n_values, sizeof(*e->totals));
	return arena_error(a, NULL);
}

static int put_page(struct store *s, enum record_tag tag, uint32_t n)
{
	unsigned n_columns = 0;
	int r;

	bytes_reset(&s->page);
	r = page_writer_finish(s->pages, &s->page, &n_columns);
	if (r < 0)
		return r;
	record_put_group(&s->record, &(struct record_group) {.tag = tag,
					     .n = n,
					     .n_columns = n_columns,
					     .data = s->page.data,
					     .len = (uint32_t)s->page.len});
	return bytes_error(&s->record);
}

static int put_entries(struct store *s, const struct entries *e)
{
	struct page_writer *w = s->pages;

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
	return put_page(s, RECORD_PROFILES, (uint32_t)e->n);
}

static int put_rows(struct store *s, const struct interned *in, size_t n_values, uint32_t n)
{
	struct page_writer *w = s->pages;
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
		r = put_page(s, RECORD_ROWS, some);
	}
	return r;
}

/* Keeps the streams that are not stored yet; their rows move up. *ret_n rows are left. */
static int keep_new(struct store *s, const struct store_scrape *scrape, struct interned *in,
	struct entries *e, uint32_t *ret_n, struct store_result *ret, struct errbuf *eb)
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
		int r = store_find_duplicate(s, in->streams[i], scrape->time_ns, &rows, &what, eb);

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
static int have_entry(struct store *s, const struct entries *e, uint32_t stream, int64_t time_ns,
	struct errbuf *eb)
{
	struct duplicate_rows none = {.n = 0};
	enum store_duplicate what;
	int r;

	for (size_t i = 0; i < e->n; i++)
		if (e->stream[i] == stream && e->time[i] == time_ns)
			return 1;
	r = store_find_duplicate(s, stream, time_ns, &none, &what, eb);
	return r ? r : what != STORE_NEW;
}

static int gather_gauges(
	struct store *s, const struct store_scrape *scrape, struct entries *e, struct errbuf *eb)
{
	for (size_t i = 0; i < scrape->n_gauges; i++) {
		const struct store_gauge *g = &scrape->gauges[i];
		int64_t stream = intern_gauge_stream(&s->head->dict, g->labels, eb);
		int r;

		if (stream < 0)
			return (int)stream;
		r = have_entry(s, e, (uint32_t)stream, g->time_ns, eb);
		if (r < 0)
			return r;
		if (r)
			continue;
		e->stream[e->n] = (uint32_t)stream;
		e->n_rows[e->n] = 0;
		e->time[e->n] = g->time_ns;
		e->duration[e->n] = e->period[e->n] = 0;
		memcpy(&e->totals[e->n], &g->value, sizeof(g->value));
		e->n++;
	}
	return 0;
}

static int gather_coverage(
	struct store *s, const struct store_scrape *scrape, struct entries *e, struct errbuf *eb)
{
	for (size_t i = 0; i < scrape->n_coverage; i++) {
		const struct store_coverage *c = &scrape->coverage[i];
		int64_t stream = intern_coverage_stream(&s->head->dict, scrape, c->labels, eb);
		int r;

		if (stream < 0)
			return (int)stream;
		r = have_entry(s, e, (uint32_t)stream, c->time_ns, eb);
		if (r < 0)
			return r;
		if (r)
			continue;
		e->stream[e->n] = (uint32_t)stream;
		e->n_rows[e->n] = 0;
		e->time[e->n] = c->time_ns;
		e->duration[e->n] = c->duration_ns;
		e->period[e->n] = scrape->period;
		e->totals[e->n] = c->lost_ns;
		e->n++;
	}
	return 0;
}

struct prepared {
	struct entries profiles, gauges, coverage;
	uint32_t n_rows;
};

/* Interns everything and says what is new. -ENOSPC: a dictionary is full. */
static int prepare(struct store *s, const struct store_scrape *scrape, struct interned *in,
	struct prepared *p, struct store_result *ret, struct errbuf *eb)
{
	struct arena *a = &s->scratch;
	int r;

	arena_reset(a);
	*ret = (struct store_result) {.n_rows = 0};
	r = intern_scrape(&s->head->dict, scrape, a, in, eb);
	r = r ? r : entries_alloc(a, scrape->n_streams, scrape->n_columns, &p->profiles);
	r = r ? r : entries_alloc(a, scrape->n_gauges, 1, &p->gauges);
	r = r ? r : entries_alloc(a, scrape->n_coverage, 1, &p->coverage);
	r = r ? r : keep_new(s, scrape, in, &p->profiles, &p->n_rows, ret, eb);
	r = r ? r : gather_gauges(s, scrape, &p->gauges, eb);
	return r ? r : gather_coverage(s, scrape, &p->coverage, eb);
}

static int encode(struct store *s, const struct store_scrape *scrape, const struct interned *in,
	const struct prepared *p)
{
	struct bytes *b = &s->record;
	_cleanup_bytes_ struct bytes cursor = {.data = NULL};
	int r;

	bytes_reset(b);
	if (bytes_reserve(b, WAL_RECORD_HEADER))
		b->len = WAL_RECORD_HEADER;
	record_begin(b, RECORD_SCRAPE, s->wal.synced_sequence);
	r = record_put_dict(b, s->pages, &s->head->dict, &s->head->mark);
	r = r ? r : put_entries(s, &p->profiles);
	r = r ? r : put_rows(s, in, scrape->n_columns, p->n_rows);
	r = r ? r : put_entries(s, &p->gauges);
	r = r ? r : put_entries(s, &p->coverage);
	if (r < 0 || !scrape->cursor_key.len)
		return r ? r : bytes_error(b);
	record_put_cursor(&cursor, &(struct record_cursor) {.key = scrape->cursor_key,
					   .before = scrape->cursor_before,
					   .after = scrape->cursor_after,
					   .time_ns = clock_realtime_ns(s->clock)});
	record_put_group(b, &(struct record_group) {.tag = RECORD_CURSOR,
				    .n = 1,
				    .data = cursor.data,
				    .len = (uint32_t)cursor.len});
	return cursor.error ? cursor.error : bytes_error(b);
}

/* Makes the plan of publication from the body just encoded. */
static int plan(struct store *s, struct head_plan *ret, struct errbuf *eb)
{
	struct record record;
	int r = record_parse(
		s->record.data + WAL_RECORD_HEADER, s->record.len - WAL_RECORD_HEADER, &record, eb);

	return r ? r : head_plan_make(s->head, &record, true, ret, eb);
}

static void count(struct store *s, const struct store_result *res, size_t bytes)
{
	pthread_mutex_lock(&s->state_lock);
	s->stats.appended_records++;
	s->stats.appended_profiles += res->n_streams;
	s->stats.appended_rows += res->n_rows;
	s->stats.appended_bytes += bytes;
	s->stats.duplicates += res->n_duplicates;
	pthread_cond_signal(&s->sync_due);
	pthread_mutex_unlock(&s->state_lock);
}

static int write_record(struct store *s, const struct store_scrape *scrape,
	const struct interned *in, const struct prepared *p, struct store_result *ret,
	struct errbuf *eb)
{
	struct cursors_pending cursor = {.entry = {.time_ns = 0}};
	_cleanup_(head_plan_done)
	struct head_plan publication = {.n = 0};
	size_t body;
	int r = encode(s, scrape, in, p);

	if (r < 0)
		return r == -EFBIG ? err_set(eb, r, "scrape does not fit the WAL's pages") : r;
	body = s->record.len - WAL_RECORD_HEADER;
	/* The padding is put now, so that the buffer, into which the plan points, does not move. */
	if (!bytes_reserve(&s->record, 8))
		return -ENOMEM;
	r = plan(s, &publication, eb);
	r = r ? r : wal_reserve(&s->wal, body, false, eb);
	if (!r && scrape->cursor_key.len)
		r = cursors_prepare(&s->cursors, scrape->cursor_key, scrape->cursor_after,
			clock_realtime_ns(s->clock), &cursor);
	r = r ? r : wal_write(&s->wal, &s->record, &ret->sequence, eb);
	if (r < 0) {
		cursors_abort(&cursor);
		return r;
	}
	cursors_commit(&s->cursors, &cursor);
	head_plan_commit(s->head, &publication);
	record_mark_take(&s->head->mark, &s->head->dict);
	ret->n_streams = (uint32_t)p->profiles.n;
	ret->n_rows = p->n_rows;
	count(s, ret, body);
	return 0;
}

/* A head to append to; begins a generation where there is none or the old one is due. */
static int need_head(struct store *s, struct errbuf *eb)
{
	int64_t now = clock_monotonic_ns(s->clock);
	int r;

	if (s->wal.sync_failed)
		return err_set(eb, -EIO,
			"ingest is stopped: a sync of the WAL failed, its data is being written as "
			"a block");
	if (s->head && !store_rotation_due(s))
		return 0;
	if (now < s->retry_ns)
		return err_set(eb, -ENOSPC, "ingest is stopped: %s", s->stats.stop_reason);
	r = s->head ? store_rotate(s, eb) : store_begin_generation(s, eb);
	if (r < 0)
		s->retry_ns = now + RETRY_MS * NS_PER_MS;
	return r;
}

static int append_locked(struct store *s, const struct store_scrape *scrape,
	struct store_result *ret, struct errbuf *eb)
{
	struct interned in;
	struct prepared p = {.n_rows = 0};
	int r = check_scrape(s, scrape, eb);

	r = r ? r : need_head(s, eb);
	if (r < 0)
		return r;
	if (s->wal.fd < 0 && clock_monotonic_ns(s->clock) < s->retry_ns)
		return err_set(eb, -ENOSPC, "ingest is stopped: %s", s->stats.stop_reason);
	r = prepare(s, scrape, &in, &p, ret, eb);
	if (r == -ENOSPC) {
		/* A dictionary is full: this generation becomes a block now. */
		r = store_rotate(s, eb);
		r = r ? r : prepare(s, scrape, &in, &p, ret, eb);
		if (r == -ENOSPC && s->head)
			r = err_set(eb, -EFBIG,
				"scrape does not fit into the dictionaries of a generation");
	}
	if (r < 0)
		return r;
	if (ret->n_conflicts)
		s->stats.refused[STORE_REFUSED_CONFLICT] += ret->n_conflicts - 1;
	if (ret->n_conflicts && ret->n_conflicts == scrape->n_streams)
		return err_set(eb, -EEXIST,
			"this profile is stored already at the same time with other content");
	r = write_record(s, scrape, &in, &p, ret, eb);
	if (r == -ENOSPC)
		s->retry_ns = clock_monotonic_ns(s->clock) + RETRY_MS * NS_PER_MS;
	return r;
}

static void note_outcome(struct store *s, int r, const struct errbuf *eb)
{
	if (r == -ENOSPC || r == -EIO) {
		if (!s->stats.stopped)
			store_set_stopped(s, err_text(eb, r));
	} else if (!r && s->stats.stopped) {
		store_set_stopped(s, NULL);
	}
	if (r < 0) {
		pthread_mutex_lock(&s->state_lock);
		s->stats.refused[refusal_of(r)]++;
		pthread_mutex_unlock(&s->state_lock);
	}
}

int store_append(struct store *s, const struct store_scrape *scrape, struct store_result *ret,
	struct errbuf *eb)
{
	struct errbuf local = {.text = ""};
	int r;

	*ret = (struct store_result) {.n_rows = 0};
	if (s->o.read_only)
		return err_set(eb, -EROFS, "the store is open for reading only");
	pthread_mutex_lock(&s->append_lock);
	r = append_locked(s, scrape, ret, &local);
	note_outcome(s, r, &local);
	pthread_mutex_unlock(&s->append_lock);
	if (r < 0)
		return err_set(eb, r, "%s", err_text(&local, r));
	if (s->o.fsync == STORE_FSYNC_ALWAYS) {
		int synced = store_sync(
			s); /* a failure ends the generation; the record is stored either way */

		(void)synced;
	}
	return 0;
}
