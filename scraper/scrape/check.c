/* SPDX-License-Identifier: Apache-2.0
 *
 * Each refusal names what was seen and what was expected, in words for the person who reads lastError.
 */
#include "scraper/scrape/check.h"
#include "lib/base/str.h"
#include "lib/gzip/gzip.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { SHOWN_BYTES = 120, SEARCHED_BYTES = 2048 };

/* What answers mean for who configures a scrape: by their text, net/http/pprof's for the most part, else by their status. */
static const char *hint_for(const struct http_response *r)
{
	static const struct {
		const char *part, *hint;
	} texts[] = {
		{"cpu profiling already in use",
			"another tool or the program itself is taking a CPU profile; a Go program "
			"gives one at a time"},
		{"profile duration exceeds server's WriteTimeout",
			"set seconds of this type below the WriteTimeout of the program's "
			"http.Server, or raise that"},
		{"Unknown profile",
			"this program has no such profile: set enabled: false in pprof_config"},
		{"HTTP request to an HTTPS server", "set scheme: https"},
		{"plain HTTP request was sent to HTTPS port", "set scheme: https"},
	};
	size_t n = MIN(r->body.len, (size_t)SEARCHED_BYTES);

	for (size_t i = 0; n && i < ARRAY_SIZE(texts); i++)
		if (memmem(r->body.data, n, texts[i].part, strlen(texts[i].part)))
			return texts[i].hint;
	switch (r->status) {
	case 401:
	case 403: return "the job needs basic_auth, authorization, oauth2 or a client certificate";
	case 404: return "no profile is served there: see path_prefix and path in profiling_config";
	default: return r->status / 100 == 3 ? "a redirect that is not followed" : NULL;
	}
}

/* Skips white space and a byte order mark. */
static size_t text_start(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && (isspace(p[i]) || p[i] == 0xef || p[i] == 0xbb || p[i] == 0xbf))
		i++;
	return i;
}

/* The printable beginning of a line. */
static void put_line(const uint8_t *p, size_t n, char ret[SHOWN_BYTES + 1])
{
	size_t i = 0;

	for (; i < MIN(n, (size_t)SHOWN_BYTES); i++) {
		if (p[i] == '<' || p[i] < ' ' || p[i] >= 0x7f)
			break;
		ret[i] = (char)p[i];
	}
	ret[i] = '\0';
}

/* What the body of a refusal says: its first line, or the title of a page. */
static void put_body(const struct bytes *body, char ret[SHOWN_BYTES + 32])
{
	static const char tag[] = "<title>";
	size_t n = MIN(body->len, (size_t)SEARCHED_BYTES);
	size_t start = n ? text_start(body->data, n) : 0;
	const uint8_t *title = NULL;
	char text[SHOWN_BYTES + 1] = "";

	for (size_t i = start;
		!title && start < n && body->data[start] == '<' && i + strlen(tag) <= n; i++)
		if (!strncasecmp((const char *)body->data + i, tag, strlen(tag)))
			title = body->data + i + strlen(tag);
	if (title)
		start = (size_t)(title - body->data);
	if (start < n)
		put_line(body->data + start, n - start, text);
	if (title || (start < n && body->data[start] == '<'))
		snprintf(ret, SHOWN_BYTES + 32, "an HTML or XML page%s%s%s", *text ? " \"" : "",
			text, *text ? "\"" : "");
	else
		snprintf(ret, SHOWN_BYTES + 32, "%s", text);
}

enum scrape_reason scrape_check_transfer(const struct http_response *r, struct errbuf *eb)
{
	char text[SHOWN_BYTES + 32];
	const char *hint;

