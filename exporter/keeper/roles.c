/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits the exporter into its roles, takes their privileges and keeps them together: the keeper's loop.
 */
#include "exporter/keeper/roles.h"
#include "exporter/keeper/attach.h"
#include "exporter/keeper/check.h"
#include "exporter/keeper/client.h"
#include "exporter/keeper/load.h"
#include "exporter/keeper/priority.h"
#include "exporter/keeper/opener.h"
#include "exporter/keeper/protocol.h"
#include "exporter/keeper/server.h"
#include "exporter/keeper/supervise.h"
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
#include <time.h>

enum { ROLE_MAIN, ROLE_PARSER, ROLE_FETCHER, ROLE_ATTACHER, N_ROLES };

/* What the start-up passes around; lives until the roles are split. */
struct start {
	struct check_result check;
	struct loaded *loaded;
	uid_t uid;
	gid_t gid;
	struct priority priority;
	sigset_t signals, old_signals;
	/* Of each role its own end, then main's; of main the keeper's end, then main's. -1: none. */
	int sock[N_ROLES][2];
	pid_t keeper;
	struct supervise_role roles[N_ROLES];
	struct openers openers;
};

/* After a signal to end, main has so long: longer than its own waits. */
#define END_MS 12000

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
	int r = check_start(o, sandbox_has_cap, &s->check, eb);

	if (r == 0)
		r = change_user(o, s, eb);
	if (r == 0)
		r = limit_caps(o, s, eb);
	if (r == 0)
		r = load_bpf(o, ret, &s->loaded, eb);
	if (r == 0)
		r = load_try_attach(s->loaded, ret->n_cpus, eb);
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
	priority_restore(&s->priority);
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
	become_server(s, SANDBOX_PARSER, "parser", s->sock[ROLE_PARSER][0], NULL);
	_exit(o->parser ? o->parser(s->sock[ROLE_PARSER][0]) : 0);
}

static _Noreturn void run_fetcher(const struct role_options *o, struct start *s)
{
	prctl(PR_SET_NAME, "sonde-fetcher");
	become_server(s, SANDBOX_FETCHER, "fetcher", s->sock[ROLE_FETCHER][0], http_client_load);
	_exit(o->fetcher(o->fetcher_ctx, s->sock[ROLE_FETCHER][0]));
}

static _Noreturn void run_attacher(const struct role_options *o, struct start *s)
{
	prctl(PR_SET_NAME, "sonde-attacher");
	become_server(s, SANDBOX_ATTACHER, "attacher", s->sock[ROLE_ATTACHER][0], NULL);
	_exit(attach_serve(o->procfs, s->sock[ROLE_ATTACHER][0]));
}

static int become_main(struct start *s, struct keeper_setup *ret, struct errbuf *eb)
{
	int keep[ARRAY_SIZE(ret->ring_fds) + N_ROLES + 1 + KEEPER_N_MAPS], n = 0, r;

	prctl(PR_SET_NAME, "sonde-main");
	for (size_t i = 0; i < N_ROLES; i++)
		keep[n++] = s->sock[i][1];
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
	ret->keeper = keeper_client_new(s->sock[ROLE_MAIN][1], KEEPER_TIMEOUT_MS);
	ret->parser_fd = s->sock[ROLE_PARSER][1];
	ret->fetcher_fd = s->sock[ROLE_FETCHER][1];
	ret->attacher_fd = s->sock[ROLE_ATTACHER][1];
	ret->keeper_pid = (uint32_t)s->keeper;
	ret->parser_pid = (uint32_t)s->roles[ROLE_PARSER].pid;
	ret->fetcher_pid = (uint32_t)s->roles[ROLE_FETCHER].pid;
	ret->attacher_pid = (uint32_t)s->roles[ROLE_ATTACHER].pid;
	ret->main_pid = (uint32_t)getpid();
	return 0;
}

static int attach(void *ctx, uint32_t event, uint32_t cpu, struct errbuf *eb)
{
	return event == KEEPER_SIDEBAND ? load_attach_sideband(cpu, eb)
					: load_attach(ctx, event, cpu, eb);
}

static int attach_file(void *ctx, uint32_t event, int file_fd, uint64_t offset, struct errbuf *eb)
{
	return load_attach_file(ctx, event, file_fd, offset, eb);
}

static int fork_helper(void *ctx, struct errbuf *eb)
{
	return opener_fork(ctx, eb);
}

static int start_opener(void *ctx, int *ret_sock, uint32_t *ret_pid, struct errbuf *eb)
{
	return opener_start(ctx, ret_sock, ret_pid, eb);
}

