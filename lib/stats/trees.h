/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics of stats.h over call trees: one function tree per run, all over the same symbols. Two families: functions (selfs and
 * totals), and nodes (totals). Pure.
 */
#pragma once
#include "lib/base/table.h"
#include "lib/stats/stats.h"
#include "lib/tree/tree.h"

struct stats_run {
	const struct tree *tree;
	double scale;	  /* what its values are multiplied with before they are compared, > 0 */
	double unit;	  /* what one sample amounts to, unscaled, > 0: the period */
	const char *name; /* for messages, or NULL */
};

struct stats_trees {
	size_t n_a, n_b;
	struct stats_options options;
	struct stats_model model;
	struct stats_row whole;	     /* all samples together, a family of its own */
	struct stats_row *nodes;     /* the first is the root; those with enough samples */
	struct stats_row *functions; /* with enough samples: all selfs, then all totals */
	uint32_t *parents;	     /* of nodes */
	size_t n_nodes, n_functions;
	struct table by_path, by_frame; /* (node, frame) → node, frame → function */
};

/*
 * Runs of A, then of B. `shares`: not values but shares are compared, each run divided by its size factor (stats_size_factors over the
 * functions' selfs), so that one large change does not look like a change of all others. What has too few samples for a test has no row.
 * `ret` is overwritten, and empty after an error. -ENOMEM; -EINVAL: a run has a value below 0. Both with a text.
 */
int stats_trees_make(const struct stats_run *runs, size_t n_a, size_t n_b, bool shares,
	const struct tree_symbols *symbols, const struct stats_options *opt, struct budget *budget,
	struct stats_trees *ret, struct errbuf *eb) _must_check_;
void stats_trees_done(struct stats_trees *s);
#define _cleanup_stats_trees_ _cleanup_(stats_trees_done)

/* NULL: too few samples. */
const struct stats_row *stats_self(const struct stats_trees *s, uint32_t frame);
const struct stats_row *stats_total(const struct stats_trees *s, uint32_t frame);
/* For each node of a tree over the same symbols (with cut nodes or without) its row in s->nodes, or TREE_NONE. */
void stats_locate(const struct stats_trees *s, const struct tree *t, uint32_t *ret_row);
