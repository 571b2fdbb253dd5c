/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde bench: two commands, run in turns and sampled, then compared as sonde diff compares runs.
 */
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/compare.h"
#include "cli/files.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include <errno.h>
#include <string.h>
#include <sys/wait.h>

struct bench_options {
	struct cli_compare_options compare;
	uint64_t runs, warmup, frequency;
	const char *setup, *prepare, *conclude, *cleanup, *directory;
	struct cli_server_options server;
	const char *progress;
	int64_t interval_ms;
	bool ignore_failure, interleave;
};

#define BENCH_HOOK(name_, help_)                                                                  \
	{                                                                                         \
#name_, OPTION_STRING, offsetof(struct bench_options, name_), .value = "COMMAND", \
									      .help = (help_)     \
	}

static const struct option_spec specs[] = {
	OPTION_HEADING("Runs"),
	{"runs", OPTION_U64, offsetof(struct bench_options, runs), .value = "N", .fallback = "5",
		.min = 1, .max = 1000, .letter = 'n', .help = "Runs a side."},
	{"warmup", OPTION_U64, offsetof(struct bench_options, warmup), .value = "N",
		.fallback = "1", .min = 0, .max = 1000,
		.help = "Runs a side before them, neither kept nor compared."},
	{"interleave", OPTION_BOOL, offsetof(struct bench_options, interleave), .fallback = "true",
		.help = "Run in the order A B B A, so that a drift falls on both sides. "
			"--no-interleave runs all of A before B, when the two builds cannot "
			"coexist."},
	BENCH_HOOK(setup,
		"Once per side, before its first run, by /bin/sh. SONDE_BENCH_SIDE is the "
		"side's name, in all hooks and runs, SONDE_BENCH_RUN the run's number."),
	BENCH_HOOK(prepare, "Before each run."),
	BENCH_HOOK(conclude, "After each run; a failure ends the benchmark."),
	BENCH_HOOK(cleanup, "Once per side, at the end, also after a failure."),
	{"ignore-failure", OPTION_BOOL, offsetof(struct bench_options, ignore_failure),
		.help = "Go on when a command exits with another status than 0."},
	{"progress", OPTION_STRING, offsetof(struct bench_options, progress), .value = "REGEX",
		.help = "How to read a run's progress from its output, line by line: the first "
			"group, or the whole match, is a number: height=([0-9]+). The result has "
			"it over time, and its last value as the metric progress."},
	OPTION_HEADING("Sampling"),
	{"interval", OPTION_DURATION, offsetof(struct bench_options, interval_ms), .fallback = "1s",
		.min = 100, .max = 3600000,
		.help = "Time between two looks at CPU, memory, faults, I/O and context switches."},
	{"frequency", OPTION_U64, offsetof(struct bench_options, frequency), .value = "HZ",
		.fallback = "199", .min = 1, .max = 999,
		.help = "Samples per second and CPU of its own exporter. To see smaller changes, "
			"raise --runs rather than this."},
	{"directory", OPTION_STRING, offsetof(struct bench_options, directory), .value = "DIR",
		.fallback = "runs",
		.help = "Where the results go: NAME-1.pb.gz …, metrics.csv, series.csv and "
			"metrics.om (OpenMetrics)."},
	CLI_SERVER_OPTIONS(struct bench_options, "exporter", NULL,
		"A running exporter, by its base address: http://127.0.0.1:7273. Without it sonde "
		"bench starts one of its own, which needs root."),
	CLI_COMPARE_OPTIONS(struct bench_options),
};

static const struct option_program program = {
	.name = "sonde bench",
	.summary = "run two commands in turns, sample and compare them",
	.arguments = "NAME=COMMAND NAME=COMMAND [-- TEMPLATE...]",
	.description =
		"Runs two commands N times each, in the order A B B A, while an exporter samples "
		"the whole machine. The profile of a run covers its process and its descendants. "
		"Then compares the runs as sonde diff does, with the kernel's counts of time and "
		"resources beside.\n"
		"\n"
		"/bin/sh runs a COMMAND. With a TEMPLATE, COMMAND replaces each {bin} in it, and "
		"the result runs without a shell. The commands' output goes to standard error.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      a condition of --fail-on was exceeded\n"
		       "2      a command or hook failed, or could not be sampled",
	.examples =
		"sudo sonde bench -n 5 main=./build-main/app pr=./build-pr/app -- {bin} --input "
		"big.dat -o bench.html\n",
};

struct bench {
	const struct bench_options *o;
	struct cli_compare_options compare; /* with the sides' names */
	struct {
		char *name, *command;
		char **argv;
	} sides[2];
	struct bench_sampler sampler;
	struct regex *progress;
	struct bench_result *results; /* those of A first */
	size_t *order;		      /* in time */
	size_t n_done;
};

