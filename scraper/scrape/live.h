/* SPDX-License-Identifier: Apache-2.0
 *
 * Which series of a profile type hold: those that came within the lookback of queries. When their target leaves or cannot be scraped they
 * are stored as ended, so that queries of the present do not show what was there minutes ago. The thread that has the type's request
 * (scrape_impl.h, invariant 2).
 */
#pragma once
#include "lib/base/table.h"
#include "lib/prof/labels.h"
#include "scraper/scrape/vitals.h"

struct scrape_live_series {
	struct labels labels;
	uint64_t hash, round;
	int64_t seen_ns; /* monotonic */
};

struct scrape_live {
	struct scrape_live_series *items;
	size_t n, cap;
	struct table index;	     /* hash → place in items */
	uint64_t round;		     /* answers counted */
	int64_t time_ns;	     /* of the newest profile */
	bool reports, reports_up;    /* series of the scrape itself are there */
	uint32_t reports_vitals;     /* those of Sonde-Health, by place in vitals.c's table */
	struct scrape_vitals vitals; /* of the last answer that was reported */
};

void scrape_live_init(struct scrape_live *l);
void scrape_live_done(struct scrape_live *l);
/* An answer came with these streams, whose profiles end at time_ns. Returns how many of them the answer before did not have. */
uint64_t scrape_live_update(struct scrape_live *l, const struct labels *streams,
	const uint64_t *hashes, size_t n, int64_t time_ns, int64_t now_mono_ns);
/* Takes all series out: *ret (heap) and their labels are the caller's. The last time they have is the result, or time_ns when that is later. */
int64_t scrape_live_take(
	struct scrape_live *l, int64_t time_ns, struct labels **ret, size_t *ret_n);
static inline bool scrape_live_is_empty(const struct scrape_live *l)
{
	return !l->n && !l->reports;
}
