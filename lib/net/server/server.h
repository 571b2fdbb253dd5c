/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server of both programs. One libmicrohttpd epoll thread ("http") parses and sends and
 * never computes; one thread ("net") accepts on all listeners, keeps timers and watches parked
 * connections; N workers ("http-worker") run jobs; one more ("http-monitor") runs those of the routes by which the
 * program is watched and nothing else, so that they never wait for a job that computes.
 *
 * A handler runs on the http thread once the whole request is in. It either replies from memory or
 * parks the request with http_job_run, http_job_run_at or http_job_wait; the job then runs on a worker, where it
 * replies or parks again. Exactly one reply ends a request. A client that goes away, a passed
 * deadline and a shutdown set the job's cancel flag; a parked request whose job has not begun is
 * ended by the server.
 *
 * Refused before any handler: foreign Host on a loopback listener (403), foreign Origin on a route
 * that changes state (403), unknown path (404), other method (405 with Allow), body above the cap
 * (413), more parameters than 1,000 (400), bad escapes (400); with a web configuration also requests
 * above its rate (429) and those without a user's name and password (401).
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/budget.h"
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/fs.h"
#include "lib/net/metrics/metrics.h"
#include "lib/net/url/url.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct http_server;
struct http_request;
typedef void http_handler_fn(struct http_request *r, void *arg);

enum http_method {
	HTTP_GET = 1,
	HTTP_POST = 2,
	HTTP_PUT = 4,
	HTTP_DELETE = 8
}; /* HEAD comes with GET, OPTIONS with CORS */
enum http_route_flags {
	HTTP_ON_WORKER = 1,	/* the handler itself runs on a worker: it may compute */
	HTTP_CHANGES_STATE = 2, /* a foreign Origin is refused; set for every POST or PUT that
				   changes something */
	HTTP_RAW_BODY = 4,	/* the body is no form, whatever type the client gives it */
	/* What runs on a worker does so on the monitoring one, not counted against max_jobs: /metrics, health, readiness, status. Such
	 * a handler never waits for queries, profiles or anything else that grows with the work in hand. */
	HTTP_MONITORING = 8,
};

struct http_route {
	unsigned methods; /* bits of enum http_method */
	/* "/metrics"; a segment "*" matches one segment ("/api/v1/label/" "*" "/values"), a last
	 * "*" any rest, also an empty one. The first match wins; the path is matched after removal
	 * of the route prefix, still escaped. */
	const char *path;
	http_handler_fn *handler;
	unsigned flags;
	uint32_t max_body_bytes; /* 0: the server's */
};

struct http_server_options {
	const char *const *listen; /* "host:port", ":port", "[::1]:0", "unix:/path" (mode 0660) */
	size_t n_listen;
	const char *route_prefix;  /* "" or "/sonde", no '/' at the end; NULL: "" */
	const char *cors_origin;   /* as browsers send it, "*" for any; NULL: no CORS headers */
	const char *external_host; /* a further Host that loopback listeners accept; NULL: none */
	const char *server_name;   /* for the Server header; NULL: none */
	/* Replies to what no route takes, 404 or 405 (Allow is set), in the words of the path's clients; `text` says it. NULL, and
	 * paths outside the prefix: as text. */
	void (*refuse)(struct http_request *r, unsigned code, const char *text);
	/* TLS, users, headers and rate (lib/net/web/config.h), read again when it or a file it names
	 * changes; only whether there is TLS stays as it was. NULL or "": none. */
	const char *web_config_file;
	unsigned n_workers; /* at least 1, beside the one for monitoring */
	int worker_nice;    /* nice value of the workers; the one for monitoring keeps 0 */

	/* Caps and times; 0 means the default in brackets. */
	unsigned max_connections;	 /* beyond it the longest waiting one ends [512] */
	unsigned max_connections_per_ip; /* [none] */
	unsigned max_jobs;	   /* parked requests; above it 503 [7/8 of max_connections] */
	uint32_t max_header_bytes; /* [32 KiB] */
	uint32_t max_body_bytes;   /* of requests [1 MiB] */
	uint32_t read_timeout_ms;  /* from a request's first byte to its last [30 s] */
	uint32_t idle_timeout_ms;  /* between requests [5 min] */
	uint32_t write_timeout_ms; /* base time for a response [60 s] */
	uint32_t min_write_rate;   /* bytes/s that a client must take beyond it [64 KiB] */
	uint32_t job_timeout_ms;   /* default deadline of a job, from its first run [2 min] */

	struct clock *clock;	 /* NULL: the system's */
	struct fs *fs;		 /* of the web configuration; NULL: the system's */
	struct budget *budget;	 /* request arenas and response buffers; NULL: none */
	struct metrics *metrics; /* sonde_http_* families are added; NULL: none */
};

/* Binds all listeners; no thread yet. `routes` and `arg` must outlive the server; `arg` reaches
 * every handler. -EINVAL: options; those of sockets, epoll and the web configuration (web_config_load). The text names the address or
 * the file. */
int http_server_open(const struct http_server_options *o, const struct http_route *routes,
	size_t n_routes, void *arg, struct http_server **ret, struct errbuf *eb) _must_check_;
