/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of ec2_sd_configs.
 */
#include "scraper/config/keys.h"
#include <string.h>

static config_check_fn check_ec2_sd;

static const struct config_key ec2_keys[] = {
	CONFIG_VALUE(struct config_ec2_sd, region, CONFIG_TYPE_STRING, "region", NULL),
	CONFIG_VALUE(struct config_ec2_sd, endpoint, CONFIG_TYPE_STRING, "endpoint", NULL),
	CONFIG_VALUE(struct config_ec2_sd, access_key, CONFIG_TYPE_STRING, "access_key", NULL),
	CONFIG_VALUE(struct config_ec2_sd, secret_key, CONFIG_TYPE_SECRET, "secret_key", NULL),
	CONFIG_VALUE(struct config_ec2_sd, port, CONFIG_TYPE_UINT, "port", "80"),
	CONFIG_COUNTED(struct config_ec2_sd, filters, n_filters, CONFIG_TYPE_LIST, "filters",
		&config_keys_filter),
	CONFIG_VALUE(struct config_ec2_sd, refresh_interval_ms, CONFIG_TYPE_DURATION,
		"refresh_interval", "1m"),
	CONFIG_VALUE(struct config_ec2_sd, profile, CONFIG_TYPE_STRING, "profile", NULL),
	CONFIG_VALUE(struct config_ec2_sd, role_arn, CONFIG_TYPE_STRING, "role_arn", NULL),
	CONFIG_VALUE(struct config_ec2_sd, external_id, CONFIG_TYPE_STRING, "external_id", NULL),
	CONFIG_HTTP_KEYS(struct config_ec2_sd, http),
};
const struct config_section config_keys_ec2_sd =
	CONFIG_SECTION("ec2_sd_configs[]", ec2_keys, struct config_ec2_sd, check_ec2_sd);

static int check_ec2_sd(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_ec2_sd *sd = object;
	int e;

	if (sd->region &&
		strspn(sd->region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(sd->region))
		return config_fail(r, config_seen_key(seen, "region"), "region",
			"\"%.40s\" is not a region, expected one like eu-west-1", sd->region);
	if (!config_seen_key(seen, "access_key") != !config_seen_key(seen, "secret_key"))
		return config_fail(r, node, "access_key",
			"expected access_key and secret_key together, or neither");
	if (config_seen_key(seen, "external_id") && !config_seen_key(seen, "role_arn"))
		return config_fail(r, config_seen_key(seen, "external_id"), "external_id",
			"has no effect without role_arn");
	e = config_check_port(r, sd->port, true, node, seen);
	if (e == 0)
		e = config_check_refresh(r, sd->refresh_interval_ms, seen);
	return e < 0 ? e : config_check_http(r, &sd->http, seen);
}
