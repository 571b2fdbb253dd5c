/* SPDX-License-Identifier: Apache-2.0
 *
 * Differential flame graphs: the flame graph of one side, or of both, coloured by what changed.
 */
#include "lib/base/alloc.h"
#include "lib/base/units.h"
#include "lib/render/render_internal.h"
#include "lib/stats/trees.h"
#include "lib/tree/diff.h"
#include <errno.h>
#include <math.h>
#include <string.h>

struct colours {
	const struct render_diff *d;
	struct tree shape; /* with the widths as totals; only they are ours */
	uint32_t *row;	   /* per node, in stats; NULL without */
	uint32_t *panel;   /* per node: the child of the root above it */
	double *largest; /* per panel's node: the largest change below it, at least a doubling's share */
	bool panels;
};

static void colours_done(struct colours *c)
{
	free(c->shape.total);
	free(c->row);
	free(c->panel);
	free(c->largest);
}

static double side_a(const struct colours *c, size_t i)
{
	return (double)c->d->diff->total_a[i] * c->d->scale_a;
}

static double side_b(const struct colours *c, size_t i)
{
	return (double)c->d->diff->total_b[i] * c->d->scale_b;
}

/* The row of a node, NULL where it has too few samples or nothing was replicated. */
static const struct stats_row *row_of(const struct colours *c, size_t i)
{
	return c->row && c->row[i] != TREE_NONE ? &c->d->stats->nodes[c->row[i]] : NULL;
}

static bool is_grey(const struct colours *c, size_t i)
{
	const struct stats_row *row = row_of(c, i);

	if (!c->row)
		return side_a(c, i) == side_b(c, i);
	if (!row || row->verdict == STATS_SAME || row->verdict == STATS_FEW)
		return true;
	/* One run a side: twice the sampling error. */
	return row->verdict == STATS_UNTESTED &&
	       fabs(row->mean_b - row->mean_a) < 2 * hypot(row->se_a, row->se_b);
}

/* log2 of B over A, from −1 to 1. */
static double change(const struct colours *c, size_t i)
{
	double a = side_a(c, i), b = side_b(c, i);

	if (a <= 0 || b <= 0)
		return b > a ? 1 : b < a ? -1 : 0;
	return fmax(-1, fmin(1, log2(b / a)));
}

static int prepare(struct colours *c, enum render_width width)
{
	const struct render_diff *d = c->d;
	size_t n = d->diff->shape.n;

	c->shape = d->diff->shape;
	c->shape.total = try_realloc(NULL, n + 1, sizeof(int64_t));
	c->panel = try_realloc(NULL, n + 1, sizeof(*c->panel));
	c->largest = try_realloc(NULL, n + 1, sizeof(*c->largest));
	c->row = d->stats ? try_realloc(NULL, n + 1, sizeof(*c->row)) : NULL;
	if (!c->shape.total || !c->panel || !c->largest || (d->stats && !c->row))
		return -ENOMEM;
	if (d->stats)
		stats_locate(d->stats, &d->diff->shape, c->row);
	for (size_t i = 0; i < n; i++) {
		double both = fmax(side_a(c, i), 0) + fmax(side_b(c, i), 0);
		uint32_t up = d->diff->shape.parent[i];

		c->shape.total[i] = width == RENDER_WIDTH_AFTER	   ? d->diff->total_b[i]
				    : width == RENDER_WIDTH_BEFORE ? d->diff->total_a[i]
								   : llround(both / d->scale_b);
		c->panel[i] = !c->panels || !i ? 0 : up ? c->panel[up] : (uint32_t)i;
		c->largest[i] = 0.1;
	}
	for (size_t i = 0; i < n; i++)
		if (!is_grey(c, i))
			c->largest[c->panel[i]] = fmax(c->largest[c->panel[i]], fabs(change(c, i)));
	return 0;
}

static void put_colour(double strength, bool more, struct bytes *out)
{
	if (more)
		bytes_printf(out, "hsl(8,%.0f%%,%.0f%%)", 60 + 25 * strength, 92 - 30 * strength);
	else
		bytes_printf(out, "hsl(214,%.0f%%,%.0f%%)", 60 + 25 * strength, 92 - 30 * strength);
}

static const char grey[] = "hsl(210,6%,88%)";
static const char violet[] = "hsl(275,35%,78%)";

