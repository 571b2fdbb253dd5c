/* SPDX-License-Identifier: Apache-2.0
 *
 * When targets were watched. A series of an instant type that is absent from a scrape (no such goroutines, no such process) was
 * 0 then; its mean is over all scrapes of its target, and those are the coverage entries whose labels the series carries.
 */
#pragma once
#include "scraper/query/scan.h"

struct coverage_window {
	int64_t begin_ns, end_ns;
	int64_t covered_ns; /* less what was lost */
};
struct coverage_target {
	struct coverage_window *windows; /* unordered */
	size_t n, cap;
	struct query_cover covered; /* the windows less what was lost of them */
};

struct coverage {
	struct scan *scan;
	struct interner name_sets;     /* label names of coverage streams, each NUL-ended */
	struct interner targets;       /* canonical bytes of label sets */
	struct coverage_target *items; /* per target */
	size_t cap;
};

static inline struct query_cover coverage_sum(struct query_cover a, struct query_cover b)
{
	return (struct query_cover) {.ns = tree_add(a.ns, b.ns),
		.cpu_ns = a.cpu_ns < 0 || b.cpu_ns < 0 ? -1 : tree_add(a.cpu_ns, b.cpu_ns)};
}

/* Reads the coverage entries with time in [from, to] of all parts of the scan; `c` is zero-initialised, coverage_done is due in any case.
 * -ENOMEM, -ECANCELED, the errors of part.h. */
int coverage_load(struct coverage *c, struct scan *s, int64_t from_ns, int64_t to_ns,
	struct errbuf *eb) _must_check_;
void coverage_done(struct coverage *c);
#define _cleanup_coverage_ _cleanup_(coverage_done)
/* When at least one of the chosen targets (per target) was watched: apart from each other, ascending. `ret` is overwritten;
 * coverage_windows_done is due in any case. -ENOMEM. */
struct coverage_windows {
	struct coverage_window *items;
	size_t n, cap;
	struct budget *budget;
};
int coverage_union(
	const struct coverage *c, const bool *chosen, struct coverage_windows *ret) _must_check_;
void coverage_windows_done(struct coverage_windows *w);
#define _cleanup_coverage_windows_ _cleanup_(coverage_windows_done)
/* The target that a series with this label set belongs to, as an index in items; TREE_NONE when it is unknown. -ENOMEM. */
int coverage_find(const struct coverage *c, const struct scan_part *p, uint32_t label_set,
	uint32_t *ret) _must_check_;
