/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the tool to a server: where it is and how it is asked.
 */
#pragma once
#include "lib/base/options.h"
#include "lib/net/client/client.h"

struct cli_server_options {
	const char *url, *http_config_file;
	int64_t timeout_ms;
};

/* Rows of a table of options whose struct has a `struct cli_server_options server`. */
#define CLI_SERVER_OPTIONS(struct_, name_, fallback_, help_)                                     \
	{name_, OPTION_STRING, offsetof(struct_, server.url), .value = "URL",                    \
		.fallback = (fallback_), .help = (help_)},                                       \
		{"http.config.file", OPTION_STRING, offsetof(struct_, server.http_config_file),  \
			.value = "FILE",                                                         \
			.help = "A file with credentials, TLS and proxy for requests: the HTTP " \
				"client's keys of a scrape job, at the top level."},             \
	{                                                                                        \
		"timeout", OPTION_DURATION, offsetof(struct_, server.timeout_ms),                \
			.value = "DURATION", .fallback = "30s", .min = 1, .max = 3600000,        \
			.help = "How long an answer may take."                                   \
	}

struct cli_request {
	const char *path;   /* below the base address */
	const char *method; /* NULL: GET */
	const void *body;
	size_t n_body;
	int64_t more_ms; /* how long the server is asked to wait before it answers */
};
/* `ret` needs http_response_done in any case; negative when no whole answer came, whatever its status: errors of
 * http_client_fetch and of --http.config.file. */
int cli_server_fetch(const struct cli_server_options *o, const struct cli_request *q,
	struct http_response *ret, struct errbuf *eb) _must_check_;
/* -EPROTO with a text: the server, the status, and the "error" of an envelope or the first line of the answer. A web page, or 404 for an
 * unknown path, asks whether it is the right program. */
int cli_server_refusal(const struct cli_server_options *o, const char *path,
	const struct http_response *answer, struct errbuf *eb) _must_check_;
/* As cli_server_fetch; another status than 200 is -EPROTO with what the server says. Texts name the server. */
int cli_server_ask(const struct cli_server_options *o, const struct cli_request *q,
	struct http_response *ret, struct errbuf *eb) _must_check_;
