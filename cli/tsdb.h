/* SPDX-License-Identifier: Apache-2.0
 *
 * What the `sonde tsdb` commands share: flags, how a command runs, how a store is opened.
 */
#pragma once
#include "lib/base/options.h"
#include "scraper/store/store.h"

struct cli_tsdb_options {
	const char *format;  /* list */
	const char *part;    /* dump */
	bool rows;	     /* dump */
	const char *without; /* compact */
};

typedef int cli_tsdb_fn(const char *path, const struct cli_tsdb_options *o, struct errbuf *eb);

/* Parses flags and the one DIRECTORY; returns the exit status. */
int cli_tsdb_run(const struct option_program *program, cli_tsdb_fn *command, int argc, char **argv);

/* As store_open, but a directory that holds no store is left as it is: -ENOENT with a text; -ENOTDIR. */
int cli_tsdb_open(
	const struct store_options *o, struct store **ret, struct errbuf *eb) _must_check_;
