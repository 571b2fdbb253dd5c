/* SPDX-License-Identifier: Apache-2.0
 *
 * A command that is held between fork and exec until what measures it is ready, so that it is measured from its first instruction.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <signal.h>
#include <sys/types.h>

struct command_spec {
	char *const *argv;
	char *const *environment; /* more of it, "NAME=VALUE", NULL at the end; NULL: none */
	const sigset_t *signals;  /* the mask that it gets */
	int out_fd, err_fd;	  /* its standard output and error; -1: ours */
};

struct command {
	pid_t pid; /* 0: none, or it was waited for */
	int release_fd, error_fd;
};
#define COMMAND_NONE ((struct command) {.release_fd = -1, .error_fd = -1})

/* Forks. `ret` is COMMAND_NONE before and on failure. */
int command_hold(
	const struct command_spec *spec, struct command *ret, struct errbuf *eb) _must_check_;
/* Lets it exec; the errno of a failed exec with a text, and then it is gone. */
int command_release(struct command *c, const char *name, struct errbuf *eb) _must_check_;
/* A held one never begins. Waits for it. */
void command_abandon(struct command *c);
/* SIGINT, SIGTERM or SIGHUP when it is blocked and has come, else 0. It goes on waiting to be read. */
int command_ending_signal(void);
