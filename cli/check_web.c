/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde check web-config: what a server would make of its --web.config.file.
 */
#include "cli/cli.h"
#include "lib/base/options.h"
#include "lib/net/web/config.h"

struct no_options {
	char unused;
};

int cli_check_web_config(int argc, char **argv)
{
	static const struct option_program program = {
		.name = "sonde check web-config",
		.summary = "check web configuration files",
		.arguments = "FILE...",
		.description = "Reads each file as sonde-exporter and sonde-scraper would for "
			       "--web.config.file, with the certificates and keys it names, and "
			       "prints SUCCESS, or the first error as FILE:LINE:COLUMN: key: what "
			       "is wrong.",
		.exit_status = "1      a file is not valid",
	};
	struct option_list files = {0};
	struct no_options none = {0};
	int status = options_parse_or_exit(&program, argc, argv, &none, &files);

	if (status < 0 && !files.n) {
		fprintf(stderr, "sonde check web-config: which file?\n");
		status = CLI_USAGE;
	}
	if (status < 0) {
		status = CLI_OK;
		for (size_t i = 0; i < files.n; i++) {
			struct errbuf eb = {0};
			int r = web_config_check(files.items[i], &eb);

			if (r < 0)
				status = cli_fail(&eb, r);
			else
				printf("SUCCESS: %s is valid\n", files.items[i]);
		}
	}
	option_list_done(&files);
	return status;
}
