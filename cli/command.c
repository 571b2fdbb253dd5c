/* SPDX-License-Identifier: Apache-2.0
 *
 * Two pipes: one whose end lets the command begin, one by which it says why it could not.
 */
#include "cli/command.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void become(const struct command_spec *spec, int wait_fd, int error_fd)
{
	const char *slash = strrchr(spec->argv[0], '/');
	char go;
	int error;

	/* What is sampled before it has come out of exec is its own too. */
	(void)prctl(PR_SET_NAME, slash ? slash + 1 : spec->argv[0]);
	if (read(wait_fd, &go, 1) != 1)
		_exit(127);
	(void)sigprocmask(SIG_SETMASK, spec->signals, NULL);
	for (char *const *e = spec->environment; e && *e; e++)
		(void)putenv(*e);
	if (spec->out_fd >= 0)
		(void)dup2(spec->out_fd, STDOUT_FILENO);
	if (spec->err_fd >= 0)
		(void)dup2(spec->err_fd, STDERR_FILENO);
	execvp(spec->argv[0], spec->argv);
	error = errno;
	(void)!write(error_fd, &error, sizeof(error));
	_exit(127);
}

int command_hold(const struct command_spec *spec, struct command *ret, struct errbuf *eb)
{
	int go[2], error[2], r;

	if (pipe2(go, O_CLOEXEC) < 0)
		return err_set(eb, -errno, "pipe: %s", strerror(errno));
	if (pipe2(error, O_CLOEXEC) < 0) {
		r = err_set(eb, -errno, "pipe: %s", strerror(errno));
		close(go[0]);
		close(go[1]);
		return r;
	}
	ret->pid = fork();
	if (ret->pid == 0) {
		close(go[1]);
		close(error[0]);
		become(spec, go[0], error[1]);
	}
	r = ret->pid < 0 ? err_set(eb, -errno, "fork: %s", strerror(errno)) : 0;
	close(go[0]);
	close(error[1]);
	ret->release_fd = go[1];
	ret->error_fd = error[0];
	if (r < 0) {
		ret->pid = 0;
		command_abandon(ret);
	}
	return r;
}

int command_release(struct command *c, const char *name, struct errbuf *eb)
{
	int error = 0;
	ssize_t n;

	(void)!write(c->release_fd, "g", 1);
	close(TAKE_FD(c->release_fd));
	do
		n = read(c->error_fd, &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	close(TAKE_FD(c->error_fd));
	if (n != (ssize_t)sizeof(error))
		return 0;
	command_abandon(c);
	return err_set(eb, -error, "%s: %s", name, strerror(error));
}

int command_ending_signal(void)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t pending;

	sigemptyset(&pending);
	(void)sigpending(&pending);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		if (sigismember(&pending, ending[i]) == 1)
			return ending[i];
	return 0;
}

void command_abandon(struct command *c)
{
	if (c->release_fd >= 0)
		close(TAKE_FD(c->release_fd));
	if (c->error_fd >= 0)
		close(TAKE_FD(c->error_fd));
	while (c->pid > 0 && waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
}
