/* SPDX-License-Identifier: Apache-2.0
 *
 * One run: a process and what comes of it, watched until it ends and its last second is in the exporter's log.
 */
#include "cli/bench.h"
#include "cli/command.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* Well within what an exporter keeps. */
#define READ_EVERY_NS (60 * NS_PER_S)
enum { READ_BYTES = 4096 };

static sigset_t signals(void)
{
	static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaddset(&set, numbers[i]);
	return set;
}

void bench_block_signals(sigset_t *ret_before)
{
	sigset_t set = signals();

	sigprocmask(SIG_BLOCK, &set, ret_before);
}

/* Its output on our standard error, so that ours stays a result, or into `output`. Held. */
static int hold(char *const *argv, const char *side, unsigned number, int output,
	struct command *ret, struct errbuf *eb)
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
				    .out_fd = output >= 0 ? output : STDERR_FILENO,
				    .err_fd = output},
		ret, eb);
}

/* A signal that ends us is passed on, and its number what is returned; 0 without one. */
static int wait_for_hook(pid_t pid, int *ret_status, struct errbuf *eb)
{
	const sigset_t set = signals();
	int ended = 0;
	pid_t done;

	while ((done = waitpid(pid, ret_status, WNOHANG)) == 0) {
		int number = sigwaitinfo(&set, NULL);

		if (number <= 0 || number == SIGCHLD)
			continue;
		ended = number;
		kill(pid, SIGTERM);
	}
	return done < 0 ? err_set(eb, -errno, "wait: %s", strerror(errno)) : ended;
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
	r = hold(argv, side, number, -1, &c, eb);
	if (!r)
		r = command_release(&c, shell, eb);
	if (r < 0)
		return err_prefix(eb, r, "--%s", what);
	r = wait_for_hook(c.pid, &status, eb);
	if (r < 0)
		return err_prefix(eb, r, "--%s", what);
	if (r > 0)
		return err_set(eb, -EINTR, "ended by signal %d in --%s", r, what);
	if (status)
		return err_set(eb, -ECHILD, "--%s failed before or after run %u of %s: %s", what,
			number, side, command);
	return 0;
}

/* ---- while it runs ---- */

struct watching {
	struct bench_sampler *from;
	struct recorder *recorder;
	struct bench_probe probe;
	struct bench_result *result;
	const struct bench_run *run;
	pid_t pid;
	int output; /* what the command says; -1: it says it itself */
	int signal_fd;
	int64_t begun_ns, next_read_ns, next_point_ns;
};

static double seconds_since(const struct watching *w)
{
	return (double)(clock_monotonic_ns(&clock_system) - w->begun_ns) / 1e9;
}

