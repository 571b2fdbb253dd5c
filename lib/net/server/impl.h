/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's structs, shared by the files of this folder alone.
 *
 * Invariants:
 *  1. `lock` guards everything in struct http_server below it, the connection table and a request's
 * `state`; nothing blocks under it;
 *  2. a request belongs to the thread its state names: HTTP_READING, HTTP_HANDLING, HTTP_REPLIED and HTTP_SENDING
 * to the http thread, HTTP_WAITING and HTTP_QUEUED to nobody (whoever holds the lock may take it),
 * HTTP_RUNNING to its worker;
 *  3. a request that is HTTP_WAITING, HTTP_QUEUED or HTTP_RUNNING is parked: its connection is
 * suspended and its socket watched; n_parked counts them, and libmicrohttpd is stopped only when it
 * is 0;
 *  4. a parked request with a due time stands in the heap exactly once;
 *  5. a request is in a queue exactly while it is HTTP_QUEUED.
 */
#pragma once
#include "lib/net/server/server.h"
#include "lib/base/lock.h"
#include "lib/base/table.h"
#include <microhttpd.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>

enum {
	HTTP_MAX_PARAMS = 1000,
	HTTP_MAX_WILDCARDS = 4,
	HTTP_MAX_HEADERS = 16, /* of our replies */
	HTTP_SWEEP_MS = 1000,
	HTTP_GZIP_MIN_BYTES = 1024,
	HTTP_NEVER = 0,
	HTTP_MAX_VERDICTS = 128,
	HTTP_SPARE_CONNECTIONS = 64, /* above the cap, while those that make room end */
	HTTP_MONITORING_SHARE = 8,   /* this part of the connections no jobs may hold */
};

/* Whether this name and password belong to this hash: bcrypt is slow on purpose. */
struct http_verdict {
	uint8_t key[32]; /* SHA-256 of salt, hash, name and password */
	bool is_used;
};

enum http_state {
	HTTP_READING,
	HTTP_HANDLING,
	HTTP_WAITING,
	HTTP_QUEUED,
	HTTP_RUNNING,
	HTTP_REPLIED,
	HTTP_SENDING
};

/* Where a request waits for a thread, first come first served. */
enum http_queue_name {
	HTTP_QUEUE_JOBS,       /* for the workers */
	HTTP_QUEUE_MONITORING, /* for the monitoring worker … */
	HTTP_QUEUE_PASSWORDS, /* … which looks here only when that is empty: no flood of wrong passwords delays a known user */
	HTTP_N_QUEUES
};
struct http_queue {
	struct http_request *first, **end;
};

struct http_conn {
	uint64_t id;
	int fd;
	bool checks_host; /* accepted by a loopback listener */
	bool is_fresh;	  /* no request yet */
	bool is_cut;	  /* its socket is shut down, its end is on the way */
	bool is_tls;	  /* tls.c: its first bytes were no plain request */
	char peer[INET6_ADDRSTRLEN + 8];
	struct http_request *request; /* the current one */
	int64_t idle_since_ns;	      /* since the last response, or the accept */
	int64_t partial_since_ns;     /* bytes of an unfinished request seen since; 0: none */
	uint64_t idle_bytes;	  /* received when idleness began; UINT64_MAX: not sampled yet */
	struct http_guard *guard; /* of its TLS session, which uses its credentials; or NULL */
	struct http_conn *prev, *next;
};

struct http_request {
	struct http_server *server;
	struct http_conn *conn;
	struct MHD_Connection *mhd;
	const struct http_route *route; /* NULL: refused before routing */
	struct arena arena;
	enum http_state state;

	const char *method; /* "GET"; HEAD shows as "GET" */
	char *path, *query; /* raw; the path without the route prefix */
	char *wildcards[HTTP_MAX_WILDCARDS];
	size_t n_wildcards;
	struct url_params params;
	struct bytes body;
	size_t max_body_bytes;
	bool body_too_big;
	bool must_verify; /* a worker has to check the password first */
	bool is_left;	  /* its client was seen to leave, and counted */
	int64_t start_ns;

	void *data;
	void (*free_data)(void *);

	/* what the handler or job asked for, published when it has returned */
	http_handler_fn *next_work;
	int64_t next_at_ns; /* HTTP_NEVER: now */
	bool next_waits;    /* not before http_job_wake */
	bool is_parking;

	uint64_t id;   /* of all requests of the server */
	bool is_woken; /* since it asked to wait, or before */
	http_handler_fn *work;
	int64_t at_ns, deadline_ns; /* HTTP_NEVER: none */
	size_t heap_idx;	    /* place + 1; 0: not in the heap */
	enum http_queue_name queue; /* of its last queue */
	struct http_request *queue_next;
	_Atomic bool cancelled;

	struct http_reply_header_pair {
		const char *name, *value;
	} headers[HTTP_MAX_HEADERS];
	size_t n_headers;
	unsigned code;
	struct MHD_Response *response;
	size_t n_response;
	int64_t write_deadline_ns;
};

struct http_listener {
	int fd;
	bool is_unix, is_loopback, is_armed;
	char *address; /* as printed */
	char *unix_path;
	uint16_t port;
};

