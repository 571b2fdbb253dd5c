/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde fold: profiles → folded stacks, the text that flame graph tools read.
 */
#include "cli/cli.h"
#include "cli/files.h"
#include "lib/base/options.h"
#include "lib/prof/merge.h"
#include "lib/render/render.h"

struct fold_options {
	const char *output, *sample_index;
	struct option_list root_labels;
};

static const struct option_spec specs[] = {
	{"output", OPTION_STRING, offsetof(struct fold_options, output), .value = "FILE",
		.fallback = "-", .help = "Where the text goes; \"-\" is standard output.",
		.letter = 'o'},
	{"sample-index", OPTION_STRING, offsetof(struct fold_options, sample_index),
		.value = "TYPE",
		.help = "Which value to print: a sample type (\"cpu\") or its number from 0. "
			"Default: the profile's own "
			"default, else the last."},
	{"root-label", OPTION_STRINGS, offsetof(struct fold_options, root_labels), .value = "KEY",
		.help = "Puts the value of this label below the root of each stack that has it, as "
			"pprof's -tagroot does. "
			"Repeatable, the outermost first."},
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

static int fold(const struct fold_options *o, const struct option_list *files, struct errbuf *eb)
{
	_cleanup_prof_merge_ struct prof_merge *m = prof_merge_new(NULL);
	_cleanup_profile_ struct profile sum;
	_cleanup_bytes_ struct bytes text;
	size_t column = 0;
	int r;

	profile_init(&sum, NULL);
	bytes_init(&text, NULL, 0);
	prof_merge_root_labels(m, o->root_labels.items, o->root_labels.n);
	r = cli_merge_files(m, files, eb);
	if (r >= 0)
		r = prof_merge_finish(m, &sum, eb);
	if (r >= 0)
		r = profile_find_type(&sum, o->sample_index, &column, eb);
	if (r >= 0)
		r = render_profile_folded(&sum, column, &text, eb);
	return r < 0 ? r : cli_write_output(o->output, &text, eb);
}

int cli_fold(int argc, char **argv)
{
	_cleanup_(option_list_done)
	struct option_list files = {.n = 0};
	struct fold_options o = {.output = NULL};
	struct errbuf eb = {.text = ""};
	int status = options_parse_or_exit(&program, argc, argv, &o, &files), r;

	if (status < 0 && !files.n) {
		fprintf(stderr, "sonde fold: which files? see sonde fold --help\n");
		status = CLI_USAGE;
	}
	if (status < 0) {
		r = fold(&o, &files, &eb);
		status = r < 0 ? cli_fail(&eb, r) : CLI_OK;
	}
	options_done(&program, &o);
	return status;
}
