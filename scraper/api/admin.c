/* SPDX-License-Identifier: Apache-2.0
 *
 * Prometheus' TSDB admin API: snapshot, delete_series, clean_tombstones. Only with --web.enable-admin-api.
 */
#include "lib/base/alloc.h"
#include "lib/base/instant.h"
#include "lib/json/write.h"
#include "lib/net/url/url.h"
#include "scraper/api/api_impl.h"
#include <string.h>

/* Takes the store for reading; false: the reply was sent. */
static bool begin(struct api *a, struct http_request *r)
{
	bool has_store;

	if (!a->o.enable_admin) {
		api_reply_error(r, API_JSON, -EAGAIN,
			"admin APIs disabled: start with --web.enable-admin-api");
		return false;
	}
	pthread_rwlock_rdlock(&a->lock);
	has_store = a->store != NULL;
	if (has_store)
		return true;
	pthread_rwlock_unlock(&a->lock);
	api_reply_error(r, API_JSON, -EAGAIN, "the store is not open yet");
	return false;
}

static void fail(struct http_request *r, int e, const struct errbuf *eb)
{
	api_reply_error(r, API_JSON, e, err_text(eb, e));
}

/* 204, as Prometheus does. */
static void reply_done(struct http_request *r)
{
	struct bytes empty = {.data = NULL};

	http_reply_bytes(r, 204, "application/json", &empty);
}

static int skip_head(struct http_request *r, bool *ret, struct errbuf *eb)
{
	const char *text = http_request_param(r, "skip_head");

	*ret = text && (!strcmp(text, "true") || !strcmp(text, "1"));
	if (text && *text && !*ret && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
		return err_set(eb, -EINVAL, "skip_head=%.64s: true or false expected", text);
	return 0;
}

void api_admin_snapshot(struct http_request *r, void *arg)
{
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	char name[STORE_SNAPSHOT_NAME] = "";
	struct errbuf eb = {.text = ""};
	struct api *a = arg;
	struct json j;
	bool skip = false;
	int e;

	if (!begin(a, r))
		return;
	e = skip_head(r, &skip, &eb);
	e = e ? e : store_snapshot(a->store, !skip, name, &eb);
	pthread_rwlock_unlock(&a->lock);
	if (e < 0) {
		fail(r, e, &eb);
		return;
	}
	api_json_begin(&out, &j);
	json_object_begin(&j);
	json_kv_string(&j, "name", name);
	json_object_end(&j);
	api_reply_json(r, &j, &out);
}

void api_admin_clean_tombstones(struct http_request *r, void *arg)
{
	struct errbuf eb = {.text = ""};
	struct api *a = arg;
	int e;

	if (!begin(a, r))
		return;
	e = store_clean_tombstones(a->store, &eb);
	pthread_rwlock_unlock(&a->lock);
	if (e < 0)
		fail(r, e, &eb);
	else
		reply_done(r);
}

struct deletion {
	struct query_selector *selectors;
	size_t n;
	int64_t start_ns, end_ns;
};

static void deletion_done(struct deletion *d)
{
	for (size_t i = 0; i < d->n; i++)
		query_selector_done(&d->selectors[i]);
	free(d->selectors);
}

/* A profile's columns cannot be deleted apart, so a selector names whole profiles: process_cpu{job="x"}. */
static int check_selector(const struct query_selector *s, struct errbuf *eb)
{
	if (s->has_type)
		return err_set(eb, -EINVAL,
			"match[]: a whole profile is deleted, so its name stands alone: %s{…}, "
			"without types and units",
			s->type.name);
	for (size_t i = 0; i < s->n_matchers; i++) {
		const char *name = s->matchers[i].name;

		if (!strncmp(name, "__", 2) && strcmp(name, "__name__") != 0)
			return err_set(eb, -EINVAL,
				"match[]: %.64s is no label of a stored series: whole profiles are "
				"deleted by __name__ and their other labels",
				name);
	}
	return s->n_matchers ? 0
			     : err_set(eb, -EINVAL,
				       "match[]: an empty selector would delete everything: say "
				       "so with {__name__=~\".+\"}");
}

static int read_param(
	struct deletion *d, const struct url_param *p, int64_t now_ns, struct errbuf *eb)
{
	int e;

	if (!strcmp(p->name, "start") || !strcmp(p->name, "end")) {
		e = instant_parse(
			p->value, now_ns, p->name[0] == 's' ? &d->start_ns : &d->end_ns, eb);
		return e < 0 ? err_prefix(eb, e, "%s", p->name) : 0;
	}
	if (strcmp(p->name, "match[]") != 0)
		return err_set(eb, -EINVAL,
			"unknown parameter \"%.64s\": match[], start and end are known", p->name);
	d->selectors = xrealloc(d->selectors, (d->n + 1) * sizeof(*d->selectors));
	e = query_selector_parse(p->value, &d->selectors[d->n], eb);
	if (e < 0)
		return err_prefix(eb, e, "match[]");
	return check_selector(&d->selectors[d->n++], eb);
}

static int read_deletion(
	struct http_request *r, int64_t now_ns, struct deletion *d, struct errbuf *eb)
{
	const struct url_params *params = http_request_params(r);
	int e = 0;

	for (size_t i = 0; !e && i < params->n; i++)
		e = read_param(d, &params->items[i], now_ns, eb);
	if (!e && !d->n)
		return err_set(eb, -EINVAL, "no match[] parameter provided");
	if (!e && d->start_ns > d->end_ns)
		return err_set(eb, -EINVAL, "start is after end");
	return e;
}

static int delete_one(
	struct api *a, const struct deletion *d, const struct query_selector *s, struct errbuf *eb)
{
	static const enum store_matcher_op ops[] = {[QUERY_EQ] = STORE_EQ,
		[QUERY_NE] = STORE_NE,
		[QUERY_RE] = STORE_RE,
		[QUERY_NRE] = STORE_NRE};
	struct store_matcher m[QUERY_MAX_MATCHERS];
	uint64_t n_blocks;

	for (size_t i = 0; i < s->n_matchers; i++)
		m[i] = (struct store_matcher) {.op = ops[s->matchers[i].op],
			.name = s->matchers[i].name,
			.value = s->matchers[i].value};
	return store_delete(a->store, m, s->n_matchers, d->start_ns, d->end_ns, &n_blocks, eb);
}

void api_admin_delete_series(struct http_request *r, void *arg)
{
	_cleanup_(deletion_done)
	struct deletion d = {.start_ns = INT64_MIN, .end_ns = INT64_MAX};
	struct errbuf eb = {.text = ""};
	struct api *a = arg;
	int e;

	if (!begin(a, r))
		return;
	e = read_deletion(r, clock_realtime_ns(a->o.clock), &d, &eb);
	for (size_t i = 0; !e && i < d.n; i++)
		e = delete_one(a, &d, &d.selectors[i], &eb);
	pthread_rwlock_unlock(&a->lock);
	if (e < 0)
		fail(r, e, &eb);
	else
		reply_done(r);
}
