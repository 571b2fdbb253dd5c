/* SPDX-License-Identifier: Apache-2.0
 *
 * consul_sd_configs: the services of a Consul catalog. Rules and labels are those of Prometheus
 * (discovery/consul/consul.go).
 */
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include "scraper/config/config.h"
#include "scraper/discover/catalog.h"
#include <string.h>

#define PREFIX "__meta_consul_"

struct own {
	char *datacenter;
	struct http_transport transport; /* that of the settings, with the token */
	struct http_header *headers;
};

static const struct config_consul_sd *settings(const struct discover_provider *p)
{
	return &p->job->consul_sds[p->idx];
}

static size_t count(const struct config_job *job)
{
	return job->n_consul_sds;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	config_sd_key(job, "consul_sd_configs", i, out);
}

static void put_param(struct bytes *out, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	bytes_printf(out, "%s%s=", memchr(out->data, '?', out->len) ? "&" : "?", name);
	url_escape_query(out, value, strlen(value));
}

static void put_base(const struct config_consul_sd *sd, const char *path, struct bytes *out)
{
	const char *prefix = sd->path_prefix ? sd->path_prefix : "";

	bytes_printf(out, "%s://%s%s%s%s", sd->scheme, sd->server,
		*prefix && *prefix != '/' ? "/" : "", prefix, path);
}

/* The parameters of every query of the catalog. */
static void put_params(const struct discover_provider *p, const char *filter, struct bytes *out)
{
	const struct config_consul_sd *sd = settings(p);

	put_param(out, "dc", sd->datacenter);
	put_param(out, "ns", sd->namespace);
	put_param(out, "partition", sd->partition);
	put_param(out, "filter", filter);
	for (size_t i = 0; i < sd->node_meta.n; i++) {
		_cleanup_free_ char *pair = xasprintf(
			"%s:%s", sd->node_meta.items[i].name, sd->node_meta.items[i].value);

		put_param(out, "node-meta", pair);
	}
	if (sd->allow_stale)
		bytes_printf(out, "%sstale", memchr(out->data, '?', out->len) ? "&" : "?");
}

static void list_url(const struct discover_provider *p, struct bytes *out)
{
	put_base(settings(p), "/v1/catalog/services", out);
	put_params(p, settings(p)->filter, out);
}

static void service_url(const struct discover_provider *p, const char *name, struct bytes *out)
{
	const struct config_consul_sd *sd = settings(p);

	put_base(sd, "/v1/health/service/", out);
	url_escape_path(out, name, strlen(name));
	for (size_t i = 0; i < sd->tags.n; i++)
		put_param(out, "tag", sd->tags.items[i]);
	put_params(p, sd->health_filter, out);
}

static void self_url(const struct discover_provider *p, struct bytes *out)
{
	put_base(settings(p), "/v1/agent/self", out);
}

static int read_self(struct discover_provider *p, const struct json_value *self, struct errbuf *eb)
{
	const char *dc = discover_json_text(self, "Config.Datacenter");
	struct own *own = catalog_own(p);

	if (!*dc)
		return err_set(eb, -EBADMSG, "/v1/agent/self names no Config.Datacenter");
	own->datacenter = xstrdup(dc);
	return 0;
}

static bool has_item(const struct json_value *array, const char *item)
{
	for (size_t i = 0; i < json_value_len(array); i++) {
		const char *s = json_value_str(json_value_at(array, i));

		if (s && !strcmp(s, item))
			return true;
	}
	return false;
}

/* {"web": ["tag", …], …} */
static void read_list(struct discover_provider *p, const struct json_value *list)
{
	const struct config_consul_sd *sd = settings(p);
	const struct json_value *tags;
	const char *name;
	void *pos = NULL;

	while (json_value_next(list, &pos, &name, &tags)) {
		bool wanted = !sd->services.n;

		for (size_t i = 0; i < sd->services.n; i++)
			wanted |= !strcmp(sd->services.items[i], name);
		for (size_t i = 0; i < sd->tags.n; i++)
			wanted &= has_item(tags, sd->tags.items[i]);
		if (wanted)
			catalog_want(p, name);
	}
}

