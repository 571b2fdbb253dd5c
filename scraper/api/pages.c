/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain pages: the frame of all of them, targets, configuration, flags, status. No script; everything from outside is escaped.
 */
#include "lib/base/clock.h"
#include "lib/base/version.h"
#include "lib/render/render.h"
#include "scraper/api/api_impl.h"
#include <inttypes.h>
#include <string.h>

static const char style[] =
	":root{color-scheme:light}\n"
	"body{font:14px/1.5 system-ui,\"DejaVu "
	"Sans\",sans-serif;margin:0;color:#1b1f24;background:#fff}\n"
	"header{background:#1f2933;color:#fff;padding:0 "
	"24px;display:flex;gap:8px;align-items:center;"
	"flex-wrap:wrap}\n"
	"header b{padding:12px 16px 12px 0;font-size:16px}\n"
	"header a{color:#cbd2d9;text-decoration:none;padding:12px 10px}\n"
	"header a:hover,header a.on{color:#fff;box-shadow:inset 0 -3px #f0b429}\n"
	"main{max-width:1240px;margin:20px auto;padding:0 24px}\n"
	"h1{font-size:20px;margin:8px 0 12px}h2{font-size:16px;margin:28px 0 8px}\n"
	"a{color:#0b66c3}code,pre,input,td.c{font-family:ui-monospace,\"DejaVu Sans "
	"Mono\",Menlo,Consolas,"
	"monospace;font-size:12.5px}\n"
	"table{border-collapse:collapse;width:100%}th{text-align:left;border-bottom:2px solid "
	"#d0d7de;"
	"padding:6px 10px;font-weight:600;white-space:nowrap}\n"
	"td{border-bottom:1px solid #eaeef2;padding:6px "
	"10px;vertical-align:top;overflow-wrap:anywhere}\n"
	"td.n{white-space:nowrap}pre{background:#f6f8fa;border:1px solid #d0d7de;border-radius:6px;"
	"padding:14px;overflow-x:auto;white-space:pre-wrap}\n"
	".l{display:inline-block;background:#eef2f6;border-radius:4px;padding:0 6px;margin:1px 3px "
	"1px 0;"
	"font-family:ui-monospace,\"DejaVu Sans Mono\",monospace;font-size:12px}\n"
	".up{color:#116329;background:#dafbe1}.down{color:#a40e26;background:#ffebe9}"
	".unknown{color:#57606a;background:#eaeef2}\n"
	".s{border-radius:10px;padding:1px 9px;font-weight:600;font-size:12px}\n"
	".e{color:#a40e26;background:#ffebe9;border:1px solid "
	"#ffcecb;border-radius:6px;padding:10px 14px;"
	"margin:12px 0;overflow-wrap:anywhere}\n"
	".m{color:#57606a}.dropped{opacity:.55}form{display:flex;gap:8px;flex-wrap:wrap;margin:8px "
	"0 4px}\n"
	"input,select,button{border:1px solid #afb8c1;border-radius:6px;padding:7px "
	"10px;background:#fff}\n"
	"input[name=query]{flex:1;min-width:420px}button{background:#0b66c3;color:#fff;"
	"border-color:#0b66c3;font-weight:600;cursor:pointer}\n"
	"svg{width:100%;height:auto;border:1px solid #d0d7de;border-radius:6px}\n";

void api_page_put(struct bytes *out, const char *text)
{
	render_escape_str(out, text);
}

void api_page_begin(struct api *a, struct bytes *out, const char *title, const char *active)
{
	static const struct {
		const char *path, *name;
	} links[] = {{"/", "Explore"}, {"/plain", "Query"}, {"/plain/targets", "Targets"},
		{"/plain/service-discovery", "Discovery"}, {"/plain/config", "Configuration"},
		{"/plain/flags", "Flags"}, {"/plain/status", "Status"}, {"/metrics", "Metrics"}};

	bytes_put_str(out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
	api_page_put(out, title);
	bytes_put_str(out, "</title>\n<style>\n");
	bytes_put_str(out, style);
	bytes_put_str(out, "</style></head><body>\n<header><b>Sonde</b>");
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		bytes_put_str(out, "<a href=\"");
		api_page_put(out, a->o.route_prefix);
		bytes_printf(out, "%s\"%s>%s</a>", links[i].path,
			!strcmp(links[i].path, active) ? " class=\"on\"" : "", links[i].name);
	}
	bytes_put_str(out, "</header>\n<main>\n");
}

void api_page_end(struct bytes *out)
{
	bytes_put_str(out, "</main></body></html>\n");
}

void api_page_reply(struct http_request *r, struct bytes *out)
{
	http_reply_header(r, "Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri "
		"'none'; "
		"frame-ancestors 'none'");
	http_reply_bytes(r, 200, "text/html; charset=utf-8", out);
}

void api_page_ago(struct bytes *out, int64_t then_ns, int64_t now_ns)
{
	char text[64];

	if (!then_ns) {
		bytes_put_str(out, "never");
		return;
	}
	render_value(MAX(now_ns - then_ns, 0) / NS_PER_MS, "milliseconds", text);
	api_page_put(out, text);
	bytes_put_str(out, " ago");
}

