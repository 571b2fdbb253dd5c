/* SPDX-License-Identifier: Apache-2.0
 *
 * The query page: what can be asked, the values over time, the flame graph, downloads. Links carry all state.
 */
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/units.h"
#include "lib/net/url/url.h"
#include "lib/render/render.h"
#include "scraper/api/api_impl.h"
#include "scraper/api/series.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_LABELS = 16,
	MAX_VALUES = 12,
	GRAPH_WIDTH = 1200,
	GRAPH_HEIGHT = 120,
	DEFAULT_SECONDS = 900
};

struct home {
	struct api_job q;
	struct bytes out;
	struct query_type_list types;
	char *default_query; /* owned; of the first type when none was asked for */
	int64_t seconds;
};

static void home_done(struct home *h)
{
	query_type_list_done(&h->types);
	api_job_done(&h->q);
	free(h->default_query);
	bytes_done(&h->out);
}

static void put_quoted(struct bytes *out, const char *s)
{
	bytes_put_u8(out, '"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			bytes_put_u8(out, '\\');
		if (*s == '\n')
			bytes_put_str(out, "\\n");
		else
			bytes_put_u8(out, (uint8_t)*s);
	}
	bytes_put_u8(out, '"');
}

/* The selector as text, with one more matcher name="value" in place of an older one on that name. */
static void print_selector(
	const struct query_selector *s, const char *name, const char *value, struct bytes *out)
{
	static const char *const ops[] = {"=", "!=", "=~", "!~"};
	bool first = true;

	if (s->has_type)
		bytes_printf(out, "%s:%s:%s:%s:%s", s->type.name, s->type.sample_type,
			s->type.sample_unit, s->type.period_type, s->type.period_unit);
	bytes_put_u8(out, '{');
	for (size_t i = 0; i < s->n_matchers; i++) {
		const struct query_matcher *m = &s->matchers[i];

		if (name && !strcmp(m->name, name))
			continue;
		bytes_put_str(out, first ? "" : ",");
		put_quoted(out, m->name);
		bytes_put_str(out, ops[m->op]);
		put_quoted(out, m->value);
		first = false;
	}
	if (name) {
		bytes_put_str(out, first ? "" : ",");
		put_quoted(out, name);
		bytes_put_u8(out, '=');
		put_quoted(out, value);
	}
	bytes_put_u8(out, '}');
}

/* path?query=…&seconds=N, escaped for an attribute (what url_escape_query leaves needs nothing more but &amp;). */
static void put_link(
	struct home *h, const char *path, const char *query, size_t n, const char *format)
{
	struct bytes *out = &h->out;

	api_page_put(out, h->q.api->o.route_prefix);
	bytes_printf(out, "%s?query=", path);
	url_escape_query(out, query, n);
	bytes_printf(out, "&amp;start=%" PRId64 "&amp;end=%" PRId64,
		(int64_t)(h->q.params.start_ns / NS_PER_S),
		(int64_t)((h->q.params.end_ns + NS_PER_S - 1) / NS_PER_S));
	if (format)
		bytes_printf(out, "&amp;format=%s", format);
	for (size_t i = 0; i < h->q.params.n_group_by; i++) {
		bytes_put_str(out, "&amp;group_by=");
		url_escape_query(out, h->q.params.group_by[i], strlen(h->q.params.group_by[i]));
	}
}

static void put_page_link(struct home *h, const char *query, size_t n)
{
	api_page_put(&h->out, h->q.api->o.route_prefix);
	bytes_put_str(&h->out, "/plain?query=");
	url_escape_query(&h->out, query, n);
	bytes_printf(&h->out, "&amp;seconds=%" PRId64, h->seconds);
}

