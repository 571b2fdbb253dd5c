/* SPDX-License-Identifier: Apache-2.0
 *
 * One scrape: checked, interned, written as one record, published. The order is fixed by what may fail: everything that can is done
 * before the write, nothing after it can.
 */
#include "lib/base/alloc.h"
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

enum store_refusal store_refusal_of(int error)
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

/* Not the scrape's fault nor for want of memory: no other scrape could be stored either. */
static bool stops_ingest(int error)
{
	enum store_refusal x = store_refusal_of(error);

	return error < 0 && (x == STORE_REFUSED_SPACE || x == STORE_REFUSED_IO);
}

void store_set_stopped(struct store *s, const char *reason)
{
	lock_take(&s->state_lock);
	s->stats.stopped = reason != NULL;
	snprintf(s->stats.stop_reason, sizeof(s->stats.stop_reason), "%s", reason ? reason : "");
	lock_release(&s->state_lock);
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
	if (-off > s->out_of_order_ns)
		return err_set(eb, -ERANGE,
			"timestamp: the profile is %.3f s old, at most %.0f s are accepted "
			"(--storage.out-of-order)",
			(double)-off / 1e9, (double)s->out_of_order_ns / 1e9);
	return 0;
}

static int check_scrape(struct store *s, const struct store_scrape *scrape, struct errbuf *eb)
{
	int r = scrape->n_streams ? check_time(s, scrape->time_ns, eb) : 0;

	for (size_t i = 0; !r && i < scrape->n_gauges; i++)
		r = check_time(s, scrape->gauges[i].time_ns, eb);
	for (size_t i = 0; !r && i < scrape->n_coverage; i++)
		r = check_time(s, scrape->coverage[i].time_ns, eb);
	for (size_t i = 0; !r && i < scrape->n_ends; i++)
		r = check_time(s, scrape->ends[i].time_ns, eb);
	if (r < 0)
		return r;
	if (scrape->duration_ns < 0)
		return err_set(eb, -EINVAL, "the profile's duration is negative");
	if (scrape->n_gauges > PAGE_MAX_ROWS || scrape->n_coverage > PAGE_MAX_ROWS ||
		scrape->n_ends > PAGE_MAX_ROWS)
		return err_set(eb, -EFBIG,
			"scrape of %zu gauges, %zu coverage entries and %zu ends of series",
			scrape->n_gauges, scrape->n_coverage, scrape->n_ends);
	if (scrape->cursor_key.len > CURSOR_MAX_BYTES ||
		scrape->cursor_after.len > CURSOR_MAX_BYTES)
		return err_set(eb, -EFBIG, "cursor of more than %d bytes", CURSOR_MAX_BYTES);
	if (scrape->cursor_key.len &&
		cursors_check(&s->cursors, scrape->cursor_key, scrape->cursor_before) < 0)
		return err_set(
			eb, -ESTALE, "the answer does not begin where the stored cursor ends");
	return 0;
}

static void count(struct store *s, const struct store_result *res, size_t bytes)
{
	lock_take(&s->state_lock);
	s->stats.appended_records++;
	s->stats.appended_profiles += res->n_streams;
	s->stats.appended_rows += res->n_rows;
	s->stats.appended_bytes += bytes;
	s->stats.duplicates += res->n_duplicates;
	pthread_cond_signal(&s->sync_due);
	lock_release(&s->state_lock);
}

static int write_record(struct store *s, const struct store_scrape *scrape, const struct encoded *p,
	struct store_result *ret, struct errbuf *eb)
{
	struct cursors_pending cursor = {.entry = {.time_ns = 0}};
	_cleanup_(head_plan_done)
	struct head_plan publication = {.n = 0};
	size_t body;
	struct bytes *record = &s->encoder.record;
	int r = encode_record(&s->encoder, s->head, scrape, p, s->wal.synced_sequence,
		clock_realtime_ns(s->clock));

