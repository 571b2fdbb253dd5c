/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of consul_sd_configs and nomad_sd_configs.
 */
#include "lib/base/arena.h"
#include "lib/base/str.h"
#include "scraper/config/keys.h"
#include <string.h>

static config_check_fn check_consul_sd, check_nomad_sd;

static const struct config_key consul_keys[] = {
	CONFIG_VALUE(
		struct config_consul_sd, server, CONFIG_TYPE_STRING, "server", "localhost:8500"),
	CONFIG_VALUE(struct config_consul_sd, scheme, CONFIG_TYPE_STRING, "scheme", "http"),
	CONFIG_VALUE(struct config_consul_sd, path_prefix, CONFIG_TYPE_STRING, "path_prefix", NULL),
	CONFIG_VALUE(struct config_consul_sd, token, CONFIG_TYPE_SECRET, "token", NULL),
	CONFIG_VALUE(struct config_consul_sd, datacenter, CONFIG_TYPE_STRING, "datacenter", NULL),
	CONFIG_VALUE(struct config_consul_sd, namespace, CONFIG_TYPE_STRING, "namespace", NULL),
	CONFIG_VALUE(struct config_consul_sd, partition, CONFIG_TYPE_STRING, "partition", NULL),
	CONFIG_VALUE(struct config_consul_sd, username, CONFIG_TYPE_STRING, "username", NULL),
	CONFIG_VALUE(struct config_consul_sd, password, CONFIG_TYPE_SECRET, "password", NULL),
	CONFIG_VALUE(struct config_consul_sd, allow_stale, CONFIG_TYPE_BOOL, "allow_stale", "true"),
	CONFIG_VALUE(struct config_consul_sd, services, CONFIG_TYPE_STRINGS, "services", NULL),
	CONFIG_VALUE(struct config_consul_sd, tags, CONFIG_TYPE_STRINGS, "tags", NULL),
	CONFIG_VALUE(
		struct config_consul_sd, tag_separator, CONFIG_TYPE_STRING, "tag_separator", ","),
	CONFIG_VALUE(struct config_consul_sd, node_meta, CONFIG_TYPE_LABELS, "node_meta", NULL),
	CONFIG_VALUE(struct config_consul_sd, filter, CONFIG_TYPE_STRING, "filter", NULL),
	CONFIG_VALUE(
		struct config_consul_sd, health_filter, CONFIG_TYPE_STRING, "health_filter", NULL),
	CONFIG_VALUE(struct config_consul_sd, refresh_interval_ms, CONFIG_TYPE_DURATION,
		"refresh_interval", "30s"),
	CONFIG_HTTP_KEYS(struct config_consul_sd, http),
};
const struct config_section config_keys_consul_sd = CONFIG_SECTION(
	"consul_sd_configs[]", consul_keys, struct config_consul_sd, check_consul_sd);

static const struct config_key nomad_keys[] = {
	CONFIG_VALUE(
		struct config_nomad_sd, server, CONFIG_TYPE_URL, "server", "http://localhost:4646"),
	CONFIG_VALUE(struct config_nomad_sd, region, CONFIG_TYPE_STRING, "region", "global"),
	CONFIG_VALUE(struct config_nomad_sd, namespace, CONFIG_TYPE_STRING, "namespace", "default"),
	CONFIG_VALUE(
		struct config_nomad_sd, tag_separator, CONFIG_TYPE_STRING, "tag_separator", ","),
	CONFIG_VALUE(struct config_nomad_sd, allow_stale, CONFIG_TYPE_BOOL, "allow_stale", "true"),
	CONFIG_VALUE(struct config_nomad_sd, refresh_interval_ms, CONFIG_TYPE_DURATION,
		"refresh_interval", "1m"),
	CONFIG_HTTP_KEYS(struct config_nomad_sd, http),
};
const struct config_section config_keys_nomad_sd =
	CONFIG_SECTION("nomad_sd_configs[]", nomad_keys, struct config_nomad_sd, check_nomad_sd);

/* username and password, from before basic_auth existed. */
static int use_old_user(
	struct config_reader *r, struct config_consul_sd *sd, const struct config_seen *seen)
{
	if (!sd->username && !sd->password)
		return 0;
	if (sd->http.basic_auth.is_written)
		return config_fail(r, config_seen_key(seen, "basic_auth"), "basic_auth",
			"stands beside username or password, expected one of them");
	sd->http.transport.basic_username = sd->username;
	sd->http.transport.basic_password = sd->password;
	return 0;
}

/* As Consul's client takes an address: http://HOST:PORT/PREFIX stands for `server`, `scheme` and `path_prefix`. */
static int split_server(struct config_reader *r, struct config_consul_sd *sd)
{
	const char *host = strstr(sd->server, "://"), *path;

	if (!str_starts_with(sd->server, "http://") && !str_starts_with(sd->server, "https://"))
		return 0;
	sd->scheme =
		arena_strndup(config_mem_arena(r->mem), sd->server, (size_t)(host - sd->server));
	host += strlen("://");
	path = strchrnul(host, '/');
	sd->server = arena_strndup(config_mem_arena(r->mem), host, (size_t)(path - host));
	if (path[0] && path[1]) {
		sd->path_prefix = arena_strndup(config_mem_arena(r->mem), path, strlen(path));
		if (!sd->path_prefix)
			return config_out_of_memory(r);
	}
	return sd->scheme && sd->server ? 0 : config_out_of_memory(r);
}

static int check_consul_sd(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_consul_sd *sd = object;
	int e = split_server(r, sd);

	if (e < 0)
		return e;
	if (!*sd->server || strpbrk(sd->server, "/?# "))
		return config_fail(r, config_seen_key(seen, "server"), "server",
			"expected HOST:PORT or http://HOST:PORT");
	if (strcmp(sd->scheme, "http") && strcmp(sd->scheme, "https"))
		return config_fail(r, config_seen_key(seen, "scheme"), "scheme",
			"\"%.40s\" is not a scheme, expected http or https", sd->scheme);
	if (sd->token && strpbrk(sd->token, "\r\n"))
		return config_fail(
			r, config_seen_key(seen, "token"), "token", "cannot have line ends");
	(void)node;
	if (sd->token && (sd->http.authorization.is_written || sd->http.oauth2.is_written))
		return config_fail(r, config_seen_key(seen, "token"), "token",
			"stands beside authorization or oauth2, expected one of them");
	e = config_check_refresh(r, sd->refresh_interval_ms, seen);
	if (e == 0)
		e = config_check_http(r, &sd->http, seen);
	return e < 0 ? e : use_old_user(r, sd, seen);
}

static int check_nomad_sd(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_nomad_sd *sd = object;
	int e;

	(void)node;
	if (!str_starts_with(sd->server, "http://") && !str_starts_with(sd->server, "https://"))
		return config_fail(r, config_seen_key(seen, "server"), "server",
			"expected a URL that starts with http:// or https://");
	e = config_check_refresh(r, sd->refresh_interval_ms, seen);
	return e < 0 ? e : config_check_http(r, &sd->http, seen);
}
