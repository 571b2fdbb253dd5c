/* SPDX-License-Identifier: Apache-2.0
 *
 * From nodes in any order to an ordered tree: the hashed builder, the sort into preorder, leaving
 * out what has no value.
 */
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/tree/tree_internal.h"
#include <stdlib.h>
#include <string.h>

void tree_builder_init(struct tree_builder *b, struct budget *budget)
{
	*b = (struct tree_builder) {.budget = budget};
}

void tree_builder_done(struct tree_builder *b)
{
	prof_index_done(&b->children, b->budget);
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
	size_t cap = MAX(MAX(b->cap * 2, need), (size_t)64);
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

static uint32_t append_node(struct tree_builder *b, uint32_t parent, uint32_t frame, int64_t line)
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

static void join_line(int64_t *have, int64_t line)
{
	if (line != TREE_LINE_NONE)
		*have = *have == TREE_LINE_NONE ? line : tree_line_join(*have, line);
}

uint32_t tree_builder_append(struct tree_builder *b, uint32_t parent, uint32_t frame, int64_t line)
{
	if (!b->error && !b->n)
		append_node(b, 0, TREE_NONE, 0);
	return b->error ? 0 : append_node(b, parent, frame, line);
}

uint32_t tree_builder_child(struct tree_builder *b, uint32_t parent, uint32_t frame, int64_t line)
{
	const uint64_t hash = hash_mix((uint64_t)parent << 32 | frame);
	uint32_t node;

	if (!b->error && !b->n)
		append_node(b, 0, TREE_NONE, 0);
	if (b->error)
		return 0;
	for (uint64_t pos = hash; (node = prof_index_next(&b->children, hash, &pos)) != TREE_NONE;)
		if (b->parent[node] == parent && b->frame[node] == frame) {
			join_line(&b->line[node], line);
			return node;
		}
	node = append_node(b, parent, frame, line);
	if (node)
		b->error = prof_index_add(&b->children, hash, node, b->budget, NULL);
	return b->error ? 0 : node;
}

void tree_builder_add(struct tree_builder *b, uint32_t node, int64_t value)
{
	if (!b->error && !b->n)
		append_node(b, 0, TREE_NONE, 0);
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
	uint64_t *open;	    /* children of what was emitted, the next one last */
	uint32_t *same;	    /* equal siblings, which become one node */
	uint32_t *to;
	bool *has_value;
};

static void sorter_done(struct sorter *s)
{
	free(s->children);
	free(s->first);
	free(s->open);
	free(s->same);
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
	s->open = try_realloc(NULL, n, sizeof(*s->open));
	s->same = try_realloc(NULL, n, sizeof(*s->same));
	s->to = try_realloc(NULL, n, sizeof(*s->to));
	s->has_value = try_realloc(NULL, n, sizeof(*s->has_value));
	if (!s->children || !s->first || !s->open || !s->same || !s->to || !s->has_value)
		return -ENOMEM;
	memset(s->first, 0, (n + 2) * sizeof(*s->first));
	return 0;
}

/* Children of each parent as sorted runs. */
static void sort_children(struct sorter *s, const uint32_t *parent, const uint32_t *frame,
	const int64_t *self, size_t n)
{
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
	for (size_t p = 0; p < n; p++)
		sort_run(s->children + s->first[p], s->first[p + 1] - s->first[p]);
}

/* Opens the children of n equal siblings, the least last. */
static size_t open_children(struct sorter *s, size_t n, size_t n_open)
{
	const size_t from = n_open;

	for (size_t k = 0; k < n; k++) {
		const uint32_t node = s->same[k];

		for (size_t i = s->first[node + 1]; i-- > s->first[node];)
			s->open[n_open++] = s->children[i];
	}
	if (n == 1)
		return n_open;
	sort_run(s->open + from, n_open - from);
	for (size_t i = from, j = n_open; i + 1 < j; i++) {
		uint64_t swap = s->open[i];

		s->open[i] = s->open[--j];
		s->open[j] = swap;
	}
	return n_open;
}

/* What is shown of equal siblings. */
struct joined {
	int64_t self, line;
	bool lost; /* their values add up to nothing */
};

static struct joined join(
	const struct sorter *s, size_t n, const int64_t *self, const int64_t *line)
{
	struct joined j = {.line = TREE_LINE_NONE};
	bool any = false;

	for (size_t k = 0; k < n; k++) {
		const uint32_t node = s->same[k];

		any |= self[node] != 0;
		j.self = tree_add(j.self, self[node]);
		join_line(&j.line, line ? line[node] : 0);
	}
	j.line = j.line == TREE_LINE_NONE ? 0 : j.line;
	j.lost = any && !j.self;
	return j;
}

static int emit_sorted(struct sorter *s, const uint32_t *parent, const int64_t *self,
	const int64_t *line, struct tree *ret, struct errbuf *eb)
{
	size_t n_open, n;
	bool lost = false;
	int r;

	r = tree_append_root(ret, self[0], eb);
	s->to[0] = s->same[0] = 0;
	n_open = open_children(s, 1, 0);
	while (!r && n_open) {
		const uint32_t frame = (uint32_t)(s->open[n_open - 1] >> 32);
		const uint32_t above = s->to[parent[(uint32_t)s->open[n_open - 1]]];
		struct joined j;

		for (n = 0; n_open && s->open[n_open - 1] >> 32 == frame; n++) {
			const uint32_t node = (uint32_t)s->open[n_open - 1];

			if (s->to[parent[node]] != above)
				break;
			s->same[n] = node;
			s->to[node] = (uint32_t)ret->n;
			n_open--;
		}
		j = join(s, n, self, line);
		lost |= j.lost;
		r = tree_append(ret, above, frame, j.self, j.line, eb);
		n_open = open_children(s, n, n_open);
	}
	if (!r && lost)
		return tree_finish(ret, eb);
	if (!r)
		tree_sum(ret);
	return r;
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
	sort_children(&s, parent, frame, self, n);
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
