/* SPDX-License-Identifier: Apache-2.0
 *
 * A flame graph as a static SVG: siblings by value, colours as in the web interface, shade by function name, tooltips as <title>.
 * Only what is wide enough to see becomes an element, so the size follows the picture and not the profile.
 */
#include "lib/base/alloc.h"
#include "lib/base/arena.h"
#include "lib/base/str.h"
#include "lib/base/units.h"
#include "lib/render/colours.h"
#include "lib/render/render_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	WIDTH = 1200,
	SIDE = 10,     /* margin left and right */
	BAR = 18,      /* height of a bar with its gap */
	HEAD = 34,     /* title */
	SUBTITLE = 18, /* when there is one */
	LEGEND = 26,
	FOOT = 24,
	MAX_DEPTH = 200,
	KEY_GAP = 26,	 /* of a key of the legend: its square, and what is between two */
	KEY_MAX = 170,	 /* its name */
	TOTAL_MAX = 380, /* the text left of the keys */
};
static const double CHAR_PX =
	7.25; /* of the 12 px monospace font; DejaVu Sans Mono, the widest, has 7.22 */

struct svg {
	const struct render_input *in;
	const struct render_svg_hooks *hooks; /* or NULL */
	struct bytes *out;
	struct arena *names; /* short ones */
	double width, min_width, px_per_unit;
	unsigned top, max_depth, depth;
	bool root_on_top;
	double *x;
	uint64_t *weight; /* what widths are as: tree_weigh */
	uint32_t *level;
	bool *shown;
	size_t n_hidden;
	struct render_colours colours;
	uint8_t used[RENDER_N_HUES]; /* bits of the shades shown */
};

static void svg_done(struct svg *s)
{
	free(s->x);
	free(s->weight);
	free(s->level);
	free(s->shown);
	render_colours_done(&s->colours);
}

static double bar_width(const struct svg *s, size_t i)
{
	return (double)s->weight[i] * s->px_per_unit;
}

struct by_weight {
	uint64_t weight;
	uint32_t parent, node;
};

static int compare_siblings(const void *a, const void *b)
{
	const struct by_weight *x = a, *y = b;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return (x->node > y->node) - (x->node < y->node);
}

/* Which nodes are wide enough; a child is never wider than its parent, so what is left forms a tree. */
static size_t choose(struct svg *s)
{
	const struct tree *t = s->in->tree;
	size_t n = 0;

	s->level[0] = 0;
	s->px_per_unit = s->weight[0] ? (s->width - 2 * SIDE) / (double)s->weight[0] : 0;
	for (size_t i = 0; i < t->n; i++) {
		s->level[i] = i ? s->level[t->parent[i]] + 1 : 0;
		s->shown[i] = !i || (s->shown[t->parent[i]] && bar_width(s, i) >= s->min_width &&
					    s->level[i] <= s->max_depth);
		if (!s->shown[i]) {
			s->n_hidden += tree_is_cut(t, i) ? t->n_cut[i] : 1;
			continue;
		}
		n++;
		s->depth = MAX(s->depth, s->level[i]);
		if (!s->hooks)
			s->used[s->colours.hue[i]] |= (uint8_t)(1U << s->colours.shade[i]);
	}
	return n;
}

