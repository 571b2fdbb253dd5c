/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde top: the largest functions, files or values of a label, in files, in a scraper's store or on an exporter's machine now.
 */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/names.h"
#include "cli/server.h"
#include "cli/sum.h"
#include "cli/types.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include "lib/net/url/url.h"
#include "lib/prof/number.h"
#include "lib/render/render.h"
#include "lib/tree/canon.h"
#include "lib/tree/tree.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct top_options {
	struct cli_server_options server;
	const char *exporter, *query, *start, *by, *sample_index, *names;
	int64_t seconds_ms, interval_ms;
	uint64_t n;
	bool watch, all_frames, by_build;
};

#define AT(field) offsetof(struct top_options, field)
#define WATCH_INTERVAL "5s"

static const struct option_spec specs[] = {
	CLI_SERVER_OPTIONS(struct top_options, "server", NULL, "Base address of the scraper."),
	{"exporter", OPTION_STRING, AT(exporter), .value = "URL",
		.help = "Samples the machine of this exporter for --seconds."},
	{"query", OPTION_STRING, AT(query), .value = "SELECTOR",
		.fallback = "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}",
		.help = "With --server: the profile type and the matchers to ask for."},
	{"start", OPTION_STRING, AT(start), .value = "TIME", .fallback = "now-1h",
		.help = "With --server: the begin of the range, which ends now."},
	{"seconds", OPTION_DURATION, AT(seconds_ms), .fallback = "5s", .min = 1000, .max = 3600000,
		.help = "With --exporter: how long, in whole seconds."},
	{"by", OPTION_STRING, AT(by), .value = "function|file|comm|label:KEY",
		.fallback = "function", .help = "What each row stands for."},
	{"by-build", OPTION_BOOL, AT(by_build),
		.help = "A row for each build's function of a name, with its whole name. Without "
			"it one row stands for the function in all builds."},
	{"number", OPTION_U64, AT(n), .value = "N", .fallback = "20", .min = 0, .max = 1e9,
		.help = "Most rows; 0: all.", .letter = 'n'},
	{"sample-index", OPTION_STRING, AT(sample_index), .value = "TYPE", .also = "sample-type",
		.help = "Which value: a sample type (\"cpu\") or its number from 0. Default: the "
			"profile's own default, else the last."},
	CLI_ALL_FRAMES(AT(all_frames)),
	CLI_NAMES_OPTION(struct top_options),
	{"watch", OPTION_BOOL, AT(watch),
		.help = "Print again and again on a cleared screen, until interrupted."},
	{"interval", OPTION_DURATION, AT(interval_ms), .fallback = WATCH_INTERVAL, .min = 100,
		.max = 3600000,
		.help = "With --watch and --server or files: time between two prints."},
};

static const struct option_program program = {
	.name = "sonde top",
	.summary = "print the largest functions",
	.arguments = "[FILE...]",
	.description = "Prints the rows with the largest values of files (pprof, folded stacks, "
		       "perf script; \"-\" is standard input), of a scraper's store (--server) or "
		       "of the samples that an exporter takes from now on (--exporter). flat is "
		       "the value of a function itself, cum that of the function with all that it "
		       "called. With a label both are the samples with its value.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status =
		"1      a file or server could not be read, or has no such sample or profile "
		"type",
	.examples =
		"sonde top cpu.pb.gz\n"
		"sonde top --exporter http://127.0.0.1:7273 --by comm --watch\n"
		"sonde top --server http://127.0.0.1:7272 --start now-15m --by label:pod -n 5\n",
};

/* ── where it comes from ── */

/* KEY of "comm" and "label:KEY"; NULL: by file. */
static const char *label_key(const char *by)
{
	if (!strcmp(by, "comm"))
		return by;
	return str_starts_with(by, "label:") ? by + strlen("label:") : NULL;
}

static int fetch(const struct cli_server_options *server, const struct cli_request *q,
	struct profile *ret, struct bytes *text, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response answer = {0};
	int r = cli_server_ask(server, q, &answer, eb);

	return r < 0 ? r
		     : cli_profile_decode(
			       answer.body.data, answer.body.len, server->url, text, ret, eb);
}

static int fetch_stored(
	const struct top_options *o, struct profile *ret, struct bytes *text, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes path = {0};

	bytes_put_str(&path, "/api/v1/profile?query=");
	url_escape_query(&path, o->query, strlen(o->query));
	bytes_put_str(&path, "&start=");
	url_escape_query(&path, o->start, strlen(o->start));
	if (label_key(o->by)) {
		bytes_put_str(&path, "&group_by=");
		url_escape_query(&path, label_key(o->by), strlen(label_key(o->by)));
	}
	bytes_put_u8(&path, '\0');
	return fetch(
		&o->server, &(struct cli_request) {.path = (const char *)path.data}, ret, text, eb);
}

