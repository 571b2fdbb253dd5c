/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of all configuration keys: what exists, its type and default. docs/configuration.md is
 * compared with them.
 */
#pragma once
#include "scraper/config/read.h"

/* Rows of the tables. */
#define CONFIG_VALUE(struct_, field_, type_, name_, default_)                          \
	{                                                                              \
		.name = (name_), .type = (type_), .offset = offsetof(struct_, field_), \
		.default_text = (default_)                                             \
	}
#define CONFIG_COUNTED(struct_, field_, n_field_, type_, name_, section_)              \
	{                                                                              \
		.name = (name_), .type = (type_), .offset = offsetof(struct_, field_), \
		.n_offset = offsetof(struct_, n_field_), .section = (section_)         \
	}
#define CONFIG_IGNORED(name_, note_)                                        \
	{                                                                   \
		.name = (name_), .support = CONFIG_IGNORED, .note = (note_) \
	}
#define CONFIG_SECTION(title_, keys_, struct_, check_)                           \
	{                                                                        \
		.title = (title_), .keys = (keys_), .n_keys = ARRAY_SIZE(keys_), \
		.size = sizeof(struct_), .check = (check_)                       \
	}
/* A section that is absent unless it was written: its struct has a bool is_written. */
#define CONFIG_NESTED(struct_, field_, name_, section_)                                            \
	{                                                                                          \
		.name = (name_), .type = CONFIG_TYPE_SECTION, .offset = offsetof(struct_, field_), \
		.n_offset = offsetof(struct_, field_.is_written), .is_optional = true,             \
		.section = (section_)                                                              \
	}

/* Rows of proxies: `field_` is a struct config_proxy of struct_. */
#define CONFIG_PROXY_KEYS(struct_, field_)                                                    \
	CONFIG_VALUE(struct_, field_.url, CONFIG_TYPE_URL, "proxy_url", NULL),                \
		CONFIG_VALUE(struct_, field_.no_proxy, CONFIG_TYPE_STRING, "no_proxy", NULL), \
		CONFIG_VALUE(struct_, field_.from_environment, CONFIG_TYPE_BOOL,              \
			"proxy_from_environment", "false"),                                   \
		CONFIG_COUNTED(struct_, field_.connect_headers, field_.n_connect_headers,     \
			CONFIG_TYPE_SECRET_PARAMS, "proxy_connect_header", NULL)
/* Rows of an HTTP client: `field_` is a struct config_http of struct_. Its check calls config_check_http. */
#define CONFIG_HTTP_KEYS(struct_, field_)                                                        \
	CONFIG_NESTED(struct_, field_.basic_auth, "basic_auth", &config_keys_basic_auth),        \
		CONFIG_NESTED(struct_, field_.authorization, "authorization",                    \
			&config_keys_authorization),                                             \
		CONFIG_VALUE(                                                                    \
			struct_, field_.bearer_token, CONFIG_TYPE_SECRET, "bearer_token", NULL), \
		CONFIG_VALUE(struct_, field_.bearer_token_file, CONFIG_TYPE_PATH,                \
			"bearer_token_file", NULL),                                              \
		CONFIG_NESTED(struct_, field_.oauth2, "oauth2", &config_keys_oauth2),            \
		CONFIG_NESTED(struct_, field_.tls, "tls_config", &config_keys_tls),              \
		CONFIG_PROXY_KEYS(struct_, field_.proxy),                                        \
		CONFIG_VALUE(struct_, field_.follow_redirects, CONFIG_TYPE_BOOL,                 \
			"follow_redirects", "true"),                                             \
		CONFIG_VALUE(                                                                    \
			struct_, field_.enable_http2, CONFIG_TYPE_BOOL, "enable_http2", "true"), \
		CONFIG_COUNTED(struct_, field_.headers, field_.n_headers, CONFIG_TYPE_MAP,       \
			"http_headers", &config_keys_http_header)
extern const struct config_section config_keys_http_file, config_keys_basic_auth,
	config_keys_authorization, config_keys_oauth2, config_keys_tls, config_keys_http_header;
/* scraper/config/sd_kubernetes_keys.c. */
extern const struct config_section config_keys_kubernetes_sd, config_keys_kubernetes_namespaces,
	config_keys_kubernetes_selector, config_keys_kubernetes_attach;
/* Sections of service discoveries, scraper/config/sd_keys.c. */
extern const struct config_section config_keys_http_sd, config_keys_dns_sd, config_keys_docker_sd,
	config_keys_dockerswarm_sd, config_keys_consul_sd, config_keys_nomad_sd, config_keys_filter,
	config_keys_ec2_sd;
/* 1 … 65535; `is_needed`: 0, which is none, is not allowed. */
int config_check_port(struct config_reader *r, uint64_t port, bool is_needed,
	const struct conf_node *node, const struct config_seen *seen) _must_check_;
int config_check_refresh(struct config_reader *r, int64_t refresh_interval_ms,
	const struct config_seen *seen) _must_check_;
/* Checks across those keys and makes h->transport. */
int config_check_http(struct config_reader *r, struct config_http *h,
	const struct config_seen *seen) _must_check_;

enum config_keys_id {
	CONFIG_KEYS_TOP,
	CONFIG_KEYS_GLOBAL,
	CONFIG_KEYS_INCLUDE, /* top level of a file that scrape_config_files names */
	CONFIG_KEYS_STORAGE,
	CONFIG_KEYS_TSDB,
	CONFIG_KEYS_RETENTION,
	CONFIG_KEYS_JOB,
	CONFIG_KEYS_STATIC, /* also the items of a file_sd file */
	CONFIG_KEYS_FILE_SD,
	CONFIG_KEYS_RELABEL,
	CONFIG_KEYS_PROFILING,
	CONFIG_KEYS_PROFILE,
	CONFIG_KEYS_VALUE_TYPE,
	CONFIG_KEYS_BASIC_AUTH,
	CONFIG_KEYS_AUTHORIZATION,
	CONFIG_KEYS_OAUTH2,
	CONFIG_KEYS_TLS,
	CONFIG_KEYS_HTTP_HEADER,
	CONFIG_KEYS_HTTP_SD,
	CONFIG_KEYS_KUBERNETES_SD,
	CONFIG_KEYS_KUBERNETES_NAMESPACES,
	CONFIG_KEYS_KUBERNETES_SELECTOR,
	CONFIG_KEYS_KUBERNETES_ATTACH,
	CONFIG_KEYS_DNS_SD,
	CONFIG_KEYS_DOCKER_SD,
	CONFIG_KEYS_DOCKERSWARM_SD,
	CONFIG_KEYS_CONSUL_SD,
	CONFIG_KEYS_NOMAD_SD,
	CONFIG_KEYS_FILTER,
	CONFIG_KEYS_EC2_SD,
	CONFIG_KEYS_N,
};
const struct config_section *config_keys(enum config_keys_id id);

/* What the top level reads into. */
struct config_top {
	struct config_global global;
	struct config_storage storage;
	struct config_job *jobs;
	size_t n_jobs;
	struct config_strings files; /* patterns of further files with scrape_configs */
};

/* True for a kind of service discovery that exists elsewhere and is not built in. */
bool config_keys_is_foreign_sd(const char *key);

/* Checks of the sections, scraper/config/checks.c. */
config_check_fn config_check_top, config_check_global, config_check_retention, config_check_job,
	config_check_file_sd, config_check_relabel, config_check_profiling, config_check_profile;
