/* SPDX-License-Identifier: Apache-2.0
 *
 * The dictionary groups of a record: what the dictionaries gained, written and applied (docs/formats/wal.md, "Body").
 */
#pragma once
#include "scraper/store/codec/codec.h"
#include "scraper/store/head/dict.h"
#include "scraper/store/wal/record.h"

/* How many entries each dictionary had after the last written record. */
struct record_mark {
	size_t n[DICT_N];
};
void record_mark_take(struct record_mark *m, const struct dict *d);
/* Appends the groups of everything that the dictionaries gained since `m`. Errors of page_writer_finish. */
int record_put_dict(struct bytes *out, struct page_writer *w, const struct dict *d,
	const struct record_mark *m) _must_check_;
/* Applies one dictionary group; new holes where it refers to some. -EBADMSG, -ENOMEM, -ENOSPC. */
int record_apply_dict(struct dict *d, const struct record_group *g, struct errbuf *eb) _must_check_;