static void put_fill(void *ctx, size_t i, struct bytes *out)
{
	const struct colours *c = ctx;
	const struct stats_row *row = row_of(c, i);

	if (is_grey(c, i))
		bytes_put_str(out, grey);
	else if (row && row->verdict == STATS_MOVED)
		bytes_put_str(out, violet);
	else
		put_colour(fabs(change(c, i)) / c->largest[c->panel[i]], change(c, i) > 0, out);
}

static void put_side(const struct colours *c, const char *label, double value,
	const struct stats_row *row, bool is_a, struct bytes *out)
{
	char text[64];
	size_t n = row ? (is_a ? c->d->stats->n_a : c->d->stats->n_b) : 0;

	render_value(llround(value), render_unit(&c->d->in), text);
	bytes_put_u8(out, '\n');
	render_escape_str(out, label);
	bytes_printf(out, ": %s", text);
	if (!row)
		return;
	render_value(llround(is_a ? row->se_a : row->se_b), render_unit(&c->d->in), text);
	bytes_printf(out, " \xc2\xb1 %s (n = %zu)", text, n);
}

static void put_note(void *ctx, size_t i, struct bytes *out)
{
	const struct colours *c = ctx;
	const struct stats_row *row = row_of(c, i);
	double a = side_a(c, i), b = side_b(c, i);

	put_side(c, c->d->label_a ? c->d->label_a : "A", a, row, true, out);
	put_side(c, c->d->label_b ? c->d->label_b : "B", b, row, false, out);
	if (a > 0 && b > 0)
		bytes_printf(out, "\n%+.1f %%", 100 * (b / a - 1));
	else
		bytes_printf(out, "\n%s", b > 0 ? "new" : "gone");
	if (row && !isnan(row->q))
		bytes_printf(out, row->q < 1e-3 ? ", q = %.1e" : ", q = %.3f", row->q);
	if (row && row->verdict == STATS_SAME)
		bytes_put_str(out, ", not significant");
	if (row && row->verdict == STATS_MOVED)
		bytes_put_str(out, ", moved among its siblings");
	if (c->row && !row)
		bytes_put_str(out, ", too few samples");
}

struct legend {
	const char *fill, *text;
};

static void put_legend(void *ctx, double width, unsigned y, struct bytes *out)
{
	const struct colours *c = ctx;
	const struct legend keys[] = {{"hsl(8,85%,62%)", "more in "},
		{"hsl(214,85%,62%)", "less in "}, {violet, "moved"},
		{grey, c->row ? "not significant" : "equal"}};
	const char *b = c->d->label_b ? c->d->label_b : "B", *unit = render_unit(&c->d->in);
	double x = width - 10;

	bytes_printf(out, "<text class=\"l\" x=\"10\" y=\"%u\">", y + 12);
	render_escape_str(out, c->d->in.type ? c->d->in.type : "value");
	bytes_put_str(out, " in ");
	render_escape_str(out, units_name(unit));
	bytes_put_str(out, ", ");
	render_escape_str(out, b);
	bytes_put_str(out, " against ");
	render_escape_str(out, c->d->label_a ? c->d->label_a : "A");
	bytes_put_str(out, "</text>\n");
	for (size_t i = ARRAY_SIZE(keys); i-- > 0;) {
		bool named = i < 2;

		if (i == 2 && !c->row)
			continue;
		x -= 7.5 * (double)(strlen(keys[i].text) + (named ? strlen(b) : 0)) + 26;
		bytes_printf(out,
			"<rect fill=\"%s\" x=\"%.0f\" y=\"%u\" width=\"12\" height=\"12\" "
			"rx=\"2\"/><text class=\"l\" x=\"%.0f\" y=\"%u\">%s",
			keys[i].fill, x, y + 2, x + 16, y + 12, keys[i].text);
		if (named)
			render_escape_str(out, b);
		bytes_put_str(out, "</text>\n");
	}
}

int render_diff_svg(
	const struct render_diff *d, enum render_width width, bool panels, struct bytes *out)
{
	static const struct render_svg_options icicle = {.root_on_top = true};
	_cleanup_(colours_done)
	struct colours c = {.d = d, .panels = panels};
	const struct render_svg_hooks hooks = {
		.ctx = &c, .put_fill = put_fill, .put_note = put_note, .put_legend = put_legend};
	struct render_input in = d->in;
	int r = prepare(&c, width);

	if (r)
		return r;
	in.tree = &c.shape;
	in.whole = 0;
	return render_svg_hooked(&in, &icicle, &hooks, out);
}