	if (r < 0)
		return r == -EFBIG ? err_set(eb, r, "scrape does not fit the WAL's pages") : r;
	body = record->len - WAL_RECORD_HEADER;
	/* The padding is put now, so that the buffer, into which the plan points, does not move. */
	if (!bytes_reserve(record, 8))
		return -ENOMEM;
	r = encode_plan(&s->encoder, s->head, &publication, eb);
	r = r ? r : wal_reserve(&s->wal, body, false, eb);
	if (!r && scrape->cursor_key.len)
		r = cursors_prepare(&s->cursors, scrape->cursor_key, scrape->cursor_after,
			clock_realtime_ns(s->clock), &cursor);
	r = r ? r : wal_write(&s->wal, record, &ret->sequence, eb);
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

static int pause_with(struct store *s, int error, const struct errbuf *eb)
{
	s->pause.until_ns = clock_monotonic_ns(s->clock) + RETRY_MS * NS_PER_MS;
	s->pause.error = error;
	snprintf(s->pause.text, sizeof(s->pause.text), "%s", err_text(eb, error));
	return error;
}

static int answer_of_pause(const struct store *s, struct errbuf *eb)
{
	return clock_monotonic_ns(s->clock) < s->pause.until_ns
		       ? err_set(eb, s->pause.error, "%s", s->pause.text)
		       : 0;
}

/* A head to append to; begins a generation where there is none or the old one is due. */
static int need_head(struct store *s, struct errbuf *eb)
{
	int r;

	if (s->wal.sync_failed)
		return err_set(eb, -EIO,
			"ingest is stopped: a sync of the WAL failed, its data is being written as "
			"a block");
	if (s->head && !store_rotation_due(s))
		return 0;
	r = answer_of_pause(s, eb);
	if (r < 0)
		return r;
	r = s->head ? store_rotate(s, eb) : store_begin_generation(s, eb);
	return r < 0 ? pause_with(s, r, eb) : 0;
}

static int append_locked(struct store *s, const struct store_scrape *scrape,
	struct store_result *ret, struct errbuf *eb)
{
	struct encoded p;
	int r;

	ASSERT_HELD(&s->append_lock);
	r = check_scrape(s, scrape, eb);
	r = r ? r : need_head(s, eb);
	if (r < 0)
		return r;
	r = s->wal.fd < 0 ? answer_of_pause(s, eb) : 0;
	if (r < 0)
		return r;
	r = encode_prepare(&s->encoder, s, s->head, scrape, &p, ret, eb);
	if (r == -ENOSPC) {
		/* A dictionary is full: this generation becomes a block now. */
		r = store_rotate(s, eb);
		r = r ? r : encode_prepare(&s->encoder, s, s->head, scrape, &p, ret, eb);
		if (r == -ENOSPC && s->head)
			r = err_set(eb, -EFBIG,
				"scrape does not fit into the dictionaries of a generation");
	}
	if (r < 0)
		return r;
	if (ret->n_conflicts && ret->n_conflicts == scrape->n_streams)
		return err_set(eb, -EEXIST,
			"this profile is stored already at the same time with other content");
	r = write_record(s, scrape, &p, ret, eb);
	return stops_ingest(r) ? pause_with(s, r, eb) : r;
}

/* Arenas and buffers do not say whose memory it was that they could not have. */
static int explain(int r, struct errbuf *eb)
{
	return r == -ENOMEM && !eb->text[0]
		       ? err_set(eb, r,
				 "the memory of the newest data is spent until a block is written: "
				 "see --storage.head-bytes")
		       : r;
}

static void note_outcome(
	struct store *s, int r, const struct store_result *res, const struct errbuf *eb)
{
	if (stops_ingest(r)) {
		if (!s->stats.stopped)
			store_set_stopped(s, err_text(eb, r));
	} else if (!r && s->stats.stopped) {
		store_set_stopped(s, NULL);
	}
	lock_take(&s->state_lock);
	/* Each series that conflicts counts, whether others of its scrape were stored or not. */
	if (r == 0 || r == -EEXIST)
		s->stats.refused[STORE_REFUSED_CONFLICT] += res->n_conflicts;
	else
		s->stats.refused[store_refusal_of(r)]++;
	lock_release(&s->state_lock);
}

/* For `always`. When it fails only durability is missing: the record is in the log and in the head, which is to become a block. */
static int make_durable(struct store *s, struct errbuf *eb)
{
	static const char why[] = "a sync of the WAL failed, its data is being written as a block";
	int r = store_sync(s);

	if (r == 0)
		return 0;
	lock_take(&s->append_lock);
	if (s->wal.sync_failed && !s->stats.stopped)
		store_set_stopped(s, why);
	lock_release(&s->append_lock);
	return err_set(eb, -EIO, "stored, but not durable yet: %s (%s)", why, strerror(-r));
}

int store_append(struct store *s, const struct store_scrape *scrape, struct store_result *ret,
	struct errbuf *eb)
{
	struct errbuf local = {.text = ""};
	int r;

	*ret = (struct store_result) {.n_rows = 0};
	if (s->o.read_only)
		return err_set(eb, -EROFS, "the store is open for reading only");
	lock_take(&s->append_lock);
	r = explain(append_locked(s, scrape, ret, &local), &local);
	note_outcome(s, r, ret, &local);
	lock_release(&s->append_lock);
	if (r < 0)
		return err_set(eb, r, "%s", err_text(&local, r));
	return s->o.fsync == STORE_FSYNC_ALWAYS ? make_durable(s, eb) : 0;
}
