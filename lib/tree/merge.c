/* SPDX-License-Identifier: Apache-2.0
 *
 * The k-way merge of ordered trees. In preorder of the union the deeper of two nodes comes first (it belongs to a subtree that is
 * still open), then the smaller frame, so that one number orders them: keys. Most trees stand at the same node most of the time, which
 * is why the least key is looked for in all of them rather than kept in a heap. A path cuts all trees at the same place of the union,
 * so that pieces of it can be merged at once; their nodes have depths until they are joined.
 */
#include "lib/base/alloc.h"
#include "lib/tree/tree_internal.h"
#include <string.h>

enum { GROUP = 16 }; /* trees whose least key is remembered */
static const uint64_t END = UINT64_MAX;

struct merge {
	const struct tree_nodes *in;
	const uint32_t *to; /* of each input: where the piece ends */
	uint64_t *
		keys; /* of the node that each input stands at; a multiple of GROUP, END where there is none */
	uint64_t *least; /* of each group */
	uint32_t *pos;	 /* of each input */
	size_t n_groups;
};

static void merge_done(struct merge *m)
{
	free(m->keys);
	free(m->least);
	free(m->pos);
}

static uint64_t least_of(const uint64_t *keys, size_t n)
{
	uint64_t least = END;

	for (size_t i = 0; i < n; i++)
		least = MIN(least, keys[i]);
	return least;
}

static uint64_t key_at(const struct merge *m, size_t i, uint32_t pos)
{
	const struct tree_nodes *in = &m->in[i];

	return pos < m->to[i] ? (uint64_t)~in->depth[pos] << 32 | in->frame[pos] : END;
}

static int merge_start(struct merge *m, size_t k, const uint32_t *from)
{
	m->n_groups = k / GROUP + 1;
	m->keys = try_realloc(NULL, m->n_groups * GROUP, sizeof(*m->keys));
	m->least = try_realloc(NULL, m->n_groups, sizeof(*m->least));
	m->pos = try_realloc(NULL, m->n_groups * GROUP, sizeof(*m->pos));
	if (!m->keys || !m->least || !m->pos)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_groups * GROUP; i++) {
		m->pos[i] = i < k ? from[i] : 0;
		m->keys[i] = i < k ? key_at(m, i, from[i]) : END;
	}
	for (size_t g = 0; g < m->n_groups; g++)
		m->least[g] = least_of(m->keys + g * GROUP, GROUP);
	return 0;
}

struct sum {
	int64_t self, line; /* line: as in struct tree; TREE_LINE_NONE before the first */
};

/* Adds the nodes of one group that have this key, and moves on from them. */
static void take(struct merge *m, size_t group, uint64_t key, struct sum *to)
{
	size_t first = group * GROUP;
	uint64_t least = END;

	for (size_t i = first; i < first + GROUP; i++) {
		const struct tree_nodes *in;
		uint32_t at = m->pos[i];
		int64_t line;

		if (m->keys[i] != key) {
			least = MIN(least, m->keys[i]);
			continue;
		}
		in = &m->in[i];
		line = in->line ? in->line[at] : 0;
		to->self = tree_add(to->self, in->self[at]);
		to->line = to->line == TREE_LINE_NONE ? line : tree_line_join(to->line, line);
		m->pos[i] = at + 1;
		m->keys[i] = key_at(m, i, at + 1);
		least = MIN(least, m->keys[i]);
	}
	m->least[group] = least;
}

static int merge_node(struct merge *m, uint64_t key, struct tree *out, struct errbuf *eb)
{
	struct sum sum = {.line = TREE_LINE_NONE};

	for (size_t g = 0; g < m->n_groups; g++)
		if (m->least[g] == key)
			take(m, g, key, &sum);
	return tree_append(out, ~(uint32_t)(key >> 32), (uint32_t)key, sum.self, sum.line, eb);
}

/* ---- pieces ---- */

/* The frames from the root to a node, at least at depth 1. */
static void path_to(const struct tree_nodes *in, uint32_t at, uint32_t *path)
{
	uint32_t depth = in->depth[at];

	path[depth - 1] = in->frame[at];
	while (depth > 1)
		if (in->depth[--at] < depth) {
			depth = in->depth[at];
			path[depth - 1] = in->frame[at];
		}
}

/* The first node that does not come before this path. */
static uint32_t place_of(const struct tree_nodes *in, const uint32_t *path, uint32_t n)
{
	uint32_t same = 0, at;

	for (at = MIN((uint32_t)in->n, 1U); at < in->n; at++) {
		if (in->depth[at] > same + 1)
			continue; /* below one that comes before */
		if (in->depth[at] <= same || in->frame[at] > path[same])
			break;
		if (in->frame[at] == path[same] && ++same == n)
			break;
	}
	return at;
}

int tree_merge_cut(
	const struct tree_nodes *in, size_t k, size_t n, uint32_t *ret, struct errbuf *eb)
{
	const struct tree_nodes *longest = in;

	for (size_t i = 0; i < k; i++) {
		ret[i] = MIN((uint32_t)in[i].n, 1U);
		ret[n * k + i] = (uint32_t)in[i].n;
		longest = in[i].n > longest->n ? &in[i] : longest;
	}
	for (size_t piece = 1; piece < n; piece++) {
		uint32_t at = k ? (uint32_t)(longest->n * piece / n) : 0;
		_cleanup_free_ uint32_t *path = NULL;

		if (!at) { /* too few to cut */
			memcpy(ret + piece * k, ret, k * sizeof(*ret));
			continue;
		}
		path = try_realloc(NULL, longest->depth[at], sizeof(*path));
		if (!path)
			return err_set(eb, -ENOMEM, "out of memory to merge %zu trees", k);
		path_to(longest, at, path);
		for (size_t i = 0; i < k; i++)
			ret[piece * k + i] = place_of(&in[i], path, longest->depth[at]);
	}
	return 0;
}

