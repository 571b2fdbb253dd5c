/* SPDX-License-Identifier: Apache-2.0
 *
 * /pyroscope/render, /pyroscope/render-diff and /pyroscope/label-values: the endpoints that Profiles Drilldown reads beside the
 * querier. Plain JSON with plain integers, not protobuf's JSON; errors as those of the querier.
 */
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/instant.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include "lib/render/flamebearer.h"
#include "lib/render/render.h"
#include "scraper/api/connect.h"
#include "scraper/api/params.h"
#include <math.h>
#include <string.h>
#include <time.h>

enum {
	DOT_SOURCE_NODES = 512,
	DOT_NODES = 100,
	MIN_STEP_S = 15,
	MAX_TIMELINE = 1500,
	MAX_GROUPS = 100
};

struct page {
	struct api_job q;
	struct arena arena;
	struct bytes out;
	struct errbuf eb;
};

static void page_begin(struct page *p, struct http_request *r, struct api *a, const char *endpoint)
{
	api_job_init(&p->q, r, a, endpoint);
	arena_init(&p->arena, p->q.env.budget);
	bytes_init(&p->out, a->o.budget, 0); /* outlives the query's own budget */
}

static void page_end(struct page *p, int r, const char *type)
{
	struct errbuf text = {};

	if (!r && bytes_error(&p->out))
		r = api_job_too_large(&p->eb);
	if (!r)
		api_job_warn(&p->q, NULL);
	r = api_job_end(&p->q, r, &p->eb, &text);
	if (r)
		connect_reply_error(p->q.request, r, text.text);
	else
		http_reply_bytes(p->q.request, 200, type, &p->out);
	arena_done(&p->arena);
	bytes_done(&p->out);
	api_job_done(&p->q);
}

/* ---- parameters ---- */

/* now-1h with units s m min h d w M mon y; a month is 30 days, a year 365. */
static int parse_relative(const char *text, int64_t now_ns, int64_t *ret)
{
	static const struct {
		const char *unit;
		int64_t seconds;
	} units[] = {{"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"w", 7 * 86400},
		{"M", 30 * 86400}, {"mon", 30 * 86400}, {"y", 365 * 86400}};
	size_t digits = strspn(text, "0123456789");
	_cleanup_free_ char *number = xstrndup(text, digits);
	int64_t n;
	size_t i;

	if (str_parse_i64(number, &n, NULL) < 0 || n > 10000000)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(text + digits, units[i].unit))
			break;
	if (i == ARRAY_SIZE(units))
		return -EINVAL;
	*ret = instant_of_seconds(now_ns / NS_PER_S - n * units[i].seconds) + now_ns % NS_PER_S;
	return 0;
}

/* YYYYMMDD, midnight UTC. */
static int parse_day(const char *text, int64_t *ret)
{
	uint64_t n;
	struct tm tm = {};

	if (strlen(text) != 8 || str_parse_u64(text, &n, NULL) < 0 || n / 10000 < 1970 ||
		n / 100 % 100 < 1 || n / 100 % 100 > 12 || n % 100 < 1 || n % 100 > 31)
		return -EINVAL;
	tm.tm_year = (int)(n / 10000) - 1900;
	tm.tm_mon = (int)(n / 100 % 100) - 1;
	tm.tm_mday = (int)(n % 100);
	*ret = instant_of_seconds(timegm(&tm));
	return 0;
}

static int parse_time(const struct page *p, const char *name, const char *fallback, int64_t *ret,
	struct errbuf *eb)
{
	int64_t now = clock_realtime_ns(p->q.api->o.clock);
	const char *text = http_request_param(p->q.request, name);
	int r;

	if (!text || !*text)
		text = fallback;
	if (str_starts_with(text, "now-") && parse_relative(text + 4, now, ret) == 0)
		return 0;
	if (parse_day(text, ret) == 0)
		return 0;
	r = instant_parse(text, now, ret, eb);
	return r ? err_prefix(eb, r, "%s", name) : 0;
}

static int parse_side(struct page *p, const char *query, const char *from, const char *until,
	struct querier_merge *m)
{
	const char *text = http_request_param(p->q.request, query);
	int r;