static void put_form(struct home *h)
{
	static const struct {
		int64_t seconds;
		const char *name;
	} ranges[] = {{300, "5 minutes"}, {900, "15 minutes"}, {3600, "1 hour"}, {21600, "6 hours"},
		{86400, "1 day"}, {604800, "7 days"}};
	const char *query = h->q.params.query ? h->q.params.query : "";
	bool listed = false;

	bytes_put_str(&h->out, "<form action=\"");
	api_page_put(&h->out, h->q.api->o.route_prefix);
	bytes_put_str(&h->out, "/plain\"><input name=\"query\" aria-label=\"Selector\" value=\"");
	api_page_put(&h->out, query);
	bytes_put_str(&h->out,
		"\"><input name=\"group_by\" size=\"14\" placeholder=\"group by label\" "
		"aria-label=\"Group by\" value=\"");
	if (h->q.params.n_group_by)
		api_page_put(&h->out, h->q.params.group_by[0]);
	bytes_put_str(&h->out, "\"><select name=\"seconds\" aria-label=\"Range\">");
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		listed |= ranges[i].seconds == h->seconds;
		bytes_printf(&h->out, "<option value=\"%" PRId64 "\"%s>last %s</option>",
			ranges[i].seconds, ranges[i].seconds == h->seconds ? " selected" : "",
			ranges[i].name);
	}
	if (!listed)
		bytes_printf(&h->out,
			"<option value=\"%" PRId64 "\" selected>last %" PRId64 " s</option>",
			h->seconds, h->seconds);
	bytes_put_str(&h->out, "</select><button>Show</button></form>\n");
}

static void put_types(struct home *h)
{
	bytes_put_str(&h->out, "<p>");
	for (size_t i = 0; i < h->types.n; i++) {
		bytes_put_str(&h->out, "<span class=\"l\"><a href=\"");
		put_page_link(h, h->types.items[i].id, strlen(h->types.items[i].id));
		bytes_put_str(&h->out, "\">");
		api_page_put(&h->out, h->types.items[i].id);
		bytes_put_str(&h->out, "</a></span> ");
	}
	bytes_put_str(&h->out, "</p>\n");
}

/* ---- values over time ---- */

static void put_graph_labels(struct home *h, const struct query_matrix *m, double max, double per)
{
	bool is_sum = m->type.kind == STORE_DELTA;
	char text[UNITS_TEXT_MAX], unit[UNITS_NAME_MAX];

	api_rate_unit(&m->type, unit);
	units_text(is_sum ? max / per : max, unit, text);
	bytes_printf(&h->out, "<text x=\"6\" y=\"14\" font-size=\"11\" fill=\"#57606a\" "
			      "font-family=\"sans-serif\">max ");
	api_page_put(&h->out, text);
	bytes_printf(&h->out, ", one bar per %.0f s</text></svg>\n", per);
}

static void draw_graph(struct home *h, const struct query_matrix *m)
{
	const struct query_line *l = m->lines;
	int64_t range = h->q.params.end_ns - h->q.params.start_ns, step = h->q.params.step_ns;
	double max = 0, bar = (double)step / (double)range * GRAPH_WIDTH;

	for (size_t i = 0; i < l->n_points; i++)
		if (l->points[i].time_ns >
			h->q.params.start_ns) /* that one is of the time before */
			max = MAX(max, l->points[i].value);
	bytes_printf(&h->out,
		"<h2>Over time</h2><svg xmlns=\"http://www.w3.org/2000/svg\" "
		"viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n",
		GRAPH_WIDTH, GRAPH_HEIGHT, GRAPH_WIDTH, GRAPH_HEIGHT);
	for (size_t i = 0; i < l->n_points && max > 0; i++) {
		if (l->points[i].time_ns <= h->q.params.start_ns)
			continue;
		double x = (double)(l->points[i].time_ns - step - h->q.params.start_ns) /
			   (double)range * GRAPH_WIDTH;
		double height = MAX(l->points[i].value / max, 0) * (GRAPH_HEIGHT - 22);

		bytes_printf(&h->out,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
			"fill=\"#5aa9e6\"/>\n",
			x, GRAPH_HEIGHT - height, MAX(bar - 0.6, 0.5), height);
	}
	put_graph_labels(h, m, max, (double)step / 1e9);
}

static void put_graph(struct home *h)
{
	_cleanup_query_matrix_ struct query_matrix m = {};
	_cleanup_tree_symbols_ struct tree_symbols symbols;
	const struct tree_choice stacks = series_choice(&h->q.params);
	struct query_spec spec = series_spec(&h->q.params);

	tree_symbols_init(&symbols, h->q.env.budget);
	spec.stacks = &stacks;
	spec.symbols = &symbols;
	spec.group = true;
	if (query_over_time(&h->q.env, &spec, &m, NULL) == 0 && m.n_lines)
		draw_graph(h, &m);
}

