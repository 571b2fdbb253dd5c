/* SPDX-License-Identifier: Apache-2.0
 *
 * Profile types that a scraper has stored, for selectors that a person writes.
 */
#pragma once
#include "cli/server.h"

/* -ENOENT when the selector names a type or a metric of which nothing is stored, at any time: the text names the types there are. Errors
 * of cli_server_ask. */
int cli_types_check(const struct cli_server_options *server, const char *selector,
	struct errbuf *eb) _must_check_;

/* Whether the selector's values are states (memory in use), which are never divided by time. */
int cli_types_is_state(const struct cli_server_options *server, const char *selector, bool *ret,
	struct errbuf *eb) _must_check_;
