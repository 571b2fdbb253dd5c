/* SPDX-License-Identifier: Apache-2.0
 *
 * A part as text, and a check of everything in it. The text depends on content alone, not on ids: a head and the block
 * that it becomes give the same. `sonde tsdb dump|verify`, tests.
 */
#pragma once
#include "lib/base/bytes.h"
#include "scraper/store/part/part.h"

struct dump_options {
	bool rows; /* every row with its stack, not only profiles */
	/* Called whenever `out` passed 64 KiB, to write and reset it; may be NULL. Negative stops. */
	int (*flush)(void *arg, struct bytes *out);
	void *arg;
};
/* Streams in order of their labels as text, profiles by time, rows in order of their text. Errors of part.h, of `out` and of o->flush. */
int dump_part(struct part_reader *r, const struct dump_options *o, struct bytes *out) _must_check_;

struct dump_counts {
	uint64_t streams, profiles, rows, nodes, strings;
};
/* Decodes every table and page; rows of a profile must be in order and add up to its totals. -EBADMSG with the reader's text. */
int dump_check(struct part_reader *r, struct dump_counts *ret) _must_check_;
/* The same of a part and of its rollups; damage is queued for quarantine. Counts are those of the raw data. */
int dump_check_part(struct part *p, struct dump_counts *ret, struct errbuf *eb) _must_check_;