	if (!text || !*text)
		return err_set(&p->eb, -EINVAL,
			"%s: missing; for example process_cpu:cpu:nanoseconds:cpu:nanoseconds{}",
			query);
	r = query_selector_parse(text, &m->selector, &p->eb);
	if (!r && !m->selector.has_type)
		r = err_set(&p->eb, -EINVAL,
			"names no profile type "
			"(name:sample_type:sample_unit:period_type:period_unit)");
	if (r)
		return err_prefix(&p->eb, r, "%s", query);
	r = parse_time(p, from, "now-1h", &m->start_ns, &p->eb);
	if (!r)
		r = parse_time(p, until, "now", &m->end_ns, &p->eb);
	if (!r && m->start_ns > m->end_ns)
		r = err_set(&p->eb, -EINVAL, "%s: is after %s", from, until);
	return r;
}

static int parse_nodes(struct page *p, size_t fallback, size_t *ret)
{
	const char *text = http_request_param(p->q.request, "max-nodes");
	int64_t n = 0;

	if (!text || !*text)
		text = http_request_param(p->q.request, "maxNodes");
	if (text && *text && str_parse_i64(text, &n, NULL) < 0)
		return err_set(&p->eb, -EINVAL, "max-nodes: \"%.40s\" is no whole number", text);
	return querier_max_nodes(p->q.api, n, fallback, ret, &p->eb);
}

/* ---- flame graphs ---- */

/* What clients take the numbers for: they divide "samples" by the rate. */
static const char *units_of(const struct query_type *t, int64_t *ret_rate)
{
	static const char *const objects[] = {
		"inuse_objects", "alloc_objects", "goroutine", "goroutines", "samples"};

	*ret_rate = 100;
	if (!strcmp(t->sample_type, "cpu")) {
		*ret_rate = NS_PER_S;
		return "samples";
	}
	for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
		if (!strcmp(t->sample_type, objects[i]))
			return "objects";
	return t->sample_unit;
}

static void put_graph(struct json *j, const struct flamebearer *f)
{
	json_key(j, "flamebearer");
	json_object_begin(j);
	json_key(j, "names");
	json_array_begin(j);
	for (size_t i = 0; i < f->n_names; i++)
		json_string(j, f->names[i]);
	json_array_end(j);
	json_key(j, "levels");
	json_array_begin(j);
	for (size_t i = 0; i < f->n_levels; i++) {
		json_array_begin(j);
		for (size_t k = 0; k < f->levels[i].n; k++)
			json_int(j, f->levels[i].values[k]);
		json_array_end(j);
	}
	json_array_end(j);
	json_kv_int(j, "numTicks", f->total);
	json_kv_int(j, "maxSelf", f->max_self);
	json_object_end(j);
}

static void put_metadata(struct json *j, const char *format, const struct query_type *t)
{
	int64_t rate;
	const char *units = units_of(t, &rate);

	json_key(j, "metadata");
	json_object_begin(j);
	json_kv_string(j, "format", format);
	json_kv_string(j, "spyName", "");
	json_kv_int(j, "sampleRate", rate);
	json_kv_string(j, "units", units);
	json_kv_string(j, "name", t->sample_type);
	json_object_end(j);
}

/* ---- values over time ---- */

/* A step that gives at most 1500 points, of those that people read easily. */
static int64_t timeline_step_s(int64_t range_ns)
{
	static const int64_t steps[] = {15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200,
		10800, 21600, 43200, 86400};
	int64_t least = range_ns / NS_PER_S / MAX_TIMELINE;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (steps[i] >= least)
			return steps[i];
	return (least / 86400 + 1) * 86400;
}

static void put_line(struct json *j, const struct query_line *l, const struct query_spec *s)
{
	size_t at = 0;

	json_object_begin(j);
	json_kv_int(j, "startTime", (s->start_ns - s->step_ns) / NS_PER_S);
	json_key(j, "samples");
	json_array_begin(j);
	for (int64_t t = s->start_ns; t <= s->end_ns; t += s->step_ns) {
		bool has = l && at < l->n_points && l->points[at].time_ns == t;

		json_int(j, has ? llround(l->points[at].value) : 0);
		at += has;
	}
	json_array_end(j);
	json_kv_int(j, "durationDelta", s->step_ns / NS_PER_S);
	json_key(j, "watermarks");
	json_object_begin(j);
	json_object_end(j);
	json_object_end(j);
}