/* The worst of its checks; maintenance stands above all. "" as soon as one has a state that is not known. */
static const char *health(const struct json_value *checks)
{
	static const char *const states[] = {"passing", "warning", "critical", "maintenance"};
	size_t worst = 0;

	for (size_t i = 0; checks && i < json_value_len(checks); i++) {
		const char *id = discover_json_text(json_value_at(checks, i), "CheckID"),
			   *status = discover_json_text(json_value_at(checks, i), "Status");

		size_t k = 0;

		if (!strcmp(id, "_node_maintenance") ||
			str_starts_with(id, "_service_maintenance:"))
			status = "maintenance";
		else if (!strcmp(status, "maintenance"))
			return "";
		while (k < ARRAY_SIZE(states) && strcmp(status, states[k]) != 0)
			k++;
		if (k == ARRAY_SIZE(states))
			return "";
		worst = MAX(worst, k);
	}
	return states[worst];
}

static void read_instance(struct discover_provider *p, const char *name, const struct json_value *i,
	struct discover_build *d)
{
	static const char *const fields[][2] = {{"address", "Node.Address"}, {"node", "Node.Node"},
		{"namespace", "Service.Namespace"}, {"partition", "Service.Partition"},
		{"service_address", "Service.Address"}, {"service_port", "Service.Port"},
		{"service_id", "Service.ID"}};
	const struct config_consul_sd *sd = settings(p);
	const struct own *own = catalog_own(p);
	const char *address = discover_json_text(i, "Service.Address");
	const struct json_value *port = discover_json_at(i, "Service.Port");
	_cleanup_labels_builder_ struct labels_builder b;
	char label[64];

	labels_builder_init(&b);
	for (size_t k = 0; k < ARRAY_SIZE(fields); k++) {
		snprintf(label, sizeof(label), PREFIX "%s", fields[k][0]);
		discover_set_value(&b, label, discover_json_at(i, fields[k][1]));
	}
	discover_set_address(&b, *address ? address : discover_json_text(i, "Node.Address"),
		port ? (uint64_t)json_value_int(port) : 0);
	labels_builder_set(&b, PREFIX "service", name);
	labels_builder_set(&b, PREFIX "dc", own->datacenter);
	labels_builder_set(&b, PREFIX "health", health(discover_json_at(i, "Checks")));
	discover_set_list(
		&b, PREFIX "tags", sd->tag_separator, discover_json_at(i, "Service.Tags"));
	discover_set_map(&b, PREFIX "metadata_", discover_json_at(i, "Node.Meta"));
	discover_set_map(&b, PREFIX "service_metadata_", discover_json_at(i, "Service.Meta"));
	discover_set_map(&b, PREFIX "tagged_address_", discover_json_at(i, "Node.TaggedAddresses"));
	discover_build_target(d, &b);
}

static const struct catalog_kind consul = {
	.index_header = "x-consul-index",
	.list_url = list_url,
	.service_url = service_url,
	.list_kind = JSON_KIND_OBJECT,
	.read_list = read_list,
	.read_instance = read_instance,
	.self_url = self_url,
	.read_self = read_self,
};

static void add_token(struct own *own, const char *token)
{
	struct http_transport *t = &own->transport;

	own->headers = xcalloc(t->n_headers + 1, sizeof(*own->headers));
	if (t->n_headers)
		memcpy(own->headers, t->headers, t->n_headers * sizeof(*own->headers));
	own->headers[t->n_headers++] =
		(struct http_header) {.name = "X-Consul-Token", .value = token, .is_secret = true};
	t->headers = own->headers;
}

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	static const char *const headers[] = {"Accept: application/json", NULL};
	const struct config_consul_sd *sd = &job->consul_sds[i];
	struct own *own = xcalloc(1, sizeof(*own));

	own->transport = sd->http.transport;
	if (sd->token && *sd->token)
		add_token(own, sd->token);
	if (sd->datacenter && *sd->datacenter)
		own->datacenter = xstrdup(sd->datacenter);
	catalog_start(p,
		&(struct catalog_options) {
			.kind = &consul,
			.transport = &own->transport,
			.headers = headers,
			.refresh_interval_ms = sd->refresh_interval_ms,
			/* with tags or a filter the list must say which services there are */
			.names = sd->services.items,
			.n_names = sd->tags.n || (sd->filter && *sd->filter) ? 0 : sd->services.n,
			.needs_self = !own->datacenter,
			.own = own,
		});
	return 0;
}

static void stop(struct discover_provider *p)
{
	struct own *own = catalog_own(p);

	catalog_stop(p);
	free(own->headers);
	free(own->datacenter);
	free(own);
}

const struct discover_kind *discover_consul(void)
{
	static const struct discover_kind kind = {
		"consul", count, put_key, start, catalog_refresh, stop, .shares_groups = false};

	return &kind;
}
