/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared answers: runs in hand and kept results in one list each. Both are short (as many runs as there are worker threads, at most
 * MAX_KEPT results), so they are searched by hash from front to back.
 *
 * A run is in the list until it ends; then those that wait for it have it, and the last of them frees it.
 */
#include "scraper/api/answers.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/base/lock.h"
#include <stdio.h>

enum {
	MAX_KEPT = 1024,
	LARGEST_SHARE = 4, /* an answer above this part of the limit would push out too many */
};

enum state { RUNNING, DONE, FAILED };

struct answers_run {
	struct answers_run *next;
	uint64_t hash, stamp;
	struct bytes key;
	bool immutable;
	enum state state;
	struct answers_wait *waiting;
	struct answer done;
	int error;
	struct errbuf error_text;
};

struct kept {
	struct kept *next; /* most recently used first */
	uint64_t hash, stamp, charged_bytes;
	struct bytes key;
	struct answer answer;
};

struct answers {
	struct lock lock; /* of all */
	struct budget *budget;
	struct answers_run *runs;
	struct kept *kept;
	size_t n_kept;
	struct metric_cell *hits, *misses, *shared, *evicted;
};

static void count(struct metric_cell *cell)
{
	if (cell)
		metric_inc(cell);
}

struct answers *answers_new(struct budget *budget, struct metrics *metrics)
{
	struct answers *a = xcalloc(1, sizeof(*a));

	lock_init(&a->lock);
	a->budget = budget && budget->limit_bytes ? budget : NULL;
	if (!metrics)
		return a;
	a->hits = metric_only(metrics_counter(metrics, "sonde_query_cache_hits_total",
		"Queries over parts that do not change whose answer was kept.", NULL));
	a->misses = metric_only(metrics_counter(metrics, "sonde_query_cache_misses_total",
		"Queries over parts that do not change that had to run.", NULL));
	a->evicted = metric_only(metrics_counter(metrics, "sonde_query_cache_evictions_total",
		"Answers dropped for newer ones or because blocks changed.", NULL));
	a->shared = metric_only(metrics_counter(metrics, "sonde_queries_shared_total",
		"Queries that took the answer of an identical one that was running.", NULL));
	return a;
}

static void kept_free(struct answers *a, struct kept *k)
{
	bytes_done(&k->key);
	bytes_done(&k->answer.body);
	budget_release(a->budget, k->charged_bytes);
	free(k);
}

static void run_free(struct answers_run *run)
{
	bytes_done(&run->key);
	bytes_done(&run->done.body);
	free(run);
}

void answers_freep(struct answers **ret)
{
	struct answers *a = *ret;

	if (!a)
		return;
	ASSERT(!a->runs);
	for (struct kept *k = a->kept, *next; k; k = next) {
		next = k->next;
		kept_free(a, k);
	}
	lock_done(&a->lock);
	free(a);
	*ret = NULL;
}

