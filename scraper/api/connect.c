/* SPDX-License-Identifier: Apache-2.0
 *
 * From an HTTP request to a method and back. The handler runs on the http thread, where the client's deadline can still be set.
 */
#include "scraper/api/connect.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/gzip/gzip.h"
#include "lib/json/read.h"
#include "proto/querier.pb-c.h"
#include "proto/settings.pb-c.h"
#include "scraper/api/connect_json.h"
#include <inttypes.h>
#include <strings.h>

enum { MAX_REQUEST_BYTES = 4 << 20 }; /* decompressed */

#define QUERIER(name, message, fn)                                                               \
	{                                                                                        \
		"/querier.v1.QuerierService/" name, name, &querier__v1__##message##__descriptor, \
			fn                                                                       \
	}
#define TYPES(name, message, fn)                                                                  \
	{                                                                                         \
		"/querier.v1.QuerierService/" name, name, &types__v1__##message##__descriptor, fn \
	}
#define SETTINGS(name, message, fn)                                    \
	{                                                              \
		"/settings.v1.SettingsService/" name, "Settings" name, \
			&settings__v1__##message##__descriptor, fn     \
	}

static const struct method {
	const char *path, *name; /* `name` for metrics */
	const ProtobufCMessageDescriptor *request;
	connect_fn *fn;
} methods[] = {
	QUERIER("ProfileTypes", profile_types_request, querier_profile_types),
	TYPES("LabelNames", label_names_request, querier_label_names),
	TYPES("LabelValues", label_values_request, querier_label_values),
	QUERIER("Series", series_request, querier_series),
	QUERIER("SelectSeries", select_series_request, querier_select_series),
	QUERIER("SelectHeatmap", select_heatmap_request, querier_select_heatmap),
	QUERIER("SelectMergeStacktraces", select_merge_stacktraces_request, querier_stacktraces),
	QUERIER("SelectMergeSpanProfile", select_merge_span_profile_request, querier_span_profile),
	QUERIER("SelectMergeProfile", select_merge_profile_request, querier_profile),
	QUERIER("Diff", diff_request, querier_diff),
	TYPES("GetProfileStats", get_profile_stats_request, querier_profile_stats),
	QUERIER("AnalyzeQuery", analyze_query_request, querier_analyze_query),
	SETTINGS("Get", get_settings_request, settings_get),
	SETTINGS("Set", set_settings_request, settings_set),
	SETTINGS("Delete", delete_settings_request, settings_delete),
};

static const struct method *find_method(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (!strcmp(methods[i].path, path))
			return &methods[i];
	return NULL;
}

/* ---- replies ---- */

static const struct {
	int error;
	const char *code;
	unsigned status;
} codes[] = {
	{-EINVAL, "invalid_argument", 400},
	{-ENOENT, "not_found", 404},
	{-ENOMEM, "resource_exhausted", 429},
	{-EFBIG, "resource_exhausted", 429},
	{-ENOTSUP, "unimplemented", 501},
	{-EPROTO, "unknown", 415}, /* a content type that is neither JSON nor protobuf */
	{-ETIMEDOUT, "deadline_exceeded", 504},
	{-ECANCELED, "canceled", 499},
	{-EAGAIN, "unavailable", 503},
	{-EPERM, "permission_denied", 403},
	{-ENOSPC, "unavailable", 503},
	{-EBADMSG, "data_loss", 500},
	{0, "internal", 500},
};

void connect_reply_error(struct http_request *r, int error, const char *text)
{
	_cleanup_bytes_ struct bytes out = {};
	struct json j = json_to(&out);
	size_t i = 0;

	while (codes[i].error && codes[i].error != error)
		i++;
	if (error == -EPROTO)
		http_reply_header(r, "Accept-Post", "application/proto, application/json");
	json_object_begin(&j);
	json_kv_string(&j, "code", codes[i].code);
	json_kv_string(&j, "message", text);
	json_object_end(&j);
	http_reply_bytes(r, codes[i].status, "application/json", &out);
}

