/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers which series of parts it has seen, without making their text: strings of labels get numbers that are the same in all parts, once
 * per part, and a label set is then the numbers of its pairs.
 */
#pragma once
#include "scraper/query/scan.h"

struct series_seen {
	struct interner strings, sets, types;
	struct table series; /* set << 32 | type */
	/* Of the part in hand, by its ids; STORE_NONE: not asked for yet. In the scan's arena. */
	uint32_t *string_of, *set_of, *type_of;
	struct bytes key; /* scratch */
};

void series_seen_init(struct series_seen *s, struct budget *b);
void series_seen_done(struct series_seen *s);
/* Before the first series of a part; `scan` has that part alone and its types. -ENOMEM. */
int series_seen_start(struct series_seen *s, struct scan *scan) _must_check_;
/* 1: the series of this hit was not there before. -ENOMEM. */
int series_seen_add(
	struct series_seen *s, const struct scan *scan, const struct scan_hit *hit) _must_check_;
