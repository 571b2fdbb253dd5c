/* SPDX-License-Identifier: Apache-2.0
 *
 * The k-way merge of ordered trees. In preorder of the union the deeper of two nodes comes first (it belongs to a subtree that is
 * still open), then the smaller frame, so that one number orders them: keys. Most trees stand at the same node most of the time, which
 * is why the least key is looked for in all of them rather than kept in a heap.
 */
#include "lib/base/alloc.h"
#include "lib/tree/tree_internal.h"
#include <string.h>

enum { GROUP = 16 }; /* trees whose least key is remembered */
static const uint64_t END = UINT64_MAX;

struct merge {
	const struct tree_nodes *in;
	uint64_t *
		keys; /* of the node that each input stands at; a multiple of GROUP, END where there is none */
	uint64_t *least; /* of each group */
	uint32_t *pos;	 /* of each input */
	uint32_t *path;	 /* output node at each depth of the path in hand */
	size_t n_groups, cap_path;
};

static void merge_done(struct merge *m)
{
	free(m->keys);
	free(m->least);
	free(m->pos);
	free(m->path);
}

static uint64_t least_of(const uint64_t *keys, size_t n)
{
	uint64_t least = END;

	for (size_t i = 0; i < n; i++)
		least = MIN(least, keys[i]);
	return least;
}

static uint64_t key_at(const struct tree_nodes *in, uint32_t pos)
{
	return pos < in->n ? (uint64_t)~in->depth[pos] << 32 | in->frame[pos] : END;
}

static int merge_start(struct merge *m, size_t k)
{
	m->n_groups = k / GROUP + 1;
	m->keys = try_realloc(NULL, m->n_groups * GROUP, sizeof(*m->keys));
	m->least = try_realloc(NULL, m->n_groups, sizeof(*m->least));
	m->pos = try_realloc(NULL, m->n_groups * GROUP, sizeof(*m->pos));
	if (!m->keys || !m->least || !m->pos)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_groups * GROUP; i++) {
		m->pos[i] = 1;
		m->keys[i] = i < k ? key_at(&m->in[i], 1) : END;
	}
	for (size_t g = 0; g < m->n_groups; g++)
		m->least[g] = least_of(m->keys + g * GROUP, GROUP);
	if (alloc_grow(&m->path, &m->cap_path, 64, sizeof(*m->path)))
		return -ENOMEM;
	m->path[0] = 0;
	return 0;
}

struct sum {
	int64_t self, line; /* line: as in struct tree; TREE_LINE_NONE before the first */
};

/* Adds the nodes of one group that have this key, and moves on from them. */
static void take(struct merge *m, size_t group, uint64_t key, struct sum *to)
{
	size_t first = group * GROUP;

	for (size_t i = first; i < first + GROUP; i++) {
		const struct tree_nodes *in;
		uint32_t at = m->pos[i];
		int64_t line;

		if (m->keys[i] != key)
			continue;
		in = &m->in[i];
		line = in->line ? in->line[at] : 0;
		to->self = tree_add(to->self, in->self[at]);
		to->line = to->line == TREE_LINE_NONE ? line : tree_line_join(to->line, line);
		m->pos[i] = at + 1;
		m->keys[i] = key_at(in, at + 1);
	}
	m->least[group] = least_of(m->keys + first, GROUP);
}

static int merge_node(struct merge *m, uint64_t key, struct tree *out, struct errbuf *eb)
{
	struct sum sum = {.line = TREE_LINE_NONE};
	uint32_t depth = ~(uint32_t)(key >> 32);
	int r = 0;

	for (size_t g = 0; g < m->n_groups; g++)
		if (m->least[g] == key)
			take(m, g, key, &sum);
	if (depth >= m->cap_path)
		r = alloc_grow(&m->path, &m->cap_path, depth + 1UL, sizeof(*m->path));
	if (r)
		return err_set(eb, r, "out of memory to merge trees");
	m->path[depth] = (uint32_t)out->n;
	return tree_append(out, m->path[depth - 1], (uint32_t)key, sum.self, sum.line, eb);
}

int tree_merge_nodes(const struct tree_nodes *in, size_t k, struct tree *ret, struct errbuf *eb)
{
	_cleanup_(merge_done)
	struct merge m = {.in = in};
	int64_t root = 0;
	size_t most = 1;
	uint64_t key;
	int r = merge_start(&m, k);

	if (r)
		return err_set(eb, r, "out of memory to merge %zu trees", k);
	for (size_t i = 0; i < k; i++) {
		root = tree_add(root, in[i].n ? in[i].self[0] : 0);
		most = MAX(most, in[i].n);
	}
	r = tree_reserve(ret, most, eb);
	if (!r)
		r = tree_append_root(ret, root, eb);
	while (!r && (key = least_of(m.least, m.n_groups)) != END)
		r = merge_node(&m, key, ret, eb);
	return r ? r : tree_finish(ret, eb);
}

int tree_merge(const struct tree *const *trees, size_t k, struct tree *ret, struct errbuf *eb)
{
	_cleanup_free_ struct tree_nodes *in = try_realloc(NULL, k + 1, sizeof(*in));
	_cleanup_free_ uint32_t *depths = NULL;
	size_t n = 0;

	for (size_t i = 0; i < k; i++)
		n += trees[i]->n;
	depths = try_realloc(NULL, n + 1, sizeof(*depths));
	if (!in || !depths)
		return err_set(eb, -ENOMEM, "out of memory to merge %zu trees", k);
	n = 0;
	for (size_t i = 0; i < k; i++) {
		const struct tree *t = trees[i];

		in[i] = (struct tree_nodes) {t->n, depths + n, t->frame, t->self, t->line};
		if (t->n)
			tree_depths(t, depths + n);
		n += t->n;
	}
	return tree_merge_nodes(in, k, ret, eb);
}
