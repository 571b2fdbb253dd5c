/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses stacks, and the frame that each counts for, without their values: for sums over rows that never become a tree. Pure.
 */
#pragma once
#include "lib/tree/filter.h"

enum { TREE_MAX_CHOSEN = 63 };

struct tree_choice {
	struct tree_filter filter;
	/* After the filters: only stacks that begin with these functions, root first. */
	const char *const *at;
	size_t n_at;
	/* Functions to distinguish, as ids in symbols->frames; at most TREE_MAX_CHOSEN. */
	const uint32_t *frames;
	size_t n_frames;
	struct tree_identity identity;
	bool by_self; /* a stack is its innermost function's; else of all that are on it */
};

static inline bool tree_choice_is_empty(const struct tree_choice *c)
{
	return tree_filter_is_empty(&c->filter) && !c->n_at && !c->n_frames;
}

/*
 * Of the stacks that end in the n nodes of a location tree (parents first, node 0 the root): bit k of ret[i] says that the stack is one
 * of frames[k], bit n_frames that it is of none of them; 0: it does not count. Memory is charged to `budget`. Errors as
 * tree_filter_apply.
 */
int tree_choose(const uint32_t *parent, const uint32_t *location, size_t n,
	const struct tree_choice *choice, struct tree_symbols *symbols, struct budget *budget,
	uint64_t *ret, struct errbuf *eb) _must_check_;