static int fetch_now(
	const struct top_options *o, struct profile *ret, struct bytes *text, struct errbuf *eb)
{
	struct cli_server_options exporter = o->server;
	char path[64];

	exporter.url = o->exporter;
	snprintf(path, sizeof(path), "/debug/pprof/profile?seconds=%lld",
		(long long)o->seconds_ms / 1000);
	return fetch(&exporter, &(struct cli_request) {.path = path, .more_ms = o->seconds_ms}, ret,
		text, eb);
}

/* ── rows ── */

struct row {
	struct prof_str name;
	int64_t flat, cum;
	size_t last; /* sample that was added last, plus 1 */
};

struct rows {
	struct table index; /* string → row */
	struct row *items;
	size_t n, cap;
};

static struct row *get_row(struct rows *rows, const struct profile *p, uint32_t string)
{
	bool is_new;
	uint64_t *at = table_insert(&rows->index, string, &is_new);

	if (!at)
		return NULL;
	if (is_new) {
		if (alloc_grow(&rows->items, &rows->cap, rows->n + 1, sizeof(*rows->items)) < 0)
			return NULL;
		*at = rows->n;
		rows->items[rows->n++] = (struct row) {.name = profile_str(p, string)};
	}
	return &rows->items[*at];
}

static bool add_to(struct rows *rows, const struct profile *p, uint32_t string, size_t sample,
	int64_t value, bool is_flat)
{
	struct row *row = get_row(rows, p, string);

	if (!row)
		return false;
	row->flat = prof_add(row->flat, is_flat ? value : 0);
	if (row->last != sample + 1) /* recursion counts once */
		row->cum = prof_add(row->cum, value);
	row->last = sample + 1;
	return true;
}

/* The label's text; 0, the empty string, without it. */
static uint32_t label_of(const struct profile *p, size_t sample, const char *key)
{
	for (uint64_t i = p->label_first[sample]; i < p->label_first[sample + 1]; i++)
		if (profile_str_is(p, p->labels[i].key, key))
			return p->labels[i].str;
	return 0;
}

static bool add_files(struct rows *rows, const struct profile *p, size_t sample, int64_t value)
{
	bool is_leaf = true;

	for (uint64_t i = p->stack_first[sample]; i < p->stack_first[sample + 1]; i++) {
		const struct prof_location *l = &p->locations[p->stacks[i]];

		for (uint32_t k = 0; k < l->n_lines; k++) {
			uint32_t f = p->lines[l->first_line + k].function;

			if (!add_to(rows, p, f == PROF_NONE ? 0 : p->functions[f].filename, sample,
				    value, is_leaf))
				return false;
			is_leaf = false;
		}
		if (!l->n_lines && !add_to(rows, p, 0, sample, value, is_leaf))
			return false;
		is_leaf = false;
	}
	return true;
}

static int by_value(const void *pa, const void *pb)
{
	const struct row *a = pa, *b = pb;
	uint32_t n = MIN(a->name.len, b->name.len);
	int order;

	if (a->flat != b->flat)
		return a->flat > b->flat ? -1 : 1;
	if (a->cum != b->cum)
		return a->cum > b->cum ? -1 : 1;
	order = n ? memcmp(a->name.p, b->name.p, n) : 0;
	return order ? order : (a->name.len > b->name.len) - (a->name.len < b->name.len);
}

static double share(int64_t value, int64_t whole)
{
	return whole ? 100 * fabs((double)value) / (double)whole : 0;
}

/* `whole`: of the values without their signs, which shares refer to. */
static void print_rows(const struct profile *p, size_t column, struct rows *rows, int64_t total,
	int64_t whole, uint64_t max, struct bytes *out)
{
	struct prof_str unit = profile_str(p, p->types[column].unit);
	char unit_text[64], flat[64], cum[64];

	snprintf(unit_text, sizeof(unit_text), "%.*s", (int)MIN(unit.len, 63U),
		unit.p ? unit.p : "");
	if (rows->n)
		qsort(rows->items, rows->n, sizeof(*rows->items), by_value);
	render_value(total, unit_text, flat);
	bytes_printf(out, "Total: %s\n%12s %7s %12s %7s\n", flat, "flat", "flat%", "cum", "cum%");
	for (size_t i = 0; i < rows->n && (!max || i < max); i++) {
		const struct row *r = &rows->items[i];

		render_value(r->flat, unit_text, flat);
		render_value(r->cum, unit_text, cum);
		bytes_printf(out, "%12s %6.2f%% %12s %6.2f%%  %.*s\n", flat, share(r->flat, whole),
			cum, share(r->cum, whole), r->name.len ? (int)r->name.len : 6,
			r->name.len ? r->name.p : "(none)");
	}
	if (max && rows->n > max)
		bytes_printf(out, "%zu more rows are not shown.\n", rows->n - (size_t)max);
}

