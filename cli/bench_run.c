/* SPDX-License-Identifier: Apache-2.0
 *
 * One run: a process and what comes of it, watched until it ends and its last second is in the exporter's log.
 */
#include "cli/bench.h"
#include "cli/command.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
	READ_EVERY_MS = 60000, /* well within what an exporter keeps */
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

/* Its output on our standard error, so that ours stays a result. Held; `environment` is that of the two variables. */
static int hold(char *const *argv, const char *side, unsigned number, struct command *ret,
	struct errbuf *eb)
{
	_cleanup_free_ char *side_text = xasprintf("SONDE_BENCH_SIDE=%s", side);
	_cleanup_free_ char *run_text = xasprintf("SONDE_BENCH_RUN=%u", number);
	char *environment[] = {side_text, run_text, NULL};
	sigset_t mask, ours = signals();

	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&ours, i) == 1)
			sigdelset(&mask, i);
	return command_hold(&(struct command_spec) {.argv = argv,
				    .environment = environment,
				    .signals = &mask,
				    .out_fd = STDERR_FILENO,
				    .err_fd = -1},
		ret, eb);
}

int bench_hook(
	const char *what, const char *command, const char *side, unsigned number, struct errbuf *eb)
{
	_cleanup_free_ char *copy = command ? xstrdup(command) : NULL;
	char shell[] = "/bin/sh", flag[] = "-c";
	char *const argv[] = {shell, flag, copy, NULL};
	struct command c = COMMAND_NONE;
	int status, r;

	if (!command)
		return 0;
	r = hold(argv, side, number, &c, eb);
	if (!r)
		r = command_release(&c, shell, eb);
	if (r < 0)
		return err_prefix(eb, r, "--%s", what);
	while (waitpid(c.pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(eb, -errno, "--%s: %s", what, strerror(errno));
	if (status)
		return err_set(eb, -ECHILD, "--%s failed before or after run %u of %s: %s", what,
			number, side, command);
	return 0;
}

/* Waits for the command; meanwhile a long run's seconds are fetched before the exporter forgets them. */
static int watch(struct bench_sampler *from, struct recorder *recorder, pid_t pid, int *ret_status,
	struct rusage *ret_usage, struct errbuf *eb)
{
	const struct timespec tick = {.tv_sec = 1};
	int64_t next = now_ms() + READ_EVERY_MS;
	sigset_t set = signals();
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
		if (!r)
			r = own_exporter_poll(&from->own, eb);
		if (!r && now_ms() >= next) {
			r = recorder_take(recorder, eb);
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

/* The run's last seconds, and whether any is missing. */
static int finish(struct recorder *recorder, struct bytes *profile, struct errbuf *eb)
{
	struct recorder_stats stats;
	int r = recorder_pause(recorder, eb);

	if (!r)
		r = recorder_finish(recorder, profile, eb);
	recorder_stats(recorder, &stats);
	if (!r && stats.lost_seconds)
		r = err_set(eb, -EIO, "the exporter lost %llu seconds of this run",
			(unsigned long long)stats.lost_seconds);
	return r;
}

int bench_run_sampled(struct bench_sampler *from, const struct bench_run *run,
	struct bench_result *ret, struct bytes *profile, struct errbuf *eb)
{
	_cleanup_(recorder_freep)
	struct recorder *recorder = NULL;
	_cleanup_(command_abandon)
	struct command command = COMMAND_NONE;
	char filter[64];
	struct rusage usage = {};
	int64_t begun_ns;
	pid_t pid;
	int r = hold(run->argv, run->side, run->number, &command, eb);

	if (r < 0)
		return r;
	pid = command.pid;
	snprintf(filter, sizeof(filter), "&pid=%d&children=1", (int)pid);
	r = recorder_new(&from->server, filter, &recorder, eb);
	if (!r)
		r = recorder_resume(recorder, eb);
	begun_ns = clock_monotonic_ns(&clock_system);
	if (!r)
		r = command_release(&command, run->argv[0], eb);
	if (r < 0)
		return r;
	command.pid = 0; /* waited for here */
	r = watch(from, recorder, pid, &ret->status, &usage, eb);
	take_usage(&usage, (double)(clock_monotonic_ns(&clock_system) - begun_ns) / 1e9, ret);
	return r ? r : finish(recorder, profile, eb);
}
