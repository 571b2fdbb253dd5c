/* SPDX-License-Identifier: Apache-2.0
 *
 * One run: a process and what comes of it, watched until it ends and its last second is in the exporter's log.
 */
#include "cli/bench.h"
#include "lib/base/alloc.h"
#include "lib/net/gzip.h"
#include "lib/prof/merge.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
	READ_EVERY_MS = 60000, /* well within what an exporter keeps */
	CLOSE_TIMEOUT_MS = 30000,
	CLOSE_POLL_MS = 200,
	MAX_PROFILE_BYTES = 1 << 30,
};

static int64_t now_ms(void)
{
	return clock_monotonic_ns(&clock_system) / 1000000;
}

static sigset_t signals(void)
{
	static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaddset(&set, numbers[i]);
	return set;
}

void bench_block_signals(void)
{
	sigset_t set = signals();

	sigprocmask(SIG_BLOCK, &set, NULL);
}

void bench_unblock_signals(void)
{
	sigset_t set = signals();

	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void set_environment(const char *side, unsigned number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	setenv("SONDE_BENCH_SIDE", side, 1);
	setenv("SONDE_BENCH_RUN", text, 1);
}

/* A child that execs argv, its output on our standard error so that ours stays a result; the errno of a failed exec comes by a pipe. */
static pid_t start(char *const *argv, const char *side, unsigned number, struct errbuf *eb)
{
	int pipe_fds[2], error = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(eb, -errno, "pipe: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		bench_unblock_signals();
		set_environment(side, number);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(argv[0], argv);
		error = errno;
		n = write(pipe_fds[1], &error, sizeof(error));
		_exit(n == (ssize_t)sizeof(error) ? 127 : 126);
	}
	close(pipe_fds[1]);
	n = pid > 0 ? read(pipe_fds[0], &error, sizeof(error)) : 0;
	close(pipe_fds[0]);
	if (pid < 0)
		return err_set(eb, -errno, "fork: %s", strerror(errno));
	if (n == (ssize_t)sizeof(error)) {
		waitpid(pid, NULL, 0);
		return err_set(eb, -error, "%s: %s", argv[0], strerror(error));
	}
	return pid;
}

int bench_hook(
	const char *what, const char *command, const char *side, unsigned number, struct errbuf *eb)
{
	_cleanup_free_ char *copy = command ? xstrdup(command) : NULL;
	char shell[] = "/bin/sh", flag[] = "-c";
	char *const argv[] = {shell, flag, copy, NULL};
	int status;
	pid_t pid;

	if (!command)
		return 0;
	pid = start(argv, side, number, eb);
	if (pid < 0)
		return err_prefix(eb, (int)pid, "--%s", what);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(eb, -errno, "--%s: %s", what, strerror(errno));
	if (status)
		return err_set(eb, -ECHILD, "--%s failed before or after run %u of %s: %s", what,
			number, side, command);
	return 0;
}

/* Adds what the exporter has to the sum. */
static int read_on(const struct bench_exporter *e, pid_t pid, char **cursor, struct prof_merge *sum,
	int64_t *ret_end_ns, uint64_t *ret_behind, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes gz, raw;
	_cleanup_profile_ struct profile p;
	int r;

	bytes_init(&gz, NULL, 0);
	bytes_init(&raw, NULL, 0);
	profile_init(&p, NULL);
	r = bench_exporter_read(e, pid, cursor, &gz, ret_behind, eb);
	if (!r)
		r = gzip_inflate(gz.data, gz.len, MAX_PROFILE_BYTES, &raw, eb);
	if (!r)
		r = prof_decode(raw.data, raw.len, &p, eb);
	if (!r && p.duration_ns)
		r = prof_merge_add(sum, &p, "the exporter's profile", eb);
	if (!r && p.duration_ns)
		*ret_end_ns = p.time_ns + p.duration_ns;
	return r;
}

/* Until the exporter has the second in which the command ended. */
static int read_rest(const struct bench_exporter *e, pid_t pid, char **cursor,
	struct prof_merge *sum, int64_t ended_ns, struct errbuf *eb)
{
	int64_t end_ns = 0, give_up = now_ms() + CLOSE_TIMEOUT_MS;
	uint64_t behind = 0;

	for (;;) {
		int r = read_on(e, pid, cursor, sum, &end_ns, &behind, eb);

		if (r || (end_ns >= ended_ns && !behind))
			return r;
		if (now_ms() > give_up)
			return err_set(eb, -ETIMEDOUT,
				"the exporter has not closed the run's last second after 30 s");
		clock_system.sleep_until_ns(&clock_system,
			clock_monotonic_ns(&clock_system) + CLOSE_POLL_MS * 1000000LL);
	}
}

/* Waits for the command; meanwhile a long run's seconds are fetched before the exporter forgets them. */
static int watch(const struct bench_exporter *e, pid_t pid, char **cursor, struct prof_merge *sum,
	int *ret_status, struct rusage *ret_usage, struct errbuf *eb)
{
	const struct timespec tick = {.tv_sec = 1};
	int64_t next = now_ms() + READ_EVERY_MS, end_ns;
	sigset_t set = signals();
	uint64_t behind;
	int r = 0, signal;

	for (;;) {
		pid_t done = wait4(pid, ret_status, WNOHANG, ret_usage);

		if (done == pid)
			return r;
		if (done < 0 && errno != EINTR)
			return err_set(eb, -errno, "wait: %s", strerror(errno));
		signal = sigtimedwait(&set, NULL, &tick);
		if (signal > 0 && signal != SIGCHLD) {
			kill(pid, SIGTERM);
			r = err_set(eb, -EINTR, "ended by signal %d", signal);
		}
		if (!r && now_ms() >= next) {
			r = read_on(e, pid, cursor, sum, &end_ns, &behind, eb);
			next = now_ms() + READ_EVERY_MS;
		}
	}
}

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void take_usage(const struct rusage *u, double wall_s, struct bench_result *ret)
{
	const double values[BENCH_N_METRICS] = {
		[BENCH_WALL] = wall_s,
		[BENCH_USER] = seconds_of(u->ru_utime),
		[BENCH_SYSTEM] = seconds_of(u->ru_stime),
		[BENCH_RSS] = (double)u->ru_maxrss * 1024,
		[BENCH_MINOR_FAULTS] = (double)u->ru_minflt,
		[BENCH_MAJOR_FAULTS] = (double)u->ru_majflt,
		[BENCH_READS] = (double)u->ru_inblock,
		[BENCH_WRITES] = (double)u->ru_oublock,
		[BENCH_VOLUNTARY_SWITCHES] = (double)u->ru_nvcsw,
		[BENCH_INVOLUNTARY_SWITCHES] = (double)u->ru_nivcsw,
	};

	memcpy(ret->metrics, values, sizeof(values));
}

static int encode(struct prof_merge *sum, struct bytes *ret, struct errbuf *eb)
{
	_cleanup_profile_ struct profile p;
	_cleanup_bytes_ struct bytes raw;
	int r;

	profile_init(&p, NULL);
	bytes_init(&raw, NULL, 0);
	r = prof_merge_finish(sum, &p, eb);
	if (!r)
		r = prof_encode(&p, &raw);
	return r ? r : gzip_deflate(raw.data, raw.len, 6, ret, eb);
}

int bench_run_sampled(const struct bench_exporter *e, const struct bench_run *run,
	struct bench_result *ret, struct bytes *profile, struct errbuf *eb)
{
	_cleanup_prof_merge_ struct prof_merge *sum = prof_merge_new(NULL);
	_cleanup_free_ char *cursor = NULL;
	struct rusage usage = {};
	int64_t begun_ns, ended_ns;
	double wall_s;
	pid_t pid;
	int r = bench_exporter_cursor(e, &cursor, eb);

	if (r)
		return r;
	begun_ns = clock_monotonic_ns(&clock_system);
	pid = start(run->argv, run->side, run->number, eb);
	if (pid < 0)
		return (int)pid;
	r = watch(e, pid, &cursor, sum, &ret->status, &usage, eb);
	ended_ns = clock_realtime_ns(&clock_system);
	wall_s = (double)(clock_monotonic_ns(&clock_system) - begun_ns) / 1e9;
	take_usage(&usage, wall_s, ret);
	if (!r)
		r = read_rest(e, pid, &cursor, sum, ended_ns, eb);
	return r ? r : encode(sum, profile, eb);
}