static bool same_key(const struct bytes *a, const struct bytes *b)
{
	return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

static int copy(struct answer *to, const struct answer *from, struct errbuf *eb)
{
	bytes_put(&to->body, from->body.data, from->body.len);
	to->json = from->json;
	memcpy(to->file_name, from->file_name, sizeof(to->file_name));
	return bytes_error(&to->body) ? err_set(eb, -ENOMEM, "out of memory for the answer") : 0;
}

/* ---- kept ---- */

static void evict(struct answers *a, struct kept **at)
{
	struct kept *k = *at;

	*at = k->next;
	a->n_kept--;
	kept_free(a, k);
	count(a->evicted);
}

/* The answer of this key, moved to the front; one over other parts is dropped. */
static struct kept *find_kept(
	struct answers *a, const struct bytes *key, uint64_t hash, uint64_t stamp)
{
	for (struct kept **at = &a->kept; *at; at = &(*at)->next) {
		struct kept *k = *at;

		if (k->hash != hash || !same_key(&k->key, key))
			continue;
		if (k->stamp != stamp) {
			evict(a, at);
			return NULL;
		}
		*at = k->next;
		k->next = a->kept;
		a->kept = k;
		return k;
	}
	return NULL;
}

static void evict_last(struct answers *a)
{
	struct kept **at = &a->kept;

	while ((*at)->next)
		at = &(*at)->next;
	evict(a, at);
}

static void keep(struct answers *a, const struct answers_run *run, const struct answer *done)
{
	uint64_t bytes = sizeof(struct kept) + run->key.len + done->body.len;
	struct kept *k;

	if (!a->budget || !run->immutable || bytes > a->budget->limit_bytes / LARGEST_SHARE)
		return;
	while (a->n_kept == MAX_KEPT ||
		(a->n_kept && a->budget->used_bytes + bytes > a->budget->limit_bytes))
		evict_last(a);
	if (budget_charge(a->budget, bytes, NULL) < 0)
		return;
	k = xcalloc(1, sizeof(*k));
	*k = (struct kept) {
		.hash = run->hash, .stamp = run->stamp, .charged_bytes = bytes, .next = a->kept};
	bytes_init(&k->key, NULL, 0);
	bytes_init(&k->answer.body, NULL, 0);
	bytes_put(&k->key, run->key.data, run->key.len);
	if (bytes_error(&k->key) || copy(&k->answer, done, NULL) < 0) {
		kept_free(a, k);
		return;
	}
	a->kept = k;
	a->n_kept++;
}

/* ---- runs ---- */

static struct answers_run *find_run(
	struct answers *a, const struct bytes *key, uint64_t hash, uint64_t stamp)
{
	for (struct answers_run *r = a->runs; r; r = r->next)
		if (r->hash == hash && r->stamp == stamp && same_key(&r->key, key))
			return r;
	return NULL;
}

static struct answers_run *add_run(
	struct answers *a, const struct bytes *key, uint64_t hash, uint64_t stamp, bool immutable)
{
	struct answers_run *run = xcalloc(1, sizeof(*run));

	run->hash = hash;
	run->stamp = stamp;
	run->immutable = immutable;
	bytes_init(&run->key, NULL, 0);
	bytes_put(&run->key, key->data, key->len);
	run->next = a->runs;
	a->runs = run;
	return run;
}

/* Nobody else has it: neither its runner nor one that waits. */
static void free_if_unused(struct answers_run *run)
{
	if (run->state != RUNNING && !run->waiting)
		run_free(run);
}

static void leave_locked(struct answers *a, struct answers_wait *w)
{
	struct answers_run *run = TAKE(w->run);
	struct answers_wait **at = &run->waiting;

	ASSERT_HELD(&a->lock);
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	free_if_unused(run);
}

/* What a run that ended says to one that waited. */
static int take_locked(
	struct answers *a, const struct answers_run *run, struct answer *ret, struct errbuf *eb)
{
	ASSERT_HELD(&a->lock);
	if (run->state == DONE)
		return copy(ret, &run->done, eb);
	if (run->state == RUNNING || run->error == -EAGAIN)
		return -EAGAIN;
	return err_set(eb, run->error, "%s", run->error_text.text);
}

int answers_take(struct answers *a, struct answers_wait *w, struct answer *ret, struct errbuf *eb)
{
	int r;

	lock_take(&a->lock);
	ASSERT(w->run);
	r = take_locked(a, w->run, ret, eb);
	leave_locked(a, w);
	if (r != -EAGAIN)
		count(a->shared);
	lock_release(&a->lock);
	return r;
}

void answers_leave(struct answers *a, struct answers_wait *w)
{
	lock_take(&a->lock);
	if (w->run)
		leave_locked(a, w);
	lock_release(&a->lock);
}

static int begin_locked(struct answers *a, const struct bytes *key, uint64_t stamp, bool immutable,
	struct answers_wait *w, struct answer *ret, struct answers_run **ret_run, struct errbuf *eb)
{
	uint64_t hash = hash_xxh3(key->data, key->len);
	struct answers_run *run = find_run(a, key, hash, stamp);
	struct kept *k;
	int r;

	ASSERT_HELD(&a->lock);
	if (run) {
		ASSERT(!w->run);
		w->run = run;
		w->next = run->waiting;
		run->waiting = w;
		return ANSWERS_WAIT;
	}
	k = a->budget && immutable ? find_kept(a, key, hash, stamp) : NULL;
	if (k) {
		r = copy(ret, &k->answer, eb);
		count(a->hits);
		return r ? r : ANSWERS_KEPT;
	}
	if (a->budget && immutable)
		count(a->misses);
	*ret_run = add_run(a, key, hash, stamp, immutable);
	return ANSWERS_RUN;
}

int answers_begin(struct answers *a, const struct bytes *key, uint64_t stamp, bool immutable,
	struct answers_wait *w, struct answer *ret, struct answers_run **ret_run, struct errbuf *eb)
{
	int r;

	lock_take(&a->lock);
	r = begin_locked(a, key, stamp, immutable, w, ret, ret_run, eb);
	lock_release(&a->lock);
	return r;
}

/* Takes the run off the list, wakes all that wait. */
static void end_locked(struct answers *a, struct answers_run *run, enum state state)
{
	struct answers_run **at = &a->runs;

	ASSERT_HELD(&a->lock);
	ASSERT(run->state == RUNNING && state != RUNNING);
	while (*at != run)
		at = &(*at)->next;
	*at = run->next;
	run->state = state;
	for (struct answers_wait *w = run->waiting; w; w = w->next)
		w->wake(w->arg);
	free_if_unused(run);
}

void answers_publish(struct answers *a, struct answers_run **run, const struct answer *done)
{
	struct answers_run *r = TAKE(*run);
	enum state state = DONE;

	if (!r)
		return;
	lock_take(&a->lock);
	keep(a, r, done);
	if (r->waiting) {
		bytes_init(&r->done.body, done->body.budget, 0);
		if (copy(&r->done, done, NULL) < 0) {
			state = FAILED;
			r->error = -EAGAIN;
		}
	}
	end_locked(a, r, state);
	lock_release(&a->lock);
}

void answers_fail(struct answers *a, struct answers_run **run, int error, const char *text)
{
	struct answers_run *r = TAKE(*run);

	if (!r)
		return;
	lock_take(&a->lock);
	r->error = error == -ECANCELED || error == -ETIMEDOUT ? -EAGAIN : error;
	snprintf(r->error_text.text, sizeof(r->error_text.text), "%s", text);
	end_locked(a, r, FAILED);
	lock_release(&a->lock);
}
