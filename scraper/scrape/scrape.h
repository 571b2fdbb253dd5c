/* SPDX-License-Identifier: Apache-2.0
 *
 * The scrape stage: groups from discovery become targets, targets are asked on a schedule, answers are checked, decoded, relabeled and
 * cut into one struct store_scrape each, which a sink appends. docs/scraper.md describes what a user sees of it.
 *
 * Threads: `loop` owns targets, timers and transfers (scrape_run); the decode threads and the appender are started by scrape_start.
 * A request (one ask of one profile type) is in one thread's hands at a time: loop → decode → appender → loop.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/budget.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/net/client/client.h"
#include "lib/net/metrics/metrics.h"
#include "lib/prof/labels.h"
#include "scraper/store/model/append.h"
#include <stdbool.h>
#include <stdint.h>

struct bytes;
struct config;
struct config_job;
struct discover_group;
struct fs;
struct scrape;

/* Where scrapes go: the store, or a recorder in tests. Called on the appender thread, except cursor_get (any decode thread). */
struct scrape_sink {
	void *arg;
	/* As store_append. */
	int (*append)(void *arg, const struct store_scrape *s, struct store_result *ret,
		struct errbuf *eb);
	/* As store_cursor_get. */
	int (*cursor_get)(void *arg, struct store_blob key, struct bytes *ret);
};

struct scrape_options {
	struct clock *clock;
	struct fs *fs; /* of scrape_failure_log_file */
	struct budget *
		budget; /* the scrape budget: bodies, decoded profiles, delta columns; has a limit */
	struct metrics *metrics;
	struct dialer *dialer; /* NULL: the system's */
	struct scrape_sink sink;
	const char *user_agent; /* "sonde/0.1.0" */
	const char *host_name;	/* spreads offsets of several scrapers, with the external labels */
	uint64_t
		max_body_bytes; /* as sent; a job's body_size_limit also bounds the decompressed size */
	uint64_t max_inflated_bytes; /* decompressed */
	unsigned n_decoders;	     /* 0: min(4, CPUs) */
	unsigned max_connections;    /* kept alive in all; 0: the client's default */
	unsigned max_per_host;	     /* requests in flight to one host; 0: no limit */
};

/* Starts no thread. `o` is copied; what it points to must outlive the stage. Errors of http_client_new. */
int scrape_new(const struct scrape_options *o, struct scrape **ret, struct errbuf *eb) _must_check_;
void scrape_freep(struct scrape **s);
/* Starts the threads. Negative errno with a text; scrape_freep ends those that run. */
int scrape_start(struct scrape *s, struct errbuf *eb) _must_check_;
/* Cancels transfers, lets answers that have come reach the sink, for two seconds at most, ends the threads. Loop thread; then only
 * scrape_status_get, scrape_status_dropped and scrape_freep. */
void scrape_stop(struct scrape *s);

/* ---- loop thread ---- */
/* Takes over a configuration (a reference is kept): jobs that are gone or changed stop, their requests in flight still finish and are stored. */
void scrape_apply(struct scrape *s, struct config *cfg);
/* A discover_update_fn: `ctx` is the struct scrape. */
void scrape_update(void *ctx, struct config *cfg, const struct config_job *job,
	const struct discover_group *const *groups, size_t n_groups);
/* Runs what is due and waits for traffic until `until_ns` (monotonic) at most. Errors of http_client_run. */
int scrape_run(struct scrape *s, int64_t until_ns) _must_check_;
/* scrape_run also returns when this descriptor (discovery's) is readable. */
int scrape_watch(struct scrape *s, int fd) _must_check_;
/* Makes scrape_run return soon. Any thread. */
void scrape_wake(struct scrape *s);

/* ---- what pages and the API show: a copy in `a`, from any thread ---- */
enum scrape_health { SCRAPE_UNKNOWN, SCRAPE_UP, SCRAPE_DOWN };
struct scrape_status_type {
	const char *name, *url, *last_error; /* "" when fine */
	enum scrape_health health;
	int64_t last_scrape_ns, last_duration_ns; /* realtime; 0: never */
	uint64_t samples, series;		  /* of the last answer */
	double behind_s;			  /* of an exporter's cursor */
};
struct scrape_status_target {
	struct labels discovered, labels; /* the arena's */
	const char *pool, *url, *last_error;
	const char *preset; /* "auto", "node" or "go" */
	const char *
		collapsed; /* labels that are __other__ at the job's label_set_limit, "a, b"; "" when none */
	enum scrape_health health;
	int64_t last_scrape_ns, last_duration_ns, interval_ms, timeout_ms;
	struct scrape_status_type *types;
	size_t n_types;
	bool dropped; /* by relabeling: only discovered and pool are set */
};
struct scrape_status {
	struct scrape_status_target *targets; /* active ones first */
	size_t n_targets, n_active;
	const char **pools;
	size_t n_pools;
};
/* How many targets the job's rules drop, also those beyond keep_dropped_targets. Any thread. */
uint64_t scrape_status_dropped(struct scrape *s, const char *job);
/* -ENOMEM of the arena. */
int scrape_status_get(struct scrape *s, struct arena *a, struct scrape_status *ret) _must_check_;
