/* SPDX-License-Identifier: Apache-2.0
 *
 * nomad_sd_configs: the services that Nomad's own registry has. Labels are those of Prometheus
 * (discovery/nomad/nomad.go); changes arrive by blocking queries rather than once a minute.
 */
#include "lib/base/alloc.h"
#include "lib/net/url/url.h"
#include "scraper/config/config.h"
#include "scraper/discover/catalog.h"
#include <string.h>

#define PREFIX "__meta_nomad_"

static const struct config_nomad_sd *settings(const struct discover_provider *p)
{
	return &p->job->nomad_sds[p->idx];
}

static size_t count(const struct config_job *job)
{
	return job->n_nomad_sds;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	config_sd_key(job, "nomad_sd_configs", i, out);
}

static void put_url(
	const struct discover_provider *p, const char *path, const char *name, struct bytes *out)
{
	const struct config_nomad_sd *sd = settings(p);
	size_t n = strlen(sd->server);

	while (n && sd->server[n - 1] == '/')
		n--;
	bytes_put(out, sd->server, n);
	bytes_put_str(out, path);
	url_escape_path(out, name, strlen(name));
	bytes_put_str(out, "?region=");
	url_escape_query(out, sd->region, strlen(sd->region));
	bytes_put_str(out, "&namespace=");
	url_escape_query(out, sd->namespace, strlen(sd->namespace));
	if (sd->allow_stale)
		bytes_put_str(out, "&stale");
}

static void list_url(const struct discover_provider *p, struct bytes *out)
{
	put_url(p, "/v1/services", "", out);
}

static void service_url(const struct discover_provider *p, const char *name, struct bytes *out)
{
	put_url(p, "/v1/service/", name, out);
}

/* [{"Namespace": "default", "Services": [{"ServiceName": "web", …}]}] */
static void read_list(struct discover_provider *p, const struct json_value *list)
{
	for (size_t i = 0; i < json_value_len(list); i++) {
		const struct json_value *services =
			discover_json_at(json_value_at(list, i), "Services");

		for (size_t k = 0; services && k < json_value_len(services); k++) {
			const char *name =
				discover_json_text(json_value_at(services, k), "ServiceName");

			if (*name)
				catalog_want(p, name);
		}
	}
}

static void read_instance(struct discover_provider *p, const char *name, const struct json_value *i,
	struct discover_build *d)
{
	static const char *const fields[][2] = {{"address", "Address"}, {"dc", "Datacenter"},
		{"namespace", "Namespace"}, {"node_id", "NodeID"}, {"service", "ServiceName"},
		{"service_address", "Address"}, {"service_id", "ID"}, {"service_port", "Port"}};
	const struct json_value *port = discover_json_at(i, "Port"),
				*tags = discover_json_at(i, "Tags");
	_cleanup_labels_builder_ struct labels_builder b;
	char label[64];

	(void)name;
	labels_builder_init(&b);
	for (size_t k = 0; k < ARRAY_SIZE(fields); k++) {
		snprintf(label, sizeof(label), PREFIX "%s", fields[k][0]);
		discover_set_value(&b, label, discover_json_at(i, fields[k][1]));
	}
	discover_set_address(
		&b, discover_json_text(i, "Address"), port ? (uint64_t)json_value_int(port) : 0);
	if (tags && json_value_len(tags))
		discover_set_list(&b, PREFIX "tags", settings(p)->tag_separator, tags);
	discover_build_target(d, &b);
}

static const struct catalog_kind nomad = {
	.index_header = "x-nomad-index",
	.list_url = list_url,
	.service_url = service_url,
	.list_kind = JSON_KIND_ARRAY,
	.read_list = read_list,
	.read_instance = read_instance,
};

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	static const char *const headers[] = {"Accept: application/json", NULL};
	const struct config_nomad_sd *sd = &job->nomad_sds[i];

	catalog_start(p, &(struct catalog_options) {
				 .kind = &nomad,
				 .transport = &sd->http.transport,
				 .headers = headers,
				 .refresh_interval_ms = sd->refresh_interval_ms,
			 });
	return 0;
}

const struct discover_kind *discover_nomad(void)
{
	static const struct discover_kind kind = {"nomad", count, put_key, start, catalog_refresh,
		catalog_stop, .shares_groups = false};

	return &kind;
}