/* ---- the flame graph and downloads ---- */

static void put_downloads(struct home *h)
{
	static const struct {
		const char *path, *format, *name;
	} links[] = {{"/api/v1/profile", NULL, "pprof"}, {"/api/v1/flamegraph", "html", "page"},
		{"/api/v1/flamegraph", "svg", "SVG"},
		{"/api/v1/flamegraph", "speedscope", "speedscope"},
		{"/api/v1/flamegraph", "folded", "folded stacks"},
		{"/api/v1/flamegraph", "dot", "DOT"}, {"/api/v1/top", "csv", "CSV"},
		{"/api/v1/top", "text", "top"}, {"/api/v1/flamegraph", "json", "JSON"},
		{"/api/v1/query_series", NULL, "series"}};
	const char *query = h->q.params.query;

	bytes_put_str(&h->out, "<p>Download: ");
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		bytes_put_str(&h->out, i ? " &middot; <a href=\"" : "<a href=\"");
		put_link(h, links[i].path, query, strlen(query), links[i].format);
		bytes_printf(&h->out, "\">%s</a>", links[i].name);
	}
	bytes_put_str(&h->out, "</p>\n");
}

static void put_error(struct home *h, int r, const struct errbuf *eb)
{
	bytes_put_str(&h->out, "<div class=\"e\">");
	api_page_put(&h->out, err_text(eb, r));
	bytes_put_str(&h->out, "</div>\n");
}

static void put_flamegraph(struct home *h)
{
	_cleanup_api_view_ struct api_view v = {};
	const struct render_svg_options opt = {
		.root_on_top = true, .min_width_px = 0.8, .max_depth = 96};
	struct render_input in;
	struct errbuf eb = {};
	int r = api_view_make(&h->q, &v, &eb);

	if (r) {
		put_error(h, r, &eb);
		return;
	}
	in = api_view_input(&h->q, &v);
	bytes_put_str(&h->out, "<h2>Flame graph</h2>\n");
	put_downloads(h);
	r = render_svg(&in, &opt, &h->out);
	if (r)
		put_error(h, r, NULL);
}

/* ---- labels ---- */

static void put_values(struct home *h, const char *name, const struct query_catalog *what)
{
	_cleanup_query_strings_ struct query_strings values = {};

	if (query_label_values(what, name, &values, NULL) < 0)
		return;
	bytes_put_str(&h->out, "<tr><td class=\"c n\">");
	api_page_put(&h->out, name);
	bytes_put_str(&h->out, "</td><td>");
	for (size_t i = 0; i < values.n && i < MAX_VALUES; i++) {
		_cleanup_bytes_ struct bytes query = {};

		print_selector(h->q.params.selectors, name, values.items[i], &query);
		bytes_put_str(&h->out, "<span class=\"l\"><a href=\"");
		put_page_link(h, (const char *)query.data, query.len);
		bytes_put_str(&h->out, "\">");
		api_page_put(&h->out, values.items[i]);
		bytes_put_str(&h->out, "</a></span>");
	}
	if (values.n > MAX_VALUES)
		bytes_printf(
			&h->out, " <span class=\"m\">and %zu more</span>", values.n - MAX_VALUES);
	bytes_put_str(&h->out, "</td></tr>\n");
}

static void put_labels(struct home *h)
{
	_cleanup_query_strings_ struct query_strings names = {};
	/* Values of the whole type, not only of what is selected: a link replaces a matcher. */
	struct query_selector base = *h->q.params.selectors;
	struct query_catalog what = api_job_catalog(&h->q);
	size_t shown = 0;

	what.selectors = &base;
	what.terms = QUERY_PROFILE_TERMS;
	if (base.has_type)
		base.n_matchers = 0;
	if (query_label_names(&what, &names, NULL) < 0)
		return;
	bytes_put_str(&h->out, "<h2>Labels</h2><table><tbody>\n");
	for (size_t i = 0; i < names.n && shown < MAX_LABELS; i++) {
		if (!strncmp(names.items[i], "__", 2))
			continue;
		put_values(h, names.items[i], &what);
		shown++;
	}
	bytes_put_str(&h->out, "</tbody></table>\n");
}

