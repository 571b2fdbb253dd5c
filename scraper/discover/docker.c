/* SPDX-License-Identifier: Apache-2.0
 *
 * docker_sd_configs: the containers of a Docker Engine; one target per TCP port and network. Rules and labels are those
 * of Prometheus (discovery/moby/docker.go).
 */
#include "lib/base/alloc.h"
#include "scraper/config/config.h"
#include "scraper/discover/docker_client.h"
#include <string.h>

#define PREFIX "__meta_docker_"
enum { CONTAINERS, NETWORKS, MAX_BORROWED = 16 };

static const struct config_docker_sd *settings(const struct discover_provider *p)
{
	return &p->job->docker_sds[p->idx];
}

static size_t count(const struct config_job *job)
{
	return job->n_docker_sds;
}

static void put_key(const struct config_job *job, size_t i, struct bytes *out)
{
	config_sd_key(job, "docker_sd_configs", i, out);
}

/* "container:<id>" uses the networks of that container, which may do the same. */
static const struct json_value *networks_of(
	const struct json_value *containers, const struct json_value *c)
{
	static const char borrowed[] = "container:";

	for (unsigned depth = 0; c && depth < MAX_BORROWED; depth++) {
		const struct json_value *own = discover_json_at(c, "NetworkSettings.Networks");
		const char *mode = discover_json_text(c, "HostConfig.NetworkMode");
		const struct json_value *other = NULL;

		if (own && json_value_len(own))
			return own;
		if (strncmp(mode, borrowed, strlen(borrowed)) != 0)
			return NULL;
		for (size_t i = 0; i < json_value_len(containers) && !other; i++) {
			const struct json_value *at = json_value_at(containers, i);

			if (!strcmp(discover_json_text(at, "Id"), mode + strlen(borrowed)))
				other = at;
		}
		c = other;
	}
	return NULL;
}

struct container {
	const struct config_docker_sd *sd;
	const struct json_value *json, *networks; /* the latter: all that Docker has */
	struct labels common;
	struct discover_build *build;
};

/* A network may have addresses of version 6 alone. */
static const char *address_in(const struct json_value *network)
{
	const char *ip = discover_json_text(network, "IPAddress");

	return *ip ? ip : discover_json_text(network, "GlobalIPv6Address");
}

static void put_port(
	struct container *c, const struct json_value *network, const struct json_value *port)
{
	_cleanup_labels_builder_ struct labels_builder b;
	const char *ip = address_in(network);
	const struct json_value *private = discover_json_at(port, "PrivatePort"),
				*public = discover_json_at(port, "PublicPort");

	labels_builder_init(&b);
	labels_builder_reset(&b, &c->common);
	docker_set_network(&b, PREFIX, c->networks, discover_json_text(network, "NetworkID"));
	labels_builder_set(&b, PREFIX "network_ip", ip);
	if (private) {
		discover_set_value(&b, PREFIX "port_private", private);
		discover_set_address(&b, ip, (uint64_t)json_value_int(private));
	} else if (strcmp(discover_json_text(c->json, "HostConfig.NetworkMode"), "host") != 0) {
		discover_set_address(&b, ip, c->sd->client.port);
	} else {
		labels_builder_set(&b, "__address__", c->sd->host_networking_host);
	}
	if (public && json_value_int(public) > 0) {
		discover_set_value(&b, PREFIX "port_public", public);
		discover_set_value(&b, PREFIX "port_public_ip", discover_json_at(port, "IP"));
	}
	discover_build_target(c->build, &b);
}

/* A target per TCP port; without one, a target with the configured port. */
static void put_network(struct container *c, const struct json_value *network)
{
	const struct json_value *ports = discover_json_at(c->json, "Ports");
	bool has_port = false;

	for (size_t i = 0; ports && i < json_value_len(ports); i++) {
		const struct json_value *port = json_value_at(ports, i);

		if (strcmp(discover_json_text(port, "Type"), "tcp") != 0)
			continue;
		put_port(c, network, port);
		has_port = true;
	}
	if (!has_port)
		put_port(c, network, NULL);
}

static int common_labels(struct container *c)
{
	static const char *const fields[][2] = {{"id", "Id"}, {"image", "Image"},
		{"image_id", "ImageID"}, {"network_mode", "HostConfig.NetworkMode"}};
	_cleanup_labels_builder_ struct labels_builder b;
	const struct json_value *names = discover_json_at(c->json, "Names");
	char label[64];

	labels_builder_init(&b);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		snprintf(label, sizeof(label), PREFIX "container_%s", fields[i][0]);
		discover_set_value(&b, label, discover_json_at(c->json, fields[i][1]));
	}
	discover_set_value(&b, PREFIX "container_name", json_value_at(names, 0));
	discover_set_map(&b, PREFIX "container_label_", discover_json_at(c->json, "Labels"));
	return labels_builder_finish(&b, &c->common);
}

/* The first network by name, when only that is wanted. */
static const struct json_value *first_network(const struct json_value *networks)
{
	const struct json_value *v, *first = NULL;
	const char *key, *first_key = NULL;
	void *pos = NULL;

	while (json_value_next(networks, &pos, &key, &v)) {
		if (json_value_kind(v) != JSON_KIND_OBJECT)
			continue;
		if (!first || strcmp(key, first_key) < 0) {
			first = v;
			first_key = key;
		}
	}
	return first;
}

static void put_container(struct container *c, const struct json_value *containers)
{
	const struct json_value *names = discover_json_at(c->json, "Names"), *v,
				*own = networks_of(containers, c->json), *first;
	const char *key;
	void *pos = NULL;

	if (!own || !names || !json_value_len(names))
		return;
	if (common_labels(c) < 0) {
		c->build->error = -ENOMEM;
		return;
	}
	first = c->sd->match_first_network ? first_network(own) : NULL;
	while (json_value_next(own, &pos, &key, &v)) {
		if (json_value_kind(v) == JSON_KIND_OBJECT && (!first || v == first))
			put_network(c, v);
	}
	labels_done(&c->common);
}

static void put_all(struct discover_provider *p, struct docker_client *client)
{
	const struct json_value *containers = json_doc_root(client->lists[CONTAINERS]);
	_cleanup_discover_build_ struct discover_build d;

	discover_build_init(&d, "Docker");
	for (size_t i = 0; i < json_value_len(containers); i++) {
		struct container c = {.sd = settings(p),
			.json = json_value_at(containers, i),
			.networks = json_doc_root(client->lists[NETWORKS]),
			.build = &d};

		put_container(&c, containers);
	}
	discover_build_set(&d, p);
}

static int start(struct discover_provider *p, const struct config_job *job, size_t i)
{
	struct docker_client *c = xcalloc(1, sizeof(*c));

	(void)job, (void)i;
	c->done = put_all;
	p->state = c;
	return 0;
}

static void stop(struct discover_provider *p)
{
	docker_client_done(p->state);
	free(p->state);
}

static void refresh(struct discover_provider *p, int64_t now_ns)
{
	static const char *const paths[] = {
		[CONTAINERS] = "/containers/json", [NETWORKS] = "/networks"};

	docker_client_refresh(p, &settings(p)->client, paths, ARRAY_SIZE(paths), now_ns);
}

const struct discover_kind *discover_docker(void)
{
	static const struct discover_kind kind = {
		"docker", count, put_key, start, refresh, stop, .shares_groups = false};

	return &kind;
}
