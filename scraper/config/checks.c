/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks across sections: inheritance from global, values that contradict each other,
 * paths, names.
 */
#include "lib/base/regex.h"
#include "lib/base/str.h"
#include "scraper/config/keys.h"
#include <string.h>

/* Types whose path the presets and Parca's, Alloy's and our own exporters know. */
static const char *const known_profiles[] = {"process_cpu", "memory", "block", "mutex", "goroutine",
	"threadcreate", "goroutineleak", "fgprof", "godeltaprof_memory", "godeltaprof_mutex",
	"godeltaprof_block", "offcpu", "page_faults", "block_io", "file_io", "net_io", "locks",
	"gc"};

int config_check_global(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_global *g = object;

	(void)node;
	r->global = g;
	for (size_t i = 0; g->name_scheme == CONFIG_NAMES_LEGACY && i < g->external_labels.n; i++)
		if (!relabel_is_legacy_name(g->external_labels.items[i].name))
			return config_fail(r, config_seen_key(seen, "external_labels"),
				"external_labels",
				"\"%.100s\" is not a label name of the legacy scheme, expected "
				"letters, digits and _",
				g->external_labels.items[i].name);
	/* As in Prometheus, zero means the default. */
	if (!g->scrape_interval_ms)
		g->scrape_interval_ms = 15000;
	if (!g->scrape_timeout_ms || (!config_seen_key(seen, "scrape_timeout") &&
					     g->scrape_timeout_ms > g->scrape_interval_ms))
		g->scrape_timeout_ms = MIN((int64_t)10000, g->scrape_interval_ms);
	if (g->scrape_timeout_ms > g->scrape_interval_ms)
		return config_warn(r, config_seen_key(seen, "scrape_timeout"), "scrape_timeout",
			"longer than scrape_interval: a slow scrape delays the next one of its "
			"target");
	return 0;
}

int config_check_retention(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	const struct config_retention *x = object;

	(void)node;
	if (x->percentage <= 100)
		return 0;
	return config_fail(r, config_seen_key(seen, "percentage"), "percentage",
		"%g is more than 100", x->percentage);
}

int config_check_top(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	const struct config_top *top = object;

	(void)node;
	for (size_t i = 0; i < top->files.n; i++) {
		const char *star = strchr(top->files.items[i], '*');
		char key[64];

		if (!star || !strchr(star + 1, '/'))
			continue;
		snprintf(key, sizeof(key), "scrape_config_files[%zu]", i);
		return config_fail(r, config_seen_key(seen, "scrape_config_files")->items[i], key,
			"\"%.100s\" is not valid, expected a path with * in its last component "
			"only",
			top->files.items[i]);
	}
	return 0;
}

static void inherit(uint64_t *own, uint64_t global)
{
	if (!*own)
		*own = global;
}

static void inherit_limits(struct config_limits *own, const struct config_limits *global)
{
	inherit(&own->body_size_bytes, global->body_size_bytes);
	inherit(&own->samples, global->samples);
	inherit(&own->targets, global->targets);
	inherit(&own->labels, global->labels);
	inherit(&own->label_name_bytes, global->label_name_bytes);
	inherit(&own->label_value_bytes, global->label_value_bytes);
	inherit(&own->keep_dropped_targets, global->keep_dropped_targets);
}

static int check_times(
	struct config_reader *r, struct config_job *job, const struct config_seen *seen)
{
	if (!job->scrape_interval_ms)
		job->scrape_interval_ms = r->global->scrape_interval_ms;
	if (!job->scrape_timeout_ms)
		job->scrape_timeout_ms = MIN(r->global->scrape_timeout_ms, job->scrape_interval_ms);
	if (job->scrape_timeout_ms > job->scrape_interval_ms &&
		config_seen_key(seen, "scrape_timeout"))
		return config_warn(r, config_seen_key(seen, "scrape_timeout"), "scrape_timeout",
			"longer than scrape_interval: a slow scrape delays the next one of its "
			"target");
	return 0;
}

/* `seconds` in params is the window of all types, as a Go program sees it. */
static int check_param_seconds(
	struct config_reader *r, const struct config_job *job, const struct config_seen *seen)
{
	const struct conf_node *params = config_seen_key(seen, "params");
	const struct conf_node *at = params ? conf_node_get(params, "seconds") : NULL;
	const struct config_strings *values = NULL;
	uint64_t seconds;
	int e = 0;

	for (size_t i = 0; i < job->n_params; i++)
		if (!strcmp(job->params[i].name, "seconds"))
			values = &job->params[i].values;
	if (!values || !values->n)
		return 0;
	if (str_parse_u64(values->items[0], &seconds, NULL) < 0 || !seconds ||
		seconds > CONFIG_MAX_WINDOW_SECONDS)
		return config_fail(r, at, "params.seconds",
			"\"%.40s\" is no window, expected whole seconds from 1 to %d",
			values->items[0], CONFIG_MAX_WINDOW_SECONDS);
	if ((int64_t)seconds * 1000 > job->scrape_interval_ms)
		e = config_warn(r, at, "params.seconds",
			"longer than scrape_interval: each profile takes the time of several");
	if (e < 0)
		return e;
	return config_warn(r, at, "params.seconds",
		"is the window of every profile type of this job, of those too that are totals or "
		"states otherwise, such as memory; "
		"profiling_config.pprof_config.process_cpu.seconds "
		"sets the window of the CPU profile alone");
}

