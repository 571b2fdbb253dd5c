/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of service discoveries and what they mean together.
 */
#include "lib/base/str.h"
#include "scraper/config/keys.h"
#include "scraper/config/value.h"
#include <string.h>

static config_check_fn check_http_sd;
static const struct config_key http_sd_keys[] = {
	CONFIG_VALUE(struct config_http_sd, url, CONFIG_TYPE_URL, "url", NULL),
	CONFIG_VALUE(struct config_http_sd, refresh_interval_ms, CONFIG_TYPE_DURATION,
		"refresh_interval", "1m"),
	CONFIG_HTTP_KEYS(struct config_http_sd, http),
};
const struct config_section config_keys_http_sd =
	CONFIG_SECTION("http_sd_configs[]", http_sd_keys, struct config_http_sd, check_http_sd);

static const char *const dns_types[] = {
	"SRV", "A", "AAAA", "MX", "NS", NULL}; /* in the order of enum dns_type */
static config_check_fn check_dns_sd;
static const struct config_key dns_sd_keys[] = {
	CONFIG_VALUE(struct config_dns_sd, names, CONFIG_TYPE_STRINGS, "names", NULL),
	{.name = "type",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_dns_sd, type),
		.default_text = "SRV",
		.is_any_case = true,
		.names = dns_types},
	CONFIG_VALUE(struct config_dns_sd, port, CONFIG_TYPE_UINT, "port", NULL),
	CONFIG_VALUE(struct config_dns_sd, refresh_interval_ms, CONFIG_TYPE_DURATION,
		"refresh_interval", "30s"),
};
const struct config_section config_keys_dns_sd =
	CONFIG_SECTION("dns_sd_configs[]", dns_sd_keys, struct config_dns_sd, check_dns_sd);

int config_check_port(struct config_reader *r, uint64_t port, bool is_needed,
	const struct conf_node *node, const struct config_seen *seen)
{
	const struct conf_node *at = config_seen_key(seen, "port");

	if (port > UINT16_MAX)
		return config_fail(r, at, "port", "expected a port from 1 to 65535");
	if (port || !is_needed)
		return 0;
	return config_fail(
		r, at ? at : node, "port", "is missing, expected a port from 1 to 65535");
}

int config_check_refresh(
	struct config_reader *r, int64_t refresh_interval_ms, const struct config_seen *seen)
{
	if (refresh_interval_ms)
		return 0;
	return config_fail(r, config_seen_key(seen, "refresh_interval"), "refresh_interval",
		"must not be zero");
}

static int check_http_sd(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_http_sd *sd = object;
	int e;

	if (!sd->url || !*sd->url)
		return config_fail(r, node, "url", "is missing");
	if (!str_starts_with(sd->url, "http://") && !str_starts_with(sd->url, "https://"))
		return config_fail(r, config_seen_key(seen, "url"), "url",
			"expected a URL that starts with http:// or https://");
	sd->shown_url = config_redact_url(r, sd->url);
	if (!sd->shown_url)
		return config_out_of_memory(r);
	e = config_check_refresh(r, sd->refresh_interval_ms, seen);
	return e < 0 ? e : config_check_http(r, &sd->http, seen);
}

static int check_dns_sd(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	const struct conf_node *names = config_seen_key(seen, "names");
	struct config_dns_sd *sd = object;
	int e;

	if (!sd->names.n)
		return config_fail(r, names ? names : node, "names", "expected at least one name");
	for (size_t i = 0; i < sd->names.n; i++)
		if (!*sd->names.items[i])
			return config_fail(r, names->items[i], "names", "a name cannot be empty");
	e = config_check_port(r, sd->port, sd->type != 0, node, seen);
	return e < 0 ? e : config_check_refresh(r, sd->refresh_interval_ms, seen);
}
