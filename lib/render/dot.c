/* SPDX-License-Identifier: Apache-2.0
 *
 * The call graph of a tree in Graphviz' language: functions as boxes by total, calls as edges. A call that is on a stack
 * more than once (recursion) counts once, as in pprof. That of a difference has both sides of each, over the union of both trees.
 */
#include "lib/base/alloc.h"
#include "lib/base/arena.h"
#include "lib/base/table.h"
#include "lib/render/render_internal.h"
#include "lib/tree/diff.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_NODES = 80 };

struct edge {
	uint32_t from, to;   /* rows */
	int64_t value, a, b; /* a, b: of a difference */
	uint32_t on_path;
	bool residual; /* frames in between are not shown */
};

/* A function of a difference. */
struct pair {
	int64_t self[2], total[2];
};

struct graph {
	const struct render_input *in;
	const struct render_diff *diff; /* NULL: of one tree */
	struct pair *pairs;		/* of a difference: per row */
	struct tree_row *rows;
	size_t n_rows;
	uint32_t *row_of; /* per frame: row + 1; 0: not shown */
	struct table edges_by_ends;
	struct edge *edges;
	size_t n_edges, cap_edges;
	/* per tree node: the nearest shown row on its path (+ 1), whether frames were skipped since, the edge it opened (+ 1) */
	uint32_t *shown, *opened;
	bool *skipped;
};

static void graph_done(struct graph *g)
{
	table_done(&g->edges_by_ends);
	free(g->row_of);
	free(g->edges);
	free(g->shown);
	free(g->opened);
	free(g->skipped);
}

static int compare_total(const void *a, const void *b)
{
	const struct tree_row *x = a, *y = b;
	double xt = fabs((double)x->total), yt = fabs((double)y->total);

	if (xt != yt)
		return xt < yt ? 1 : -1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

static int choose_rows(struct graph *g, struct arena *arena, size_t max_nodes)
{
	const struct tree_symbols *s = g->in->symbols;
	size_t n_frames = MAX(s->n_frames, (size_t)1), n = g->in->tree->n;
	int r = tree_top(g->in->tree, s, arena, &g->rows, &g->n_rows, NULL);

	if (r)
		return r;
	qsort(g->rows, g->n_rows, sizeof(*g->rows), compare_total);
	g->n_rows = MIN(g->n_rows, max_nodes);
	g->row_of = try_realloc(NULL, n_frames, sizeof(*g->row_of));
	g->shown = try_realloc(NULL, n, sizeof(*g->shown));
	g->opened = try_realloc(NULL, n, sizeof(*g->opened));
	g->skipped = try_realloc(NULL, n, sizeof(*g->skipped));
	if (!g->row_of || !g->shown || !g->opened || !g->skipped)
		return -ENOMEM;
	memset(g->row_of, 0, n_frames * sizeof(*g->row_of));
	for (size_t i = 0; i < g->n_rows; i++)
		g->row_of[g->rows[i].frame] = (uint32_t)i + 1;
	return 0;
}

static int open_edge(struct graph *g, size_t node, uint32_t from, uint32_t to, bool residual)
{
	struct edge *e;
	bool is_new;
	uint64_t *slot = table_insert(&g->edges_by_ends, (uint64_t)from << 32 | to, &is_new);

	if (!slot)
		return -ENOMEM;
	if (is_new) {
		int r = alloc_grow(&g->edges, &g->cap_edges, g->n_edges + 1, sizeof(*g->edges));

		if (r)
			return r;
		g->edges[g->n_edges] = (struct edge) {.from = from, .to = to};
		*slot = ++g->n_edges;
	}
	e = &g->edges[*slot - 1];
	e->residual |= residual;
	if (e->on_path++ == 0) {
		e->value = tree_add(e->value, g->in->tree->total[node]);
		if (g->diff) {
			e->a = tree_add(e->a, g->diff->diff->total_a[node]);
			e->b = tree_add(e->b, g->diff->diff->total_b[node]);
		}
	}
	g->opened[node] = (uint32_t)*slot;
	return 0;
}

static int find_edges(struct graph *g)
{
	const struct tree *t = g->in->tree;
	size_t open = 0;
	int r = 0;

	g->shown[0] = g->opened[0] = 0;
	g->skipped[0] = false;
	for (size_t i = 1; !r && i < t->n; i++) {
		uint32_t up = t->parent[i],
			 row = t->frame[i] == TREE_NONE ? 0 : g->row_of[t->frame[i]];

		for (; open != up; open = t->parent[open])
			if (g->opened[open])
				g->edges[g->opened[open] - 1].on_path--;
		open = i;
		g->opened[i] = 0;
		g->shown[i] = row ? row : g->shown[up];
		g->skipped[i] = !row && (g->skipped[up] || g->shown[up]);
		if (row && g->shown[up])
			r = open_edge(g, i, g->shown[up] - 1, row - 1, g->skipped[up]);
	}
	return r;
}

static void put_quoted(struct bytes *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			bytes_put_u8(out, '\\');
		bytes_put_u8(out, (unsigned char)*s < ' ' ? ' ' : (uint8_t)*s);
	}
}

