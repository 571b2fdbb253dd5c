/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /api/v1/import: a pprof profile with labels, cut into series by the same rules as a scraped one and stored as a block of its own.
 */
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/gzip/gzip.h"
#include "scraper/api/api_impl.h"
#include "scraper/scrape/series.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { IMPORT_MAX_SERIES = 500, IMPORT_MAX_NAME = 128, IMPORT_LAYERS = 2 };
#define LABEL_PREFIX "label."

struct import {
	struct api *api;
	struct http_request *request;
	struct budget budget;
	const char *name; /* the profile's: __name__ */
	struct labels_builder labels;
	const char **sample_labels; /* in the request's arena */
	size_t n_sample_labels;
	struct labels target;
	struct bytes inflated;
	struct profile profile;
	struct arena arena;
	struct scrape_limit *limit;
	struct scrape_series_result series;
	struct store_scrape scrape;
	struct store_coverage coverage;
	struct store_result stored;
};

static void import_init(struct import *m, struct api *a, struct http_request *r)
{
	*m = (struct import) {.api = a, .request = r, .name = "process_cpu"};
	budget_init(&m->budget, a->o.budget, "import", "--query.max-memory", 0);
	bytes_init(&m->inflated, &m->budget, 0);
	profile_init(&m->profile, &m->budget);
	arena_init(&m->arena, &m->budget);
	labels_builder_init(&m->labels);
}

static void import_done(struct import *m)
{
	scrape_series_done(&m->series);
	if (m->limit)
		scrape_limit_put(m->limit);
	arena_done(&m->arena);
	profile_done(&m->profile);
	bytes_done(&m->inflated);
	labels_done(&m->target);
	labels_builder_done(&m->labels);
}

/* ---- parameters ---- */

static bool is_name(const char *s)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	size_t n = strlen(s);

	return n && n <= IMPORT_MAX_NAME && strchr(first, s[0]) &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == n;
}

static int add_label(struct import *m, const char *name, const char *value, struct errbuf *eb)
{
	if (!is_name(name) || !strncmp(name, "__", 2))
		return err_set(eb, -EINVAL,
			"label.%.128s: a label's name is made of letters, digits and _, does not "
			"begin with a digit or __ and has at most %d bytes",
			name, IMPORT_MAX_NAME);
	if (!str_is_utf8(value, strlen(value)))
		return err_set(eb, -EINVAL, "label.%s: the value is not valid UTF-8", name);
	if (strlen(value) > STORE_MAX_STRING)
		return err_set(eb, -EINVAL, "label.%s: the value has more than %d bytes", name,
			STORE_MAX_STRING);
	if (*labels_builder_get(&m->labels, name))
		return err_set(eb, -EINVAL, "label.%s is given twice", name);
	labels_builder_set(&m->labels, name, value);
	return 0;
}

/* "a,b" */
static int add_sample_labels(struct import *m, const char *list, struct errbuf *eb)
{
	struct arena *a = http_request_arena(m->request);
	const char **names =
		arena_alloc_array(a, m->n_sample_labels + strlen(list) + 1, sizeof(*names));
	char *copy = arena_strdup(a, list), *save = NULL;

	if (!names || !copy)
		return err_set(eb, -ENOMEM, "no memory for parameters");
	for (size_t i = 0; i < m->n_sample_labels; i++)
		names[i] = m->sample_labels[i];
	for (char *s = strtok_r(copy, ",", &save); s; s = strtok_r(NULL, ",", &save))
		names[m->n_sample_labels++] = s;
	m->sample_labels = names;
	return 0;
}

static int read_param(struct import *m, const struct url_param *p, struct errbuf *eb)
{
	if (!strncmp(p->name, LABEL_PREFIX, strlen(LABEL_PREFIX)))
		return add_label(m, p->name + strlen(LABEL_PREFIX), p->value, eb);
	if (!strcmp(p->name, "sample_labels"))
		return add_sample_labels(m, p->value, eb);
	if (strcmp(p->name, "name") != 0)
		return err_set(eb, -EINVAL,
			"unknown parameter \"%.64s\": name, label.NAME and sample_labels are known",
			p->name);
	if (!is_name(p->value))
		return err_set(eb, -EINVAL,
			"name: letters, digits and _ expected, like process_cpu or memory");
	m->name = p->value;
	return 0;
}

static int read_params(struct import *m, struct errbuf *eb)
{
	const struct url_params *params = http_request_params(m->request);
	int r = 0;

	for (size_t i = 0; !r && i < params->n; i++)
		r = read_param(m, &params->items[i], eb);
	if (r < 0)
		return r;
	labels_builder_set(&m->labels, "__name__", m->name);
	r = labels_builder_finish(&m->labels, &m->target);
	return r < 0 ? err_set(eb, r, "no memory for labels") : 0;
}

/* ---- the body ---- */

