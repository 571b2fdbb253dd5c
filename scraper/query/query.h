/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries over parts: merges to trees, series over time, and what labels and types there are. Pure:
 * parts are the only input, no clock, no I/O of its own. A query belongs to one thread, which workers may help; parts are shared.
 * `ret` is overwritten, and empty after an error. Errors have a text: those of query_merge everywhere.
 *
 * Labels. A matcher or grouping label is taken from the series; when the series has no such label,
 * from each row's label set; else it is "". __profile_type__, __type__, __unit__, __period_type__
 * and __period_unit__ come from the value column.
 *
 * Sums. A merge takes whole profiles with start ≤ time ≤ end. Delta columns are summed. Instant
 * columns (heap in use, goroutines) are the mean over the scrapes of each series, then the sum over
 * series. A point at t of a series over time is, for a delta column, the sum over (t − step, t] of
 * each profile's value spread evenly over its window (time − duration, time]; for instant columns
 * and gauges the mean per series of what lies in (t − step, t], then the sum over the group.
 */
#pragma once
#include "lib/base/table.h"
#include "lib/prof/labels.h"
#include "lib/tree/choose.h"
#include "scraper/query/selector.h"
#include "scraper/store/part/part.h"
#include <stdatomic.h>

struct query_workers;

struct query_stats {
	uint64_t parts, streams, profiles, pages, rows, nodes;
	uint64_t rollups; /* rollups of parts that served */
};

/* What a query may read and spend. */
struct query_env {
	struct part *const *parts; /* at least those with profiles in the range */
	size_t n_parts;
	struct budget *budget;	       /* every allocation that data can size; may be NULL */
	const _Atomic bool *cancel;    /* -ECANCELED soon after it is set; may be NULL */
	struct query_workers *workers; /* threads that help; NULL: none */
	bool without_rollups;	       /* read raw profiles only */
	uint64_t
		share_rows; /* a part with more rows than this may be shared by threads; 0: 262,144 */
	struct query_stats stats; /* added to */
};

/* Which profile: of the series with these labels (labels_hash), the one with this time. */
struct query_profile_id {
	uint64_t series;
	int64_t time_ns;
};
enum { QUERY_PROFILE_ID_LEN = 36 };
/* As 32 hexadecimal digits, grouped as in a UUID: time, then series. */
void query_profile_id_print(const struct query_profile_id *id, char ret[QUERY_PROFILE_ID_LEN + 1]);
/* -EINVAL unless it is one. */
int query_profile_id_parse(
	const char *text, struct query_profile_id *ret, struct errbuf *eb) _must_check_;

/* A value column as the user names it. */
struct query_type {
	char *id; /* name:sample_type:sample_unit:period_type:period_unit, for gauges the name alone
		   */
	char *name, *sample_type, *sample_unit, *period_type, *period_unit;
	char *metric; /* Prometheus' name: name_type_unit_total for delta columns, name_type_unit
			 for instant ones */
	enum store_column_kind kind;
};

/* In whose words __name__ is: profiles ("process_cpu", __profile_type__ …) or Prometheus ("process_cpu_cpu_nanoseconds_total"). */
enum query_terms { QUERY_PROFILE_TERMS, QUERY_PROMETHEUS_TERMS };

/* How long targets were watched, all together: 0 unknown; and the same times the CPUs of each: -1 where some target's are not known. */
struct query_cover {
	int64_t ns, cpu_ns;
};

/* A point is what was measured in its window; what it were if one of the line's targets at least had been watched all the time; the mean
 * of one target. */
enum query_of { QUERY_OF_MEASURED, QUERY_OF_SERVICE, QUERY_OF_INSTANCE };

struct query_spec {
	const struct query_selector *selector;
	enum query_terms terms; /* of the selector's matchers on __name__; series over time only */
	/* Merges: names go here, so that several answers share them; NULL: the answer's own. */
	struct tree_symbols *symbols;
	bool want_coverage; /* merges: covered and n_targets; not of single profiles */
	int64_t start_ns, end_ns;
	/* Merges and lists of profiles: these alone, of those in the range; 0: all. The mean of an instant type is then over them. */
	const struct query_profile_id *profiles;
	size_t n_profiles;
	/* Series over time, lists of profiles: which stacks count, and of which functions they are; NULL or empty: all. Gauges have none (-EINVAL). Names
	 * go to `symbols`, which must then be there. */
	const struct tree_choice *stacks;
	/* Series over time: a point is the mean over the profiles with time in its window, of all series of the group, whole and
	 * not spread. A profile of which nothing belongs to the line is none of it. */
	bool average;
	enum query_of of;  /* series over time, of deltas */
	int64_t step_ns;   /* series over time: points at start, start + step … ≤ end */
	int64_t window_ns; /* what a point at t covers: (t − window, t]; 0: the step */
	/* Not 0: a series without a value in the step before a point has that of the last step before it with one, for so long, unless it
	 * ended since; a point of a counter in that state is 0, and of one that ended is left out. */
	int64_t lookback_ns;
	const char *const *group_by;
	size_t n_group_by; /* at most 32 (-EINVAL) */
	bool group; /* false: trees are one group, series stay apart; true with n_group_by 0: one
		       group */
	size_t max_groups; /* beyond it what comes next joins one group labelled "__other__" for
			      each grouping label; 0: 1000 */
};

struct query_group {
	struct labels labels;	    /* only the grouping labels that are there; sorted */
	struct tree tree;	    /* location tree over query_trees.symbols */
	struct query_cover covered; /* with want_coverage: as query_watched; 0 by rows' labels */
};