/* Passes on what the command says, and looks for its progress in it. */
static void read_output(struct watching *w)
{
	char text[READ_BYTES];
	ssize_t n;

	while (w->output >= 0 && (n = read(w->output, text, sizeof(text))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		(void)!write(STDERR_FILENO, text, (size_t)n);
		bench_probe_output(&w->probe, text, (size_t)n);
	}
	if (w->output >= 0)
		close(TAKE_FD(w->output));
}

/* The signal by which the benchmark is to end, or 0. */
static int read_signal(struct watching *w)
{
	struct signalfd_siginfo si;
	int number = 0;

	while (read(w->signal_fd, &si, sizeof(si)) == sizeof(si))
		if (si.ssi_signo != SIGCHLD)
			number = (int)si.ssi_signo;
	return number;
}

/* What is due: points, and a long run's seconds before the exporter forgets them. */
static int do_due(struct watching *w, struct errbuf *eb)
{
	int64_t now = clock_monotonic_ns(&clock_system);
	int r = own_exporter_poll(&w->from->own, eb);

	if (!r && now >= w->next_point_ns) {
		r = bench_probe_take(&w->probe, seconds_since(w), false, &w->result->series, eb);
		w->next_point_ns +=
			(1 + (now - w->next_point_ns) / (w->run->interval_ms * NS_PER_MS)) *
			w->run->interval_ms * NS_PER_MS;
	}
	if (!r && now >= w->next_read_ns) {
		r = recorder_take(w->recorder, eb);
		w->next_read_ns = now + READ_EVERY_NS;
	}
	return r;
}

static void wait_for_event(struct watching *w)
{
	struct pollfd p[] = {
		{.fd = w->signal_fd, .events = POLLIN}, {.fd = w->output, .events = POLLIN}};
	int64_t left = w->next_point_ns - clock_monotonic_ns(&clock_system);

	(void)poll(p, ARRAY_SIZE(p), left > 0 ? (int)(left / NS_PER_MS) + 1 : 0);
}

/* Waits for the command. */
static int watch(struct watching *w, struct rusage *ret_usage, struct errbuf *eb)
{
	int r = 0, number;

	w->next_point_ns = w->begun_ns + w->run->interval_ms * NS_PER_MS;
	w->next_read_ns = w->begun_ns + READ_EVERY_NS;
	for (;;) {
		pid_t done = wait4(w->pid, &w->result->status, WNOHANG, ret_usage);

		read_output(w);
		if (done == w->pid)
			return r ? r
				 : bench_probe_take(&w->probe, seconds_since(w), true,
					   &w->result->series, eb);
		if (done < 0 && errno != EINTR)
			return err_set(eb, -errno, "wait: %s", strerror(errno));
		wait_for_event(w);
		number = read_signal(w);
		if (number) {
			kill(w->pid, SIGTERM);
			r = err_set(eb, -EINTR, "ended by signal %d", number);
		}
		if (!r)
			r = do_due(w, eb);
	}
}

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void take_usage(
	const struct rusage *u, double wall_s, double progress, struct bench_result *ret)
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
		[BENCH_PROGRESS] = isnan(progress) ? 0 : progress,
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

/* The output's pipe; `ret_write` is the command's. */
static int open_output(struct watching *w, int *ret_write, struct errbuf *eb)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(eb, -errno, "pipe: %s", strerror(errno));
	w->output = fds[0];
	*ret_write = fds[1];
	return fcntl(w->output, F_SETFL, O_NONBLOCK) < 0
		       ? err_set(eb, -errno, "fcntl: %s", strerror(errno))
		       : 0;
}

/* From the release of the command to its end. */
static int measure(struct watching *w, struct command *command, struct errbuf *eb)
{
	struct rusage usage = {};
	int r;

	bench_probe_begin(&w->probe, w->pid, w->run->progress);
	w->begun_ns = clock_monotonic_ns(&clock_system);
	w->result->begun_ms = clock_realtime_ns(&clock_system) / NS_PER_MS;
	r = command_release(command, w->run->argv[0], eb);
	if (r < 0)
		return r;
	command->pid = 0; /* waited for here */
	r = watch(w, &usage, eb);
	take_usage(&usage, seconds_since(w), w->probe.said, w->result);
	return r;
}

static int hold_and_measure(
	struct watching *w, struct command *command, struct bytes *profile, struct errbuf *eb)
{
	_cleanup_close_ int output = -1;
	char filter[64];
	int r = w->run->progress ? open_output(w, &output, eb) : 0;

	if (!r)
		r = hold(w->run->argv, w->run->side, w->run->number, output, command, eb);
	if (r)
		return r;
	if (output >= 0)
		close(TAKE_FD(output)); /* so that the command's end is that of its output */
	w->pid = command->pid;
	snprintf(filter, sizeof(filter), "&pid=%d&children=1", (int)w->pid);
	r = recorder_new(&w->from->server, event_source(ABI_EVENT_CPU), filter, &w->recorder, eb);
	if (!r) {
		recorder_resume(w->recorder);
		r = measure(w, command, eb);
	}
	return r ? r : finish(w->recorder, profile, eb);
}

int bench_run_sampled(struct bench_sampler *from, const struct bench_run *run,
	struct bench_result *ret, struct bytes *profile, struct errbuf *eb)
{
	_cleanup_(command_abandon)
	struct command command = COMMAND_NONE;
	const sigset_t set = signals();
	struct watching w = {
		.from = from, .run = run, .result = ret, .output = -1, .probe = BENCH_PROBE_NONE};
	int r;

	w.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	r = w.signal_fd < 0 ? err_set(eb, -errno, "signalfd: %s", strerror(errno))
			    : hold_and_measure(&w, &command, profile, eb);
	bench_probe_done(&w.probe);
	recorder_freep(&w.recorder);
	if (w.signal_fd >= 0)
		close(w.signal_fd);
	if (w.output >= 0)
		close(w.output);
	return r;
}
