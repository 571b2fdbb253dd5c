/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of pages that open from disk: what they show, the viewer that shows it, and the same in plain for who runs no script.
 */
#include "lib/render/page.h"
#include "lib/json/write.h"
#include "lib/render/viewer.h"

/* Of the part without script, which is light in every theme: its picture is. */
static const char style[] =
	"\n.live #plain{display:none}\n"
	"#plain{font:14px/1.45 system-ui,\"DejaVu Sans\",sans-serif;margin:24px auto;"
	"max-width:1240px;padding:16px;color:#1b1f24;background:#fff}\n"
	"#plain svg{max-width:100%;height:auto;border:1px solid #d0d7de;border-radius:6px}\n"
	"#plain pre{font:12px/1.5 ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;"
	"overflow-x:auto}\n"
	"#plain table{border-collapse:collapse;width:100%;margin-top:8px;font-size:13px}\n"
	"#plain th{text-align:left;font-weight:600;border-bottom:2px solid #d0d7de;padding:6px "
	"10px}\n"
	"#plain td{border-bottom:1px solid #eaeef2;padding:4px 10px;vertical-align:top}\n"
	"#plain th.n,#plain td.n{text-align:right;white-space:nowrap;font-variant-numeric:"
	"tabular-nums}\n"
	"#plain td.f{font-family:ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;"
	"overflow-wrap:anywhere}\n"
	"#plain td.m{color:#57606a;white-space:nowrap}#plain h2{font-size:17px;margin:28px 0 0}\n";

static void put_base64(struct bytes *out, const uint8_t *p, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char line[4 * 256];
	size_t k = 0;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
			     (i + 2 < n ? p[i + 2] : 0);

		line[k++] = digits[v >> 18];
		line[k++] = digits[v >> 12 & 63];
		line[k++] = i + 1 < n ? digits[v >> 6 & 63] : '=';
		line[k++] = i + 2 < n ? digits[v & 63] : '=';
		if (k < sizeof(line) && i + 3 < n)
			continue;
		bytes_put(out, line, k);
		k = 0;
	}
}

/* "<" could end the element or begin a comment in it; JSON has another spelling. */
static void put_json(struct bytes *out, const struct bytes *json)
{
	size_t from = 0;

	for (size_t i = 0; i < json->len; i++) {
		if (json->data[i] != '<')
			continue;
		bytes_put(out, json->data + from, i - from);
		bytes_put_str(out, "\\u003c");
		from = i + 1;
	}
	bytes_put(out, json->data + from, json->len - from);
}

void render_page_begin(struct bytes *out, const char *title, const struct render_page *page)
{
	bytes_put_str(out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
		"<meta name=\"color-scheme\" content=\"light dark\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"");
	bytes_put_str(out, render_page_policy);
	bytes_put_str(out, "\">\n<title>");
	render_escape_str(out, title);
	bytes_put_str(out, "</title>\n<style>\n");
	bytes_put(out, render_viewer_style, render_viewer_style_bytes);
	bytes_put_str(out, style);
	bytes_put_str(
		out, "</style></head><body>\n<script type=\"application/json\" id=\"about\">");
	put_json(out, &page->about);
	bytes_put_str(out, "</script>\n<script type=\"text/plain\" id=\"tree\">");
	put_base64(out, page->tree.data, page->tree.len);
	bytes_put_str(out, "</script>\n<script>");
	bytes_put(out, render_viewer_script, render_viewer_script_bytes);
	bytes_put_str(out, "</script>\n<div id=\"plain\">\n");
	if (!out->error)
		out->error = page->about.error ? page->about.error : page->tree.error;
}

void render_page_end(struct bytes *out)
{
	bytes_put_str(out, "</div></body></html>\n");
}

void render_page_frame(struct bytes *out)
{
	_cleanup_render_page_ struct render_page page = {};

	bytes_init(&page.about, out->budget, 0);
	bytes_init(&page.tree, out->budget, 0);
	bytes_put_str(&page.about, "{}");
	render_page_begin(out, "", &page);
	render_page_end(out);
}

void render_page_init(struct render_page *page, const struct render_input *in, const char *kind,
	struct budget *budget, struct json *j)
{
	bytes_init(&page->about, budget, 0);
	bytes_init(&page->tree, budget, 0);
	*j = json_to(&page->about);
	json_object_begin(j);
	json_kv_string(j, "kind", kind);
	json_kv_string(j, "title", in->title ? in->title : "");
	json_kv_string(j, "subtitle", in->subtitle ? in->subtitle : "");
	if (in->names == RENDER_NAMES_FULL)
		json_kv_string(j, "names", "full");
	json_kv_string(j, "type", in->type ? in->type : "");
	json_kv_double(j, "time", (double)in->time_ns / 1e9);
	json_kv_double(j, "seconds", (double)in->duration_ns / 1e9);
}

void render_page_done(struct render_page *page)
{
	bytes_done(&page->about);
	bytes_done(&page->tree);
}