static void bench_done(struct bench *b)
{
	for (int s = 0; s < 2; s++) {
		for (char **a = b->sides[s].argv; a && *a; a++)
			free(*a);
		free(b->sides[s].argv);
		free(b->sides[s].name);
		free(b->sides[s].command);
	}
	own_exporter_stop(&b->sampler.own);
	for (size_t i = 0; b->results && i < 2 * b->o->runs; i++)
		bench_series_done(&b->results[i].series);
	free(b->results);
	free(b->order);
	regex_free(b->progress);
}

/* ---- the command line ---- */

/* `text` with each {bin} replaced. */
static char *expand(const char *text, const char *bin)
{
	_cleanup_bytes_ struct bytes out;
	const char *mark;

	bytes_init(&out, NULL, 0);
	for (; (mark = strstr(text, "{bin}")); text = mark + strlen("{bin}")) {
		bytes_put(&out, text, (size_t)(mark - text));
		bytes_put_str(&out, bin);
	}
	bytes_put_str(&out, text);
	return xstrndup((const char *)out.data, out.len);
}

static char **make_argv(const struct option_list *args, const char *command)
{
	char **argv = xcalloc(args->n + 4, sizeof(*argv));
	size_t n = 0;

	if (args->n == 2) {
		argv[n++] = xstrdup("/bin/sh");
		argv[n++] = xstrdup("-c");
		argv[n++] = xstrdup(command);
	}
	for (size_t i = 2; i < args->n; i++)
		argv[n++] = expand(args->items[i], command);
	return argv;
}

static int parse_side(struct bench *b, int side, const struct option_list *args, struct errbuf *eb)
{
	const char *text = args->items[side], *mark = strchr(text, '=');
	size_t n = mark ? (size_t)(mark - text) : 0;

	if (!n || n > 64 || !mark[1] || memchr(text, '/', n) || !str_is_utf8(text, n))
		return err_set(eb, -EINVAL,
			"\"%.80s\": expected NAME=COMMAND, where NAME is UTF-8 without \"/\"",
			text);
	b->sides[side].name = xstrndup(text, n);
	b->sides[side].command = xstrdup(mark + 1);
	b->sides[side].argv = make_argv(args, mark + 1);
	return 0;
}

static int parse(struct bench *b, const struct option_list *args, struct errbuf *eb)
{
	bool has_place = args->n == 2;
	int r;

	if (args->n < 2)
		return err_set(eb, -EINVAL, "expected two commands, NAME=COMMAND NAME=COMMAND");
	for (size_t i = 2; i < args->n; i++)
		has_place |= strstr(args->items[i], "{bin}") != NULL;
	if (!has_place)
		return err_set(
			eb, -EINVAL, "the template has no {bin}, so both sides would be equal");
	r = parse_side(b, 0, args, eb);
	if (!r)
		r = parse_side(b, 1, args, eb);
	if (!r && !strcmp(b->sides[0].name, b->sides[1].name))
		r = err_set(eb, -EINVAL, "both sides are called %s", b->sides[0].name);
	b->compare = b->o->compare;
	b->compare.label_a = b->sides[0].name;
	b->compare.label_b = b->sides[1].name;
	if (!r && b->o->progress) {
		r = regex_compile(b->o->progress, REGEX_SEARCH, &b->progress, eb);
		r = r ? err_prefix(eb, r, "--progress \"%s\"", b->o->progress) : 0;
	}
	return r ? r : cli_compare_check(&b->compare, "run", false, eb);
}

/* ---- runs ---- */

static char *run_path(const struct bench *b, int side, uint64_t number)
{
	return xasprintf("%s/%s-%llu.pb.gz", b->o->directory, b->sides[side].name,
		(unsigned long long)number);
}

static int check_status(const struct bench *b, const struct bench_result *res, int side,
	uint64_t number, struct errbuf *eb)
{
	if (!res->status || b->o->ignore_failure)
		return 0;
	if (WIFSIGNALED(res->status))
		return err_set(eb, -ECHILD, "run %llu%s of %s: signal %d ended the command",
			(unsigned long long)number, number ? "" : " (warm-up)", b->sides[side].name,
			WTERMSIG(res->status));
	return err_set(eb, -ECHILD,
		"run %llu%s of %s: the command ended with exit status %d; with --ignore-failure "
		"the benchmark goes on",
		(unsigned long long)number, number ? "" : " (warm-up)", b->sides[side].name,
		WEXITSTATUS(res->status));
}

static void bench_result_done(struct bench_result *r)
{
	bench_series_done(&r->series);
}

