/* SPDX-License-Identifier: Apache-2.0
 *
 * What the steps of a merge share:
 *  1. merge_source.c: per part, which of its resolutions serve which times; merge_plan.c: of each, which rows to read, and what the
 *     profiles they belong to say together;
 *  2. merge_add.c: rows into a dense array per part and group, then the nodes that were touched;
 *  3. merge_names.c: the parts' locations to one order and to ids of one set of symbols; merge_unify.c: the nodes to ordered trees.
 * They run on all of the query's threads, each piece (a part, a stretch of its rows, a piece of a group's tree) on one; names are read
 * by one thread, while others put nodes in order.
 */
#pragma once
#include "lib/base/lock.h"
#include "scraper/query/coverage.h"
#include "scraper/query/group.h"
#include "scraper/query/rows.h"

/* Means are kept in this fraction until all parts are merged, so that rounding happens once. */
enum { MERGE_MEAN_SCALE = 1024 };

/* What profiles say together; zero when there are none. */
struct merge_counts {
	uint64_t n_profiles;
	int64_t period, duration_ns, min_time_ns, max_time_ns;
};

struct merge_plan {
	struct rows_ranges ranges; /* sorted */
	uint64_t n_rows;
	struct merge_counts counts;
};

/*
 * One resolution of a part: `part` is the scan's, but that reader, info, streams and hits are of the resolution, and the times that are
 * taken from it. Where rollups serve, whole hours come from those of an hour, whole tenths of it around them from those of ten minutes,
 * and the edges from raw profiles.
 */
enum { MERGE_RESOLUTIONS = PART_1H + 1 };
struct merge_source {
	struct scan_part part;
	uint32_t part_number;
	enum part_resolution resolution;
	struct {
		int64_t from_ns, to_ns;
	} spans[2];
	unsigned n_spans;
	struct merge_plan plan;
};

/* A stretch of a source's rows for one thread. */
struct merge_task {
	uint32_t source;
	uint64_t from_row, to_row;
};

/*
 * The touched nodes of one group in one stretch, in the part's order, the root first. One allocation, charged. Step 3 makes an ordered
 * tree's nodes of them: location is then the rank, parent is undefined, depth is set.
 */
struct merge_nodes {
	uint32_t group, part;
	size_t n, cap;
	uint32_t *parent, *location, *depth; /* location: of the part */
	int64_t *self;
};

/* How long the targets of each group of a set were watched, each target once. */
struct merge_covers {
	struct table counted; /* (group, target) */
	struct query_cover *items;
	size_t n, cap;
};

struct merger {
	struct scan scan;
	struct group_set groups;
	struct query_trees *out;
	struct tree_symbols *symbols;
	const struct query_spec *spec;
	bool is_mean;			  /* instant column: mean over the scrapes of each series */
	struct coverage coverage;	  /* of an instant column */
	struct merge_covers group_covers; /* of `groups` that series make */
	struct group_set watched;	  /* what the grouping labels of series alone make */
	struct merge_covers watched_covers;
	_Atomic uint64_t *scrapes;    /* per series */
	struct merge_source *sources; /* MERGE_RESOLUTIONS for each part, from fine to coarse */
	size_t n_sources;
	struct merge_task *tasks;
	size_t n_tasks;
	_Atomic size_t next;	   /* piece of the step in hand */
	struct merge_names *names; /* of step 3 */
	struct unifier *unifier;

	struct lock lock; /* of what follows */
	struct merge_nodes *nodes;
	size_t n_nodes, cap_nodes;
	int error;
	struct errbuf error_text;
	_Atomic bool failed;
};

/* Pieces of a step: 0 or the error that ends the query. */
typedef int merge_piece_fn(struct merger *m, size_t piece, struct errbuf *eb);
/* Runs pieces 0 … n - 1 on the query's threads. */
int merge_run(struct merger *m, size_t n, merge_piece_fn *fn, struct errbuf *eb) _must_check_;

/* All sources of a part. */
int merge_find_sources(struct merger *m, size_t part, struct errbuf *eb) _must_check_;
void merge_source_done(struct merger *m, struct merge_source *s);
int merge_plan_source(struct merger *m, size_t source, struct errbuf *eb) _must_check_;
/* Into m->nodes. */
int merge_add_task(struct merger *m, size_t task, struct errbuf *eb) _must_check_;
/* Frees the arrays; group and part stay. */
void merge_nodes_done(struct merger *m, struct merge_nodes *n);
/* Into m->out, one group with anything in it after the other; frees m->nodes. */
int merge_unify(struct merger *m, struct errbuf *eb) _must_check_;

static inline int merge_no_memory(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM, "out of memory for the query");
}
