/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's structs, shared by client.c (loop) and fetch.c (one transfer).
 */
#pragma once
#include "lib/net/client/client.h"
#include "lib/base/table.h"
#include "lib/net/client/curl.h"

/*
 * curl walks all connections of a multi handle at each end of a transfer, so a client with many has several handles. What goes to one
 * host and port always goes through the same one and finds its kept connection there. Made at first use.
 */
struct http_shard {
	struct http_client *client;
	CURLM *multi;
	uint32_t idx;
	int64_t timer_at_ns; /* curl's own; -1: none */
};

struct http_transfer {
	struct http_client *client;
	struct http_shard *shard;
	uint64_t id;
	CURL *easy;
	struct curl_slist *headers, *resolve, *connect_to, *proxy_headers;
	char *host;			       /* of the URL that was asked first */
	bool has_left;			       /* a redirect led away from it */
	struct curl_slist *public_headers;     /* since then */
	const struct http_header *own_headers; /* of the transport, if some are secret; else NULL */
	size_t n_own_headers;
	struct http_response response;
	size_t cap_headers;
	size_t max_body_bytes;
	int body_fd; /* -1: into the response */
	size_t n_written;
	int (*piece)(const void *p, size_t n, void *arg); /* NULL: none */
	uint32_t timeout_ms;
	int refused; /* by our own callbacks: -EFBIG, -ENOMEM, what `piece` said */
	int64_t start_ns;
	char curl_error[CURL_ERROR_SIZE];
	bool is_unix; /* over a Unix socket */
	void (*done)(struct http_response *r, void *arg);
	void *arg;
	struct http_token *waits_for; /* not given to curl before it is there; NULL: none */
	struct http_transfer *next_waiting;
};

enum { HTTP_SPARE_HANDLES = 64 };

struct http_client {
	struct http_shard *shards;
	uint32_t n_shards;
	unsigned connections_per_shard;
	char *user_agent;
	struct dialer *dialer;
	unsigned idle_timeout_s;
	int epoll_fd, wake_fd;
	struct table transfers; /* id → struct http_transfer * */
	uint64_t last_id;
	size_t n_active;
	struct http_token *tokens;
	CURL *spare[HTTP_SPARE_HANDLES]; /* of ended transfers: a new one costs several µs */
	size_t n_spare;
};

/* The handle for a host and port. */
struct http_shard *http_shard_get(struct http_client *c, const char *host, uint16_t port);

/* A transfer whose token is there or has failed. */
void http_client_go_on(struct http_transfer *t, int error, const char *why);

/* oauth2.c. The header of the token is added to the transfer at once, or the transfer waits for it. */
int http_token_get(struct http_transfer *t, const struct http_oauth2 *o, const char *secret,
	struct errbuf *eb) _must_check_;
/* The transfer ends before its token came. */
void http_token_forget(struct http_transfer *t);
void http_tokens_free(struct http_client *c);

/* proxy.c */
struct url;
int http_proxy_set(struct http_transfer *t, const struct http_transport *tr, const struct url *u,
	struct errbuf *eb) _must_check_;

/* fetch.c */
void http_transfer_add_header(struct http_transfer *t, const char *line);
void http_transfer_add_pair(struct curl_slist **list, const char *name, const char *value);
int http_transfer_new(struct http_client *c, const struct http_fetch *f, struct http_transfer **ret,
	struct errbuf *eb) _must_check_;
void http_transfer_freep(struct http_transfer **t);
/* Fills the response's error and text from curl's result. */
void http_transfer_finish(struct http_transfer *t, CURLcode code);
