/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde record: a profile of a command, of processes or of the machine into a file.
 */
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/recorder.h"
#include "cli/window.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/regex.h"
#include "lib/base/str.h"
#include "lib/net/url/url.h"
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* Well within what exporters keep; what comes late is named by symbol files that were made meanwhile. */
#define TAKE_INTERVAL_NS (20 * NS_PER_S)
enum { TICK_MS = 100 };

struct record_options {
	struct cli_server_options server;
	const char *type, *output, *window, *start_on, *stop_on;
	const char *interp_frames; /* NULL: as the exporter has it */
	struct option_list pids, cgroups, comms;
	uint64_t frequency, min_samples;
	int64_t duration_ms;
	double max_lost;
	bool all, lines, quiet;
};

#define AT(field) offsetof(struct record_options, field)

static const struct option_spec specs[] = {
	OPTION_HEADING("What"),
	{"all", OPTION_BOOL, AT(all), .help = "The whole machine.", .letter = 'a'},
	{"pid", OPTION_STRINGS, AT(pids), .value = "PID",
		.help = "This process with its descendants. May be repeated. The recording ends "
			"when the last of them is gone.",
		.letter = 'p'},
	{"cgroup", OPTION_STRINGS, AT(cgroups), .value = "PATH",
		.help = "Processes in this control group and below it, by its path from the root "
			"of "
			"the hierarchy (/system.slice/postgresql.service). May be repeated."},
	{"comm", OPTION_STRINGS, AT(comms), .value = "REGEX",
		.help = "Processes of this name (RE2, the whole name). May be repeated."},

	{"type", OPTION_STRING, AT(type), .value = "NAME", .fallback = "cpu",
		.help = "What is recorded: a profile type of the exporter, by its name in "
			"--profile.types. A running exporter (--exporter) must have it on."},

	OPTION_HEADING("How"),
	{"output", OPTION_STRING, AT(output), .value = "FILE", .fallback = "sonde.pb.gz",
		.help = "Where the profile goes; \"-\" is standard output.", .letter = 'o'},
	{"frequency", OPTION_U64, AT(frequency), .value = "HZ", .fallback = "99", .min = 1,
		.max = 10000,
		.help = "Samples per second and CPU. Not with --exporter, which has its own rate.",
		.letter = 'F'},
	{"duration", OPTION_DURATION, AT(duration_ms), .fallback = "0s", .min = 0,
		.max = 7LL * 86400 * 1000,
		.help = "Length of the recording. 0: until the command or the processes end, or a "
			"signal.",
		.letter = 'd'},
	{"window", OPTION_STRING, AT(window), .value = "fifo:PATH",
		.help = "Records only between a line \"start\" and a line \"stop\" in this pipe; "
			"sonde mark writes them. The pipe is made when missing. \"mark NAME\" "
			"leaves a comment with the time, \"end\" ends the recording. Windows begin "
			"and end with the exporter's seconds."},
	{"start-on", OPTION_CHOICE, AT(start_on), .value = "USR1|USR2",
		.help = "Records nothing until sonde record gets this signal. The signal also goes "
			"on after --stop-on."},
	{"stop-on", OPTION_CHOICE, AT(stop_on), .value = "USR1|USR2",
		.help = "Stops the recording. The same signal as --start-on turns it on and off."},
	{"lines", OPTION_BOOL, AT(lines), .help = "With source lines and inlined functions."},
	{"interp.frames", OPTION_CHOICE, AT(interp_frames), .value = "fold|keep|only",
		.help = "What the profile has of an interpreter around the frames of its language. "
			"fold: one frame for each run of its own native frames. keep: all. only: "
			"the language's frames alone. Default: as the exporter, which folds unless "
			"its own flag of this name says otherwise."},
	{"max-lost", OPTION_DOUBLE, AT(max_lost), .value = "SHARE", .fallback = "0.05", .min = 0,
		.max = 1,
		.help = "Fails when a larger share of the samples was lost; the profile is written "
			"all the same."},
	{"min-samples", OPTION_U64, AT(min_samples), .value = "N", .fallback = "0", .min = 0,
		.max = 1e15,
		.help = "Fails when fewer samples were taken; the profile is written all the "
			"same."},
	{"quiet", OPTION_BOOL, AT(quiet), .help = "No progress and no summary.", .letter = 'q'},

	OPTION_HEADING("From"),
	CLI_SERVER_OPTIONS(struct record_options, "exporter", NULL,
		"A running exporter, by its base address: http://127.0.0.1:7273. Without it sonde "
		"record starts one of its own, which needs root."),
};

