/* SPDX-License-Identifier: Apache-2.0
 *
 * All keys. Read from bottom to top, the sections nest as in the file.
 */
#include "scraper/config/keys.h"
#include <string.h>

static const struct config_key relabel_keys[] = {
	CONFIG_COUNTED(struct relabel_rule, source_labels, n_source_labels, CONFIG_TYPE_SOURCES,
		"source_labels", NULL),
	CONFIG_VALUE(struct relabel_rule, separator, CONFIG_TYPE_STRING, "separator",
		RELABEL_DEFAULT_SEPARATOR),
	CONFIG_VALUE(struct relabel_rule, regex, CONFIG_TYPE_REGEX, "regex", RELABEL_DEFAULT_REGEX),
	CONFIG_VALUE(struct relabel_rule, modulus, CONFIG_TYPE_UINT, "modulus", "0"),
	CONFIG_VALUE(struct relabel_rule, target_label, CONFIG_TYPE_STRING, "target_label", ""),
	CONFIG_VALUE(struct relabel_rule, replacement, CONFIG_TYPE_STRING, "replacement",
		RELABEL_DEFAULT_REPLACEMENT),
	CONFIG_VALUE(struct relabel_rule, action, CONFIG_TYPE_ACTION, "action", "replace"),
};
static const struct config_section keys_relabel = CONFIG_SECTION(
	"relabel_configs[]", relabel_keys, struct relabel_rule, config_check_relabel);

static const struct config_key static_keys[] = {
	CONFIG_VALUE(struct config_static_group, targets, CONFIG_TYPE_STRINGS, "targets", NULL),
	CONFIG_VALUE(struct config_static_group, labels, CONFIG_TYPE_LABELS, "labels", NULL),
};
static const struct config_section keys_static =
	CONFIG_SECTION("static_configs[]", static_keys, struct config_static_group, NULL);

static const struct config_key file_sd_keys[] = {
	CONFIG_VALUE(struct config_file_sd, files, CONFIG_TYPE_STRINGS, "files", NULL),
	CONFIG_VALUE(struct config_file_sd, refresh_interval_ms, CONFIG_TYPE_DURATION,
		"refresh_interval", "5m"),
};
static const struct config_section keys_file_sd = CONFIG_SECTION(
	"file_sd_configs[]", file_sd_keys, struct config_file_sd, config_check_file_sd);

static const struct config_key value_type_keys[] = {
	CONFIG_VALUE(struct config_value_type, type, CONFIG_TYPE_STRING, "type", ""),
	CONFIG_VALUE(struct config_value_type, unit, CONFIG_TYPE_STRING, "unit", ""),
};
static const struct config_section keys_value_type =
	CONFIG_SECTION("keep_sample_type[]", value_type_keys, struct config_value_type, NULL);

static const struct config_key profile_keys[] = {
	CONFIG_VALUE(struct config_profile, enabled, CONFIG_TYPE_TRISTATE, "enabled", NULL),
	CONFIG_VALUE(struct config_profile, path, CONFIG_TYPE_STRING, "path", NULL),
	CONFIG_VALUE(struct config_profile, delta, CONFIG_TYPE_TRISTATE, "delta", NULL),
	CONFIG_VALUE(struct config_profile, seconds, CONFIG_TYPE_SECONDS, "seconds", NULL),
	CONFIG_COUNTED(struct config_profile, keep_sample_types, n_keep_sample_types,
		CONFIG_TYPE_LIST, "keep_sample_type", &keys_value_type),
};
static const struct config_section keys_profile = CONFIG_SECTION(
	"pprof_config.<name>", profile_keys, struct config_profile, config_check_profile);

