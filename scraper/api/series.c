/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/query_series: values over time as Prometheus' matrix, CSV or folded-like text.
 */
#include "lib/base/clock.h"
#include "scraper/api/prometheus.h"
#include <math.h>
#include <string.h>

static void put_line(struct json *j, const struct query_line *l)
{
	json_object_begin(j);
	api_put_labels(j, "metric", &l->labels);
	json_key(j, "values");
	json_array_begin(j);
	for (size_t i = 0; i < l->n_points; i++) {
		json_array_begin(j);
		prometheus_put_time(j, l->points[i].time_ns);
		prometheus_put_value(j, l->points[i].value);
		json_array_end(j);
	}
	json_array_end(j);
	json_object_end(j);
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
	json_object_begin(&j);
	json_kv_string(&j, "resultType", "matrix");
	json_kv_string(&j, "profile_type", m->type.id);
	json_kv_string(&j, "unit", m->type.sample_unit);
	json_kv_double(&j, "step", (double)q->params.step_ns / 1e9);
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
static void put_csv_labels(struct bytes *out, const struct labels *l)
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

static void reply_csv(struct api_job *q, const struct query_matrix *m)
{
	_cleanup_bytes_ struct bytes out = {};

	bytes_init(&out, q->api->o.budget, 0);
	bytes_put_str(&out, "series,time,value\r\n");
	for (size_t i = 0; i < n_shown(q, m); i++)
		for (size_t k = 0; k < m->lines[i].n_points; k++) {
			const struct query_point *p = &m->lines[i].points[k];

			put_csv_labels(&out, &m->lines[i].labels);
			bytes_printf(&out, ",%lld.%03d,%.17g\r\n", p->time_ns / NS_PER_S,
				(int)(p->time_ns % NS_PER_S / NS_PER_MS), p->value);
		}
	api_job_reply(q, "series", &out);
}

void api_query_series(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_query_matrix_ struct query_matrix m = {};
	struct query_spec spec = {};
	struct errbuf eb = {};
	int e;

	if (api_job_begin(&q, r, arg, "query_series", API_JSON) != 0)
		return;
	e = api_job_one_selector(&q, &eb);
	if (!e && q.format != API_JSON && q.format != API_CSV)
		e = err_set(&eb, -EINVAL, "format: query_series answers json and csv");
	spec = (struct query_spec) {.selector = q.params.selectors,
		.start_ns = q.params.start_ns,
		.end_ns = q.params.end_ns,
		.step_ns = q.params.step_ns,
		.group_by = q.params.group_by,
		.n_group_by = q.params.n_group_by,
		.group = q.params.group};
	if (!e)
		e = query_over_time(&q.env, &spec, &m, &eb);
	if (e)
		api_job_fail(&q, e, &eb);
	else if (q.format == API_CSV)
		reply_csv(&q, &m);
	else
		reply_json(&q, &m);
}