static int lay_out(struct svg *s)
{
	const struct tree *t = s->in->tree;
	_cleanup_free_ struct by_weight *order = NULL;
	size_t n, k = 0;

	s->x = try_realloc(NULL, t->n, sizeof(*s->x));
	s->weight = try_realloc(NULL, t->n, sizeof(*s->weight));
	s->level = try_realloc(NULL, t->n, sizeof(*s->level));
	s->shown = try_realloc(NULL, t->n, sizeof(*s->shown));
	if (!s->x || !s->weight || !s->level || !s->shown)
		return -ENOMEM;
	tree_weigh(t, s->weight);
	n = choose(s);
	order = try_realloc(NULL, n, sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t i = 1; i < t->n; i++)
		if (s->shown[i])
			order[k++] = (struct by_weight) {s->weight[i], t->parent[i], (uint32_t)i};
	qsort(order, k, sizeof(*order), compare_siblings);
	/* Parents have smaller numbers and are sorted first, so a parent's x is known when its children come. */
	s->x[0] = SIDE;
	for (size_t i = 0; i < k; i++) {
		bool first = i == 0 || order[i - 1].parent != order[i].parent;
		double at = first ? s->x[order[i].parent]
				  : s->x[order[i - 1].node] + bar_width(s, order[i - 1].node);

		s->x[order[i].node] = at;
	}
	return 0;
}

/* Cuts a name to what fits, between characters. Returns the bytes to print; *ret_cut says whether some are missing. */
static size_t fit(const char *name, size_t len, double width, bool *ret_cut)
{
	size_t room = width > 2 * CHAR_PX + 6 ? (size_t)((width - 6) / CHAR_PX) : 0, chars = 0,
	       i = 0;

	while (i < len && chars < room) {
		size_t n = str_utf8_len(name + i, len - i);

		i += n ? n : 1;
		chars++;
	}
	*ret_cut = i < len;
	if (!*ret_cut || !room)
		return room ? i : 0;
	if (i > 0) /* one character less, for the ellipsis */
		i--;
	while (i > 0 && ((unsigned char)name[i] & 0xc0) == 0x80)
		i--;
	return i;
}

static void put_tooltip(const struct svg *s, size_t i, const char *name, size_t len)
{
	const struct render_input *in = s->in;
	const struct tree *t = in->tree;
	char value[64];

	render_value(t->total[i], render_unit(in), value);
	bytes_put_str(s->out, "<title>");
	render_escape(s->out, name, len);
	if (i && !tree_is_cut(t, i)) {
		const char *mapping = render_mapping_name(in, t->frame[i]);
		const struct tree_frame *f = &in->symbols->frames[t->frame[i]];

		if (*mapping && f->kind != TREE_UNKNOWN) {
			bytes_put_str(s->out, *mapping == '[' ? " " : " [");
			render_escape_str(s->out, mapping);
			bytes_put_str(s->out, *mapping == '[' ? "" : "]");
		}
		if (f->file) {
			bytes_put_str(s->out, "\n");
			render_escape_str(s->out, tree_symbols_text(in->symbols, f->file, NULL));
			if (tree_line_number(t->line[i]))
				bytes_printf(s->out, ":%" PRId64, tree_line_number(t->line[i]));
		}
	}
	if (s->hooks) {
		s->hooks->put_note(s->hooks->ctx, i, s->out);
		bytes_put_str(s->out, "</title>");
		return;
	}
	bytes_printf(
		s->out, "\n%s, %.2f%%", value, 100 * fabs((double)t->total[i]) / render_whole(in));
	if (t->self[i] && t->self[i] != t->total[i]) {
		render_value(t->self[i], render_unit(in), value);
		bytes_printf(s->out, " (self %s, %.2f%%)", value,
			100 * fabs((double)t->self[i]) / render_whole(in));
	}
	bytes_put_str(s->out, "</title>");
}

