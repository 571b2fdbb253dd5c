/* SPDX-License-Identifier: Apache-2.0
 *
 * A call tree as flat arrays. Pure: no I/O, no clock; one thread per tree.
 *
 * Invariants of a finished tree:
 *  1. node 0 is the root: parent 0, no frame; every other node's parent has a smaller number;
 *  2. nodes are in preorder, so the subtree of i is the range [i, i + size of its subtree);
 *  3. siblings are in strictly increasing order of `frame` (TREE_CUT nodes last), so equal paths
 * have one node and ordered trees over the same symbols merge in one sequential pass;
 *  4. total[i] = self[i] + the totals of its children;
 *  5. no node but the root is without value: each has a self other than 0 in its subtree.
 *
 * `frame` is a location id in a location tree and a frame id (struct tree_frame) in a function
 * tree.
 *
 * Functions that return int give 0, or -ENOMEM with a text (memory, or the budget of `ret`), unless they say more. `ret` was
 * tree_init'ed and is empty; after an error it can only be freed. Inputs stay as they are.
 */
#pragma once
#include "lib/prof/profile.h"
#include "lib/tree/symbols.h"

struct tree {
	size_t n, cap; /* n is at least 1 once finished */
	uint32_t *parent, *frame;
	int64_t *self, *total;
	int64_t *line;	 /* see tree_line_number */
	uint32_t *n_cut; /* nodes that a CUT node stands for, else 0; NULL when nothing was cut */
	struct budget *budget;
	uint64_t charged_bytes;
};

void tree_init(struct tree *t, struct budget *budget);
void tree_done(struct tree *t);
#define _cleanup_tree_ _cleanup_(tree_done)

/* Saturating, so that values from outside cannot overflow. */
static inline int64_t tree_add(int64_t a, int64_t b)
{
	return prof_add(a, b);
}

/*
 * What struct tree has in `line`: a line number where all that was merged into the node agrees, else 0, and whether all of it was
 * inlined into its caller.
 */
enum { TREE_LINE_BITS = 40 };
static inline int64_t tree_line_of(int64_t number, bool inlined)
{
	bool fits = number > 0 && number < (int64_t)1 << TREE_LINE_BITS;

	return (fits ? number : 0) | (int64_t)inlined << TREE_LINE_BITS;
}
static inline int64_t tree_line_number(int64_t line)
{
	return line & (((int64_t)1 << TREE_LINE_BITS) - 1);
}
static inline bool tree_line_is_inlined(int64_t line)
{
	return line >> TREE_LINE_BITS & 1;
}
/* Of a node that stands for both. */
static inline int64_t tree_line_join(int64_t a, int64_t b)
{
	return a == b ? a : a & b & (int64_t)1 << TREE_LINE_BITS;
}

/* Whether node i stands for what a node limit left out under its parent. */
static inline bool tree_is_cut(const struct tree *t, size_t i)
{
	return t->n_cut && t->n_cut[i];
}
/* Depth of each node (root 0) into ret_depth[n]. */
void tree_depths(const struct tree *t, uint32_t *ret_depth);
/* Largest depth of a finished tree. */
uint32_t tree_max_depth(const struct tree *t);

/*
 * Sum of the magnitudes of the selfs in each subtree, into ret[n]: equals total without negative values, and never grows downwards.
 * tree_magnitude: that of the root, saturated. Shares of a difference refer to it, as those of `go tool pprof` do.
 */
void tree_weigh(const struct tree *t, uint64_t *ret);
int64_t tree_magnitude(const struct tree *t);

/*
 * Builder: paths in any order, equal paths add up. Node 0 is the root. Errors stick until
 * tree_builder_finish.
 */
struct tree_builder {
	struct prof_index children; /* by parent and frame */
	uint32_t *parent, *frame;
	int64_t *self, *line;
	size_t n, cap;
	struct budget *budget;
	uint64_t charged_bytes;
	int error;
};

void tree_builder_init(struct tree_builder *b, struct budget *budget);
void tree_builder_done(struct tree_builder *b);
#define _cleanup_tree_builder_ _cleanup_(tree_builder_done)
/* The child of `parent` for `frame`, made when absent. `line`: see struct tree; TREE_LINE_NONE
 * leaves it alone. */
enum { TREE_LINE_NONE = -1 };
uint32_t tree_builder_child(struct tree_builder *b, uint32_t parent, uint32_t frame, int64_t line);
/* A new child, which tree_builder_finish makes one with equal ones: cheaper where most are new. Not mixed with the above. */
uint32_t tree_builder_append(struct tree_builder *b, uint32_t parent, uint32_t frame, int64_t line);
void tree_builder_add(struct tree_builder *b, uint32_t node, int64_t value);
/* Adds `value` at the path of `n` frames given leaf first, as pprof and the exporter keep stacks.
 */
void tree_builder_stack(
	struct tree_builder *b, const uint32_t *leaf_first, size_t n, int64_t value);
/* Sorts into a tree. The builder can only be freed after it. */
int tree_builder_finish(struct tree_builder *b, struct tree *ret, struct errbuf *eb) _must_check_;

/*
 * Makes a tree from flat nodes in any order that puts parents first: parent[0] is ignored, values
 * are selfs. What has no value in its subtree is left out. Equal siblings are allowed and add up.
 * O(n log n) in the largest sibling count.
 */
int tree_from_nodes(const uint32_t *parent, const uint32_t *frame, const int64_t *self, size_t n,
	struct tree *ret, struct errbuf *eb) _must_check_;

