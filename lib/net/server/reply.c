/* SPDX-License-Identifier: Apache-2.0
 *
 * Replies: built on whichever thread has the request in hand, sent by the http thread straight from
 * the buffer.
 */
#include "lib/net/server/impl.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/gzip/gzip.h"
#include <stdio.h>
#include <string.h>

bool http_is_replied(const struct http_request *r)
{
	return r->response != NULL;
}

void http_reply_header(struct http_request *r, const char *name, const char *value)
{
	struct http_reply_header_pair *h;

	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return;
	ASSERT(r->n_headers < HTTP_MAX_HEADERS);
	h = &r->headers[r->n_headers];
	h->name = arena_strdup(&r->arena, name);
	h->value = arena_strdup(&r->arena, value);
	if (h->name && h->value)
		r->n_headers++;
}

static bool has_header(const struct http_request *r, const char *name)
{
	for (size_t i = 0; i < r->n_headers; i++)
		if (!strcasecmp(r->headers[i].name, name))
			return true;
	return false;
}

static void add_cors(const struct http_request *r, struct MHD_Response *response)
{
	const char *allowed = r->server->cors_origin;
	const char *origin = http_request_header(r, "Origin");

	if (!allowed || !origin)
		return;
	MHD_add_response_header(response, "Vary", "Origin");
	if (!strcmp(allowed, "*") || !strcmp(allowed, origin))
		MHD_add_response_header(response, "Access-Control-Allow-Origin", allowed);
	MHD_add_response_header(response, "Access-Control-Expose-Headers",
		"Date, Sonde-Exporter, Sonde-Stats, Sonde-Warnings, Sonde-Types, Sonde-Cursor, "
		"Sonde-Behind-Seconds, Sonde-Retention-Seconds");
}

/* Takes over `response`. */
static void reply(struct http_request *r, unsigned code, const char *content_type,
	struct MHD_Response *response, size_t n)
{
	ASSERT(!http_is_replied(r) && !r->is_parking);
	if (!response)
		err_panic("out of memory for a response");
	if (code != 204)
		MHD_add_response_header(response, "Content-Type", content_type);
	if (!has_header(r, "X-Content-Type-Options"))
		MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (r->server->server_name)
		MHD_add_response_header(response, "Server", r->server->server_name);
	for (size_t i = 0; i < r->n_headers; i++)
		MHD_add_response_header(response, r->headers[i].name, r->headers[i].value);
	add_cors(r, response);
	r->code = code;
	r->n_response = n;
	r->response = response;
}

void http_reply_cut(struct http_request *r, unsigned code, const char *why)
{
	char text[160];
	int n = snprintf(text, sizeof(text), "%s\n", why);

	reply(r, code, "text/plain; charset=utf-8",
		MHD_create_response_from_buffer((size_t)n, text, MHD_RESPMEM_MUST_COPY), (size_t)n);
}

void http_reply_text(struct http_request *r, unsigned code, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		err_panic("out of memory for a response");
	text = xrealloc(text, (size_t)n + 2);
	if (n == 0 || text[n - 1] != '\n')
		text[n++] = '\n';
	text[n] = '\0';
	reply(r, code, "text/plain; charset=utf-8",
		MHD_create_response_from_buffer((size_t)n, text, MHD_RESPMEM_MUST_COPY), (size_t)n);
}

static void free_body(void *cls)
{
	struct bytes *body = cls;

	bytes_done(body);
	free(body);
}

static bool accepts_gzip(const struct http_request *r)
{
	const char *accept = http_request_header(r, "Accept-Encoding");
	const char *at = accept ? strstr(accept, "gzip") : NULL;
	const char *q = at ? at + strlen("gzip") : NULL;

	if (!at)
		return false;
	q += strspn(q, " ");
	/* "gzip;q=0" and its spellings refuse it */
	return *q != ';' || strncmp(q + 1 + strspn(q + 1, " "), "q=0", 3) ||
	       strpbrk(q, "123456789");
}

/* Protobuf messages of APIs compress as text does; a profile is sent as application/octet-stream and is gzip already. */
static bool is_compressible(const char *content_type)
{
	return str_starts_with(content_type, "text/") ||
	       str_starts_with(content_type, "application/proto") ||
	       str_starts_with(content_type, "application/json") ||
	       str_starts_with(content_type, "image/svg+xml") ||
	       str_starts_with(content_type, "application/javascript");
}

static void compress(struct http_request *r, struct bytes *body)
{
	struct bytes packed;

	bytes_init(&packed, r->server->o.budget, 0);
	if (gzip_deflate(body->data, body->len, GZIP_LEVEL_FAST, &packed, NULL) < 0 ||
		packed.len >= body->len) {
		bytes_done(&packed);
		return;
	}
	bytes_done(body);
	*body = packed;
	http_reply_header(r, "Content-Encoding", "gzip");
}

void http_reply_bytes(
	struct http_request *r, unsigned code, const char *content_type, struct bytes *body)
{
	struct bytes *owned;

	if (bytes_error(body) < 0) {
		bytes_done(body);
		http_reply_text(r, 503, "the answer does not fit into the memory left for it");
		return;
	}
	if (r->state == HTTP_RUNNING && is_compressible(content_type) &&
		body->len >= HTTP_GZIP_MIN_BYTES) {
		http_reply_header(r, "Vary", "Accept-Encoding");
		if (accepts_gzip(r))
			compress(r, body);
	}
	owned = xcalloc(1, sizeof(*owned));
	*owned = *body;
	bytes_init(body, body->budget, body->max_bytes);
	reply(r, code, content_type,
		MHD_create_response_from_buffer_with_free_callback_cls(owned->len,
			owned->data ? (void *)owned->data : (void *)owned, free_body, owned),
		owned->len);
}

void http_reply_static(
	struct http_request *r, unsigned code, const char *content_type, const void *p, size_t n)
{
	reply(r, code, content_type,
		MHD_create_response_from_buffer(n, (void *)(uintptr_t)p, MHD_RESPMEM_PERSISTENT),
		n);
}

void http_reply_gzip(
	struct http_request *r, unsigned code, const char *content_type, const void *p, size_t n)
{
	struct bytes plain;
	int e;

	http_reply_header(r, "Vary", "Accept-Encoding");
	if (accepts_gzip(r)) {
		http_reply_header(r, "Content-Encoding", "gzip");
		http_reply_static(r, code, content_type, p, n);
		return;
	}
	bytes_init(&plain, r->server->o.budget, 0);
	e = gzip_inflate(p, n, gzip_stated_size(p, n), &plain, NULL);
	ASSERT(!e || e == -ENOMEM); /* it is our own */
	http_reply_bytes(r, code, content_type, &plain);
}

void http_reply_redirect(struct http_request *r, const char *path)
{
	_cleanup_free_ char *to = xasprintf(
		"%s%s%s%s", r->server->route_prefix, path, *r->query ? "?" : "", r->query);

	http_reply_header(r, "Location", to);
	http_reply_text(r, 302, "see %s", to);
}

unsigned http_code_of_error(int error)
{
	switch (error) {
	case -EINVAL: return 400;
	case -ENOENT: return 404;
	case -EFBIG: return 413;
	case -ENOMEM:
	case -ETIMEDOUT: return 503;
	case -ECANCELED: return 499;
	case -ENOTSUP: return 501;
	default: return 500;
	}
}