static int over_time(struct page *p, const struct querier_merge *m, const char *group_by,
	struct query_matrix *ret, struct query_spec *spec)
{
	int64_t step = timeline_step_s(m->end_ns - m->start_ns) * NS_PER_S;

	*spec = (struct query_spec) {.selector = &m->selector,
		.start_ns = m->start_ns / step * step + step,
		.end_ns = (m->end_ns + step - 1) / step * step,
		.step_ns = step,
		.group_by = &group_by,
		.n_group_by = group_by != NULL,
		.group = true,
		.average = m->average,
		.max_groups = MAX_GROUPS};
	spec->end_ns = MAX(spec->end_ns, spec->start_ns);
	return query_over_time(&p->q.env, spec, ret, &p->eb);
}

static int put_timeline(struct page *p, const struct querier_merge *m, struct json *j)
{
	const char *group_by = http_request_param(p->q.request, "groupBy");
	_cleanup_query_matrix_ struct query_matrix all = {}, groups = {};
	struct query_spec spec;
	int r = over_time(p, m, NULL, &all, &spec);

	if (r)
		return r;
	json_key(j, "timeline");
	put_line(j, all.n_lines ? &all.lines[0] : NULL, &spec);
	json_key(j, "groups");
	json_object_begin(j);
	if (group_by && *group_by)
		r = over_time(p, m, group_by, &groups, &spec);
	for (size_t i = 0; i < groups.n_lines; i++) {
		json_key(j, labels_get(&groups.lines[i].labels, group_by));
		put_line(j, &groups.lines[i], &spec);
	}
	json_object_end(j);
	json_key(j, "heatmap");
	json_null(j);
	return r;
}

/* ---- the endpoints ---- */

static int render_dot_text(struct page *p, struct querier_merge *m)
{
	struct tree limited;
	struct render_input in = {.tree = &limited,
		.symbols = &m->trees.symbols,
		.type = m->trees.type.sample_type,
		.unit = m->trees.type.sample_unit};
	int r;

	if (m->functions.n <= 1)
		return 0;
	tree_init(&limited, p->q.env.budget);
	r = tree_limit(&m->functions, DOT_SOURCE_NODES, &limited, &p->eb);
	if (!r && render_dot(&in, DOT_NODES, &p->out) < 0)
		r = api_job_too_large(&p->eb);
	tree_done(&limited);
	return r;
}

static int render_json(struct page *p, struct querier_merge *m)
{
	struct flamebearer_side side = {&m->functions, &m->trees.symbols};
	struct json j = json_to(&p->out);
	struct flamebearer f;
	int r = flamebearer_single(&side, m->max_nodes, &p->arena, &f, &p->eb);

	if (r)
		return r;
	json_object_begin(&j);
	json_kv_int(&j, "version", 1);
	put_graph(&j, &f);
	put_metadata(&j, "single", &m->trees.type);
	r = put_timeline(p, m, &j);
	json_object_end(&j);
	return r;
}

void api_pyroscope_render(struct http_request *r, void *arg)
{
	_cleanup_querier_merge_ struct querier_merge m = {};
	const char *format = http_request_param(r, "format");
	const char *aggregation = http_request_param(r, "aggregation");
	bool dot = format && !strcmp(format, "dot");
	struct page p = {};
	int e = 0;

	page_begin(&p, r, arg, "render");
	m.average = aggregation && !strcmp(aggregation, "avg");
	if (aggregation && *aggregation && !m.average && strcmp(aggregation, "sum") != 0)
		e = err_set(&p.eb, -EINVAL, "aggregation: \"%.40s\" is neither sum nor avg",
			aggregation);
	else if (format && *format && !dot && strcmp(format, "json") != 0)
		e = err_set(&p.eb, -EINVAL, "format: \"%.40s\" is neither json nor dot", format);
	if (!e)
		e = parse_side(&p, "query", "from", "until", &m);
	if (!e)
		e = parse_nodes(&p, API_DEFAULT_NODES, &m.max_nodes);
	if (!e)
		e = querier_merge_run(&p.q, &m, true, &p.eb);
	if (!e)
		e = dot ? render_dot_text(&p, &m) : render_json(&p, &m);
	page_end(&p, e, dot ? "text/plain; charset=utf-8" : "application/json");
}

