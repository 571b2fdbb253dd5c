/* SPDX-License-Identifier: Apache-2.0
 *
 * A flag and a condition.
 */
#include "lib/base/bell.h"
#include "lib/base/clock.h"
#include <errno.h>
#include <time.h>

void bell_init(struct bell *b)
{
	pthread_condattr_t attr;

	*b = (struct bell) {0};
	pthread_mutex_init(&b->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->cond, &attr);
	pthread_condattr_destroy(&attr);
}

void bell_done(struct bell *b)
{
	pthread_cond_destroy(&b->cond);
	pthread_mutex_destroy(&b->mutex);
}

void bell_ring(struct bell *b)
{
	pthread_mutex_lock(&b->mutex);
	if (!b->is_rung) /* else the sleeper is up, or waits for its earliest time */
		pthread_cond_signal(&b->cond);
	b->is_rung = true;
	pthread_mutex_unlock(&b->mutex);
}

void bell_close(struct bell *b)
{
	pthread_mutex_lock(&b->mutex);
	b->is_closed = true;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->mutex);
}

/* False when the time is over, or was before. */
static bool wait_locked(struct bell *b, int64_t until_ns)
{
	const struct timespec ts = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};

	return pthread_cond_timedwait(&b->cond, &b->mutex, &ts) != ETIMEDOUT;
}

void bell_wait(struct bell *b, int64_t earliest_ns, int64_t until_ns)
{
	pthread_mutex_lock(&b->mutex);
	while (!b->is_rung && !b->is_closed && wait_locked(b, until_ns))
		;
	while (b->is_rung && !b->is_closed && wait_locked(b, earliest_ns))
		;
	b->is_rung = false;
	pthread_mutex_unlock(&b->mutex);
}
