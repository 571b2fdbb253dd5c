/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits the exporter into its roles, takes their privileges and keeps them together: the keeper's loop.
 */
#include "exporter/keeper/roles.h"
#include "exporter/keeper/attach.h"
#include "exporter/keeper/check.h"
#include "exporter/keeper/client.h"
#include "exporter/keeper/load.h"
#include "exporter/keeper/opener.h"
#include "exporter/keeper/server.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/base/log.h"
#include "lib/base/sandbox.h"
#include "lib/net/client/client.h"
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* What the start-up passes around; lives until the roles are split. */
struct start {
	struct check_result check;
	struct loaded *loaded;
	uid_t uid;
	gid_t gid;
	sigset_t signals, old_signals;
	int main_sock[2];   /* keeper's end, main's end */
	int parser_sock[2]; /* parser's end, main's end */
	int fetcher_sock[2];
	int attacher_sock[2];
	pid_t keeper, main, parser, fetcher, attacher;
	struct openers openers;
};

/* How long roles that were killed are waited for. */
enum { KILL_WAITS = 200, KILL_WAIT_NS = 10000000 };
/* After a signal to end, main has so long: longer than its own waits. */
#define END_PATIENCE_NS (12 * NS_PER_S)

static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

int64_t role_cpu_ns(pid_t pid)
{
	struct timespec ts;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) || clock_gettime(id, &ts))
		return 0;
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* A directory that exists is left as it is: its owner chose it. */
static int make_state_dirs(const struct role_options *o, uid_t uid, gid_t gid, struct errbuf *eb)
{
	for (size_t i = 0; i < ARRAY_SIZE(o->state_dirs) && o->state_dirs[i]; i++) {
		const char *dir = o->state_dirs[i];
		struct stat st;
		int r;

		if (!*dir || stat(dir, &st) == 0)
			continue;
		r = fs_make_dirs(&fs_system, dir, 0755);
		if (r == 0 && (chmod(dir, 0750) || lchown(dir, uid, gid))) /* CAP_CHOWN will do */
			r = -errno;
		if (r < 0)
			return err_set(
				eb, r, "cannot make %s for uid %u: %s", dir, uid, strerror(-r));
	}
	return 0;
}

/* Started as root: become the unprivileged user, which keeps the keeper's capabilities. Started otherwise: stay. */
static int change_user(const struct role_options *o, struct start *s, struct errbuf *eb)
{
	int r;

	s->uid = getuid();
	s->gid = getgid();
	if (geteuid() != 0)
		return make_state_dirs(o, s->uid, s->gid, eb);
	r = sandbox_find_user(o->user, &s->uid, &s->gid, eb);
	if (r == 0)
		r = make_state_dirs(o, s->uid, s->gid, eb);
	return r < 0 ? r : sandbox_become_user(s->uid, s->gid, eb);
}

/* Of the attacher. The keeper has them until that is forked. */
static const int attacher_caps[] = {CAP_SETUID, CAP_SETGID, CAP_SYS_PTRACE};

static int limit_caps(const struct role_options *o, struct start *s, struct errbuf *eb)
{
	int caps[CHECK_MAX_CAPS + ARRAY_SIZE(attacher_caps)];
	uint32_t n = s->check.n_caps;

	memcpy(caps, s->check.caps, n * sizeof(*caps));
	for (size_t i = 0; o->attacher && i < ARRAY_SIZE(attacher_caps); i++)
		if (sandbox_has_cap(attacher_caps[i]))
			caps[n++] = attacher_caps[i];
		else
			check_add_missing(&s->check, sandbox_cap_name(attacher_caps[i]),
				"JVMs of other users are not asked for their perf maps");
	return sandbox_limit_caps(caps, n, eb);
}

static int prepare(
	const struct role_options *o, struct start *s, struct keeper_setup *ret, struct errbuf *eb)
{
	struct keeper_cpu probe;
	int r = check_start(o, sandbox_has_cap, &s->check, eb);

	if (r == 0)
		r = change_user(o, s, eb);
	if (r == 0)
		r = limit_caps(o, s, eb);
	if (r == 0)
		r = load_bpf(o, ret, &s->loaded, eb);
	if (r < 0)
		return r;
	for (uint32_t cpu = 0, r2 = 1; r2 && cpu < ret->n_cpus;
		cpu++) { /* the first that is online */
		r = load_attach_cpu(s->loaded, cpu, &probe, eb);
		if (r == 0) {
			close(probe.clock_fd);
			close(probe.sideband_fd);
		}
		r2 = r == -ENODEV || r == -ENXIO;
	}
	if (r < 0)
		return r;
	check_final(o, &s->check);
	check_kernel_walk(ret->kernel_walk, &s->check);
	memcpy(ret->missing, s->check.missing, sizeof(ret->missing));
	ret->n_missing = s->check.n_missing;
	return 0;
}