static const char *const presets[] = {"auto", "node", "go", NULL};
static const char *const symbolize[] = {"none", "functions", "lines", NULL};
static const struct config_key profiling_keys[] = {
	{.name = "preset",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_profiling, preset),
		.default_text = "auto",
		.names = presets},
	CONFIG_COUNTED(struct config_profiling, profiles, n_profiles, CONFIG_TYPE_MAP,
		"pprof_config", &keys_profile),
	CONFIG_VALUE(struct config_profiling, path_prefix, CONFIG_TYPE_STRING, "path_prefix", ""),
	CONFIG_VALUE(
		struct config_profiling, sample_labels, CONFIG_TYPE_NAMES, "sample_labels", NULL),
	CONFIG_VALUE(struct config_profiling, drop_labels, CONFIG_TYPE_NAMES, "drop_labels", NULL),
	CONFIG_VALUE(struct config_profiling, max_series, CONFIG_TYPE_UINT, "max_series", "500"),
	CONFIG_VALUE(struct config_profiling, label_set_limit, CONFIG_TYPE_UINT, "label_set_limit",
		"50000"),
	CONFIG_VALUE(struct config_profiling, addresses, CONFIG_TYPE_BOOL, "addresses", "false"),
	{.name = "symbolize",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_profiling, symbolize),
		.default_text = "lines",
		.names = symbolize},
};
static const struct config_section keys_profiling = CONFIG_SECTION(
	"profiling_config", profiling_keys, struct config_profiling, config_check_profiling);

/* Of global and, with other offsets, of each job. */
#define LIMITS(struct_, field_)                                                                   \
	CONFIG_VALUE(struct_, field_.body_size_bytes, CONFIG_TYPE_BYTES, "body_size_limit", "0"), \
		CONFIG_VALUE(struct_, field_.samples, CONFIG_TYPE_UINT, "sample_limit", "0"),     \
		CONFIG_VALUE(struct_, field_.targets, CONFIG_TYPE_UINT, "target_limit", "0"),     \
		CONFIG_VALUE(struct_, field_.labels, CONFIG_TYPE_UINT, "label_limit", "0"),       \
		CONFIG_VALUE(struct_, field_.label_name_bytes, CONFIG_TYPE_UINT,                  \
			"label_name_length_limit", "0"),                                          \
		CONFIG_VALUE(struct_, field_.label_value_bytes, CONFIG_TYPE_UINT,                 \
			"label_value_length_limit", "0"),                                         \
		CONFIG_VALUE(struct_, field_.keep_dropped_targets, CONFIG_TYPE_UINT,              \
			"keep_dropped_targets", "0")

#define METRICS_ONLY                                                        \
	CONFIG_IGNORED("scrape_protocols", NULL),                           \
		CONFIG_IGNORED("scrape_native_histograms", NULL),           \
		CONFIG_IGNORED("convert_classic_histograms_to_nhcb", NULL), \
		CONFIG_IGNORED("always_scrape_classic_histograms", NULL),   \
		CONFIG_IGNORED("metric_name_escaping_scheme", NULL)

