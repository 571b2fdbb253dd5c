/* SPDX-License-Identifier: Apache-2.0
 *
 * From nodes in any order to an ordered tree: the hashed builder, the sort into preorder, leaving
 * out what has no value.
 */
#include "lib/base/alloc.h"
#include "lib/tree/tree_internal.h"
#include <stdlib.h>
#include <string.h>

void tree_builder_init(struct tree_builder *b, struct budget *budget)
{
	*b = (struct tree_builder) {.budget = budget};
	table_init(&b->children, budget);
}

void tree_builder_done(struct tree_builder *b)
{
	table_done(&b->children);
	free(b->parent);
	free(b->frame);
	free(b->self);
	free(b->line);
	if (b->budget)
		budget_release(b->budget, b->charged_bytes);
	*b = (struct tree_builder) {};
}

static int builder_grow(struct tree_builder *b, size_t need)
{
	enum { NODE_BYTES = 4 + 4 + 8 + 8 };
	size_t cap = MAX(b->cap * 2, (size_t)64);
	void *column;
	int r;

	if (need <= b->cap)
		return 0;
	if (need >= TREE_NONE)
		return -ENOMEM;
	if (b->budget) {
		r = budget_charge(b->budget, (cap - b->cap) * NODE_BYTES, NULL);
		if (r)
			return r;
		b->charged_bytes += (cap - b->cap) * NODE_BYTES;
	}
#define GROW(c)                                                 \
	do {                                                    \
		column = try_realloc(b->c, cap, sizeof(*b->c)); \
		if (!column)                                    \
			return -ENOMEM;                         \
		b->c = column;                                  \
	} while (0)
	GROW(parent);
	GROW(frame);
	GROW(self);
	GROW(line);
#undef GROW
	b->cap = cap;
	return 0;
}

static uint32_t builder_append(
	struct tree_builder *b, uint32_t parent, uint32_t frame, int64_t line)
{
	b->error = builder_grow(b, b->n + 1);
	if (b->error)
		return 0;
	b->parent[b->n] = parent;
	b->frame[b->n] = frame;
	b->self[b->n] = 0;
	b->line[b->n] = line;
	return (uint32_t)b->n++;
}

uint32_t tree_builder_child(struct tree_builder *b, uint32_t parent, uint32_t frame, int64_t line)
{
	uint64_t *slot;
	bool is_new;

	if (!b->error && !b->n)
		builder_append(b, 0, TREE_NONE, 0);
	if (b->error)
		return 0;
	slot = table_insert(&b->children, (uint64_t)parent << 32 | frame, &is_new);
	if (!slot) {
		b->error = -ENOMEM;
		return 0;
	}
	if (is_new) {
		*slot = builder_append(b, parent, frame, line);
		return (uint32_t)*slot;
	}
	if (line != TREE_LINE_NONE) {
		int64_t *have = &b->line[*slot];

		*have = *have == TREE_LINE_NONE ? line : tree_line_join(*have, line);
	}
	return (uint32_t)*slot;
}

void tree_builder_add(struct tree_builder *b, uint32_t node, int64_t value)
{
	if (!b->error && !b->n)
		builder_append(b, 0, TREE_NONE, 0);
	if (!b->error)
		b->self[node] = tree_add(b->self[node], value);
}

void tree_builder_stack(struct tree_builder *b, const uint32_t *leaf_first, size_t n, int64_t value)
{
	uint32_t node = 0;

	while (n-- > 0)
		node = tree_builder_child(b, node, leaf_first[n], TREE_LINE_NONE);
	tree_builder_add(b, node, value);
}

struct sorter {
	uint64_t *children; /* per parent a run of frame << 32 | node, sorted */
	uint32_t *first;    /* n + 1: where each parent's run begins */
	uint32_t *stack, *to;
	bool *has_value;
};

