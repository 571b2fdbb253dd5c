/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks: k trees in preorder become one in a single pass.
 *
 * The nodes in hand, one per input, are all beyond the last one written, and their parents lie on its path: a parent stands before its
 * children and between them there is nothing but its own subtree. So the deepest comes next, among equally deep ones that with the
 * lowest location, and equal ones are the same node. Memory is the path of each input, and one bit per node to tell later where the
 * rows' nodes went.
 */
#include "lib/base/alloc.h"
#include "scraper/store/block/table_writer.h"
#include "scraper/store/compact/compact_impl.h"
#include <string.h>

int compact_nodes_open(struct compact_node_pages *n, struct compact_input *in, struct errbuf *eb)
{
	*n = (struct compact_node_pages) {.in = in};
	n->up = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*n->up));
	n->places = try_realloc(NULL, PAGE_MAX_ROWS, sizeof(*n->places));
	if (!n->up || !n->places)
		return -ENOMEM;
	return compact_pages_open(&n->pages, in->b, TABLE_NODES, eb);
}

void compact_nodes_close(struct compact_node_pages *n)
{
	compact_pages_close(&n->pages);
	free(n->up);
	free(n->places);
}

/* The first node's depth is the length of the path that the page begins with. */
static int load(struct compact_node_pages *n, struct errbuf *eb)
{
	_cleanup_free_ struct page *p = NULL;
	uint32_t limit = MAX(n->in->info->n_locations, 1U), depth = 0;
	int r = compact_pages_next(&n->pages, &p, eb);

	if (r <= 0)
		return r;
	n->n = p->n_rows;
	n->at = 0;
	r = page_u32(p, 0, n->n, UINT32_MAX, n->up, eb);
	r = r ? r : page_u32(p, 1, n->n, limit, n->places, eb);
	r = r ? r : page_u32(p, 2, 1, STORE_MAX_DEPTH + 2, &depth, eb);
	if (!r && depth)
		r = page_u32(p, 3, depth, n->next, n->path, eb);
	if (!r && (!depth != !n->next || n->up[0]))
		r = err_set(
			eb, -EBADMSG, "%s: page of nodes begins in the wrong place", n->pages.path);
	n->depth = depth - 1; /* of the parent; none before the root */
	return r < 0 ? r : 1;
}

int compact_nodes_next(struct compact_node_pages *n, struct errbuf *eb)
{
	uint32_t depth;
	int r = 1;

	if (n->at == n->n) {
		r = load(n, eb);
		if (r <= 0)
			return r;
	}
	depth = n->depth + 1 - n->up[n->at];
	if (n->up[n->at] > n->depth + 1 || depth > STORE_MAX_DEPTH + 2 || (!depth && n->next))
		return err_set(
			eb, -EBADMSG, "%s: node %u does not fit its path", n->pages.path, n->next);
	n->location = n->places[n->at++];
	n->depth = depth;
	n->path[depth] = n->id = n->next++;
	return 1;
}

/* The cursor of one input: at a node that is used, or at the end. */
struct source {
	struct compact_node_pages nodes;
	uint32_t location; /* of the result */
	bool done;
};

static int advance(struct source *s, struct errbuf *eb)
{
	struct compact_input *in = s->nodes.in;
	int r;

	while ((r = compact_nodes_next(&s->nodes, eb)) > 0)
		if (bitmap_has(&in->has_nodes, s->nodes.id))
			break;
	s->done = r == 0;
	if (r > 0)
		s->location = s->nodes.id ? in->locations[s->nodes.location] : 0;
	return r < 0 ? r : 0;
}

static const struct source *next_of(const struct source *s, size_t n)
{
	const struct source *best = NULL;

	for (size_t i = 0; i < n; i++) {
		if (s[i].done)
			continue;
		if (!best || s[i].nodes.depth > best->nodes.depth ||
			(s[i].nodes.depth == best->nodes.depth && s[i].location < best->location))
			best = &s[i];
	}
	return best;
}

static int merge(struct compaction *c, struct source *s, struct node_writer *w)
{
	const struct source *best;
	int r = 0;

	for (size_t i = 0; !r && i < c->n; i++)
		r = advance(&s[i], c->eb);
	while (!r && (best = next_of(s, c->n)) != NULL) {
		uint32_t depth = best->nodes.depth, location = best->location, id = w->next;

		/* Siblings ascend; only two locations with equal keys could do otherwise. */
		if (id && depth <= w->depth && location <= w->location_at[depth])
			return err_set(c->eb, -ENOTSUP,
				"the stacks are not in one order: locations with equal keys");
		r = table_writer_node(w, depth, location);
		for (size_t i = 0; !r && i < c->n; i++) {
			if (s[i].done || s[i].nodes.depth != depth || s[i].location != location)
				continue;
			bitmap_set(&c->inputs[i].placed, id);
			r = advance(&s[i], c->eb);
		}
	}
	c->meta.stats.nodes = w->next;
	return r;
}

static int init_placed(struct compaction *c)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; !r && i < c->n; i++) {
		r = bitmap_index(&c->inputs[i].has_nodes, c->eb);
		n += c->inputs[i].has_nodes.n_set;
	}
	for (size_t i = 0; !r && i < c->n; i++)
		r = bitmap_init(&c->inputs[i].placed, n, c->budget, c->eb);
	return r;
}

int compact_nodes(struct compaction *c)
{
	_cleanup_(frame_writer_done)
	struct frame_writer w = {.fd = -1};
	_cleanup_free_ struct node_writer *nodes = try_malloc(sizeof(*nodes));
	_cleanup_free_ struct source *s = try_realloc(NULL, c->n, sizeof(*s));
	int r = nodes && s ? init_placed(c) : -ENOMEM;

	r = r ? r : compact_open_file(c, &w, FRAME_STACKS);
	if (r < 0)
		return r;
	table_writer_nodes_begin(nodes, &w);
	memset(s, 0, c->n * sizeof(*s));
	for (size_t i = 0; !r && i < c->n; i++)
		r = compact_nodes_open(&s[i].nodes, &c->inputs[i], c->eb);
	r = r ? r : merge(c, s, nodes);
	for (size_t i = 0; i < c->n; i++)
		compact_nodes_close(&s[i].nodes);
	for (size_t i = 0; !r && i < c->n; i++)
		r = bitmap_index(&c->inputs[i].placed, c->eb);
	if (r < 0)
		return r;
	table_writer_nodes_end(nodes);
	return block_finish_file(&w, FRAME_STACKS, &c->meta, c->eb);
}