static const char *const name_schemes[] = {"", "utf8", "legacy", NULL};
static const struct config_key job_keys[] = {
	CONFIG_VALUE(struct config_job, name, CONFIG_TYPE_STRING, "job_name", NULL),
	CONFIG_VALUE(struct config_job, scrape_interval_ms, CONFIG_TYPE_DURATION, "scrape_interval",
		"0s"),
	CONFIG_VALUE(
		struct config_job, scrape_timeout_ms, CONFIG_TYPE_DURATION, "scrape_timeout", "0s"),
	CONFIG_VALUE(struct config_job, scheme, CONFIG_TYPE_STRING, "scheme", "http"),
	CONFIG_VALUE(
		struct config_job, metrics_path, CONFIG_TYPE_STRING, "metrics_path", "/metrics"),
	CONFIG_COUNTED(struct config_job, params, n_params, CONFIG_TYPE_PARAMS, "params", NULL),
	CONFIG_VALUE(struct config_job, honor_labels, CONFIG_TYPE_BOOL, "honor_labels", "false"),
	CONFIG_VALUE(
		struct config_job, honor_timestamps, CONFIG_TYPE_BOOL, "honor_timestamps", "true"),
	CONFIG_VALUE(struct config_job, enable_compression, CONFIG_TYPE_BOOL, "enable_compression",
		"true"),
	LIMITS(struct config_job, limits),
	{.name = "profiling_config",
		.type = CONFIG_TYPE_SECTION,
		.offset = offsetof(struct config_job, profiling),
		.section = &keys_profiling},
	CONFIG_COUNTED(struct config_job, relabel, n_relabel, CONFIG_TYPE_LIST, "relabel_configs",
		&keys_relabel),
	CONFIG_COUNTED(struct config_job, metric_relabel, n_metric_relabel, CONFIG_TYPE_LIST,
		"metric_relabel_configs", &keys_relabel),
	CONFIG_COUNTED(struct config_job, statics, n_statics, CONFIG_TYPE_LIST, "static_configs",
		&keys_static),
	CONFIG_COUNTED(struct config_job, file_sds, n_file_sds, CONFIG_TYPE_LIST, "file_sd_configs",
		&keys_file_sd),
	CONFIG_COUNTED(struct config_job, http_sds, n_http_sds, CONFIG_TYPE_LIST, "http_sd_configs",
		&config_keys_http_sd),
	CONFIG_COUNTED(struct config_job, kubernetes_sds, n_kubernetes_sds, CONFIG_TYPE_LIST,
		"kubernetes_sd_configs", &config_keys_kubernetes_sd),
	CONFIG_COUNTED(struct config_job, dns_sds, n_dns_sds, CONFIG_TYPE_LIST, "dns_sd_configs",
		&config_keys_dns_sd),
	CONFIG_COUNTED(struct config_job, docker_sds, n_docker_sds, CONFIG_TYPE_LIST,
		"docker_sd_configs", &config_keys_docker_sd),
	CONFIG_COUNTED(struct config_job, dockerswarm_sds, n_dockerswarm_sds, CONFIG_TYPE_LIST,
		"dockerswarm_sd_configs", &config_keys_dockerswarm_sd),
	CONFIG_COUNTED(struct config_job, consul_sds, n_consul_sds, CONFIG_TYPE_LIST,
		"consul_sd_configs", &config_keys_consul_sd),
	CONFIG_COUNTED(struct config_job, nomad_sds, n_nomad_sds, CONFIG_TYPE_LIST,
		"nomad_sd_configs", &config_keys_nomad_sd),
	CONFIG_COUNTED(struct config_job, ec2_sds, n_ec2_sds, CONFIG_TYPE_LIST, "ec2_sd_configs",
		&config_keys_ec2_sd),
	CONFIG_HTTP_KEYS(struct config_job, http),
	CONFIG_VALUE(struct config_job, scrape_failure_log_file, CONFIG_TYPE_PATH,
		"scrape_failure_log_file", NULL),
	CONFIG_VALUE(struct config_job, extra_scrape_metrics, CONFIG_TYPE_TRISTATE,
		"extra_scrape_metrics", NULL),
	CONFIG_IGNORED("normalized_addresses", "addresses are always those within the file"),
	CONFIG_IGNORED("track_timestamps_staleness", NULL),
	CONFIG_IGNORED("fallback_scrape_protocol", NULL),
	CONFIG_IGNORED("native_histogram_bucket_limit", NULL),
	CONFIG_IGNORED("native_histogram_min_bucket_factor", NULL),
	CONFIG_IGNORED("scrape_classic_histograms", NULL),
	{.name = "metric_name_validation_scheme",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_job, name_scheme),
		.default_text = "",
		.names = name_schemes},
	METRICS_ONLY,
};
static const struct config_section keys_job =
	CONFIG_SECTION("scrape_configs[]", job_keys, struct config_job, config_check_job);

