/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of the Docker Engine API (docs.docker.com/reference/api/engine), without a version in the path: the daemon's own.
 */
#include "scraper/discover/docker_client.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include "scraper/config/config.h"
#include <string.h>

struct question {
	size_t list;
};

void docker_client_done(struct docker_client *c)
{
	for (size_t i = 0; i < c->n_lists; i++)
		json_doc_freep(&c->lists[i]);
	c->n_lists = 0;
}

static void put_json_string(struct bytes *out, const char *s)
{
	bytes_put_u8(out, '"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			bytes_printf(out, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			bytes_printf(out, "\\u%04x", *s);
		else
			bytes_put_u8(out, (uint8_t)*s);
	}
	bytes_put_u8(out, '"');
}

/* {"name":{"value":true,…},…}: filters of one name are alternatives. */
static void put_filters(const struct config_docker_client *sd, struct bytes *out)
{
	_cleanup_bytes_ struct bytes json = {0};

	bytes_put_u8(&json, '{');
	for (size_t i = 0; i < sd->n_filters; i++) {
		bytes_put_str(&json, i ? "," : "");
		put_json_string(&json, sd->filters[i].name);
		bytes_put_str(&json, ":{");
		for (size_t k = 0; k < sd->filters[i].values.n; k++) {
			bytes_put_str(&json, k ? "," : "");
			put_json_string(&json, sd->filters[i].values.items[k]);
			bytes_put_str(&json, ":true");
		}
		bytes_put_u8(&json, '}');
	}
	bytes_put_u8(&json, '}');
	bytes_put_str(out, "?filters=");
	if (bytes_error(&json) == 0)
		url_escape_query(out, (const char *)json.data, json.len);
	else
		out->error = bytes_error(&json);
}

/* A provider that has all it asked for, or what it could get. */
static void finish(struct discover_provider *p, struct docker_client *c)
{
	if (c->error)
		discover_failed(p, "%s_sd %s: %s", p->kind->name, c->host, c->error_text.text);
	else
		c->done(p, c);
	docker_client_done(c);
}

static void fail(struct docker_client *c, int error, const char *why)
{
	if (!c->error)
		c->error = err_set(&c->error_text, error, "%s", why);
}

static void on_answer(struct discover_provider *p, struct http_response *r, void *arg)
{
	struct docker_client *c = p->state;
	struct question *q = arg;
	struct errbuf eb = {0};
	int e = discover_read_json(r, JSON_KIND_ARRAY, &c->lists[q->list], &eb);

	free(q);
	if (e < 0)
		fail(c, e, err_text(&eb, e));
	if (!--c->n_waiting)
		finish(p, c);
}

/* tcp:// is http, or https with tls_config, as for the docker command; unix:// names a socket. */
static int ask(struct discover_provider *p, const struct config_docker_client *sd, size_t list,
	const char *path, struct errbuf *eb)
{
	static const char *const headers[] = {"Accept: application/json", NULL};
	bool is_unix = str_starts_with(sd->host, "unix://");
	_cleanup_bytes_ struct bytes url = {0};
	const char *scheme = strstr(sd->host, "://");
	struct question *q;
	int e;

	if (is_unix)
		bytes_put_str(&url, "http://localhost");
	else if (str_starts_with(sd->host, "tcp://"))
		bytes_printf(&url, "%s%s", sd->http.tls.is_written ? "https" : "http", scheme);
	else
		bytes_put_str(&url, sd->host);
	while (url.len && url.data[url.len - 1] == '/')
		url.len--;
	bytes_put_str(&url, path);
	if (!list && sd->n_filters)
		put_filters(sd, &url);
	bytes_put_u8(&url, 0);
	if (bytes_error(&url) < 0)
		return err_set(eb, -ENOMEM, "out of memory");
	q = xmalloc(sizeof(*q));
	q->list = list;
	e = discover_fetch(p,
		&(struct discover_request) {
			.url = (const char *)url.data,
			.unix_socket = is_unix ? sd->host + strlen("unix://") : NULL,
			.headers = headers,
			.transport = &sd->http.transport,
			.timeout_ms = (uint32_t)MIN(sd->refresh_interval_ms, (int64_t)UINT32_MAX),
			.done = on_answer,
			.arg = q,
			.drop = free,
		},
		eb);
	if (e < 0)
		free(q);
	return e;
}

void docker_client_refresh(struct discover_provider *p, const struct config_docker_client *sd,
	const char *const *paths, size_t n, int64_t now_ns)
{
	struct docker_client *c = p->state;

	p->next_ns = now_ns + sd->refresh_interval_ms * NS_PER_MS;
	if (c->n_waiting)
		return;
	p->refreshes++;
	c->error = 0;
	c->host = sd->host;
	c->n_lists = n;
	for (size_t i = 0; i < n; i++) {
		struct errbuf eb = {0};
		int e = ask(p, sd, i, paths[i], &eb);

		if (e < 0)
			fail(c, e, err_text(&eb, e));
		else
			c->n_waiting++;
	}
	if (!c->n_waiting)
		finish(p, c);
}

void docker_set_network(struct labels_builder *b, const char *prefix,
	const struct json_value *networks, const char *id)
{
	static const char *const labels[][2] = {{"id", "Id"}, {"name", "Name"}, {"scope", "Scope"},
		{"internal", "Internal"}, {"ingress", "Ingress"}};
	char label[80];

	for (size_t i = 0; i < json_value_len(networks); i++) {
		const struct json_value *n = json_value_at(networks, i);

		if (!*id || strcmp(discover_json_text(n, "Id"), id) != 0)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(labels); k++) {
			snprintf(label, sizeof(label), "%snetwork_%s", prefix, labels[k][0]);
			discover_set_value(b, label, discover_json_at(n, labels[k][1]));
		}
		snprintf(label, sizeof(label), "%snetwork_label_", prefix);
		discover_set_map(b, label, discover_json_at(n, "Labels"));
		return;
	}
}
