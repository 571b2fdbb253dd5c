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
