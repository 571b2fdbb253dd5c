/* SPDX-License-Identifier: Apache-2.0
 *
 * Service discovery: runs the providers that the configuration names and keeps the groups that each
 * job has now.
 *
 * Invariants:
 *  1. everything happens on the caller's thread, in discover_apply and discover_run; callbacks too;
 *  2. equal settings of a provider in several jobs share one; a reload keeps unchanged providers;
 *  3. a refresh that fails keeps the last good groups and is counted;
 *  4. after quiet a change is handed out at once; while changes keep coming the next ones wait
 *     DISCOVER_FIRST_UPDATE_MS, twice that … DISCOVER_UPDATE_MS, and the last state always arrives.
 */
#pragma once
#include "lib/base/clock.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "scraper/discover/target.h"
#include <stdint.h>

struct config;
struct config_job;
struct fs;

enum { DISCOVER_FIRST_UPDATE_MS = 100, DISCOVER_UPDATE_MS = 5000 };

/* The job's groups as they are now; valid during the call only. `cfg` is the configuration last
 * applied, which `job` belongs to. */
typedef void discover_update_fn(void *ctx, struct config *cfg, const struct config_job *job,
	const struct discover_group *const *groups, size_t n_groups);

struct discover_options {
	struct fs *fs;
	struct clock *clock;
	discover_update_fn *update;
	void *ctx;
	const char *user_agent;			    /* of requests */
	uint64_t max_answer_bytes, max_event_bytes; /* --discover.…; 0: the defaults */
	bool is_quiet; /* failures are not logged: the caller prints discover_job_error */
};

struct discover;
/* `o` is copied; what it points to must outlive it. Errors of inotify, epoll, http_client_new and dns_resolver_new, with a text. */
int discover_new(
	const struct discover_options *o, struct discover **ret, struct errbuf *eb) _must_check_;
void discover_free(struct discover *d);
static inline void discover_freep(struct discover **d)
{
	discover_free(*d);
}

/*
 * Takes over a new configuration (a reference is kept). Providers that are new start with the next
 * discover_run; static groups of every job are handed out by it too.
 */
void discover_apply(struct discover *d, struct config *cfg);
/* A descriptor that is readable when discover_run has something to do before its next time. */
int discover_fd(const struct discover *d);
/* Handles what is due; returns the monotonic time in ns of the next call at the latest. */
int64_t discover_run(struct discover *d);

/* Counters for /metrics, per provider kind ("static", "consul"). */
struct discover_stats {
	const char *kind;
	uint64_t targets, refreshes_total, refresh_failures_total, updates_total,
		updates_delayed_total, too_large_total, replaced_bytes_total;
};
/* Fills at most n entries; returns how many kinds there are. */
size_t discover_stats(const struct discover *d, struct discover_stats *ret, size_t n);
/* True once each of the job's providers has ended a refresh, well or not, and its targets were handed out. The job is of the configuration
 * last applied, here and below. */
bool discover_job_settled(const struct discover *d, const struct config_job *job);
/* Why the last refresh of one of the job's providers failed, valid until the next discover_run; or NULL. */
const char *discover_job_error(const struct discover *d, const struct config_job *job);
