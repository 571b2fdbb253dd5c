/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods that say what there is: profile types, label names and values, series, and whether anything is stored.
 */
#include "proto/querier.pb-c.h"
#include "scraper/api/connect.h"
#include "lib/base/table.h"
#include <inttypes.h>
#include <string.h>

/* A request's range and selectors, with the parts taken. */
static int begin(struct connect_call *c, int64_t start_ms, int64_t end_ms, char *const *matchers,
	size_t n_matchers, struct query_selector *ret, struct errbuf *eb)
{
	struct api_params *p = &c->q.params;
	int r = querier_range(c->q.api, start_ms, end_ms, &p->start_ns, &p->end_ns, eb);

	if (!r)
		r = querier_matchers(matchers, n_matchers, ret, eb);
	return r ? r : api_job_take(&c->q, p->start_ns, p->end_ns, eb);
}

static struct query_catalog catalog_of(struct connect_call *c, const struct query_selector *s)
{
	return (struct query_catalog) {.env = &c->q.env,
		.start_ns = c->q.params.start_ns,
		.end_ns = c->q.params.end_ns,
		.selectors = s,
		.n_selectors = 1};
}

int querier_profile_types(
	struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Querier__V1__ProfileTypesRequest *in = (const void *)request;
	Querier__V1__ProfileTypesResponse *out = CONNECT_NEW(c, Querier__V1__ProfileTypesResponse);
	_cleanup_query_selector_ struct query_selector all = {};
	_cleanup_query_type_list_ struct query_type_list types = {};
	struct query_catalog what;
	int r = begin(c, in->start, in->end, NULL, 0, &all, eb);

	what = catalog_of(c, &all);
	what.n_selectors = 0;
	if (!r)
		r = query_types(&what, &types, eb);
	if (r || !out)
		return r ? r : arena_error(&c->arena, eb);
	querier__v1__profile_types_response__init(out);
	out->profile_types = CONNECT_ARRAY(c, types.n, Types__V1__ProfileType *);
	for (size_t i = 0; out->profile_types && i < types.n; i++) {
		Types__V1__ProfileType *t = CONNECT_NEW(c, Types__V1__ProfileType);

		if (!t)
			break;
		types__v1__profile_type__init(t);
		t->id = connect_text(c, types.items[i].id);
		t->name = connect_text(c, types.items[i].name);
		t->sample_type = connect_text(c, types.items[i].sample_type);
		t->sample_unit = connect_text(c, types.items[i].sample_unit);
		t->period_type = connect_text(c, types.items[i].period_type);
		t->period_unit = connect_text(c, types.items[i].period_unit);
		out->profile_types[out->n_profile_types++] = t;
	}
	return connect_answer(c, &out->base, eb);
}

/* Grafana before labels in UTF-8 cannot show other names; a client that can says so. */
static bool accepts_any_name(const struct connect_call *c)
{
	const char *accept = http_request_header(c->q.request, "Accept");

	return accept && strstr(accept, "allow-utf8-labelnames=true");
}

static bool is_plain_name(const char *s)
{
	for (const char *p = s; *p; p++)
		if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && *p != '_' &&
			!(p > s && *p >= '0' && *p <= '9'))
			return false;
	return *s != '\0';
}

/* A span selects, and exemplars name it; as a label to choose from it would be a list of every request. */
static bool is_shown(const char *name, bool any)
{
	return (any || is_plain_name(name)) && strcmp(name, "span_id") != 0;
}

/* Copies of the texts; of names of labels those that are shown. */
static char **copy_names(
	struct connect_call *c, const struct query_strings *s, bool labels, size_t *ret_n)
{
	bool any = accepts_any_name(c);
	char **names = CONNECT_ARRAY(c, s->n, char *);

	*ret_n = 0;
	for (size_t i = 0; names && i < s->n; i++)
		if (!labels || is_shown(s->items[i], any))
			names[(*ret_n)++] = connect_text(c, s->items[i]);
	return names;
}

int querier_label_names(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Types__V1__LabelNamesRequest *in = (const void *)request;
	Types__V1__LabelNamesResponse *out = CONNECT_NEW(c, Types__V1__LabelNamesResponse);
	_cleanup_query_selector_ struct query_selector s = {};
	_cleanup_query_strings_ struct query_strings names = {};
	struct query_catalog what;
	int r = begin(c, in->start, in->end, in->matchers, in->n_matchers, &s, eb);

	what = catalog_of(c, &s);
	if (!r)
		r = query_label_names(&what, &names, eb);
	if (r || !out)
		return r ? r : arena_error(&c->arena, eb);
	types__v1__label_names_response__init(out);
	out->names = copy_names(c, &names, true, &out->n_names);
	return connect_answer(c, &out->base, eb);
}

