/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde diff: N runs before against M runs after.
 */
#include "cli/cli.h"
#include "cli/compare.h"
#include "cli/stored.h"
#include "cli/types.h"
#include "lib/base/alloc.h"
#include <string.h>

struct diff_options {
	struct cli_compare_options compare;
	struct cli_server_options server;
	const char *replicate, *of;
};

static const struct option_spec specs[] = {
	CLI_COMPARE_OPTIONS(struct diff_options),
	OPTION_HEADING("Selections of a scraper's store"),
	CLI_SERVER_OPTIONS(struct diff_options, "server", NULL, "Base address of the scraper."),
	{"replicate", OPTION_STRING, offsetof(struct diff_options, replicate),
		.value = "LABEL,...,DURATION", .fallback = "instance,5m",
		.help = "With --server: the replicates. Each set of values of these labels in each "
			"stretch of DURATION is one. A range has at most 64 stretches; they get "
			"longer for it."},
	{"of", OPTION_CHOICE, offsetof(struct diff_options, of), .value = "instance|service",
		.help = "With --server: whose values. instance: of one in the mean; service: of "
			"all instances together, where each stretch of time is one replicate "
			"whatever the labels. Default: instance."},
};

static const struct option_program program = {
	.name = "sonde diff",
	.summary = "compare profiles of runs before and after a change",
	.arguments = "BEFORE... -- AFTER... | SELECTOR [@TIME [DURATION]] -- SELECTOR [@TIME "
		     "[DURATION]]",
	.description =
		"Compares two sets of profiles, one profile a run: functions and call stacks of "
		"the second set against the first, with the significance of each difference. An "
		"argument is a file, a pattern, or a directory of profiles; with two arguments the "
		"\"--\" may be left out. Functions are joined by name, so two builds can be "
		"compared.\n"
		"\n"
		"With --server each side is a selection of a scraper's store: SELECTOR in the "
		"DURATION (1h) before TIME (now; @-1d is a day ago). A SELECTOR that begins with { "
		"has the first one's type. A run is then one replicate: see --replicate.\n"
		"\n"
		"The unit of replication is the run: from three runs a side on, a change stands "
		"out from the difference between any two runs. With one run a side there is no "
		"significance.\n"
		"\n"
		"A verdict is + (more in the second set), - (less), new, gone, moved (between "
		"siblings), ~ (not significant), few (too few samples for a test) or untested.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status =
		"1      a condition of --fail-on was exceeded\n"
		"2      a file could not be read or does not fit the others, the result could not "
		"be written, or the data say too little (--max-lost, --max-unresolved)",
	.examples = "sonde diff before.pb.gz after.pb.gz\n"
		    "sonde diff 'before-*.pb.gz' -- 'after-*.pb.gz' -o diff.html\n"
		    "sonde diff main/ -- branch/ --fail-on 'total>2%' --format md\n"
		    "sonde diff --server http://127.0.0.1:7272 "
		    "'process_cpu:cpu:nanoseconds:cpu:nanoseconds{job=\"x\",version=\"1\"}' @-1d "
		    "30m -- '{job=\"x\",version=\"2\"}' @now 30m\n",
};

/* Options may stand on both sides of "--", so that it travels through their parser as an argument. */
static const char separator[] = "\001--";

/* The first argument of the second side and whether a mark stands before it. */
static int find_middle(const struct option_list *args, bool files, size_t *ret, bool *ret_marked,
	struct errbuf *eb)
{
	*ret = args->n;
	for (size_t i = 0; i < args->n; i++)
		if (args->items[i] == separator) {
			if (*ret != args->n)
				return err_set(eb, -EINVAL, "more than one \"--\"");
			*ret = i;
		}
	*ret_marked = *ret != args->n;
	if (!*ret_marked && args->n == 2)
		*ret = 1;
	else if (!*ret_marked)
		return err_set(eb, -EINVAL,
			"which %s before the change, and which after? expected %s",
			files ? "files are" : "selection is",
			files ? "BEFORE... -- AFTER..."
			      : "SELECTOR [@TIME [DURATION]] -- SELECTOR [@TIME [DURATION]]");
	return 0;
}

static int add_files(struct cli_sources *ret, const char *const *args, size_t n, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0; !r && i < n; i++)
		r = cli_sources_add_path(ret, args[i], eb);
	return r;
}