/* Number 0 is a warm-up. */
static int run_once(struct bench *b, int side, uint64_t number, struct errbuf *eb)
{
	const struct bench_options *o = b->o;
	const char *name = b->sides[side].name;
	const struct bench_run run = {.argv = b->sides[side].argv,
		.side = name,
		.number = (unsigned)number,
		.interval_ms = o->interval_ms,
		.progress = b->progress};
	_cleanup_free_ char *path = run_path(b, side, number);
	_cleanup_bytes_ struct bytes profile;
	_cleanup_(bench_result_done)
	struct bench_result result = {};
	int r = bench_hook("prepare", o->prepare, name, run.number, eb);

	bytes_init(&profile, NULL, 0);
	if (!r)
		r = bench_run_sampled(&b->sampler, &run, &result, &profile, eb);
	if (!r)
		r = check_status(b, &result, side, number, eb);
	if (!r)
		r = bench_hook("conclude", o->conclude, name, run.number, eb);
	if (r || !number)
		return r;
	r = fs_write_file(&fs_system, path, profile.data, profile.len, 0666, eb);
	if (r)
		return r;
	b->results[side * o->runs + number - 1] = result;
	result.series = (struct bench_series) {}; /* theirs now */
	b->order[side * o->runs + number - 1] = b->n_done++;
	fprintf(stderr, "%s: %.3f s\n", path, result.metrics[BENCH_WALL]);
	return 0;
}

static int setup(const struct bench *b, int side, struct errbuf *eb)
{
	return bench_hook("setup", b->o->setup, b->sides[side].name, 0, eb);
}

/* A B, B A, A B …: what drifts falls on both sides. */
static int run_in_turns(struct bench *b, struct errbuf *eb)
{
	uint64_t warmup = b->o->warmup;
	int r = setup(b, 0, eb);

	if (!r)
		r = setup(b, 1, eb);
	for (uint64_t i = 0; !r && i < warmup + b->o->runs; i++) {
		uint64_t number = i < warmup ? 0 : i - warmup + 1;
		int first = (int)(i % 2);

		r = run_once(b, first, number, eb);
		if (!r)
			r = run_once(b, !first, number, eb);
	}
	return r;
}

static int run_side(struct bench *b, int side, struct errbuf *eb)
{
	uint64_t warmup = b->o->warmup;
	int r = setup(b, side, eb);

	for (uint64_t i = 0; !r && i < warmup + b->o->runs; i++)
		r = run_once(b, side, i < warmup ? 0 : i - warmup + 1, eb);
	return r;
}

static int run_all(struct bench *b, struct errbuf *eb)
{
	int r = b->o->interleave ? run_in_turns(b, eb) : run_side(b, 0, eb);

	if (!r && !b->o->interleave)
		r = run_side(b, 1, eb);
	for (int s = 0; s < 2; s++) {
		int e = bench_hook("cleanup", b->o->cleanup, b->sides[s].name, 0, r ? NULL : eb);

		r = r ? r : e;
	}
	return r;
}

/* ---- the result ---- */

static int write_text(
	const struct bench *b, const char *name, const struct bytes *text, struct errbuf *eb)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", b->o->directory, name);

	return bytes_error(text) ? text->error
				 : fs_write_file(&fs_system, path, text->data, text->len, 0666, eb);
}

static int write_metrics(const struct bench *b, struct errbuf *eb)
{
	const char *const names[] = {b->sides[0].name, b->sides[1].name};
	_cleanup_bytes_ struct bytes whole, points, all;
	size_t n = b->o->runs;
	int r;

	bytes_init(&whole, NULL, 0);
	bytes_init(&points, NULL, 0);
	bytes_init(&all, NULL, 0);
	bench_metrics_csv(b->results, n, 2 * n, names, &whole);
	bench_series_csv(b->results, n, 2 * n, names, &points);
	bench_openmetrics(b->results, n, 2 * n, names, &all);
	r = write_text(b, "metrics.csv", &whole, eb);
	if (!r)
		r = write_text(b, "series.csv", &points, eb);
	return r ? r : write_text(b, "metrics.om", &all, eb);
}

static int read_runs(const struct bench *b, struct cli_runs *runs, struct cli_sources *sources,
	struct errbuf *eb)
{
	_cleanup_cli_runs_options_ struct cli_runs_options how = {};
	int r = cli_runs_options_make(&b->compare, &how, eb);

	for (int s = 0; s < 2; s++)
		for (uint64_t i = 1; !r && i <= b->o->runs; i++) {
			_cleanup_free_ char *path = run_path(b, s, i);

			r = cli_sources_add(sources, path, NULL, eb);
			if (!r)
				r = cli_runs_add(runs, &sources->items[sources->n - 1], &how, eb);
		}
	return r;
}

