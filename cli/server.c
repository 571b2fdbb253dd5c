/* SPDX-License-Identifier: Apache-2.0
 *
 * One request to a server.
 */
#include "cli/server.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include "lib/base/version.h"
#include "lib/json/read.h"
#include "scraper/config/config.h"
#include <ctype.h>
#include <string.h>

enum { MAX_ERROR_TEXT = 400 };

int cli_server_fetch(const struct cli_server_options *o, const struct cli_request *q,
	struct http_response *ret, struct errbuf *eb)
{
	struct config_http_file file = {0};
	_cleanup_free_ char *user_agent = xasprintf("sonde/%s", version_number());
	size_t n = strlen(o->url);
	_cleanup_free_ char *url = NULL;
	int r = 0;

	*ret = (struct http_response) {0};
	while (n && o->url[n - 1] == '/')
		n--;
	url = xasprintf("%.*s%s", (int)n, o->url, q->path);
	if (o->http_config_file)
		r = config_load_http(&fs_system, o->http_config_file, &file, eb);
	if (r == 0)
		r = http_client_fetch(
			&(struct http_fetch) {
				.url = url,
				.method = q->method,
				.body = q->body,
				.n_body = q->n_body,
				.transport = o->http_config_file ? &file.http.transport : NULL,
				.timeout_ms = (uint32_t)(o->timeout_ms + q->more_ms),
				.max_body_bytes = (size_t)UINT32_MAX,
			},
			user_agent, ret, eb);
	config_http_file_free(&file);
	return r;
}

static bool is_web_page(const struct bytes *body)
{
	size_t i = 0;

	while (i < body->len && isspace(body->data[i]))
		i++;
	return i < body->len && body->data[i] == '<';
}

/* A text's first line, without control characters. */
static void put_line(const char *text, size_t n, char ret[MAX_ERROR_TEXT])
{
	snprintf(ret, MAX_ERROR_TEXT, "%.*s", (int)MIN(n, (size_t)MAX_ERROR_TEXT), n ? text : "");
	for (char *c = ret; *c; c++)
		if (*c == '\n')
			*c = '\0';
		else if (iscntrl((unsigned char)*c))
			*c = '?';
}

int cli_server_refusal(const struct cli_server_options *o, const char *path,
	const struct http_response *answer, struct errbuf *eb)
{
	const char *program = str_starts_with(path, "/api/") ? " sonde-scraper"
			      : str_starts_with(path, "/-/") ? " scraper or exporter of Sonde"
							     : " sonde-exporter";
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	const char *error = NULL;
	char reason[MAX_ERROR_TEXT];

	if (is_web_page(&answer->body))
		return err_set(eb, -EPROTO, "%s answered with status %u and a web page: is it a%s?",
			o->url, answer->status, program);
	if (json_read(answer->body.data, answer->body.len, 1 << 20, &doc, NULL) == 0)
		error = json_value_str(json_value_get(json_doc_root(doc), "error"));
	if (error)
		put_line(error, strlen(error), reason);
	else
		put_line((const char *)answer->body.data, answer->body.len, reason);
	return err_set(eb, -EPROTO, "%s answered with status %u: %s%s%s%s", o->url, answer->status,
		reason, answer->status == 404 && !error ? ": is it a" : "",
		answer->status == 404 && !error ? program : "",
		answer->status == 404 && !error ? "?" : "");
}

/* What the scraper says its answer lacks. */
static void show_warnings(const struct http_response *answer)
{
	const char *text = http_response_header(answer, "sonde-warnings");
	char line[MAX_ERROR_TEXT];

	if (!text)
		return;
	put_line(text, strlen(text), line);
	fprintf(stderr, "warning: %s\n", line);
}

int cli_server_ask(const struct cli_server_options *o, const struct cli_request *q,
	struct http_response *ret, struct errbuf *eb)
{
	int r = cli_server_fetch(o, q, ret, eb);

	if (r < 0)
		return err_prefix(eb, r, "%s", o->url);
	if (ret->status != 200)
		return cli_server_refusal(o, q->path, ret, eb);
	show_warnings(ret);
	return 0;
}
