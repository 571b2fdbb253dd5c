/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1/profile_types, labels, label values and series.
 */
#include "lib/base/str.h"
#include "scraper/api/api_impl.h"
#include <stdlib.h>
#include <string.h>

static const char *kind_name(enum store_column_kind kind)
{
	return kind == STORE_DELTA ? "delta" : kind == STORE_INSTANT ? "instant" : "gauge";
}

void api_profile_types(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_bytes_ struct bytes out = {};
	_cleanup_query_type_list_ struct query_type_list types = {};
	struct query_catalog what;
	struct errbuf eb = {};
	struct json j;
	int e;

	if (api_job_begin(&q, r, arg, "profile_types", API_JSON) != 0)
		return;
	what = api_job_catalog(&q);
	e = query_types(&what, &types, &eb);
	if (e) {
		api_job_fail(&q, e, &eb);
		return;
	}
	api_job_json_begin(&q, &out, &j);
	json_array_begin(&j);
	for (size_t i = 0; i < types.n; i++) {
		const struct query_type *t = &types.items[i];

		json_object_begin(&j);
		json_kv_string(&j, "id", t->id);
		json_kv_string(&j, "name", t->name);
		json_kv_string(&j, "sample_type", t->sample_type);
		json_kv_string(&j, "sample_unit", t->sample_unit);
		json_kv_string(&j, "period_type", t->period_type);
		json_kv_string(&j, "period_unit", t->period_unit);
		json_kv_string(&j, "kind", kind_name(t->kind));
		json_object_end(&j);
	}
	json_array_end(&j);
	api_job_reply_json(&q, &j, &out);
}

static void reply_strings(
	struct api_job *q, int r, const struct query_strings *s, const struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes out = {};
	struct json j;

	if (r) {
		api_job_fail(q, r, eb);
		return;
	}
	api_job_json_begin(q, &out, &j);
	json_array_begin(&j);
	for (size_t i = 0; i < s->n && (!q->params.limit || i < q->params.limit); i++)
		json_string(&j, s->items[i]);
	json_array_end(&j);
	api_job_reply_json(q, &j, &out);
}

void api_labels(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_query_strings_ struct query_strings s = {};
	struct query_catalog what;
	struct errbuf eb = {};
	int e;

	if (api_job_begin(&q, r, arg, "labels", API_JSON) != 0)
		return;
	what = api_job_catalog(&q);
	e = query_label_names(&what, &s, &eb);
	reply_strings(&q, e, &s, &eb);
}

/* UTF-8 of a code point, appended. */
static void put_rune(struct bytes *out, uint32_t r)
{
	unsigned n = r < 0x80 ? 1 : r < 0x800 ? 2 : r < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

	bytes_put_u8(out, (uint8_t)(lead[n] | r >> (6 * (n - 1))));
	while (--n)
		bytes_put_u8(out, (uint8_t)(0x80 | (r >> (6 * (n - 1)) & 0x3f)));
}

/*
 * Label names that are no identifiers come escaped, as Prometheus 3 does it: U__ in front, "__" for "_", "_HEX_" for other
 * characters (prometheus common/model UnescapeName). Anything else is the name itself.
 */
static int unescape_name(const char *name, struct bytes *out)
{
	bytes_reset(out);
	if (str_starts_with(name, "U__"))
		name += 3;
	else
		return -ENOENT;
	while (*name) {
		uint32_t rune = 0;

		if (*name != '_' || name[1] == '_') {
			bytes_put_u8(out, (uint8_t)*name);
			name += *name == '_' ? 2 : 1;
			continue;
		}
		for (name++; *name != '_'; name++) {
			const char *digits = "0123456789abcdef",
				   *d = *name ? strchr(digits, *name | 0x20) : NULL;

			if (!d || rune > 0xfffff)
				return -EINVAL;
			rune = rune << 4 | (uint32_t)(d - digits);
		}
		if (!rune || rune > 0x10ffff || (rune >= 0xd800 && rune < 0xe000))
			return -EINVAL;
		put_rune(out, rune);
		name++;
	}
	bytes_put_u8(out, 0);
	return bytes_error(out);
}

void api_label_values(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_query_strings_ struct query_strings s = {};
	_cleanup_bytes_ struct bytes unescaped = {};
	const char *name = http_request_wildcard(r, 0);
	struct query_catalog what;
	struct errbuf eb = {};
	int e;

	if (api_job_begin(&q, r, arg, "label_values", API_JSON) != 0)
		return;
	if (unescape_name(name, &unescaped) == 0)
		name = (const char *)unescaped.data;
	e = *name ? 0 : err_set(&eb, -EINVAL, "invalid label name: \"\"");
	what = api_job_catalog(&q);
	if (!e)
		e = query_label_values(&what, name, &s, &eb);
	reply_strings(&q, e, &s, &eb);
}

void api_series(struct http_request *r, void *arg)
{
	_cleanup_api_job_ struct api_job q = {};
	_cleanup_bytes_ struct bytes out = {};
	_cleanup_query_series_list_ struct query_series_list series = {};
	struct query_catalog what;
	struct errbuf eb = {};
	struct json j;
	int e = 0;

	if (api_job_begin(&q, r, arg, "series", API_JSON) != 0)
		return;
	what = api_job_catalog(&q);
	e = query_series(&what, q.params.limit, &series, &eb);
	if (e) {
		api_job_fail(&q, e, &eb);
		return;
	}
	api_job_json_begin(&q, &out, &j);
	json_array_begin(&j);
	for (size_t i = 0; i < series.n; i++)
		api_put_labels(&j, NULL, &series.items[i]);
	json_array_end(&j);
	api_job_reply_json(&q, &j, &out);
}