void api_page_labels(struct bytes *out, const struct labels *l)
{
	for (size_t i = 0; i < l->n; i++) {
		bytes_put_str(out, "<span class=\"l\">");
		api_page_put(out, l->items[i].name);
		bytes_put_str(out, "=&quot;");
		api_page_put(out, l->items[i].value);
		bytes_put_str(out, "&quot;</span>");
	}
}

/* ---- targets ---- */

struct target_page {
	struct bytes *out;
	int64_t now_ns;
	size_t n_active, n_up, n_dropped;
	bool dropped; /* which half is written */
};

static void put_health(struct bytes *out, enum api_health h)
{
	static const char *const names[] = {"unknown", "up", "down"};

	bytes_printf(out, "<span class=\"s %s\">%s</span>", names[h], names[h]);
}

static void put_error(struct bytes *out, const char *error)
{
	if (!error || !*error)
		return;
	bytes_put_str(out, "<div class=\"e\">");
	api_page_put(out, error);
	bytes_put_str(out, "</div>");
}

static void put_profiles(struct target_page *p, const struct api_target *t)
{
	for (size_t i = 0; i < t->n_profiles; i++) {
		const struct api_target_profile *f = &t->profiles[i];

		bytes_put_str(p->out, "<div>");
		put_health(p->out, f->health);
		bytes_put_str(p->out, " <code>");
		api_page_put(p->out, f->name);
		bytes_put_str(p->out, "</code> <span class=\"m\">");
		api_page_ago(p->out, f->last_scrape_ns, p->now_ns);
		bytes_put_str(p->out, "</span>");
		if (f->last_error && strcmp(f->last_error, t->last_error ? t->last_error : "") != 0)
			put_error(p->out, f->last_error);
		bytes_put_str(p->out, "</div>");
	}
}

static void put_active(struct target_page *p, const struct api_target *t)
{
	char text[64];

	p->n_active++;
	p->n_up += t->health == API_UP;
	bytes_put_str(p->out, "<tr><td class=\"n\">");
	api_page_put(p->out, t->pool);
	bytes_put_str(p->out, "</td><td class=\"c\">");
	api_page_put(p->out, t->url);
	put_error(p->out, t->last_error);
	if (t->collapsed && *t->collapsed) {
		bytes_put_str(p->out, "<div class=\"e\">label_set_limit: __other__ for ");
		api_page_put(p->out, t->collapsed);
		bytes_put_str(p->out, "</div>");
	}
	bytes_put_str(p->out, "</td><td>");
	put_health(p->out, t->health);
	bytes_put_str(p->out, "</td><td>");
	api_page_labels(p->out, t->labels);
	bytes_put_str(p->out, "</td><td class=\"n\">");
	api_page_ago(p->out, t->last_scrape_ns, p->now_ns);
	render_value(t->last_duration_ns, "nanoseconds", text);
	bytes_printf(p->out, "<br><span class=\"m\">took %s</span></td><td class=\"n\">", text);
	put_profiles(p, t);
	bytes_put_str(p->out, "</td></tr>\n");
}

static void put_target(const struct api_target *t, void *ctx)
{
	struct target_page *p = ctx;

	if (t->dropped != p->dropped)
		return;
	if (!t->dropped) {
		put_active(p, t);
		return;
	}
	p->n_dropped++;
	bytes_put_str(p->out, "<tr><td class=\"n\">");
	api_page_put(p->out, t->pool);
	bytes_put_str(p->out, "</td><td>");
	api_page_labels(p->out, t->discovered);
	bytes_put_str(p->out, "</td></tr>\n");
}

static void each_target(struct api *a, struct target_page *p)
{
	if (a->o.callbacks.each_target)
		a->o.callbacks.each_target(a->o.callbacks.arg, put_target, p);
}

void api_page_targets(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct bytes out = {};
	struct target_page p = {.out = &out, .now_ns = clock_realtime_ns(a->o.clock)};

	api_page_begin(a, &out, "Targets", "/plain/targets");
	bytes_put_str(&out,
		"<h1>Targets</h1><table><thead><tr><th>Job</th><th>URL</th><th>State</th>"
		"<th>Labels</th><th>Last scrape</th><th>Profiles</th></tr></thead><tbody>\n");
	each_target(a, &p);
	bytes_printf(&out, "</tbody></table><p class=\"m\">%zu targets, %zu up.</p>\n", p.n_active,
		p.n_up);
	p.dropped = true;
	bytes_put_str(&out, "<h2>Dropped by relabeling</h2><table><thead><tr><th>Job</th>"
			    "<th>Discovered labels</th></tr></thead><tbody>\n");
	each_target(a, &p);
	bytes_printf(&out, "</tbody></table><p class=\"m\">%zu dropped.</p>\n", p.n_dropped);
	api_page_end(&out);
	api_page_reply(r, &out);
}

