/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a WAL record (docs/formats/wal.md, "Body"): groups, each a small page or a list of
 * cursors.
 */
#pragma once
#include "lib/base/cursor.h"
#include "scraper/store/model/append.h"

enum record_kind { RECORD_SCRAPE = 1, RECORD_CURSORS = 2 };
enum record_tag {
	/* 1 … 8 are enum dict_kind */
	RECORD_PROFILES = 16,
	RECORD_ROWS = 17,
	RECORD_CURSOR = 18,
	RECORD_RESTATED = 19,
};
enum { PROFILE_COLUMNS = 5, ROW_COLUMNS = 2 }; /* before the value columns */

struct record {
	enum record_kind kind;
	uint64_t synced_sequence;
	struct cursor groups;
};
struct record_group {
	enum record_tag tag;
	uint32_t n, n_columns;
	uint64_t first;
	const uint8_t *data;
	uint32_t len;
};

/* -EBADMSG with a text. *ret points into `body`. */
int record_parse(const void *body, size_t len, struct record *ret, struct errbuf *eb) _must_check_;
/* 1 and a group, 0 at the end, or -EBADMSG. */
int record_next(struct record *r, struct record_group *ret, struct errbuf *eb) _must_check_;

/* One entry of a cursor group, consumed from `c`, into whose bytes it points. -EBADMSG. */
struct record_cursor {
	struct store_blob key, before, after;
	int64_t time_ns;
};
int record_next_cursor(struct cursor *c, struct record_cursor *ret) _must_check_;
void record_put_cursor(struct bytes *out, const struct record_cursor *c);

/* Writing: the head of a body, and one group around bytes already encoded. */
void record_begin(struct bytes *out, enum record_kind kind, uint64_t synced_sequence);
void record_put_group(struct bytes *out, const struct record_group *g);