/* Both sides' runs, those of A first. */
static int find_runs(const struct diff_options *o, const struct option_list *args,
	struct cli_sources *ret, size_t *ret_n_a, struct errbuf *eb)
{
	const struct cli_stored stored = {.server = &o->server,
		.replicate = o->replicate,
		.of_service = o->compare.of_service,
		.by = cli_label_of(o->compare.by)};
	bool marked = false;
	size_t middle = 0, from;
	int r = find_middle(args, !o->server.url, &middle, &marked, eb);

	if (r)
		return r;
	from = middle + marked;
	if (!middle || from == args->n)
		return err_set(eb, -EINVAL, "no %s %s the \"--\"",
			o->server.url ? "selection" : "files", middle ? "after" : "before");
	if (!o->server.url)
		r = add_files(ret, args->items, middle, eb);
	else
		r = cli_stored_add(&stored, args->items, middle, NULL, ret, eb);
	*ret_n_a = ret->n;
	if (!r && !o->server.url)
		r = add_files(ret, args->items + from, args->n - from, eb);
	else if (!r)
		r = cli_stored_add(
			&stored, args->items + from, args->n - from, args->items[0], ret, eb);
	return r;
}

/* What --per is by itself. */
static int choose_per(const struct diff_options *o, const struct option_list *args,
	const char **ret, struct errbuf *eb)
{
	bool is_state = false;
	int r = 0;

	if (o->server.url && !o->compare.per && args->n && args->items[0] != separator)
		r = cli_types_is_state(&o->server, args->items[0], &is_state, eb);
	*ret = o->server.url && !is_state ? "second" : "run";
	return r;
}

/* After --per is known. */
static int check_of(struct diff_options *o, struct errbuf *eb)
{
	if (o->of && !o->server.url)
		return err_set(eb, -EINVAL,
			"--of=%s: only with --server; a file does not say whose it is", o->of);
	o->compare.of_service = o->of && !strcmp(o->of, "service");
	if (o->compare.of_service && !strcmp(o->compare.per, "cpu-second"))
		return err_set(eb, -EINVAL,
			"--of=service: not with --per=cpu-second, which divides by the CPUs of "
			"each instance");
	return 0;
}

/* The exit status, or negative. */
static int diff(struct diff_options *o, const struct option_list *args, struct errbuf *eb)
{
	_cleanup_cli_sources_ struct cli_sources sources = {};
	_cleanup_cli_runs_options_ struct cli_runs_options how = {};
	_cleanup_cli_comparison_ struct cli_comparison c = {};
	_cleanup_cli_runs_ struct cli_runs runs;
	const char *per = NULL;
	size_t n_a = 0;
	int r = choose_per(o, args, &per, eb);

	cli_runs_init(&runs);
	if (!r)
		r = cli_compare_check(&o->compare, per, o->server.url != NULL, eb);
	if (!r)
		r = check_of(o, eb);
	if (!r)
		r = cli_runs_options_make(&o->compare, &how, eb);
	if (!r)
		r = find_runs(o, args, &sources, &n_a, eb);
	for (size_t i = 0; !r && i < sources.n; i++)
		r = cli_runs_add(&runs, &sources.items[i], &how, eb);
	if (!r)
		r = cli_compare(&o->compare, &runs, n_a, NULL, &c, eb);
	if (!r)
		r = cli_comparison_write(&c, &sources, eb);
	return r ? r : cli_compare_verdict(&c, eb);
}

int cli_diff(int argc, char **argv)
{
	_cleanup_(option_list_done)
	struct option_list args = {.n = 0};
	_cleanup_free_ char **changed = xcalloc((size_t)argc + 1, sizeof(*changed));
	char *mark;
	struct diff_options o = {};
	struct errbuf eb = {.text = ""};
	const char *text = separator;
	int status;

	memcpy(&mark, &text,
		sizeof(mark)); /* an argument like the others, though never written to */
	for (int i = 0; i < argc; i++)
		changed[i] = i && !strcmp(argv[i], "--") ? mark : argv[i];
	status = options_parse_or_exit(&program, argc, changed, &o, &args);
	if (status < 0) {
		status = diff(&o, &args, &eb);
		if (status < 0) {
			cli_fail(&eb, status);
			status = CLI_USAGE;
		}
	}
	options_done(&program, &o);
	return status;
}
