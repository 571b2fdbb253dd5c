/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde check healthy | ready: what a server says of itself, as an exit status.
 */
#include "cli/cli.h"
#include "cli/server.h"
#include <string.h>

struct check_options {
	struct cli_server_options server;
};

static const struct option_spec specs[] = {
	CLI_SERVER_OPTIONS(struct check_options, "url", "http://127.0.0.1:7272",
		"Base address of the scraper or exporter."),
};

static int check(const char *path, const struct option_program *program, int argc, char **argv)
{
	struct check_options o = {0};
	_cleanup_http_response_ struct http_response answer = {0};
	struct errbuf eb = {0};
	int status = options_parse_or_exit(program, argc, argv, &o, NULL);
	int r;

	if (status >= 0)
		return status;
	r = cli_server_ask(&o.server, &(struct cli_request) {.path = path}, &answer, &eb);
	if (r < 0)
		return cli_fail(&eb, r);
	printf("SUCCESS: %.*s", (int)answer.body.len, (const char *)answer.body.data);
	return CLI_OK;
}

int cli_check_healthy(int argc, char **argv)
{
	static const struct option_program program = {
		.name = "sonde check healthy",
		.summary = "ask whether a server is healthy",
		.description = "Asks /-/healthy of a scraper or an exporter.",
		.specs = specs,
		.n_specs = ARRAY_SIZE(specs),
		.exit_status = "1      it is not, or did not answer; stderr says why",
	};

	return check("/-/healthy", &program, argc, argv);
}

int cli_check_ready(int argc, char **argv)
{
	static const struct option_program program = {
		.name = "sonde check ready",
		.summary = "ask whether a server is ready",
		.description =
			"Asks /-/ready of a scraper or an exporter; a scraper that reads its "
			"write-ahead log at start is not ready yet.",
		.specs = specs,
		.n_specs = ARRAY_SIZE(specs),
		.exit_status = "1      it is not, or did not answer; stderr says why",
	};

	return check("/-/ready", &program, argc, argv);
}
