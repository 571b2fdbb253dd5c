/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde check config | service-discovery | relabel: what the scraper would make of a file, without
 * a scraper.
 */
#include "cli/cli.h"
#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/json/write.h"
#include "lib/base/options.h"
#include "scraper/config/config.h"
#include "scraper/discover/discover.h"
#include "scraper/relabel/relabel.h"
#include <poll.h>
#include <stddef.h>
#include <string.h>

enum { MAX_RULES_FILE = 16 << 20 };

static const char *environment(const char *name, void *ctx)
{
	(void)ctx;
	return getenv(name);
}

static int load(const char *path, struct config **ret)
{
	const struct config_load_opts opts = {.getenv = environment};
	struct errbuf eb = {0};
	int r = config_load(&fs_system, path, &opts, ret, &eb);

	if (r < 0) {
		fprintf(stderr, "%s\n", err_text(&eb, r));
		return CLI_FAILED;
	}
	for (size_t i = 0; i < (*ret)->n_warnings; i++)
		fprintf(stderr, "warning: %s\n", (*ret)->warnings[i].text);
	return CLI_OK;
}

/* Files named without a glob: those that are there must be readable, the others may come later. */
static int check_sd_files(const struct config_job *job)
{
	int status = CLI_OK;

	for (size_t i = 0; i < job->n_file_sds; i++) {
		for (size_t k = 0; k < job->file_sds[i].files.n; k++) {
			const char *path = job->file_sds[i].files.items[k];
			_cleanup_bytes_ struct bytes text = {0};
			struct config_groups groups = {0};
			struct errbuf eb = {0};
			struct fs_stat st;
			int r;

			if (strchr(path, '*'))
				continue;
			if (fs_system.stat(&fs_system, path, &st) < 0) {
				fprintf(stderr, "warning: job %s: file_sd file %s does not exist\n",
					job->name, path);
				continue;
			}
			r = fs_read_file(&fs_system, path, MAX_RULES_FILE, &text, &eb);
			if (r == 0)
				r = config_parse_groups(path, text.data, text.len, &groups, &eb);
			config_groups_free(&groups);
			if (r < 0) {
				fprintf(stderr, "%s\n", err_text(&eb, r));
				status = CLI_FAILED;
			}
		}
	}
	return status;
}

struct named_files {
	const char *file, *job;
	int status;
};

static void check_named_file(void *ctx, const char *key, const char *path)
{
	struct named_files *n = ctx;
	struct fs_stat st;
	int r = fs_system.stat(&fs_system, path, &st);

	if (r == 0 && !st.is_dir)
		return;
	fprintf(stderr, "%s: job %s: %s: %s: %s\n", n->file, n->job, key, path,
		r < 0 ? strerror(-r) : "is a directory, expected a file");
	n->status = CLI_FAILED;
}

struct check_options {
	bool syntax_only;
};

static int check_file(const char *file, const struct check_options *o)
{
	_cleanup_(config_putp)
	struct config *config = NULL;
	int status = load(file, &config);

	for (size_t i = 0; status == CLI_OK && i < config->n_jobs && !o->syntax_only; i++) {
		struct named_files named = {.file = file, .job = config->jobs[i].name};

		config_job_files(&config->jobs[i], check_named_file, &named);
		status = check_sd_files(&config->jobs[i]);
		status = MAX(named.status, status);
	}
	if (status == CLI_OK)
		printf("SUCCESS: %s is valid, %zu job%s\n", file, config->n_jobs,
			config->n_jobs == 1 ? "" : "s");
	return status;
}

