/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline's struct, shared by pipeline.c (start and stop), pipeline_threads.c (loop, sync, maintain), pipeline_api.c (what pages ask)
 * and pipeline_metrics.c.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/base/lock.h"
#include "lib/net/metrics/metrics.h"
#include "lib/net/server/server.h"
#include "scraper/api/api.h"
#include "scraper/config/config.h"
#include "scraper/discover/discover.h"
#include "scraper/pipeline.h"
#include "scraper/scrape/scrape.h"
#include "scraper/store/store.h"
#include <pthread.h>
#include <stdatomic.h>

enum { PIPELINE_MAX_DISCOVER_KINDS = 16 };

struct scraper_pipeline {
	const struct scraper_options *o;
	struct clock *clock;
	struct fs *fs;
	struct budget process, scrape_budget, query_budget, cache_budget;
	struct query_workers *workers;
	struct metrics *metrics;
	struct store *store;
	struct scrape *scrape;
	struct discover *discover;
	struct api *api;
	struct http_server *server;
	unsigned max_web_connections, max_scrape_connections;
	char *route_prefix, *external_host, *settings_path, *user_agent, *server_name, *host_name;
	struct api_flag *flags;
	size_t n_flags;
	char **flag_values;

	pthread_t loop, sync, maintain;
	bool loop_started, sync_started, maintain_started, stopped;
	_Atomic bool stopping;

	struct lock reload_lock; /* one reload at a time; before `lock` */
	struct lock lock;	 /* what follows; leaf */
	pthread_cond_t tick;	 /* ends waits of sync and maintain */
	struct config *config;	 /* in force; a reference */
	struct config *pending;	 /* for the loop thread to take over */
	int64_t reload_ns;	 /* of the last load that succeeded */
	bool reload_ok;
	uint64_t n_reloads, n_reload_failures;
	uint64_t auto_reload_failure; /* main thread: hash of the last error that was reported */
	bool is_ready;
	uint64_t replay_done, replay_total;
	struct discover_stats kinds[PIPELINE_MAX_DISCOVER_KINDS];
	size_t n_kinds;
};

/* pipeline.c */
/* Loads the file and hands it to the loop. config_load's errors, with text and logged: the old one stays in force. Any thread. */
int scraper_pipeline_reload(struct scraper_pipeline *p, struct errbuf *eb) _must_check_;

/* pipeline_threads.c */
/* Threads that run after an error are ended by scraper_threads_stop. */
int scraper_threads_start(struct scraper_pipeline *p, struct errbuf *eb) _must_check_;
void scraper_threads_stop(struct scraper_pipeline *p);
/* What discovery knows, for metrics. The thread that runs discovery, or the one that made it before that began. */
void scraper_publish_discovery(struct scraper_pipeline *p);

/* pipeline_api.c */
struct api_callbacks scraper_api_callbacks(struct scraper_pipeline *p);
void scraper_api_flags(struct scraper_pipeline *p);

/* pipeline_storage.c */
/* A duration in nanoseconds; INT64_MAX for 0 and what does not fit. -EINVAL, with text. */
int scraper_storage_parse_retention(const char *text, int64_t *ret, struct errbuf *eb) _must_check_;
/* The configuration in force to the store. */
void scraper_storage_apply(struct scraper_pipeline *p);
/* "15d or 10GiB". */
void scraper_storage_describe(void *arg, struct bytes *out);

/* pipeline_metrics.c */
void scraper_metrics_add(struct scraper_pipeline *p);
