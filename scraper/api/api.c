/* SPDX-License-Identifier: Apache-2.0
 *
 * The API's life, its routes, and the frame that every query runs in: parameters, parts, budget, reply, metrics.
 */
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/render/render.h"
#include "scraper/api/answers.h"
#include "scraper/api/api_impl.h"
#include <inttypes.h>
#include <string.h>

static const struct http_route routes[] = {
	{HTTP_GET | HTTP_POST, "/api/v1/flamegraph", api_flamegraph, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/top", api_top, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/profile", api_profile, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/diff", api_diff, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/query_series", api_query_series, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/quality", api_quality, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/top_series", api_top_series, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/lines", api_lines, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/source", api_source, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/profiles", api_profiles, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/profile_types", api_profile_types, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/labels", api_labels, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/api/v1/label/*/values", api_label_values, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/series", api_series, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/query", api_prometheus_query, 0, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/query_range", api_prometheus_query_range, 0, 0},
	{HTTP_GET, "/api/v1/metadata", api_prometheus_metadata, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/api/v1/rules", api_prometheus_rules, 0, 0},
	{HTTP_GET, "/api/v1/alerts", api_prometheus_alerts, 0, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/query_exemplars", api_prometheus_exemplars, 0, 0},
	{HTTP_POST | HTTP_PUT, "/api/v1/import", api_import,
		HTTP_ON_WORKER | HTTP_CHANGES_STATE | HTTP_RAW_BODY, 0},
	{HTTP_GET, "/api/v1/targets", api_targets, HTTP_ON_WORKER | HTTP_MONITORING, 0},
	{HTTP_GET, "/api/v1/scrape_pools", api_scrape_pools, HTTP_ON_WORKER | HTTP_MONITORING, 0},
	{HTTP_GET, "/api/v1/scrape_pools/config", api_scrape_pool_config, HTTP_ON_WORKER, 0},
	{HTTP_GET | HTTP_POST, "/api/v1/targets/relabel_steps", api_relabel_steps, HTTP_ON_WORKER,
		0},
	{HTTP_GET, "/api/v1/status/walreplay", api_walreplay, HTTP_MONITORING, 0},
	{HTTP_GET, "/api/v1/status/config", api_status_config, HTTP_ON_WORKER | HTTP_MONITORING, 0},
	{HTTP_GET, "/api/v1/status/flags", api_status_flags, HTTP_MONITORING, 0},
	{HTTP_GET, "/api/v1/status/runtimeinfo", api_runtimeinfo, HTTP_ON_WORKER | HTTP_MONITORING,
		0},
	{HTTP_GET, "/api/v1/status/buildinfo", api_buildinfo, HTTP_MONITORING, 0},
	{HTTP_GET, "/api/v1/status/tsdb", api_tsdb, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/api/v1/status/tsdb/blocks", api_tsdb_blocks, HTTP_ON_WORKER | HTTP_MONITORING,
		0},
	{HTTP_POST | HTTP_PUT, "/api/v1/admin/tsdb/snapshot", api_admin_snapshot,
		HTTP_ON_WORKER | HTTP_CHANGES_STATE, 0},
	{HTTP_POST | HTTP_PUT, "/api/v1/admin/tsdb/delete_series", api_admin_delete_series,
		HTTP_ON_WORKER | HTTP_CHANGES_STATE, 0},
	{HTTP_POST | HTTP_PUT, "/api/v1/admin/tsdb/clean_tombstones", api_admin_clean_tombstones,
		HTTP_ON_WORKER | HTTP_CHANGES_STATE, 0},
	{HTTP_GET, "/metrics", api_metrics, HTTP_ON_WORKER | HTTP_MONITORING, 0},
	{HTTP_GET, "/-/healthy", api_healthy, HTTP_MONITORING, 0},
	{HTTP_GET, "/-/ready", api_ready, HTTP_MONITORING, 0},
	{HTTP_GET, "/ready", api_ready, HTTP_MONITORING, 0},
	{HTTP_POST | HTTP_PUT, "/-/reload", api_reload, HTTP_ON_WORKER | HTTP_CHANGES_STATE, 0},
	{HTTP_POST | HTTP_PUT, "/-/quit", api_quit, HTTP_ON_WORKER | HTTP_CHANGES_STATE, 0},
	{HTTP_POST, "/querier.v1.QuerierService/*", api_connect, HTTP_RAW_BODY, 0},
	{HTTP_POST, "/settings.v1.SettingsService/Get", api_connect, HTTP_RAW_BODY, 0},
	{HTTP_POST, "/settings.v1.SettingsService/*", api_connect,
		HTTP_RAW_BODY | HTTP_CHANGES_STATE, 0},
	/* Services that are not there say so the way their clients understand. */
	{HTTP_POST, "/settings.v1.RecordingRulesService/*", api_connect, HTTP_RAW_BODY, 0},
	{HTTP_POST, "/adhocprofiles.v1.AdHocProfileService/*", api_connect, HTTP_RAW_BODY, 0},
	{HTTP_POST, "/vcs.v1.VCSService/*", api_connect, HTTP_RAW_BODY, 0},
	{HTTP_POST, "/capabilities.v1.FeatureFlagsService/*", api_connect, HTTP_RAW_BODY, 0},
	{HTTP_GET, "/pyroscope/render", api_pyroscope_render, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/pyroscope/render-diff", api_pyroscope_diff, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/pyroscope/label-values", api_pyroscope_values, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/compare", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/functions", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/files", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/lines", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/profiles", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/targets", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/service-discovery", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/config", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/flags", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/health", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/status", api_ui_page, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/assets/*", api_ui_asset, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/speedscope/*", api_speedscope, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/plain", api_page_home, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/plain/targets", api_page_targets, HTTP_ON_WORKER | HTTP_MONITORING, 0},
	{HTTP_GET, "/plain/service-discovery", api_page_discovery, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/plain/config", api_page_config, HTTP_ON_WORKER | HTTP_MONITORING, 0},
	{HTTP_GET, "/plain/flags", api_page_flags, HTTP_MONITORING, 0},
	{HTTP_GET, "/plain/status", api_page_status, HTTP_ON_WORKER | HTTP_MONITORING, 0},
};

const struct http_route *api_routes(const struct api *a, size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(routes);
	return a->routes;
}

static void make_routes(struct api *a)
{
	a->routes = xcalloc(ARRAY_SIZE(routes), sizeof(*a->routes));
	memcpy(a->routes, routes, sizeof(routes));
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
		if (routes[i].handler == api_import)
			a->routes[i].max_body_bytes =
				(uint32_t)MIN(a->o.max_body_bytes, (uint64_t)UINT32_MAX);
}

static const double duration_bounds[] = {0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60};

int api_new(const struct api_options *o, struct api **ret, struct errbuf *eb)
{
	struct api *a = xcalloc(1, sizeof(*a));

	a->o = *o;
	if (!a->o.query_timeout_ms)
		a->o.query_timeout_ms = 120000;
	if (!a->o.max_nodes)
		a->o.max_nodes = 1048576;
	if (!a->o.route_prefix)
		a->o.route_prefix = "";
	if (!a->o.max_source_bytes)
		a->o.max_source_bytes = 4 << 20;
	if (!a->o.max_body_bytes)
		a->o.max_body_bytes = 32 << 20;
	if (!a->o.max_inflated_bytes)
		a->o.max_inflated_bytes = 256 << 20;
	if (pthread_rwlock_init(&a->lock, NULL) != 0) {
		free(a);
		return err_set(eb, -ENOMEM, "cannot make a lock");
	}
	lock_init(&a->settings_lock);
	a->answers = answers_new(o->cache_budget, o->metrics);
	make_routes(a);
	if (o->metrics) {
		a->imports = metric_only(
			metrics_counter(o->metrics, "sonde_imports_total", "Imports begun.", NULL));
		a->import_failures = metrics_counter(o->metrics, "sonde_import_failures_total",
			"Imports that were refused, by reason.", "reason");
		a->queries = metrics_counter(o->metrics, "sonde_queries_total",
			"Queries begun, by endpoint.", "endpoint");
		a->failures = metrics_counter(o->metrics, "sonde_query_failures_total",
			"Queries that failed, by reason.", "reason");
		a->duration = metrics_histogram(o->metrics, "sonde_query_duration_seconds",
			"Time from a query's parameters to its reply.", "endpoint", duration_bounds,
			ARRAY_SIZE(duration_bounds));
		a->sources_too_large =
			metric_only(metrics_counter(o->metrics, "sonde_sources_too_large_total",
				"Source files that --symbols.source-max-bytes refused.", NULL));
		a->rows = metric_only(metrics_counter(
			o->metrics, "sonde_query_rows_total", "Rows read by queries.", NULL));
		a->profiles = metric_only(metrics_counter(o->metrics, "sonde_query_profiles_total",
			"Profiles read by queries.", NULL));
	}
	*ret = a;
	return 0;
}

void api_freep(struct api **a)
{
	if (!*a)
		return;
	pthread_rwlock_destroy(&(*a)->lock);
	lock_done(&(*a)->settings_lock);
	answers_freep(&(*a)->answers);
	free((*a)->routes);
	free(*a);
	*a = NULL;
}

void api_set_store(struct api *a, struct store *s)
{
	pthread_rwlock_wrlock(&a->lock);
	a->store = s;
	pthread_rwlock_unlock(&a->lock);
}

/* ---- replies ---- */

static const struct {
	int error;
	const char *type;
	unsigned code;
} error_types[] = {
	{-EINVAL, "bad_data", 400},
	{-ENOENT, "not_found", 404},
	{-ENOMEM, "execution", 422},
	{-EFBIG, "execution", 422},
	{-ENOTSUP, "execution", 422},
	{-EDOM, "execution", 422},
	{-ETIMEDOUT, "timeout", 503},
	{-ECANCELED, "canceled", 503},
	{-EAGAIN, "unavailable", 503},
	{-EPERM, "forbidden", 403},
	{-EEXIST, "conflict", 409},
	{-ERANGE, "timestamp", 422},
	{-ENOSPC, "unavailable", 503},
	{0, "internal", 500},
};

static size_t error_type(int error)
{
	size_t i = 0;

	while (error_types[i].error && error_types[i].error != error)
		i++;
	return i;
}

const char *api_error_type(int error)
{
	return error_types[error_type(error)].type;
}

void api_reply_error(struct http_request *r, enum api_format format, int error, const char *text)
{
	size_t t = error_type(error);
	struct bytes out = {};
	struct json j = json_to(&out);

	if (format != API_JSON) {
		http_reply_header(r, "X-Go-Pprof", "1");
		http_reply_text(r, error_types[t].code, "%s", text);
		return;
	}
	json_object_begin(&j);
	json_kv_string(&j, "status", "error");
	json_kv_string(&j, "errorType", error_types[t].type);
	json_kv_string(&j, "error", text);
	json_object_end(&j);
	http_reply_bytes(r, error_types[t].code, "application/json", &out);
}

void api_json_begin(struct bytes *out, struct json *ret)
{
	*ret = json_to(out);
	json_object_begin(ret);
	json_kv_string(ret, "status", "success");
	json_key(ret, "data");
}

void api_reply_json(struct http_request *r, struct json *j, struct bytes *out)
{
	json_object_end(j);
	http_reply_bytes(r, 200, "application/json", out);
}

void api_rate_unit(const struct query_type *t, char ret[UNITS_NAME_MAX])
{
	units_rate(t->sample_type, t->sample_unit, t->kind != STORE_DELTA, ret);
}

void api_put_labels(struct json *j, const char *key, const struct labels *l)
{
	if (key)
		json_key(j, key);
	json_object_begin(j);
	for (size_t i = 0; i < l->n; i++)
		json_kv_string(j, l->items[i].name, l->items[i].value);
	json_object_end(j);
}

/* ---- queries ---- */

/* The parts that hold profiles of the range. A profile's time is its window's end, so the range is open to later ones. */
int api_job_take(struct api_job *q, int64_t from_ns, int64_t until_ns, struct errbuf *eb)
{
	char reason[256] = "the store is not open";
	int r;

	q->from_ns = from_ns;
	q->until_ns = until_ns;
	pthread_rwlock_rdlock(&q->api->lock);
	q->locked = true;
	if (!q->api->store) {
		if (q->api->o.callbacks.ready)
			q->api->o.callbacks.ready(q->api->o.callbacks.arg, reason);
		return err_set(eb, -EAGAIN, "not ready: %s", reason);
	}
	r = store_parts_get(q->api->store, from_ns, INT64_MAX, &q->parts);
	q->env.parts = q->parts.items;
	q->env.n_parts = q->parts.n;
	return r ? err_set(eb, r, "reading the store: %s", err_text(NULL, r)) : 0;
}

/* Refusals of the budgets that a query charges. */
static uint64_t refusals(const struct api *a)
{
	uint64_t n = 0;

	for (const struct budget *b = a->o.budget; b; b = b->parent)
		n += b->refused_total;
	return n;
}

struct query_catalog api_job_catalog(struct api_job *q)
{
	const struct api_params *p = &q->params;

	return (struct query_catalog) {.env = &q->env,
		.start_ns = p->start_ns,
		.end_ns = p->end_ns,
		.selectors = p->selectors,
		.n_selectors = p->n_selectors,
		.terms = p->terms};
}

void api_job_resume(struct api_job *q, struct http_request *r, struct api *a, const char *endpoint,
	int64_t begun_ns)
{
	*q = (struct api_job) {.api = a,
		.request = r,
		.endpoint = endpoint,
		.source = "run",
		.begun_ns = begun_ns};
	q->refusals = refusals(a);
	budget_init(&q->budget, a->o.budget, "query", "--query.max-bytes", a->o.max_query_bytes);
	q->env.budget = &q->budget;
	q->env.workers = a->o.workers;
	q->env.cancel = http_job_cancel_flag(r);
}

void api_job_init(struct api_job *q, struct http_request *r, struct api *a, const char *endpoint)
{
	api_job_resume(q, r, a, endpoint, clock_monotonic_ns(a->o.clock));
	/* one that waited in vain for another one's answer was counted when it came */
	if (a->queries && !http_request_data(r))
		metric_inc(metric_cell(a->queries, endpoint));
}

int api_job_start(struct api_job *q, struct http_request *r, struct api *a, const char *endpoint,
	enum api_format fallback, struct errbuf *eb)
{
	const struct url_params *u = http_request_params(r);
	int64_t from;
	int e;

	api_job_init(q, r, a, endpoint);
	q->format = api_format_of(u, fallback);
	e = api_params_parse(
		u, clock_realtime_ns(a->o.clock), fallback, a->o.max_nodes, &q->params, eb);
	if (e)
		return e;
	if (__builtin_sub_overflow(q->params.start_ns, q->params.step_ns, &from))
		from = INT64_MIN;
	return api_job_take(q, from, q->params.end_ns, eb);
}

int api_job_begin(struct api_job *q, struct http_request *r, struct api *a, const char *endpoint,
	enum api_format fallback)
{
	struct errbuf eb = {};
	int e = api_job_start(q, r, a, endpoint, fallback, &eb);

	if (e) {
		api_job_fail(q, e, &eb);
		return e;
	}
	return api_job_share(
		q, (const int64_t[]) {q->params.start_ns, q->params.end_ns}, 2, q->params.end_ns);
}

/* Gives the parts back before the reply is sent: a slow reader must not hold the store. */
static void release(struct api_job *q)
{
	struct api *a = q->api;

	if (q->parts.items)
		store_parts_put(a->store, &q->parts);
	if (q->locked)
		pthread_rwlock_unlock(&a->lock);
	q->locked = false;
	q->parts = (struct store_parts) {};
	q->env.n_parts = 0;
}

void api_job_done(struct api_job *q)
{
	if (q->run)
		answers_fail(q->api->answers, &q->run, -ECANCELED, "");
	release(q);
	api_params_done(&q->params);
}

int api_params_one_selector(const struct api_params *p, struct errbuf *eb)
{
	if (!p->query)
		return err_set(eb, -EINVAL,
			"query: missing; for example "
			"process_cpu:cpu:nanoseconds:cpu:nanoseconds{}");
	return p->n_selectors == 1 ? 0 : err_set(eb, -EINVAL, "query: more than one");
}

int api_job_one_selector(const struct api_job *q, struct errbuf *eb)
{
	return api_params_one_selector(&q->params, eb);
}

int api_job_widen(struct api_job *q, int64_t from_ns, int64_t until_ns, struct errbuf *eb)
{
	int r;

	q->from_ns = from_ns;
	q->until_ns = until_ns;
	store_parts_put(q->api->store, &q->parts);
	q->parts = (struct store_parts) {};
	q->env.n_parts = 0;
	r = store_parts_get(q->api->store, from_ns, INT64_MAX, &q->parts);
	q->env.parts = q->parts.items;
	q->env.n_parts = q->parts.n;
	return r ? err_set(eb, r, "reading the store: %s", err_text(NULL, r)) : 0;
}

static double elapsed(const struct api_job *q)
{
	return (double)(clock_monotonic_ns(q->api->o.clock) - q->begun_ns) / 1e9;
}

void api_job_count(struct api_job *q)
{
	struct api *a = q->api;

	if (!a->duration)
		return;
	metric_observe(metric_cell(a->duration, q->endpoint), elapsed(q));
	metric_add(a->rows, (double)q->env.stats.rows);
	metric_add(a->profiles, (double)q->env.stats.profiles);
}

/* Adds the limit and its flag to the text of a failure that a budget caused, unless it is there already. */
static void name_limit(const struct api_job *q, int r, const struct errbuf *eb, struct errbuf *ret)
{
	const struct budget *b = q->api->o.budget;

	snprintf(ret->text, sizeof(ret->text), "%s", err_text(eb, r));
	if (r == -ENOMEM && q->budget.refused_total && !strstr(ret->text, "--"))
		err_set(ret, r, "%.300s: --query.max-bytes allows %" PRIu64 " bytes for one query",
			err_text(eb, r), q->budget.limit_bytes);
	else if (r == -ENOMEM && b && refusals(q->api) != q->refusals && !strstr(ret->text, "--"))
		err_set(ret, r,
			"%.300s: --query.max-memory allows %" PRIu64 " bytes for all queries",
			err_text(eb, r), b->limit_bytes);
}

int api_job_end(struct api_job *q, int r, const struct errbuf *eb, struct errbuf *ret)
{
	if (r == -ECANCELED && elapsed(q) * 1000 >= (double)q->api->o.query_timeout_ms)
		r = -ETIMEDOUT;
	if (r && q->api->failures)
		metric_inc(metric_cell(q->api->failures, error_types[error_type(r)].type));
	api_job_count(q);
	release(q);
	if (r) {
		name_limit(q, r, eb, ret);
		answers_fail(q->api->answers, &q->run, r, ret->text);
	}
	return r;
}

void api_job_fail(struct api_job *q, int r, const struct errbuf *eb)
{
	struct errbuf text = {};

	r = api_job_end(q, r, eb, &text);
	api_reply_error(q->request, q->format, r, text.text);
}

int api_job_too_large(struct errbuf *eb)
{
	return err_set(eb, -ENOMEM,
		"the answer does not fit into --query.max-memory; ask for fewer nodes, rows or a "
		"shorter range");
}

void api_job_json_begin(struct api_job *q, struct bytes *out, struct json *ret)
{
	bytes_init(out, q->api->o.budget, 0); /* outlives the query's own budget */
	api_json_begin(out, ret);
}

void api_job_reply_json(struct api_job *q, struct json *j, struct bytes *out)
{
	const struct query_stats *s = &q->env.stats;
	struct errbuf eb = {};

	if (!bytes_error(out))
		api_job_publish(q, j, NULL, out);
	api_job_warn(q, j);
	json_key(j, "stats");
	json_object_begin(j);
	json_kv_uint(j, "parts", s->parts);
	json_kv_uint(j, "streams", s->streams);
	json_kv_uint(j, "profiles", s->profiles);
	json_kv_uint(j, "pages", s->pages);
	json_kv_uint(j, "rows", s->rows);
	json_kv_uint(j, "rollups", s->rollups);
	json_kv_uint(j, "nodes", s->nodes);
	json_kv_uint(j, "peakBytes", q->budget.peak_bytes);
	json_kv_double(j, "seconds", elapsed(q));
	json_kv_string(j, "source", q->source);
	json_object_end(j);
	if (bytes_error(out)) {
		api_job_fail(q, api_job_too_large(&eb), &eb);
		return;
	}
	api_job_count(q);
	release(q);
	api_reply_json(q->request, j, out);
}

void api_job_reply(struct api_job *q, const char *file_name, struct bytes *out)
{
	const struct query_stats *s = &q->env.stats;
	struct errbuf eb = {};
	char text[256];

	if (bytes_error(out)) {
		api_job_fail(q, api_job_too_large(&eb), &eb);
		return;
	}
	api_job_publish(q, NULL, file_name, out);
	snprintf(text, sizeof(text),
		"parts=%" PRIu64 " streams=%" PRIu64 " profiles=%" PRIu64 " pages=%" PRIu64
		" rows=%" PRIu64 " rollups=%" PRIu64 " nodes=%" PRIu64 " seconds=%.6f source=%s",
		s->parts, s->streams, s->profiles, s->pages, s->rows, s->rollups, s->nodes,
		elapsed(q), q->source);
	http_reply_header(q->request, "Sonde-Stats", text);
	api_job_warn(q, NULL);
	/* What browsers show has a name too, for who saves it. */
	snprintf(text, sizeof(text), "%s; filename=\"%.100s.%s\"",
		q->format == API_PPROF || q->format == API_SPEEDSCOPE ? "attachment" : "inline",
		file_name, api_format_suffix(q->format));
	http_reply_header(q->request, "Content-Disposition", text);
	if (q->format == API_SVG || q->format == API_HTML)
		http_reply_header(q->request, "Content-Security-Policy",
			q->format == API_HTML ? render_page_policy
					      : "default-src 'none'; style-src 'unsafe-inline'");
	api_job_count(q);
	release(q);
	http_reply_bytes(q->request, 200, api_format_type(q->format), out);
}