int cli_check_config(int argc, char **argv)
{
	static const struct option_spec specs[] = {
		{"syntax-only", OPTION_BOOL, offsetof(struct check_options, syntax_only),
			.help = "Read only files with scrape_configs."},
	};
	static const struct option_program program = {
		.name = "sonde check config",
		.summary = "check configuration files of sonde-scraper",
		.arguments = "FILE...",
		.description =
			"Reads each file as sonde-scraper would and prints SUCCESS with the number "
			"of its jobs, or the first error as FILE:LINE:COLUMN: key: what is wrong. "
			"The files of credentials and certificates that it names must exist, and "
			"existing files of file_sd_configs must be valid.",
		.exit_status = "1      a file is not valid",
		.specs = specs,
		.n_specs = ARRAY_SIZE(specs),
	};
	struct option_list files = {0};
	struct check_options options = {0};
	int status = options_parse_or_exit(&program, argc, argv, &options, &files);

	if (status < 0 && !files.n) {
		fprintf(stderr, "sonde check config: which file?\n");
		status = CLI_USAGE;
	}
	if (status < 0) {
		status = CLI_OK;
		for (size_t i = 0; i < files.n; i++) {
			int one = check_file(files.items[i], &options);

			status = MAX(status, one);
		}
	}
	option_list_done(&files);
	return status;
}

static void put_labels(struct json *j, const struct labels *l)
{
	json_object_begin(j);
	for (size_t i = 0; i < l->n; i++)
		json_kv_string(j, l->items[i].name, l->items[i].value);
	json_object_end(j);
}

/* Compact JSON with line breaks and two spaces a level. */
static void indent(const struct bytes *compact, struct bytes *out)
{
	unsigned depth = 0;
	bool in_text = false;

	for (size_t i = 0; i < compact->len; i++) {
		char c = (char)compact->data[i],
		     next = i + 1 < compact->len ? (char)compact->data[i + 1] : 0;

		if (in_text && c == '\\') {
			bytes_put(out, compact->data + i, 2);
			i++;
			continue;
		}
		in_text ^= c == '"';
		if (!in_text && (c == '}' || c == ']') && i && !strchr("{[", compact->data[i - 1]))
			bytes_printf(out, "\n%*s", (int)--depth * 2, "");
		bytes_put_u8(out, (uint8_t)c);
		if (in_text || c == '"')
			continue;
		if (c == ':')
			bytes_put_u8(out, ' ');
		if (((c == '{' || c == '[') && next != '}' && next != ']'))
			bytes_printf(out, "\n%*s", (int)++depth * 2, "");
		else if (c == ',')
			bytes_printf(out, "\n%*s", (int)depth * 2, "");
	}
	bytes_put_u8(out, '\n');
}

static int print_indented(const struct bytes *compact)
{
	_cleanup_bytes_ struct bytes out = {0};
	struct errbuf eb = {0};

	indent(compact, &out);
	if (bytes_error(compact) < 0 || bytes_error(&out) < 0)
		return cli_fail(&eb, -ENOMEM);
	fwrite(out.data, 1, out.len, stdout);
	return CLI_OK;
}

struct targets {
	const char *job;
	struct json json;
	struct bytes seen; /* label sets already printed, as promtool leaves out repetitions */
	int error;
};

/* True the first time these labels come. */
static bool is_new(struct targets *t, const struct target *target)
{
	uint64_t key[2] = {labels_hash(&target->discovered), labels_hash(&target->relabeled)};

	for (size_t off = 0; off + sizeof(key) <= t->seen.len; off += sizeof(key)) {
		if (!memcmp(t->seen.data + off, key, sizeof(key)))
			return false;
	}
	bytes_put(&t->seen, key, sizeof(key));
	return true;
}

static void put_target(struct targets *t, const struct target *target)
{
	if (!is_new(t, target))
		return;
	json_object_begin(&t->json);
	json_key(&t->json, "discoveredLabels");
	put_labels(&t->json, &target->discovered);
	json_key(&t->json, "labels");
	put_labels(&t->json, &target->relabeled);
	if (target->state == TARGET_INVALID)
		json_kv_string(&t->json, "error", target->error);
	json_object_end(&t->json);
}

static void on_update(void *ctx, struct config *cfg, const struct config_job *job,
	const struct discover_group *const *groups, size_t n_groups)
{
	struct targets *t = ctx;

	(void)cfg;
	for (size_t g = 0; g < n_groups && !strcmp(job->name, t->job); g++) {
		for (size_t i = 0; i < groups[g]->n_targets; i++) {
			_cleanup_target_ struct target target = {0};
			int r = target_build(job, groups[g], i, NULL, NULL, &target);

			if (r == -ENOMEM && !target.error[0])
				t->error = r;
			put_target(t, &target);
		}
	}
}