static void say_missing(const struct start *s)
{
	for (uint32_t i = 0; i < s->check.n_missing; i++)
		log_write(LOG_WARN, "missing", "what", s->check.missing[i].cap, "effect",
			s->check.missing[i].effect, NULL);
	if (s->check.admin_why)
		log_write(LOG_WARN, "keeping CAP_SYS_ADMIN", "why", s->check.admin_why, NULL);
}

/* What every child role does first. */
static int enter_role(const struct start *s, enum sandbox_role role, const int *keep, size_t n_keep,
	struct errbuf *eb)
{
	int r = sandbox_close_others(keep, n_keep);

	if (r == 0)
		r = sandbox_limit_caps(attacher_caps,
			role == SANDBOX_ATTACHER ? ARRAY_SIZE(attacher_caps) : 0, eb);
	if (r == 0)
		r = sandbox_die_with(s->keeper);
	if (r == 0)
		r = sandbox_enter(role, eb);
	return r < 0 ? err_prefix(eb, r, "cannot enter the %s role",
			       role == SANDBOX_MAIN	 ? "main"
			       : role == SANDBOX_PARSER	 ? "parser"
			       : role == SANDBOX_FETCHER ? "fetcher"
							 : "attacher")
		     : 0;
}

/* stdin and stdout lead nowhere; stderr stays for panics. */
static int silence_stdio(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0)
		return -errno;
	return fd > 2 ? close(fd) : 0;
}

/* What parser and fetcher do before they serve; ends with their socket, not by a terminal's signal. `load`, which may be
 * NULL, is what has to be done before no code can be mapped any more. */