static int print_grouped(const struct top_options *o, const struct profile *p, size_t column,
	struct bytes *out, struct errbuf *eb)
{
	const char *key = label_key(o->by);
	struct rows rows = {.n = 0};
	int64_t total = 0, whole = 0;
	bool ok = true;

	table_init(&rows.index, NULL);
	for (size_t i = 0; ok && i < p->n_samples; i++) {
		int64_t value = p->values[i * p->n_types + column];

		total = prof_add(total, value);
		whole = prof_add(whole, value == INT64_MIN ? INT64_MAX : llabs(value));
		ok = key ? add_to(&rows, p, label_of(p, i, key), i, value, true)
			 : add_files(&rows, p, i, value);
	}
	if (ok)
		print_rows(p, column, &rows, total, whole, o->n, out);
	table_done(&rows.index);
	free(rows.items);
	return ok ? bytes_error(out) : err_set(eb, -ENOMEM, "out of memory");
}

/* ── the command ── */

static int look(const struct top_options *o, const struct option_list *files, struct errbuf *eb)
{
	const struct tree_identity identity = {
		.by_build = o->by_build, .canon = o->by_build ? 0 : TREE_CANON_CLONES};
	_cleanup_profile_ struct profile p;
	_cleanup_bytes_ struct bytes text = {0}, out = {0};
	size_t column = 0;
	int r;

	if (o->watch)
		bytes_put_str(&out, "\033[H\033[2J");
	if (o->exporter || o->server.url) {
		profile_init(&p, NULL);
		r = o->exporter ? fetch_now(o, &p, &text, eb) : fetch_stored(o, &p, &text, eb);
		if (r >= 0)
			r = profile_find_type(&p, o->sample_index, &column, eb);
	} else
		r = cli_sum(&(struct cli_sum_options) {.sample_index = o->sample_index,
				    .all_frames = o->all_frames},
			files, &p, &column, eb);
	if (r < 0)
		return r;
	if (label_key(o->by))
		r = prof_number_labels(&p, eb);
	if (r < 0)
		return r;
	r = strcmp(o->by, "function") != 0 ? print_grouped(o, &p, column, &out, eb)
					   : render_profile_text(&p, column, &identity, o->n,
						     cli_names(o->names), &out, eb);
	return r < 0 ? r : cli_write_output("-", &out, eb);
}

static int watch(const struct top_options *o, const struct option_list *files, struct errbuf *eb)
{
	int r = o->server.url ? cli_types_check(&o->server, o->query, eb) : 0;

	if (r >= 0)
		r = look(o, files, eb);
	while (r >= 0 && o->watch) {
		if (!o->exporter)
			clock_system.sleep_until_ns(&clock_system,
				clock_monotonic_ns(&clock_system) + o->interval_ms * NS_PER_MS);
		r = look(o, files, eb);
	}
	return r;
}

static int check(const struct top_options *o, const struct option_list *files)
{
	unsigned n = (o->exporter != NULL) + (o->server.url != NULL) + (files->n > 0);
	const char *key = label_key(o->by);

	if (n != 1)
		fprintf(stderr,
			"sonde top: expected files, --server or --exporter, one of them; see "
			"sonde top --help\n");
	else if (strcmp(o->by, "function") != 0 && strcmp(o->by, "file") != 0 && (!key || !*key))
		fprintf(stderr, "sonde top: --by=%s: expected function, file, comm or label:KEY\n",
			o->by);
	else if (o->by_build && strcmp(o->by, "function") != 0)
		fprintf(stderr, "sonde top: --by-build: only with --by=function\n");
	else if (o->seconds_ms % 1000)
		fprintf(stderr, "sonde top: --seconds: expected whole seconds\n");
	else
		return -1;
	return CLI_USAGE;
}

int cli_top(int argc, char **argv)
{
	_cleanup_(option_list_done)
	struct option_list files = {.n = 0};
	struct top_options o = {.by = NULL};
	struct errbuf eb = {.text = ""};
	int status = options_parse_or_exit(&program, argc, argv, &o, &files), r;

	if (status < 0)
		status = check(&o, &files);
	if (status < 0) {
		r = watch(&o, &files, &eb);
		status = r < 0 ? cli_fail(&eb, r) : CLI_OK;
	}
	options_done(&program, &o);
	return status;
}
