/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks cut to their leaves.
 */
#include "lib/base/alloc.h"
#include "lib/tree/tree.h"
#include <string.h>

enum { NOT_MADE = TREE_NONE };

struct trimming {
	struct tree_symbols *symbols;
	uint32_t *
		merged; /* per location known at start: itself without address and line, or NOT_MADE */
	struct tree_line *lines;
	size_t cap_lines;
	uint32_t *stack; /* leaf first */
	struct tree_builder b;
};

static void trimming_done(struct trimming *t)
{
	free(t->merged);
	free(t->lines);
	free(t->stack);
	tree_builder_done(&t->b);
}

/* The location as any place of its innermost function: calls of the same function that stops there become one. */
static int merge_location(struct trimming *t, uint32_t location, uint32_t *ret)
{
	struct tree_symbols *s = t->symbols;
	const struct tree_location l = s->locations[location];
	int r;

	*ret = location;
	if (!l.n_lines)
		return 0;
	if (t->merged[location] == NOT_MADE) {
		r = alloc_grow(&t->lines, &t->cap_lines, l.n_lines, sizeof(*t->lines));
		if (r)
			return r;
		memcpy(t->lines, &s->lines[l.first_line], l.n_lines * sizeof(*t->lines));
		t->lines[0].line = 0;
		t->lines[0].column = 0;
		t->merged[location] = tree_symbols_location(s, 0, l.mapping, t->lines, l.n_lines);
	}
	*ret = t->merged[location];
	return 0;
}

static int trim(struct trimming *t, const struct tree *in, size_t keep, bool merge_leaves)
{
	int r = 0;

	for (size_t i = 0; !r && i < in->n; i++) {
		size_t n = 0;

		if (!in->self[i])
			continue;
		for (size_t k = i; k && (!keep || n < keep); k = in->parent[k])
			t->stack[n++] = in->frame[k];
		if (n && merge_leaves)
			r = merge_location(t, t->stack[0], &t->stack[0]);
		if (!r)
			tree_builder_stack(&t->b, t->stack, n, in->self[i]);
	}
	return r;
}

int tree_trim(const struct tree *in, struct tree_symbols *symbols, size_t keep, bool merge_leaves,
	struct tree *ret, struct errbuf *eb)
{
	_cleanup_(trimming_done)
	struct trimming t = {.symbols = symbols};
	size_t n = symbols->n_locations;
	int r;

	tree_builder_init(&t.b, ret->budget);
	t.merged = try_realloc(NULL, n + 1, sizeof(*t.merged));
	t.stack = try_realloc(NULL, tree_max_depth(in) + 1UL, sizeof(*t.stack));
	if (!t.merged || !t.stack)
		return err_set(eb, -ENOMEM, "out of memory for %zu locations", n);
	memset(t.merged, 0xff, (n + 1) * sizeof(*t.merged));
	r = trim(&t, in, keep, merge_leaves);
	if (r)
		return err_set(eb, r, "out of memory for %zu locations", n);
	r = tree_symbols_error(symbols, eb);
	return r ? r : tree_builder_finish(&t.b, ret, eb);
}
