/* SPDX-License-Identifier: Apache-2.0
 *
 * SelectHeatmap: how many profiles, or spans, there are by time and value.
 */
#include "lib/base/clock.h"
#include "proto/querier.pb-c.h"
#include "scraper/api/connect.h"
#include <math.h>
#include <string.h>

static const double MAX_STEP_S = 1e9;

int querier_check_step(double step, size_t n_group_by, int64_t limit, struct errbuf *eb)
{
	if (!(step >= 0.001) || step > MAX_STEP_S)
		return err_set(eb, -EINVAL, "step: %g is not between 0.001 and 1e9 seconds", step);
	if (limit < 0)
		return err_set(eb, -EINVAL, "limit: is negative");
	if (n_group_by > QUERIER_MAX_GROUP_BY)
		return err_set(eb, -EINVAL, "group_by: more than %d labels", QUERIER_MAX_GROUP_BY);
	return 0;
}

Types__V1__LabelPair **querier_label_pairs(
	struct connect_call *c, const struct labels *l, size_t *ret_n)
{
	Types__V1__LabelPair *pairs = CONNECT_ARRAY(c, l->n, Types__V1__LabelPair);
	Types__V1__LabelPair **list = CONNECT_ARRAY(c, l->n, Types__V1__LabelPair *);

	*ret_n = 0;
	for (size_t i = 0; pairs && list && i < l->n; i++) {
		types__v1__label_pair__init(&pairs[i]);
		pairs[i].name = connect_text(c, l->items[i].name);
		pairs[i].value = connect_text(c, l->items[i].value);
		list[(*ret_n)++] = &pairs[i];
	}
	return list;
}

Types__V1__Exemplar *querier_exemplar(struct connect_call *c, const struct query_exemplar *e)
{
	Types__V1__Exemplar *out = CONNECT_NEW(c, Types__V1__Exemplar);
	char id[QUERY_PROFILE_ID_LEN + 1];

	if (!out)
		return NULL;
	types__v1__exemplar__init(out);
	query_profile_id_print(&e->id, id);
	out->timestamp = e->id.time_ns / NS_PER_MS;
	out->profile_id = connect_text(c, id);
	out->span_id = connect_text(c, e->span ? e->span : "");
	out->value = e->value;
	out->labels = querier_label_pairs(c, &e->labels, &out->n_labels);
	return out;
}

static Types__V1__HeatmapSlot *put_slot(struct connect_call *c, const struct query_heatmap *h,
	const struct query_heat_slot *s, double *y_min)
{
	Types__V1__HeatmapSlot *out = CONNECT_NEW(c, Types__V1__HeatmapSlot);
	int32_t *counts = CONNECT_ARRAY(c, h->n_rows, int32_t);

	if (!out || !counts)
		return NULL;
	types__v1__heatmap_slot__init(out);
	for (size_t i = 0; i < h->n_rows; i++)
		counts[i] = (int32_t)MIN(s->counts[i], (uint32_t)INT32_MAX);
	out->timestamp = s->time_ns / NS_PER_MS;
	out->y_min = y_min;
	out->n_y_min = h->n_rows;
	out->counts = counts;
	out->n_counts = h->n_rows;
	out->exemplars = CONNECT_ARRAY(c, s->n_exemplars, Types__V1__Exemplar *);
	for (size_t i = 0; out->exemplars && i < s->n_exemplars; i++) {
		out->exemplars[i] = querier_exemplar(c, &s->exemplars[i]);
		out->n_exemplars += out->exemplars[i] != NULL;
	}
	return out;
}

static Types__V1__HeatmapSeries *put_line(struct connect_call *c, const struct query_heatmap *h,
	const struct query_heat_line *l, double *y_min)
{
	Types__V1__HeatmapSeries *out = CONNECT_NEW(c, Types__V1__HeatmapSeries);

	if (!out)
		return NULL;
	types__v1__heatmap_series__init(out);
	out->labels = querier_label_pairs(c, &l->labels, &out->n_labels);
	out->slots = CONNECT_ARRAY(c, l->n_slots, Types__V1__HeatmapSlot *);
	for (size_t i = 0; out->slots && i < l->n_slots; i++) {
		out->slots[i] = put_slot(c, h, &l->slots[i], y_min);
		out->n_slots += out->slots[i] != NULL;
	}
	return out;
}

static int check(
	const Querier__V1__SelectHeatmapRequest *in, struct query_heat_spec *ret, struct errbuf *eb)
{
	*ret = (struct query_heat_spec) {.n_rows = QUERY_HEAT_ROWS};
	switch (in->query_type) {
	case QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_UNSPECIFIED:
	case QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_INDIVIDUAL: break;
	case QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_SPAN: ret->by_span = true; break;
	default: return err_set(eb, -EINVAL, "query_type: unknown (%d)", in->query_type);
	}
	switch (in->exemplar_type) {
	case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_UNSPECIFIED:
	case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_NONE: break;
	case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL:
	case TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN: ret->exemplars = true; break;
	default: return err_set(eb, -EINVAL, "exemplar_type: unknown (%d)", in->exemplar_type);
	}
	return querier_check_step(in->step, in->n_group_by, in->limit, eb);
}

static int answer(
	struct connect_call *c, const struct query_heatmap *h, size_t limit, struct errbuf *eb)
{
	Querier__V1__SelectHeatmapResponse *out =
		CONNECT_NEW(c, Querier__V1__SelectHeatmapResponse);
	double *y_min = CONNECT_ARRAY(c, h->n_rows, double);
	size_t n = limit && limit < h->n_lines ? limit : h->n_lines;

	if (!out || !y_min)
		return arena_error(&c->arena, eb);
	memcpy(y_min, h->row_min, h->n_rows * sizeof(*y_min));
	querier__v1__select_heatmap_response__init(out);
	out->series = CONNECT_ARRAY(c, n, Types__V1__HeatmapSeries *);
	for (size_t i = 0; out->series && i < n; i++) {
		out->series[i] = put_line(c, h, &h->lines[i], y_min);
		out->n_series += out->series[i] != NULL;
	}
	return connect_answer(c, &out->base, eb);
}

int querier_select_heatmap(
	struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Querier__V1__SelectHeatmapRequest *in = (const void *)request;
	_cleanup_query_selector_ struct query_selector s = {};
	_cleanup_query_heatmap_ struct query_heatmap h = {};
	struct query_heat_spec heat;
	struct query_spec spec = {.selector = &s,
		.group_by = (const char *const *)in->group_by,
		.n_group_by = in->n_group_by};
	int r = check(in, &heat, eb);

	if (!r)
		r = querier_range(c->q.api, in->start, in->end, &spec.start_ns, &spec.end_ns, eb);
	if (!r)
		r = querier_selector(in->profile_typeid, in->label_selector, &s, eb);
	if (r)
		return r;
	spec.step_ns = llround(in->step * 1e9);
	r = api_job_take(&c->q, spec.start_ns, spec.end_ns, eb);
	if (!r)
		r = query_heatmap(&c->q.env, &spec, &heat, &h, eb);
	return r ? r : answer(c, &h, (size_t)in->limit, eb);
}