static int check_profile_seconds(
	struct config_reader *r, const struct config_job *job, const struct config_seen *seen)
{
	const struct conf_node *profiling = config_seen_key(seen, "profiling_config");
	const struct conf_node *types = profiling ? conf_node_get(profiling, "pprof_config") : NULL;

	for (size_t i = 0; i < job->profiling.n_profiles; i++) {
		const struct config_profile *p = &job->profiling.profiles[i];
		const struct conf_node *own = types ? conf_node_get(types, p->name) : NULL;
		size_t mark;
		int e;

		if (p->seconds * 1000 <= job->scrape_interval_ms)
			continue;
		mark = config_path_push(r, ".profiling_config.pprof_config.%s", p->name);
		e = config_fail(r, own ? conf_node_get(own, "seconds") : NULL, "seconds",
			"%lld is longer than the scrape_interval of %lld ms, expected at most that",
			(long long)p->seconds, (long long)job->scrape_interval_ms);
		config_path_pop(r, mark);
		return e;
	}
	return 0;
}

/* Without relabeling a slash in an address can only be a mistake, as to Prometheus, and so can an empty one, which costs its target alone
 * there; with it the rules may still mend them. What discovery finds costs the target alone. */
static int check_static_addresses(
	struct config_reader *r, const struct config_job *job, const struct config_seen *seen)
{
	const struct conf_node *groups = config_seen_key(seen, "static_configs");

	for (size_t i = 0; i < job->n_statics && !job->n_relabel; i++) {
		const struct config_strings *targets = &job->statics[i].targets;

		for (size_t k = 0; k < targets->n; k++) {
			size_t mark;
			int e;

			const struct conf_node *at;

			if (*targets->items[k] && !strchr(targets->items[k], '/'))
				continue;
			at = conf_node_get(groups->items[i], "targets")->items[k];
			mark = config_path_push(r, ".static_configs[%zu].targets[%zu]", i, k);
			if (*targets->items[k])
				e = config_fail(r, at, NULL,
					"\"%.100s\" is not a valid address, expected host:port",
					targets->items[k]);
			else
				e = config_warn(r, at, NULL,
					"is empty, expected host:port: nothing is scraped for it");
			config_path_pop(r, mark);
			if (e < 0)
				return e;
		}
	}
	return 0;
}

/* Names that rules may make, under the legacy scheme. */
static int check_legacy_rules(struct config_reader *r, struct relabel_rule *rules, size_t n,
	const char *key, const struct config_seen *seen)
{
	const struct conf_node *list = config_seen_key(seen, key);

	for (size_t i = 0; i < n; i++) {
		struct errbuf eb = {0};
		size_t mark;
		int e;

		rules[i].legacy_names = true;
		if (relabel_rule_check_legacy(&rules[i], &eb) == 0)
			continue;
		mark = config_path_push(r, ".%s[%zu]", key, i);
		e = config_fail(r, list ? list->items[i] : NULL, NULL, "%s", eb.text);
		config_path_pop(r, mark);
		return e;
	}
	return 0;
}

static int check_names(
	struct config_reader *r, struct config_job *job, const struct config_seen *seen)
{
	int e;

	if (job->name_scheme == CONFIG_NAMES_UNSET)
		job->name_scheme = r->global->name_scheme;
	if (job->name_scheme != CONFIG_NAMES_LEGACY)
		return 0;
	e = check_legacy_rules(r, job->relabel, job->n_relabel, "relabel_configs", seen);
	return e < 0 ? e
		     : check_legacy_rules(r, job->metric_relabel, job->n_metric_relabel,
			       "metric_relabel_configs", seen);
}

int config_check_job(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_job *job = object;
	int e;

	if (!job->name || !*job->name)
		return config_fail(r, job->name ? config_seen_key(seen, "job_name") : node,
			"job_name", "job_name is empty, expected a name for the job");
	if (strcmp(job->scheme, "http") && strcmp(job->scheme, "https"))
		return config_fail(r, config_seen_key(seen, "scheme"), "scheme",
			"\"%.40s\" is not a scheme, expected http or https", job->scheme);
	for (size_t i = 0; i < job->n_params; i++) {
		if (!*job->params[i].name)
			return config_fail(r, config_seen_key(seen, "params"), "params",
				"a parameter's name cannot be empty");
	}
	inherit_limits(&job->limits, &r->global->limits);
	if (job->extra_scrape_metrics == CONFIG_UNSET)
		job->extra_scrape_metrics =
			r->global->extra_scrape_metrics ? CONFIG_TRUE : CONFIG_FALSE;
	if (!job->scrape_failure_log_file || !*job->scrape_failure_log_file)
		job->scrape_failure_log_file = r->global->scrape_failure_log_file;
	e = config_check_http(r, &job->http, seen);
	if (e == 0)
		e = check_names(r, job, seen);
	if (e == 0)
		e = check_times(r, job, seen);
	if (e == 0)
		e = check_profile_seconds(r, job, seen);
	if (e == 0)
		e = check_param_seconds(r, job, seen);
	return e < 0 ? e : check_static_addresses(r, job, seen);
}

