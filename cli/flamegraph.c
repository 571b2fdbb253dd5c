/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde flamegraph: profiles and stacks as text → a picture or a page.
 */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/names.h"
#include "cli/sum.h"
#include "lib/base/str.h"
#include "lib/render/render.h"
#include <string.h>

struct flamegraph_options {
	const char *output, *format, *title, *names;
	struct cli_sum_options sum;
	bool inverted;
};

static const struct option_spec specs[] = {
	{"output", OPTION_STRING, offsetof(struct flamegraph_options, output), .value = "FILE",
		.fallback = "-",
		.help = "Where the result goes; \"-\" is standard output. A name that ends in "
			".html or .htm gives a page.",
		.letter = 'o'},
	{"format", OPTION_CHOICE, offsetof(struct flamegraph_options, format), .value = "svg|html",
		.help = "A picture, or a page with a table of the functions beside it. Default: by "
			"the output's name, else svg."},
	{"inverted", OPTION_BOOL, offsetof(struct flamegraph_options, inverted),
		.help = "Puts the root on top, as pages have it anyway."},
	{"title", OPTION_STRING, offsetof(struct flamegraph_options, title), .value = "TEXT",
		.help = "Text above the picture."},
	CLI_NAMES_OPTION(struct flamegraph_options),
	CLI_SUM_OPTIONS(struct flamegraph_options),
};

static const struct option_program program = {
	.name = "sonde flamegraph",
	.summary = "draw profiles as a flame graph",
	.arguments = "FILE...",
	.description = "Reads pprof profiles (gzipped or not), folded stacks and the output of "
		       "perf script; the format is detected from the content. \"-\" is standard "
		       "input. Adds the files up as sonde merge does, so they must have the same "
		       "sample types, and draws a flame graph: SVG without script, or one HTML "
		       "page with zoom, search and a table. Neither refers to anything outside.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      a file could not be read, does not fit the others or has no such "
		       "sample type, or the result could not be written",
	.examples = "sonde flamegraph --title before -o before.svg before.pb.gz\n"
		    "perf script | sonde flamegraph -o perf.html -\n",
};

static bool is_page(const struct flamegraph_options *o)
{
	if (o->format)
		return !strcmp(o->format, "html");
	return str_ends_with(o->output, ".html") || str_ends_with(o->output, ".htm");
}

static int draw(const void *options, const struct option_list *files, struct errbuf *eb)
{
	const struct flamegraph_options *o = options;
	const struct render_svg_options opt = {.root_on_top = o->inverted};
	_cleanup_profile_ struct profile sum;
	_cleanup_bytes_ struct bytes out;
	size_t column = 0;
	int r = cli_sum(&o->sum, files, &sum, &column, eb);

	bytes_init(&out, NULL, 0);
	if (r >= 0)
		r = is_page(o) ? render_profile_html(
					 &sum, column, o->title, cli_names(o->names), &out, eb)
			       : render_profile_svg(&sum, column, o->title, cli_names(o->names),
					 &opt, &out, eb);
	return r < 0 ? r : cli_write_output(o->output, &out, eb);
}

int cli_flamegraph(int argc, char **argv)
{
	struct flamegraph_options o = {.output = NULL};

	return cli_with_files(&program, argc, argv, &o, draw);
}
