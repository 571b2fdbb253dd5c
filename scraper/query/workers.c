/* SPDX-License-Identifier: Apache-2.0
 *
 * One list of jobs under one mutex. The job of the asking thread lies on its stack: it leaves the list when its own call is done and
 * waits for the helpers that are still in theirs.
 */
#include "scraper/query/workers.h"
#include "lib/base/alloc.h"
#include "lib/base/lock.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct job {
	query_work_fn *fn;
	void *ctx;
	unsigned n_slots, max; /* slots given out, at most max */
	unsigned n_active;     /* helpers inside */
	struct job *next;
};

struct query_workers {
	struct lock lock;
	pthread_cond_t wake, left;
	struct job *jobs; /* oldest first */
	pthread_t *threads;
	unsigned n_threads;
	int nice_value;
	bool stop;
};

static struct job *open_job(struct query_workers *w)
{
	struct job *j = w->jobs;

	ASSERT_HELD(&w->lock);
	while (j && j->n_slots == j->max)
		j = j->next;
	return j;
}

static void *helper_main(void *arg)
{
	struct query_workers *w = arg;

	pthread_setname_np(pthread_self(), "query");
	if (w->nice_value)
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), w->nice_value);
	lock_take(&w->lock);
	while (!w->stop) {
		struct job *j = open_job(w);
		unsigned slot;

		if (!j) {
			lock_wait(&w->lock, &w->wake);
			continue;
		}
		slot = j->n_slots++;
		j->n_active++;
		lock_release(&w->lock);
		j->fn(j->ctx, slot);
		lock_take(&w->lock);
		if (!--j->n_active)
			pthread_cond_broadcast(&w->left);
	}
	lock_release(&w->lock);
	return NULL;
}

int query_workers_new(unsigned n, int nice_value, struct query_workers **ret, struct errbuf *eb)
{
	struct query_workers *w = xcalloc(1, sizeof(*w));

	lock_init(&w->lock);
	pthread_cond_init(&w->wake, NULL);
	pthread_cond_init(&w->left, NULL);
	w->nice_value = nice_value;
	w->threads = xcalloc(n + 1UL, sizeof(*w->threads));
	for (; w->n_threads < n; w->n_threads++)
		if (pthread_create(&w->threads[w->n_threads], NULL, helper_main, w) != 0) {
			query_workers_freep(&w);
			return err_set(eb, -EAGAIN, "cannot start %u threads for queries", n);
		}
	*ret = w;
	return 0;
}

void query_workers_freep(struct query_workers **pw)
{
	struct query_workers *w = *pw;

	if (!w)
		return;
	lock_take(&w->lock);
	ASSERT(!w->jobs);
	w->stop = true;
	pthread_cond_broadcast(&w->wake);
	lock_release(&w->lock);
	for (unsigned i = 0; i < w->n_threads; i++)
		pthread_join(w->threads[i], NULL);
	pthread_cond_destroy(&w->left);
	pthread_cond_destroy(&w->wake);
	lock_done(&w->lock);
	free(w->threads);
	free(w);
	*pw = NULL;
}

unsigned query_workers_n(const struct query_workers *w)
{
	return w ? w->n_threads : 0;
}

static void remove_job(struct query_workers *w, const struct job *j)
{
	struct job **at = &w->jobs;

	ASSERT_HELD(&w->lock);
	while (*at != j) {
		ASSERT(*at);
		at = &(*at)->next;
	}
	*at = j->next;
}

void query_workers_run(struct query_workers *w, unsigned max, query_work_fn *fn, void *ctx)
{
	struct job j = {.fn = fn, .ctx = ctx, .n_slots = 1, .max = max}, **at;

	if (!w || !w->n_threads || max < 2) {
		fn(ctx, 0);
		return;
	}
	lock_take(&w->lock);
	for (at = &w->jobs; *at; at = &(*at)->next)
		;
	*at = &j;
	pthread_cond_broadcast(&w->wake);
	lock_release(&w->lock);
	fn(ctx, 0);
	lock_take(&w->lock);
	remove_job(w, &j);
	while (j.n_active)
		lock_wait(&w->lock, &w->left);
	lock_release(&w->lock);
}
