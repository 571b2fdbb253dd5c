/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde query: a scraper's answer to a selector, as the server writes it.
 */
#include "cli/cli.h"
#include "cli/names.h"
#include "cli/files.h"
#include "cli/server.h"
#include "cli/types.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include <string.h>

struct query_options {
	struct cli_server_options server;
	const char *start, *end, *step, *output, *format;
	const char *names, *focus, *ignore, *hide, *show, *show_from;
	struct option_list group_by;
	uint64_t limit, max_nodes;
	bool by_build;
};

#define AT(field) offsetof(struct query_options, field)

static const struct option_spec specs[] = {
	CLI_SERVER_OPTIONS(struct query_options, "server", "http://127.0.0.1:7272",
		"Base address of the scraper."),
	{"start", OPTION_STRING, AT(start), .value = "TIME",
		.help = "Begin of the range: unix seconds, RFC 3339, or now-1h. Default: an hour "
			"before the end."},
	{"end", OPTION_STRING, AT(end), .value = "TIME",
		.help = "End of the range, like --start. Default: now."},
	{"step", OPTION_STRING, AT(step), .value = "DURATION",
		.help = "Values over time, one each DURATION, in place of stacks."},
	{"output", OPTION_STRING, AT(output), .value = "FILE", .fallback = "-",
		.help = "Where the answer goes; \"-\" is standard output.", .letter = 'o'},
	{"format", OPTION_CHOICE, AT(format),
		.value = "text|pprof|folded|json|speedscope|svg|html|dot|csv",
		.help = "Default: by the output's name (.pb.gz, .folded, .json, .svg, .html, .dot, "
			".csv, .txt), else text, with --step csv. With --step: csv or json."},
	{"focus", OPTION_STRING, AT(focus), .value = "REGEX",
		.help = "Only stacks with a frame that matches. This and the next four are as in "
			"pprof."},
	{"ignore", OPTION_STRING, AT(ignore), .value = "REGEX",
		.help = "Only stacks without a frame that matches."},
	{"hide", OPTION_STRING, AT(hide), .value = "REGEX", .help = "No frames that match."},
	{"show", OPTION_STRING, AT(show), .value = "REGEX", .help = "Only frames that match."},
	{"show-from", OPTION_STRING, AT(show_from), .value = "REGEX",
		.help = "Stacks from the highest match on."},
	{"group-by", OPTION_STRINGS, AT(group_by), .value = "LABEL",
		.help = "A frame, or a line over time, per value of this label. May be repeated."},
	CLI_NAMES_OPTION(struct query_options),
	{"by-build", OPTION_BOOL, AT(by_build),
		.help = "Each build's functions are functions of their own, with whole names. "
			"Profiles (pprof) always distinguish builds."},
	{"limit", OPTION_U64, AT(limit), .value = "N", .fallback = "0", .min = 0, .max = 1e9,
		.help = "Most rows or lines; 0: the server's default."},
	{"max-nodes", OPTION_U64, AT(max_nodes), .value = "N", .fallback = "0", .min = 0,
		.max = 1e9, .help = "Most nodes; 0: the server's default."},
};

static const struct option_program program = {
	.name = "sonde query",
	.summary = "ask a scraper for stored profiles",
	.arguments = "SELECTOR",
	.description = "Asks a scraper for the profiles that a selector matches, such as "
		       "process_cpu:cpu:nanoseconds:cpu:nanoseconds{comm=\"postgres\"}. Writes "
		       "them merged over the range, or with --step their values over time.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      the server refused or did not answer (stderr has its text), never "
		       "had that profile type, or the answer could not be written",
	.examples = "sonde query --start now-15m "
		    "'process_cpu:cpu:nanoseconds:cpu:nanoseconds{comm=\"postgres\"}'\n"
		    "sonde query -o flames.html "
		    "'process_cpu:cpu:nanoseconds:cpu:nanoseconds{}'\n",
};

