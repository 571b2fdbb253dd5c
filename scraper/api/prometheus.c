/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/query, query_range, metadata, and what Prometheus' clients ask for beside them.
 */
#include "scraper/api/prometheus.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/instant.h"
#include "lib/base/str.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 11000 };

/* One request's expression and points. */
struct asked {
	struct promql_query query;
	int64_t start_ns, end_ns, step_ns;
	size_t n_points, limit;
	bool range;
};

/* ---- parameters ---- */

static int parse_time(struct http_request *r, const char *name, int64_t now_ns, bool required,
	int64_t *ret, struct errbuf *eb)
{
	const char *text = http_request_param(r, name);

	*ret = now_ns;
	if ((!text || !*text) && !required)
		return 0;
	if (!text || instant_parse(text, now_ns, ret, NULL) < 0)
		return err_set(eb, -EINVAL,
			"invalid parameter \"%s\": cannot parse \"%.40s\" to a valid timestamp",
			name, text ? text : "");
	/* Prometheus' times are milliseconds; a number of seconds in a double is a little off. */
	*ret = llround((double)(*ret % NS_PER_S) / 1e6) * NS_PER_MS + *ret / NS_PER_S * NS_PER_S;
	return 0;
}

/* Seconds, or a duration. */
static int parse_duration(struct http_request *r, const char *name, int64_t *ret, struct errbuf *eb)
{
	const char *text = http_request_param(r, name);
	double seconds;
	int64_t ms;

	if (text && str_parse_double(text, &seconds, NULL) == 0 && fabs(seconds) < 9e9) {
		*ret = llround(seconds * 1e9);
		return 0;
	}
	if (text && str_parse_duration_ms(text, &ms, NULL) == 0 && ms < 9000000000000) {
		*ret = ms * NS_PER_MS;
		return 0;
	}
	return err_set(eb, -EINVAL,
		"invalid parameter \"%s\": cannot parse \"%.40s\" to a valid duration", name,
		text ? text : "");
}

static int parse_range(struct http_request *r, int64_t now_ns, struct asked *a, struct errbuf *eb)
{
	int e = parse_time(r, "start", now_ns, true, &a->start_ns, eb);

	if (!e)
		e = parse_time(r, "end", now_ns, true, &a->end_ns, eb);
	if (!e && a->end_ns < a->start_ns)
		e = err_set(eb, -EINVAL,
			"invalid parameter \"end\": end timestamp must not be before start time");
	if (!e)
		e = parse_duration(r, "step", &a->step_ns, eb);
	if (e)
		return e;
	if (a->step_ns <= 0)
		return err_set(eb, -EINVAL,
			"invalid parameter \"step\": zero or negative query resolution step widths "
			"are "
			"not accepted. Try a positive integer");
	if (a->step_ns < NS_PER_MS)
		return err_set(eb, -EINVAL, "invalid parameter \"step\": must be at least 1ms");
	if ((a->end_ns - a->start_ns) / a->step_ns >= MAX_POINTS)
		return err_set(eb, -EINVAL,
			"exceeded maximum resolution of 11,000 points per timeseries. Try "
			"decreasing the "
			"query resolution (?step=XX)");
	a->n_points = (size_t)((a->end_ns - a->start_ns) / a->step_ns) + 1;
	return 0;
}

static int parse_asked(struct http_request *r, int64_t now_ns, struct asked *a, struct errbuf *eb)
{
	const char *text = http_request_param(r, "query");
	const char *limit = http_request_param(r, "limit");
	uint64_t most = 0;
	struct errbuf why = {};
	int e;

	if (a->range) {
		e = parse_range(r, now_ns, a, eb);
	} else {
		e = parse_time(r, "time", now_ns, false, &a->start_ns, eb);
		a->end_ns = a->start_ns;
		a->step_ns = NS_PER_S;
		a->n_points = 1;
	}
	if (e)
		return e;
	if (limit && *limit && str_parse_u64(limit, &most, NULL) < 0)
		return err_set(eb, -EINVAL,
			"invalid parameter \"limit\": cannot parse \"%.40s\" to a valid limit",
			limit);
	a->limit = most;
	e = promql_parse(text ? text : "", &a->query, &why);
	return e ? err_set(eb, e, "invalid parameter \"query\": %s", err_text(&why, e)) : 0;
}

