/* SPDX-License-Identifier: Apache-2.0
 *
 * Each refusal names what was seen and what was expected, in words for the person who reads lastError.
 */
#include "scraper/scrape/check.h"
#include "lib/base/str.h"
#include "lib/net/gzip.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { SHOWN_BYTES = 120 };

/* What answers of net/http/pprof mean for who configures a scrape. */
static const char *hint_for(const char *text)
{
	static const struct {
		const char *part, *hint;
	} hints[] = {
		{"cpu profiling already in use",
			"another tool or the program itself is taking a CPU profile; a Go program "
			"gives one at a time"},
		{"profile duration exceeds server's WriteTimeout",
			"set seconds of this type below the WriteTimeout of the program's "
			"http.Server, or raise that"},
		{"Unknown profile",
			"this program has no such profile: set enabled: false in pprof_config"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		if (strstr(text, hints[i].part))
			return hints[i].hint;
	return NULL;
}

enum scrape_reason scrape_check_transfer(const struct http_response *r, struct errbuf *eb)
{
	char text[SHOWN_BYTES + 1];
	size_t n = MIN(r->body.len, (size_t)SHOWN_BYTES);
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
	/* the first line of a text answer says why better than the number does */
	for (size_t i = 0; i < n; i++) {
		unsigned char c = r->body.data[i];

		if (c == '\n' || c == '\r' || c == '<' || c < ' ' || c >= 0x7f)
			n = i;
		else
			text[i] = (char)c;
	}
	text[n] = '\0';
	hint = hint_for(text);
	err_set(eb, -EPROTO, "server returned HTTP status %u%s%s%s%s%s", r->status, n ? ": " : "",
		text, hint ? " (" : "", hint ? hint : "", hint ? ")" : "");
	return SCRAPE_FAIL_HTTP_STATUS;
}

/* What the first bytes are when they are no profile; NULL when they may be one. */
static const char *other_content(const uint8_t *p, size_t n)
{
	char start[16] = "";
	size_t i = 0, len;

	while (i < n && (isspace(p[i]) || p[i] == 0xef || p[i] == 0xbb || p[i] == 0xbf))
		i++;
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
