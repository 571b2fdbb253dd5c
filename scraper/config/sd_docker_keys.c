/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of docker_sd_configs and dockerswarm_sd_configs.
 */
#include "lib/base/str.h"
#include "scraper/config/keys.h"
#include <string.h>

static config_check_fn check_filter, check_docker_sd, check_swarm_sd;

static const struct config_key filter_keys[] = {
	CONFIG_VALUE(struct config_filter, name, CONFIG_TYPE_STRING, "name", NULL),
	CONFIG_VALUE(struct config_filter, values, CONFIG_TYPE_STRINGS, "values", NULL),
};
const struct config_section config_keys_filter =
	CONFIG_SECTION("filters[]", filter_keys, struct config_filter, check_filter);

/* Of both. */
#define CLIENT_KEYS(struct_)                                                                \
	CONFIG_VALUE(struct_, client.host, CONFIG_TYPE_STRING, "host", NULL),               \
		CONFIG_VALUE(struct_, client.port, CONFIG_TYPE_UINT, "port", "80"),         \
		CONFIG_COUNTED(struct_, client.filters, client.n_filters, CONFIG_TYPE_LIST, \
			"filters", &config_keys_filter),                                    \
		CONFIG_VALUE(struct_, client.refresh_interval_ms, CONFIG_TYPE_DURATION,     \
			"refresh_interval", "1m"),                                          \
		CONFIG_HTTP_KEYS(struct_, client.http)

static const struct config_key docker_keys[] = {
	CLIENT_KEYS(struct config_docker_sd),
	CONFIG_VALUE(struct config_docker_sd, host_networking_host, CONFIG_TYPE_STRING,
		"host_networking_host", "localhost"),
	CONFIG_VALUE(struct config_docker_sd, match_first_network, CONFIG_TYPE_BOOL,
		"match_first_network", "true"),
};
const struct config_section config_keys_docker_sd = CONFIG_SECTION(
	"docker_sd_configs[]", docker_keys, struct config_docker_sd, check_docker_sd);

/* In the order of enum config_swarm_role. */
static const char *const roles[] = {"", "services", "tasks", "nodes", NULL};
static const struct config_key swarm_keys[] = {
	CLIENT_KEYS(struct config_dockerswarm_sd),
	{.name = "role",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_dockerswarm_sd, role),
		.names = roles},
};
const struct config_section config_keys_dockerswarm_sd = CONFIG_SECTION(
	"dockerswarm_sd_configs[]", swarm_keys, struct config_dockerswarm_sd, check_swarm_sd);

static int check_filter(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	const struct config_filter *f = object;

	(void)seen;
	if (!f->name || !*f->name)
		return config_fail(r, node, "name", "is missing");
	if (!f->values.n)
		return config_fail(r, node, "values", "expected at least one value");
	return 0;
}

static int check_client(struct config_reader *r, struct config_docker_client *c,
	const struct conf_node *node, const struct config_seen *seen)
{
	static const char *const schemes[] = {"unix:///", "tcp://", "http://", "https://"};
	bool is_known = false;
	int e;

	if (!c->host || !*c->host)
		return config_fail(r, node, "host", "is missing");
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		is_known |=
			str_starts_with(c->host, schemes[i]) && c->host[strlen(schemes[i])] != '\0';
	if (!is_known)
		return config_fail(r, config_seen_key(seen, "host"), "host",
			"expected unix:///PATH, tcp://HOST:PORT, http://… or https://…");
	e = config_check_port(r, c->port, true, node, seen);
	if (e == 0)
		e = config_check_refresh(r, c->refresh_interval_ms, seen);
	return e < 0 ? e : config_check_http(r, &c->http, seen);
}

static int check_docker_sd(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_docker_sd *sd = object;

	return check_client(r, &sd->client, node, seen);
}

static int check_swarm_sd(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_dockerswarm_sd *sd = object;

	if (!*roles[sd->role])
		return config_fail(
			r, node, "role", "is missing, expected services, tasks or nodes");
	return check_client(r, &sd->client, node, seen);
}
