/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/query_series: values over time as Prometheus' matrix or CSV, a line per series or group.
 */
#include "lib/base/clock.h"
#include "lib/net/url/url.h"
#include "scraper/api/prometheus.h"
#include "scraper/api/series.h"
#include <string.h>

void series_put_values(struct json *j, const struct query_line *l)
{
	json_key(j, "values");
	json_array_begin(j);
	for (size_t i = 0; l && i < l->n_points; i++) {
		json_array_begin(j);
		prometheus_put_time(j, l->points[i].time_ns);
		prometheus_put_value(j, l->points[i].value);
		json_array_end(j);
	}
	json_array_end(j);
}

static void put_line(struct json *j, const struct query_line *l)
{
	json_object_begin(j);
	api_put_labels(j, "metric", &l->labels);
	series_put_values(j, l);
	json_object_end(j);
}

/* The members that both endpoints have. */
void series_begin(const struct api_job *q, const struct query_type *type, struct json *j)
{
	char rate[UNITS_NAME_MAX];

	api_rate_unit(type, rate);
	json_object_begin(j);
	json_kv_string(j, "resultType", "matrix");
	json_kv_string(j, "profile_type", type->id);
	json_kv_string(j, "unit", type->sample_unit);
	json_kv_string(j, "rate_unit", rate);
	json_kv_double(j, "step", (double)q->params.step_ns / 1e9);
}

static size_t n_shown(const struct api_job *q, const struct query_matrix *m)
{
	return q->params.limit && q->params.limit < m->n_lines ? q->params.limit : m->n_lines;
}

static void reply_json(struct api_job *q, const struct query_matrix *m)
{
	_cleanup_bytes_ struct bytes out = {};
	struct json j;

	api_job_json_begin(q, &out, &j);
	series_begin(q, &m->type, &j);
	json_kv_uint(&j, "n_series", m->n_lines);
	json_key(&j, "result");
	json_array_begin(&j);
	for (size_t i = 0; i < n_shown(q, m); i++)
		put_line(&j, &m->lines[i]);
	json_array_end(&j);
	json_object_end(&j);
	api_job_reply_json(q, &j, &out);
}

/* Doubles every '"' of the label text. */
void series_put_csv_labels(struct bytes *out, const struct labels *l)
{
	_cleanup_bytes_ struct bytes text = {};

	labels_print(l, &text);
	bytes_put_u8(out, '"');
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] == '"')
			bytes_put_u8(out, '"');
		bytes_put_u8(out, text.data[i]);
	}
	bytes_put_u8(out, '"');
}

void series_put_csv_point(struct bytes *out, const struct query_point *p)
{
	bytes_printf(out, ",%lld.%03d,%.17g\r\n", p->time_ns / NS_PER_S,
		(int)(p->time_ns % NS_PER_S / NS_PER_MS), p->value);
}

static void reply_csv(struct api_job *q, const struct query_matrix *m)
{
	_cleanup_bytes_ struct bytes out = {};

	bytes_init(&out, q->api->o.budget, 0);
	bytes_put_str(&out, "series,time,value\r\n");
	for (size_t i = 0; i < n_shown(q, m); i++)
		for (size_t k = 0; k < m->lines[i].n_points; k++) {
			series_put_csv_labels(&out, &m->lines[i].labels);
			series_put_csv_point(&out, &m->lines[i].points[k]);
		}
	api_job_reply(q, "series", &out);
}

/* Tags would be frames of stacks that no answer shows; a group's label does the same. */
static int refuse_tags(const struct api_job *q, struct errbuf *eb)
{
	return q->params.n_tag_roots + q->params.n_tag_leaves
		       ? err_set(eb, -EINVAL,
				 "tagroot, tagleaf: not in values over time; use group_by")
		       : 0;
}

struct tree_choice series_choice(const struct api_params *p)
{
	return (struct tree_choice) {.identity = p->identity,
		.filter = {.focus = p->focus,
			.ignore = p->ignore,
			.hide = p->hide,
			.show = p->show,
			.show_from = p->show_from},
		.at = p->at,
		.n_at = p->n_at};
}

struct query_spec series_spec(const struct api_params *p)
{
	return (struct query_spec) {.selector = p->selectors,
		.start_ns = p->start_ns,
		.end_ns = p->end_ns,
		.step_ns = p->step_ns};
}

int series_of(const struct api_job *q, struct query_spec *spec, struct errbuf *eb)
{
	const char *of = url_params_get(http_request_params(q->request), "of");

	if (of && !strcmp(of, "instance"))
		spec->of = QUERY_OF_INSTANCE;
	else if (of && !strcmp(of, "service"))
		spec->of = QUERY_OF_SERVICE;
	else if (of)
		return err_set(eb, -EINVAL, "of: \"%.40s\" is none of instance, service", of);
	return 0;
}

int series_check(const struct api_job *q, const char *endpoint, struct errbuf *eb)
{
	int r = api_job_one_selector(q, eb);

	if (!r)
		r = refuse_tags(q, eb);
	if (!r && q->format != API_JSON && q->format != API_CSV)
		r = err_set(eb, -EINVAL, "format: %s answers json and csv", endpoint);
	if (!r && q->params.n_profiles)
		r = err_set(eb, -EINVAL, "profile_id: one profile is no values over time");
	return r;
}

void api_query_series(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_query_matrix_ struct query_matrix m = {};
	_cleanup_tree_symbols_ struct tree_symbols symbols = {};
	struct tree_choice stacks;
	struct query_spec spec;
	struct errbuf eb = {};
	int e;

	if (api_job_begin(&q, r, arg, "query_series", API_JSON) != 0)
		return;
	e = series_check(&q, "query_series", &eb);
	tree_symbols_init(&symbols, q.env.budget);
	stacks = series_choice(&q.params);
	spec = series_spec(&q.params);
	spec.stacks = &stacks;
	spec.symbols = &symbols;
	spec.group_by = q.params.group_by;
	spec.n_group_by = q.params.n_group_by;
	spec.group = q.params.group;
	if (!e)
		e = series_of(&q, &spec, &eb);
	if (!e)
		e = query_over_time(&q.env, &spec, &m, &eb);
	if (e)
		api_job_fail(&q, e, &eb);
	else if (q.format == API_CSV)
		reply_csv(&q, &m);
	else
		reply_json(&q, &m);
}
