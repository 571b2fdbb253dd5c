/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/profiles: the profiles of a range, one by one, with the ids by which the endpoints that merge answer single ones.
 */
#include "lib/base/clock.h"
#include "scraper/api/prometheus.h"
#include "scraper/api/series.h"

enum { DEFAULT_PROFILES = 1000, MAX_PROFILES = 10000 };

static void put_profile(struct json *j, const struct query_profile *p)
{
	char id[QUERY_PROFILE_ID_LEN + 1];

	query_profile_id_print(&p->id, id);
	json_object_begin(j);
	json_kv_string(j, "profile_id", id);
	json_key(j, "time");
	prometheus_put_time(j, p->id.time_ns);
	json_kv_double(j, "duration", (double)p->duration_ns / 1e9);
	json_kv_int(j, "value", p->value);
	api_put_labels(j, "labels", &p->labels);
	json_object_end(j);
}

static void reply_json(struct api_job *q, const struct query_profiles *p)
{
	_cleanup_bytes_ struct bytes out = {};
	struct json j;

	api_job_json_begin(q, &out, &j);
	json_object_begin(&j);
	json_kv_string(&j, "profile_type", p->type.id);
	json_kv_string(&j, "unit", p->type.sample_unit);
	json_kv_uint(&j, "n_profiles", p->n_found);
	json_kv_int(&j, "total", p->total);
	json_key(&j, "profiles");
	json_array_begin(&j);
	for (size_t i = 0; i < p->n; i++)
		put_profile(&j, &p->items[i]);
	json_array_end(&j);
	json_object_end(&j);
	api_job_reply_json(q, &j, &out);
}

static void reply_csv(struct api_job *q, const struct query_profiles *p)
{
	_cleanup_bytes_ struct bytes out = {};
	char id[QUERY_PROFILE_ID_LEN + 1];

	bytes_init(&out, q->api->o.budget, 0);
	bytes_put_str(&out, "profile_id,time,duration,value,series\r\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct query_profile *one = &p->items[i];

		query_profile_id_print(&one->id, id);
		bytes_printf(&out, "%s,%lld.%03d,%.17g,%lld,", id, one->id.time_ns / NS_PER_S,
			(int)(one->id.time_ns % NS_PER_S / NS_PER_MS),
			(double)one->duration_ns / 1e9, (long long)one->value);
		series_put_csv_labels(&out, &one->labels);
		bytes_put_str(&out, "\r\n");
	}
	api_job_reply(q, "profiles", &out);
}

static int check(const struct api_job *q, struct errbuf *eb)
{
	const struct api_params *p = &q->params;
	int r = api_job_one_selector(q, eb);

	if (!r && p->n_tag_roots + p->n_tag_leaves)
		r = err_set(eb, -EINVAL, "tagroot, tagleaf: profiles has no stacks");
	if (!r && p->n_group_by)
		r = err_set(eb, -EINVAL, "group_by: profiles are those of their series");
	if (!r && q->format != API_JSON && q->format != API_CSV)
		r = err_set(eb, -EINVAL,
			"format: profiles answers json and csv; with profile_id /api/v1/profile "
			"and /api/v1/flamegraph answer one of them in every format");
	if (!r && p->limit > MAX_PROFILES)
		r = err_set(eb, -EINVAL, "limit: %zu is above the limit of %d profiles", p->limit,
			MAX_PROFILES);
	return r;
}

void api_profiles(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_query_profiles_ struct query_profiles found = {};
	_cleanup_tree_symbols_ struct tree_symbols symbols = {};
	struct tree_choice stacks;
	struct query_spec spec;
	struct errbuf eb = {};
	int e;

	if (api_job_begin(&q, r, arg, "profiles", API_JSON) != 0)
		return;
	tree_symbols_init(&symbols, q.env.budget);
	stacks = series_choice(&q.params);
	spec = series_spec(&q.params);
	spec.stacks = &stacks;
	spec.symbols = &symbols;
	spec.profiles = q.params.profiles;
	spec.n_profiles = q.params.n_profiles;
	e = check(&q, &eb);
	if (!e)
		e = query_profiles(&q.env, &spec,
			q.params.limit ? q.params.limit : DEFAULT_PROFILES, &found, &eb);
	if (e)
		api_job_fail(&q, e, &eb);
	else if (q.format == API_CSV)
		reply_csv(&q, &found);
	else
		reply_json(&q, &found);
}