/* ---- answers ---- */

static void put_point(struct json *j, int64_t ns, double v)
{
	json_array_begin(j);
	prometheus_put_time(j, ns);
	prometheus_put_value(j, v);
	json_array_end(j);
}

static void put_values(
	struct json *j, const struct asked *a, const double *values, const uint8_t *present)
{
	json_key(j, "values");
	json_array_begin(j);
	for (size_t k = 0; k < a->n_points; k++)
		if (!present || present[k])
			put_point(j, a->start_ns + (int64_t)k * a->step_ns, values[k]);
	json_array_end(j);
}

static void put_series(struct json *j, const struct asked *a, const struct promql_series *s)
{
	json_object_begin(j);
	api_put_labels(j, "metric", &s->labels);
	if (a->range) {
		put_values(j, a, s->values, s->present);
	} else {
		json_key(j, "value");
		put_point(j, a->start_ns, s->values[0]);
	}
	json_object_end(j);
}

static void put_result(struct json *j, const struct asked *a, const struct promql_value *v)
{
	bool scalar = v->type == PROMQL_SCALAR;
	size_t n = a->limit && a->limit < v->n_series ? a->limit : v->n_series;

	json_object_begin(j);
	json_kv_string(j, "resultType", a->range ? "matrix" : scalar ? "scalar" : "vector");
	json_key(j, "result");
	if (scalar && !a->range) {
		put_point(j, a->start_ns, v->scalar[0]);
		json_object_end(j);
		return;
	}
	json_array_begin(j);
	if (scalar) {
		json_object_begin(j);
		json_key(j, "metric");
		json_object_begin(j);
		json_object_end(j);
		put_values(j, a, v->scalar, NULL);
		json_object_end(j);
	}
	for (size_t i = 0; i < n; i++)
		put_series(j, a, &v->series[i]);
	json_array_end(j);
	json_object_end(j);
}

static int run(
	struct prometheus_query *p, struct asked *a, struct promql_value *ret, struct errbuf *eb)
{
	struct promql_run r = {.start_ns = a->start_ns,
		.step_ns = a->step_ns,
		.n_points = a->n_points,
		.arena = &p->arena,
		.cancel = p->q.env.cancel,
		.select = prometheus_select,
		.ctx = p};
	int e = 0;

	if (a->query.n_selectors)
		e = api_job_take(&p->q, prometheus_reads_from(&a->query, a->start_ns),
			a->start_ns + (int64_t)(a->n_points - 1) * a->step_ns, eb);
	return e ? e : promql_eval(&r, &a->query, ret, eb);
}

static void answer(struct http_request *r, struct api *api, bool range)
{
	struct prometheus_query p = {};
	_cleanup_promql_value_ struct promql_value v = {};
	_cleanup_bytes_ struct bytes out = {};
	struct asked a = {.range = range};
	struct errbuf eb = {};
	struct json j;
	int e;

	api_job_init(&p.q, r, api, range ? "query_range" : "query");
	arena_init(&p.arena, p.q.env.budget);
	e = parse_asked(r, clock_realtime_ns(api->o.clock), &a, &eb);
	if (!e)
		e = run(&p, &a, &v, &eb);
	if (e) {
		api_job_fail(&p.q, e, &eb);
	} else {
		api_job_json_begin(&p.q, &out, &j);
		put_result(&j, &a, &v);
		api_job_reply_json(&p.q, &j, &out);
	}
	promql_done(&a.query);
	arena_done(&p.arena);
	api_job_done(&p.q);
}

static void instant_work(struct http_request *r, void *arg)
{
	answer(r, arg, false);
}

static void range_work(struct http_request *r, void *arg)
{
	answer(r, arg, true);
}

