/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees as values: memory, depths, the k-way merge and grafting.
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

int tree_append(struct tree *t, uint32_t parent, uint32_t frame, int64_t self, int64_t line,
	struct errbuf *eb)
{
	int r = tree_reserve(t, t->n + 1, eb);

	if (r)
		return r;
	t->parent[t->n] = parent;
	t->frame[t->n] = frame;
	t->self[t->n] = self;
	t->line[t->n] = line;
	t->n++;
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

size_t tree_subtree_end(const struct tree *t, size_t i)
{
	size_t end = i + 1;

	while (end < t->n && t->parent[end] >= i)
		end++;
	return end;
}

/* The walk over one ordered tree: the ancestors of the current node give its depth without an array
 * per node. */
struct walk {
	const struct tree *tree;
	size_t pos;
	uint32_t *ancestors;
	size_t depth, cap; /* depth of the node at pos; ancestors[0 .. depth) are above it */
	uint32_t frame;
};

static int walk_start(struct walk *w, const struct tree *t)
{
	*w = (struct walk) {.tree = t};
	return alloc_grow(&w->ancestors, &w->cap, 64, sizeof(*w->ancestors));
}

/* Moves to the next node; false at the end. */
static bool walk_next(struct walk *w, int *error)
{
	const struct tree *t = w->tree;

	if (w->pos + 1 >= t->n)
		return false;
	if (w->depth + 1 >= w->cap) {
		*error = alloc_grow(&w->ancestors, &w->cap, w->depth + 2, sizeof(*w->ancestors));
		if (*error)
			return false;
	}
	w->ancestors[w->depth] = (uint32_t)w->pos;
	w->pos++;
	w->depth++;
	while (w->ancestors[w->depth - 1] != t->parent[w->pos])
		w->depth--;
	w->frame = t->frame[w->pos];
	return true;
}

uint32_t tree_max_depth(const struct tree *t)
{
	struct walk w;
	uint32_t max = 0;
	int error = 0;

	if (walk_start(&w, t) < 0)
		return 0;
	while (walk_next(&w, &error))
		max = MAX(max, (uint32_t)w.depth);
	free(w.ancestors);
	return max;
}

/* In preorder of the union, the deeper node comes first (it belongs to a subtree that is still
 * open), then the smaller frame. */
static bool walk_before(const struct walk *a, const struct walk *b)
{
	if (a->depth != b->depth)
		return a->depth > b->depth;
	return a->frame < b->frame;
}

static void sift_down(struct walk **heap, size_t n, size_t i)
{
	for (;;) {
		size_t child = 2 * i + 1;
		struct walk *w = heap[i];

		if (child >= n)
			return;
		if (child + 1 < n && walk_before(heap[child + 1], heap[child]))
			child++;
		if (!walk_before(heap[child], w))
			return;
		heap[i] = heap[child];
		heap[child] = w;
		i = child;
	}
}

struct merge {
	struct walk *walks, **heap, **equal;
	size_t n_walks, n_heap;
	uint32_t *path; /* output node at each depth of the path in hand */
	size_t cap_path;
};

static void merge_done(struct merge *m)
{
	for (size_t i = 0; m->walks && i < m->n_walks; i++)
		free(m->walks[i].ancestors);
	free(m->walks);
	free(m->heap);
	free(m->equal);
	free(m->path);
}

static void heap_push(struct merge *m, struct walk *w)
{
	size_t i = m->n_heap++;

	for (; i > 0 && walk_before(w, m->heap[(i - 1) / 2]); i = (i - 1) / 2)
		m->heap[i] = m->heap[(i - 1) / 2];
	m->heap[i] = w;
}

static struct walk *heap_pop(struct merge *m)
{
	struct walk *top = m->heap[0];

	m->heap[0] = m->heap[--m->n_heap];
	sift_down(m->heap, m->n_heap, 0);
	return top;
}

/*
 * Adds one node to the output: all walks that stand at it are taken off the heap together, and only
 * then moved on, since their children come before other walks' siblings.
 */
static int merge_step(struct merge *m, struct tree *out, struct errbuf *eb)
{
	struct walk *first = heap_pop(m);
	size_t n_equal = 0, depth = first->depth;
	int64_t self = 0, line = first->tree->line[first->pos];
	int r = alloc_grow(&m->path, &m->cap_path, depth + 1, sizeof(*m->path));

	m->equal[n_equal++] = first;
	while (m->n_heap && m->heap[0]->depth == depth && m->heap[0]->frame == first->frame)
		m->equal[n_equal++] = heap_pop(m);
	for (size_t i = 0; i < n_equal; i++) {
		const struct walk *w = m->equal[i];

		self = tree_add(self, w->tree->self[w->pos]);
		if (w->tree->line[w->pos] != line)
			line = 0;
	}
	if (!r)
		r = tree_append(out, m->path[depth - 1], first->frame, self, line, eb);
	if (r)
		return r;
	m->path[depth] = (uint32_t)(out->n - 1);
	for (size_t i = 0; !r && i < n_equal; i++)
		if (walk_next(m->equal[i], &r))
			heap_push(m, m->equal[i]);
	return r;
}

static int merge_start(
	struct merge *m, const struct tree *const *trees, size_t k, int64_t *ret_root)
{
	int r = 0;

	*ret_root = 0;
	m->walks = try_realloc(NULL, MAX(k, (size_t)1), sizeof(*m->walks));
	m->heap = try_realloc(NULL, MAX(k, (size_t)1), sizeof(struct walk *));
	m->equal = try_realloc(NULL, MAX(k, (size_t)1), sizeof(struct walk *));
	if (!m->walks || !m->heap || !m->equal ||
		alloc_grow(&m->path, &m->cap_path, 64, sizeof(*m->path)))
		return -ENOMEM;
	m->path[0] = 0;
	for (size_t i = 0; i < k; i++) {
		struct walk *w = &m->walks[m->n_walks];

		if (!trees[i]->n)
			continue;
		r = walk_start(w, trees[i]);
		if (r)
			return r;
		m->n_walks++;
		*ret_root = tree_add(*ret_root, trees[i]->self[0]);
		if (walk_next(w, &r))
			heap_push(m, w);
		if (r)
			return r;
	}
	return 0;
}

int tree_merge(const struct tree *const *trees, size_t k, struct tree *ret, struct errbuf *eb)
{
	_cleanup_(merge_done)
	struct merge m = {};
	int64_t root;
	int r;

	r = merge_start(&m, trees, k, &root);
	if (r)
		return err_set(eb, r, "out of memory to merge %zu trees", k);
	r = tree_append_root(ret, root, eb);
	while (!r && m.n_heap)
		r = merge_step(&m, ret, eb);
	return r ? err_set(eb, r, "out of memory to merge %zu trees", k) : tree_finish(ret, eb);
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
