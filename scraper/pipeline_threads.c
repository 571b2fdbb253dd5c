/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads that belong to no stage: loop drives discovery and scraping, sync makes the log durable, maintain writes blocks and deletes
 * old ones at low priority.
 */
#include "scraper/pipeline_impl.h"
#include "lib/base/log.h"
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SYNC_POLL_MS = 200, MAINTAIN_MS = 1000, MAINTAIN_NICE = 10 };

static struct config *take_pending(struct scraper_pipeline *p)
{
	struct config *cfg;

	lock_take(&p->lock);
	cfg = TAKE(p->pending);
	lock_release(&p->lock);
	return cfg;
}

void scraper_publish_discovery(struct scraper_pipeline *p)
{
	struct discover_stats kinds[PIPELINE_MAX_DISCOVER_KINDS];
	size_t n = discover_stats(p->discover, kinds, PIPELINE_MAX_DISCOVER_KINDS);

	lock_take(&p->lock);
	p->n_kinds = MIN(n, (size_t)PIPELINE_MAX_DISCOVER_KINDS);
	memcpy(p->kinds, kinds, p->n_kinds * sizeof(*kinds));
	lock_release(&p->lock);
}

static void *loop_main(void *arg)
{
	struct scraper_pipeline *p = arg;

	pthread_setname_np(pthread_self(), "loop");
	while (!p->stopping) {
		struct config *cfg = take_pending(p);
		int64_t until_ns;

		if (cfg) {
			scrape_apply(p->scrape, cfg);
			discover_apply(p->discover, cfg);
			config_put(cfg);
		}
		until_ns = discover_run(p->discover);
		scraper_publish_discovery(p);
		if (scrape_run(p->scrape, until_ns) < 0)
			LOG_RATED(LOG_ERROR, "the scrape loop's wait failed");
	}
	return NULL;
}

static void *sync_main(void *arg)
{
	struct scraper_pipeline *p = arg;

	pthread_setname_np(pthread_self(), "sync");
	while (!p->stopping)
		if (store_sync_wait(p->store, SYNC_POLL_MS * NS_PER_MS) && store_sync(p->store) < 0)
			LOG_RATED(LOG_ERROR, "cannot sync the write-ahead log");
	return NULL;
}

/* False once the pipeline stops. */
static bool wait_tick(struct scraper_pipeline *p, int64_t ms)
{
	int64_t until_ns = clock_monotonic_ns(p->clock) + ms * NS_PER_MS;

	lock_take(&p->lock);
	if (!p->stopping)
		lock_wait_until(&p->lock, &p->tick, until_ns);
	lock_release(&p->lock);
	return !p->stopping;
}

static void *maintain_main(void *arg)
{
	struct scraper_pipeline *p = arg;

	pthread_setname_np(pthread_self(), "maintain");
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), MAINTAIN_NICE);
	while (wait_tick(p, MAINTAIN_MS)) {
		struct errbuf eb = {0};
		int r = store_maintain(p->store, &eb);

		if (r < 0)
			LOG_RATED(LOG_ERROR, "store maintenance: %s", err_text(&eb, r));
	}
	return NULL;
}

static int start(pthread_t *t, bool *started, void *(*fn)(void *), struct scraper_pipeline *p,
	struct errbuf *eb)
{
	int r = pthread_create(t, NULL, fn, p);

	if (r)
		return err_set(eb, -r, "cannot start a thread: %s", strerror(r));
	*started = true;
	return 0;
}

int scraper_threads_start(struct scraper_pipeline *p, struct errbuf *eb)
{
	int r = start(&p->sync, &p->sync_started, sync_main, p, eb);

	if (r == 0)
		r = start(&p->maintain, &p->maintain_started, maintain_main, p, eb);
	if (r == 0)
		r = start(&p->loop, &p->loop_started, loop_main, p, eb);
	return r;
}

void scraper_threads_stop(struct scraper_pipeline *p)
{
	lock_take(&p->lock);
	p->stopping = true;
	pthread_cond_broadcast(&p->tick);
	lock_release(&p->lock);
	if (p->scrape)
		scrape_wake(p->scrape);
	if (p->loop_started)
		pthread_join(p->loop, NULL);
	if (p->sync_started)
		pthread_join(p->sync, NULL);
	if (p->maintain_started)
		pthread_join(p->maintain, NULL);
	p->loop_started = p->sync_started = p->maintain_started = false;
}