/* Nodes of the only input. */
static int copy_piece(const struct tree_nodes *in, uint32_t from, uint32_t to, struct tree *ret,
	struct errbuf *eb)
{
	const size_t n = to - from;
	int r = tree_reserve(ret, n + 1, eb);

	if (!r)
		r = tree_append_root(ret, 0, eb);
	if (r || !n)
		return r;
	memcpy(ret->parent + 1, in->depth + from, n * sizeof(*ret->parent));
	memcpy(ret->frame + 1, in->frame + from, n * sizeof(*ret->frame));
	memcpy(ret->self + 1, in->self + from, n * sizeof(*ret->self));
	if (in->line)
		memcpy(ret->line + 1, in->line + from, n * sizeof(*ret->line));
	else
		memset(ret->line + 1, 0, n * sizeof(*ret->line));
	ret->n += n;
	return 0;
}

int tree_merge_piece(const struct tree_nodes *in, size_t k, const uint32_t *from,
	const uint32_t *to, struct tree *ret, struct errbuf *eb)
{
	_cleanup_(merge_done)
	struct merge m = {.in = in, .to = to};
	uint32_t most = 0;
	uint64_t key;
	int r;

	if (k == 1)
		return copy_piece(in, *from, *to, ret, eb);
	r = merge_start(&m, k, from);
	if (r)
		return err_set(eb, r, "out of memory to merge %zu trees", k);
	for (size_t i = 0; i < k; i++)
		most = MAX(most, to[i] - from[i]);
	r = tree_reserve(ret, most + 1UL, eb);
	if (!r)
		r = tree_append_root(ret, 0, eb);
	while (!r && (key = least_of(m.least, m.n_groups)) != END)
		r = merge_node(&m, key, ret, eb);
	return r;
}

/* Parents of nodes [at, n), which have their depths there. `path`: the last node at each depth. */
static int set_parents(struct tree *t, size_t at)
{
	_cleanup_free_ uint32_t *path = NULL;
	uint32_t deepest = 0;

	for (size_t i = at; i < t->n; i++)
		deepest = MAX(deepest, t->parent[i]);
	path = try_realloc(NULL, deepest + 1UL, sizeof(*path));
	if (!path)
		return -ENOMEM;
	path[0] = 0;
	for (size_t i = at; i < t->n; i++) {
		uint32_t depth = t->parent[i];

		path[depth] = (uint32_t)i;
		t->parent[i] = path[depth - 1];
	}
	return 0;
}

/* All pieces behind each other, without their roots. */
static int concatenate(struct tree *pieces, size_t n, struct tree *ret, struct errbuf *eb)
{
	size_t nodes = 1;
	int r;

	for (size_t i = 0; i < n; i++)
		nodes += pieces[i].n - 1;
	r = tree_reserve(ret, nodes, eb);
	if (!r)
		r = tree_append_root(ret, 0, eb);
	for (size_t i = 0; !r && i < n; i++) {
		const struct tree *p = &pieces[i];
		const size_t more = p->n - 1;

		memcpy(ret->parent + ret->n, p->parent + 1, more * sizeof(*p->parent));
		memcpy(ret->frame + ret->n, p->frame + 1, more * sizeof(*p->frame));
		memcpy(ret->self + ret->n, p->self + 1, more * sizeof(*p->self));
		memcpy(ret->line + ret->n, p->line + 1, more * sizeof(*p->line));
		ret->n += more;
		tree_done(&pieces[i]);
	}
	return r;
}

int tree_merge_join(const struct tree_nodes *in, size_t k, struct tree *pieces, size_t n,
	struct tree *ret, struct errbuf *eb)
{
	struct tree swap = *ret;
	int r = 0;

	if (n == 1) {
		*ret = pieces[0];
		pieces[0] = swap;
	} else {
		r = concatenate(pieces, n, ret, eb);
	}
	if (r)
		return r;
	for (size_t i = 0; i < k; i++)
		ret->self[0] = tree_add(ret->self[0], in[i].n ? in[i].self[0] : 0);
	if (set_parents(ret, 1))
		return err_set(eb, -ENOMEM, "out of memory to merge trees");
	return tree_finish(ret, eb);
}

int tree_merge_nodes(const struct tree_nodes *in, size_t k, struct tree *ret, struct errbuf *eb)
{
	_cleanup_tree_ struct tree piece = {};
	_cleanup_free_ uint32_t *places = try_realloc(NULL, 2 * k + 1, sizeof(*places));
	int r;

	if (!places)
		return err_set(eb, -ENOMEM, "out of memory to merge %zu trees", k);
	tree_init(&piece, ret->budget);
	r = tree_merge_cut(in, k, 1, places, eb);
	if (!r)
		r = tree_merge_piece(in, k, places, places + k, &piece, eb);
	return r ? r : tree_merge_join(in, k, &piece, 1, ret, eb);
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
