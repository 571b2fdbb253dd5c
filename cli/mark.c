/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde mark: marks a place in the recording that a script runs in, or beside.
 */
#include "cli/cli.h"
#include "cli/window.h"
#include "lib/base/bytes.h"
#include "lib/base/options.h"
#include "lib/base/str.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mark_options {
	const char *window;
	bool start, stop, end;
};

#define AT(field) offsetof(struct mark_options, field)

static const struct option_spec specs[] = {
	{"window", OPTION_STRING, AT(window), .value = "fifo:PATH",
		.help = "The pipe that sonde record --window reads. Default: "
			"$" WINDOW_VARIABLE ", which sonde record sets for its command."},
	{"start", OPTION_BOOL, AT(start), .help = "Begins a window, then marks NAME in it."},
	{"stop", OPTION_BOOL, AT(stop), .help = "Marks NAME, then ends the window."},
	{"end", OPTION_BOOL, AT(end), .help = "Marks NAME, then ends the recording."},
};

static const struct option_program program = {
	.name = "sonde mark",
	.summary = "mark a place in a recording",
	.arguments = "[NAME]",
	.description = "Leaves a comment with NAME and the time in the profile of a sonde record "
		       "--window, and begins or ends its windows: the recording has only samples "
		       "between --start and --stop. It waits for nothing.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      no recording reads that pipe",
	.examples = "sonde record --window fifo:w -o load.pb.gz -- ./operations.sh\n"
		    "sonde mark --start load && ./load && sonde mark --stop  # in operations.sh\n",
};

/* What is wrong, or 0. */
static int check(const struct mark_options *o, const struct option_list *args, struct errbuf *eb)
{
	const char *name = args->n ? args->items[0] : NULL, *path;

	if (args->n > 1)
		return err_set(eb, -EINVAL, "expected one NAME, in quotes where it has blanks");
	if (o->start + o->stop + o->end > 1)
		return err_set(eb, -EINVAL, "expected one of --start, --stop and --end");
	if (!name && !o->start && !o->stop && !o->end)
		return err_set(eb, -EINVAL, "expected a NAME, --start, --stop or --end");
	if (name && (!*name || strlen(name) > WINDOW_MAX_LINE - sizeof("mark ")))
		return err_set(eb, -EINVAL, "expected a NAME of 1 to %zu bytes",
			WINDOW_MAX_LINE - sizeof("mark "));
	if (name && strpbrk(name, "\r\n"))
		return err_set(eb, -EINVAL, "expected a NAME on one line");
	if (!o->window)
		return err_set(eb, -EINVAL,
			"which recording? --window, or $" WINDOW_VARIABLE
			" as in a command of sonde record --window");
	return window_parse(o->window, &path, eb);
}

static int mark(const struct mark_options *o, const char *name, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes lines = {0};

	if (o->start)
		bytes_put_str(&lines, "start\n");
	if (name)
		bytes_printf(&lines, "mark %s\n", name);
	if (o->stop)
		bytes_put_str(&lines, "stop\n");
	if (o->end)
		bytes_put_str(&lines, "end\n");
	bytes_put_u8(&lines, '\0');
	return bytes_error(&lines) ? lines.error
				   : window_write(o->window, (const char *)lines.data, eb);
}

int cli_mark(int argc, char **argv)
{
	_cleanup_(option_list_done)
	struct option_list args = {.n = 0};
	struct mark_options o = {.window = NULL};
	struct errbuf eb = {.text = ""};
	int status = options_parse_or_exit(&program, argc, argv, &o, &args), r;

	o.window = o.window ? o.window : getenv(WINDOW_VARIABLE);
	if (status < 0 && (r = check(&o, &args, &eb)) < 0) {
		fprintf(stderr, "sonde mark: %s; see sonde mark --help\n", err_text(&eb, r));
		status = CLI_USAGE;
	}
	if (status < 0) {
		r = mark(&o, args.n ? args.items[0] : NULL, &eb);
		status = r < 0 ? cli_fail(&eb, r) : CLI_OK;
	}
	options_done(&program, &o);
	return status;
}
