/* SPDX-License-Identifier: Apache-2.0
 *
 * The side of keeper and openers in the protocol: one request in, one reply out. Checks everything; trusts the peer with
 * nothing but what the protocol offers.
 */
#pragma once
#include "exporter/keeper/copy.h"
#include "exporter/keeper/keeper.h"
#include <stddef.h>

/* What it does not do it refuses with -ENOTSUP. */
struct server {
	const char *procfs;
	bool opens_files;	   /* OPEN and OPEN_AT, which may never end: an opener's */
	struct copy_limit *copies; /* COPY, which may never end either; NULL: it does not */
	void *attach_ctx;
	/* A descriptor or -errno; `event` may be KEEPER_SIDEBAND. */
	int (*attach)(void *ctx, uint32_t event, uint32_t cpu, struct errbuf *eb);
	int (*attach_file)(
		void *ctx, uint32_t event, int file_fd, uint64_t offset, struct errbuf *eb);
	void *opener_ctx;
	/* Forks a process to answer a request that may never end: 0 in that process, which then ends. NULL: do it here. */
	int (*fork_helper)(void *ctx, struct errbuf *eb);
	int (*start_opener)(void *ctx, int *ret_sock, uint32_t *ret_pid, struct errbuf *eb);
};

/* The directory of the process that started then (0: any), which pins it; -ESRCH when the pid is another process by now. */
int server_open_process(const char *procfs, uint32_t pid, uint64_t start_ns);

/* Sleeps until there is a message, or none will come any more. 0 or -errno. */
int server_wait(int sock);
/* Answers one message from the socket. 0; -EPIPE when the peer is gone; -errno when the socket fails. Malformed requests are
 * answered with -EBADMSG. */
int server_answer(const struct server *s, int sock);
