/* SPDX-License-Identifier: Apache-2.0
 *
 * A scrape into ids of the head's dictionaries: names, locations normalised to the file, stacks to nodes, rows sorted and merged.
 */
#pragma once
#include "scraper/store/head/dict.h"
#include "scraper/store/intern/known.h"

/* All arrays lie in `arena`, which the caller resets per scrape. */
struct interned {
	uint32_t schema;
	uint32_t *streams; /* per scrape stream: id in the dictionary */
	uint32_t *n_rows;  /* per scrape stream */
	int64_t *totals;   /* per scrape stream × column */
	/* Rows ordered by (stream of the scrape, label set, node), equal ones summed. */
	uint32_t n;
	uint32_t *label_set, *node;
	int64_t *values; /* column by column, `n` each */
};

/* `known` is of the dictionary's generation. -EFBIG, -EINVAL with texts, -ENOSPC (a dictionary is full: end the generation), -ENOMEM. */
int intern_scrape(struct dict *d, struct known *known, const struct store_scrape *s,
	struct arena *arena, struct interned *ret, struct errbuf *eb) _must_check_;
/* The stream of one gauge or coverage entry: its id, or an error of intern_scrape. */
int64_t intern_gauge_stream(struct dict *d, const struct labels *labels, struct errbuf *eb);
/* The stream that says when the one with these labels ended. */
int64_t intern_end_stream(struct dict *d, const struct labels *labels, struct errbuf *eb);
/* Its columns are the time lost and, in a scrape that knows it, the number of CPUs: 1 or 2 of them. */
size_t intern_coverage_columns(const struct store_scrape *s);
int64_t intern_coverage_stream(struct dict *d, const struct store_scrape *s,
	const struct labels *labels, struct errbuf *eb);
