/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde merge: profiles → their sum.
 */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/sum.h"
#include "lib/gzip/gzip.h"
#include <malloc.h>

enum { MMAP_THRESHOLD = 32 << 10 };

struct merge_options {
	const char *output;
	uint64_t level;
};

static const struct option_spec specs[] = {
	{"output", OPTION_STRING, offsetof(struct merge_options, output), .value = "FILE",
		.help = "Where the result goes; \"-\" is standard output. An existing file is "
			"replaced only after success.",
		.letter = 'o'},
	{"level", OPTION_U64, offsetof(struct merge_options, level), .value = "0-12",
		.fallback = "1", .min = 0, .max = 12,
		.help = "How hard gzip tries: more is smaller and slower. 0 writes the message "
			"without gzip."},
};

static const struct option_program program = {
	.name = "sonde merge",
	.summary = "add pprof profiles up into one",
	.arguments = "FILE...",
	.description = "Reads pprof profiles (gzipped or not; \"-\" is standard input) one after "
		       "the other and writes their sum as gzipped pprof. Equal stacks with equal "
		       "labels become one sample. Sample types and period type have to be the same "
		       "in all files. The result has the earliest time, the sum of the durations "
		       "and the largest period.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      a file could not be read, does not fit the others, or the sum could "
		       "not be written",
	.examples = "sonde merge -o day.pb.gz hours/*.pb.gz\n",
};

static int write_gzip(const struct bytes *raw, const struct merge_options *o, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes gz;
	int r;

	bytes_init(&gz, NULL, 0);
	r = gzip_deflate(raw->data, raw->len, (int)o->level, &gz, eb);
	return r < 0 ? r : cli_write_output(o->output, &gz, eb);
}

/* Each stage frees what the next one does not need. */
static int merge(const struct merge_options *o, const struct option_list *files, struct errbuf *eb)
{
	_cleanup_profile_ struct profile sum;
	_cleanup_bytes_ struct bytes raw;
	int r = cli_sum(&(struct cli_sum_options) {.all_frames = true}, files, &sum, NULL, eb);

	bytes_init(&raw, NULL, 0);
	if (r < 0)
		return r;
	r = prof_encode(&sum, &raw);
	if (r < 0)
		return err_set(eb, r, "encoding the sum: %s", err_text(NULL, r));
	profile_done(&sum);
	return o->level ? write_gzip(&raw, o, eb) : cli_write_output(o->output, &raw, eb);
}

int cli_merge(int argc, char **argv)
{
	_cleanup_(option_list_done)
	struct option_list files = {.n = 0};
	struct merge_options o = {.output = NULL};
	struct errbuf eb = {.text = ""};
	int status = options_parse_or_exit(&program, argc, argv, &o, &files), r;

	if (status >= 0)
		return status;
	/* Large blocks of their own, so that growing moves pages, not bytes, and freeing gives them back. */
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	mallopt(M_ARENA_MAX, 1); /* what one thread frees serves the other */
	if (!o.output || !files.n) {
		fprintf(stderr, "sonde merge: %s; see sonde merge --help\n",
			!files.n ? "expected at least one FILE"
				 : "expected -o FILE, where the result goes");
		return CLI_USAGE;
	}
	r = merge(&o, &files, &eb);
	return r < 0 ? cli_fail(&eb, r) : CLI_OK;
}
