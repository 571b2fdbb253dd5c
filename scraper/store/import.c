/* SPDX-License-Identifier: Apache-2.0
 *
 * Imports: profiles of any time within retention become one block, beside the log. They are interned into a head of their own, which is
 * written as the upkeep writes a generation; the block is named only while the appender waits, after a last look at what it stored in the
 * meantime, so that (stream, time) stays unique.
 */
#include "scraper/store/flush/flush.h"
#include "scraper/store/store_impl.h"
#include <string.h>

struct import {
	struct store *s;
	struct encoder encoder;
	struct head *head;
	uint64_t appended; /* records that the appender had written when the import began */
	bool is_alone;	   /* append_lock is held: nothing is stored meanwhile */
};

/* The newest time of anything stored, or now: what retention counts from. What a wrong clock left in the future is no such time. */
static int64_t newest_time(struct store *s)
{
	struct store_stats stats;
	int64_t now = clock_realtime_ns(s->clock), ahead;

	store_stats(s, &stats);
	if (stats.min_time_ns > stats.max_time_ns || stats.max_time_ns < now ||
		__builtin_sub_overflow(stats.max_time_ns, now, &ahead))
		return now;
	return ahead > FUTURE_MINUTES * 60LL * NS_PER_S ? now : stats.max_time_ns;
}

static int check_time(struct store *s, int64_t newest, int64_t time_ns, struct errbuf *eb)
{
	int64_t ahead, age;

	if (__builtin_sub_overflow(time_ns, clock_realtime_ns(s->clock), &ahead) ||
		__builtin_sub_overflow(newest, time_ns, &age))
		return err_set(eb, -ERANGE, "timestamp: the profile's time is not a time");
	if (ahead > FUTURE_MINUTES * 60LL * NS_PER_S)
		return err_set(eb, -ERANGE,
			"timestamp: the profile is %.3f s ahead of this machine's clock, at most "
			"%d s are accepted",
			(double)ahead / 1e9, FUTURE_MINUTES * 60);
	if (age > s->retention_ns)
		return err_set(eb, -ERANGE,
			"timestamp: the profile is %.3f s older than the newest one, only %.0f s "
			"are kept (--storage.retention.time)",
			(double)age / 1e9, (double)s->retention_ns / 1e9);
	return 0;
}

static int check_scrape(struct store *s, const struct store_scrape *x, struct errbuf *eb)
{
	int64_t newest = newest_time(s);
	int r = check_time(s, newest, x->time_ns, eb);

	for (size_t i = 0; !r && i < x->n_gauges; i++)
		r = check_time(s, newest, x->gauges[i].time_ns, eb);
	for (size_t i = 0; !r && i < x->n_coverage; i++)
		r = check_time(s, newest, x->coverage[i].time_ns, eb);
	if (r < 0)
		return r;
	if (x->duration_ns < 0)
		return err_set(eb, -EINVAL, "the profile's duration is negative");
	if (x->cursor_key.len)
		return err_set(eb, -EINVAL, "an import has no cursor");
	return x->n_gauges > PAGE_MAX_ROWS || x->n_coverage > PAGE_MAX_ROWS
		       ? err_set(eb, -EFBIG, "import of %zu gauges and %zu coverage entries",
				 x->n_gauges, x->n_coverage)
		       : 0;
}

static int new_head(struct import *w, struct errbuf *eb)
{
	struct store *s = w->s;
	uint8_t generation[ULID_BYTES];
	uint32_t id;
	int r;

	store_next_ulid(s, generation);
	lock_take(&s->state_lock);
	id = s->next_part_id++;
	w->appended = s->stats.appended_records;
	lock_release(&s->state_lock);
	r = head_new(generation, s->o.max_nodes, &s->import_budget, id, &w->head);
	return r < 0 ? err_set(eb, r, "no memory for an import: see --storage.head-bytes") : 0;
}

static int apply(struct import *w, const struct store_scrape *x, const struct encoded *from,
	struct errbuf *eb)
{
	_cleanup_(head_plan_done)
	struct head_plan publication = {.n = 0};
	int r;

	/* There is no log that would need what the dictionaries gained. */
	record_mark_take(&w->head->mark, &w->head->dict);
	r = encode_record(&w->encoder, w->head, x, from, 0, clock_realtime_ns(w->s->clock));
	if (r < 0)
		return err_set(eb, r, "encoding an import: %s", strerror(-r));
	r = encode_plan(&w->encoder, w->head, &publication, eb);
	if (!r)
		head_plan_commit(w->head, &publication);
	return r;
}

/* Gauges and coverage of profiles that are all there already are there too, or belong to another import. */
static void drop_repeated(const struct store_scrape *x, struct encoded *e)
{
	if (x->n_streams && !e->profiles.n)
		e->gauges.n = e->coverage.n = 0;
}

static int fill(struct import *w, const struct store_scrape *scrapes, size_t n,
	struct store_result *ret, struct errbuf *eb)
{
	size_t n_streams = 0;
	int r = new_head(w, eb);

