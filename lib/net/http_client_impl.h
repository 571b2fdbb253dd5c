/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's structs, shared by http_client.c (loop) and http_fetch.c (one transfer).
 */
#pragma once
#include "lib/net/http_client.h"
#include "lib/base/table.h"
#include <curl/curl.h>

struct http_transfer {
	struct http_client *client;
	uint64_t id;
	CURL *easy;
	struct curl_slist *headers, *resolve, *connect_to;
	struct http_response response;
	size_t cap_headers;
	size_t max_body_bytes;
	uint32_t timeout_ms;
	int refused; /* by our own callbacks: -EFBIG, -ENOMEM */
	int64_t start_ns;
	char curl_error[CURL_ERROR_SIZE];
	void (*done)(struct http_response *r, void *arg);
	void *arg;
};

struct http_client {
	CURLM *multi;
	char *user_agent;
	struct dialer *dialer;
	unsigned idle_timeout_s;
	int epoll_fd, wake_fd, watch_fd;
	int64_t timer_at_ns;	/* curl's own; -1: none */
	struct table transfers; /* id → struct http_transfer * */
	uint64_t last_id;
	size_t n_active;
};

/* http_fetch.c */
int http_transfer_new(struct http_client *c, const struct http_fetch *f, struct http_transfer **ret,
	struct errbuf *eb) _must_check_;
void http_transfer_freep(struct http_transfer **t);
/* Fills the response's error and text from curl's result. */
void http_transfer_finish(struct http_transfer *t, CURLcode code);
