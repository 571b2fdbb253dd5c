/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration file, read and checked as a whole: an immutable tree with every default filled
 * in. The keys, their types and defaults are a table (scraper/config/keys.h) that also drives
 * docs/configuration.md's check.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/json/write.h"
#include "lib/prof/labels.h"
#include "scraper/config/sd.h"
#include "scraper/relabel/relabel.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct bytes;
struct fs;

/* 0 means no limit. */
struct config_limits {
	uint64_t body_size_bytes; /* of the decompressed answer */
	uint64_t samples;	  /* pprof samples × kept value types of one answer */
	uint64_t targets;	  /* of the job, after relabeling */
	uint64_t labels, label_name_bytes,
		label_value_bytes; /* of a series, after metric relabeling */
	uint64_t keep_dropped_targets;
};

enum config_preset { CONFIG_PRESET_AUTO, CONFIG_PRESET_NODE, CONFIG_PRESET_GO };
enum config_symbolize { CONFIG_SYMBOLIZE_NONE, CONFIG_SYMBOLIZE_FUNCTIONS, CONFIG_SYMBOLIZE_LINES };
/* A boolean that may be absent: the preset decides then. */
enum config_tristate { CONFIG_UNSET = -1, CONFIG_FALSE = 0, CONFIG_TRUE = 1 };

/* Which names of labels are valid: any UTF-8, or [a-zA-Z_][a-zA-Z0-9_]*. */
enum config_name_scheme { CONFIG_NAMES_UNSET, CONFIG_NAMES_UTF8, CONFIG_NAMES_LEGACY };

struct config_value_type {
	const char *type, *unit;
};

/* The longest window that `seconds` of params, of a label __param_seconds or of a path asks for. */
enum { CONFIG_MAX_WINDOW_SECONDS = 86400 };

/* profiling_config.pprof_config.<name>: overrides of the preset's entry of that name, or a type of
 * its own. */
struct config_profile {
	const char *name;
	enum config_tristate enabled, delta;
	const char *path; /* NULL: of the preset; a name that no preset knows has its path set */
	int64_t seconds;  /* 0: unset */
	struct config_value_type *keep_sample_types; /* none: keep all */
	size_t n_keep_sample_types;
};

struct config_profiling {
	enum config_preset preset;
	struct config_profile *profiles;
	size_t n_profiles;
	const char *path_prefix; /* "" or "/…" without a trailing slash */
	struct config_strings sample_labels, drop_labels;
	bool has_sample_labels, has_drop_labels; /* written, even as []; else the preset decides */
	uint64_t max_series;			 /* per response */
	uint64_t label_set_limit;		 /* per job and head generation */
	bool addresses;
	enum config_symbolize symbolize;
};

struct config_static_group {
	struct config_strings targets;
	struct labels labels;
};

struct config_job {
	const char *name;
	int64_t scrape_interval_ms, scrape_timeout_ms;
	const char *scheme;	  /* http or https */
	const char *metrics_path; /* only the label __metrics_path__ */
	struct config_param *params;
	size_t n_params;
	bool honor_labels, honor_timestamps, enable_compression;
	enum config_tristate extra_scrape_metrics; /* never unset once read, nor is this: */
	int name_scheme;			   /* enum config_name_scheme */
	const char *scrape_failure_log_file;	   /* NULL: none */
	struct config_limits limits;
	struct config_http http;
	struct config_profiling profiling;
	struct relabel_rule *relabel, *metric_relabel;
	size_t n_relabel, n_metric_relabel;
	struct config_static_group *statics;
	size_t n_statics;
	struct config_file_sd *file_sds;
	size_t n_file_sds;
	struct config_http_sd *http_sds;
	size_t n_http_sds;
	struct config_kubernetes_sd *kubernetes_sds;
	size_t n_kubernetes_sds;
	struct config_dns_sd *dns_sds;
	size_t n_dns_sds;
	struct config_docker_sd *docker_sds;
	size_t n_docker_sds;
	struct config_dockerswarm_sd *dockerswarm_sds;
	size_t n_dockerswarm_sds;
	struct config_consul_sd *consul_sds;
	size_t n_consul_sds;
	struct config_nomad_sd *nomad_sds;
	size_t n_nomad_sds;
	struct config_ec2_sd *ec2_sds;
	size_t n_ec2_sds;
	/* Everything above as one text, which /config shows: without secrets. */
	const char *text;
	size_t text_len;
	uint8_t identity[32]; /* of the text with its secrets: equal ones, equal jobs */
	uint32_t index;	      /* in struct config */
};

struct config_global {
	int64_t scrape_interval_ms, scrape_timeout_ms;
	struct labels external_labels;
	struct config_limits limits; /* what jobs inherit */
	bool extra_scrape_metrics;
	int name_scheme; /* enum config_name_scheme */
	const char *scrape_failure_log_file;
};