static void put_node(const struct graph *g, size_t i, struct bytes *out)
{
	const struct tree_row *row = &g->rows[i];
	const char *name =
		tree_symbols_text(g->in->symbols, g->in->symbols->frames[row->frame].name, NULL);
	double whole = render_whole(g->in), share = fabs((double)row->total) / whole;
	double self = fabs((double)row->self) / whole;
	char flat[64], cum[64];
	unsigned pale = (unsigned)(237 - 100 * MIN(share, 1));

	render_value(row->self, render_unit(g->in), flat);
	render_value(row->total, render_unit(g->in), cum);
	bytes_printf(out, "N%zu [label=\"", i + 1);
	put_quoted(out, name);
	if (row->self == row->total)
		bytes_printf(out, "\\n%s (%.2f%%)", flat, 100 * self);
	else
		bytes_printf(
			out, "\\n%s (%.2f%%)\\nof %s (%.2f%%)", flat, 100 * self, cum, 100 * share);
	bytes_printf(out, "\" id=\"node%zu\" fontsize=%.0f shape=box tooltip=\"", i + 1,
		8 + 16 * sqrt(MIN(self, 1)));
	put_quoted(out, name);
	bytes_printf(out, " (%s)\" color=\"#b2%02x%02x\" fillcolor=\"#ed%02x%02x\"]\n", cum,
		pale / 2, pale / 3, pale, pale - 10);
}

static void put_edge(const struct graph *g, const struct edge *e, struct bytes *out)
{
	double share = fabs((double)e->value) / render_whole(g->in);
	char value[64];

	render_value(e->value, render_unit(g->in), value);
	bytes_printf(out,
		"N%u -> N%u [label=\" %s\" weight=%.0f penwidth=%.2f%s tooltip=\"%s (%.2f%%)\"]\n",
		e->from + 1, e->to + 1, value, 1 + 100 * MIN(share, 1), 1 + 4 * MIN(share, 1),
		e->residual ? " style=dotted" : "", value, 100 * share);
}

/* ---- differences ---- */

/* Both sides of the chosen functions: the union of the trees, with the values of one side at a time. */
static int find_pairs(struct graph *g, struct arena *arena)
{
	const struct tree_diff *d = g->diff->diff;

	g->pairs = arena_zalloc(arena, (g->n_rows + 1) * sizeof(*g->pairs));
	for (int side = 0; side < 2; side++) {
		struct tree t = d->shape;
		struct tree_row *rows;
		size_t n;
		int r;

		t.self = side ? d->self_b : d->self_a;
		t.total = side ? d->total_b : d->total_a;
		r = tree_top(&t, g->in->symbols, arena, &rows, &n, NULL);
		if (r || !g->pairs)
			return -ENOMEM;
		for (size_t i = 0; i < n; i++) {
			uint32_t row = g->row_of[rows[i].frame];

			if (!row)
				continue;
			g->pairs[row - 1].self[side] = rows[i].self;
			g->pairs[row - 1].total[side] = rows[i].total;
		}
	}
	return 0;
}

/* From −1, gone, to 1, new. */
static double change(const struct graph *g, int64_t a, int64_t b)
{
	double x = (double)a * g->diff->scale_a, y = (double)b * g->diff->scale_b;
	double larger = fmax(fabs(x), fabs(y));

	return larger > 0 ? fmax(-1, fmin(1, (y - x) / larger)) : 0;
}

/* Red for more, blue for less, the paler the less of a change. */
static void put_colour(struct bytes *out, double change, unsigned dark)
{
	unsigned other = (unsigned)(235 - 150 * fabs(change)) - dark, full = 238 - dark;

	if (change == 0)
		bytes_printf(out, "\"#%02x%02x%02x\"", other, other, other);
	else if (change > 0)
		bytes_printf(out, "\"#%02x%02x%02x\"", full, other, other);
	else
		bytes_printf(out, "\"#%02x%02x%02x\"", other, other, full);
}