	switch (r->error) {
	case 0: break;
	case -ETIMEDOUT: err_set(eb, r->error, "%s", r->text.text); return SCRAPE_FAIL_TIMEOUT;
	case -EFBIG:
		err_set(eb, r->error, "%s (body_size_limit or --scrape.max-body-bytes)",
			r->text.text);
		return SCRAPE_FAIL_BODY_SIZE;
	case -ENOMEM: err_set(eb, r->error, "%s", r->text.text); return SCRAPE_FAIL_MEMORY;
	case -ECANCELED: err_set(eb, r->error, "%s", r->text.text); return SCRAPE_FAIL_CANCELLED;
	case -EPROTO:
		err_set(eb, r->error, "%s", r->text.text);
		return r->stage == HTTP_STAGE_CONNECT ? SCRAPE_FAIL_CONNECT : SCRAPE_FAIL_PROTOCOL;
	default:
		err_set(eb, r->error, "%s", err_text(&r->text, r->error));
		return SCRAPE_FAIL_CONNECT;
	}
	if (r->status == 200)
		return SCRAPE_OK;
	/* the text says why better than the number does */
	put_body(&r->body, text);
	hint = hint_for(r);
	err_set(eb, -EPROTO, "server returned HTTP status %u%s%s%s%s%s", r->status,
		*text ? ": " : "", text, hint ? " (" : "", hint ? hint : "", hint ? ")" : "");
	return SCRAPE_FAIL_HTTP_STATUS;
}

/* What the first bytes are when they are no profile; NULL when they may be one. */
static const char *other_content(const uint8_t *p, size_t n)
{
	char start[16] = "";
	size_t i = text_start(p, n), len;

	len = MIN(n - i, sizeof(start) - 1);
	memcpy(start, p + i, len);
	if (!strncasecmp(start, "<!doctype", 9) || !strncasecmp(start, "<html", 5) ||
		!strncasecmp(start, "<head", 5) || !strncasecmp(start, "<?xml", 5))
		return "an HTML or XML page";
	if (len > 1 && (start[0] == '{' || start[0] == '[') &&
		(start[1] == '"' || isspace((unsigned char)start[1]) || start[1] == '{'))
		return "JSON";
	if (!strncmp(start, "# HELP", 6) || !strncmp(start, "# TYPE", 6))
		return "Prometheus metrics text";
	return NULL;
}

static enum scrape_reason refuse_content(
	const struct http_response *r, const char *what, struct errbuf *eb)
{
	const char *type = http_response_header(r, "content-type");

	err_set(eb, -EPROTO, "the answer is %s, not a pprof profile (content type \"%.80s\")", what,
		type ? type : "");
	return SCRAPE_FAIL_CONTENT;
}

static enum scrape_reason inflate_error(int r, struct errbuf *eb)
{
	if (r == -EFBIG) {
		err_prefix(eb, r,
			"decompressed body over its limit (body_size_limit or "
			"--scrape.max-inflated-bytes)");
		return SCRAPE_FAIL_INFLATED_SIZE;
	}
	return r == -ENOMEM ? SCRAPE_FAIL_MEMORY : SCRAPE_FAIL_GZIP;
}

enum scrape_reason scrape_check_body(const struct http_response *r, const struct bytes *body,
	size_t max_bytes, struct bytes *inflated, const uint8_t **ret_p, size_t *ret_n,
	struct errbuf *eb)
{
	const uint8_t *p = body->data;
	size_t n = body->len;
	const char *other;

	if (!n) {
		err_set(eb, -EPROTO, "empty answer (0 bytes) with status 200");
		return SCRAPE_FAIL_EMPTY;
	}
	/* Content-Encoding: gzip around a .pb.gz makes two layers */
	for (int layer = 0; layer < 2 && gzip_is(p, n); layer++) {
		struct bytes out;
		int res;

		bytes_init(&out, inflated->budget, 0);
		res = gzip_inflate(p, n, max_bytes, &out, eb);
		if (res < 0) {
			bytes_done(&out);
			return inflate_error(res, eb);
		}
		bytes_done(inflated);
		*inflated = out;
		p = inflated->data;
		n = inflated->len;
	}
	if (n > max_bytes) {
		err_set(eb, -EFBIG,
			"body of %zu bytes over its limit of %zu decompressed (body_size_limit or "
			"--scrape.max-inflated-bytes)",
			n, max_bytes);
		return SCRAPE_FAIL_INFLATED_SIZE;
	}
	if (!n) {
		err_set(eb, -EPROTO, "empty answer (a gzip stream of 0 bytes) with status 200");
		return SCRAPE_FAIL_EMPTY;
	}
	other = other_content(p, n);
	if (other)
		return refuse_content(r, other, eb);
	*ret_p = p;
	*ret_n = n;
	return SCRAPE_OK;
}
