/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's children: passes signals on to main, distinguishes who has ended, and ends all when one role does. Children
 * that are neither roles nor openers, which whoever ran the program before may have started, are reaped and ignored.
 */
#pragma once
#include "exporter/keeper/opener.h"

/* Invariant: pid is 0 exactly when the role was never started or has been reaped, so no signal reaches a stranger. */
struct supervise_role {
	const char *name;
	pid_t pid;
};

struct supervision {
	struct supervise_role *roles; /* the first is main */
	size_t n_roles;
	struct openers *openers;
	int signal_fd; /* non-blocking: SIGCHLD and the signals to pass on */
	int end_ms;    /* that main has after one that is to end the program; SIGHUP is none */

	/* supervise.c's */
	int end_signal; /* 0: none came */
	int64_t deadline_ns;
};

/* Reads the signals that came, reaps who ended. -EAGAIN, or the exit status with which all must end: main's, or 128 and the
 * signal that ended it; such a sum or 1 for another role that did more than close its socket; 1 for a main that did not end in
 * time. */
int supervise_step(struct supervision *s);
/* At most until the next step, as poll's timeout; signal_fd may be ready before. */
int supervise_wait_ms(const struct supervision *s);
/* Kills roles and openers that are left and reaps them; not those that sleep in the kernel for good. */
void supervise_end(struct supervision *s);
