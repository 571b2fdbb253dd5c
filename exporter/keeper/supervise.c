/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's children. One SIGCHLD stands for any number of them, so each step reaps all that have ended.
 */
#include "exporter/keeper/supervise.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that sleeps in a file system that does not answer may outlive SIGKILL, which is no reason to stay. */
#define KILL_NS (2 * NS_PER_S)

static struct supervise_role *find(const struct supervision *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_roles; i++)
		if (s->roles[i].pid == pid)
			return &s->roles[i];
	return NULL;
}

/* The exit status when all must end, -EAGAIN when they need not. */
static int judge(const struct supervise_role *role, bool is_main, int status)
{
	bool exited = WIFEXITED(status);
	int code = exited ? WEXITSTATUS(status) : WTERMSIG(status);

	/* The other roles' sockets are closed when main is ending. */
	if (exited && (is_main || code == 0)) {
		log_printf(LOG_DEBUG, "%s ended (status %d)", role->name, code);
		return is_main ? code : -EAGAIN;
	}
	log_printf(LOG_ERROR, "%s ended unexpectedly (%s %d): stopping", role->name,
		exited ? "status" : "signal", code);
	return exited ? 1 : 128 + code;
}

/* As judge; the first that must end all decides. */
static int reap(struct supervision *s)
{
	int result = -EAGAIN, status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct supervise_role *role = find(s, pid);
		int r = -EAGAIN;

		if (role) {
			r = judge(role, role == s->roles, status);
			role->pid = 0;
		} else if (!opener_reaped(s->openers, pid)) {
			log_printf(LOG_DEBUG, "reaped process %d, which is no role", (int)pid);
		}
		if (result < 0)
			result = r;
	}
	return result;
}

/* The terminal sends its signals to the whole group, so main has those already. */
static void pass_on(struct supervision *s, const struct signalfd_siginfo *si)
{
	int number = (int)si->ssi_signo;

	if (number == SIGCHLD)
		return;
	if (si->ssi_code != SI_KERNEL && s->roles[0].pid > 0)
		kill(s->roles[0].pid, number);
	if (number != SIGHUP && !s->end_signal) {
		s->end_signal = number;
		s->deadline_ns = clock_monotonic_ns(&clock_system) + s->end_ms * NS_PER_MS;
	}
}

static int ms_until(int64_t ns)
{
	return (int)MAX((ns - clock_monotonic_ns(&clock_system) + NS_PER_MS - 1) / NS_PER_MS, 0);
}

int supervise_step(struct supervision *s)
{
	struct signalfd_siginfo si;
	int r;

	while (read(s->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		pass_on(s, &si);
	r = reap(s);
	if (r < 0 && supervise_wait_ms(s) == 0) {
		log_printf(LOG_ERROR, "%s did not end within %g s of SIG%s: killing it",
			s->roles[0].name, s->end_ms / 1e3, sigabbrev_np(s->end_signal));
		return 1;
	}
	return r;
}

int supervise_wait_ms(const struct supervision *s)
{
	return s->end_signal ? ms_until(s->deadline_ns) : -1;
}

static void wait_killed(const char *name, pid_t *pid, int signal_fd, int64_t until_ns)
{
	struct pollfd p = {.fd = signal_fd, .events = POLLIN};
	struct signalfd_siginfo si;

	while (*pid > 0 && waitpid(*pid, NULL, WNOHANG) == 0) {
		if (ms_until(until_ns) == 0) {
			log_printf(LOG_WARN,
				"%s (process %d) hangs in the kernel: ending without it", name,
				(int)*pid);
			break;
		}
		(void)poll(&p, 1, ms_until(until_ns));
		while (read(signal_fd, &si, sizeof(si)) > 0)
			;
	}
	*pid = 0;
}

/* Waits for its own alone: a stranger may live on. */
void supervise_end(struct supervision *s)
{
	int64_t until_ns = clock_monotonic_ns(&clock_system) + KILL_NS;

	for (size_t i = 0; i < s->n_roles; i++)
		if (s->roles[i].pid > 0)
			kill(s->roles[i].pid, SIGKILL);
	opener_kill(s->openers);
	for (size_t i = 0; i < s->n_roles; i++)
		wait_killed(s->roles[i].name, &s->roles[i].pid, s->signal_fd, until_ns);
	for (size_t i = 0; i < OPENER_MAX; i++)
		wait_killed("an opener", &s->openers->pids[i], s->signal_fd, until_ns);
}
