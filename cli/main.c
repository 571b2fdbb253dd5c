/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde: finds the command that its first words name and runs it.
 */
#include "cli/cli.h"
#include "lib/base/bytes.h"
#include "lib/base/err.h"
#include "lib/base/options.h"
#include <stdbool.h>
#include <string.h>

static const struct cli_command commands[] = {
	{"merge", "add profiles up into one", cli_merge},
	{"fold", "print profiles as folded stacks", cli_fold},
	{"diff", "compare profiles of runs before and after a change", cli_diff},
	{"bench", "run two commands in turns, sample and compare them", cli_bench},
	{"flamegraph", "draw profiles as a flame graph", cli_flamegraph},
	{"record", "record a profile of a command, of processes or of the machine", cli_record},
	{"mark", "tell a recording where it is", cli_mark},
	{"top", "print what takes most", cli_top},
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
	{"tsdb stats", "print what takes space in a store", cli_tsdb_stats},
	{"tsdb compact", "compact a store now", cli_tsdb_compact},
	{"tsdb repair", "take what is damaged out of a store", cli_tsdb_repair},
	{"tsdb snapshot", "link all blocks into a directory of their own", cli_tsdb_snapshot},
};

int cli_fail(const struct errbuf *eb, int code)
{
	fprintf(stderr, "sonde: %s\n", err_text(eb, code));
	return CLI_FAILED;
}

static void print_usage(FILE *to)
{
	fprintf(to,
		"usage: sonde COMMAND [OPTIONS] [ARGUMENTS]\n"
		"       sonde COMMAND --help\n"
		"       sonde --version\n"
		"\n"
		"Works with pprof profiles, and with the data and configuration of sonde-scraper.\n"
		"\n"
		"commands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
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

/* True when `word` begins a command of two words. */
static bool is_group(const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strncmp(commands[i].words, word, len) && commands[i].words[len] == ' ')
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

static int refuse(int argc, char **argv)
{
	if (argc < 2)
		fprintf(stderr, "sonde: which command?\n");
	else if (is_group(argv[1]))
		fprintf(stderr, "sonde: unknown command \"%s%s%s\"\n", argv[1], argc > 2 ? " " : "",
			argc > 2 ? argv[2] : "");
	else
		fprintf(stderr, "sonde: unknown command \"%s\"\n", argv[1]);
	print_usage(stderr);
	return CLI_USAGE;
}

static int run(int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		int n = count_words(commands[i].words, argc - 1, argv + 1);

		if (n)
			return commands[i].run(argc - n, argv + n);
	}
	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
				 !strcmp(argv[1], "help"))) {
		print_usage(stdout);
		return CLI_OK;
	}
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		print_version();
		return CLI_OK;
	}
	return refuse(argc, argv);
}

int main(int argc, char **argv)
{
	return finish(run(argc, argv));
}
