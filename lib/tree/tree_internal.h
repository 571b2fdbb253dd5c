/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of lib/tree share.
 */
#pragma once
#include "lib/tree/tree.h"

/* Room for `need` nodes, charged. */
int tree_reserve(struct tree *t, size_t need, struct errbuf *eb) _must_check_;
/* n_cut for t->cap nodes, zeroed. */
int tree_reserve_cuts(struct tree *t, struct errbuf *eb) _must_check_;
int tree_append_root(struct tree *t, int64_t self, struct errbuf *eb) _must_check_;
/* total[] from self[]. */
void tree_sum(struct tree *t);
/* Drops nodes without value (keeping order) and sums. */
int tree_finish(struct tree *t, struct errbuf *eb) _must_check_;
/* tree_from_nodes with a line per node (NULL: none). */
int tree_from_lined_nodes(const uint32_t *parent, const uint32_t *frame, const int64_t *self,
	const int64_t *line, size_t n, struct tree *ret, struct errbuf *eb) _must_check_;

static inline _must_check_ int tree_append(struct tree *t, uint32_t parent, uint32_t frame,
	int64_t self, int64_t line, struct errbuf *eb)
{
	int r = t->n < t->cap ? 0 : tree_reserve(t, t->n + 1, eb);

	if (r)
		return r;
	t->parent[t->n] = parent;
	t->frame[t->n] = frame;
	t->self[t->n] = self;
	t->line[t->n] = line;
	t->n++;
	return 0;
}
