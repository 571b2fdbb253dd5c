/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines out of a body that arrives in pieces (struct http_fetch.piece): each is handed out as soon as its end is there.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/err.h"
#include <stdbool.h>

struct http_lines {
	struct bytes rest; /* of a line whose end has not come */
	size_t max_bytes;  /* of a line */
};
void http_lines_init(struct http_lines *l, size_t max_bytes);
void http_lines_done(struct http_lines *l);
/* Forgets the unfinished line: another body begins. */
void http_lines_reset(struct http_lines *l);
/* Calls fn(arg, line, n) for each line that this piece ends, without its end ("\n" or "\r\n") and not for empty ones. Stops
 * at the first negative return, which it hands on. -EFBIG: a line above max_bytes; -ENOMEM. */
int http_lines_put(struct http_lines *l, const void *piece, size_t n,
	int (*fn)(void *arg, const char *line, size_t n), void *arg,
	struct errbuf *eb) _must_check_;
