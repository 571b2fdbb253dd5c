/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that are shared: the run in hand of a query, for clients that ask the same meanwhile, and finished ones over parts that do
 * not change, kept up to a number of bytes, the least recently used going first. Thread-safe.
 *
 * A query is a key (what was asked) and a stamp (which parts answer, as they are now). Blocks that come, go, are compacted or lose
 * profiles by a deletion are other parts, so a stamp that does not match drops the answer that was kept.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/json/write.h"
#include "lib/net/metrics/metrics.h"
#include <stdatomic.h>

struct answers;
enum { API_FILE_NAME_MAX = 100 }; /* of an answer that is a file, without its suffix */

/* What an answer is besides its bytes; a JSON one is open: its statistics are still to come. */
struct answer {
	struct bytes body;
	struct json json; /* where its writer stands; `out` is the reader's to set */
	char file_name[API_FILE_NAME_MAX];
};

/* `budget` (may be NULL: nothing is kept) has the bytes that answers may take as its limit; `metrics` may be NULL. */
struct answers *answers_new(struct budget *budget, struct metrics *metrics);
void answers_freep(struct answers **a);

/* A query that may have company. */
struct answers_run;

/* One that waits for the run of an identical query. It holds no thread: its request is parked until `wake`. */
struct answers_wait {
	void (*wake)(
		void *arg); /* the caller's; any thread, with a lock held: it may not call back */
	void *arg;
	struct answers_run *run; /* NULL: waits for nothing */
	struct answers_wait *next;
};

enum answers_how {
	ANSWERS_RUN,  /* nobody has: run it, then answers_publish or answers_fail with *ret_run */
	ANSWERS_KEPT, /* *ret is a copy of one that was kept */
	ANSWERS_WAIT, /* another client's run is in hand: `w` is woken once it has ended, perhaps before this returns */
};
/* `*ret` was bytes_init'ed by the caller; its budget is charged for the copy. After ANSWERS_WAIT the caller ends `w`, by
 * answers_take or answers_leave. enum answers_how, or -ENOMEM with a text. */
int answers_begin(struct answers *a, const struct bytes *key, uint64_t stamp, bool immutable,
	struct answers_wait *w, struct answer *ret, struct answers_run **ret_run,
	struct errbuf *eb) _must_check_;
/*
 * After `wake`, which ends the waiting: 0 and a copy in *ret (as above), or what the run failed with, its text in `eb`. -EAGAIN: its
 * own client ended it, or it has not ended; begin anew.
 */
int answers_take(struct answers *a, struct answers_wait *w, struct answer *ret,
	struct errbuf *eb) _must_check_;
/* Waits no longer; nothing when `w` does not wait. When it returns `wake` runs no more. */
void answers_leave(struct answers *a, struct answers_wait *w);
/* Ends a run; `*run` is NULL afterwards and may be before. The bytes are copied for those who wait and for the cache. A run that failed with
 * -ECANCELED or -ETIMEDOUT, which are its own client's, is -EAGAIN to the others. */
void answers_publish(struct answers *a, struct answers_run **run, const struct answer *done);
void answers_fail(struct answers *a, struct answers_run **run, int r, const char *text);