static int encode(struct connect_call *c, struct bytes *out, struct errbuf *eb)
{
	const ProtobufCMessage *m = c->message;
	struct json j = json_to(out);
	uint8_t *to;
	size_t n;

	if (c->is_json && c->encoded_as) {
		m = protobuf_c_message_unpack(
			c->encoded_as, &c->in_arena, c->encoded.len, c->encoded.data);
		if (!m)
			return api_job_too_large(eb);
	}
	if (c->is_json) {
		connect_json_write(m, &j);
	} else if (c->encoded_as) {
		*out = c->encoded;
		c->encoded = (struct bytes) {};
	} else {
		n = protobuf_c_message_get_packed_size(m);
		to = bytes_reserve(out, n);
		if (to)
			out->len += protobuf_c_message_pack(m, to);
	}
	return bytes_error(out) ? api_job_too_large(eb) : 0;
}

int connect_answer(struct connect_call *c, const ProtobufCMessage *m, struct errbuf *eb)
{
	c->message = m;
	return arena_error(&c->arena, eb);
}

char *connect_text(struct connect_call *c, const char *s)
{
	char *copy = arena_strdup(&c->arena, s);

	/* protobuf-c's own idea of an empty text; it only reads it. */
	return copy ? copy : (char *)(uintptr_t)protobuf_c_empty_string;
}

/* ---- requests ---- */

/* True for JSON, false for protobuf. */
static int content_kind(const struct http_request *r, bool *ret_json, struct errbuf *eb)
{
	const char *type = http_request_header(r, "Content-Type");

	*ret_json = type && (!strcasecmp(type, "application/json") ||
				    !strcasecmp(type, "application/json; charset=utf-8") ||
				    !strcasecmp(type, "application/json;charset=utf-8"));
	if (*ret_json || (type && !strcasecmp(type, "application/proto")))
		return 0;
	return err_set(eb, -EPROTO,
		"Content-Type \"%.80s\" is neither application/proto nor application/json",
		type ? type : "");
}

/* The request's bytes, decompressed. Nothing is no gzip, but it is an empty protobuf message. */
static int read_body(const struct http_request *r, struct bytes *inflated, const void **ret,
	size_t *ret_n, struct errbuf *eb)
{
	const char *encoding = http_request_header(r, "Content-Encoding");
	int e;

	*ret = http_request_body(r, ret_n);
	if (!encoding || !*encoding || !strcasecmp(encoding, "identity"))
		return 0;
	if (strcasecmp(encoding, "gzip") != 0)
		return err_set(eb, -ENOTSUP,
			"Content-Encoding \"%.40s\" is not supported, only gzip and identity",
			encoding);
	if (!*ret_n)
		return 0;
	e = gzip_inflate(*ret, *ret_n, MAX_REQUEST_BYTES, inflated, eb);
	*ret = inflated->data;
	*ret_n = inflated->len;
	return e == -EBADMSG ? -EINVAL : e;
}

static int read_json(const void *p, size_t n, const ProtobufCMessageDescriptor *d,
	struct bytes *out, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	int r = n ? json_read(p, n, MAX_REQUEST_BYTES, &doc, eb)
		  : err_set(eb, -EINVAL, "no bytes are no JSON message");

	if (r)
		return r == -EBADMSG ? -EINVAL : r;
	return connect_json_read(json_doc_root(doc), d, out, eb);
}