static const struct config_key global_keys[] = {
	CONFIG_VALUE(struct config_global, scrape_interval_ms, CONFIG_TYPE_DURATION,
		"scrape_interval", "15s"),
	CONFIG_VALUE(struct config_global, scrape_timeout_ms, CONFIG_TYPE_DURATION,
		"scrape_timeout", "10s"),
	CONFIG_VALUE(struct config_global, external_labels, CONFIG_TYPE_ENV_LABELS,
		"external_labels", NULL),
	LIMITS(struct config_global, limits),
	{.name = "metric_name_validation_scheme",
		.type = CONFIG_TYPE_ENUM,
		.offset = offsetof(struct config_global, name_scheme),
		.default_text = "utf8",
		.names = name_schemes},
	CONFIG_VALUE(struct config_global, scrape_failure_log_file, CONFIG_TYPE_PATH,
		"scrape_failure_log_file", NULL),
	CONFIG_VALUE(struct config_global, extra_scrape_metrics, CONFIG_TYPE_BOOL,
		"extra_scrape_metrics", "false"),
	CONFIG_IGNORED("evaluation_interval", NULL),
	CONFIG_IGNORED("rule_query_offset", NULL),
	CONFIG_IGNORED("query_log_file", NULL),
	METRICS_ONLY,
};
static const struct config_section keys_global =
	CONFIG_SECTION("global", global_keys, struct config_global, config_check_global);

static const struct config_key retention_keys[] = {
	CONFIG_VALUE(struct config_retention, time_ms, CONFIG_TYPE_DURATION, "time", NULL),
	CONFIG_VALUE(struct config_retention, size_bytes, CONFIG_TYPE_BYTES, "size", NULL),
	CONFIG_VALUE(struct config_retention, percentage, CONFIG_TYPE_DOUBLE, "percentage", NULL),
};
static const struct config_section keys_retention = CONFIG_SECTION(
	"retention", retention_keys, struct config_retention, config_check_retention);

static const struct config_key tsdb_keys[] = {
	{.name = "retention",
		.type = CONFIG_TYPE_SECTION,
		.offset = offsetof(struct config_tsdb, retention),
		.section = &keys_retention},
	CONFIG_VALUE(struct config_tsdb, out_of_order_ms, CONFIG_TYPE_DURATION,
		"out_of_order_time_window", NULL),
	CONFIG_IGNORED("stale_series_compaction_threshold", NULL),
};
static const struct config_section keys_tsdb =
	CONFIG_SECTION("tsdb", tsdb_keys, struct config_tsdb, NULL);

static const struct config_key storage_keys[] = {
	{.name = "tsdb",
		.type = CONFIG_TYPE_SECTION,
		.offset = offsetof(struct config_storage, tsdb),
		.section = &keys_tsdb},
	CONFIG_IGNORED("exemplars", NULL),
};
static const struct config_section keys_storage =
	CONFIG_SECTION("storage", storage_keys, struct config_storage, NULL);

static const struct config_key top_keys[] = {
	{.name = "global",
		.type = CONFIG_TYPE_SECTION,
		.offset = offsetof(struct config_top, global),
		.section = &keys_global},
	CONFIG_COUNTED(
		struct config_top, jobs, n_jobs, CONFIG_TYPE_LIST, "scrape_configs", &keys_job),
	CONFIG_VALUE(struct config_top, files, CONFIG_TYPE_PATHS, "scrape_config_files", NULL),
	CONFIG_IGNORED("object_storage", "profiles are kept in --storage.path"),
	CONFIG_IGNORED("debug_info", "names are stored with the profiles"),
	{.name = "storage",
		.type = CONFIG_TYPE_SECTION,
		.offset = offsetof(struct config_top, storage),
		.section = &keys_storage},
	CONFIG_IGNORED("remote_write", NULL),
	CONFIG_IGNORED("remote_read", NULL),
	CONFIG_IGNORED("rule_files", NULL),
	CONFIG_IGNORED("alerting", NULL),
	CONFIG_IGNORED("tracing", NULL),
	CONFIG_IGNORED("otlp", NULL),
	CONFIG_IGNORED("runtime", NULL),
};
static const struct config_section keys_top =
	CONFIG_SECTION("top level", top_keys, struct config_top, config_check_top);

