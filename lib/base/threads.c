/* SPDX-License-Identifier: Apache-2.0
 *
 * The time at which a step began is all that others read of a thread.
 */
#include "lib/base/threads.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include <string.h>
#include <time.h>

static void *go_round(void *arg)
{
	struct thread *self = arg;

	pthread_setname_np(pthread_self(), self->row.name);
	while (!self->all->is_stopping) {
		self->began_ns = clock_monotonic_ns(&clock_system);
		self->row.step(self->all->ctx);
	}
	self->began_ns = 0;
	return NULL;
}

int threads_start(struct threads *t, const struct thread_row *row, struct errbuf *eb)
{
	struct thread *one = &t->list[t->n];
	int r;

	ASSERT(t->n < THREADS_MAX);
	*one = (struct thread) {.row = *row, .all = t};
	r = pthread_create(&one->id, NULL, go_round, one);
	if (r)
		return err_set(
			eb, -r, "the thread \"%s\" cannot be started: %s", row->name, strerror(r));
	t->n++;
	return 0;
}

void threads_stop(struct threads *t)
{
	t->is_stopping = true;
}

static bool join(struct thread *one, int64_t until_ns)
{
	const struct timespec until = {
		.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};

	return (until_ns < 0 ? pthread_join(one->id, NULL)
			     : pthread_clockjoin_np(one->id, NULL, CLOCK_MONOTONIC, &until)) == 0;
}

size_t threads_join(struct threads *t, int64_t limit_ns)
{
	int64_t until_ns = limit_ns < 0 ? -1 : clock_monotonic_ns(&clock_system) + limit_ns;
	size_t n_stuck = 0;

	ASSERT(t->is_stopping);
	for (size_t i = 0; i < t->n; i++) {
		if (join(&t->list[i], until_ns))
			continue;
		n_stuck++;
		log_printf(LOG_WARN, "the thread \"%s\" does not end: ending without it",
			t->list[i].row.name);
	}
	return n_stuck;
}

struct threads_stuck threads_stuck(const struct threads *t)
{
	int64_t now_ns = clock_monotonic_ns(&clock_system);
	struct threads_stuck ret = {.n = 0};

	for (size_t i = 0; i < t->n; i++) {
		const struct thread_row *row = &t->list[i].row;
		int64_t began_ns = t->list[i].began_ns;

		if (!began_ns || !row->patience_ns || now_ns - began_ns <= row->patience_ns)
			continue;
		ret.n++;
		if (ret.first && (ret.first->is_vital || !row->is_vital))
			continue;
		ret.first = row;
		ret.for_ns = now_ns - began_ns;
	}
	return ret;
}