	for (size_t i = 0; !r && i < n; i++) {
		struct encoded e;
		struct store_result one;

		r = encode_prepare(&w->encoder, w->s, w->head, &scrapes[i], &e, &one, eb);
		if (r == -ENOSPC)
			r = err_set(eb, -EFBIG,
				"an import does not fit into the dictionaries of a block");
		if (r < 0)
			return r;
		drop_repeated(&scrapes[i], &e);
		n_streams += scrapes[i].n_streams;
		ret->n_streams += (uint32_t)e.profiles.n;
		ret->n_rows += e.n_rows;
		ret->n_duplicates += one.n_duplicates;
		ret->n_conflicts += one.n_conflicts;
		r = apply(w, &scrapes[i], &e, eb);
	}
	if (!r && ret->n_conflicts)
		r = err_set(eb, -EEXIST,
			"%u of %zu profiles are stored already at the same time with other "
			"content: nothing was imported",
			ret->n_conflicts, n_streams);
	return r;
}

/* Whether the appender stored one of these profiles since the import began. */
static int check_again(struct import *w, struct errbuf *eb)
{
	struct head *h = w->head;
	enum store_duplicate what;
	bool unchanged;

	lock_take(&w->s->state_lock);
	unchanged = w->appended == w->s->stats.appended_records;
	lock_release(&w->s->state_lock);
	for (size_t i = 0; !unchanged && i < h->profiles.n; i++) {
		const struct head_profile *p = &head_profiles(h)[i];
		int r = store_find_elsewhere(
			w->s, h, p->stream, head_windows(h)[p->window].time_ns, NULL, &what, eb);

		if (r < 0)
			return r;
		if (what != STORE_NEW)
			return -EAGAIN;
	}
	return 0;
}

/* The name, and the place among the parts. The appender waits for two directory operations and one reading of the block. */
static int publish(struct import *w, const uint8_t ulid[ULID_BYTES], struct errbuf *eb)
{
	struct store *s = w->s;
	struct block *b = NULL;
	int r = w->is_alone ? 0 : check_again(w, eb);

	if (r < 0) {
		block_discard(s->fs, s->block_dir, ulid);
		return r;
	}
	r = block_commit(s->fs, s->block_dir, ulid, eb);
	r = r ? r : store_open_written(s, ulid, &b, eb);
	if (r < 0)
		return r;
	r = store_add_block(s, b);
	if (r < 0) {
		b->doomed = true;
		part_put(&b->part);
		return err_set(eb, r, "out of memory for the list of blocks");
	}
	return 0;
}

static int run(struct import *w, const struct store_scrape *scrapes, size_t n,
	struct store_result *ret, struct errbuf *eb)
{
	uint8_t ulid[ULID_BYTES];
	int r;

	*ret = (struct store_result) {.n_rows = 0};
	r = fill(w, scrapes, n, ret, eb);
	if (r < 0 || !w->head->profiles.n)
		return r;
	w->head->sealed = true;
	store_next_ulid(w->s, ulid);
	r = flush_files(w->s->fs, w->s->block_dir, ulid, w->head, eb);
	if (r < 0)
		return err_prefix(eb, r, "writing the block of an import");
	if (!w->is_alone)
		lock_take(&w->s->append_lock);
	r = publish(w, ulid, eb);
	if (!w->is_alone)
		lock_release(&w->s->append_lock);
	return r;
}

static int import(struct store *s, const struct store_scrape *scrapes, size_t n, bool is_alone,
	struct store_result *ret, struct errbuf *eb)
{
	struct import w = {.s = s, .is_alone = is_alone};
	int r = 0;

	encode_init(&w.encoder, &s->import_budget);
	bytes_init(&w.encoder.record, &s->import_budget, 0);
	if (is_alone)
		lock_take(&s->append_lock);
	for (size_t i = 0; !r && i < n; i++)
		r = check_scrape(s, &scrapes[i], eb);
	r = r ? r : run(&w, scrapes, n, ret, eb);
	if (is_alone)
		lock_release(&s->append_lock);
	if (w.head)
		part_put(&w.head->part);
	encode_done(&w.encoder);
	return r;
}

static void count(struct store *s, int r, const struct store_result *res)
{
	struct store_stats *stats = &s->stats;

	lock_take(&s->state_lock);
	stats->imports += r == 0;
	stats->imported_profiles += r == 0 ? res->n_streams : 0;
	stats->imported_rows += r == 0 ? res->n_rows : 0;
	stats->duplicates += res->n_duplicates;
	if (r == -EEXIST)
		stats->refused[STORE_REFUSED_CONFLICT] += res->n_conflicts;
	else if (r < 0)
		stats->refused[store_refusal_of(r)]++;
	lock_release(&s->state_lock);
}

int store_import(struct store *s, const struct store_scrape *scrapes, size_t n,
	struct store_result *ret, struct errbuf *eb)
{
	struct errbuf local = {.text = ""};
	int r;

	*ret = (struct store_result) {.n_rows = 0};
	if (s->o.read_only)
		return err_set(eb, -EROFS, "the store is open for reading only");
	lock_take(&s->import_lock);
	r = import(s, scrapes, n, false, ret, &local);
	/* The appender was faster with one of them: once more while it waits. */
	if (r == -EAGAIN)
		r = import(s, scrapes, n, true, ret, &local);
	count(s, r, ret);
	lock_release(&s->import_lock);
	if (r < 0)
		ret->n_streams = ret->n_rows = 0;
	return r < 0 ? err_set(eb, r, "%s", err_text(&local, r)) : 0;
}
