/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of scraper/api share.
 */
#pragma once
#include "lib/base/lock.h"
#include "lib/base/units.h"
#include "lib/json/write.h"
#include "scraper/api/answers.h"
#include "scraper/api/api.h"
#include "scraper/api/params.h"
#include "scraper/store/store.h"
#include <pthread.h>

struct answers;
struct answers_run;

struct api {
	struct api_options o;
	pthread_rwlock_t lock; /* held for reading while a query uses the store */
	struct store *store;
	struct metric *queries, *failures, *duration;
	struct metric_cell *rows, *profiles, *imports, *sources_too_large;
	struct metric *import_failures;
	struct answers *answers;
	struct lock settings_lock; /* the settings file is read and written whole */
	struct http_route *routes; /* the table with the caps of the options */
};

/* ---- one query: from its parameters to its reply ---- */

struct api_job {
	struct api *api;
	struct http_request *request;
	const char *endpoint; /* for metrics */
	struct api_params params;
	struct store_parts parts;
	int64_t from_ns, until_ns; /* what is asked for */
	struct query_env env;
	struct budget budget; /* of this query, below the api's */
	int64_t begun_ns;
	uint64_t refusals; /* of the budgets when it began */
	bool locked;
	enum api_format format;
	struct answers_run *run; /* others may be waiting for it */
	const char *source;	 /* of the answer: "run", "cache", "shared" */
};

/* Parses parameters, takes the store's parts of the range, then api_job_share: when it is not 0 there is nothing left to do. */
int api_job_begin(struct api_job *q, struct http_request *r, struct api *a, const char *endpoint,
	enum api_format fallback) _must_check_;
/*
 * After the parts were taken, in a handler of a route: 0 when the query has to run; else its end is taken care of: the reply was sent,
 * from an answer that was kept (1), or an error; or the request is parked until an identical query that is running has its answer
 * (1), and gets that. A query whose model ended without one runs the route's handler again. `times`: the ranges as they were
 * understood, end_ns the last of them. share.c; api_job_begin does it.
 */
int api_job_share(struct api_job *q, const int64_t *times, size_t n, int64_t end_ns) _must_check_;
/* Gives the answer, before its statistics, to those who wait and to the cache; the reply functions do it. `j`: of a JSON answer, else NULL. */
void api_job_publish(
	struct api_job *q, const struct json *j, const char *file_name, const struct bytes *out);
/* api_job_begin but for api_job_share and the reply: the caller shows the error. -EINVAL names a parameter; -EAGAIN: the store is not open;
 * -ENOMEM. api_job_done is due in any case. */
int api_job_start(struct api_job *q, struct http_request *r, struct api *a, const char *endpoint,
	enum api_format fallback, struct errbuf *eb) _must_check_;
/* The steps of it, for queries with parameters of their own: the frame without parameters … */
void api_job_init(struct api_job *q, struct http_request *r, struct api *a, const char *endpoint);
/* … the parts with profiles from `from_ns` on; the answer is about the time up to `until_ns` … */
int api_job_take(
	struct api_job *q, int64_t from_ns, int64_t until_ns, struct errbuf *eb) _must_check_;
/* The same frame for a request that was parked: what began then is not counted again. */
void api_job_resume(struct api_job *q, struct http_request *r, struct api *a, const char *endpoint,
	int64_t begun_ns);
/* What its parameters ask a catalog for. */
struct query_catalog api_job_catalog(struct api_job *q);
/*
 * … and the end, before the reply: counts, gives the parts back. For a failure returns what it is to the client (a passed
 * deadline is no cancellation), with its text in `ret`.
 */
int api_job_end(struct api_job *q, int r, const struct errbuf *eb, struct errbuf *ret);
/* Into the metrics, once; the reply functions do it themselves. */
void api_job_count(struct api_job *q);
void api_job_done(struct api_job *q);
#define _cleanup_api_job_ _cleanup_(api_job_done)
/* -EINVAL unless exactly one selector was given; the same of q->params below. */
int api_params_one_selector(const struct api_params *p, struct errbuf *eb) _must_check_;
/* Takes the parts again, for another range. */
int api_job_widen(
	struct api_job *q, int64_t from_ns, int64_t until_ns, struct errbuf *eb) _must_check_;
int api_job_one_selector(const struct api_job *q, struct errbuf *eb) _must_check_;

/* -ENOMEM with a text, for an answer that its buffer refused. */
int api_job_too_large(struct errbuf *eb);

/* {"status":"success","data": — the caller writes the value — then api_job_reply_json closes it with the stats. */
void api_job_json_begin(struct api_job *q, struct bytes *out, struct json *ret);
void api_job_reply_json(struct api_job *q, struct json *j, struct bytes *out);
/* Any other format: headers with the statistics and a file name. */
void api_job_reply(struct api_job *q, const char *file_name, struct bytes *out);
void api_job_fail(struct api_job *q, int r, const struct errbuf *eb);

/* Before the reply: what damaged blocks of the range take from the answer, as the header Sonde-Warnings and, in a JSON object, the member
 * `warnings`, as Prometheus has it. The reply functions above do it. warnings.c */
void api_job_warn(struct api_job *q, struct json *j);
/* The same as text, "" where nothing is missing. */
enum { API_WARNINGS_BYTES = 1024 };
void api_job_warnings(struct api_job *q, char ret[API_WARNINGS_BYTES]);

/* ---- replies without a query ---- */