static const struct config_key include_keys[] = {
	CONFIG_COUNTED(
		struct config_top, jobs, n_jobs, CONFIG_TYPE_LIST, "scrape_configs", &keys_job),
};
static const struct config_section keys_include =
	CONFIG_SECTION("scrape_config_files", include_keys, struct config_top, NULL);

const struct config_section *config_keys(enum config_keys_id id)
{
	static const struct config_section *const all[CONFIG_KEYS_N] = {
		[CONFIG_KEYS_TOP] = &keys_top,
		[CONFIG_KEYS_GLOBAL] = &keys_global,
		[CONFIG_KEYS_INCLUDE] = &keys_include,
		[CONFIG_KEYS_STORAGE] = &keys_storage,
		[CONFIG_KEYS_TSDB] = &keys_tsdb,
		[CONFIG_KEYS_RETENTION] = &keys_retention,
		[CONFIG_KEYS_JOB] = &keys_job,
		[CONFIG_KEYS_STATIC] = &keys_static,
		[CONFIG_KEYS_FILE_SD] = &keys_file_sd,
		[CONFIG_KEYS_RELABEL] = &keys_relabel,
		[CONFIG_KEYS_PROFILING] = &keys_profiling,
		[CONFIG_KEYS_PROFILE] = &keys_profile,
		[CONFIG_KEYS_VALUE_TYPE] = &keys_value_type,
		[CONFIG_KEYS_BASIC_AUTH] = &config_keys_basic_auth,
		[CONFIG_KEYS_AUTHORIZATION] = &config_keys_authorization,
		[CONFIG_KEYS_OAUTH2] = &config_keys_oauth2,
		[CONFIG_KEYS_TLS] = &config_keys_tls,
		[CONFIG_KEYS_HTTP_HEADER] = &config_keys_http_header,
		[CONFIG_KEYS_HTTP_SD] = &config_keys_http_sd,
		[CONFIG_KEYS_KUBERNETES_SD] = &config_keys_kubernetes_sd,
		[CONFIG_KEYS_KUBERNETES_NAMESPACES] = &config_keys_kubernetes_namespaces,
		[CONFIG_KEYS_KUBERNETES_SELECTOR] = &config_keys_kubernetes_selector,
		[CONFIG_KEYS_KUBERNETES_ATTACH] = &config_keys_kubernetes_attach,
		[CONFIG_KEYS_DNS_SD] = &config_keys_dns_sd,
		[CONFIG_KEYS_DOCKER_SD] = &config_keys_docker_sd,
		[CONFIG_KEYS_DOCKERSWARM_SD] = &config_keys_dockerswarm_sd,
		[CONFIG_KEYS_CONSUL_SD] = &config_keys_consul_sd,
		[CONFIG_KEYS_NOMAD_SD] = &config_keys_nomad_sd,
		[CONFIG_KEYS_FILTER] = &config_keys_filter,
		[CONFIG_KEYS_EC2_SD] = &config_keys_ec2_sd,
	};

	return all[id];
}

bool config_keys_is_foreign_sd(const char *key)
{
	static const char *const foreign[] = {"aws", "ecs", "lightsail", "rds", "msk",
		"elasticache", "azure", "gce", "digitalocean", "hetzner", "linode", "scaleway",
		"vultr", "ionos", "oci", "openstack", "upcloud", "vsphere", "ovhcloud", "outscale",
		"stackit", "marathon", "eureka", "puppetdb", "uyuni", "triton", "kuma", "serverset",
		"nerve", NULL};
	const char *suffix = strstr(key, "_sd_configs");
	size_t n = suffix ? (size_t)(suffix - key) : 0;

	if (!suffix || strcmp(suffix, "_sd_configs"))
		return false;
	for (size_t i = 0; foreign[i]; i++) {
		if (strlen(foreign[i]) == n && !memcmp(key, foreign[i], n))
			return true;
	}
	return false;
}
