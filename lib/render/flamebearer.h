/* SPDX-License-Identifier: Apache-2.0
 *
 * Function trees as the flame graph that Pyroscope's clients read: level by level, positions as distances. Functions are merged
 * by name alone and siblings are in bytewise order; what a node limit cut is a child "other".
 *
 * One tree has four numbers a node: distance from the end of the node before it in the level, total, self, index of the name;
 * a child begins at its parent's begin plus the parent's self. Two trees have seven: distance, total, self of the left, the same
 * of the right, index of the name. names[0] is "total", level 0 is the root alone. A node without value is never written: its
 * place could belong to two parents.
 */
#pragma once
#include "lib/tree/tree.h"

struct flamebearer_level {
	int64_t *values;
	size_t n;
};

struct flamebearer {
	const char **names;
	size_t n_names;
	struct flamebearer_level *levels; /* at least one */
	size_t n_levels;
	int64_t total, max_self; /* of two trees: of both together; the largest of any side */
	int64_t left_ticks, right_ticks;
	int64_t cut_nodes; /* nodes that the limit left out */
};

struct flamebearer_side {
	const struct tree *tree; /* function tree, not limited */
	const struct tree_symbols *symbols;
};

/* At most max_nodes nodes and the "other" ones (0: all). Arrays are in `arena`, texts belong to the symbols. -ENOMEM. */
int flamebearer_single(const struct flamebearer_side *side, size_t max_nodes, struct arena *arena,
	struct flamebearer *ret, struct errbuf *eb) _must_check_;
/* The largest nodes by the sum of both sides are kept. -EINVAL: a value is negative; -ENOMEM. */
int flamebearer_double(const struct flamebearer_side *left, const struct flamebearer_side *right,
	size_t max_nodes, struct arena *arena, struct flamebearer *ret,
	struct errbuf *eb) _must_check_;
