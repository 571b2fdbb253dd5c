/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame filters with the meaning of pprof's options of the same names (google/pprof
 * profile/filter.go): each is a regular expression searched for in function names, source file
 * names and mapping file names.
 *  - focus: keep stacks with at least one matching location
 *  - ignore: drop stacks with a matching location
 *  - hide: remove matching frames from stacks
 *  - show: keep only matching frames
 *  - show_from: remove what is nearer to the root than the first matching frame from there; drop stacks without one
 * Stacks of which no frame is left are dropped. One difference: a location without lines whose mapping matches `show` is kept (pprof
 * hides it, since it has no line to keep).
 */
#pragma once
#include "lib/tree/tree.h"

struct regex;
struct tree_filter {
	const struct regex *focus, *ignore, *hide, *show,
		*show_from; /* NULL: not set; unanchored */
};

static inline bool tree_filter_is_empty(const struct tree_filter *f)
{
	return !f->focus && !f->ignore && !f->hide && !f->show && !f->show_from;
}

/*
 * Location tree → location tree. A location of which some lines go becomes a new location in
 * `symbols`. Each expression runs once per distinct string. -ENOMEM with a text, also when an
 * expression needs more than REGEX_MATCH_STEPS.
 */
int tree_filter_apply(const struct tree *in, const struct tree_filter *filter,
	struct tree_symbols *symbols, struct tree *ret, struct errbuf *eb) _must_check_;
/*
 * The same of stacks without values, for callers that hold those elsewhere: ret_to[i] is the node of `b` (initialised, empty) that the
 * stack ending in node i becomes, TREE_NONE where it is dropped. Of `in`, parent, frame and line are read.
 */
int tree_filter_stacks(const struct tree *in, const struct tree_filter *filter,
	struct tree_symbols *symbols, struct tree_builder *b, uint32_t *ret_to,
	struct errbuf *eb) _must_check_;
