/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes and the small answers.
 */
#include "exporter/serve/internal.h"
#include "lib/base/alloc.h"
#include "lib/base/version.h"
#include <inttypes.h>
#include <string.h>

enum { N_WORKERS = 2, STOP_GRACE_MS = 3000 };

void serve_reply_error(struct http_request *r, unsigned code, const char *text)
{
	http_reply_header(r, "X-Go-Pprof", "1");
	http_reply_text(r, code, "%s", text);
}

static void serve_healthy(struct http_request *r, void *arg)
{
	char text[SERVE_STATE_BYTES];
	unsigned code = serve_state(arg, text);

	http_reply_text(r, code, "%s", text);
}

static void serve_ready(struct http_request *r, void *arg)
{
	struct serve *s = arg;

	if (profile_source_covered_ns(s->o.source) >= s->started_ns + NS_PER_S)
		http_reply_text(r, 200, "Sonde exporter is Ready.");
	else
		http_reply_text(r, 503,
			"Sonde exporter is starting: the first second of samples is not in yet.");
}

static void serve_metrics(struct http_request *r, void *arg)
{
	struct serve *s = arg;
	struct bytes out;

	bytes_init(&out, s->o.budget, 16 << 20);
	metrics_print(s->metrics, &out);
	http_reply_bytes(r, 200, METRICS_CONTENT_TYPE, &out);
}

/* net/http/pprof: the command line, arguments separated by NUL. */
static void serve_cmdline(struct http_request *r, void *arg)
{
	struct serve *s = arg;
	struct bytes out;

	bytes_init(&out, s->o.budget, 0);
	for (char *const *a = s->o.argv; *a; a++)
		bytes_put(&out, *a, strlen(*a) + (a[1] != NULL));
	http_reply_bytes(r, 200, "text/plain; charset=utf-8", &out);
}

/* Addresses of many processes have no one table: profiles carry their names, so there is nothing to ask here. */
static void serve_symbol(struct http_request *r, void *arg)
{
	(void)arg;
	http_reply_text(r, 200, "num_symbols: 0");
}

static void serve_pprof_redirect(struct http_request *r, void *arg)
{
	(void)arg;
	http_reply_redirect(r, "/debug/pprof/");
}

static const struct http_route routes[] = {
	{HTTP_GET, "/", serve_index, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/flags", serve_flags, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/metrics", serve_metrics, HTTP_ON_WORKER | HTTP_MONITORING, 0},
	{HTTP_GET, "/targets", serve_targets, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/unwind", serve_unwind, HTTP_ON_WORKER, 0},
	{HTTP_GET, "/-/healthy", serve_healthy, HTTP_MONITORING, 0},
	{HTTP_GET, "/-/ready", serve_ready, HTTP_ON_WORKER | HTTP_MONITORING, 0},
	{HTTP_GET, "/debug/pprof", serve_pprof_redirect, 0, 0},
	{HTTP_GET, "/debug/pprof/", serve_pprof_index, 0, 0},
	{HTTP_GET, "/debug/pprof/cmdline", serve_cmdline, 0, 0},
	{HTTP_GET | HTTP_POST, "/debug/pprof/symbol", serve_symbol, 0, 0},
	{HTTP_GET, "/debug/pprof/*", serve_profile, 0, 0},
};

/* Names of the labels that every sample has: what a scraper should make part of the series. */
static char *labels_header(const struct labels *constants)
{
	_cleanup_bytes_ struct bytes b = {0};

	bytes_init(&b, NULL, 0);
	for (size_t i = 0; i < constants->n; i++)
		bytes_printf(&b, "%s%s", i ? ", " : "", constants->items[i].name);
	return xstrndup(b.len ? (const char *)b.data : "", b.len);
}

/* "process_cpu=profile": store name = endpoint, those that are on. */
static char *types_header(const struct profile_source *source)
{
	_cleanup_bytes_ struct bytes b = {0};

	bytes_init(&b, NULL, 0);
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		if (profile_source_is_on(source, i))
			bytes_printf(&b, "%s%s=%s", b.len ? ", " : "", event_source(i)->store_name,
				event_source(i)->endpoint);
	return xstrndup(b.len ? (const char *)b.data : "", b.len);
}

int serve_open(const struct serve_options *o, struct serve **ret, struct errbuf *eb)
{
	_cleanup_(serve_freep)
	struct serve *s = xcalloc(1, sizeof(*s));
	char name[64];
	int r;

	s->o = *o;
	s->started_ns = clock_boottime_ns(o->clock);
	s->metrics = metrics_new();
	s->types = types_header(o->source);
	s->labels = labels_header(o->source->constants);
	snprintf(s->retention, sizeof(s->retention), "%" PRIu32, o->source->retention_s);
	snprintf(name, sizeof(name), "sonde-exporter/%s", version_number());
	serve_add_metrics(s);
	r = http_server_open(
		&(struct http_server_options) {
			.listen = o->listen,
			.n_listen = o->n_listen,
			.cors_origin = o->cors_origin,
			.web_config_file = o->web_config_file,
			.server_name = name,
			.n_workers = N_WORKERS,
			.clock = o->clock,
			.budget = o->budget,
			.metrics = s->metrics,
		},
		routes, ARRAY_SIZE(routes), s, &s->http, eb);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}

int serve_start(struct serve *s, struct errbuf *eb)
{
	return http_server_start(s->http, eb);
}

const char *serve_address(const struct serve *s, size_t i)
{
	return http_server_address(s->http, i);
}

void serve_stop(struct serve *s)
{
	http_server_stop(s->http, STOP_GRACE_MS);
}

void serve_freep(struct serve **sp)
{
	struct serve *s = *sp;

	if (!s)
		return;
	http_server_freep(&s->http);
	metrics_freep(&s->metrics);
	free(s->types);
	free(s->labels);
	free(s);
	*sp = NULL;
}