/* Type ids must be equal: values of different units cannot be compared. */
static int check_types(struct page *p, const struct querier_merge *a, const struct querier_merge *b)
{
	const struct query_type_id *x = &a->selector.type, *y = &b->selector.type;

	if (!strcmp(x->name, y->name) && !strcmp(x->sample_type, y->sample_type) &&
		!strcmp(x->sample_unit, y->sample_unit) &&
		!strcmp(x->period_type, y->period_type) && !strcmp(x->period_unit, y->period_unit))
		return 0;
	return err_set(&p->eb, -EINVAL, "leftQuery and rightQuery name different profile types");
}

static int diff(struct page *p, struct querier_merge *left, struct querier_merge *right)
{
	struct flamebearer_side a = {&left->functions, &left->trees.symbols};
	struct flamebearer_side b = {&right->functions, &right->trees.symbols};
	struct json j = json_to(&p->out);
	struct flamebearer f;
	int r = parse_side(p, "leftQuery", "leftFrom", "leftUntil", left);

	if (!r)
		r = parse_side(p, "rightQuery", "rightFrom", "rightUntil", right);
	if (!r)
		r = check_types(p, left, right);
	if (!r)
		r = parse_nodes(p, API_DEFAULT_NODES, &left->max_nodes);
	if (!r)
		r = api_job_take(&p->q, MIN(left->start_ns, right->start_ns),
			MAX(left->end_ns, right->end_ns), &p->eb);
	if (!r)
		r = querier_merge_run(&p->q, left, true, &p->eb);
	if (!r)
		r = querier_merge_run(&p->q, right, true, &p->eb);
	if (!r)
		r = flamebearer_double(&a, &b, left->max_nodes, &p->arena, &f, &p->eb);
	if (r)
		return r;
	json_object_begin(&j);
	json_kv_int(&j, "version", 1);
	put_graph(&j, &f);
	put_metadata(&j, "double", &left->trees.type);
	json_kv_int(&j, "leftTicks", f.left_ticks);
	json_kv_int(&j, "rightTicks", f.right_ticks);
	json_object_end(&j);
	return 0;
}

void api_pyroscope_diff(struct http_request *r, void *arg)
{
	_cleanup_querier_merge_ struct querier_merge left = {.compares = true};
	_cleanup_querier_merge_ struct querier_merge right = {.compares = true};
	struct page p = {};

	page_begin(&p, r, arg, "render-diff");
	page_end(&p, diff(&p, &left, &right), "application/json");
}

/* A plain array of the values of one label. */
void api_pyroscope_values(struct http_request *r, void *arg)
{
	const char *name = http_request_param(r, "label");
	_cleanup_query_strings_ struct query_strings values = {};
	_cleanup_query_selector_ struct query_selector all = {};
	struct page p = {};
	struct json j;
	int64_t from = 0, until = 0;
	int e = 0;

	page_begin(&p, r, arg, "label-values");
	if (!name || !*name)
		e = err_set(&p.eb, -EINVAL, "label: missing");
	if (!e)
		e = parse_time(&p, "from", "now-1h", &from, &p.eb);
	if (!e)
		e = parse_time(&p, "until", "now", &until, &p.eb);
	if (!e)
		e = querier_matchers(NULL, 0, &all, &p.eb);
	if (!e)
		e = api_job_take(&p.q, from, until, &p.eb);
	if (!e)
		e = query_label_values(&(struct query_catalog) {.env = &p.q.env,
					       .start_ns = from,
					       .end_ns = until,
					       .selectors = &all,
					       .n_selectors = 1},
			name, &values, &p.eb);
	j = json_to(&p.out);
	json_array_begin(&j);
	for (size_t i = 0; i < values.n; i++)
		json_string(&j, values.items[i]);
	json_array_end(&j);
	query_strings_done(&values); /* before the query's budget */
	page_end(&p, e, "application/json");
}