struct over_time {
	const char *names[BENCH_SERIES_N], *units[BENCH_SERIES_N];
	struct render_over_time shown;
};

static void show_points(
	const struct bench *b, struct render_run_points *points, struct over_time *ret)
{
	size_t n = b->o->runs;

	for (int m = 0; m < BENCH_SERIES_N; m++) {
		ret->names[m] = bench_series_name(m);
		ret->units[m] = bench_series_unit(m);
	}
	for (size_t i = 0; i < 2 * n; i++) {
		const struct bench_series *s = &b->results[i].series;

		points[i] = (struct render_run_points) {.seconds = s->seconds,
			.progress = s->progress,
			.values = (const double *const *)s->values,
			.n = s->n};
	}
	ret->shown = (struct render_over_time) {.names = ret->names,
		.units = ret->units,
		.n_metrics = BENCH_SERIES_N,
		.runs = points,
		.n_a = n,
		.n_b = n};
}

/* The exit status, or negative. */
static int compare(struct bench *b, struct errbuf *eb)
{
	_cleanup_cli_comparison_ struct cli_comparison c = {};
	_cleanup_cli_sources_ struct cli_sources sources = {};
	_cleanup_bytes_ struct bytes table;
	_cleanup_cli_runs_ struct cli_runs runs;
	size_t n = b->o->runs;
	_cleanup_free_ double *values = xcalloc(2 * n * BENCH_N_METRICS, sizeof(*values));
	_cleanup_free_ struct render_run_points *points = xcalloc(2 * n, sizeof(*points));
	struct render_metric metrics[BENCH_N_METRICS];
	struct over_time over_time = {};
	int r;

	cli_runs_init(&runs);
	bytes_init(&table, NULL, 0);
	r = read_runs(b, &runs, &sources, eb);
	if (!r)
		r = bench_metrics_table(
			b->results, n, n, b->sides[0].name, b->sides[1].name, &table);
	bytes_put_u8(&table, 0);
	if (!r)
		r = bytes_error(&table);
	if (!r)
		r = cli_compare(&b->compare, &runs, n, b->order, &c, eb);
	bench_metrics_charts(b->results, n, n, values, metrics);
	show_points(b, points, &over_time);
	c.notes = (const char *)table.data;
	c.metrics = metrics;
	c.n_metrics = BENCH_N_METRICS;
	c.over_time = &over_time.shown;
	if (!r)
		r = cli_comparison_write(&c, &sources, eb);
	return r ? r : cli_compare_verdict(&c, eb);
}

/* One of ours listens once it is started; another one has to answer before anything is set up. Signals that end us wait from then on. */
static int find_sampler(struct bench *b, sigset_t *ret_before, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response answer = {};
	struct bench_sampler *s = &b->sampler;
	int r = 0;

	s->server = b->o->server;
	if (s->server.url)
		r = cli_server_ask(
			&s->server, &(struct cli_request) {.path = "/-/ready"}, &answer, eb);
	bench_block_signals(ret_before);
	if (s->server.url)
		return r;
	r = own_exporter_start(&s->own, event_source(ABI_EVENT_CPU), b->o->frequency, eb);
	s->server.url = s->own.url;
	return r;
}

static int bench(struct bench *b, const struct option_list *args, struct errbuf *eb)
{
	sigset_t before;
	int r = parse(b, args, eb);

	if (!r)
		r = cli_check_output(b->o->compare.output, eb);
	if (r)
		return r;
	b->results = xcalloc(2 * b->o->runs, sizeof(*b->results));
	b->order = xcalloc(2 * b->o->runs, sizeof(*b->order));
	r = fs_make_dirs(&fs_system, b->o->directory, 0777);
	if (r)
		return err_set(eb, r, "%s: %s", b->o->directory, strerror(-r));
	r = find_sampler(b, &before, eb);
	if (!r)
		r = run_all(b, eb);
	if (!r)
		r = write_metrics(b, eb);
	if (r)
		return r;
	/* All is kept now. Comparing can take long, and our end is the exporter's too. */
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return compare(b, eb);
}

int cli_bench(int argc, char **argv)
{
	_cleanup_(option_list_done)
	struct option_list args = {.n = 0};
	_cleanup_(bench_done)
	struct bench b = {.sampler.own = OWN_EXPORTER_NONE};
	struct bench_options o = {};
	struct errbuf eb = {.text = ""};
	int status = options_parse_or_exit(&program, argc, argv, &o, &args);

	b.o = &o;
	if (status < 0) {
		status = bench(&b, &args, &eb);
		if (status < 0) {
			cli_fail(&eb, status);
			status = CLI_USAGE;
		}
	}
	options_done(&program, &o);
	return status;
}
