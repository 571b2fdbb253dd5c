/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that run a step again and again until threads_stop. A step has a time within which it returns; another thread sees without a
 * lock which one is stuck in its step, and the end does not wait for that one. Start, stop and join: one thread.
 */
#pragma once
#include "lib/base/err.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { THREADS_MAX = 16 };

struct thread_row {
	const char *name; /* at most 15 bytes */
	void (*step)(void *ctx);
	int64_t patience_ns; /* a step that takes longer is stuck; 0: steps may take as long as they like */
	bool is_vital; /* without it there is nothing to serve */
};

struct thread {
	struct thread_row row;
	struct threads *all;
	pthread_t id;
	_Atomic int64_t began_ns; /* its step; 0: it does none */
};

struct threads {
	void *ctx; /* of the steps */
	struct thread list[THREADS_MAX];
	_Atomic size_t n;
	_Atomic bool is_stopping;
};

/* One more, THREADS_MAX in all; `row` is copied. Negative errno of pthread_create with a text; those before go on. */
int threads_start(struct threads *t, const struct thread_row *row, struct errbuf *eb) _must_check_;
/* No thread begins another step. Whoever calls this wakes those that wait in one. */
void threads_stop(struct threads *t);
/* After threads_stop: waits for all of them, limit_ns at most (-1: without a limit), names those that are stuck in the log and
 * returns their number: what they use must stay. */
size_t threads_join(struct threads *t, int64_t limit_ns);

struct threads_stuck {
	size_t n;
	const struct thread_row *first; /* a vital one where there is one; NULL: none */
	int64_t for_ns;			/* that one's step has taken */
};
/* Any thread, takes no lock. */
struct threads_stuck threads_stuck(const struct threads *t);
