/* SPDX-License-Identifier: Apache-2.0
 *
 * URLs: parsing, building, percent-escapes and query parameters. Absolute http and https URLs only;
 * no network here. What is handed out is on the heap and freed by the _done function; url_split_host_port's host by free().
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct url {
	char *scheme;	/* "http" or "https", lower case */
	char *user;	/* decoded; NULL when absent */
	char *password; /* decoded; NULL when absent */
	char *host;	/* name, IPv4 or IPv6 without brackets */
	char *path;	/* as written, "/" when absent */
	char *query;	/* as written without '?'; NULL when absent */
	uint16_t port;	/* the scheme's default when absent */
	bool has_port;
};

void url_done(struct url *u);
#define _cleanup_url_ _cleanup_(url_done)
/* -EINVAL with a text that says what is wrong: scheme, host, port, a bad escape, a control
 * character or space. */
int url_parse(const char *text, struct url *ret, struct errbuf *eb) _must_check_;
/* The text form; the password is replaced by "xxxxx" when `redact`. */
void url_print(const struct url *u, bool redact, struct bytes *out);

/* Appends s with everything but unreserved characters (RFC 3986 §2.3) as %XX; a query keeps nothing
 * else, a path also keeps '/'. */
void url_escape_query(struct bytes *out, const char *s, size_t n);
void url_escape_path(struct bytes *out, const char *s, size_t n);
/* Decodes %XX, and '+' as a space when `plus`; the result is NUL-terminated in place. -EINVAL on a
 * bad escape or %00. */
int url_unescape(char *s, bool plus, struct errbuf *eb) _must_check_;

/* Splits "host:port", "[v6]:port", ":port" (host ""); -EINVAL when there is no port or it is out of
 * range. */
int url_split_host_port(
	const char *text, char **ret_host, uint16_t *ret_port, struct errbuf *eb) _must_check_;

/* Query parameters in their order; repeated names are kept. */
struct url_param {
	char *name, *value;
};
struct url_params {
	struct url_param *items;
	size_t n, cap;
};
void url_params_done(struct url_params *p);
#define _cleanup_url_params_ _cleanup_(url_params_done)
/* Appends the parameters of "a=1&b=2" (decoded). -EFBIG: more than `max_params` in all; -EINVAL: a bad escape. Those before it stay. */
int url_params_parse(struct url_params *p, const char *query, size_t n, size_t max_params,
	struct errbuf *eb) _must_check_;
void url_params_add(struct url_params *p, const char *name, const char *value);
/* Replaces the first parameter of this name and removes the others; added when absent. */
void url_params_set(struct url_params *p, const char *name, const char *value);
/* The first value of `name`, or NULL. */
const char *url_params_get(const struct url_params *p, const char *name);
