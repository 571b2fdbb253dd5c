/* SPDX-License-Identifier: Apache-2.0
 *
 * A mutex that knows its owner, so that a function that needs it held says so and is checked in every build: one relaxed
 * store more at taking and at releasing, one load at each check. After Varnish's Lck_AssertHeld (bin/varnishd/cache/cache_lck.c).
 *
 *	static void add_locked(struct queue *q, struct item *i)
 *	{
 *		ASSERT_HELD(&q->lock);
 *		…
 *
 * Taking a lock that the thread has, releasing or waiting by one that it does not have, and destroying one that anybody has
 * are our mistakes and abort. The order of locks is a table in docs/ARCHITECTURE.md.
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"

struct lock {
	pthread_mutex_t mutex;
	/* The thread that has it, or 0: no thread of glibc has that name. Only the owner ever reads its own name here, so
	 * neither order nor a stale value of others matters. */
	pthread_t owner;
};

#define LOCK_INITIALIZER                           \
	{                                          \
		.mutex = PTHREAD_MUTEX_INITIALIZER \
	}

/* The calling thread has the lock, which the surrounding function needs. */
#define ASSERT_HELD(l) ASSERT(lock_is_held(l))

void lock_init(struct lock *l);
void lock_done(struct lock *l);

void lock_take(struct lock *l);
void lock_release(struct lock *l);
/* By the calling thread. */
bool lock_is_held(const struct lock *l);

/* A condition whose times are CLOCK_MONOTONIC, for the two waits below; pthread_cond_destroy ends it. */
void lock_cond_init(pthread_cond_t *c);
/* Releases, sleeps until `c` is signalled, takes again. As with every condition the caller looks again at what it waits for. */
void lock_wait(struct lock *l, pthread_cond_t *c);
/* The same, at most until `until_ns` by CLOCK_MONOTONIC; false when that time is over. */
bool lock_wait_until(struct lock *l, pthread_cond_t *c, int64_t until_ns);
