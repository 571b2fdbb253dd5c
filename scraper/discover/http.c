/* SPDX-License-Identifier: Apache-2.0
 *
 * http_sd_configs: a list of target groups as JSON from a URL, asked for every refresh_interval.
 */
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "scraper/config/config.h"
#include "scraper/discover/provider.h"
#include <string.h>
#include <strings.h>

static const struct config_http_sd *settings(const struct discover_provider *p)
{
	return &p->job->http_sds[p->idx];
}

static size_t count(const struct config_job *job)
{
	return job->n_http_sds;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	config_sd_key(job, "http_sd_configs", i, out);
}

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	(void)p, (void)job, (void)i;
	return 0;
}

static void stop(struct discover_provider *p)
{
	(void)p;
}

/* "application/json", with nothing behind it but a charset that is UTF-8. */
static bool is_json(const char *type)
{
	size_t n = strlen("application/json");
	const char *charset;

	if (!type || strncasecmp(type, "application/json", n))
		return false;
	type += n + strspn(type + n, " ");
	if (!*type)
		return true;
	charset = *type == ';' ? type + 1 + strspn(type + 1, " ") : "";
	return !strcasecmp(charset, "charset=utf-8") || !strcasecmp(charset, "charset=\"utf-8\"");
}

static int parse(struct discover_provider *p, const struct http_response *r,
	struct discover_group **ret, size_t *ret_n, struct errbuf *eb)
{
	const char *url = settings(p)->shown_url;
	struct config_groups parsed;
	struct discover_group *groups;
	size_t n = 0;
	int e;

	if (r->error < 0)
		return err_set(eb, r->error, "%s", r->text.text);
	if (r->status != 200)
		return err_set(eb, -EPROTO, "the server answered with status %u", r->status);
	if (!is_json(http_response_header(r, "content-type")))
		return err_set(eb, -EPROTO, "the answer is %.80s, expected application/json",
			http_response_header(r, "content-type")
				? http_response_header(r, "content-type")
				: "of no type");
	e = config_parse_groups("answer.json", r->body.data, r->body.len, &parsed, eb);
	if (e < 0)
		return e;
	discover_replaced(p, url, parsed.n_replaced, &p->n_replaced);
	groups = xcalloc(parsed.n + 1, sizeof(*groups));
	for (; n < parsed.n && e == 0; n += e == 0) {
		_cleanup_free_ char *source = xasprintf("%s:%zu", url, n);

		e = discover_group_from(&parsed.items[n], source, "__meta_url", url, &groups[n]);
	}
	config_groups_free(&parsed);
	if (e < 0) {
		discover_groups_free(groups, n);
		return err_set(eb, e, "out of memory");
	}
	*ret = groups;
	*ret_n = n;
	return 0;
}

static void on_answer(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct discover_group *groups = NULL;
	struct errbuf eb = {0};
	size_t n = 0;
	int e = parse(p, r, &groups, &n, &eb);

	(void)arg;
	if (e < 0)
		discover_failed(p, "http_sd %s: %s", settings(p)->shown_url, err_text(&eb, e));
	else
		discover_set_groups(p, groups, n);
}

static void refresh(struct discover_provider *p, int64_t now_ns)
{
	const struct config_http_sd *sd = settings(p);
	char interval[80];
	const char *const headers[] = {"Accept: application/json", interval, NULL};
	struct errbuf eb = {0};
	int e;

	p->refreshes++;
	p->next_ns = now_ns + sd->refresh_interval_ms * NS_PER_MS;
	snprintf(interval, sizeof(interval), "X-Prometheus-Refresh-Interval-Seconds: %g",
		(double)sd->refresh_interval_ms / 1000);
	if (p->fetches)
		return; /* the last one still waits for its answer */
	e = discover_fetch(p,
		&(struct discover_request) {
			.url = sd->url,
			.headers = headers,
			.transport = &sd->http.transport,
			.timeout_ms = (uint32_t)MIN(sd->refresh_interval_ms, (int64_t)UINT32_MAX),
			.done = on_answer,
		},
		&eb);
	if (e < 0)
		discover_failed(p, "http_sd %s: %s", sd->shown_url, err_text(&eb, e));
}

const struct discover_kind *discover_http(void)
{
	static const struct discover_kind kind = {
		"http", count, put_key, start, refresh, stop, .shares_groups = false};

	return &kind;
}