/* Starts the threads. Negative errno with a text, after which only freep is allowed. */
int http_server_start(struct http_server *s, struct errbuf *eb) _must_check_;
/* "127.0.0.1:41234", "[::1]:41234", "unix:/path" of listener i as bound (port 0 resolved), or NULL
 * past the last. */
const char *http_server_address(const struct http_server *s, size_t i);
/* Graceful stop: no new connections, parked requests are cancelled, running ones have `grace_ms` to
 * finish and are then cancelled (http_job_cancelled), which is waited for: work that can take long looks at that, or the caller
 * ends it before. */
void http_server_stop(struct http_server *s, uint32_t grace_ms);
/* Stops (without grace) when still running, frees, unlinks unix sockets. */
void http_server_freep(struct http_server **s);

/* ---- the request: valid until its reply is sent; strings live as long as it ---- */
const char *http_request_path(
	const struct http_request *r); /* after the route prefix, escaped as sent */
/* What the i-th "*" of the route matched, decoded; NULL past the last. */
const char *http_request_wildcard(const struct http_request *r, size_t i);
/* Query parameters in order, decoded; those of a form body (application/x-www-form-urlencoded) come
 * first. */
const struct url_params *http_request_params(const struct http_request *r);
const char *http_request_param(
	const struct http_request *r, const char *name); /* first value, or NULL */
const char *http_request_header(
	const struct http_request *r, const char *name); /* first value, or NULL */
const char *http_request_host(
	const struct http_request *r); /* HOST:PORT as requested, "" when absent */
/* Of the request's own memory; may be NULL when empty. */
const void *http_request_body(const struct http_request *r, size_t *ret_n);
/* An arena charged to the server's budget, freed with the request. One thread at a time, as the
 * request itself. */
struct arena *http_request_arena(struct http_request *r);
/* Own data; `free_data` (may be NULL) runs once, on any thread, when the request ends or gets other data. */
void http_request_set_data(struct http_request *r, void *data, void (*free_data)(void *));
void *http_request_data(const struct http_request *r);

/* ---- jobs ---- */
/* Parks the request; `work` runs on a worker with the server's arg. The caller must not touch the
 * request afterwards. */
void http_job_run(struct http_request *r, http_handler_fn *work);
/* The same, not before this time of the server's clock. A waiting request costs no thread. */
void http_job_run_at(struct http_request *r, int64_t monotonic_ns, http_handler_fn *work);
/*
 * The same, not before http_job_wake with a ticket of this request. A call that comes before the request is parked is not lost: the
 * ticket may be given away first. A deadline, the client's leaving and the server's stop end the waiting as always; `work` runs
 * once for any number of calls, and may run without reason when an earlier wait was woken twice, so it looks again at what it waited for.
 */
void http_job_wait(struct http_request *r, http_handler_fn *work);
struct http_ticket {
	struct http_server *server;
	uint64_t conn_id, request_id;
};
struct http_ticket http_job_ticket(const struct http_request *r);
/* Any thread while the server is there; nothing happens when the request has ended. Takes the server's lock. */
void http_job_wake(const struct http_ticket *t);
/* On a worker: the route's handler, from the start. */
void http_job_restart(struct http_request *r);
/* Replaces the default deadline (monotonic; counts also while it waits for its time). Call before
 * parking. */
void http_job_set_deadline(struct http_request *r, int64_t monotonic_ns);
/* True once the client left, the deadline passed or the server stops: give up with any reply soon.
 */
bool http_job_cancelled(const struct http_request *r);
/* The flag behind it, for code that takes one. */
const _Atomic bool *http_job_cancel_flag(const struct http_request *r);

/* ---- replies: exactly one per request ---- */
/* A response header, before the reply; name and value are copied; a value with control characters
 * is dropped. */
void http_reply_header(struct http_request *r, const char *name, const char *value);
/* text/plain; charset=utf-8, a newline is added. For errors (code ≥ 400) X-Content-Type-Options:
 * nosniff goes with it. */
void http_reply_text(struct http_request *r, unsigned code, const char *fmt, ...) _printf_(3, 4);
/* Takes over the bytes (`body` is left empty). A sticky error of `body` becomes a 503 (memory)
 * reply. On a worker, text above 1 KiB is gzipped when the client accepts it; content types
 * application/octet-stream and other binary ones never are. */
void http_reply_bytes(
	struct http_request *r, unsigned code, const char *content_type, struct bytes *body);
/* Memory that outlives the server. */
void http_reply_static(
	struct http_request *r, unsigned code, const char *content_type, const void *p, size_t n);
/* The same for a gzip member, on a worker: who does not accept gzip gets what is in it. */
void http_reply_gzip(
	struct http_request *r, unsigned code, const char *content_type, const void *p, size_t n);
/* 302 to a path below the route prefix, with the request's query. */
void http_reply_redirect(struct http_request *r, const char *path);

/* The HTTP code that fits one of our errors: -EINVAL 400, -ENOENT 404, -EFBIG 413, -ENOMEM 503,
 * -ETIMEDOUT 503, -ECANCELED 499, -ENOTSUP 501, others 500. */
unsigned http_code_of_error(int error);
