/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of service discoveries, a struct for each kind; a job has a list of each.
 */
#pragma once
#include "scraper/config/http.h"
#include <stdint.h>

struct config_file_sd {
	struct config_strings files; /* joined with the configuration's directory; the last
					component may be a glob */
	int64_t refresh_interval_ms;
};

struct config_http_sd {
	const char *url, *shown_url; /* the latter without a password */
	int64_t refresh_interval_ms; /* also the time an answer may take */
	struct config_http http;
};

struct config_dns_sd {
	struct config_strings names;
	int type; /* enum dns_type */
	uint64_t port;
	int64_t refresh_interval_ms;
};