/* storage.tsdb: what is not 0 overrides the flag. */
struct config_storage {
	struct config_tsdb {
		struct config_retention {
			int64_t time_ms;
			uint64_t size_bytes;
			double percentage; /* of the file system */
		} retention;
		int64_t out_of_order_ms;
	} tsdb;
};

struct config_warning {
	const char *text; /* "FILE:LINE:COL: key.path: …" */
};

struct config {
	_Atomic unsigned refs;
	const char *path;
	struct config_global global;
	struct config_storage storage;
	struct config_job *jobs;
	size_t n_jobs;
	struct config_warning *warnings;
	size_t n_warnings;
	uint8_t sha256[32];	/* of the file and of those it names */
	struct config_mem *mem; /* owns everything the tree points to */
};

/* Value of an environment variable, NULL when unset. */
typedef const char *config_getenv_fn(const char *name, void *ctx);

struct config_load_opts {
	config_getenv_fn *getenv; /* NULL: no variable is set */
	void *getenv_ctx;
};

/*
 * Reads and checks `path`. Errors: -EINVAL with "FILE:LINE:COL: key.path: what is wrong, what was
 * expected"; those of reading (-ENOENT, -EISDIR, -EACCES, -EFBIG above 16 MiB) with the path; -ENOMEM. *ret
 * has one reference. Any thread, here and below.
 */
int config_load(struct fs *fs, const char *path, const struct config_load_opts *opts,
	struct config **ret, struct errbuf *eb) _must_check_;
/* The same from memory; `path` is used in messages and as the base of relative paths. With fs NULL files of
 * scrape_config_files are not read. */
int config_parse(struct fs *fs, const char *path, const void *text, size_t len,
	const struct config_load_opts *opts, struct config **ret, struct errbuf *eb) _must_check_;
/* Thread-safe. The last put frees. */
struct config *config_get(struct config *c);
void config_put(struct config *c);
static inline void config_putp(struct config **c)
{
	if (*c)
		config_put(*c);
}

/* The job of that name, or NULL. */
const struct config_job *config_job_named(const struct config *c, const char *name);
/* Calls fn for each file of credentials, certificates or connection settings that the job names: the key's path below the job
 * ("tls_config.ca_file"), and the file's. Those of file_sd_configs are not among them. */
typedef void config_file_fn(void *ctx, const char *key, const char *path);
void config_job_files(const struct config_job *job, config_file_fn *fn, void *ctx);
/* True when nothing that a scrape loop or its discovery depends on differs: the loop may go on
 * under the new configuration. */
bool config_job_equal(const struct config_job *a, const struct config_job *b);

/* Appends all settings of the job's i-th discovery of a kind ("http_sd_configs"), secrets too: equal texts, equal
 * settings. */
void config_sd_key(const struct config_job *job, const char *kind, size_t i, struct bytes *out);

/* Appends the effective configuration as YAML, defaults filled in. */
void config_print(const struct config *c, struct bytes *out);

/* A rule as a JSON object, every key filled in. */
void config_rule_json(const struct relabel_rule *rule, struct json *j);

/* The file of --http.config.file: the HTTP client's keys alone, as promtool takes them. Freed with
 * config_http_file_free. */
struct config_http_file {
	struct config_http http;
	struct config_mem *mem;
};
/* Errors as config_load. */
int config_load_http(struct fs *fs, const char *path, struct config_http_file *ret,
	struct errbuf *eb) _must_check_;
void config_http_file_free(struct config_http_file *f);

/* Adds an object of label names and text values, as JSON, to `b`. -EINVAL says what is wrong; -ENOMEM. */
int config_parse_labels(const char *text, struct labels_builder *b, struct errbuf *eb) _must_check_;

/* A list of relabel rules alone, as `sonde check relabel --rules FILE` takes it. Freed with
 * config_rules_free. */
struct config_rules {
	struct relabel_rule *rules;
	size_t n;
	const char **texts; /* each rule as JSON, with the keys that were written */
	struct config_mem *mem;
};
/* Errors as config_parse. */
int config_parse_rules(const char *path, const void *text, size_t len, struct config_rules *ret,
	struct errbuf *eb) _must_check_;
void config_rules_free(struct config_rules *r);

/*
 * The content of a file_sd file: a YAML or JSON list of {targets, labels}, strict. Groups and
 * labels live in `*ret`, freed with config_groups_free. Each byte that is no UTF-8 becomes U+FFFD. Errors as config_parse.
 */
struct config_groups {
	struct config_static_group *items;
	size_t n, n_replaced;
	struct config_mem *mem;
};
int config_parse_groups(const char *path, const void *text, size_t len, struct config_groups *ret,
	struct errbuf *eb) _must_check_;
void config_groups_free(struct config_groups *g);
