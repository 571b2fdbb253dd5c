/* SPDX-License-Identifier: Apache-2.0
 *
 * URL parsing and printing after RFC 3986, limited to absolute http and https URLs, and host:port
 * splitting.
 */
#include "lib/net/url/url.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <ctype.h>
#include <strings.h>

void url_done(struct url *u)
{
	free(u->scheme);
	free(u->user);
	if (u->password)
		explicit_bzero(u->password, strlen(u->password));
	free(u->password);
	free(u->host);
	free(u->path);
	free(u->query);
	*u = (struct url) {0};
}

static bool is_unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

static void escape(struct bytes *out, const char *s, size_t n, bool keep_slash)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (is_unreserved(c) || (keep_slash && c == '/')) {
			bytes_put_u8(out, c);
			continue;
		}
		bytes_put_u8(out, '%');
		bytes_put_u8(out, (uint8_t)hex[c >> 4]);
		bytes_put_u8(out, (uint8_t)hex[c & 15]);
	}
}

void url_escape_query(struct bytes *out, const char *s, size_t n)
{
	escape(out, s, n, false);
}

void url_escape_path(struct bytes *out, const char *s, size_t n)
{
	escape(out, s, n, true);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int url_unescape(char *s, bool plus, struct errbuf *eb)
{
	char *to = s;

	for (const char *from = s; *from; from++) {
		int hi, lo;

		if (*from == '+' && plus) {
			*to++ = ' ';
			continue;
		}
		if (*from != '%') {
			*to++ = *from;
			continue;
		}
		hi = hex_digit(from[1]);
		lo = hi < 0 ? -1 : hex_digit(from[2]);
		if (lo < 0)
			return err_set(eb, -EINVAL,
				"bad escape \"%.3s\", expected %% and two hex digits", from);
		if (!hi && !lo)
			return err_set(eb, -EINVAL, "escape %%00 is not allowed");
		*to++ = (char)(hi << 4 | lo);
		from += 2;
	}
	*to = '\0';
	return 0;
}

static int parse_port(const char *text, uint16_t *ret, struct errbuf *eb)
{
	uint64_t v = 0;
	size_t n = strlen(text);

	if (!n || n > 5 || strspn(text, "0123456789") != n || str_parse_u64(text, &v, NULL) < 0 ||
		v > 65535)
		return err_set(eb, -EINVAL, "bad port \"%s\", expected 0 to 65535", text);
	*ret = (uint16_t)v;
	return 0;
}

static bool host_is_valid(const char *host, bool bracketed)
{
	for (const char *p = host; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (bracketed ? !(isxdigit(c) || strchr(":.%", c) || is_unreserved(c))
			      : c <= ' ' || c == 0x7f || strchr("/?#@[]<>\"\\^`{|}:", c))
			return false;
	}
	return true;
}

/* Splits "host", "host:port", "[v6]" or "[v6]:port"; *ret_port_text points into `text` or is NULL.
 */
static int split_authority(
	const char *text, char **ret_host, const char **ret_port_text, struct errbuf *eb)
{
	bool bracketed = text[0] == '[';
	const char *end = bracketed ? strchr(text, ']') : strchr(text, ':');
	_cleanup_free_ char *host = NULL;

	*ret_port_text = NULL;
	if (bracketed && !end)
		return err_set(eb, -EINVAL, "\"%s\": missing ']'", text);
	if (!end)
		end = text + strlen(text);
	host = bracketed ? xstrndup(text + 1, (size_t)(end - text - 1))
			 : xstrndup(text, (size_t)(end - text));
	if (bracketed)
		end++;
	if (*end == ':')
		*ret_port_text = end + 1;
	else if (*end)
		return err_set(eb, -EINVAL, "\"%s\": text after ']'", text);
	if (!bracketed && *ret_port_text && strchr(*ret_port_text, ':'))
		return err_set(eb, -EINVAL,
			"\"%s\": more than one ':', write an IPv6 address as [address]:port", text);
	if (!host_is_valid(host, bracketed))
		return err_set(eb, -EINVAL, "\"%s\" is not a valid host", host);
	*ret_host = TAKE(host);
	return 0;
}

int url_split_host_port(const char *text, char **ret_host, uint16_t *ret_port, struct errbuf *eb)
{
	_cleanup_free_ char *host = NULL;
	const char *port_text = NULL;
	uint16_t port = 0;
	int r = split_authority(text, &host, &port_text, eb);

	if (r < 0)
		return r;
	if (!port_text)
		return err_set(eb, -EINVAL, "\"%s\": missing port, expected HOST:PORT", text);
	r = parse_port(port_text, &port, eb);
	if (r < 0)
		return r;
	*ret_host = TAKE(host);
	*ret_port = port;
	return 0;
}

static int parse_userinfo(struct url *u, const char *text, size_t n, struct errbuf *eb)
{
	const char *colon = memchr(text, ':', n);
	size_t n_user = colon ? (size_t)(colon - text) : n;
	int r;

	u->user = xstrndup(text, n_user);
	r = url_unescape(u->user, false, eb);
	if (r == 0 && colon) {
		u->password = xstrndup(colon + 1, n - n_user - 1);
		r = url_unescape(u->password, false, eb);
	}
	return r;
}

static int parse_authority(struct url *u, const char *text, size_t n, struct errbuf *eb)
{
	const char *at = memrchr(text, '@', n);
	_cleanup_free_ char *host_port = NULL;
	const char *port_text = NULL;
	int r;

	if (at) {
		r = parse_userinfo(u, text, (size_t)(at - text), eb);
		if (r < 0)
			return r;
		n -= (size_t)(at + 1 - text);
		text = at + 1;
	}
	host_port = xstrndup(text, n);
	r = split_authority(host_port, &u->host, &port_text, eb);
	if (r < 0)
		return r;
	if (!u->host[0])
		return err_set(eb, -EINVAL, "no host");
	u->port = !strcmp(u->scheme, "https") ? 443 : 80;
	if (!port_text || !*port_text)
		return 0;
	u->has_port = true;
	return parse_port(port_text, &u->port, eb);
}

static int parse_into(const char *text, struct url *u, struct errbuf *eb)
{
	const char *sep = strstr(text, "://");
	const char *rest, *path, *query, *fragment;
	int r;

	for (const char *p = text; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return err_set(eb, -EINVAL, "space or control character at byte %zu",
				(size_t)(p - text) + 1);
	if (!sep)
		return err_set(eb, -EINVAL, "no scheme, expected http:// or https://");
	u->scheme = xstrndup(text, (size_t)(sep - text));
	for (char *p = u->scheme; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	if (strcmp(u->scheme, "http") && strcmp(u->scheme, "https"))
		return err_set(eb, -EINVAL,
			"scheme \"%.32s\" is not supported, expected http or https", u->scheme);
	rest = sep + 3;
	path = rest + strcspn(rest, "/?#");
	r = parse_authority(u, rest, (size_t)(path - rest), eb);
	if (r < 0)
		return r;
	query = path + strcspn(path, "?#");
	fragment = query + strcspn(query, "#");
	u->path = query == path ? xstrdup("/") : xstrndup(path, (size_t)(query - path));
	if (*query == '?')
		u->query = xstrndup(query + 1, (size_t)(fragment - query - 1));
	return 0;
}

int url_parse(const char *text, struct url *ret, struct errbuf *eb)
{
	_cleanup_url_ struct url u = {0};
	int r = parse_into(text, &u, eb);

	if (r < 0)
		return err_prefix(eb, r, "bad URL");
	*ret = u;
	u = (struct url) {0};
	return 0;
}

void url_print(const struct url *u, bool redact, struct bytes *out)
{
	bytes_printf(out, "%s://", u->scheme);
	if (u->user) {
		url_escape_query(out, u->user, strlen(u->user));
		if (u->password) {
			bytes_put_u8(out, ':');
			if (redact)
				bytes_put_str(out, "xxxxx");
			else
				url_escape_query(out, u->password, strlen(u->password));
		}
		bytes_put_u8(out, '@');
	}
	bytes_printf(out, strchr(u->host, ':') ? "[%s]" : "%s", u->host);
	if (u->has_port)
		bytes_printf(out, ":%u", u->port);
	bytes_put_str(out, u->path);
	if (u->query)
		bytes_printf(out, "?%s", u->query);
}