static const struct option_program program = {
	.name = "sonde record",
	.summary = "record a profile of a command, of processes or of the machine",
	.arguments = "[-- COMMAND ARGUMENT...]",
	.description = "Writes a pprof profile. The samples come from a running exporter "
		       "(--exporter), or from one that sonde record starts, which needs root. That "
		       "one is the sonde-exporter beside this program, else the one in PATH. Of "
		       "-p, --cgroup and --comm, all kinds that are given must fit a process.\n"
		       "\n"
		       "A command is recorded from its first instruction to its end, with its "
		       "descendants; with -a too, the whole machine is recorded meanwhile. SIGINT, "
		       "SIGTERM and SIGHUP go on to the command and end the recording; the profile "
		       "so far is written.",
	.specs = specs,
	.n_specs = ARRAY_SIZE(specs),
	.exit_status = "N      exit status of the command; 128 and the signal's number where a "
		       "signal ended it\n"
		       "1      nothing could be recorded or written, more than --max-lost was "
		       "lost, or fewer than --min-samples were taken",
	.examples = "sonde record -o before.pb.gz -- ./run --quickly\n"
		    "sonde record -p 4711 -d 30s -o cpu.pb.gz && sonde flamegraph -o cpu.html "
		    "cpu.pb.gz\n"
		    "sonde record -a --exporter http://127.0.0.1:7273 -d 10s\n",
};

struct recording {
	const struct record_options *o;
	const struct event_source *type;
	char *const *command; /* NULL: none */
	struct own_exporter exporter;
	struct recorder *recorder;
	struct command child;
	struct window window;
	int signal_fd;
	int64_t start_ns, next_ns;
	bool ends;
	int status; /* of the command */
};

/* ── what is asked for ── */

static void put_parameter(struct bytes *out, const char *name, const char *value)
{
	bytes_printf(out, "&%s=", name);
	url_escape_query(out, value, strlen(value));
}

/* The group and those below it, as an expression. */
static void put_cgroup(struct bytes *out, const char *path)
{
	_cleanup_bytes_ struct bytes text = {0};
	size_t n = strlen(path);

	while (n && path[n - 1] == '/')
		n--;
	bytes_put_str(&text, *path == '/' || !n ? "~" : "~/");
	for (size_t i = 0; i < n; i++) {
		if (ispunct((unsigned char)path[i]) && path[i] != '/' && path[i] != '_')
			bytes_put_u8(&text, '\\');
		bytes_put_u8(&text, (uint8_t)path[i]);
	}
	bytes_put_str(&text, "(/.*)?");
	bytes_put_u8(&text, '\0');
	put_parameter(out, "label.cgroup", (const char *)text.data);
}

static void put_filter(const struct recording *k, struct bytes *out)
{
	const struct record_options *o = k->o;
	char pid[16];

	bytes_put_str(out, o->lines ? "&symbolize=lines" : "");
	if (o->interp_frames)
		put_parameter(out, "interp", o->interp_frames);
	for (size_t i = 0; i < o->pids.n; i++)
		put_parameter(out, "pid", o->pids.items[i]);
	snprintf(pid, sizeof(pid), "%d", (int)k->child.pid);
	if (k->child.pid && !o->all)
		put_parameter(out, "pid", pid);
	if (o->pids.n || (k->child.pid && !o->all))
		bytes_put_str(out, "&children=1");
	for (size_t i = 0; i < o->cgroups.n; i++)
		put_cgroup(out, o->cgroups.items[i]);
	for (size_t i = 0; i < o->comms.n; i++) {
		_cleanup_free_ char *text = xasprintf("~%s", o->comms.items[i]);

		put_parameter(out, "comm", text);
	}
	bytes_put_u8(out, '\0');
}