/* A .pb.gz is gzip inside; Content-Encoding puts another layer around it. */
static int inflate(struct import *m, const uint8_t **ret, size_t *ret_n, struct errbuf *eb)
{
	const char *encoding = http_request_header(m->request, "Content-Encoding");
	const uint8_t *p = http_request_body(m->request, ret_n);
	size_t max = m->api->o.max_inflated_bytes;
	int r = 0;

	if (!*ret_n)
		return err_set(eb, -EINVAL, "the body is empty, a pprof profile expected");
	if (encoding && *encoding && strcasecmp(encoding, "identity") &&
		strcasecmp(encoding, "gzip") && strcasecmp(encoding, "x-gzip"))
		return err_set(
			eb, -EINVAL, "Content-Encoding \"%.32s\": gzip or none expected", encoding);
	for (int layer = 0; !r && layer < IMPORT_LAYERS && gzip_is(p, *ret_n); layer++) {
		struct bytes out;

		bytes_init(&out, &m->budget, 0);
		r = gzip_inflate(p, *ret_n, max, &out, eb);
		bytes_done(&m->inflated);
		m->inflated = out;
		p = out.data;
		*ret_n = out.len;
	}
	if (r == -EBADMSG)
		return err_prefix(eb, -EINVAL, "the body");
	if (r == -EFBIG || (!r && *ret_n > max))
		return err_set(eb, -EFBIG,
			"the body has more than %zu bytes decompressed "
			"(--scrape.max-inflated-bytes)",
			max);
	*ret = p;
	return r;
}

static int decode(struct import *m, struct errbuf *eb)
{
	struct profile *p = &m->profile;
	const uint8_t *data = NULL;
	size_t n = 0;
	int r = inflate(m, &data, &n, eb);

	r = r ? r : prof_decode(data, n, p, eb);
	if (r == -EBADMSG)
		return err_prefix(eb, -EINVAL, "not a valid pprof profile");
	if (r < 0)
		return r;
	if (p->time_ns <= 0)
		return err_set(eb, -EINVAL,
			"the profile does not say when it was taken (time_nanos is %lld): an "
			"import needs it",
			(long long)p->time_ns);
	if (p->duration_ns < 0 ||
		__builtin_add_overflow(p->time_ns, p->duration_ns, &m->scrape.time_ns))
		return err_set(eb, -EINVAL,
			"not a valid pprof profile: time_nanos %lld with duration_nanos %lld",
			(long long)p->time_ns, (long long)p->duration_ns);
	m->scrape.duration_ns = p->duration_ns;
	return 0;
}

/* As scraping does without configuration: sample labels stay with rows, unless they were asked for. */
static int make_series(struct import *m, struct errbuf *eb)
{
	const struct config_job job = {
		.name = "",
		.profiling = {.sample_labels = {.items = m->sample_labels, .n = m->n_sample_labels},
			.has_sample_labels = true,
			.has_drop_labels = true,
			.max_series = IMPORT_MAX_SERIES},
	};
	_cleanup_free_ char *name = xstrdup(m->name);
	const struct scrape_spec spec = {.name = name, .is_windowed = true};
	const struct scrape_series_input in = {.profile = &m->profile,
		.job = &job,
		.spec = &spec,
		.preset = SCRAPE_PRESET_GO,
		.target = &m->target,
		.limit = m->limit = scrape_limit_new(0, INT64_MAX),
		.now_ns = clock_monotonic_ns(m->api->o.clock)};
	enum scrape_reason reason = scrape_series_build(&in, &m->arena, &m->scrape, &m->series, eb);

	if (reason)
		return reason == SCRAPE_FAIL_MEMORY ? -ENOMEM : -EINVAL;
	if (m->series.n_joined_series)
		return err_set(eb, -EINVAL,
			"sample_labels: the profile would become more than %d series",
			IMPORT_MAX_SERIES);
	m->coverage = (struct store_coverage) {.labels = &m->target,
		.time_ns = m->scrape.time_ns,
		.duration_ns = m->scrape.duration_ns};
	m->scrape.coverage = &m->coverage;
	m->scrape.n_coverage = 1;
	return 0;
}

static int store(struct import *m, struct errbuf *eb)
{
	struct api *a = m->api;
	int r;

	pthread_rwlock_rdlock(&a->lock);
	r = a->store ? store_import(a->store, &m->scrape, 1, &m->stored, eb)
		     : err_set(eb, -EAGAIN, "not ready: the store is not open");
	pthread_rwlock_unlock(&a->lock);
	return r;
}

/* ---- the answer ---- */

static void put_types(struct import *m, struct json *j)
{
	const struct store_scrape *x = &m->scrape;

	json_key(j, "profile_types");
	json_array_begin(j);
	for (size_t i = 0; i < x->n_columns; i++) {
		const char *id = arena_printf(&m->arena, "%s:%s:%s:%s:%s", m->name,
			x->columns[i].type, x->columns[i].unit, x->period_type, x->period_unit);

		json_string(j, id ? id : "");
	}
	json_array_end(j);
}

static void reply(struct import *m)
{
	struct bytes out = {};
	struct json j;
	char time[40];

	api_format_time(m->scrape.time_ns, time);
	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_kv_uint(&j, "profiles", m->stored.n_streams);
	json_kv_uint(&j, "rows", m->stored.n_rows);
	json_kv_uint(&j, "duplicates", m->stored.n_duplicates);
	json_kv_uint(&j, "mended_label_texts", m->profile.n_mended_texts);
	json_kv_string(&j, "time", time);
	put_types(m, &j);
	json_object_end(&j);
	api_reply_json(m->request, &j, &out);
}

void api_import(struct http_request *r, void *arg)
{
	struct api *a = arg;
	_cleanup_(import_done)
	struct import m;
	struct errbuf eb = {};
	int e;

	import_init(&m, a, r);
	if (a->imports)
		metric_inc(a->imports);
	e = read_params(&m, &eb);
	e = e ? e : decode(&m, &eb);
	e = e ? e : make_series(&m, &eb);
	e = e ? e : store(&m, &eb);
	if (!e) {
		reply(&m);
		return;
	}
	if (a->import_failures)
		metric_inc(metric_cell(a->import_failures, api_error_type(e)));
	api_reply_error(r, API_JSON, e, err_text(&eb, e));
}