/* Formats by the ends of file names; the endpoint that gives each. */
static const struct {
	const char *format, *suffix, *endpoint;
} formats[] = {
	{"text", ".txt", "/api/v1/top"},
	{"csv", ".csv", "/api/v1/top"},
	{"pprof", ".pb.gz", "/api/v1/profile"},
	{"pprof", ".pprof", "/api/v1/profile"},
	{"folded", ".folded", "/api/v1/flamegraph"},
	{"json", ".json", "/api/v1/flamegraph"},
	{"speedscope", ".speedscope.json", "/api/v1/flamegraph"},
	{"svg", ".svg", "/api/v1/flamegraph"},
	{"html", ".html", "/api/v1/flamegraph"},
	{"dot", ".dot", "/api/v1/flamegraph"},
};

static const char *format_of(const struct query_options *o)
{
	const char *found = o->step ? "csv" : "text";
	size_t longest = 0;

	if (o->format)
		return o->format;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (strlen(formats[i].suffix) > longest &&
			str_ends_with(o->output, formats[i].suffix)) {
			found = formats[i].format;
			longest = strlen(formats[i].suffix);
		}
	return found;
}

static const char *endpoint_of(const struct query_options *o, const char *format)
{
	const char *endpoint = "/api/v1/query_series";

	for (size_t i = 0; !o->step && i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i].format, format))
			endpoint = formats[i].endpoint;
	return endpoint;
}

static void put(struct bytes *path, const char *name, const char *value)
{
	if (!value)
		return;
	bytes_printf(path, "&%s=", name);
	url_escape_query(path, value, strlen(value));
}

static void put_path(const struct query_options *o, const char *endpoint, const char *format,
	const char *selector, struct bytes *path)
{
	bytes_printf(path, "%s?format=%s", endpoint, format);
	put(path, "query", selector);
	put(path, "start", o->start);
	put(path, "end", o->end);
	put(path, "step", o->step);
	put(path, "focus", o->focus);
	put(path, "ignore", o->ignore);
	put(path, "hide", o->hide);
	put(path, "show", o->show);
	put(path, "show_from", o->show_from);
	for (size_t i = 0; i < o->group_by.n; i++)
		put(path, "group_by", o->group_by.items[i]);
	if (!strcmp(format, "text") || !strcmp(format, "svg") || !strcmp(format, "html"))
		put(path, "names", o->names);
	if (o->by_build)
		bytes_put_str(path, "&by_build=1");
	if (o->limit)
		bytes_printf(path, "&limit=%llu", (unsigned long long)o->limit);
	if (o->max_nodes)
		bytes_printf(path, "&max_nodes=%llu", (unsigned long long)o->max_nodes);
	bytes_put_u8(path, '\0');
}

static int query(const struct query_options *o, const char *selector, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response answer = {0};
	_cleanup_bytes_ struct bytes path = {0};
	const char *format = format_of(o);
	int r = cli_types_check(&o->server, selector, eb);

	if (r < 0)
		return r;
	put_path(o, endpoint_of(o, format), format, selector, &path);
	r = cli_server_ask(
		&o->server, &(struct cli_request) {.path = (const char *)path.data}, &answer, eb);
	return r < 0 ? r : cli_write_output(o->output, &answer.body, eb);
}

/* What is wrong with the command line, on stderr; -1: nothing. */
static int check(const struct query_options *o, const struct option_list *args)
{
	const char *format = format_of(o);

	if (args->n != 1)
		fprintf(stderr, "sonde query: expected one selector; see sonde query --help\n");
	else if (o->step && strcmp(format, "csv") != 0 && strcmp(format, "json") != 0)
		fprintf(stderr, "sonde query: --step gives csv or json, not %s\n", format);
	else
		return -1;
	return CLI_USAGE;
}

int cli_query(int argc, char **argv)
{
	_cleanup_(option_list_done)
	struct option_list args = {.n = 0};
	struct query_options o = {.output = NULL};
	struct errbuf eb = {.text = ""};
	int status = options_parse_or_exit(&program, argc, argv, &o, &args), r;

	if (status < 0)
		status = check(&o, &args);
	if (status < 0) {
		r = query(&o, args.items[0], &eb);
		status = r < 0 ? cli_fail(&eb, r) : CLI_OK;
	}
	options_done(&program, &o);
	return status;
}
