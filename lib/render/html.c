/* SPDX-License-Identifier: Apache-2.0
 *
 * A flame graph as a page that opens from disk; without script a picture and the top functions.
 */
#include "lib/base/arena.h"
#include "lib/json/write.h"
#include "lib/render/page.h"
#include <inttypes.h>
#include <math.h>

enum { TOP_ROWS = 50 };

static void put_cell(struct bytes *out, int64_t value, const struct render_input *in)
{
	char text[64];

	render_value(value, render_unit(in), text);
	bytes_put_str(out, "<td class=\"n\">");
	render_escape_str(out, text);
	bytes_printf(out, "</td><td class=\"n\">%.2f%%</td>",
		100 * fabs((double)value) / render_whole(in));
}

static int put_table(const struct render_input *in, struct bytes *out)
{
	_cleanup_arena_ struct arena arena = {};
	struct tree_row *rows;
	size_t n;
	int r;

	arena_init(&arena, out->budget);
	r = tree_top(in->tree, in->symbols, &arena, &rows, &n, NULL);
	if (r)
		return r;
	bytes_printf(out, "<h2>Top functions</h2><table><thead><tr><th class=\"n\">Self</th>"
			  "<th class=\"n\"></th><th class=\"n\">Total</th><th class=\"n\"></th>"
			  "<th>Function</th><th>Binary</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < n && i < TOP_ROWS; i++) {
		const struct tree_frame *f = &in->symbols->frames[rows[i].frame];

		bytes_put_str(out, "<tr>");
		put_cell(out, rows[i].self, in);
		put_cell(out, rows[i].total, in);
		bytes_put_str(out, "<td class=\"f\">");
		render_escape_str(out, tree_symbols_text(in->symbols, f->name, NULL));
		bytes_put_str(out, "</td><td class=\"m\">");
		render_escape_str(out, render_mapping_name(in, rows[i].frame));
		bytes_put_str(out, "</td></tr>\n");
	}
	bytes_put_str(out, "</tbody></table>\n");
	if (n > TOP_ROWS)
		bytes_printf(out, "<p>%zu more functions are not listed.</p>\n", n - TOP_ROWS);
	return 0;
}

int render_html(const struct render_input *in, struct bytes *out)
{
	const struct render_svg_options opt = {
		.root_on_top = true, .min_width_px = RENDER_PLAIN_MIN_PX};
	_cleanup_render_page_ struct render_page page = {};
	struct json j;
	int r;

	render_page_init(&page, in, "graph", out->budget, &j);
	json_object_end(&j);
	r = render_protobuf(in, &page.tree);
	render_page_begin(out, in->title ? in->title : "Flame graph", &page);
	if (!r)
		r = render_svg(in, &opt, out);
	if (!r)
		r = put_table(in, out);
	render_page_end(out);
	return r ? r : bytes_error(out);
}
