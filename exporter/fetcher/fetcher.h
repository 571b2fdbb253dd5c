/* SPDX-License-Identifier: Apache-2.0
 *
 * The fetcher role: network, no capabilities, no secrets of its own; it exists only when something is
 * to be fetched. It knows its servers from the command line; main says what to fetch, never from where.
 * docs/formats/fetcher-protocol.md has the messages.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FETCHER_MAX_ID = 32, FETCHER_TEXT_BYTES = 160, FETCHER_MAX_VALUE = 1024 };

/* Pods of one node, from the API server or from that node's kubelet. */
struct fetcher_pods_options {
	const char *server;  /* URL of the API server; "": that of the cluster we are in */
	const char *kubelet; /* URL of the kubelet to ask instead; "": the API server is watched */
	const char *node;
	const char *token_file, *ca_file; /* where they exist; over https alone */
	bool insecure_skip_verify;
	const char *const *labels, *const *annotations; /* whose values are wanted */
	size_t n_labels, n_annotations;
	uint32_t interval_ms; /* between questions to a kubelet */
	uint64_t max_bytes;   /* of an answer, an event, and of all records */
};

struct fetcher_options {
	const char *const *debuginfod; /* base URLs, asked in this order */
	size_t n_debuginfod;
	uint32_t timeout_ms;			 /* of one server */
	uint64_t max_bytes;			 /* of one file */
	const struct fetcher_pods_options *pods; /* NULL: none are asked for */
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

enum fetcher_pods_status {
	FETCHER_PODS_OK = 0,
	FETCHER_PODS_DENIED = 1,    /* 401 or 403 */
	FETCHER_PODS_TOO_LARGE = 2, /* more than max_bytes */
	FETCHER_PODS_TIMEOUT = 3,
	FETCHER_PODS_MALFORMED = 4, /* an answer that is no list or event of pods */
	FETCHER_PODS_ERROR = 5,	    /* no connection, TLS, another answer than 200 */
};
enum { FETCHER_N_PODS_STATUS = FETCHER_PODS_ERROR + 1 };

struct fetcher_pods_update {
	uint32_t magic, status;	       /* enum fetcher_pods_status */
	uint64_t bytes;		       /* of the records; OK comes with a descriptor of them */
	uint64_t left_out;	       /* values longer than FETCHER_MAX_VALUE, since the start */
	char text[FETCHER_TEXT_BYTES]; /* for a person, "" when OK */
};

/* The role's life after it has given up its privileges: serves until `fd` is closed. Returns the exit
 * status. */
int fetcher_run(const struct fetcher_options *o, int fd);

/* Fetches the debug information of a build id into out_fd (empty, writable). Thread-safe; one is
 * served after the other. Blocks until the role has an answer, or fetcher_stop. */
enum fetcher_status fetcher_debuginfo(int fetcher_fd, const uint8_t *build_id,
	uint32_t build_id_len, int out_fd, struct fetcher_reply *ret);

/* No further requests: who waits for an answer waits no longer. */
void fetcher_stop(int fetcher_fd);

/* Asks for updates of pods: from now on the returned socket gets a struct fetcher_pods_update with what is there after each
 * change and for each failure. Negative errno when the role is gone. */
int fetcher_pods_subscribe(int fetcher_fd);
/* The next update within timeout_ms: 1 and, when OK, the records' descriptor (the caller's), 0 when there is none, -EPIPE when
 * the role is gone. */
int fetcher_pods_next(
	int sock, int timeout_ms, struct fetcher_pods_update *ret, int *ret_fd) _must_check_;