int querier_label_values(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Types__V1__LabelValuesRequest *in = (const void *)request;
	Types__V1__LabelValuesResponse *out = CONNECT_NEW(c, Types__V1__LabelValuesResponse);
	_cleanup_query_selector_ struct query_selector s = {};
	_cleanup_query_strings_ struct query_strings values = {};
	struct query_catalog what;
	int r = *in->name ? 0 : err_set(eb, -EINVAL, "name: missing");

	if (!r)
		r = begin(c, in->start, in->end, in->matchers, in->n_matchers, &s, eb);
	what = catalog_of(c, &s);
	if (!r)
		r = query_label_values(&what, in->name, &values, eb);
	if (r || !out)
		return r ? r : arena_error(&c->arena, eb);
	types__v1__label_values_response__init(out);
	out->names = copy_names(c, &values, false, &out->n_names);
	return connect_answer(c, &out->base, eb);
}

/* ---- series ---- */

static bool is_wanted(const Querier__V1__SeriesRequest *in, const char *name, bool any)
{
	for (size_t i = 0; i < in->n_label_names; i++)
		if (!strcmp(in->label_names[i], name))
			return true;
	return !in->n_label_names && (any || is_plain_name(name));
}

/* The wanted labels of one series; NULL when it has none of them or they were there before. */
static Types__V1__Labels *project(struct connect_call *c, const Querier__V1__SeriesRequest *in,
	const struct labels *l, struct interner *seen, int *ret_error)
{
	_cleanup_bytes_ struct bytes key = {};
	Types__V1__Labels *out;
	bool any = accepts_any_name(c), is_new;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (!is_wanted(in, l->items[i].name, any))
			continue;
		bytes_put(&key, l->items[i].name, strlen(l->items[i].name) + 1);
		bytes_put(&key, l->items[i].value, strlen(l->items[i].value) + 1);
		n++;
	}
	if (!n)
		return NULL;
	if (bytes_error(&key) || interner_add(seen, key.data, key.len, &is_new) == INTERNER_NONE) {
		*ret_error = -ENOMEM;
		return NULL;
	}
	out = is_new ? CONNECT_NEW(c, Types__V1__Labels) : NULL;
	if (!out)
		return NULL;
	types__v1__labels__init(out);
	out->labels = CONNECT_ARRAY(c, n, Types__V1__LabelPair *);
	for (size_t i = 0; out->labels && i < l->n; i++) {
		Types__V1__LabelPair *pair;

		if (!is_wanted(in, l->items[i].name, any))
			continue;
		pair = CONNECT_NEW(c, Types__V1__LabelPair);
		if (!pair)
			break;
		types__v1__label_pair__init(pair);
		pair->name = connect_text(c, l->items[i].name);
		pair->value = connect_text(c, l->items[i].value);
		out->labels[out->n_labels++] = pair;
	}
	return out;
}

int querier_series(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Querier__V1__SeriesRequest *in = (const void *)request;
	Querier__V1__SeriesResponse *out = CONNECT_NEW(c, Querier__V1__SeriesResponse);
	_cleanup_query_selector_ struct query_selector s = {};
	_cleanup_interner_ struct interner seen = {};
	_cleanup_query_series_list_ struct query_series_list series = {};
	struct query_catalog what;
	int r = begin(c, in->start, in->end, in->matchers, in->n_matchers, &s, eb);

	interner_init(&seen, c->q.env.budget);
	what = catalog_of(c, &s);
	if (!r)
		r = query_series(&what, 0, &series, eb);
	if (r || !out)
		return r ? r : arena_error(&c->arena, eb);
	querier__v1__series_response__init(out);
	out->labels_set = CONNECT_ARRAY(c, series.n, Types__V1__Labels *);
	for (size_t i = 0; out->labels_set && i < series.n; i++) {
		Types__V1__Labels *l = project(c, in, &series.items[i], &seen, &r);

		if (l)
			out->labels_set[out->n_labels_set++] = l;
	}
	if (r)
		return err_set(eb, r, "out of memory for series");
	return connect_answer(c, &out->base, eb);
}

/* ---- what is stored ---- */

int querier_profile_stats(
	struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	Types__V1__GetProfileStatsResponse *out =
		CONNECT_NEW(c, Types__V1__GetProfileStatsResponse);
	struct store_stats stats = {};
	int r = api_job_take(&c->q, INT64_MAX, INT64_MAX, eb);

	(void)request;
	if (r || !out)
		return r ? r : arena_error(&c->arena, eb);
	types__v1__get_profile_stats_response__init(out);
	store_stats(c->q.api->store, &stats);
	out->data_ingested = stats.min_time_ns <= stats.max_time_ns;
	if (out->data_ingested) {
		out->oldest_profile_time = stats.min_time_ns / NS_PER_MS;
		out->newest_profile_time = stats.max_time_ns / NS_PER_MS;
	}
	return connect_answer(c, &out->base, eb);
}

/* Nothing is estimated; clients look into the impact without asking whether it is there. */
int querier_analyze_query(
	struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	Querier__V1__AnalyzeQueryResponse *out = CONNECT_NEW(c, Querier__V1__AnalyzeQueryResponse);
	Querier__V1__QueryImpact *impact = CONNECT_NEW(c, Querier__V1__QueryImpact);

	(void)request;
	if (!out || !impact)
		return arena_error(&c->arena, eb);
	querier__v1__analyze_query_response__init(out);
	querier__v1__query_impact__init(impact);
	out->query_impact = impact;
	return connect_answer(c, &out->base, eb);
}
