/* SPDX-License-Identifier: Apache-2.0
 *
 * From a request line to a route: the checks against DNS rebinding and foreign origins, the route
 * prefix, patterns, 404, 405 and CORS.
 */
#include "lib/net/server/impl.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
	enum http_method bit;
	const char *name;
} methods[] = {{HTTP_GET, "GET"}, {HTTP_POST, "POST"}, {HTTP_PUT, "PUT"}, {HTTP_DELETE, "DELETE"}};

static unsigned method_bit(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (!strcmp(methods[i].name, name))
			return methods[i].bit;
	return 0;
}

/* The length of the host part of "host", "host:port" or "[v6]:port"; 0 when it is none of them. */
static size_t host_len(const char *host)
{
	size_t n = host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":");

	n += host[0] == '[' && host[n];
	return !host[n] || (host[n] == ':' && !host[n + 1 + strspn(host + n + 1, "0123456789")])
		       ? n
		       : 0;
}

/* Compared without case. */
static bool host_is(const char *host, const char *want)
{
	size_t n = host_len(host);

	return n && strlen(want) == n && !strncasecmp(host, want, n);
}

static bool is_loopback_host(const char *host)
{
	size_t n = host_len(host);
	char text[INET_ADDRSTRLEN];
	struct in_addr v4;

	if (host_is(host, "localhost") || host_is(host, "[::1]"))
		return true;
	if (n > 10 && !strncasecmp(host + n - 10, ".localhost", 10))
		return true;
	if (!n || n >= sizeof(text))
		return false;
	memcpy(text, host, n);
	text[n] = '\0';
	return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

/* A browser page of another site whose name resolves to 127.0.0.1 sends that name as Host. */
static bool host_is_foreign(const struct http_request *r)
{
	const char *host = http_request_host(r);

	if (!r->conn->checks_host || !*host || is_loopback_host(host))
		return false;
	return !r->server->external_host || !host_is(host, r->server->external_host);
}

static bool origin_is_foreign(const struct http_request *r)
{
	const char *origin = http_request_header(r, "Origin");
	const char *at = origin ? strstr(origin, "://") : NULL;

	if (!origin)
		return false;
	if (r->server->cors_origin && !strcmp(r->server->cors_origin, origin))
		return false;
	return !at || strcasecmp(at + 3, http_request_host(r)) != 0;
}

/* "/" and the prefix without its last slash, against which the links of a page would point outside. */
static bool lacks_prefix_slash(const struct http_request *r)
{
	const char *prefix = r->server->route_prefix;

	return *prefix && method_bit(r->method) == HTTP_GET &&
	       (!strcmp(r->path, prefix) || !strcmp(r->path, "/"));
}

/* Removes the route prefix from r->path; false when it is not there. */
static bool strip_prefix(struct http_request *r)
{
	const char *prefix = r->server->route_prefix;
	size_t n = strlen(prefix);
	char *rest;

	if (!n)
		return r->path[0] == '/';
	if (strncmp(r->path, prefix, n) || (r->path[n] && r->path[n] != '/'))
		return false;
	rest = xstrdup(r->path[n] ? r->path + n : "/");
	free(r->path);
	r->path = rest;
	return true;
}

static void drop_wildcards(struct http_request *r)
{
	while (r->n_wildcards)
		free(r->wildcards[--r->n_wildcards]);
}

/* Matches segment by segment; wildcards are kept still escaped. */
static bool pattern_matches(struct http_request *r, const char *pattern)
{
	const char *path = r->path;

	drop_wildcards(r);
	while (*pattern) {
		size_t n;

		if (*pattern != '*' || pattern[-1] != '/') {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		ASSERT(r->n_wildcards < HTTP_MAX_WILDCARDS);
		n = pattern[1] ? strcspn(path, "/") : strlen(path);
		if (pattern[1] && !n)
			return false;
		r->wildcards[r->n_wildcards++] = xstrndup(path, n);
		path += n;
		pattern++;
	}
	return !*path;
}

static void refuse(struct http_request *r, unsigned code, const char *text)
{
	const struct http_server *s = r->server;

	if (s->o.refuse)
		s->o.refuse(r, code, text);
	else
		http_reply_text(r, code, "%s", text);
}

static void reply_405(struct http_request *r, unsigned allowed)
{
	char allow[64], text[160];
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (allowed & methods[i].bit)
			n += snprintf(allow + n, sizeof(allow) - (size_t)n, "%s%s%s", n ? ", " : "",
				methods[i].name, methods[i].bit == HTTP_GET ? ", HEAD" : "");
	http_reply_header(r, "Allow", allow);
	snprintf(text, sizeof(text), "method %.32s is not allowed here, use %s", r->method, allow);
	refuse(r, 405, text);
}

static void reply_preflight(struct http_request *r)
{
	http_reply_header(r, "Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS");
	http_reply_header(r, "Access-Control-Allow-Headers",
		"Accept, Authorization, Connect-Protocol-Version, Connect-Timeout-Ms, "
		"Content-Encoding, Content-Type, Origin");
	http_reply_header(r, "Access-Control-Max-Age", "600");
	http_reply_static(r, 204, "text/plain", "", 0);
}

/* Sets r->route, or replies 404, 405 or to a preflight. */
static void find_route(struct http_request *r)
{
	const struct http_server *s = r->server;
	unsigned bit = method_bit(r->method), allowed = 0;

	for (size_t i = 0; i < s->n_routes; i++) {
		const struct http_route *route = &s->routes[i];

		if (!pattern_matches(r, route->path))
			continue;
		if (route->methods & bit) {
			r->route = route;
			return;
		}
		allowed |= route->methods;
	}
	drop_wildcards(r);
	if (!allowed)
		refuse(r, 404, "404 page not found");
	else if (!strcmp(r->method, "OPTIONS") && s->cors_origin)
		reply_preflight(r);
	else
		reply_405(r, allowed);
}

static int decode_wildcards(struct http_request *r, struct errbuf *eb)
{
	int res = 0;

	for (size_t i = 0; i < r->n_wildcards && res == 0; i++)
		res = url_unescape(r->wildcards[i], false, eb);
	return res;
}

unsigned http_route_request(struct http_request *r)
{
	const struct http_server *s = r->server;
	struct errbuf eb = {0};

	if (host_is_foreign(r)) {
		http_reply_text(r, 403, "Host \"%.200s\" is not served on a loopback address",
			http_request_host(r));
	} else if (lacks_prefix_slash(r)) {
		http_reply_redirect(r, "/");
	} else if (!strip_prefix(r)) {
		http_reply_text(r, r->path[0] == '/' ? 404 : 400,
			r->path[0] == '/' ? "404 page not found" : "bad request target");
	} else {
		find_route(r);
	}
	if (!http_is_replied(r) && (r->route->flags & HTTP_CHANGES_STATE) && origin_is_foreign(r))
		http_reply_text(r, 403, "Origin \"%.200s\" may not change state here",
			http_request_header(r, "Origin"));
	if (!http_is_replied(r) && decode_wildcards(r, &eb) < 0)
		http_reply_text(r, 400, "%s", eb.text);
	if (http_is_replied(r))
		return r->code;
	r->max_body_bytes =
		r->route->max_body_bytes ? r->route->max_body_bytes : s->o.max_body_bytes;
	return 0;
}
