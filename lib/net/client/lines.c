/* SPDX-License-Identifier: Apache-2.0
 *
 * The splitter of streamed bodies. A line that lies in one piece whole is handed out where it lies.
 */
#include "lib/net/client/lines.h"

void http_lines_init(struct http_lines *l, size_t max_bytes)
{
	*l = (struct http_lines) {.max_bytes = max_bytes};
	bytes_init(&l->rest, NULL, max_bytes);
}

void http_lines_done(struct http_lines *l)
{
	bytes_done(&l->rest);
}

void http_lines_reset(struct http_lines *l)
{
	bytes_reset(&l->rest);
}

static int put_rest(struct http_lines *l, const char *p, size_t n, struct errbuf *eb)
{
	if (n > l->max_bytes - l->rest.len)
		return err_set(eb, -EFBIG, "a line of more than %zu bytes", l->max_bytes);
	if (n)
		bytes_put(&l->rest, p, n);
	return bytes_error(&l->rest);
}

int http_lines_put(struct http_lines *l, const void *piece, size_t n,
	int (*fn)(void *arg, const char *line, size_t n), void *arg, struct errbuf *eb)
{
	const char *at = piece, *end = at + n, *stop;

	while (at < end && (stop = memchr(at, '\n', (size_t)(end - at)))) {
		bool is_whole = !l->rest.len && (size_t)(stop - at) <= l->max_bytes;
		const char *line = at;
		size_t len = (size_t)(stop - at);
		int r = is_whole ? 0 : put_rest(l, at, len, eb);

		if (r < 0)
			return r;
		if (!is_whole) {
			line = (const char *)l->rest.data;
			len = l->rest.len;
		}
		len -= len && line[len - 1] == '\r';
		r = len ? fn(arg, line, len) : 0;
		bytes_reset(&l->rest);
		if (r < 0)
			return r;
		at = stop + 1;
	}
	return put_rest(l, at, (size_t)(end - at), eb);
}
