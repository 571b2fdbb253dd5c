/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees as values: memory, depths and grafting.
 */
#include "lib/tree/tree.h"
#include "lib/base/alloc.h"
#include "lib/tree/tree_internal.h"
#include <string.h>

void tree_init(struct tree *t, struct budget *budget)
{
	*t = (struct tree) {.budget = budget};
}

void tree_done(struct tree *t)
{
	free(t->parent);
	free(t->frame);
	free(t->self);
	free(t->total);
	free(t->line);
	free(t->n_cut);
	if (t->budget)
		budget_release(t->budget, t->charged_bytes);
	tree_init(t, t->budget);
}

static int realloc_column(void *column, size_t n, size_t elem)
{
	void *p = try_realloc(*(void **)column, n, elem);

	if (!p)
		return -ENOMEM;
	*(void **)column = p;
	return 0;
}

int tree_reserve(struct tree *t, size_t need, struct errbuf *eb)
{
	enum { NODE_BYTES = 4 + 4 + 8 + 8 + 8 };
	size_t cap = MAX(MAX(need, t->cap * 2), (size_t)16);
	int r;

	if (need <= t->cap)
		return 0;
	if (need >= TREE_NONE)
		return err_set(eb, -ENOMEM, "a call tree of %zu nodes is too large", need);
	if (t->budget) {
		r = budget_charge(t->budget, (cap - t->cap) * NODE_BYTES, eb);
		if (r)
			return r;
		t->charged_bytes += (cap - t->cap) * NODE_BYTES;
	}
	if (realloc_column(&t->parent, cap, 4) || realloc_column(&t->frame, cap, 4) ||
		realloc_column(&t->self, cap, 8) || realloc_column(&t->total, cap, 8) ||
		realloc_column(&t->line, cap, 8))
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", need);
	t->cap = cap;
	return 0;
}

int tree_reserve_cuts(struct tree *t, struct errbuf *eb)
{
	uint64_t bytes = t->cap * sizeof(*t->n_cut);
	int r;

	if (t->budget) {
		r = budget_charge(t->budget, bytes, eb);
		if (r)
			return r;
		t->charged_bytes += bytes;
	}
	t->n_cut = try_malloc(MAX(bytes, (uint64_t)1));
	if (!t->n_cut)
		return err_set(eb, -ENOMEM, "out of memory for a call tree");
	memset(t->n_cut, 0, bytes);
	return 0;
}

int tree_append_root(struct tree *t, int64_t self, struct errbuf *eb)
{
	return tree_append(t, 0, TREE_NONE, self, 0, eb);
}

void tree_sum(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++)
		t->total[i] = t->self[i];
	for (size_t i = t->n; i-- > 1;)
		t->total[t->parent[i]] = tree_add(t->total[t->parent[i]], t->total[i]);
}

void tree_depths(const struct tree *t, uint32_t *ret_depth)
{
	ret_depth[0] = 0;
	for (size_t i = 1; i < t->n; i++)
		ret_depth[i] = ret_depth[t->parent[i]] + 1;
}

uint32_t tree_max_depth(const struct tree *t)
{
	uint32_t depth = 0, max = 0;

	for (uint32_t i = 1; i < t->n; i++) {
		/* preorder: the parent is the node before or one of those above it */
		for (uint32_t at = i - 1; at != t->parent[i]; at = t->parent[at])
			depth--;
		depth++;
		max = MAX(max, depth);
	}
	return max;
}

int tree_graft(const struct tree *const *trees, const uint32_t *frames, size_t k, struct tree *ret,
	struct errbuf *eb)
{
	_cleanup_tree_builder_ struct tree_builder b = {};
	int r;

	tree_builder_init(&b, ret->budget);
	for (size_t i = 0; i < k; i++) {
		const struct tree *t = trees[i];
		_cleanup_free_ uint32_t *to = try_realloc(NULL, MAX(t->n, (size_t)1), sizeof(*to));

		if (!to)
			return err_set(eb, -ENOMEM, "out of memory to group %zu trees", k);
		for (size_t j = 0; j < t->n; j++) {
			to[j] = j ? tree_builder_child(
					    &b, to[t->parent[j]], t->frame[j], t->line[j])
				  : tree_builder_child(&b, 0, frames[i], 0);
			tree_builder_add(&b, to[j], t->self[j]);
		}
	}
	r = tree_builder_finish(&b, ret, eb);
	return r;
}
