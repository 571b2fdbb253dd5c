/* SPDX-License-Identifier: Apache-2.0
 *
 * For how long the targets behind a line of values over time were watched, at each of its points.
 */
#pragma once
#include "scraper/query/coverage.h"

struct watched {
	struct table pairs; /* line << 32 | target of the coverage; the value is unused */
};

/* Points at start, start + step …; one at t covers (t − window, t]. */
struct watched_points {
	int64_t start_ns, step_ns, window_ns;
	size_t n;
};

/* A series of the line belongs to the target. -ENOMEM. */
int watched_note(struct watched *w, uint32_t line, uint32_t target) _must_check_;
/*
 * Calls fn for each line that was noted, in their order, with the nanoseconds of each point in which its targets were watched: all of them
 * together, less what was lost, or with `as_one` at least one of them. -ENOMEM.
 */
typedef void watched_fn(void *ctx, uint32_t line, const double *ns);
int watched_each(const struct watched *w, const struct coverage *c,
	const struct watched_points *points, bool as_one, watched_fn *fn, void *ctx) _must_check_;
