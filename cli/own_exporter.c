/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting and ending an exporter for one recording. Between the two stands a guard: a process that does nothing but wait for a pipe from
 * us to close, which it does however we end, and then ends the exporter. A signal at our death would not do: the kernel forgets it when
 * the exporter changes its user.
 */
#include "cli/command.h"
#include "cli/recorder.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/base/sandbox.h"
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#define START_TIMEOUT_NS (60 * NS_PER_S)
enum { STOP_TIMEOUT_MS = 10000, READ_BYTES = 4096, MAX_LINE_BYTES = 16 << 10 };

/* Beside this program, else by PATH. */
static char *find_program(void)
{
	char path[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	struct fs_stat st;

	if (n > 0) {
		path[n] = '\0';
		slash = strrchr(path, '/');
		if (slash &&
			(size_t)(slash + 1 - path) + sizeof("sonde-exporter") <= sizeof(path)) {
			memcpy(slash + 1, "sonde-exporter", sizeof("sonde-exporter"));
			if (fs_system.stat(&fs_system, path, &st) == 0)
				return xstrdup(path);
		}
	}
	return xstrdup("sonde-exporter");
}

struct start {
	const char *program;
	const struct event_source *type;
	uint64_t hz;
};

static _Noreturn void become_exporter(const struct start *s, int log_fd)
{
	_cleanup_free_ char *type = xasprintf("--profile.types=%s", s->type->name);
	_cleanup_free_ char *frequency =
		xasprintf("--profile.frequency=%llu", (unsigned long long)s->hz);
	_cleanup_free_ char *maximum =
		xasprintf("--profile.max-frequency=%llu", (unsigned long long)MAX(s->hz, 999ULL));
	const char *argv[] = {s->program, "--web.listen-address=127.0.0.1:0",
		"--profile.max-overhead=0", type, frequency, maximum, NULL};
	sigset_t none;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)dup2(log_fd, STDOUT_FILENO);
	(void)dup2(log_fd, STDERR_FILENO);
	execvp(s->program, (char *const *)(uintptr_t)argv);
	dprintf(STDERR_FILENO, "level=error msg=\"%s cannot be started: %s\"\n", s->program,
		strerror(errno));
	_exit(127);
}

/* Until the exporter has ended, or our parent has closed the pipe in whatever way. */
static void watch(pid_t pid, int life_fd)
{
	_cleanup_close_ int exporter = pidfd_open(pid, 0);
	struct pollfd p[] = {{.fd = life_fd, .events = POLLIN}, {.fd = exporter, .events = POLLIN}};

	while (poll(p, ARRAY_SIZE(p), -1) < 0 && errno == EINTR)
		;
	if (!p[1].revents) {
		kill(pid, SIGTERM);
		(void)poll(p + 1, 1, STOP_TIMEOUT_MS);
		kill(pid, SIGKILL);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* In a session of its own, so that a terminal's signals do not end it first; with nothing of ours open but the two. */
static _Noreturn void guard(const struct start *s, int log_fd, int life_fd)
{
	sigset_t all;
	pid_t pid;

	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	if (sandbox_close_others((const int[]) {log_fd, life_fd}, 2) < 0)
		_exit(1);
	pid = fork();
	if (pid == 0)
		become_exporter(s, log_fd);
	close(log_fd); /* so that its end is the exporter's */
	if (pid > 0)
		watch(pid, life_fd);
	_exit(0);
}

/* Its address, from "… msg=listening address=127.0.0.1:PORT"; what is worth a warning is passed on. */
static void take_line(struct own_exporter *x, const char *line)
{
	static const char mark[] = "msg=listening address=";
	const char *address = strstr(line, mark);

	if (address && !x->url[0])
		snprintf(x->url, sizeof(x->url), "http://%.48s", address + strlen(mark));
	else if (strstr(line, "level=warn") || strstr(line, "level=error"))
		fprintf(stderr, "%s\n", line);
}

static void take_lines(struct own_exporter *x)
{
	size_t from = 0;

	for (size_t i = 0; i < x->line.len; i++)
		if (x->line.data[i] == '\n') {
			x->line.data[i] = '\0';
			take_line(x, (const char *)x->line.data + from);
			from = i + 1;
		}
	memmove(x->line.data, x->line.data + from, x->line.len - from);
	x->line.len -= from;
	if (x->line.len > MAX_LINE_BYTES)
		bytes_reset(&x->line);
}

int own_exporter_poll(struct own_exporter *x, struct errbuf *eb)
{
	while (x->guard > 0) {
		uint8_t *to = bytes_reserve(&x->line, READ_BYTES);
		ssize_t n = to ? read(x->log_fd, to, READ_BYTES) : 0;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0)
			return err_set(eb, -EPIPE, "the exporter has ended");
		x->line.len += (size_t)n;
		take_lines(x);
	}
	return 0;
}

static int wait_until_it_listens(struct own_exporter *x, struct errbuf *eb)
{
	int64_t give_up = clock_monotonic_ns(&clock_system) + START_TIMEOUT_NS;
	struct pollfd p = {.fd = x->log_fd, .events = POLLIN};

	while (!x->url[0]) {
		int r = own_exporter_poll(x, NULL), number = command_ending_signal();

		if (r < 0 && !x->url[0])
			return err_set(eb, -ECHILD,
				"the exporter did not start: see above, or give --exporter");
		if (number)
			return err_set(eb, -EINTR,
				"ended by signal %d before the exporter had started", number);
		if (clock_monotonic_ns(&clock_system) > give_up)
			return err_set(eb, -ETIMEDOUT, "the exporter has not started after 60 s");
		if (!x->url[0])
			(void)poll(&p, 1, 100);
	}
	return 0;
}

int own_exporter_start(struct own_exporter *x, const struct event_source *type,
	uint64_t frequency_hz, struct errbuf *eb)
{
	_cleanup_free_ char *program = find_program();
	_cleanup_close_ int from = -1, to = -1, life = -1, ours = -1;
	int log_fds[2], life_fds[2];

	*x = OWN_EXPORTER_NONE;
	bytes_init(&x->line, NULL, 0);
	if (pipe2(log_fds, O_CLOEXEC) < 0)
		return err_set(eb, -errno, "pipe: %s", strerror(errno));
	from = log_fds[0];
	to = log_fds[1];
	if (pipe2(life_fds, O_CLOEXEC) < 0)
		return err_set(eb, -errno, "pipe: %s", strerror(errno));
	life = life_fds[0];
	ours = life_fds[1];
	x->guard = fork();
	if (x->guard < 0)
		return err_set(eb, -errno, "fork: %s", strerror(errno));
	if (x->guard == 0)
		guard(&(struct start) {.program = program, .type = type, .hz = frequency_hz}, to,
			life);
	x->life_fd = TAKE_FD(ours);
	if (fcntl(from, F_SETFL, O_NONBLOCK) < 0)
		return err_set(eb, -errno, "fcntl: %s", strerror(errno));
	x->log_fd = TAKE_FD(from);
	close(TAKE_FD(to));
	return wait_until_it_listens(x, eb);
}

void own_exporter_stop(struct own_exporter *x)
{
	if (x->life_fd >= 0)
		close(x->life_fd);
	while (x->guard > 0 && waitpid(x->guard, NULL, 0) < 0 && errno == EINTR)
		;
	if (x->log_fd >= 0)
		close(x->log_fd);
	bytes_done(&x->line);
	*x = OWN_EXPORTER_NONE;
}