/* Runs the discovery until each of the job's providers has answered, well or not. */
static bool wait_settled(struct discover *d, const struct config_job *job, int64_t timeout_ms)
{
	int64_t end_ns = clock_monotonic_ns(&clock_system) + timeout_ms * NS_PER_MS, next_ns;

	for (;;) {
		struct pollfd fd = {.fd = discover_fd(d), .events = POLLIN};
		int64_t now_ns;

		next_ns = MIN(discover_run(d), end_ns);
		now_ns = clock_monotonic_ns(&clock_system);
		if (discover_job_settled(d, job) || now_ns >= end_ns)
			return discover_job_settled(d, job);
		(void)poll(&fd, 1, (int)MAX((next_ns - now_ns) / NS_PER_MS + 1, 1));
	}
}

static int print_targets(struct config *config, const struct config_job *job, int64_t timeout_ms)
{
	bool is_settled;
	_cleanup_(discover_freep)
	struct discover *d = NULL;
	_cleanup_bytes_ struct bytes out = {0};
	struct targets t = {.job = job->name, .json = json_to(&out)};
	struct errbuf eb = {0};
	int r = discover_new(&(struct discover_options) {.fs = &fs_system,
				     .clock = &clock_system,
				     .update = on_update,
				     .ctx = &t,
				     .user_agent = "sonde",
				     .is_quiet = true},
		&d, &eb);

	if (r < 0)
		return cli_fail(&eb, r);
	json_array_begin(&t.json);
	discover_apply(d, config);
	is_settled = wait_settled(d, job, timeout_ms);
	json_array_end(&t.json);
	bytes_done(&t.seen);
	if (t.error)
		return cli_fail(&eb, t.error);
	if (!is_settled)
		fprintf(stderr, "sonde: no answer within the --timeout\n");
	else if (discover_job_error(d, job))
		fprintf(stderr, "%s\n", discover_job_error(d, job));
	else
		return print_indented(&out);
	if (out.len > strlen("[]")) /* what others of its discoveries found */
		(void)print_indented(&out);
	return CLI_FAILED;
}

static int check_service_discovery(const char *file, const char *name, int64_t timeout_ms)
{
	_cleanup_(config_putp)
	struct config *config = NULL;
	const struct config_job *job;
	int status = load(file, &config);

	if (status != CLI_OK)
		return status;
	job = config_job_named(config, name);
	if (job)
		return print_targets(config, job, timeout_ms);
	fprintf(stderr, "sonde: %s has no job \"%s\"; its jobs are", file, name);
	for (size_t i = 0; i < config->n_jobs; i++)
		fprintf(stderr, "%s %s", i ? "," : "", config->jobs[i].name);
	fprintf(stderr, "\n");
	return CLI_FAILED;
}

struct sd_options {
	int64_t timeout_ms;
};

int cli_check_service_discovery(int argc, char **argv)
{
	static const struct option_spec specs[] = {
		{"timeout", OPTION_DURATION, offsetof(struct sd_options, timeout_ms),
			.value = "DURATION", .fallback = "30s", .min = 1, .max = 3600000,
			.help = "How long discoveries may take that ask over the network."},
	};
	static const struct option_program program = {
		.name = "sonde check service-discovery",
		.summary = "print the targets of a job, before and after relabeling",
		.arguments = "FILE JOB",
		.description = "Runs the discovery of one job once and prints a JSON list of its "
			       "targets: discoveredLabels before "
			       "relabeling and labels after it, empty for a target that a rule "
			       "dropped; error says why a target cannot "
			       "be scraped.",
		.exit_status = "1      the file is not valid, has no such job, or discovery failed",
		.specs = specs,
		.n_specs = ARRAY_SIZE(specs),
	};
	struct option_list args = {0};
	struct sd_options options = {0};
	int status = options_parse_or_exit(&program, argc, argv, &options, &args);

	if (status < 0 && args.n != 2) {
		fprintf(stderr, "sonde check service-discovery: expected FILE and JOB\n");
		status = CLI_USAGE;
	}
	if (status < 0)
		status = check_service_discovery(args.items[0], args.items[1], options.timeout_ms);
	option_list_done(&args);
	return status;
}

