/* SPDX-License-Identifier: Apache-2.0
 *
 * Selections of a scraper's store as runs: each instance (or other set of labels that distinguishes replicates), or the whole service, in each
 * stretch of time is one.
 */
#pragma once
#include "cli/runs.h"
#include "cli/server.h"

struct cli_stored {
	const struct cli_server_options *server;
	const char *replicate; /* LABEL,…,DURATION */
	bool of_service; /* all targets together are one run a DURATION, whatever their labels */
	const char *by;	 /* a label that samples keep, or NULL */
};

/*
 * Adds the runs of SELECTOR [@TIME [DURATION]]: from DURATION (1h) before TIME (now; @-1d is now-1d) to TIME. A selector that begins with {
 * is of `type`, which may be NULL. Runs that were watched for less than half as long as the median one are left out, as the scraper does.
 * -EINVAL; -ENODATA: nothing is stored; errors of cli_server_ask.
 */
int cli_stored_add(const struct cli_stored *from, const char *const *args, size_t n_args,
	const char *type, struct cli_sources *ret, struct errbuf *eb) _must_check_;
