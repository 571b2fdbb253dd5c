/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking the rows of chosen profiles page by page: each page is decoded once.
 */
#pragma once
#include "scraper/query/scan.h"

/* The rows of one profile that a hit asks for. */
struct rows_range {
	uint64_t first_row;
	uint32_t n_rows;
	uint32_t hit; /* index in the part's hits */
	int64_t time_ns, duration_ns;
};

struct rows_ranges {
	struct rows_range *items;
	size_t n, cap;
};

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

/* Adds the rows of every raw profile of the hit with time in [from, to]; profiles are counted in the query's statistics. */
int rows_add(struct rows_ranges *r, const struct part_profiles *profiles, size_t i,
	uint32_t hit) _must_check_;
/* Sorts the ranges by row and calls `fn` for every piece. Row ids are checked against the part's tables. */
int rows_walk(struct scan *s, struct scan_part *p, struct rows_ranges *r, rows_fn *fn, void *ctx,
	struct errbuf *eb) _must_check_;