/* On the http thread: `timeout` may shorten --query.timeout. */
static void begin(struct http_request *r, const struct api *a, http_handler_fn *work)
{
	const char *text = http_request_param(r, "timeout");
	struct errbuf eb = {};
	int64_t ns = 0;

	if (text && *text && parse_duration(r, "timeout", &ns, &eb) < 0) {
		api_reply_error(r, API_JSON, -EINVAL, eb.text);
		return;
	}
	if (ns > 0 && ns < a->o.query_timeout_ms * NS_PER_MS)
		http_job_set_deadline(r, clock_monotonic_ns(a->o.clock) + ns);
	http_job_run(r, work);
}

void api_prometheus_query(struct http_request *r, void *arg)
{
	begin(r, arg, instant_work);
}

void api_prometheus_query_range(struct http_request *r, void *arg)
{
	begin(r, arg, range_work);
}

/* ---- what there is ---- */

static void put_metric(struct json *j, const struct query_type *t)
{
	_cleanup_free_ char *help = NULL;

	if (t->kind == STORE_GAUGE)
		help = xasprintf("%s of the scraper, as of each scrape", t->name);
	else
		help = xasprintf("Profiled %s in %s, %s", t->sample_type, t->sample_unit,
			t->kind == STORE_DELTA ? "summed up" : "as of each scrape");

	json_key(j, t->metric);
	json_array_begin(j);
	json_object_begin(j);
	json_kv_string(j, "type", t->kind == STORE_DELTA ? "counter" : "gauge");
	json_kv_string(j, "help", help);
	json_kv_string(j, "unit", t->kind == STORE_GAUGE ? "" : t->sample_unit);
	json_object_end(j);
	json_array_end(j);
}

/* Metrics of the last day; `metric` chooses one, `limit` bounds them. */
void api_prometheus_metadata(struct http_request *r, void *arg)
{
	struct api *a = arg;
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_bytes_ struct bytes out = {};
	const char *metric = http_request_param(r, "metric"),
		   *limit = http_request_param(r, "limit");
	int64_t now = clock_realtime_ns(a->o.clock), most = INT64_MAX;
	_cleanup_query_type_list_ struct query_type_list types = {};
	struct errbuf eb = {};
	struct json j;
	int e = 0;

	api_job_init(&q, r, a, "metadata");
	if (limit && *limit && str_parse_i64(limit, &most, NULL) < 0)
		e = err_set(&eb, -EINVAL, "limit must be a number");
	if (most < 0)
		most = INT64_MAX;
	if (!e)
		e = api_job_take(&q, now - 86400 * NS_PER_S, now, &eb);
	if (!e)
		e = query_metrics(
			&(struct query_catalog) {
				.env = &q.env, .start_ns = now - 86400 * NS_PER_S, .end_ns = now},
			&types, &eb);
	if (e) {
		api_job_fail(&q, e, &eb);
		return;
	}
	api_job_json_begin(&q, &out, &j);
	json_object_begin(&j);
	for (size_t i = 0; i < types.n && most > 0; i++) {
		const struct query_type *t = &types.items[i];
		bool again = i && !strcmp(t->metric, t[-1].metric);

		if (again || (metric && *metric && strcmp(metric, t->metric) != 0))
			continue;
		put_metric(&j, t);
		most--;
	}
	json_object_end(&j);
	api_job_reply_json(&q, &j, &out);
}

/* The scraper has no rules; those of Prometheus stay there. */
static void reply_empty(struct http_request *r, const char *list)
{
	struct bytes out = {};
	struct json j;

	api_json_begin(&out, &j);
	if (list) {
		json_object_begin(&j);
		json_key(&j, list);
	}
	json_array_begin(&j);
	json_array_end(&j);
	if (list)
		json_object_end(&j);
	api_reply_json(r, &j, &out);
}

void api_prometheus_rules(struct http_request *r, void *arg)
{
	(void)arg;
	reply_empty(r, "groups");
}

void api_prometheus_alerts(struct http_request *r, void *arg)
{
	(void)arg;
	reply_empty(r, "alerts");
}

void api_prometheus_exemplars(struct http_request *r, void *arg)
{
	(void)arg;
	reply_empty(r, NULL);
}