/* How long targets were watched that have the same grouping labels, those of rows left out. */
struct query_watched {
	struct labels labels; /* as of a group */
	struct query_cover covered;
};

struct query_trees {
	struct tree_symbols symbols;
	struct query_group *groups; /* by total, descending; at least one unless grouped */
	size_t n_groups;
	struct query_type type;
	int64_t period;			  /* of the profiles, 0 when they differ */
	int64_t duration_ns;		  /* sum of the windows of the profiles that were merged */
	int64_t min_time_ns, max_time_ns; /* first window's begin and last window's end; 0 when
					     nothing was found */
	uint64_t n_profiles, n_series, n_targets;
	struct query_cover covered; /* with want_coverage: of the targets of these series */
	int64_t watched_ns; /* with want_coverage: the time in which at least one of them was watched */
	struct query_watched *watched; /* with want_coverage: all of those targets */
	size_t n_watched;
};

/*
 * Merges what the selector finds. Nothing found is no error: type.id is then what was asked for.
 * -EINVAL when the selector names no type and more than one value column answers (the text lists
 * them), or only gauges do; -ENOMEM, -ECANCELED, and the errors of part.h.
 */
int query_merge(struct query_env *env, const struct query_spec *spec, struct query_trees *ret,
	struct errbuf *eb) _must_check_;
void query_trees_done(struct query_trees *t);
#define _cleanup_query_trees_ _cleanup_(query_trees_done)

struct query_point {
	int64_t time_ns;
	double value;
};
struct query_line {
	struct labels labels;	    /* of the series, or the grouping labels */
	struct query_point *points; /* by time; empty buckets are left out */
	size_t n_points;
	double sum;	 /* of all points */
	size_t function; /* with stacks->n_frames: which of them, n_frames: stacks of none */
};
struct query_matrix {
	struct query_line *lines; /* by sum, descending, then by labels */
	size_t n_lines;
	struct query_type type;
	struct arena arena; /* of lines and points, charged to the query's budget */
};

/* At most 11,000 points a line (-EINVAL). Errors as query_merge; gauges are fine here. */
int query_over_time(struct query_env *env, const struct query_spec *spec, struct query_matrix *ret,
	struct errbuf *eb) _must_check_;
void query_matrix_done(struct query_matrix *m);
#define _cleanup_query_matrix_ _cleanup_(query_matrix_done)

struct query_profile {
	struct query_profile_id id;
	struct labels labels; /* of its series */
	int64_t duration_ns, value;
};
struct query_profiles {
	struct query_profile *items; /* by time, then labels */
	size_t n;
	uint64_t n_found; /* more than n when a limit left some out */
	int64_t total;	  /* of all that were found */
	struct query_type type;
	struct budget *budget;
	size_t cap;
};

/*
 * The profiles that the selector finds with start ≤ time ≤ end, each with its value: of the rows that pass where a matcher is on
 * labels of rows or stacks are chosen (profiles without any are left out), else of the whole. The `limit` with the largest values
 * (0: all). Errors as query_merge.
 */
int query_profiles(struct query_env *env, const struct query_spec *spec, size_t limit,
	struct query_profiles *ret, struct errbuf *eb) _must_check_;
void query_profiles_done(struct query_profiles *p);
#define _cleanup_query_profiles_ _cleanup_(query_profiles_done)

/* Lists are kept in memory of the query's budget, which must outlive them. */

/* A sorted list of distinct texts. */
struct query_strings {
	const char **items;
	size_t n;
	struct interner texts;
};
void query_strings_done(struct query_strings *s);
#define _cleanup_query_strings_ _cleanup_(query_strings_done)

struct query_type_list {
	struct query_type *items;
	size_t n;
	struct arena arena;
};
void query_type_list_done(struct query_type_list *l);
#define _cleanup_query_type_list_ _cleanup_(query_type_list_done)

struct query_series_list {
	struct labels *items; /* without blocks of their own: they point into `texts` */
	size_t n;
	struct interner texts;
	struct arena arena;
};
void query_series_list_done(struct query_series_list *l);
#define _cleanup_query_series_list_ _cleanup_(query_series_list_done)

/*
 * What there is in parts that have profiles in [start, end]. `selectors` are alternatives; none
 * means everything. A matcher on a label that a stream lacks asks its rows, up to the first that passes.
 * Row labels are listed too: with selectors those of rows that pass, without any those of the parts in range.
 */
struct query_catalog {
	struct query_env *env;
	int64_t start_ns, end_ns;
	const struct query_selector *selectors;
	size_t n_selectors;
	enum query_terms terms; /* of names, values and series */
};
int query_types(
	const struct query_catalog *c, struct query_type_list *ret, struct errbuf *eb) _must_check_;
/* The same in Prometheus' terms: metrics, gauges too, and those of profiles that end later but whose windows begin in the range: a point takes
 * its share of them. */
int query_metrics(
	const struct query_catalog *c, struct query_type_list *ret, struct errbuf *eb) _must_check_;
int query_label_names(
	const struct query_catalog *c, struct query_strings *ret, struct errbuf *eb) _must_check_;
int query_label_values(const struct query_catalog *c, const char *name, struct query_strings *ret,
	struct errbuf *eb) _must_check_;
/* Distinct label sets of value columns; each with the __type__ … labels in profile terms. At most
 * `limit` (0: all). */
int query_series(const struct query_catalog *c, size_t limit, struct query_series_list *ret,
	struct errbuf *eb) _must_check_;