static void put_bar(const struct svg *s, size_t i)
{
	unsigned row = s->root_on_top ? s->level[i] : s->depth - s->level[i];
	double w = bar_width(s, i), gap = w > 3 ? 0.8 : 0;
	unsigned y = s->top + row * BAR;
	char scratch[64];
	size_t len, n;
	const char *name = render_node_name(s->in, i, scratch, &len);
	bool cut;

	bytes_put_str(s->out, "<g>");
	put_tooltip(s, i, name, len);
	if (s->hooks) {
		bytes_put_str(s->out, "<rect fill=\"");
		s->hooks->put_fill(s->hooks->ctx, i, s->out);
	} else
		bytes_printf(
			s->out, "<rect class=\"h%us%u", s->colours.hue[i], s->colours.shade[i]);
	bytes_printf(s->out, "\" x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\" rx=\"1.5\"/>",
		s->x[i], y, w - gap, BAR - 1);
	if (i && w > 2 * CHAR_PX + 6 && !tree_is_cut(s->in->tree, i))
		name = render_shown_name(s->in, s->in->tree->frame[i], s->names, &len);
	n = name ? fit(name, len, w, &cut) : 0;
	if (n) {
		bytes_printf(s->out, "<text x=\"%.2f\" y=\"%u\">", s->x[i] + 3, y + 13);
		render_escape(s->out, name, n);
		bytes_put_str(s->out, cut ? "\xe2\x80\xa6</text>" : "</text>");
	}
	bytes_put_str(s->out, "</g>\n");
}

static void put_style(const struct svg *s)
{
	bytes_put_str(s->out,
		"<style>\n"
		".fg .bg{fill:#fff}.fg text{font:12px ui-monospace,\"DejaVu Sans "
		"Mono\",Menlo,Consolas,"
		"monospace;fill:#1b1f24;pointer-events:none}\n"
		".fg .t{font:600 16px system-ui,\"DejaVu Sans\",sans-serif}"
		".fg .l{font:12px system-ui,\"DejaVu Sans\",sans-serif;fill:#57606a}\n"
		".fg g:hover>rect{stroke:#1b1f24;stroke-width:1}\n");
	for (unsigned hue = 0; hue < RENDER_N_HUES; hue++)
		for (unsigned shade = 0; shade < RENDER_N_SHADES; shade++) {
			if (!(s->used[hue] & 1U << shade))
				continue;
			bytes_printf(s->out, ".fg .h%us%u{fill:", hue, shade);
			render_put_hue(s->out, hue, shade);
			bytes_put_str(s->out, "}\n");
		}
	bytes_put_str(s->out, "</style>\n");
}

static const char *key_name(const struct render_group *g)
{
	return *g->name ? g->name : "unknown";
}

static double key_width(const struct render_group *g)
{
	return KEY_GAP + MIN(7.5 * (double)strlen(key_name(g)), KEY_MAX);
}

/* The largest groups that there is room for, from the right. */
static void put_keys(const struct svg *s, unsigned y)
{
	const struct render_colours *c = &s->colours;
	double x = s->width - SIDE, room = s->width - 2 * SIDE - TOTAL_MAX;
	size_t n = 0;

	while (n < c->n_groups && c->groups[n].self > 0 && room >= key_width(&c->groups[n]))
		room -= key_width(&c->groups[n++]);
	for (size_t k = n; k-- > 0;) {
		const struct render_group *g = &c->groups[k];
		const char *name = key_name(g);
		size_t len = strlen(name);
		bool cut;

		x -= key_width(g);
		bytes_put_str(s->out, "<rect fill=\"");
		render_put_hue(s->out, g->hue, 1);
		bytes_printf(s->out,
			"\" x=\"%.0f\" y=\"%u\" width=\"12\" height=\"12\" rx=\"2\"/>"
			"<text class=\"l\" x=\"%.0f\" y=\"%u\">",
			x, y + 2, x + 16, y + 12);
		len = fit(name, len, KEY_MAX + 6, &cut);
		render_escape(s->out, name, len);
		bytes_put_str(s->out, cut ? "\xe2\x80\xa6</text>\n" : "</text>\n");
	}
}

static void put_legend(const struct svg *s, unsigned y)
{
	const struct render_input *in = s->in;
	double x = SIDE;
	char total[64];

	if (s->hooks) {
		s->hooks->put_legend(s->hooks->ctx, s->width, y, s->out);
		return;
	}
	render_value(in->tree->total[0], render_unit(in), total);
	bytes_printf(s->out, "<text class=\"l\" x=\"%.0f\" y=\"%u\">", x, y + 12);
	render_escape_str(s->out, in->type ? in->type : "value");
	bytes_put_str(s->out, " in ");
	render_escape_str(s->out, units_name(render_unit(in)));
	bytes_printf(s->out, ", total %s</text>\n", total);
	put_keys(s, y);
}

