/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde diff: N runs before against M runs after.
 */
#include "cli/cli.h"
#include "cli/compare.h"
#include "lib/base/alloc.h"
#include <string.h>

struct diff_options {
	struct cli_compare_options compare;
};

static const struct option_spec specs[] = {
	CLI_COMPARE_OPTIONS(struct diff_options),
};

static const struct option_program program = {
	.name = "sonde diff",
	.summary = "compare profiles of runs before and after a change",
	.arguments = "BEFORE... -- AFTER...",
	.description =
		"Compares two sets of profiles, one profile a run: functions and call stacks of "
		"the "
		"second set against the first, with the significance of each difference. An "
		"argument "
		"is a file, a pattern, or a directory of profiles; with two arguments the \"--\" "
		"may "
		"be left out. Functions are joined by name.\n\n"
		"The unit of replication is the run: three runs a side or more tell a change from "
		"what differs between any two runs. With one run a side there is no "
		"significance.\n\n"
		"A verdict is + (more in the second set), - (less), new, gone, moved (between "
		"siblings), ~ (not significant), few (too few samples for a test) or untested.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      a condition of --fail-on was exceeded\n"
		       "2      also: a file could not be read or does not fit the others, or the "
		       "result could not be written",
	.examples = "sonde diff before.pb.gz after.pb.gz\n"
		    "sonde diff 'before-*.pb.gz' -- 'after-*.pb.gz' -o diff.html\n"
		    "sonde diff main/ -- branch/ --fail-on 'total>2%' --format md\n",
};

/* Options may stand on both sides of "--", so that it travels through their parser as an argument. */
static const char separator[] = "\001--";

static int split(
	const struct option_list *args, struct option_list *ret, size_t *ret_n_a, struct errbuf *eb)
{
	size_t at = args->n;
	int r = 0;

	for (size_t i = 0; i < args->n; i++)
		if (args->items[i] == separator) {
			if (at != args->n)
				return err_set(eb, -EINVAL, "more than one \"--\"");
			at = i;
		}
	if (at == args->n && args->n == 2)
		at = 1;
	else if (at == args->n)
		return err_set(eb, -EINVAL,
			"which files are before the change, and which after? expected BEFORE... -- "
			"AFTER...");
	for (size_t i = 0; !r && i < args->n; i++) {
		if (i == at)
			*ret_n_a = ret->n;
		if (args->items[i] != separator)
			r = cli_paths_add(ret, args->items[i], eb);
	}
	if (at == args->n - 1 && args->items[at] == separator)
		*ret_n_a = ret->n;
	if (!r && (!*ret_n_a || *ret_n_a == ret->n))
		r = err_set(eb, -EINVAL, "no files %s the \"--\"", *ret_n_a ? "after" : "before");
	return r;
}

/* The exit status, or negative. */
static int diff(
	const struct cli_compare_options *o, const struct option_list *args, struct errbuf *eb)
{
	_cleanup_(cli_paths_done)
	struct option_list files = {};
	_cleanup_cli_runs_options_ struct cli_runs_options how = {};
	_cleanup_cli_comparison_ struct cli_comparison c = {};
	_cleanup_cli_runs_ struct cli_runs runs;
	size_t n_a = 0;
	int r = cli_compare_check(o, eb);

	cli_runs_init(&runs);
	if (!r)
		r = cli_runs_options_make(o, &how, eb);
	if (!r)
		r = split(args, &files, &n_a, eb);
	for (size_t i = 0; !r && i < files.n; i++)
		r = cli_runs_add(&runs, files.items[i], &how, eb);
	if (!r)
		r = cli_compare(o, &runs, n_a, NULL, &c, eb);
	if (!r)
		r = cli_comparison_write(&c, &files, eb);
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
		status = diff(&o.compare, &args, &eb);
		if (status < 0) {
			cli_fail(&eb, status);
			status = CLI_USAGE;
		}
	}
	options_done(&program, &o);
	return status;
}
