/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde: finds the command that its first words name and runs it.
 */
#include "cli/cli.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/err.h"
#include "lib/base/options.h"
#include "lib/base/str.h"
#include <stdbool.h>
#include <string.h>

static const struct cli_command commands[] = {
	{"merge", "add profiles up into one", cli_merge},
	{"fold", "print profiles as folded stacks", cli_fold},
	{"diff", "compare profiles of runs before and after a change", cli_diff},
	{"bench", "run two commands in turns, sample and compare them", cli_bench},
	{"flamegraph", "draw profiles as a flame graph", cli_flamegraph},
	{"record", "record a profile of a command, of processes or of the machine", cli_record},
	{"mark", "mark a place in a recording", cli_mark},
	{"top", "print the largest functions", cli_top},
	{"query", "ask a scraper for stored profiles", cli_query},
	{"push", "store a profile in a scraper", cli_push},
	{"check config", "check configuration files", cli_check_config},
	{"check service-discovery", "print the targets of a job", cli_check_service_discovery},
	{"check healthy", "ask whether a server is healthy", cli_check_healthy},
	{"check ready", "ask whether a server is ready", cli_check_ready},
	{"check web-config", "check web configuration files", cli_check_web_config},
	{"check relabel", "show what relabel rules do", cli_check_relabel},
	{"tsdb list", "list the parts of a store", cli_tsdb_list},
	{"tsdb verify", "check every byte of a store", cli_tsdb_verify},
	{"tsdb dump", "print what a store holds", cli_tsdb_dump},
	{"tsdb stats", "print the size of each file of a store", cli_tsdb_stats},
	{"tsdb compact", "compact a store now", cli_tsdb_compact},
	{"tsdb repair", "move damaged blocks of a store to quarantine", cli_tsdb_repair},
	{"tsdb snapshot", "link all blocks into a directory of their own", cli_tsdb_snapshot},
};

int cli_fail(const struct errbuf *eb, int code)
{
	fprintf(stderr, "sonde: %s\n", err_text(eb, code));
	return CLI_FAILED;
}

/* Those of a group ("check"), or all when it is NULL. */
static bool is_of_group(const struct cli_command *c, const char *group)
{
	size_t n = group ? strlen(group) : 0;

	return !group || (!strncmp(c->words, group, n) && c->words[n] == ' ');
}

static void print_usage(FILE *to, const char *group)
{
	if (group)
		fprintf(to,
			"usage: sonde %s COMMAND [OPTIONS] [ARGUMENTS]\n"
			"       sonde %s COMMAND --help\n",
			group, group);
	else
		fprintf(to, "usage: sonde COMMAND [OPTIONS] [ARGUMENTS]\n"
			    "       sonde COMMAND --help\n"
			    "       sonde --version\n"
			    "\n"
			    "Records, draws, merges and compares pprof profiles; queries and fills "
			    "a scraper; checks configurations and stores.\n");
	fprintf(to, "\ncommands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (is_of_group(&commands[i], group))
			fprintf(to, "  %-25s%s\n", commands[i].words, commands[i].summary);
}

static void print_version(void)
{
	static const struct option_program program = {.name = "sonde"};
	_cleanup_bytes_ struct bytes text;

	bytes_init(&text, NULL, 0);
	options_print_version(&program, &text);
	fwrite(text.data, 1, text.len, stdout);
}

/* How many of the arguments are the words of this command; 0: another command. */
static int count_words(const char *words, int argc, char **argv)
{
	int n = 0;

	for (; *words; n++) {
		size_t len = strcspn(words, " ");

		if (n == argc || strncmp(argv[n], words, len) != 0 || argv[n][len])
			return 0;
		words += len + strspn(words + len, " ");
	}
	return n;
}

static bool is_group(const char *word)
{
	for (size_t i = 0; *word && i < ARRAY_SIZE(commands); i++)
		if (is_of_group(&commands[i], word))
			return true;
	return false;
}

/* What was printed has to be there: a status of 0 says that it is. */
static int finish(int status)
{
	bool failed = ferror(stdout) != 0;

	failed |= fflush(stdout) == EOF;
	if (!failed || status != CLI_OK)
		return status;
	fprintf(stderr, "sonde: standard output could not be written\n");
	return CLI_FAILED;
}

/* The command that is nearly so called, or NULL. */
static const char *find_near(const char *text)
{
	unsigned best = 1 + (unsigned)strlen(text) / 3;
	const char *near = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		unsigned d = str_edit_distance(text, commands[i].words);

		if (d < best) {
			best = d;
			near = commands[i].words;
		}
	}
	return near;
}

static int refuse(int argc, char **argv)
{
	const char *group = argc > 1 && is_group(argv[1]) ? argv[1] : NULL, *near;
	_cleanup_free_ char *text = xasprintf("%s%s%s", argc > 1 ? argv[1] : "",
		group && argc > 2 ? " " : "", group && argc > 2 ? argv[2] : "");

	near = find_near(text);
	if (argc < 2)
		fprintf(stderr, "sonde: which command?\n");
	else if (group && argc == 2)
		fprintf(stderr, "sonde: %s what?\n", group);
	else
		fprintf(stderr, "sonde: unknown command \"%s\"%s%s%s\n", text,
			near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
	print_usage(stderr, group);
	return CLI_USAGE;
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
}

/* Runs what the first words name; -1: they name no command. */
static int run_command(int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		int n = count_words(commands[i].words, argc - 1, argv + 1);

		if (n)
			return commands[i].run(argc - n, argv + n);
	}
	return -1;
}

/* "sonde help check config" is "sonde check config --help". */
static int help(int argc, char **argv)
{
	static char flag[] = "--help";
	_cleanup_free_ char **changed = xcalloc((size_t)argc + 1, sizeof(*changed));
	int status;

	changed[0] = argv[0];
	for (int i = 2; i < argc; i++)
		changed[i - 1] = argv[i];
	changed[argc - 1] = flag;
	status = run_command(argc, changed);
	return status < 0 ? refuse(argc - 1, changed) : status;
}

static int run(int argc, char **argv)
{
	int status = run_command(argc, argv);

	if (status >= 0)
		return status;
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		print_version();
		return CLI_OK;
	}
	if (argc == 2 && is_help(argv[1])) {
		print_usage(stdout, NULL);
		return CLI_OK;
	}
	if (argc == 3 && is_help(argv[1]) != is_help(argv[2]) &&
		is_group(argv[is_help(argv[1]) ? 2 : 1])) {
		print_usage(stdout, argv[is_help(argv[1]) ? 2 : 1]);
		return CLI_OK;
	}
	return argc > 2 && !strcmp(argv[1], "help") ? help(argc, argv) : refuse(argc, argv);
}

int main(int argc, char **argv)
{
	return finish(run(argc, argv));
}
