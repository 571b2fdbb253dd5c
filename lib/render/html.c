/* SPDX-License-Identifier: Apache-2.0
 *
 * A page around the flame graph: no script, no external reference.
 */
#include "lib/base/arena.h"
#include "lib/render/render_internal.h"
#include <inttypes.h>

enum { TOP_ROWS = 50 };

static const char style[] =
	"body{font:14px/1.45 system-ui,\"DejaVu Sans\",sans-serif;margin:24px "
	"auto;max-width:1240px;"
	"padding:0 16px;color:#1b1f24;background:#fff}\n"
	"svg{max-width:100%;height:auto;border:1px solid #d0d7de;border-radius:6px}\n"
	"table{border-collapse:collapse;width:100%;margin-top:8px;font-size:13px}\n"
	"th{text-align:left;font-weight:600;border-bottom:2px solid #d0d7de;padding:6px 10px}\n"
	"td{border-bottom:1px solid #eaeef2;padding:4px 10px;vertical-align:top}\n"
	"th.n,td.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\n"
	"td.f{font-family:ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;"
	"overflow-wrap:anywhere}\n"
	"td.m{color:#57606a;white-space:nowrap}h2{font-size:17px;margin:28px 0 0}\n";

static void put_cell(struct bytes *out, int64_t value, const struct render_input *in)
{
	char text[64];

	render_value(value, render_unit(in), text);
	bytes_put_str(out, "<td class=\"n\">");
	render_escape_str(out, text);
	bytes_printf(
		out, "</td><td class=\"n\">%.2f%%</td>", 100 * (double)value / render_whole(in));
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
	const struct render_svg_options opt = {.root_on_top = true};
	int r;

	bytes_put_str(out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
	render_escape_str(out, in->title ? in->title : "Flame graph");
	bytes_put_str(out, "</title>\n<style>\n");
	bytes_put_str(out, style);
	bytes_put_str(out, "</style></head><body>\n");
	r = render_svg(in, &opt, out);
	if (!r)
		r = put_table(in, out);
	bytes_put_str(out, "</body></html>\n");
	return r ? r : bytes_error(out);
}
