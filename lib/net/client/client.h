/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP client over libcurl's multi interface: one thread drives any number of transfers over
 * kept-alive connections. Bodies land in budgeted buffers as they were sent (a gzip body stays
 * gzip). Connections are opened through struct dialer.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* The seam for connections. A NULL function means: as the system does it. */
struct dialer {
	/* Numeric addresses of a host name, comma-separated, into `ret` (256 bytes). Called on the
	 * loop thread, must not block long. */
	int (*resolve)(struct dialer *d, const char *host, char ret[256], struct errbuf *eb);
	/* A connected stream socket for this address, the client's from then on, or negative errno. */
	int (*connect)(struct dialer *d, const struct sockaddr *a, socklen_t len);
};
extern struct dialer dialer_system;

/* Transport settings of one scrape job or discovery (docs/configuration.md says what each means). NULL strings: unset.
 * The owner keeps it alive while fetches use it. */
struct http_oauth2;
struct http_client_tls {
	const char *ca, *ca_file, *cert, *cert_file, *key, *key_file, *server_name;
	bool insecure_skip_verify;
	int min_version, max_version; /* 10 … 13 for TLS10 … TLS13; 0: TLS 1.2 and the newest */
};
struct http_transport {
	const char *basic_username, *basic_username_file, *basic_password, *basic_password_file;
	const char *auth_type, *auth_credentials,
		*auth_credentials_file; /* "Bearer" + token; files are read per request, space
					   trimmed */
	struct http_client_tls tls;
	const char *proxy_url, *no_proxy;
	bool proxy_from_environment;
	const struct http_oauth2 *oauth2; /* replaces other credentials; NULL: none */
	bool follow_redirects;		  /* credentials stay with the first host */
	bool enable_http2;
	const struct http_header {
		const char *name, *value;
		const char *value_file; /* where `value` is NULL; its content is a secret */
		bool is_secret;		/* stays with the first host of a redirect */
	} * headers, *proxy_headers;	/* the latter for CONNECT */
	size_t n_headers, n_proxy_headers;
};

/* A token from an OAuth 2.0 server by the client-credentials grant (RFC 6749 §4.4), requested when the first request needs it and again
 * before it expires. */
struct http_oauth2 {
	const char *client_id, *client_secret, *client_secret_file, *token_url;
	const char *const *scopes;
	size_t n_scopes;
	const struct http_header *params; /* further ones of the request for the token */
	size_t n_params;
	const struct http_transport *transport; /* of that request */
};

/* AWS Signature Version 4. */
struct http_signature {
	const char *scope; /* "aws:amz:REGION:SERVICE" */
	const char *access_key, *secret_key;
};

enum http_fetch_stage { HTTP_STAGE_CONNECT, HTTP_STAGE_WAIT, HTTP_STAGE_BODY };
struct http_response {
	int error;	    /* 0: a complete response; -ETIMEDOUT, -EFBIG, -ECANCELED, -EPROTO,
			       -ECONNREFUSED, -EHOSTUNREACH, -ENOMEM … */
	struct errbuf text; /* for a person; without secrets */
	enum http_fetch_stage stage; /* how far it got */
	unsigned status;	     /* 0: none arrived */
	struct bytes body;	     /* as sent; take it with its budget, or leave it to be freed */
	struct http_response_header {
		char *name, *value; /* name in lower case */
	} * headers;
	size_t n_headers;
	int64_t duration_ns;
};
const char *http_response_header(
	const struct http_response *r, const char *lower_case_name); /* NULL when absent */
void http_response_done(struct http_response *r);
#define _cleanup_http_response_ _cleanup_(http_response_done)

struct http_fetch {
	const char *url;
	const char *method;	    /* NULL: GET */
	const char *unix_socket;    /* path; NULL: by the URL's host */
	const char *const *headers; /* "Name: value", NULL-ended; NULL: none */
	const struct http_transport
		*transport; /* NULL: no credentials, system CAs, redirects followed */
	const struct http_signature *signature; /* replaces other credentials; NULL: none; copied */
	const void *body;			/* sent with POST; copied */
	size_t n_body;
	uint32_t timeout_ms;   /* whole transfer; 0: none */
	size_t max_body_bytes; /* as sent; 0: none. Above it -EFBIG, at once when Content-Length
				  says so */
	const int *
		body_fd; /* the body of a 200 is written there, and nothing of it held; NULL: off */
	/* Called with each piece of a 200's body as it arrives, which is then neither held nor limited; first with n 0, when
	 * the head of that answer is there. A negative return ends the transfer with that error. NULL: off */
	int (*piece)(const void *p, size_t n, void *arg);
	struct budget *budget; /* charged by the body; NULL: none */
	bool accept_gzip;      /* Accept-Encoding: gzip, else identity */
	/* Called once on the loop thread. The response is the callee's to take from and is freed
	 * afterwards. */
	void (*done)(struct http_response *r, void *arg);
	void *arg;
};

struct http_client;
/* Loads libcurl, as the first client does. Before a sandbox that maps no code. -ELIBACC: it is not installed. Any thread. */
int http_client_load(struct errbuf *eb) _must_check_;
struct http_client_options {
	const char *user_agent;
	struct dialer *dialer;	  /* NULL: dialer_system */
	unsigned max_connections; /* kept alive in all; 0: 4096 */
	unsigned idle_timeout_s;  /* 0: 300 */
};
/* -ELIBACC: libcurl is not installed. */
int http_client_new(const struct http_client_options *o, struct http_client **ret,
	struct errbuf *eb) _must_check_;
/* Running fetches end with -ECANCELED. */
void http_client_freep(struct http_client **c);
/* Starts a transfer; the strings of `f` are copied, its transport is not. *ret_id is never 0. After an error, -EINVAL (URL, settings),
 * those of files with secrets, or -ENOMEM, with a text, `done` is not called. Loop thread. */
int http_client_start(struct http_client *c, const struct http_fetch *f, uint64_t *ret_id,
	struct errbuf *eb) _must_check_;
/* Ends one with -ECANCELED (its callback runs inside this call); unknown ids are ignored. Loop
 * thread. */
void http_client_cancel(struct http_client *c, uint64_t id);
void http_client_cancel_all(struct http_client *c);
/* Waits up to timeout_ms (-1: for ever) for traffic or a wake-up, then runs what is due. Negative errno of epoll_wait. Loop
 * thread. */
int http_client_run(struct http_client *c, int timeout_ms) _must_check_;
/* Makes a waiting http_client_run return. Any thread. */
void http_client_wake(struct http_client *c);
/* A further descriptor: http_client_run returns when it is readable, and its owner then reads it. One at most. Negative errno of
 * epoll_ctl. */
int http_client_watch(struct http_client *c, int fd) _must_check_;
/* For a client inside another loop: readable when http_client_run(c, 0) has something to do, and in how
 * many ms it has even so (-1: not by itself). */
int http_client_fd(const struct http_client *c);
int http_client_next_ms(const struct http_client *c);

/* One transfer on the calling thread, with f->piece but without f->done. `ret` needs http_response_done in any
 * case. 0 or ret->error. */
int http_client_fetch(const struct http_fetch *f, const char *user_agent, struct http_response *ret,
	struct errbuf *eb) _must_check_;