static int read_request(struct connect_call *c, const ProtobufCMessageDescriptor *d,
	const ProtobufCMessage **ret, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes inflated = {}, wire = {};
	const char *version = http_request_header(c->q.request, "Connect-Protocol-Version");
	const void *p = NULL;
	size_t n = 0;
	int r;

	bytes_init(&inflated, c->q.env.budget, 0);
	bytes_init(&wire, c->q.env.budget, 0);
	r = content_kind(c->q.request, &c->is_json, eb);
	if (!r && version && strcmp(version, "1") != 0)
		r = err_set(eb, -EINVAL, "Connect-Protocol-Version \"%.20s\" is not known, only 1",
			version);
	if (!r)
		r = read_body(c->q.request, &inflated, &p, &n, eb);
	if (!r && c->is_json) {
		r = read_json(p, n, d, &wire, eb);
		p = wire.data;
		n = wire.len;
	}
	if (r)
		return r;
	*ret = protobuf_c_message_unpack(d, &c->in_arena, n, p);
	r = arena_error(&c->arena, eb);
	if (!*ret && !r)
		r = err_set(eb, -EINVAL, "the body is no %s message", d->name);
	return r;
}

static void *alloc_in_arena(void *arena, size_t n)
{
	return arena_alloc(arena, n);
}

static void free_in_arena(void *arena, void *p)
{
	(void)arena;
	(void)p;
}

static int call(
	struct connect_call *c, const struct method *m, struct bytes *out, struct errbuf *eb)
{
	const ProtobufCMessage *request = NULL;
	int r = read_request(c, m->request, &request, eb);

	if (!r)
		r = m->fn(c, request, eb);
	return r ? r : encode(c, out, eb);
}

/* The client's own deadline, at most ten digits of milliseconds; 0: none, -EINVAL. */
static int64_t timeout_ms(const struct http_request *r)
{
	const char *text = http_request_header(r, "Connect-Timeout-Ms");
	uint64_t ms;

	if (!text)
		return 0;
	if (strlen(text) > 10 || str_parse_u64(text, &ms, NULL) < 0)
		return -EINVAL;
	return (int64_t)MAX(ms, (uint64_t)1);
}

/* A call that was cancelled because the client's deadline passed. */
static int name_deadline(const struct connect_call *c, int e)
{
	int64_t ms = timeout_ms(c->q.request);
	int64_t spent_ns = clock_monotonic_ns(c->q.api->o.clock) - c->q.begun_ns;

	return e == -ECANCELED && ms > 0 && spent_ns >= ms * NS_PER_MS ? -ETIMEDOUT : e;
}

static void work(struct http_request *r, void *arg)
{
	const struct method *m = find_method(http_request_path(r));
	_cleanup_bytes_ struct bytes out = {};
	struct connect_call c = {};
	struct errbuf eb = {}, text = {};
	struct api *a = arg;
	int e;

	if (!m) {
		connect_reply_error(r, -ENOTSUP, "this server does not implement the method");
		return;
	}
	api_job_init(&c.q, r, a, m->name);
	arena_init(&c.arena, c.q.env.budget);
	bytes_init(&c.encoded, a->o.budget, 0);
	bytes_init(&out, a->o.budget, 0); /* outlives the query's own budget */
	c.in_arena = (ProtobufCAllocator) {alloc_in_arena, free_in_arena, &c.arena};
	e = name_deadline(&c, call(&c, m, &out, &eb));
	if (!e)
		api_job_warn(&c.q, NULL);
	e = api_job_end(&c.q, e, &eb, &text);
	if (e)
		connect_reply_error(r, e, text.text);
	else
		http_reply_bytes(r, 200, http_request_header(r, "Content-Type"), &out);
	arena_done(&c.arena);
	bytes_done(&c.encoded);
	api_job_done(&c.q);
}

void api_connect(struct http_request *r, void *arg)
{
	const struct api *a = arg;
	int64_t ms = timeout_ms(r);

	if (ms < 0) {
		connect_reply_error(r, -EINVAL,
			"Connect-Timeout-Ms is no number of milliseconds of at most ten digits");
		return;
	}
	if (ms && ms < a->o.query_timeout_ms)
		http_job_set_deadline(r, clock_monotonic_ns(a->o.clock) + ms * NS_PER_MS);
	http_job_run(r, work);
}