/* "1.2s to 1.5s (+25.0%)", "0 to 3ms (new)" */
static void put_pair(const struct graph *g, int64_t a, int64_t b, struct bytes *out)
{
	double x = (double)a * g->diff->scale_a, y = (double)b * g->diff->scale_b;
	enum tree_mark m = tree_mark_of(a, b, g->diff->scale_a, g->diff->scale_b);
	char from[64], to[64];

	render_value(a, render_unit(g->in), from);
	render_value(b, render_unit(g->in), to);
	if (!a && !b)
		bytes_put_str(out, "0");
	else if (m == TREE_NEW || m == TREE_GONE)
		bytes_printf(out, "%s to %s (%s)", from, to, tree_mark_name(m));
	else
		bytes_printf(out, "%s to %s (%+.1f%%)", from, to, 100 * (y - x) / fabs(x));
}

static void put_diff_node(const struct graph *g, size_t i, struct bytes *out)
{
	const struct tree_row *row = &g->rows[i];
	const struct pair *p = &g->pairs[i];
	const char *name =
		tree_symbols_text(g->in->symbols, g->in->symbols->frames[row->frame].name, NULL);
	double by = change(g, p->total[0], p->total[1]);
	double self = fabs((double)row->self) / render_whole(g->in);

	bytes_printf(out, "N%zu [label=\"", i + 1);
	put_quoted(out, name);
	bytes_put_str(out, "\\n");
	put_pair(g, p->self[0], p->self[1], out);
	bytes_put_str(out, "\\nof ");
	put_pair(g, p->total[0], p->total[1], out);
	bytes_printf(out, "\" id=\"node%zu\" fontsize=%.0f shape=box tooltip=\"", i + 1,
		8 + 16 * sqrt(MIN(self, 1)));
	put_quoted(out, name);
	bytes_put_str(out, "\" color=");
	put_colour(out, by, 60);
	bytes_put_str(out, " fillcolor=");
	put_colour(out, by, 0);
	bytes_put_str(out, "]\n");
}

static void put_diff_edge(const struct graph *g, const struct edge *e, struct bytes *out)
{
	double share = fabs((double)e->value) / render_whole(g->in);

	bytes_printf(out, "N%u -> N%u [label=\" ", e->from + 1, e->to + 1);
	put_pair(g, e->a, e->b, out);
	bytes_printf(out, "\" weight=%.0f penwidth=%.2f%s color=", 1 + 100 * MIN(share, 1),
		1 + 4 * MIN(share, 1), e->residual ? " style=dotted" : "");
	put_colour(out, change(g, e->a, e->b), 60);
	bytes_put_str(out, "]\n");
}

static void put_total(const struct graph *g, struct bytes *out)
{
	char total[64];

	if (g->diff) {
		put_pair(g, g->diff->diff->total_a[0], g->diff->diff->total_b[0], out);
		return;
	}
	render_value(
		g->in->whole ? g->in->whole : g->in->tree->total[0], render_unit(g->in), total);
	bytes_put_str(out, total);
}

static int put_graph(struct graph *g, size_t max_nodes, struct bytes *out)
{
	_cleanup_arena_ struct arena arena = {};
	int r;

	arena_init(&arena, out->budget);
	table_init(&g->edges_by_ends, out->budget);
	r = choose_rows(g, &arena, max_nodes ? max_nodes : DEFAULT_NODES);
	if (!r)
		r = find_edges(g);
	if (!r && g->diff)
		r = find_pairs(g, &arena);
	if (r)
		return r;
	bytes_put_str(out, "digraph \"");
	put_quoted(out, g->in->title ? g->in->title : "profile");
	bytes_put_str(out, "\" {\nnode [style=filled fillcolor=\"#f8f8f8\"]\n"
			   "subgraph cluster_L { \"legend\" [shape=box fontsize=16 label=\"Type: ");
	put_quoted(out, g->in->type ? g->in->type : "");
	bytes_put_str(out, "\\lTotal: ");
	put_total(g, out);
	bytes_printf(out, "\\l%zu functions shown\\l\"] }\n", g->n_rows);
	for (size_t i = 0; i < g->n_rows; i++)
		g->diff ? put_diff_node(g, i, out) : put_node(g, i, out);
	for (size_t i = 0; i < g->n_edges; i++)
		g->diff ? put_diff_edge(g, &g->edges[i], out) : put_edge(g, &g->edges[i], out);
	bytes_put_str(out, "}\n");
	return bytes_error(out);
}

int render_dot(const struct render_input *in, size_t max_nodes, struct bytes *out)
{
	_cleanup_(graph_done)
	struct graph g = {.in = in};

	return put_graph(&g, max_nodes, out);
}

int render_diff_dot(const struct render_diff *d, size_t max_nodes, struct bytes *out)
{
	_cleanup_(graph_done)
	struct graph g = {.in = &d->in, .diff = d};

	return put_graph(&g, max_nodes, out);
}