/* ── the command ── */

/* What it runs finds the window by its environment. */
static int hold_command(struct recording *k, const sigset_t *signals, struct errbuf *eb)
{
	_cleanup_free_ char *window =
		xasprintf(WINDOW_VARIABLE "=fifo:%s", k->window.path ? k->window.path : "");
	char *environment[] = {k->window.path ? window : NULL, NULL};

	return command_hold(&(struct command_spec) {.argv = k->command,
				    .environment = environment,
				    .signals = signals,
				    .out_fd = -1,
				    .err_fd = -1},
		&k->child, eb);
}

/* A shell's exit status of a command that cannot be run. */
static int release_command(struct recording *k, struct errbuf *eb)
{
	int r = k->child.pid ? command_release(&k->child, k->command[0], eb) : 0;

	if (r < 0)
		k->status = r == -ENOENT ? 127 : 126;
	return r;
}

static void reap_command(struct recording *k, int flags)
{
	int status;

	if (k->child.pid <= 0 || waitpid(k->child.pid, &status, flags) != k->child.pid)
		return;
	k->child.pid = 0;
	k->ends = true;
	k->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ── events ── */

static double seconds_since(const struct recording *k)
{
	return (double)(clock_monotonic_ns(&clock_system) - k->start_ns) / NS_PER_S;
}

static int obey(struct recording *k, const char *line, struct errbuf *eb)
{
	if (!strcmp(line, "start"))
		recorder_resume(k->recorder);
	else if (!strcmp(line, "stop"))
		return recorder_pause(k->recorder, eb);
	else if (str_starts_with(line, "mark ") && line[5])
		return recorder_mark(k->recorder, line + 5, seconds_since(k), eb);
	else if (!strcmp(line, "end"))
		k->ends = true;
	else if (*line)
		fprintf(stderr, "sonde: %s: \"%.100s\": expected start, stop, mark NAME or end\n",
			k->o->window, line);
	return 0;
}

static int read_window(struct recording *k, struct errbuf *eb)
{
	char line[WINDOW_MAX_LINE];
	int r = 0;

	while (r == 0 && window_read(&k->window, line))
		r = obey(k, line, eb);
	return r;
}

static int signal_of(const char *name)
{
	return !name ? -1 : !strcmp(name, "USR1") ? SIGUSR1 : SIGUSR2;
}

/* One signal for both turns the recording on and off. */
static int obey_signal(struct recording *k, bool starts, bool stops, struct errbuf *eb)
{
	if (!starts || (stops && !recorder_is_paused(k->recorder)))
		return recorder_pause(k->recorder, eb);
	recorder_resume(k->recorder);
	return 0;
}

static int read_signals(struct recording *k, struct errbuf *eb)
{
	struct signalfd_siginfo si;
	int r = 0;

	while (r == 0 && read(k->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		int number = (int)si.ssi_signo;
		bool starts = number == signal_of(k->o->start_on),
		     stops = number == signal_of(k->o->stop_on);

		if (starts || stops)
			r = obey_signal(k, starts, stops, eb);
		else if (number != SIGCHLD && k->child.pid > 0)
			kill(k->child.pid, number);
		else if (number != SIGCHLD)
			k->ends = true;
	}
	reap_command(k, WNOHANG);
	return r;
}

/* Targets by -p are all gone, or the time is over. */
static void check_end(struct recording *k)
{
	bool any = !k->o->pids.n;

	for (size_t i = 0; i < k->o->pids.n && !any; i++) {
		uint64_t pid;

		any = str_parse_u64(k->o->pids.items[i], &pid, NULL) == 0 &&
		      (kill((pid_t)pid, 0) == 0 || errno == EPERM);
	}
	k->ends |= !any;
	k->ends |= k->o->duration_ms && seconds_since(k) * 1000 >= (double)k->o->duration_ms;
}

static void show_progress(const struct recording *k)
{
	struct recorder_stats s;

	if (k->o->quiet || !isatty(STDERR_FILENO))
		return;
	recorder_stats(k->recorder, &s);
	fprintf(stderr, "\rrecording: %.0f s, %llu samples ", seconds_since(k),
		(unsigned long long)s.samples);
}

static int wait_for_events(struct recording *k, struct errbuf *eb)
{
	struct pollfd p[] = {
		{.fd = k->signal_fd, .events = POLLIN}, {.fd = k->window.fd, .events = POLLIN}};
	int r;

	(void)poll(p, ARRAY_SIZE(p), TICK_MS);
	r = read_signals(k, eb);
	if (r == 0)
		r = read_window(k, eb);
	if (r == 0)
		r = own_exporter_poll(&k->exporter, eb);
	check_end(k);
	return r;
}

static int run(struct recording *k, struct errbuf *eb)
{
	int r;

	if (!k->o->window && !k->o->start_on)
		recorder_resume(k->recorder);
	k->start_ns = clock_monotonic_ns(&clock_system);
	k->next_ns = k->start_ns + TAKE_INTERVAL_NS;
	r = read_signals(k, eb); /* what came before now ends a command before it begins */
	if (r == 0)
		r = release_command(k, eb);
	while (r == 0 && !k->ends) {
		r = wait_for_events(k, eb);
		if (r == 0 && clock_monotonic_ns(&clock_system) >= k->next_ns) {
			k->next_ns = clock_monotonic_ns(&clock_system) + TAKE_INTERVAL_NS;
			r = recorder_take(k->recorder, eb);
		}
		show_progress(k);
	}
	return r < 0 ? r : recorder_pause(k->recorder, eb);
}

/* ── begin and end ── */

static int begin(struct recording *k, struct errbuf *eb)
{
	struct cli_server_options server = k->o->server;
	_cleanup_bytes_ struct bytes filter = {0};
	sigset_t signals, before;
	int r;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	for (int i = 0; i < 2; i++) {
		int mark = signal_of(i ? k->o->stop_on : k->o->start_on);

		if (mark > 0)
			sigaddset(&signals, mark);
	}
	if (sigprocmask(SIG_BLOCK, &signals, &before))
		return err_set(eb, -errno, "sigprocmask: %s", strerror(errno));
	k->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	r = k->signal_fd < 0 ? err_set(eb, -errno, "signalfd: %s", strerror(errno)) : 0;
	if (r == 0)
		r = cli_check_output(k->o->output, eb);
	if (r == 0 && k->o->window)
		r = window_open(&k->window, k->o->window, eb);
	if (r == 0 && k->command)
		r = hold_command(k, &before, eb);
	if (r == 0 && !server.url) {
		r = own_exporter_start(&k->exporter, k->type, k->o->frequency, eb);
		server.url = k->exporter.url;
	}
	if (r < 0)
		return r;
	put_filter(k, &filter);
	return recorder_new(&server, k->type, (const char *)filter.data, &k->recorder, eb);
}

static void done(struct recording *k)
{
	if (k->child.release_fd >= 0) /* never begun */
		command_abandon(&k->child);
	reap_command(k, 0);
	recorder_freep(&k->recorder);
	own_exporter_stop(&k->exporter);
	window_close(&k->window);
	if (k->signal_fd >= 0)
		close(k->signal_fd);
}

/* -EOVERFLOW: too much was lost; -ENODATA: there is too little. */
static int finish(struct recording *k, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes out = {0};
	double seconds = seconds_since(k);
	struct recorder_stats s;
	int r = recorder_finish(k->recorder, &out, eb);

	if (r == 0)
		r = cli_write_output(k->o->output, &out, eb);
	if (r < 0)
		return r;
	recorder_stats(k->recorder, &s);
	if (!k->o->quiet)
		fprintf(stderr,
			"%s%llu samples (%llu with a cut stack), %llu lost%s, %.1f s%s%s: %s\n",
			isatty(STDERR_FILENO) ? "\r" : "", (unsigned long long)s.samples,
			(unsigned long long)s.truncated, (unsigned long long)s.lost,
			s.lost_seconds ? ", seconds are missing" : "", seconds,
			*s.rates ? " at " : "", s.rates, k->o->output);
	if (s.lost && (double)s.lost > k->o->max_lost * (double)(s.lost + s.samples))
		return err_set(eb, -EOVERFLOW, "%llu of %llu samples were lost, above --max-lost",
			(unsigned long long)s.lost, (unsigned long long)(s.lost + s.samples));
	if (s.samples < k->o->min_samples)
		return err_set(eb, -ENODATA, "%llu samples were taken, below --min-samples",
			(unsigned long long)s.samples);
	return 0;
}

static int record(
	const struct record_options *o, char *const *command, int *ret_status, struct errbuf *eb)
{
	struct recording k = {.o = o,
		.type = event_source(event_find(o->type, NULL)),
		.command = command,
		.exporter = OWN_EXPORTER_NONE,
		.child = COMMAND_NONE,
		.window = WINDOW_NONE,
		.signal_fd = -1};
	int r = begin(&k, eb), e, number = r == -EINTR ? command_ending_signal() : 0;

	/* A command that has not begun ends as one that had. */
	if (number && command)
		k.status = 128 + number;
	if (r == 0) {
		struct errbuf own = {.text = ""};

		r = run(&k, eb);
		/* What came before something failed is written too. */
		e = finish(&k, r == 0 ? eb : &own);
		r = r == 0 ? e : r;
	}
	done(&k);
	*ret_status = k.status;
	return r;
}

static int check_pid(const char *text, struct errbuf *eb)
{
	uint64_t pid;

	if (str_parse_u64(text, &pid, NULL) < 0 || !pid || pid > INT32_MAX)
		return err_set(eb, -EINVAL, "-p %s: expected a process id", text);
	if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
		return err_set(eb, -ESRCH, "-p %s: there is no such process", text);
	return 0;
}

static int check_comm(const char *text, struct errbuf *eb)
{
	struct regex *re = NULL;
	int r = regex_compile(text, REGEX_ANCHORED, &re, eb);

	regex_free(re);
	return r < 0 ? err_prefix(eb, r, "--comm \"%s\"", text) : 0;
}

static int check(const struct record_options *o, bool has_command, struct errbuf *eb)
{
	const char *path = NULL;
	int r = event_find(o->type, eb);

	if (r < 0)
		return err_prefix(eb, r, "--type");
	r = 0;
	for (size_t i = 0; r == 0 && i < o->pids.n; i++)
		r = check_pid(o->pids.items[i], eb);
	for (size_t i = 0; r == 0 && i < o->comms.n; i++)
		r = check_comm(o->comms.items[i], eb);
	if (r < 0)
		return r;
	if (has_command && o->pids.n)
		return err_set(eb, -EINVAL, "-p and a command: expected one of them");
	if (!o->all && !o->pids.n && !o->cgroups.n && !o->comms.n && !has_command)
		return err_set(
			eb, -EINVAL, "of what? -a, -p, --cgroup, --comm or a command behind --");
	r = o->window ? window_parse(o->window, &path, eb) : 0;
	return r < 0 ? err_prefix(eb, r, "--window") : 0;
}

int cli_record(int argc, char **argv)
{
	_cleanup_(option_list_done)
	struct option_list args = {.n = 0};
	struct record_options o = {.output = NULL};
	struct errbuf eb = {.text = ""};
	int status = options_parse_or_exit(&program, argc, argv, &o, &args), r;
	char **command = NULL;

	if (status < 0 && (r = check(&o, args.n > 0, &eb)) < 0) {
		fprintf(stderr, "sonde record: %s; see sonde record --help\n", err_text(&eb, r));
		status = CLI_USAGE;
	}
	if (status < 0) {
		command = xcalloc(args.n + 1, sizeof(*command));
		for (size_t i = 0; i < args.n; i++)
			command[i] = (char *)(uintptr_t)args.items[i];
		r = record(&o, args.n ? command : NULL, &status, &eb);
		if (r < 0 && (cli_fail(&eb, r), !status))
			status = CLI_FAILED;
		free(command);
	}
	options_done(&program, &o);
	return status;
}
