/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/quality: how good the samples behind a selection are. Which share of its values has a cut stack, by the label `stack`; at which rate
 * its exporters sampled and which share of the samples they lost, by the series that they leave with each scrape (scraper/scrape/vitals.h).
 */
#include "lib/base/str.h"
#include "lib/base/table.h"
#include "scraper/api/api_impl.h"
#include "scraper/api/series.h"
#include <math.h>

struct quality {
	struct api_job *q;
	struct table targets; /* labels_hash of job and instance, of the selection's targets */
	double known, cut;    /* values of which the label says how the stack ends */
	double taken, lost;   /* samples a scrape, of exporters that count both */
	double least_hz, most_hz;
	size_t n_targets, n_exporters;
};

static const char *const target_labels[] = {"instance", "job"};

/* One point, at the range's end, for the whole range; all targets. */
static int ask(struct quality *k, const struct query_selector *s, const char *const *group_by,
	size_t n, struct query_matrix *ret, struct errbuf *eb)
{
	struct query_spec spec = series_spec(&k->q->params);

	spec.selector = s;
	spec.window_ns = MAX(spec.end_ns - spec.start_ns, INT64_C(1));
	spec.start_ns = spec.end_ns;
	spec.step_ns = NS_PER_S;
	spec.max_groups = UINT32_MAX;
	spec.group_by = group_by;
	spec.n_group_by = n;
	spec.group = true;
	return query_over_time(&k->q->env, &spec, ret, eb);
}

static double value_of(const struct query_line *l)
{
	return l->n_points ? l->points[0].value : 0;
}

static int find_cuts(struct quality *k, struct errbuf *eb)
{
	static const char *const by[] = {"stack"};
	_cleanup_query_matrix_ struct query_matrix m = {};
	int r = ask(k, k->q->params.selectors, by, 1, &m, eb);

	for (size_t i = 0; !r && i < m.n_lines; i++) {
		const char *end = labels_get(&m.lines[i].labels, "stack");
		double v = fabs(value_of(&m.lines[i]));

		k->known += *end ? v : 0;
		k->cut += str_starts_with(end, "truncated:") ? v : 0;
	}
	return r;
}

static int find_targets(struct quality *k, struct errbuf *eb)
{
	_cleanup_query_matrix_ struct query_matrix m = {};
	int r = ask(k, k->q->params.selectors, target_labels, ARRAY_SIZE(target_labels), &m, eb);

	for (size_t i = 0; !r && i < m.n_lines; i++, k->n_targets++)
		if (!table_insert(&k->targets, labels_hash(&m.lines[i].labels), NULL))
			r = err_set(eb, -ENOMEM, "out of memory for the query");
	return r;
}

static void add_taken(struct quality *k, double v)
{
	k->taken += v;
}

static void add_lost(struct quality *k, double v)
{
	k->lost += v;
}

static void add_rate(struct quality *k, double hz)
{
	k->least_hz = k->n_exporters ? fmin(k->least_hz, hz) : hz;
	k->most_hz = fmax(k->most_hz, hz);
	k->n_exporters++;
}

/* A series of exporters, of those that the selection is of. Targets that are none have no such series. */
static int add_vital(struct quality *k, const char *name, void (*add)(struct quality *, double),
	struct errbuf *eb)
{
	_cleanup_query_matrix_ struct query_matrix m = {};
	_cleanup_query_selector_ struct query_selector s = {};
	int r = query_selector_parse(name, &s, eb);

	if (!r)
		r = ask(k, &s, target_labels, ARRAY_SIZE(target_labels), &m, eb);
	for (size_t i = 0; !r && i < m.n_lines; i++)
		if (table_find(&k->targets, labels_hash(&m.lines[i].labels)))
			add(k, value_of(&m.lines[i]));
	return r;
}

static int find(struct quality *k, struct errbuf *eb)
{
	int r = series_check(k->q, "quality", eb);

	if (!r)
		r = find_cuts(k, eb);
	if (!r)
		r = find_targets(k, eb);
	if (!r)
		r = add_vital(k, "sonde_samples_taken", add_taken, eb);
	if (!r)
		r = add_vital(k, "sonde_samples_dropped", add_lost, eb);
	return r ? r : add_vital(k, "sonde_profile_frequency_hz", add_rate, eb);
}

static void reply(const struct quality *k)
{
	_cleanup_bytes_ struct bytes out = {};
	struct json j;

	api_job_json_begin(k->q, &out, &j);
	json_object_begin(&j);
	json_kv_uint(&j, "n_targets", k->n_targets);
	json_kv_uint(&j, "n_exporters", k->n_exporters);
	if (k->known > 0)
		json_kv_double(&j, "cut", k->cut / k->known);
	if (k->taken > 0)
		json_kv_double(&j, "lost", k->lost / (k->taken + k->lost));
	if (k->n_exporters) {
		json_key(&j, "frequency_hz");
		json_object_begin(&j);
		json_kv_double(&j, "least", k->least_hz);
		json_kv_double(&j, "most", k->most_hz);
		json_object_end(&j);
	}
	json_object_end(&j);
	api_job_reply_json(k->q, &j, &out);
}

void api_quality(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	struct quality k = {.q = &q};
	struct errbuf eb = {};
	int e;

	if (api_job_begin(&q, r, arg, "quality", API_JSON) != 0)
		return;
	table_init(&k.targets, q.env.budget);
	e = find(&k, &eb);
	if (e)
		api_job_fail(&q, e, &eb);
	else
		reply(&k);
	table_done(&k.targets);
}