static void become_server(const struct start *s, enum sandbox_role role, const char *component,
	int sock, int (*load)(struct errbuf *eb))
{
	struct errbuf eb = {0};
	int r;

	log_set_component(component);
	r = silence_stdio();
	if (r == 0 && load)
		r = load(&eb);
	if (r == 0)
		r = sigprocmask(SIG_SETMASK, &s->old_signals, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
		(void)sigaction(forwarded[i], &(struct sigaction) {.sa_handler = SIG_IGN}, NULL);
	if (r == 0)
		r = enter_role(s, role, &sock, 1, &eb);
	if (r < 0) {
		log_printf(LOG_ERROR, "%s", err_text(&eb, r));
		_exit(1);
	}
}

static _Noreturn void run_parser(const struct role_options *o, struct start *s)
{
	prctl(PR_SET_NAME, "sonde-parser");
	become_server(s, SANDBOX_PARSER, "parser", s->parser_sock[0], NULL);
	_exit(o->parser ? o->parser(s->parser_sock[0]) : 0);
}

static _Noreturn void run_fetcher(const struct role_options *o, struct start *s)
{
	prctl(PR_SET_NAME, "sonde-fetcher");
	become_server(s, SANDBOX_FETCHER, "fetcher", s->fetcher_sock[0], http_client_load);
	_exit(o->fetcher(o->fetcher_ctx, s->fetcher_sock[0]));
}

static _Noreturn void run_attacher(const struct role_options *o, struct start *s)
{
	prctl(PR_SET_NAME, "sonde-attacher");
	become_server(s, SANDBOX_ATTACHER, "attacher", s->attacher_sock[0], NULL);
	_exit(attach_serve(o->procfs, s->attacher_sock[0]));
}

static int become_main(struct start *s, struct keeper_setup *ret, struct errbuf *eb)
{
	int keep[ARRAY_SIZE(ret->ring_fds) + 5 + KEEPER_N_MAPS], n = 0, r;

	prctl(PR_SET_NAME, "sonde-main");
	keep[n++] = s->main_sock[1];
	keep[n++] = s->parser_sock[1];
	keep[n++] = s->fetcher_sock[1];
	keep[n++] = s->attacher_sock[1];
	keep[n++] = ret->counters_fd;
	for (uint32_t i = 0; i < ret->n_rings; i++)
		keep[n++] = ret->ring_fds[i];
	for (uint32_t i = 0; i < KEEPER_N_MAPS; i++)
		keep[n++] = ret->maps[i].fd;
	if (sigprocmask(SIG_SETMASK, &s->old_signals, NULL))
		return err_set(eb, -errno, "sigprocmask: %s", strerror(errno));
	r = enter_role(s, SANDBOX_MAIN, keep, (size_t)n, eb);
	if (r < 0)
		return r;
	ret->keeper = keeper_client_new(s->main_sock[1], KEEPER_TIMEOUT_MS);
	ret->parser_fd = s->parser_sock[1];
	ret->fetcher_fd = s->fetcher_sock[1];
	ret->fetcher_pid = (uint32_t)s->fetcher;
	ret->attacher_fd = s->attacher_sock[1];
	ret->attacher_pid = (uint32_t)s->attacher;
	ret->keeper_pid = (uint32_t)s->keeper;
	ret->parser_pid = (uint32_t)s->parser;
	ret->main_pid = (uint32_t)getpid();
	return 0;
}

static int attach(void *ctx, uint32_t cpu, struct keeper_cpu *ret, struct errbuf *eb)
{
	return load_attach_cpu(ctx, cpu, ret, eb);
}

static int start_opener(void *ctx, int *ret_sock, uint32_t *ret_pid, struct errbuf *eb)
{
	return opener_start(ctx, ret_sock, ret_pid, eb);
}

static int keeper_lockdown(struct start *s, int signal_fd)
{
	int keep[2 + LOAD_MAX_FDS] = {s->main_sock[0], signal_fd};
	size_t n = 2 + load_fds(s->loaded, keep + 2);
	struct errbuf eb = {0};
	int r = sandbox_close_others(keep, n);

	if (r == 0)
		r = sandbox_limit_caps(s->check.caps, s->check.n_caps, &eb);
	if (r == 0)
		r = sandbox_enter(SANDBOX_KEEPER, &eb);
	if (r < 0)
		log_printf(LOG_ERROR, "keeper cannot give up privilege: %s", err_text(&eb, r));
	return r;
}

/* The terminal sends its signals to the whole group, so main has those already. */
static void forward(const struct start *s, const struct signalfd_siginfo *si)
{
	if (si->ssi_signo != SIGCHLD && si->ssi_code != SI_KERNEL && s->main > 0)
		kill(s->main, (int)si->ssi_signo);
}

/* The exit status when a role has ended and all must; -EAGAIN while there is none. */
static int reap(struct start *s)
{
	const char *who = "main";
	int status;
	pid_t pid = waitpid(-1, &status, WNOHANG);

	if (pid <= 0)
		return -EAGAIN;
	if (opener_reaped(&s->openers, pid))
		return reap(s);
	if (pid == s->parser || pid == s->fetcher || pid == s->attacher) {
		pid_t *role = pid == s->parser	  ? &s->parser
			      : pid == s->fetcher ? &s->fetcher
						  : &s->attacher;

		who = role == &s->parser ? "parser" : role == &s->fetcher ? "fetcher" : "attacher";
		*role = 0;
		if (WIFEXITED(status) &&
			WEXITSTATUS(status) == 0) /* its socket was closed: main is ending */
			return reap(s);
	} else {
		s->main = 0;
		if (WIFEXITED(status))
			return WEXITSTATUS(status);
	}
	log_printf(LOG_ERROR, "%s ended unexpectedly (%s %d): stopping", who,
		WIFEXITED(status) ? "status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	return WIFEXITED(status) ? 1 : 128 + WTERMSIG(status);
}

/* Of roles that are not reaped yet, so the pids cannot have come to mean other processes. One that sleeps in a file system that
 * does not answer may outlive the signal, which is no reason to stay. */
static void kill_roles(const struct start *s)
{
	pid_t pid;

	if (s->main > 0)
		kill(s->main, SIGKILL);
	if (s->parser > 0)
		kill(s->parser, SIGKILL);
	if (s->fetcher > 0)
		kill(s->fetcher, SIGKILL);
	if (s->attacher > 0)
		kill(s->attacher, SIGKILL);
	opener_kill(&s->openers);
	for (int i = 0; i < KILL_WAITS; i++) {
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0)
			return;
		clock_nanosleep(
			CLOCK_MONOTONIC, 0, &(struct timespec) {.tv_nsec = KILL_WAIT_NS}, NULL);
	}
	log_write(LOG_WARN,
		"a process hangs in a file system that does not answer: ending without it", NULL);
}

static int keeper_loop(struct start *s, const struct server *server, int signal_fd)
{
	struct pollfd p[] = {
		{.fd = signal_fd, .events = POLLIN}, {.fd = s->main_sock[0], .events = POLLIN}};

	int64_t end_ns = 0; /* 0: nobody asked for the end yet */

	for (;;) {
		struct signalfd_siginfo si;
		int r;

		if (poll(p, ARRAY_SIZE(p), end_ns ? 1000 : -1) < 0 && errno != EINTR)
			return 1;
		if (end_ns && clock_monotonic_ns(&clock_system) >= end_ns) {
			log_write(LOG_WARN, "main does not end: ending without it", NULL);
			return 1;
		}
		if (p[0].revents && read(signal_fd, &si, sizeof(si)) == sizeof(si)) {
			forward(s, &si);
			if (!end_ns && si.ssi_signo != SIGCHLD && si.ssi_signo != SIGHUP)
				end_ns = clock_monotonic_ns(&clock_system) + END_PATIENCE_NS;
			r = reap(s);
			if (r >= 0)
				return r;
		}
		if (p[1].revents && p[1].fd >= 0 && server_answer(server, p[1].fd) < 0)
			p[1].fd = -1; /* main has closed its end: it is about to end */
	}
}

static _Noreturn void run_keeper(const struct role_options *o, struct start *s)
{
	const struct server server = {.procfs = o->procfs,
		.attach_ctx = s->loaded,
		.attach = attach,
		.opener_ctx = &s->openers,
		.start_opener = start_opener};
	int signal_fd = signalfd(-1, &s->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	int status = 1;

	s->openers = (struct openers) {.procfs = o->procfs, .keeper = s->keeper};
	prctl(PR_SET_NAME, "sonde-keeper");
	log_set_component("keeper");
	if (signal_fd >= 0 && keeper_lockdown(s, signal_fd) == 0)
		status = keeper_loop(s, &server, signal_fd);
	kill_roles(s);
	_exit(status);
}

static int split(
	const struct role_options *o, struct start *s, struct keeper_setup *ret, struct errbuf *eb)
{
	sigemptyset(&s->signals);
	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
		sigaddset(&s->signals, forwarded[i]);
	sigaddset(&s->signals, SIGCHLD);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->main_sock) ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->parser_sock) ||
		(o->fetcher &&
			socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->fetcher_sock)) ||
		(o->attacher &&
			socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->attacher_sock)) ||
		sigprocmask(SIG_BLOCK, &s->signals, &s->old_signals))
		return err_set(eb, -errno, "cannot set up the roles: %s", strerror(errno));
	fflush(NULL);
	s->keeper = getpid();
	s->parser = fork();
	if (s->parser < 0)
		return err_set(eb, -errno, "fork: %s", strerror(errno));
	if (s->parser == 0)
		run_parser(o, s);
	s->fetcher = o->fetcher ? fork() : 0;
	if (o->fetcher && s->fetcher == 0)
		run_fetcher(o, s);
	s->attacher = o->attacher && s->fetcher >= 0 ? fork() : 0;
	if (o->attacher && s->fetcher >= 0 && s->attacher == 0)
		run_attacher(o, s);
	s->main = s->fetcher < 0 || s->attacher < 0 ? -1 : fork();
	if (s->main == 0) {
		int r = become_main(s, ret, eb);

		if (r == 0)
			return 0;
		log_printf(LOG_ERROR, "%s", err_text(eb, r));
		_exit(1);
	}
	if (s->main < 0) {
		int r = -errno;

		kill(s->parser, SIGKILL);
		if (s->fetcher > 0)
			kill(s->fetcher, SIGKILL);
		if (s->attacher > 0)
			kill(s->attacher, SIGKILL);
		return err_set(eb, r, "fork: %s", strerror(-r));
	}
	run_keeper(o, s);
}

int role_start(const struct role_options *o, struct keeper_setup *ret, struct errbuf *eb)
{
	struct role_options options = *o;
	struct start s = {.main_sock = {-1, -1},
		.parser_sock = {-1, -1},
		.fetcher_sock = {-1, -1},
		.attacher_sock = {-1, -1}};
	int r;

	if (!options.procfs)
		options.procfs = "/proc";
	if (!options.sysfs)
		options.sysfs = "/sys";
	memset(ret, 0, sizeof(*ret));
	r = prepare(&options, &s, ret, eb);
	if (r < 0) {
		load_freep(&s.loaded);
		return r;
	}
	say_missing(&s);
	malloc_trim(
		0); /* the kernel's BTF was parsed: what is left would be copied into each role */
	return split(&options, &s, ret, eb);
}