static int keeper_lockdown(struct start *s, int signal_fd)
{
	int keep[2 + LOAD_MAX_FDS] = {s->sock[ROLE_MAIN][0], signal_fd};
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

/* The exit status. */
static int keeper_loop(struct supervision *children, const struct server *server, int sock)
{
	struct pollfd p[] = {
		{.fd = children->signal_fd, .events = POLLIN}, {.fd = sock, .events = POLLIN}};

	for (;;) {
		int status = supervise_step(children);

		if (status >= 0)
			return status;
		if (poll(p, ARRAY_SIZE(p), supervise_wait_ms(children)) < 0 && errno != EINTR)
			return 1;
		if (p[1].revents && p[1].fd >= 0 && server_answer(server, p[1].fd) < 0)
			p[1].fd = -1; /* main has closed its end: it is about to end */
	}
}

static _Noreturn void run_keeper(const struct role_options *o, struct start *s)
{
	const struct server server = {.procfs = o->procfs,
		.attach_ctx = s->loaded,
		.attach = attach,
		.attach_file = attach_file,
		.fork_helper = fork_helper,
		.opener_ctx = &s->openers,
		.start_opener = start_opener};
	struct supervision children = {.roles = s->roles,
		.n_roles = N_ROLES,
		.openers = &s->openers,
		.signal_fd = signalfd(-1, &s->signals, SFD_CLOEXEC | SFD_NONBLOCK),
		.end_ms = END_MS};
	int status = 1;

	s->openers =
		(struct openers) {.procfs = o->procfs, .keeper = s->keeper, .copies = o->copies};
	prctl(PR_SET_NAME, "sonde-keeper");
	log_set_component("keeper");
	if (children.signal_fd >= 0 && keeper_lockdown(s, children.signal_fd) == 0)
		status = keeper_loop(&children, &server, s->sock[ROLE_MAIN][0]);
	supervise_end(&children);
	_exit(status);
}

static int make_sockets(const bool *has_role, struct start *s)
{
	for (size_t i = 0; i < N_ROLES; i++) {
		s->sock[i][0] = s->sock[i][1] = -1;
		if (has_role[i] &&
			socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->sock[i]))
			return -errno;
	}
	return 0;
}

/* 0 in main, 1 in the keeper. */
static int fork_role(const struct role_options *o, struct start *s, size_t role,
	struct keeper_setup *ret, struct errbuf *eb)
{
	pid_t pid = fork();
	int r;

	if (pid < 0)
		return err_set(eb, -errno, "fork: %s", strerror(errno));
	if (pid > 0) {
		s->roles[role].pid = pid;
		return 1;
	}
	switch (role) {
	case ROLE_PARSER: run_parser(o, s);
	case ROLE_FETCHER: run_fetcher(o, s);
	case ROLE_ATTACHER: run_attacher(o, s);
	}
	r = become_main(s, ret, eb);
	if (r < 0) {
		log_printf(LOG_ERROR, "%s", err_text(eb, r));
		_exit(1);
	}
	return 0;
}

static int split(
	const struct role_options *o, struct start *s, struct keeper_setup *ret, struct errbuf *eb)
{
	static const char *const names[N_ROLES] = {"main", "parser", "fetcher", "attacher"};
	const bool has_role[N_ROLES] = {true, true, o->fetcher != NULL, o->attacher};
	int r = make_sockets(has_role, s);

	sigemptyset(&s->signals);
	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
		sigaddset(&s->signals, forwarded[i]);
	sigaddset(&s->signals, SIGCHLD);
	if (r == 0 && sigprocmask(SIG_BLOCK, &s->signals, &s->old_signals))
		r = -errno;
	if (r < 0)
		return err_set(eb, r, "cannot set up the roles: %s", strerror(-r));
	fflush(NULL);
	s->keeper = getpid();
	/* main, the first, is forked last: it knows the others' pids. After an error those that were forked die with the keeper. */
	for (size_t i = N_ROLES; i-- > 0;) {
		s->roles[i].name = names[i];
		r = has_role[i] ? fork_role(o, s, i, ret, eb) : 1;
		if (r <= 0)
			return r;
	}
	run_keeper(o, s);
}

int role_start(const struct role_options *o, struct keeper_setup *ret, struct errbuf *eb)
{
	struct role_options options = *o;
	struct start s = {0};
	int r;

	if (!options.procfs)
		options.procfs = "/proc";
	if (!options.sysfs)
		options.sysfs = "/sys";
	memset(ret, 0, sizeof(*ret));
	/* Later steps drop the capability that this needs. */
	r = priority_raise(&s.priority, options.priority);
	if (r < 0)
		log_write(LOG_INFO, "no priority over other processes", "error", strerror(-r),
			"effect",
			"on an overloaded machine samples are lost and requests wait; grant "
			"CAP_SYS_NICE, start it with a lower nice value, or set --priority=0",
			NULL);
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
