/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde fold: profiles → folded stacks, the text that flame graph tools read.
 */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/sum.h"
#include "lib/prof/text.h"
#include "lib/render/render.h"

struct fold_options {
	const char *output;
	struct cli_sum_options sum;
};

static const struct option_spec specs[] = {
	{"output", OPTION_STRING, offsetof(struct fold_options, output), .value = "FILE",
		.fallback = "-", .help = "Where the text goes; \"-\" is standard output.",
		.letter = 'o'},
	CLI_SUM_OPTIONS(struct fold_options),
};

static const struct option_program program = {
	.name = "sonde fold",
	.summary = "print pprof profiles as folded stacks",
	.arguments = "FILE...",
	.description = "Reads pprof profiles (gzipped or not; \"-\" is standard input), adds them "
		       "up as sonde merge does and "
		       "prints one line for each stack: its functions from the root to the leaf "
		       "with \";\" between them, a "
		       "space, and the value. Inlined functions are frames of their own.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      a file could not be read, does not fit the others or has no such "
		       "sample type, or the text "
		       "could not be written",
	.examples = "sonde fold --root-label comm cpu.pb.gz | grep ';memcpy '\n",
};

static int fold(const void *options, const struct option_list *files, struct errbuf *eb)
{
	const struct fold_options *o = options;
	_cleanup_profile_ struct profile sum;
	_cleanup_bytes_ struct bytes text;
	size_t column = 0;
	int r = cli_sum(&o->sum, files, &sum, &column, eb);

	bytes_init(&text, NULL, 0);
	if (r >= 0)
		r = render_profile_folded(&sum, column, &text, eb);
	if (r >= 0 && !text.len) /* an empty text would be no profile */
		bytes_put_str(&text, PROF_TEXT_EMPTY "\n");
	return r < 0 ? r : cli_write_output(o->output, &text, eb);
}

int cli_fold(int argc, char **argv)
{
	struct fold_options o = {.output = NULL};

	return cli_with_files(&program, argc, argv, &o, fold);
}