/* ---- targets ---- */

static void put_target(const struct api_target *t, void *ctx)
{
	static const char *const names[] = {"unknown", "up", "down"};
	struct home *h = ctx;

	if (t->dropped)
		return;
	bytes_put_str(&h->out, "<tr><td class=\"n\">");
	api_page_put(&h->out, t->pool);
	bytes_put_str(&h->out, "</td><td class=\"c\">");
	api_page_put(&h->out, t->url);
	bytes_printf(&h->out, "</td><td><span class=\"s %s\">%s</span></td><td class=\"n\">",
		names[t->health], names[t->health]);
	api_page_ago(&h->out, t->last_scrape_ns, clock_realtime_ns(h->q.api->o.clock));
	bytes_put_str(&h->out, "</td><td>");
	api_page_put(&h->out, t->last_error ? t->last_error : "");
	bytes_put_str(&h->out, "</td></tr>\n");
}

static void put_targets(struct home *h)
{
	const struct api_callbacks *c = &h->q.api->o.callbacks;

	bytes_put_str(&h->out,
		"<h2>Targets</h2><table><thead><tr><th>Job</th><th>URL</th><th>State</th>"
		"<th>Last scrape</th><th>Error</th></tr></thead><tbody>\n");
	if (c->each_target)
		c->each_target(c->arg, put_target, h);
	bytes_put_str(&h->out, "</tbody></table>\n");
}

/* ---- the page ---- */

/* The selector asked for, or the first type's. */
static int choose_query(struct home *h, struct errbuf *eb)
{
	struct api_params *p = &h->q.params;
	int r;

	if (p->query || !h->types.n)
		return 0;
	h->default_query = xasprintf("%s{}", h->types.items[0].id);
	r = query_selector_parse(h->default_query, &p->selectors[0], eb);
	if (r)
		return r;
	p->n_selectors = 1;
	p->query = h->default_query;
	return 0;
}

static void put_warnings(struct home *h)
{
	char text[API_WARNINGS_BYTES];

	api_job_warnings(&h->q, text);
	if (!*text)
		return;
	bytes_put_str(&h->out, "<p class=\"e\">");
	api_page_put(&h->out, text);
	bytes_put_str(&h->out, "</p>\n");
}

static void put_body(struct home *h)
{
	struct api_params *p = &h->q.params;
	struct errbuf eb = {};
	int r = query_types(
		&(struct query_catalog) {
			.env = &h->q.env, .start_ns = p->start_ns, .end_ns = p->end_ns},
		&h->types, &eb);

	if (!r)
		r = choose_query(h, &eb);
	put_form(h);
	put_types(h);
	if (r)
		put_error(h, r, &eb);
	else if (!p->query)
		bytes_put_str(&h->out, "<p class=\"m\">No profiles in this range yet.</p>\n");
	if (r || !p->query)
		return;
	put_graph(h);
	put_flamegraph(h);
	put_labels(h);
	put_warnings(h);
}

void api_page_home(struct http_request *r, void *arg)
{
	_cleanup_(home_done)
	struct home h = {};
	bool has_range = http_request_param(r, "seconds") || http_request_param(r, "start");
	struct errbuf eb = {};
	struct bytes out;
	int e = api_job_start(&h.q, r, arg, "page", API_HTML, &eb);

	if (!e && !has_range)
		h.q.params.start_ns = h.q.params.end_ns - DEFAULT_SECONDS * NS_PER_S;
	h.seconds =
		e ? DEFAULT_SECONDS : MAX((h.q.params.end_ns - h.q.params.start_ns) / NS_PER_S, 1);
	h.q.params.step_ns = MAX((int64_t)h.seconds / 200, 15) * NS_PER_S;
	h.q.format = API_SVG; /* pictures have no node limit */
	api_page_begin(arg, &h.out, "Profiles", "/plain");
	if (e) {
		put_form(&h);
		put_error(&h, e, &eb);
	} else {
		put_body(&h);
	}
	put_targets(&h);
	api_page_end(&h.out);
	api_job_count(&h.q);
	out = h.out;
	h.out = (struct bytes) {};
	api_page_reply(r, &out);
}