static void sorter_done(struct sorter *s)
{
	free(s->children);
	free(s->first);
	free(s->stack);
	free(s->to);
	free(s->has_value);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void sort_run(uint64_t *run, size_t n)
{
	if (n > 16) {
		qsort(run, n, sizeof(*run), compare_u64);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		uint64_t v = run[i];
		size_t j = i;

		for (; j > 0 && run[j - 1] > v; j--)
			run[j] = run[j - 1];
		run[j] = v;
	}
}

static int sorter_init(struct sorter *s, size_t n)
{
	s->children = try_realloc(NULL, n, sizeof(*s->children));
	s->first = try_realloc(NULL, n + 2, sizeof(*s->first));
	s->stack = try_realloc(NULL, n, sizeof(*s->stack));
	s->to = try_realloc(NULL, n, sizeof(*s->to));
	s->has_value = try_realloc(NULL, n, sizeof(*s->has_value));
	if (!s->children || !s->first || !s->stack || !s->to || !s->has_value)
		return -ENOMEM;
	memset(s->first, 0, (n + 2) * sizeof(*s->first));
	return 0;
}

/* Children of each parent as sorted runs. Returns whether two siblings are equal. */
static bool sort_children(struct sorter *s, const uint32_t *parent, const uint32_t *frame,
	const int64_t *self, size_t n)
{
	bool equal = false;

	for (size_t i = 0; i < n; i++)
		s->has_value[i] = i == 0 || self[i] != 0;
	for (size_t i = n; i-- > 1;)
		if (s->has_value[i])
			s->has_value[parent[i]] = true;
	for (size_t i = 1; i < n; i++)
		if (s->has_value[i])
			s->first[parent[i] + 2]++;
	for (size_t i = 2; i < n + 2; i++)
		s->first[i] += s->first[i - 1];
	/* first[p + 1] runs from the start of p's range to its end, which is the start of the next.
	 */
	for (size_t i = 1; i < n; i++)
		if (s->has_value[i])
			s->children[s->first[parent[i] + 1]++] = (uint64_t)frame[i] << 32 | i;
	for (size_t p = 0; p < n; p++) {
		sort_run(s->children + s->first[p], s->first[p + 1] - s->first[p]);
		for (size_t i = s->first[p] + 1; i < s->first[p + 1]; i++)
			equal |= s->children[i] >> 32 == s->children[i - 1] >> 32;
	}
	return equal;
}

static int emit_sorted(struct sorter *s, const uint32_t *parent, const int64_t *self,
	const int64_t *line, struct tree *ret, struct errbuf *eb)
{
	size_t n_stack = 0;
	int r;

	r = tree_append_root(ret, self[0], eb);
	s->to[0] = 0;
	for (size_t i = s->first[1]; !r && i-- > s->first[0];)
		s->stack[n_stack++] = (uint32_t)i;
	while (!r && n_stack) {
		uint64_t child = s->children[s->stack[--n_stack]];
		uint32_t node = (uint32_t)child;
		int64_t l = line && line[node] != TREE_LINE_NONE ? line[node] : 0;

		s->to[node] = (uint32_t)ret->n;
		r = tree_append(
			ret, s->to[parent[node]], (uint32_t)(child >> 32), self[node], l, eb);
		for (size_t i = s->first[node + 1]; i-- > s->first[node];)
			s->stack[n_stack++] = (uint32_t)i;
	}
	if (!r)
		tree_sum(ret);
	return r;
}

static int rebuild_merging(const uint32_t *parent, const uint32_t *frame, const int64_t *self,
	size_t n, struct tree *ret, struct errbuf *eb)
{
	_cleanup_tree_builder_ struct tree_builder b = {};
	_cleanup_free_ uint32_t *to = try_realloc(NULL, n, sizeof(*to));

	if (!to)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", n);
	tree_builder_init(&b, ret->budget);
	to[0] = 0;
	tree_builder_add(&b, 0, self[0]);
	for (size_t i = 1; i < n; i++) {
		to[i] = tree_builder_child(&b, to[parent[i]], frame[i], TREE_LINE_NONE);
		tree_builder_add(&b, to[i], self[i]);
	}
	return tree_builder_finish(&b, ret, eb);
}

int tree_from_lined_nodes(const uint32_t *parent, const uint32_t *frame, const int64_t *self,
	const int64_t *line, size_t n, struct tree *ret, struct errbuf *eb)
{
	_cleanup_(sorter_done)
	struct sorter s = {};

	if (!n) {
		int r = tree_append_root(ret, 0, eb);

		if (!r)
			tree_sum(ret);
		return r;
	}
	if (sorter_init(&s, n) < 0)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", n);
	if (sort_children(&s, parent, frame, self, n))
		return rebuild_merging(parent, frame, self, n, ret, eb);
	return emit_sorted(&s, parent, self, line, ret, eb);
}

int tree_from_nodes(const uint32_t *parent, const uint32_t *frame, const int64_t *self, size_t n,
	struct tree *ret, struct errbuf *eb)
{
	return tree_from_lined_nodes(parent, frame, self, NULL, n, ret, eb);
}

int tree_from_ordered(const uint32_t *parent, const uint32_t *frame, const int64_t *self, size_t n,
	struct tree *ret, struct errbuf *eb)
{
	int r = tree_reserve(ret, MAX(n, (size_t)1), eb);

	if (r)
		return r;
	if (!n)
		return tree_from_nodes(parent, frame, self, n, ret, eb);
	memcpy(ret->parent, parent, n * sizeof(*parent));
	memcpy(ret->frame, frame, n * sizeof(*frame));
	memcpy(ret->self, self, n * sizeof(*self));
	memset(ret->line, 0, n * sizeof(*ret->line));
	ret->frame[0] = TREE_NONE;
	ret->n = n;
	return tree_finish(ret, eb);
}

int tree_builder_finish(struct tree_builder *b, struct tree *ret, struct errbuf *eb)
{
	if (b->error)
		return err_set(eb, b->error, "out of memory for a call tree of %zu nodes", b->n);
	return tree_from_lined_nodes(b->parent, b->frame, b->self, b->line, b->n, ret, eb);
}

int tree_finish(struct tree *t, struct errbuf *eb)
{
	_cleanup_free_ uint32_t *to = try_realloc(NULL, t->n, sizeof(*to));
	_cleanup_free_ bool *has_value = try_realloc(NULL, t->n, sizeof(*has_value));
	size_t n = 1;

	if (!to || !has_value)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", t->n);
	for (size_t i = 0; i < t->n; i++)
		has_value[i] = i == 0 || t->self[i] != 0;
	for (size_t i = t->n; i-- > 1;)
		if (has_value[i])
			has_value[t->parent[i]] = true;
	to[0] = 0;
	while (n < t->n && has_value[n]) { /* most of the time all have */
		to[n] = (uint32_t)n;
		n++;
	}
	for (size_t i = n; i < t->n; i++) {
		if (!has_value[i])
			continue;
		to[i] = (uint32_t)n;
		t->parent[n] = to[t->parent[i]];
		t->frame[n] = t->frame[i];
		t->self[n] = t->self[i];
		t->line[n] = t->line[i];
		n++;
	}
	t->n = n;
	tree_sum(t);
	return 0;
}

int tree_divide(struct tree *t, int64_t divisor, struct errbuf *eb)
{
	for (size_t i = 0; i < t->n; i++) {
		int64_t rest = t->self[i] % divisor, quotient = t->self[i] / divisor;

		if (rest >= divisor - divisor / 2)
			quotient++;
		else if (-rest >= divisor - divisor / 2)
			quotient--;
		t->self[i] = quotient;
	}
	return tree_finish(t, eb);
}

int tree_tag(const struct tree *in, const uint32_t *roots, size_t n_roots, const uint32_t *leaves,
	size_t n_leaves, struct tree *ret, struct errbuf *eb)
{
	_cleanup_tree_builder_ struct tree_builder b = {};
	_cleanup_free_ uint32_t *to = try_realloc(NULL, in->n + 1, sizeof(*to));

	if (!to)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", in->n);
	tree_builder_init(&b, ret->budget);
	tree_builder_add(&b, 0, 0); /* the root, also of nothing */
	for (size_t i = 0; i < in->n; i++) {
		uint32_t node;

		to[i] = i ? tree_builder_child(&b, to[in->parent[i]], in->frame[i], in->line[i])
			  : 0;
		for (size_t k = 0; !i && k < n_roots; k++)
			to[0] = tree_builder_child(&b, to[0], roots[k], 0);
		node = to[i];
		for (size_t k = 0; in->self[i] && k < n_leaves; k++)
			node = tree_builder_child(&b, node, leaves[k], 0);
		tree_builder_add(&b, node, in->self[i]);
	}
	return tree_builder_finish(&b, ret, eb);
}