/* ---- configuration, flags, status ---- */

void api_page_config(struct http_request *r, void *arg)
{
	_cleanup_bytes_ struct bytes yaml = {};
	struct api *a = arg;
	struct bytes out = {};

	if (a->o.callbacks.config_yaml)
		a->o.callbacks.config_yaml(a->o.callbacks.arg, &yaml);
	api_page_begin(a, &out, "Configuration", "/plain/config");
	bytes_put_str(&out, "<h1>Configuration</h1><pre>");
	render_escape(&out, yaml.data ? (const char *)yaml.data : "", yaml.len);
	bytes_put_str(&out, "</pre>\n");
	api_page_end(&out);
	api_page_reply(r, &out);
}

static void put_row(struct bytes *out, const char *name, const char *value)
{
	bytes_put_str(out, "<tr><td class=\"n\">");
	api_page_put(out, name);
	bytes_put_str(out, "</td><td class=\"c\">");
	api_page_put(out, value);
	bytes_put_str(out, "</td></tr>\n");
}

void api_page_flags(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct bytes out = {};

	api_page_begin(a, &out, "Flags", "/plain/flags");
	bytes_put_str(&out, "<h1>Command line</h1><table><tbody>\n");
	for (size_t i = 0; i < a->o.n_flags; i++)
		put_row(&out, a->o.flags[i].name, a->o.flags[i].value);
	bytes_put_str(&out, "</tbody></table>\n");
	api_page_end(&out);
	api_page_reply(r, &out);
}

static void put_count(struct bytes *out, const char *name, uint64_t v, const char *unit)
{
	char text[64];

	render_value(v > INT64_MAX ? INT64_MAX : (int64_t)v, unit, text);
	put_row(out, name, text);
}

static void put_store(struct bytes *out, const struct store_stats *s)
{
	char from[40], to[40];

	api_format_time(s->min_time_ns <= s->max_time_ns ? s->min_time_ns : 0, from);
	api_format_time(s->min_time_ns <= s->max_time_ns ? s->max_time_ns : 0, to);
	put_row(out, "Oldest profile", from);
	put_row(out, "Newest profile", to);
	put_row(out, "Ingest", s->stopped ? s->stop_reason : "running");
	put_count(out, "Profiles appended", s->appended_profiles, "count");
	put_count(out, "Rows appended", s->appended_rows, "count");
	put_count(out, "Head streams", s->head_streams, "count");
	put_count(out, "Head rows", s->head_rows, "count");
	put_count(out, "Head memory", s->head_bytes, "bytes");
	put_count(out, "WAL", s->wal_bytes, "bytes");
	put_count(out, "Blocks", s->blocks, "count");
	put_count(out, "Blocks on disk", s->block_bytes, "bytes");
	put_count(out, "Blocks in quarantine", s->blocks_quarantined, "count");
	put_count(out, "Compactions", s->compactions, "count");
	put_count(out, "Deletions not yet on disk", s->tombstones, "count");
	put_count(out, "Page cache", s->cache_bytes, "bytes");
}

static void put_quarantined(void *arg, const char *name, const char *reason)
{
	put_row(arg, name, reason);
}

static void put_quarantine(struct bytes *out, struct store *s)
{
	bytes_put_str(out, "<h1>Quarantine</h1><table><tbody>\n");
	if (store_each_quarantined(s, put_quarantined, out) < 0)
		put_row(out, "quarantine/", "cannot be read");
	bytes_put_str(out, "</tbody></table>\n");
}

void api_page_status(struct http_request *r, void *arg)
{
	struct api *a = arg;
	struct store_stats s = {};
	_cleanup_bytes_ struct bytes retention = {};
	struct bytes out = {}, quarantine = {};
	char time[40], reason[256] = "";
	bool open, ready;

	pthread_rwlock_rdlock(&a->lock);
	open = a->store != NULL;
	if (open)
		store_stats(a->store, &s);
	if (open && s.quarantine_bytes)
		put_quarantine(&quarantine, a->store);
	pthread_rwlock_unlock(&a->lock);
	ready = !a->o.callbacks.ready || a->o.callbacks.ready(a->o.callbacks.arg, reason);
	api_page_begin(a, &out, "Status", "/plain/status");
	bytes_put_str(&out, "<h1>Status</h1><table><tbody>\n");
	put_row(&out, "Version", a->o.version ? a->o.version : version_number());
	put_row(&out, "Revision", version_revision());
	put_row(&out, "Compiler", version_compiler());
	api_format_time(a->o.start_time_ns, time);
	put_row(&out, "Started", time);
	put_row(&out, "Ready", ready ? "yes" : reason);
	api_retention(a, &retention);
	put_row(&out, "Retention", (const char *)retention.data);
	if (open)
		put_store(&out, &s);
	bytes_put_str(&out, "</tbody></table>\n");
	bytes_put(&out, quarantine.data, quarantine.len);
	bytes_done(&quarantine);
	api_page_end(&out);
	api_page_reply(r, &out);
}
