/* SPDX-License-Identifier: Apache-2.0
 *
 * The scraper's HTTP interface: own query API, Prometheus' status endpoints, the plain pages. What
 * it shows of other stages comes through callbacks that the pipeline fills in; each may be called
 * from any worker thread.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/json/write.h"
#include "lib/net/server/server.h"
#include "lib/net/metrics/metrics.h"
#include "lib/prof/labels.h"
#include <stdbool.h>
#include <stdint.h>

struct api;
struct fs;
struct query_workers;
struct store;

enum api_health { API_UNKNOWN, API_UP, API_DOWN };

/* One profile type of a target, as of its last scrape. */
struct api_target_profile {
	const char *name, *url, *last_error; /* last_error "" when fine */
	enum api_health health;
	int64_t last_scrape_ns, last_duration_ns; /* 0: never */
};

struct api_target {
	const struct labels *discovered, *labels;
	const char *pool, *url, *global_url, *last_error;
	const char *collapsed; /* labels that are __other__ at label_set_limit; "" or NULL: none */
	enum api_health health;
	int64_t last_scrape_ns, last_duration_ns, interval_ms, timeout_ms;
	const struct api_target_profile *profiles;
	size_t n_profiles;
	bool dropped; /* by relabeling: only discovered and pool are set */
};
typedef void api_target_fn(const struct api_target *t, void *ctx);

struct api_flag {
	const char *name, *value; /* without the dashes */
};

struct api_callbacks {
	void *arg;
	/* Calls fn for every active target, then for every dropped one that is kept. */
	void (*each_target)(void *arg, api_target_fn *fn, void *ctx);
	/* Calls fn with the name of every job and how many targets its rules drop, all of them. */
	void (*each_pool)(
		void *arg, void (*fn)(const char *name, uint64_t n_dropped, void *ctx), void *ctx);
	/* Appends the configuration in use as YAML, without secrets. */
	void (*config_yaml)(void *arg, struct bytes *out);
	/* The same of one job; false when there is none of that name. */
	bool (*pool_yaml)(void *arg, const char *pool, struct bytes *out);
	/* Applies the job's relabel rules one by one to these labels (a JSON object) and writes an
	 * object {rule, output, keep} after each. -ENOENT: no such job; -EINVAL: the labels. */
	int (*relabel_steps)(
		void *arg, const char *pool, const char *labels, struct json *j, struct errbuf *eb);
	/* How much of the write-ahead log is read at start, in bytes; false once that is over. */
	bool (*replaying)(void *arg, uint64_t *ret_done, uint64_t *ret_total);
	/* True when queries and scrapes work; else a reason for a person ("replaying the
	 * write-ahead log, 40 %"). */
	bool (*ready)(void *arg, char ret_reason[256]);
	/* 0 or an error with its text: the old configuration stays. Only with enable_lifecycle. */
	int (*reload)(void *arg, struct errbuf *eb);
	void (*quit)(void *arg);
	/* Unix time; *ret_ok: whether the last (re)load succeeded. */
	int64_t (*last_reload_ns)(void *arg, bool *ret_ok);
	/* Appends how long profiles are kept, "15d or 10GiB". */
	void (*retention)(void *arg, struct bytes *out);
};

struct api_options {
	struct api_callbacks callbacks;
	struct budget *budget;	       /* of all queries; --query.max-memory */
	uint64_t max_query_bytes;      /* of one query, --query.max-bytes; 0: no limit of its own */
	struct budget *cache_budget;   /* answers that are kept; NULL or without a limit: none */
	struct query_workers *workers; /* threads that help queries; NULL: none */
	struct clock *clock;
	struct metrics *metrics;
	const struct api_flag *flags;
	size_t n_flags;
	bool enable_lifecycle, enable_admin;
	const char *version;
	const char *route_prefix;   /* as the server's */
	const char *source_dir;	    /* --symbols.source-dir; NULL: no text of source files */
	uint64_t max_source_bytes;  /* of a file there, --symbols.source-max-bytes; 0: 4 MiB */
	const char *speedscope_dir; /* --web.speedscope-dir; NULL: it is not served */
	struct fs *fs;		    /* for settings_path */
	const char *
		settings_path; /* where settings of Grafana's plugins are kept; NULL: they are not */
	int64_t query_timeout_ms; /* --query.timeout; 0: 2 min */
	uint32_t max_nodes;	  /* --query.max-nodes, the most a client may ask for; 0: 1048576 */
	uint64_t max_body_bytes;  /* of an import, --scrape.max-body-bytes; 0: 32 MiB */
	uint64_t
		max_inflated_bytes; /* the same decompressed, --scrape.max-inflated-bytes; 0: 256 MiB */
	int64_t start_time_ns;
};

/* Strings and arrays of `o` must outlive the api. -ENOMEM. */
int api_new(const struct api_options *o, struct api **ret, struct errbuf *eb) _must_check_;
void api_freep(struct api **a);
/* The store once it is open (and NULL before it is closed): until then queries answer 503.
 * Thread-safe. */
void api_set_store(struct api *a, struct store *s);
/* All routes, owned by the api; the server's `arg` must be the api. */
const struct http_route *api_routes(const struct api *a, size_t *ret_n);
/* For http_server_options.refuse: the envelope below /api/, a code with a message below /pyroscope/ and for Connect's services. refuse.c */
void api_refuse(struct http_request *r, unsigned code, const char *text);
