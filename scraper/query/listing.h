/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiles that a selector finds, one by one: what lists of profiles, heatmaps and exemplars are made from.
 */
#pragma once
#include "scraper/query/group.h"
#include "scraper/query/rows.h"

/* A profile, or with grouping by labels of rows what of it belongs to one group. */
struct listing_item {
	int64_t time_ns, duration_ns, value;
	uint64_t series;	  /* as in query_profile_id */
	uint32_t part, label_set; /* of its series, in that part */
	uint32_t group;		  /* in listing.groups; 0 without spec.group */
};
typedef int listing_fn(void *ctx, const struct listing_item *item, struct errbuf *eb);

struct listing {
	struct scan scan;
	const struct query_spec *spec;
	struct group_set groups;
	listing_fn *fn;
	void *ctx;
	bool by_stack;
	struct bytes scratch;

	/* of the part in hand */
	uint32_t part_number;
	struct scan_part *part;
	struct rows_ranges ranges;
	struct group_view view;
	uint32_t view_hit;
	uint64_t *series; /* per hit */
	struct arena part_arena;
	const uint64_t *classes;

	/* of the profile whose rows come */
	const struct rows_range *range;
	struct listing_item *pending; /* a group each */
	size_t n_pending, cap_pending, last;
	struct table pending_of; /* group → its place in pending */
};

/*
 * Calls `fn` for every profile with start ≤ time ≤ end, series by series within a part. Where a matcher or grouping label is of rows, or stacks are chosen, the
 * value is that of the rows that pass, and profiles without any are left out. `l` is zero-initialised; parts stay open until
 * listing_done, so that labels can be asked for. Errors as query_merge.
 */
int listing_run(struct listing *l, struct query_env *env, const struct query_spec *spec,
	struct query_type *ret_type, struct errbuf *eb) _must_check_;
void listing_done(struct listing *l);
/* The labels of a profile's series. `b` is initialised here, and the caller's to end. */
void listing_labels(
	const struct listing *l, uint32_t part, uint32_t label_set, struct labels_builder *b);
