/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner is written between taking and releasing only, by the thread that it names.
 */
#include "lib/base/lock.h"
#include "lib/base/clock.h"

static void own(struct lock *l, pthread_t who)
{
	__atomic_store_n(&l->owner, who, __ATOMIC_RELAXED);
}

bool lock_is_held(const struct lock *l)
{
	return __atomic_load_n(&l->owner, __ATOMIC_RELAXED) == pthread_self();
}

void lock_init(struct lock *l)
{
	pthread_mutex_init(&l->mutex, NULL);
	own(l, 0);
}

void lock_done(struct lock *l)
{
	ASSERT(pthread_mutex_destroy(&l->mutex) == 0);
}

void lock_take(struct lock *l)
{
	ASSERT(!lock_is_held(l));
	ASSERT(pthread_mutex_lock(&l->mutex) == 0);
	own(l, pthread_self());
}

void lock_release(struct lock *l)
{
	ASSERT_HELD(l);
	own(l, 0);
	ASSERT(pthread_mutex_unlock(&l->mutex) == 0);
}

void lock_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

void lock_wait(struct lock *l, pthread_cond_t *c)
{
	ASSERT_HELD(l);
	own(l, 0);
	ASSERT(pthread_cond_wait(c, &l->mutex) == 0);
	own(l, pthread_self());
}

bool lock_wait_until(struct lock *l, pthread_cond_t *c, int64_t until_ns)
{
	struct timespec at = {
		.tv_sec = MAX(until_ns, 0) / NS_PER_S, .tv_nsec = MAX(until_ns, 0) % NS_PER_S};
	int r;

	ASSERT_HELD(l);
	own(l, 0);
	r = pthread_cond_timedwait(c, &l->mutex, &at);
	own(l, pthread_self());
	ASSERT(r == 0 || r == ETIMEDOUT);
	return r == 0;
}