/* The same from nodes that are a tree's already but for what has no value: preorder, siblings in strictly increasing order. */
int tree_from_ordered(const uint32_t *parent, const uint32_t *frame, const int64_t *self, size_t n,
	struct tree *ret, struct errbuf *eb) _must_check_;

/* Merges k ordered trees over the same symbols in one pass. Not after a limit. */
int tree_merge(const struct tree *const *trees, size_t k, struct tree *ret,
	struct errbuf *eb) _must_check_;

/* The nodes of an ordered tree by their depth, without totals: nodes that have no value below them may be among them. */
struct tree_nodes {
	size_t n;
	const uint32_t *depth, *frame;
	const int64_t *self, *line; /* line: NULL where none is known */
};
/* The same of such nodes. */
int tree_merge_nodes(
	const struct tree_nodes *in, size_t k, struct tree *ret, struct errbuf *eb) _must_check_;
/*
 * The same in n pieces, which threads may merge at once. ret[i * k + j], i = 0 … n: where piece i begins in input j, the last one
 * where it ends. Of a piece only n, frame, self and line mean anything until all are joined, which leaves nothing of them.
 */
int tree_merge_cut(const struct tree_nodes *in, size_t k, size_t n, uint32_t *ret,
	struct errbuf *eb) _must_check_;
int tree_merge_piece(const struct tree_nodes *in, size_t k, const uint32_t *from,
	const uint32_t *to, struct tree *ret, struct errbuf *eb) _must_check_;
int tree_merge_join(const struct tree_nodes *in, size_t k, struct tree *pieces, size_t n,
	struct tree *ret, struct errbuf *eb) _must_check_;

/* Puts each tree below a frame of its own under a new root (label roots). frames[i] need not be
 * sorted or distinct. */
int tree_graft(const struct tree *const *trees, const uint32_t *frames, size_t k, struct tree *ret,
	struct errbuf *eb) _must_check_;

/* Puts frames above and below every stack (pprof's tagroot and tagleaf): `roots` from the root on, `leaves` ending in the leaf. */
int tree_tag(const struct tree *in, const uint32_t *roots, size_t n_roots, const uint32_t *leaves,
	size_t n_leaves, struct tree *ret, struct errbuf *eb) _must_check_;

/* Divides all selfs by a number above 0, rounded to the nearest, halves away from 0; what becomes 0 is left out. Not after a limit. */
int tree_divide(struct tree *t, int64_t divisor, struct errbuf *eb) _must_check_;

/*
 * What makes frames one function. A name is of its source file and its module, both by their base names: so a program that was built
 * anew, elsewhere, or lies elsewhere on another node, is compared with itself. What has no name is an offset in one build.
 */
struct tree_identity {
	bool by_build; /* each build, by its whole path and build id, is a module of its own; sources by their whole path */
	unsigned canon; /* what names lose (enum tree_canon) */
};

/*
 * Location tree → function tree: every line of a location becomes a node (outermost first),
 * locations of one function in one module fall together, recursion stays visible. Locations
 * without lines become "module+0xoffset" or "0xaddress". Builds of what fell together are in symbols->builds. `id` NULL: all false.
 */
int tree_project(const struct tree *locations, const struct tree_identity *id,
	struct tree_symbols *symbols, struct tree *ret, struct errbuf *eb) _must_check_;

/*
 * The same of stacks without values: ret_to[i] is the node of `b` (initialised, empty) that the stack ending in node i becomes. Nodes
 * that are equal then are several until `b` is finished.
 */
int tree_project_stacks(const struct tree *locations, const struct tree_identity *id,
	struct tree_symbols *symbols, struct tree_builder *b, uint32_t *ret_to,
	struct errbuf *eb) _must_check_;

/*
 * Stacks cut to at most their `keep` innermost locations (0: all), as profiles for Go's optimizer are (https://go.dev/doc/pgo). With
 * `merge_leaves` the innermost function's line and address are left out, so that all samples of it below the same calls are one.
 */
int tree_trim(const struct tree *locations, struct tree_symbols *symbols, size_t keep,
	bool merge_leaves, struct tree *ret, struct errbuf *eb) _must_check_;

/*
 * Keeps the max_nodes nodes with the largest totals (by magnitude; a parent is never dropped before
 * its child). What is dropped below a kept node becomes one child of frame TREE_NONE with n_cut
 * set, so that all totals stay exact. 0: no limit.
 */
int tree_limit(
	const struct tree *in, size_t max_nodes, struct tree *ret, struct errbuf *eb) _must_check_;

/*
 * The subtree at a path of function names, root first (function trees). Nodes above it stay, with
 * the values that lie below the path only. Several nodes may have one name. Only the root when none
 * has it.
 */
int tree_at(const struct tree *in, const struct tree_symbols *symbols, const char *const *path,
	size_t n_path, struct tree *ret, struct errbuf *eb) _must_check_;

/* One function of the table view. */
struct tree_row {
	uint32_t frame;
	int64_t line;	     /* where all agree, else 0 */
	int64_t self, total; /* total counts recursion once */
};
/* Rows sorted by self, then total, both descending by magnitude, then by name; into `arena`. CUT
 * nodes are no rows. */
int tree_top(const struct tree *in, const struct tree_symbols *symbols, struct arena *arena,
	struct tree_row **ret_rows, size_t *ret_n, struct errbuf *eb) _must_check_;

/*
 * From a profile: its locations into `symbols`, its stacks into a location tree of value column
 * `value_index`. Labels are ignored. -EINVAL with a text: the column does not exist; -ENOMEM.
 */
struct profile;
int tree_from_profile(const struct profile *p, size_t value_index, struct tree_symbols *symbols,
	struct tree *ret, struct errbuf *eb) _must_check_;