static void put_head(struct svg *s, unsigned height)
{
	const struct render_input *in = s->in;

	bytes_printf(s->out,
		"<svg class=\"fg\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %u\" "
		"width=\"%.0f\" "
		"height=\"%u\" role=\"img\">\n<title>",
		s->width, height, s->width, height);
	render_escape_str(s->out, in->title ? in->title : "Flame graph");
	bytes_put_str(s->out, "</title>\n");
	put_style(s);
	bytes_printf(
		s->out, "<rect class=\"bg\" width=\"%.0f\" height=\"%u\"/>\n", s->width, height);
	bytes_printf(s->out, "<text class=\"t\" x=\"%d\" y=\"24\">", SIDE);
	render_escape_str(s->out, in->title ? in->title : "Flame graph");
	bytes_put_str(s->out, "</text>\n");
	if (in->subtitle) {
		bytes_printf(s->out, "<text class=\"l\" x=\"%d\" y=\"%d\">", SIDE, HEAD + 8);
		render_escape_str(s->out, in->subtitle);
		bytes_put_str(s->out, "</text>\n");
	}
	put_legend(s, HEAD + (in->subtitle ? SUBTITLE : 0));
}

static void put_foot(const struct svg *s, unsigned y)
{
	bytes_printf(s->out, "<text class=\"l\" x=\"%d\" y=\"%u\">", SIDE, y + 14);
	if (s->in->tree->n <= 1)
		bytes_put_str(s->out, "No samples in this selection.");
	else if (s->n_hidden)
		bytes_printf(s->out, "%zu frames narrower than %.1f px%s are not drawn.",
			s->n_hidden, s->min_width, s->depth >= s->max_depth ? " or too deep" : "");
	else
		bytes_put_str(s->out, "All frames are drawn.");
	if (s->in->tree->n > 1 && tree_magnitude(s->in->tree) != s->in->tree->total[0])
		bytes_put_str(s->out, " A bar is as wide as its values without their signs.");
	bytes_put_str(s->out, "</text>\n</svg>\n");
}

int render_svg(
	const struct render_input *in, const struct render_svg_options *opt, struct bytes *out)
{
	return render_svg_hooked(in, opt, NULL, out);
}

int render_svg_hooked(const struct render_input *in, const struct render_svg_options *opt,
	const struct render_svg_hooks *hooks, struct bytes *out)
{
	static const struct render_svg_options defaults;
	const struct render_svg_options *o = opt ? opt : &defaults;
	_cleanup_(svg_done)
	struct svg s = {.in = in, .hooks = hooks, .out = out, .root_on_top = o->root_on_top};
	_cleanup_arena_ struct arena names = {};
	unsigned bars;
	int r;

	arena_init(&names, out->budget);
	s.names = &names;
	s.width = MAX(o->width_px ? o->width_px : WIDTH, 320U);
	s.min_width = o->min_width_px > 0 ? o->min_width_px : 0.3;
	s.max_depth = o->max_depth ? o->max_depth : MAX_DEPTH;
	r = hooks ? 0 : render_colours_choose(in, &s.colours);
	if (!r)
		r = lay_out(&s);
	if (r)
		return r;
	s.top = HEAD + (in->subtitle ? SUBTITLE : 0) + LEGEND;
	bars = (s.depth + 1) * BAR;
	put_head(&s, s.top + bars + FOOT);
	for (size_t i = 0; i < in->tree->n && s.weight[0] && !out->error; i++)
		if (s.shown[i])
			put_bar(&s, i);
	put_foot(&s, s.top + bars);
	r = arena_error(&names, NULL);
	return r ? r : bytes_error(out);
}
