/* SPDX-License-Identifier: Apache-2.0
 *
 * SelectSeries: values over time, a series per group.
 */
#include "lib/base/clock.h"
#include "proto/querier.pb-c.h"
#include "scraper/api/connect.h"
#include <math.h>

enum { MAX_GROUP_LABELS = 32 };
static const double MAX_STEP_S = 1e9;

static Types__V1__Series *put_line(struct connect_call *c, const struct query_line *l)
{
	Types__V1__Series *out = CONNECT_NEW(c, Types__V1__Series);
	Types__V1__LabelPair *pairs = CONNECT_ARRAY(c, l->labels.n, Types__V1__LabelPair);
	Types__V1__Point *points = CONNECT_ARRAY(c, l->n_points, Types__V1__Point);

	if (!out || !pairs || !points)
		return NULL;
	types__v1__series__init(out);
	out->labels = CONNECT_ARRAY(c, l->labels.n, Types__V1__LabelPair *);
	out->points = CONNECT_ARRAY(c, l->n_points, Types__V1__Point *);
	for (size_t i = 0; out->labels && i < l->labels.n; i++) {
		types__v1__label_pair__init(&pairs[i]);
		pairs[i].name = connect_text(c, l->labels.items[i].name);
		pairs[i].value = connect_text(c, l->labels.items[i].value);
		out->labels[out->n_labels++] = &pairs[i];
	}
	for (size_t i = 0; out->points && i < l->n_points; i++) {
		types__v1__point__init(&points[i]);
		points[i].value = l->points[i].value;
		points[i].timestamp = l->points[i].time_ns / NS_PER_MS;
		out->points[out->n_points++] = &points[i];
	}
	return out;
}

static int check(const Querier__V1__SelectSeriesRequest *in, struct errbuf *eb)
{
	if (!(in->step >= 0.001) || in->step > MAX_STEP_S)
		return err_set(
			eb, -EINVAL, "step: %g is not between 0.001 and 1e9 seconds", in->step);
	if (in->limit < 0)
		return err_set(eb, -EINVAL, "limit: is negative");
	if (in->n_group_by > MAX_GROUP_LABELS)
		return err_set(eb, -EINVAL, "group_by: more than %d labels", MAX_GROUP_LABELS);
	return 0;
}

int querier_select_series(
	struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Querier__V1__SelectSeriesRequest *in = (const void *)request;
	Querier__V1__SelectSeriesResponse *out = CONNECT_NEW(c, Querier__V1__SelectSeriesResponse);
	_cleanup_query_selector_ struct query_selector s = {};
	_cleanup_query_matrix_ struct query_matrix m = {};
	struct query_spec spec = {.selector = &s,
		.group_by = (const char *const *)in->group_by,
		.n_group_by = in->n_group_by,
		.group = true};
	_cleanup_tree_symbols_ struct tree_symbols symbols = {};
	struct tree_choice stacks = {};
	size_t n;
	int r = check(in, eb);

	if (!r)
		r = querier_range(c->q.api, in->start, in->end, &spec.start_ns, &spec.end_ns, eb);
	if (!r)
		r = querier_selector(in->profile_typeid, in->label_selector, &s, eb);
	if (!r)
		r = querier_call_site(c, in->stack_trace_selector, &stacks.at, &stacks.n_at, eb);
	tree_symbols_init(&symbols, c->q.env.budget);
	spec.stacks = &stacks;
	spec.symbols = &symbols;
	if (r)
		return r;
	spec.step_ns = llround(in->step * 1e9);
	spec.average =
		in->aggregation ==
		TYPES__V1__TIME_SERIES_AGGREGATION_TYPE__TIME_SERIES_AGGREGATION_TYPE_AVERAGE;
	r = api_job_take(&c->q, spec.start_ns - spec.step_ns, eb);
	if (!r)
		r = query_over_time(&c->q.env, &spec, &m, eb);
	if (r || !out)
		return r ? r : arena_error(&c->arena, eb);
	querier__v1__select_series_response__init(out);
	n = in->limit && (uint64_t)in->limit < m.n_lines ? (size_t)in->limit : m.n_lines;
	out->series = CONNECT_ARRAY(c, n, Types__V1__Series *);
	for (size_t i = 0; out->series && i < n; i++) {
		out->series[i] = put_line(c, &m.lines[i]);
		out->n_series += out->series[i] != NULL;
	}
	return connect_answer(c, &out->base, eb);
}
