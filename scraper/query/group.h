/* SPDX-License-Identifier: Apache-2.0
 *
 * Grouping: from a stream and a row's label set to a group number. A grouping label is the stream's, else the row's, else
 * absent.
 */
#pragma once
#include "lib/base/lock.h"
#include "scraper/query/scan.h"

struct group_set {
	struct scan *scan;
	struct lock
		lock; /* of keys and other: threads of one query share a set, each with views of its own */
	struct interner keys; /* per group: for each label 0, or 1 with length and bytes */
	size_t max_groups;
	uint32_t other; /* the group of what came beyond max_groups, or TREE_NONE */
};

/* The groups of one stream of one part. */
struct group_view {
	struct group_set *set;
	const struct scan_part *part;
	uint32_t stream_set;
	uint32_t constant; /* the group of all rows, or TREE_NONE */
	struct table by_row_set;
};

void group_set_init(struct group_set *g, struct scan *s, size_t max_groups);
void group_set_done(struct group_set *g);
static inline size_t group_set_n(const struct group_set *g)
{
	return g->keys.n;
}
/* The labels that name group i; the caller's. -ENOMEM. */
int group_set_labels(const struct group_set *g, uint32_t i, struct labels *ret) _must_check_;

/* Starts with a stream; `v` is zero-initialised before the first one. -ENOMEM. One thread per view. */
int group_view_start(struct group_view *v, struct group_set *g, const struct scan_part *p,
	const struct scan_hit *hit) _must_check_;
void group_view_done(struct group_view *v);
/* The group that the stream's own labels make, whatever its rows have, or -ENOMEM. */
int64_t group_view_of_stream(struct group_view *v);
/* The group of rows with this label set, or -ENOMEM. */
int64_t group_view_of(struct group_view *v, uint32_t row_set);
