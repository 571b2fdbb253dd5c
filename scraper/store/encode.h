/* SPDX-License-Identifier: Apache-2.0
 *
 * From a scrape to the body of a record, for one head: what append.c writes to the log and import.c applies to a head of its own.
 */
#pragma once
#include "scraper/store/head/head.h"
#include "scraper/store/intern/intern.h"

struct store;

/* Working memory of one appending thread. */
struct encoder {
	struct arena scratch;
	struct bytes record, page;
	struct page_writer *pages;
	struct known known;
};
void encode_init(struct encoder *e, struct budget *budget);
void encode_done(struct encoder *e);

/* One group of profile entries. */
struct encode_entries {
	size_t n, n_values;
	uint32_t *stream, *n_rows;
	int64_t *time, *duration, *period, *totals; /* totals column by column, `cap` apart */
	size_t cap;
};
/* A scrape as ids of the head, without what is stored already. All arrays lie in the encoder's arena. */
struct encoded {
	struct interned in;
	struct encode_entries profiles, gauges, coverage, ends;
	uint32_t n_rows;
};

/*
 * Interns everything into `h`, keeps what neither it nor the store's other parts have, and counts duplicates and conflicts in
 * `res`. The thread that fills `h`. -ENOSPC: a dictionary is full; -EFBIG, -EINVAL, -ENOMEM and errors of the disk.
 */
int encode_prepare(struct encoder *e, struct store *s, struct head *h,
	const struct store_scrape *scrape, struct encoded *ret, struct store_result *res,
	struct errbuf *eb) _must_check_;
/* The record into e->record, after WAL_RECORD_HEADER free bytes: what the dictionaries gained since h->mark, profiles, rows, cursor. -EFBIG:
 * a column too large for a page; -ENOMEM. */
int encode_record(struct encoder *e, const struct head *h, const struct store_scrape *scrape,
	const struct encoded *from, uint64_t synced_sequence, int64_t now_ns) _must_check_;
/* The plan of publication from the body just encoded, into which it points. Errors of head_plan_make. */
int encode_plan(
	struct encoder *e, struct head *h, struct head_plan *ret, struct errbuf *eb) _must_check_;
