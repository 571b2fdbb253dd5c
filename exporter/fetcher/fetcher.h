/* SPDX-License-Identifier: Apache-2.0
 *
 * The fetcher role: network, no capabilities, no secrets of its own; there only when something is
 * to be fetched. It knows its servers from the command line; main tells it what, never where.
 * docs/formats/fetcher-protocol.md has the messages.
 */
#pragma once
#include "lib/base/err.h"
#include <stddef.h>
#include <stdint.h>

enum { FETCHER_MAX_ID = 32, FETCHER_TEXT_BYTES = 160 };

struct fetcher_options {
	const char *const *debuginfod; /* base URLs, asked in this order */
	size_t n_debuginfod;
	uint32_t timeout_ms; /* of one server */
	uint64_t max_bytes;  /* of one file */
};

enum fetcher_status {
	FETCHER_OK = 0,
	FETCHER_NOT_FOUND = 1, /* no server has it */
	FETCHER_TOO_LARGE = 2,
	FETCHER_TIMEOUT = 3,
	FETCHER_ERROR = 4,  /* no connection, TLS, another answer than 200 or 404 */
	FETCHER_FAILED = 5, /* the role is gone, or the file cannot be written */
};
enum { FETCHER_N_STATUS = FETCHER_FAILED + 1 };

struct fetcher_reply {
	uint32_t magic, status; /* enum fetcher_status */
	uint64_t bytes;
	char text[FETCHER_TEXT_BYTES]; /* for a person, "" when done */
};

/* The role's life after it has given up its privileges: serves until `fd` is closed. Returns the exit
 * status. */
int fetcher_run(const struct fetcher_options *o, int fd);

/* Fetches the debug information of a build id into out_fd (empty, writable). Thread-safe; one is
 * served after the other. Blocks until the role has an answer. */
enum fetcher_status fetcher_debuginfo(int fetcher_fd, const uint8_t *build_id,
	uint32_t build_id_len, int out_fd, struct fetcher_reply *ret);
