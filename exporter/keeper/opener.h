/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that open files for main, beside the keeper: a path may lead to a file system that never answers, and who looks
 * it up then sleeps until it does, if ever. So the keeper itself looks up no path. It forks an opener when main asks for one
 * more, with the capabilities that opening needs and no others; main gives up one that does not answer and asks another.
 * Openers end with main's end of their socket, with the keeper, or when what they wait for answers at last.
 */
#pragma once
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { OPENER_MAX = 16 }; /* alive at once, those that hang included */

struct openers {
	const char *procfs;
	pid_t keeper;
	bool copies;		/* they copy memory of processes too */
	pid_t pids[OPENER_MAX]; /* 0: none */
};

/* One more opener; *ret_sock is main's end of its socket. -EBUSY with a text when OPENER_MAX are alive. */
int opener_start(
	struct openers *o, int *ret_sock, uint32_t *ret_pid, struct errbuf *eb) _must_check_;
/* A process of the keeper's own kind, counted as openers are, for one request that may never end: its pid, 0 in that process, or
 * -errno with a text. */
int opener_fork(struct openers *o, struct errbuf *eb) _must_check_;
/* True when the child that was reaped was an opener. */
bool opener_reaped(struct openers *o, pid_t pid);
void opener_kill(const struct openers *o);
