/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference as one page that opens from disk: tabs without script, by radio buttons and their siblings.
 */
#include "lib/render/render_internal.h"

static const char style[] =
	"body{font:14px/1.45 system-ui,\"DejaVu Sans\",sans-serif;margin:24px "
	"auto;max-width:1240px;"
	"padding:0 16px;color:#1b1f24;background:#fff}\n"
	"svg{max-width:100%;height:auto}pre{font:12px/1.5 ui-monospace,\"DejaVu Sans "
	"Mono\",Menlo,Consolas,monospace;overflow-x:auto}\n"
	".tabs>input{position:absolute;opacity:0}.tabs>label{display:inline-block;padding:6px 14px;"
	"border:1px solid #d0d7de;border-bottom:0;border-radius:6px 6px 0 0;cursor:pointer}\n"
	".tabs>input:checked+label{background:#eaeef2;font-weight:600}"
	".tabs>input:focus-visible+label{outline:2px solid #0969da}\n"
	".tabs>section{display:none;border:1px solid #d0d7de;padding:12px;border-radius:0 6px 6px "
	"6px}\n"
	"#t1:checked~#s1,#t2:checked~#s2,#t3:checked~#s3,#t4:checked~#s4,#t5:checked~#s5{display:"
	"block}\n";

static void put_tab(struct bytes *out, int n, const char *before, const char *label)
{
	bytes_printf(out, "<input type=\"radio\" name=\"tab\" id=\"t%d\"%s><label for=\"t%d\">%s",
		n, n == 1 ? " checked" : "", n, before);
	render_escape_str(out, label);
	bytes_put_str(out, "</label>\n");
}

static int put_table(const struct render_diff *d, bool by_self, struct bytes *out)
{
	_cleanup_bytes_ struct bytes text = {};
	int r;

	bytes_init(&text, out->budget, 0);
	r = d->stats ? render_diff_table(d, by_self, false, &text) : render_diff_text(d, &text);
	bytes_put_str(out, "<pre>");
	render_escape(out, (const char *)text.data, text.len);
	bytes_put_str(out, "</pre>");
	return r;
}

static int put_sections(const struct render_diff *d, bool panels, struct bytes *out)
{
	static const enum render_width widths[] = {
		RENDER_WIDTH_BOTH, RENDER_WIDTH_AFTER, RENDER_WIDTH_BEFORE};
	int r = 0, n = 0;

	for (; !r && n < 3; n++) {
		bytes_printf(out, "<section id=\"s%d\">", n + 1);
		r = render_diff_svg(d, widths[n], panels, out);
		bytes_put_str(out, "</section>\n");
	}
	for (; !r && n < (d->stats ? 5 : 4); n++) {
		bytes_printf(out, "<section id=\"s%d\">", n + 1);
		r = put_table(d, n == 3, out);
		bytes_put_str(out, "</section>\n");
	}
	return r;
}

int render_diff_html(const struct render_diff *d, const char *head, bool panels, struct bytes *out)
{
	int r;

	bytes_put_str(out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
	render_escape_str(out, d->in.title ? d->in.title : "Difference");
	bytes_put_str(out, "</title>\n<style>\n");
	bytes_put_str(out, style);
	bytes_put_str(out, "</style></head><body>\n<pre>");
	render_escape_str(out, head ? head : "");
	bytes_put_str(out, "</pre>\n<div class=\"tabs\">\n");
	put_tab(out, 1, "both", "");
	put_tab(out, 2, "widths of ", d->label_b ? d->label_b : "B");
	put_tab(out, 3, "widths of ", d->label_a ? d->label_a : "A");
	put_tab(out, 4, d->stats ? "self" : "functions", "");
	if (d->stats)
		put_tab(out, 5, "total", "");
	r = put_sections(d, panels, out);
	bytes_put_str(out, "</div></body></html>\n");
	return r ? r : bytes_error(out);
}
