/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages for people: the index, the list that /debug/pprof/ shows in any Go program, the flags. No script, no outside reference.
 */
#include "exporter/serve/internal.h"
#include "lib/base/version.h"
#include "lib/render/render.h"
#include <inttypes.h>
#include <string.h>

void serve_page_begin(struct bytes *out, const char *title)
{
	bytes_printf(out,
		"<!doctype html>\n<html lang=\"en\"><head><meta "
		"charset=\"utf-8\"><title>%s</title>\n"
		"<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem "
		"auto;max-width:60rem;padding:0 1rem;color:#222}"
		"table{border-collapse:collapse;margin:.5rem 0 "
		"1.5rem}td,th{text-align:left;padding:.15rem 1.2rem .15rem 0;"
		"vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}code{"
		"background:#f3f3f3;"
		"padding:0 .2rem}.warn{color:#a40000}h2{font-size:1.1rem;margin:1.5rem 0 "
		"0}</style></head><body>\n"
		"<h1>%s</h1>\n",
		title, title);
}

void serve_page_end(struct bytes *out)
{
	bytes_put_str(out, "</body></html>\n");
}

static void row(struct bytes *out, const char *name, const char *fmt, ...) _printf_(3, 4);

static void row(struct bytes *out, const char *name, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	bytes_put_str(out, "<tr><td>");
	render_escape_str(out, name);
	bytes_put_str(out, "</td><td class=\"n\">");
	render_escape_str(out, text);
	bytes_put_str(out, "</td></tr>\n");
}