static int put_builder(struct json *j, struct labels_builder *b, bool kept)
{
	_cleanup_labels_ struct labels labels = {0};
	int r = kept ? labels_builder_finish(b, &labels) : 0;

	if (kept)
		put_labels(j, &labels);
	else
		json_null(j);
	return r;
}

static int run_steps(const struct config_rules *rules, struct labels_builder *b, struct bytes *out,
	struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes steps = {0};
	struct json j = json_to(out), s = json_to(&steps);
	int r = 1;

	json_array_begin(&s);
	for (size_t i = 0; i < rules->n && r > 0; i++) {
		int e;

		r = relabel_apply_rule(&rules->rules[i], b, eb);
		if (r < 0)
			return err_prefix(eb, r, "rule %zu", i + 1);
		json_object_begin(&s);
		json_key(&s, "rule");
		json_raw(&s, rules->texts[i], strlen(rules->texts[i]));
		json_key(&s, "labels");
		e = put_builder(&s, b, r > 0);
		if (e < 0)
			return e;
		json_object_end(&s);
	}
	json_array_end(&s);
	json_object_begin(&j);
	json_key(&j, "labels");
	r = put_builder(&j, b, r > 0);
	json_key(&j, "steps");
	json_raw(&j, (char *)steps.data, steps.len);
	json_object_end(&j);
	return r < 0 ? r : bytes_error(&steps);
}

static int check_relabel(const char *file, const char *labels)
{
	_cleanup_labels_builder_ struct labels_builder b;
	_cleanup_bytes_ struct bytes text = {0}, out = {0};
	struct config_rules rules = {0};
	struct errbuf eb = {0};
	int r = fs_read_file(&fs_system, file, MAX_RULES_FILE, &text, &eb);

	labels_builder_init(&b);
	if (r < 0)
		return cli_fail(&eb, r);
	r = config_parse_rules(file, text.data, text.len, &rules, &eb);
	if (r < 0) {
		fprintf(stderr, "%s\n", err_text(&eb, r));
		return CLI_FAILED;
	}
	r = config_parse_labels(labels, &b, &eb);
	r = r < 0 ? err_prefix(&eb, r, "--labels") : run_steps(&rules, &b, &out, &eb);
	config_rules_free(&rules);
	return r < 0 ? cli_fail(&eb, r) : print_indented(&out);
}

struct relabel_options {
	const char *rules, *labels;
};

int cli_check_relabel(int argc, char **argv)
{
	static const struct option_spec specs[] = {
		{"rules", OPTION_STRING, offsetof(struct relabel_options, rules), .value = "FILE",
			.help = "A YAML list of relabel rules, as under relabel_configs."},
		{"labels", OPTION_STRING, offsetof(struct relabel_options, labels), .value = "JSON",
			.help = "An object of label names and values."},
	};
	static const struct option_program program = {
		.name = "sonde check relabel",
		.summary = "show what each relabel rule does to a label set",
		.description = "Prints an object with the resulting labels, null when a rule "
			       "dropped them, and steps: each rule with the "
			       "labels after it.",
		.specs = specs,
		.n_specs = ARRAY_SIZE(specs),
		.exit_status = "1      the rules or labels are not valid",
		.examples = "sonde check relabel --rules rules.yml --labels '{\"__address__\": "
			    "\"node1:7273\"}'",
	};
	struct relabel_options o = {0};
	int status = options_parse_or_exit(&program, argc, argv, &o, NULL);

	if (status < 0 && (!o.rules || !o.labels)) {
		fprintf(stderr, "sonde check relabel: needs --rules FILE and --labels JSON\n");
		status = CLI_USAGE;
	}
	if (status < 0)
		status = check_relabel(o.rules, o.labels);
	options_done(&program, &o);
	return status;
}
