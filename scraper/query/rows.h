/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking the rows of chosen profiles page by page: each page is decoded once.
 */
#pragma once
#include "scraper/query/scan.h"

/* Rows that a hit asks for: of one profile, or of several that follow each other. */
struct rows_range {
	uint64_t first_row, n_rows;
	uint32_t hit;		      /* index in the part's hits */
	uint32_t group;		      /* of all these rows, or TREE_NONE */
	int64_t time_ns, duration_ns; /* of the one profile */
};

struct rows_ranges {
	struct rows_range *items;
	size_t n, cap;
	struct budget *budget; /* set by the owner, charged for the items */
};
void rows_done(struct rows_ranges *r);

/* One stretch of a range in one page. `label_sets` NULL: all rows have const_label_set. */
struct rows_piece {
	const struct rows_range *range;
	const struct scan_hit *hit;
	size_t n;
	const uint32_t *nodes, *label_sets;
	uint32_t const_label_set;
	const int64_t *values;
};
typedef int rows_fn(const struct rows_piece *piece, void *ctx, struct errbuf *eb);

/* Adds the rows of profile i. Both: -ENOMEM, without a text. */
int rows_add(struct rows_ranges *r, const struct part_profiles *profiles, size_t i,
	uint32_t hit) _must_check_;
/* Adds rows, to the last range where they follow it and hit and group are the same. */
int rows_extend(struct rows_ranges *r, uint64_t first_row, uint64_t n_rows, uint32_t hit,
	uint32_t group) _must_check_;
void rows_sort(struct rows_ranges *r);

/* Which rows of a part one thread walks. */
struct rows_job {
	struct scan *scan;
	struct scan_part *part;
	struct part_reader *reader;	  /* of the same part, this thread's */
	const struct rows_ranges *ranges; /* sorted */
	uint64_t from_row, to_row;
	bool nodes_only;	   /* pieces have no values */
	bool sets_only;		   /* nor nodes */
	const uint8_t *done;	   /* per hit: its rows need not be read any more; or NULL */
	struct query_stats *stats; /* added to */
};
/* Calls `fn` for every piece, until one gives an error. Row ids are checked against the part's tables. -ECANCELED, the errors of part.h. */
int rows_walk(const struct rows_job *job, rows_fn *fn, void *ctx, struct errbuf *eb) _must_check_;
