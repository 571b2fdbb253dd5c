/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde push: a profile from a file → a scraper's store.
 */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/server.h"
#include "cli/sum.h"
#include "lib/base/fs.h"
#include "lib/gzip/gzip.h"
#include "lib/json/read.h"
#include "lib/net/url/url.h"
#include <string.h>

struct push_options {
	struct cli_server_options server;
	struct option_list labels;
	const char *name, *sample_labels;
};

static const struct option_spec specs[] = {
	CLI_SERVER_OPTIONS(struct push_options, "server", "http://127.0.0.1:7272",
		"Base address of the scraper."),
	{"label", OPTION_LABELS, offsetof(struct push_options, labels),
		.help = "A label of the profile's series. May be repeated."},
	{"name", OPTION_STRING, offsetof(struct push_options, name), .value = "NAME",
		.fallback = "process_cpu", .help = "The profile's name, __name__ of its series."},
	{"sample-labels", OPTION_STRING, offsetof(struct push_options, sample_labels),
		.value = "NAME,NAME", .help = "Sample labels that make series of their own."},
};

static const struct option_program program = {
	.name = "sonde push",
	.summary = "store a profile in a scraper",
	.arguments = "FILE...",
	.description = "Sends each file to the scraper's import: pprof, gzipped or not; \"-\" is "
		       "standard input. Folded stacks and perf script are refused: they have no "
		       "time. When the scraper answers, the profile is on its disk. It does not "
		       "store the same profile twice.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "1      a file could not be read, or the server refused it; the files "
		       "before it are stored",
	.examples = "sonde push --label job=nightly --label commit=4f1c cpu.pb.gz\n",
};

static void put_parameter(struct bytes *path, const char *name, const char *value)
{
	bytes_printf(path, "%s=", name);
	url_escape_query(path, value, strlen(value));
	bytes_put_u8(path, '&');
}

static void put_path(const struct push_options *o, struct bytes *path)
{
	bytes_put_str(path, "/api/v1/import?");
	put_parameter(path, "name", o->name);
	for (size_t i = 0; i < o->labels.n; i++) {
		const char *text = o->labels.items[i];
		size_t n = strcspn(text, "=");

		bytes_put_str(path, "label.");
		url_escape_query(path, text, n);
		bytes_put_u8(path, '=');
		url_escape_query(path, text + n + 1, strlen(text + n + 1));
		bytes_put_u8(path, '&');
	}
	if (o->sample_labels)
		put_parameter(path, "sample_labels", o->sample_labels);
	path->len--; /* the last & */
	bytes_put_u8(path, '\0');
}

static void say_stored(const char *file, const struct http_response *answer)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	const struct json_value *data;

	if (json_read(answer->body.data, answer->body.len, 1 << 20, &doc, NULL) < 0)
		return;
	data = json_value_get(json_doc_root(doc), "data");
	printf("%s: %lld profiles stored, %lld there already\n", file,
		(long long)json_value_int(json_value_get(data, "profiles")),
		(long long)json_value_int(json_value_get(data, "duplicates")));
}

static int push_file(const struct push_options *o, const char *file, struct errbuf *eb)
{
	_cleanup_http_response_ struct http_response answer = {0};
	_cleanup_cli_profile_ struct cli_profile in;
	_cleanup_bytes_ struct bytes path = {0};
	int r;

	cli_profile_init(&in);
	put_path(o, &path);
	r = cli_profile_read(&in, file, eb);
	if (r == 0 && !in.p.time_ns)
		r = err_set(eb, -EINVAL, "%s: the profile has no time, which a store needs", file);
	if (r == 0)
		r = cli_server_ask(&o->server,
			&(struct cli_request) {.path = (const char *)path.data,
				.method = "POST",
				.body = in.file.data,
				.n_body = in.file.len},
			&answer, eb);
	if (r == 0)
		say_stored(file, &answer);
	return r;
}

static int push(const void *options, const struct option_list *files, struct errbuf *eb)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < files->n; i++)
		r = push_file(options, files->items[i], eb);
	return r;
}

int cli_push(int argc, char **argv)
{
	struct push_options o = {.name = NULL};

	return cli_with_files(&program, argc, argv, &o, push);
}
