/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles counted by time and value, with the largest of each cell as its example.
 */
#pragma once
#include "scraper/query/query.h"

/* A profile as an example of what a point or cell counts. */
struct query_exemplar {
	struct query_profile_id id;
	int64_t value;
	struct labels labels; /* of its series, but for grouping labels and private ones */
	const char *span;     /* with by_span, else NULL */
};
struct query_heat_slot {
	int64_t time_ns;		  /* right edge */
	uint32_t *counts;		  /* of each row */
	struct query_exemplar *exemplars; /* by row: of each the largest, the earliest of these */
	size_t n_exemplars;
};
struct query_heat_line {
	struct labels labels;	       /* the grouping labels that are there */
	struct query_heat_slot *slots; /* by time; empty ones are left out */
	size_t n_slots;
	uint64_t n_profiles;
};
struct query_heatmap {
	struct query_heat_line *lines; /* by n_profiles, descending, then by labels */
	size_t n_lines;
	double *row_min; /* the smallest value of each row, ascending */
	size_t n_rows;
	struct query_type type;
	struct arena arena;
};
struct query_heat_spec {
	size_t n_rows; /* 1 … QUERY_HEAT_ROWS: as many as equal parts between the smallest value and the largest */
	bool look_back; /* the first slot is (start − step, start], what is after the last one left out: the points of query_over_time. Else the
			   profiles of [start, end], what is after the last slot in it */
	bool by_span;	/* rows with the label span_id alone, each span of a profile apart */
	bool exemplars;
};
enum { QUERY_HEAT_ROWS = 20 };

/*
 * Counts profiles by time and value, a line per group (spec.group_by; none: one line). Slots end at start, start + step … ≤ end, at most 11,000
 * (-EINVAL). Values are those of query_profiles, grouping labels may be of rows. Errors as query_profiles.
 */
int query_heatmap(struct query_env *env, const struct query_spec *spec,
	const struct query_heat_spec *heat, struct query_heatmap *ret,
	struct errbuf *eb) _must_check_;
void query_heatmap_done(struct query_heatmap *h);
#define _cleanup_query_heatmap_ _cleanup_(query_heatmap_done)