/* errorType of one of our errors. */
const char *api_error_type(int error);
/* Prometheus' error object, or text/plain with X-Go-Pprof: 1 when `format` is not JSON. */
void api_reply_error(struct http_request *r, enum api_format format, int error, const char *text);
void api_json_begin(struct bytes *out, struct json *ret);
void api_reply_json(struct http_request *r, struct json *j, struct bytes *out);
/* What an amount of it a second is, for people: units_rate. Of what is no sum over time, the value's own unit. */
void api_rate_unit(const struct query_type *t, char ret[UNITS_NAME_MAX]);
void api_put_labels(struct json *j, const char *key, const struct labels *l);

/* ---- handlers, by file ---- */
http_handler_fn api_flamegraph, api_top, api_profile;			     /* trees.c */
http_handler_fn api_diff;						     /* diff.c */
http_handler_fn api_import;						     /* import.c */
http_handler_fn api_query_series;					     /* series.c */
http_handler_fn api_quality;						     /* quality.c */
http_handler_fn api_profiles;						     /* profiles.c */
http_handler_fn api_speedscope;						     /* speedscope.c */
http_handler_fn api_lines, api_source;					     /* lines.c */
http_handler_fn api_top_series;						     /* top_series.c */
http_handler_fn api_profile_types, api_labels, api_label_values, api_series; /* catalog.c */
http_handler_fn api_targets, api_scrape_pools, api_status_config, api_status_flags; /* status.c */
http_handler_fn api_scrape_pool_config, api_relabel_steps, api_page_discovery;	    /* pools.c */
/* False while the store is not open. */
bool api_take_stats(struct api *a, struct store_stats *ret);
/* "15d or 10GiB", with its NUL. */
void api_retention(const struct api *a, struct bytes *ret);
http_handler_fn api_tsdb, api_tsdb_blocks;				   /* tsdb.c */
http_handler_fn api_walreplay, api_runtimeinfo, api_buildinfo;		   /* status.c */
http_handler_fn api_metrics, api_healthy, api_ready, api_reload, api_quit; /* lifecycle.c */
http_handler_fn api_admin_snapshot, api_admin_delete_series,
	api_admin_clean_tombstones;						/* admin.c */
http_handler_fn api_page_home;							/* home.c */
http_handler_fn api_ui_page, api_ui_asset;					/* ui.c */
http_handler_fn api_connect;							/* connect.c */
http_handler_fn api_pyroscope_render, api_pyroscope_diff, api_pyroscope_values; /* pyroscope.c */
http_handler_fn api_prometheus_query, api_prometheus_query_range,
	api_prometheus_metadata; /* prometheus.c */
http_handler_fn api_prometheus_rules, api_prometheus_alerts,
	api_prometheus_exemplars; /* prometheus.c */
http_handler_fn api_page_targets, api_page_config, api_page_flags, api_page_status; /* pages.c */

/* pprof of grouped location trees: groups become labels. export.c */
struct query_trees;
int export_pprof(const struct query_trees *t, const struct tree *const *trees, const char *comment,
	struct budget *budget, struct bytes *out, struct errbuf *eb) _must_check_;
/* The same without gzip. */
int export_encode(const struct query_trees *t, const struct tree *const *trees, const char *comment,
	struct budget *budget, struct bytes *out, struct errbuf *eb) _must_check_;

/* What trees.c makes of a merge: filtered location trees, and the function tree that is shown. home.c uses it too. */
struct api_view {
	const struct api_params *params;
	struct tree_symbols *symbols; /* of all its trees */
	struct query_trees merged;
	struct tree *filtered; /* per group */
	struct tree functions;
	int64_t whole, magnitude;		      /* before `at`; of render_input */
	char comment[512], subtitle[512], title[128]; /* the comment has the profile type too */
	char file_name
		[API_FILE_NAME_MAX]; /* what it is of and when it begins: cpu-orders-20260131T140000Z */
};
int api_view_make(struct api_job *q, struct api_view *ret, struct errbuf *eb) _must_check_;
/* Its steps, for answers of more than one merge: merged and filtered, names into `symbols` (NULL: its own; not NULL: with coverage);
 * then one function tree without a limit. */
int api_view_merge(struct api_job *q, const struct api_params *p, struct tree_symbols *symbols,
	struct api_view *ret, struct errbuf *eb) _must_check_;
/* Labels of p->tags become frames (tags.c); groups that then have equal labels are one. Errors of all api_view functions: those of
 * query_merge, and -ENOENT: no profile of p->profiles is there. api_view_done is due in any case. */
int api_view_tag(struct api_job *q, struct api_view *v, struct errbuf *eb) _must_check_;
int api_view_project(
	struct api_job *q, struct api_view *v, struct tree *ret, struct errbuf *eb) _must_check_;
void api_view_done(struct api_view *v);
#define _cleanup_api_view_ _cleanup_(api_view_done)
struct render_input api_view_input(const struct api_job *q, const struct api_view *v);

/* ---- pages ---- */
void api_page_begin(struct api *a, struct bytes *out, const char *title, const char *active);
void api_page_end(struct bytes *out);
void api_page_reply(struct http_request *r, struct bytes *out);
/* Text, escaped for markup. */
void api_page_put(struct bytes *out, const char *text);
/* "3.2s ago", "never". */
void api_page_ago(struct bytes *out, int64_t then_ns, int64_t now_ns);
/* name="value", … of labels as small boxes. */
void api_page_labels(struct bytes *out, const struct labels *l);
