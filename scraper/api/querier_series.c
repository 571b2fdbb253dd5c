/* SPDX-License-Identifier: Apache-2.0
 *
 * SelectSeries: values over time, a series per group, with the largest profile of each point when exemplars are asked for.
 */
#include "lib/base/clock.h"
#include "lib/tree/canon.h"
#include "proto/querier.pb-c.h"
#include "scraper/api/connect.h"
#include <math.h>

static Types__V1__Series *put_line(struct connect_call *c, const struct query_line *l)
{
	Types__V1__Series *out = CONNECT_NEW(c, Types__V1__Series);
	Types__V1__Point *points = CONNECT_ARRAY(c, l->n_points, Types__V1__Point);

	if (!out || !points)
		return NULL;
	types__v1__series__init(out);
	out->labels = querier_label_pairs(c, &l->labels, &out->n_labels);
	out->points = CONNECT_ARRAY(c, l->n_points, Types__V1__Point *);
	for (size_t i = 0; out->points && i < l->n_points; i++) {
		types__v1__point__init(&points[i]);
		points[i].value = l->points[i].value;
		points[i].timestamp = l->points[i].time_ns / NS_PER_MS;
		out->points[out->n_points++] = &points[i];
	}
	return out;
}

/* The largest profile of each point, as there: one a point. */
static void put_exemplars(
	struct connect_call *c, const struct query_heat_line *from, Types__V1__Series *to)
{
	for (size_t i = 0, k = 0; i < to->n_points && k < from->n_slots;) {
		int64_t slot_ms = from->slots[k].time_ns / NS_PER_MS;
		Types__V1__Point *p = to->points[i];

		if (p->timestamp != slot_ms) {
			i += p->timestamp < slot_ms;
			k += p->timestamp > slot_ms;
			continue;
		}
		p->exemplars = CONNECT_ARRAY(c, 1, Types__V1__Exemplar *);
		if (p->exemplars && from->slots[k].n_exemplars)
			p->exemplars[0] = querier_exemplar(c, &from->slots[k].exemplars[0]);
		p->n_exemplars = p->exemplars && p->exemplars[0];
		i++;
		k++;
	}
}

static int add_exemplars(struct connect_call *c, const struct query_spec *spec,
	const struct query_matrix *m, Querier__V1__SelectSeriesResponse *out, struct errbuf *eb)
{
	const struct query_heat_spec one = {.n_rows = 1, .look_back = true, .exemplars = true};
	_cleanup_query_heatmap_ struct query_heatmap h = {};
	int r = query_heatmap(&c->q.env, spec, &one, &h, eb);

	for (size_t i = 0; !r && i < out->n_series; i++)
		for (size_t k = 0; k < h.n_lines; k++)
			if (labels_equal(&h.lines[k].labels, &m->lines[i].labels))
				put_exemplars(c, &h.lines[k], out->series[i]);
	return r;
}

static int check(const Querier__V1__SelectSeriesRequest *in, struct errbuf *eb)
{
	switch (in->exemplar_type) {
	case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_UNSPECIFIED:
	case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_NONE:
	case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL: break;
	case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN:
		return err_set(eb, -ENOTSUP,
			"exemplar type span is not implemented here; SelectHeatmap has it");
	default: return err_set(eb, -EINVAL, "exemplar_type: unknown (%d)", in->exemplar_type);
	}
	return querier_check_step(in->step, in->n_group_by, in->limit, eb);
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
	struct tree_choice stacks = {.identity = {.canon = TREE_CANON_CLONES}};
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
	r = api_job_take(&c->q, spec.start_ns - spec.step_ns, spec.end_ns, eb);
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
	r = arena_error(&c->arena, eb);
	if (!r && in->exemplar_type == TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL)
		r = add_exemplars(c, &spec, &m, out, eb);
	if (r)
		return r;
	return connect_answer(c, &out->base, eb);
}
