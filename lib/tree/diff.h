/* SPDX-License-Identifier: Apache-2.0
 *
 * Two function trees over the same symbols laid over each other. Pure.
 */
#pragma once
#include "lib/tree/tree.h"

/* How a node or function stands in B against A. The order is part of the JSON answer (`mark`). */
enum tree_mark {
	TREE_SAME,
	TREE_CHANGED,
	TREE_NEW,  /* nothing in A */
	TREE_GONE, /* nothing in B */
	TREE_N_MARKS,
};
const char *tree_mark_name(enum tree_mark m);
/* Values are compared after scaling; less than a billionth of the larger one is no change. */
enum tree_mark tree_mark_of(int64_t a, int64_t b, double scale_a, double scale_b);

struct tree_diff {
	struct tree shape;			      /* the union; self and total are |A| + |B| */
	int64_t *self_a, *self_b, *total_a, *total_b; /* per node of it, exact, cut nodes too */
};

/*
 * Keeps the max_nodes nodes (0: all) with the largest |A| + |B|; what is left out is in cut nodes with the sums of both sides. `ret`
 * is overwritten, and empty after an error; memory is charged to `budget`. -ENOMEM with a text.
 */
int tree_diff_make(const struct tree *a, const struct tree *b, size_t max_nodes,
	struct budget *budget, struct tree_diff *ret, struct errbuf *eb) _must_check_;
void tree_diff_done(struct tree_diff *d);
#define _cleanup_tree_diff_ _cleanup_(tree_diff_done)

/* One function of the table. */
struct tree_diff_row {
	uint32_t frame;
	int64_t self_a, self_b, total_a, total_b; /* totals count recursion once */
	double delta_self, delta_total;		  /* B − A, scaled */
};
/* Rows by delta_self, then delta_total, both by magnitude, then by name; into `arena`. -ENOMEM with a text. */
int tree_diff_top(const struct tree *a, const struct tree *b, const struct tree_symbols *symbols,
	double scale_a, double scale_b, struct arena *arena, struct tree_diff_row **ret_rows,
	size_t *ret_n, struct errbuf *eb) _must_check_;