struct http_server {
	struct http_server_options o;
	const struct http_route *routes;
	size_t n_routes;
	void *arg;
	char *route_prefix, *cors_origin, *external_host, *server_name, *web_config_file;
	bool has_tls; /* from the start to the end */
	struct http_listener *listeners;
	size_t n_listeners;

	struct MHD_Daemon *daemon;
	int epoll_fd, wake_fd;
	pthread_t net_thread;
	pthread_t *workers, monitor;
	unsigned n_workers_started;
	bool monitor_started, net_started, stopped;
	struct metrics *own_metrics; /* when the options gave none */
	_Atomic bool http_named;

	struct lock lock;
	pthread_cond_t job_ready;	 /* workers */
	pthread_cond_t monitoring_ready; /* the monitoring worker */
	pthread_cond_t drained;		 /* http_server_stop */
	bool stopping, quit;
	struct table conns; /* id → struct http_conn * */
	struct http_conn *conn_list;
	size_t n_conns, n_active;
	size_t n_parked, n_jobs; /* the latter without monitoring */
	uint64_t next_conn_id, next_request_id;
	struct http_queue queues[HTTP_N_QUEUES];
	struct http_request **heap;
	size_t n_heap, cap_heap;
	int64_t accept_paused_until_ns;
	struct http_guard *guard; /* what new requests meet; NULL: no web configuration */
	double rate_tokens;
	int64_t rate_at_ns;
	/* of passwords already checked, wrong ones and right ones: no flood of the former pushes out the latter */
	struct http_verdict verdicts[2][HTTP_MAX_VERDICTS];
	unsigned next_verdict[2];
	uint64_t guard_failure; /* the net thread: hash of the last message */
	uint8_t verdict_salt[32];

	struct metric *m_requests, *m_duration, *m_refused, *m_cut;
	struct metric_cell *m_conns, *m_displaced, *m_parked, *m_gone, *m_guard_ok, *m_guard_time;
};

/* listen.c */
int http_listen_open(struct http_server *s, const char *text, struct errbuf *eb) _must_check_;
void http_listen_close(struct http_server *s);
void http_peer_text(const struct sockaddr *a, char *ret, size_t n);
bool http_addr_is_loopback(const struct sockaddr *a);

/* net.c: the net thread */
void *http_net_main(void *arg);
void http_wake_net(struct http_server *s); /* wake.c */

/* conn.c: libmicrohttpd's callbacks */
enum MHD_Result http_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *n_upload,
	void **con_cls);
void *http_on_uri(void *cls, const char *uri, struct MHD_Connection *mhd);
void http_on_completed(
	void *cls, struct MHD_Connection *mhd, void **con_cls, enum MHD_RequestTerminationCode why);
void http_on_connection(void *cls, struct MHD_Connection *mhd, void **socket_ctx,
	enum MHD_ConnectionNotificationCode what);
/* Cuts the sockets that have stayed too long in one state. Once a second. */
void http_conn_sweep_locked(struct http_server *s, int64_t now_ns);
/* Cuts the connection that has waited longest for its client. False when all are at work. */
bool http_conn_make_room_locked(struct http_server *s);

/* guard.c: the web configuration that is in force */
void http_guard_add_metrics(struct http_server *s);
int http_guard_open(struct http_server *s, struct errbuf *eb) _must_check_;
void http_guard_close(struct http_server *s);
/* Reads the files again when one has changed; a bad one changes nothing. The net thread, once a
 * second. */
void http_guard_refresh(struct http_server *s);
/* Readies the TLS of a new connection, which keeps the returned guard until it ends; NULL without. */
struct http_guard *http_guard_begin_tls(
	struct http_server *s, struct MHD_Connection *mhd, struct http_conn *c);
void http_guard_put(struct http_guard *g);
/* Rate and users, once a request's headers are in. True when the reply is set. */
bool http_guard_refuses(struct http_request *r);
/* The job that checks a password and goes on with the request. */
void http_guard_verify(struct http_request *r, void *arg);

/* route.c */
/* Finds the route, fills path, wildcards and params; 0, or the reply is set and its code is
 * returned. */
unsigned http_route_request(struct http_request *r);

/* reply.c */
bool http_is_replied(const struct http_request *r);
/* A line of text, of 159 bytes at most; needs no lock and is allowed with it. */
void http_reply_cut(struct http_request *r, unsigned code, const char *why);

/* job.c */
void *http_worker_main(void *arg);
void *http_monitor_main(void *arg);
/* Publishes what a handler or a job asked for. */
void http_job_publish(struct http_request *r, bool was_parked);
/* Ends a WAITING or QUEUED request with this reply. */
void http_job_end_locked(struct http_request *r, unsigned code, const char *why);
/* Moves due requests on; returns the next due time or HTTP_NEVER. */
int64_t http_job_run_due_locked(struct http_server *s, int64_t now_ns);
/* Ends a parked request whose reply is set: back to the http thread. */
void http_job_resume_locked(struct http_request *r);

/* heap.c: requests by due time */
int64_t http_heap_key(const struct http_request *r);
void http_heap_add_locked(struct http_server *s, struct http_request *r);
void http_heap_remove_locked(struct http_server *s, struct http_request *r);
