/* SPDX-License-Identifier: Apache-2.0
 *
 * What a series is at a point where it has no profile, as in PromQL: for a while it is what it was last, unless it ended since. A series
 * ends by an entry that the scraper wrote (its target left, or could not be scraped) and, where scrapes of its target are known, by one
 * without it.
 */
#pragma once
#include "scraper/query/scan.h"

struct lookback_series {
	uint8_t *seen;	   /* per point: scraped in the step before it; NULL until touched */
	int64_t *last_ns;  /* of a series that ended: when last, per point */
	int64_t before_ns; /* the last time before the first step; INT64_MIN: none */
	int64_t *ends_ns;  /* ascending once lookback_ready */
	size_t n_ends, cap_ends;
};

struct lookback {
	struct arena *arena; /* its budget is charged for everything */
	int64_t start_ns, step_ns, for_ns;
	size_t n_points;
	struct lookback_series *series; /* by scan_hit.series */
	size_t cap;
};

enum { LOOKBACK_NONE = UINT32_MAX, LOOKBACK_BEFORE = UINT32_MAX - 1 };

/* Reads when the series of this type ended, of all parts; `l` has its first four fields set and is zero
 * otherwise; lookback_done is due in any case. After scan_select. -ENOMEM, the errors of part.h. */
int lookback_load(
	struct lookback *l, const struct scan *s, uint32_t type, struct errbuf *eb) _must_check_;
void lookback_done(struct lookback *l);
/* A scrape of the series, with a value or without one. -ENOMEM. */
int lookback_note(struct lookback *l, uint32_t series, int64_t time_ns) _must_check_;

/*
 * Per point: ret_from is the point before which the series was scraped last (the point itself included), LOOKBACK_BEFORE, or
 * LOOKBACK_NONE when that was too long ago or the series ended since; ret_ended says which.
 */
void lookback_walk(
	const struct lookback *l, uint32_t series, uint32_t *ret_from, uint8_t *ret_ended);