static void put_type_links(const struct event_source *type, struct bytes *out)
{
	static const struct {
		const char *query, *text;
	} links[] = {
		{"seconds=10&amp;format=html", "Flame graph of the next 10 seconds"},
		{"since=&amp;format=html", "Flame graph of the last window"},
		{"since=&amp;debug=1", "The same as a table"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		bytes_printf(out, "<li><a href=\"debug/pprof/%s?%s\">%s</a> (%s)</li>\n",
			type->endpoint, links[i].query, links[i].text, type->name);
}

static void put_links(const struct serve *s, struct bytes *out)
{
	static const struct {
		const char *href, *text;
	} links[] = {
		{"debug/pprof/", "Profiles"},
		{"targets", "Processes as service discovery"},
		{"unwind", "How stacks end, by process and binary"},
		{"metrics", "Metrics"},
		{"flags", "Flags in force"},
	};
	const char *address = serve_address(s, 0);

	bytes_put_str(out, "<ul>\n");
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		if (profile_source_is_on(s->o.source, i))
			put_type_links(event_source(i), out);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		bytes_printf(out, "<li><a href=\"%s\">%s</a></li>\n", links[i].href, links[i].text);
	bytes_put_str(out, "</ul>\n<p><code>go tool pprof http://");
	render_escape_str(out, address ? address : "");
	bytes_put_str(out, "</code></p>\n");
}

static void put_rate(
	const struct event_source *type, const struct governor_rate *r, struct bytes *out)
{
	char rate[GOVERNOR_TEXT_BYTES], name[EVENT_NAME_MAX + 64];

	if (!r->is_governed)
		return;
	governor_describe(r, rate, sizeof(rate));
	snprintf(name, sizeof(name), "sampling rate of %s in force", type->name);
	row(out, name, "%s", rate);
	snprintf(name, sizeof(name), "what follows the sampling rate of %s", type->name);
	row(out, name, "%.4f %%", 100 * r->rate_ratio);
}

static void put_cost(const struct serve *s, const struct drain_stats *d, struct bytes *out)
{
	struct governor_stats g;

	governor_stats(s->o.source->governor, &g);
	bytes_put_str(out, "<h2>Own cost and coverage</h2>\n<table>\n");
	row(out, "own cost, share of all CPU time, last minute", "%.4f %%", 100 * g.overhead_ratio);
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		put_rate(event_source(i), &g.events[i], out);
	row(out, "CPU of the main role", "%.2f s", (double)d->main_cpu_ns / 1e9);
	row(out, "CPU of the keeper", "%.2f s", (double)d->keeper_cpu_ns / 1e9);
	row(out, "CPU of the parser", "%.2f s", (double)d->parser_cpu_ns / 1e9);
	row(out, "BPF programs", "%.2f s", (double)d->bpf_ns / 1e9);
	row(out, "sampled share of busy CPU time, last minute",
		d->coverage_ratio > 0 ? "%.1f %%" : "not known yet", 100 * d->coverage_ratio);
	row(out, "the same of the worst CPU",
		d->coverage_worst_ratio > 0 ? "%.1f %%" : "not known yet",
		100 * d->coverage_worst_ratio);
	row(out, "CPUs attached of those online", "%" PRIu32 " of %" PRIu32, d->n_attached,
		d->n_online);
	bytes_put_str(out, "</table>\n");
}

static void put_log_of(const struct event_source *type, const struct sample_log_stats *l,
	uint64_t ring_full, struct bytes *out)
{
	bytes_printf(out, "<h2>Sample log of %s</h2>\n<table>\n", type->name);
	row(out, "samples since start", "%" PRIu64, l->appended);
	row(out, "samples kept", "%" PRIu64, l->rows);
	row(out, "seconds kept", "%" PRIu64, l->slots);
	row(out, "dropped in the kernel: ring full", "%" PRIu64, ring_full);
	row(out, "dropped here: log full", "%" PRIu64, l->refused);
	row(out, "late", "%" PRIu64, l->late);
	row(out, "seconds lost to the size cap", "%" PRIu64, l->lost_seconds);
	bytes_put_str(out, "</table>\n");
}

static void put_logs(const struct serve *s, const struct drain_stats *d, struct bytes *out)
{
	struct sample_log_stats logs[ABI_N_EVENTS];
	struct proc_stats p;

	lock_take(s->o.source->lock);
	serve_log_stats_locked(s->o.source, logs);
	proc_table_stats(s->o.source->tables.procs, &p);
	lock_release(s->o.source->lock);
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		if (profile_source_is_on(s->o.source, i))
			put_log_of(event_source(i), &logs[i],
				d->events[i].counters[ABI_EVENT_COUNT_RING_FULL], out);
	bytes_printf(out, "<p>%" PRIu64 " processes tracked.</p>\n", p.tracked);
}

static void put_missing(const struct keeper_setup *setup, struct bytes *out)
{
	if (!setup->n_missing)
		return;
	bytes_put_str(out, "<h2 class=\"warn\">Missing, and what that costs</h2>\n<table>\n");
	for (uint32_t i = 0; i < setup->n_missing; i++) {
		bytes_put_str(out, "<tr><td>");
		render_escape_str(out, setup->missing[i].cap);
		bytes_put_str(out, "</td><td>");
		render_escape_str(out, setup->missing[i].effect);
		bytes_put_str(out, "</td></tr>\n");
	}
	bytes_put_str(out, "</table>\n");
}

void serve_index(struct http_request *r, void *arg)
{
	const struct serve *s = arg;
	struct drain_stats d;
	struct bytes out;

	drain_stats(s->o.drain, &d);
	bytes_init(&out, s->o.budget, 0);
	serve_page_begin(&out, "Sonde exporter");
	bytes_printf(&out, "<p>Version %s %s on ", version_number(), version_revision());
	render_escape_str(&out, labels_get(s->o.source->constants, PROFILE_LABEL_NODE));
	bytes_put_str(&out, "</p>\n");
	put_links(s, &out);
	put_missing(s->o.setup, &out);
	put_cost(s, &d, &out);
	serve_put_stacks(s, &out);
	put_logs(s, &d, &out);
	serve_put_hanging(s, &out);
	serve_page_end(&out);
	http_reply_bytes(r, 200, SERVE_PAGE_TYPE, &out);
}

static void put_type(const struct event_source *type, bool is_on, struct bytes *out)
{
	if (is_on)
		bytes_printf(out,
			"<tr><td><a href=\"%s\">%s</a></td><td>%s Parameters: seconds, since, "
			"span, hz, symbolize, format, %s.</td></tr>\n",
			type->endpoint, type->endpoint, type->description, profile_filter_names);
	else
		bytes_printf(out,
			"<tr><td>%s</td><td>%s Off: --profile.types does not name %s.</td></tr>\n",
			type->endpoint, type->description, type->name);
}

void serve_pprof_index(struct http_request *r, void *arg)
{
	const struct serve *s = arg;
	struct bytes out;

	bytes_init(&out, NULL, 0);
	serve_page_begin(&out, "/debug/pprof/");
	bytes_put_str(&out, "<p>Set debug=1 as a query parameter for text, format=html for a flame "
			    "graph.</p>\n<table>\n");
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		put_type(event_source(i), profile_source_is_on(s->o.source, i), &out);
	bytes_put_str(&out,
		"<tr><td><a href=\"cmdline\">cmdline</a></td><td>The command line of the "
		"exporter.</td></tr>\n"
		"<tr><td><a href=\"symbol\">symbol</a></td><td>Names are in the profiles; there is "
		"nothing to look up.</td></tr>\n");
	bytes_put_str(&out, "</table>\n");
	serve_page_end(&out);
	http_reply_bytes(r, 200, SERVE_PAGE_TYPE, &out);
}

void serve_flags(struct http_request *r, void *arg)
{
	const struct serve *s = arg;
	const struct option_program *program = s->o.program;
	struct bytes out;

	bytes_init(&out, s->o.budget, 0);
	serve_page_begin(&out, "Flags in force");
	bytes_put_str(&out, "<table>\n");
	for (size_t i = 0; i < program->n_specs; i++) {
		_cleanup_bytes_ struct bytes value = {.len = 0};

		if (program->specs[i].kind == OPTION_KIND_HEADING)
			continue;
		option_print_value(&program->specs[i], s->o.option_values, &value);
		bytes_printf(&out, "<tr><td>--%s</td><td>", program->specs[i].name);
		render_escape(&out, (const char *)value.data, value.len);
		bytes_put_str(&out, "</td></tr>\n");
	}
	bytes_put_str(&out, "</table>\n");
	serve_page_end(&out);
	http_reply_bytes(r, 200, SERVE_PAGE_TYPE, &out);
}
