/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences of cumulative profiles (Go's allocs, mutex, block): each stack's totals minus those of the previous scrape, kept as sorted
 * columns of 64-bit stack keys and values. Pure but for the budget.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/prof/profile.h"
#include <stdbool.h>
#include <stdint.h>

/* Invariant: n keys in rising order, each once; values[i × n_columns + c] is the total of key i. All zero: no previous scrape. */
struct scrape_delta {
	struct budget *budget;
	uint64_t *keys;
	int64_t *values, *totals;
	size_t n, n_columns;
	uint64_t types_hash; /* of the sample types: another set starts anew */
	int64_t time_ns;     /* end of the previous scrape */
	uint64_t charged_bytes;
};

enum scrape_delta_result {
	SCRAPE_DELTA_FIRST, /* nothing to subtract: the cumulative columns are set to 0 */
	SCRAPE_DELTA_DIFFERENCE,
	SCRAPE_DELTA_RESET, /* totals fell: the process started anew, its totals are the difference */
};

void scrape_delta_init(struct scrape_delta *d, struct budget *budget);
void scrape_delta_done(struct scrape_delta *d);
/*
 * Replaces the values of the columns with is_cumulative[c] by differences, the others stay, and remembers the totals. Per stack a
 * difference is never negative (Go scales sampled sizes, so that a stack's total may fall a little); a column whose sum falls by
 * more than 1/64 is a reset. *ret_duration_ns: since the previous scrape, 0 at first. When the budget refuses the new columns,
 * the profile is still right, the state is forgotten and *ret_evicted is set. -ENOMEM for working memory.
 */
int scrape_delta_apply(struct scrape_delta *d, struct profile *p, const bool *is_cumulative,
	int64_t time_ns, enum scrape_delta_result *ret, int64_t *ret_duration_ns, bool *ret_evicted,
	struct errbuf *eb) _must_check_;
/* The key of one sample: its stack (functions, lines, addresses) and its labels. */
uint64_t scrape_delta_key(const struct profile *p, const uint64_t *location_keys, size_t sample);