/* ^[^*]*(\*[^/]*)?\.(json|yml|yaml|JSON|YML|YAML)$ */
static bool is_sd_file_pattern(const char *s)
{
	static const char *const suffixes[] = {".json", ".yml", ".yaml", ".JSON", ".YML", ".YAML"};
	const char *star = strchr(s, '*');

	if (star && strchr(star, '/'))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (str_ends_with(s, suffixes[i]))
			return true;
	}
	return false;
}

int config_check_file_sd(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	const struct conf_node *files = config_seen_key(seen, "files");
	struct config_file_sd *sd = object;

	if (!sd->files.n)
		return config_fail(r, files ? files : node, "files", "expected at least one file");
	if (config_check_refresh(r, sd->refresh_interval_ms, seen) < 0)
		return -EINVAL;
	for (size_t i = 0; i < sd->files.n; i++) {
		const char *file = sd->files.items[i];

		if (!is_sd_file_pattern(file)) {
			char key[32];

			snprintf(key, sizeof(key), "files[%zu]", i);
			return config_fail(r, files->items[i], key,
				"\"%.100s\" is not valid, expected a path that ends in .json, .yml "
				"or .yaml with * in its last component only",
				file);
		}
		sd->files.items[i] = config_join_path(r, file);
		if (!sd->files.items[i])
			return config_out_of_memory(r);
	}
	return 0;
}

int config_check_relabel(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	static const struct {
		unsigned key;
		const char *name;
	} keys[] = {
		{RELABEL_KEY_SOURCE_LABELS, "source_labels"},
		{RELABEL_KEY_SEPARATOR, "separator"},
		{RELABEL_KEY_TARGET_LABEL, "target_label"},
		{RELABEL_KEY_REGEX, "regex"},
		{RELABEL_KEY_MODULUS, "modulus"},
		{RELABEL_KEY_REPLACEMENT, "replacement"},
	};
	struct relabel_rule *rule = object;
	struct errbuf eb = {0};
	unsigned written = 0, wrong = 0;

	rule->regex_is_default = !strcmp(regex_text(rule->regex), RELABEL_DEFAULT_REGEX);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (config_seen_key(seen, keys[i].name))
			written |= keys[i].key;
	}
	if (relabel_rule_check(rule, written, &wrong, &eb) == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct conf_node *at = config_seen_key(seen, keys[i].name);

		if (wrong == keys[i].key)
			return config_fail(r, at ? at : node, keys[i].name, "%s", eb.text);
	}
	return config_fail(r, node, NULL, "%s", eb.text);
}

int config_check_profiling(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_profiling *p = object;
	size_t len = strlen(p->path_prefix);

	(void)node;
	p->has_sample_labels = config_seen_key(seen, "sample_labels") != NULL;
	p->has_drop_labels = config_seen_key(seen, "drop_labels") != NULL;
	while (len && p->path_prefix[len - 1] == '/')
		len--;
	p->path_prefix = arena_printf(config_mem_arena(r->mem), "%s%.*s",
		len && *p->path_prefix != '/' ? "/" : "", (int)len, p->path_prefix);
	return p->path_prefix ? 0 : config_out_of_memory(r);
}

static bool is_known_profile(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(known_profiles); i++) {
		if (!strcmp(name, known_profiles[i]))
			return true;
	}
	return false;
}

int config_check_profile(struct config_reader *r, void *object, const struct conf_node *node,
	const struct config_seen *seen)
{
	struct config_profile *p = object;

	if (!p->path && p->enabled != CONFIG_FALSE && !is_known_profile(r->map_name))
		return config_fail(r, node, "path",
			"no preset knows this profile type, expected its path, such as "
			"/debug/pprof/custom");
	if (p->path && *p->path != '/') {
		if (!*p->path)
			return config_fail(r, config_seen_key(seen, "path"), "path",
				"is empty, expected a path such as /debug/pprof/heap");
		p->path = arena_printf(config_mem_arena(r->mem), "/%s", p->path);
		if (!p->path)
			return config_out_of_memory(r);
	}
	if (!p->seconds && config_seen_key(seen, "seconds"))
		return config_fail(
			r, config_seen_key(seen, "seconds"), "seconds", "must be at least 1");
	for (size_t i = 0; i < p->n_keep_sample_types; i++) {
		const struct conf_node *types = config_seen_key(seen, "keep_sample_type");

		if (!*p->keep_sample_types[i].type)
			return config_fail(
				r, types->items[i], "keep_sample_type", "an entry needs a type");
	}
	return 0;
}
