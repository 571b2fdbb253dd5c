/* SPDX-License-Identifier: Apache-2.0
 *
 * The zygote: one thread and a table of children. It reads none of its inputs itself. A
 * request waits in the socket while all children are busy. Its own sandbox is the role's
 * (role_start); each child adds a narrower one.
 */
#include "exporter/parser/limits.h"
#include "exporter/parser/links.h"
#include "exporter/parser/walk.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/fd_message.h"
#include "lib/base/sandbox.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { SHARED_BYTES = 4096 };
_Static_assert(sizeof(struct parser_reply) <= SHARED_BYTES, "the child's answer fits its page");

struct child {
	pid_t pid; /* 0: free */
	int reply_fd, out_fd;
	int64_t deadline_ns;
	bool killed;
	struct parser_reply *shared; /* one page that the child writes status and text into */
};

struct zygote {
	int fd;
	pid_t pid;
	bool closing;
	struct child children[PARSER_MAX_CHILDREN];
};

static int64_t now_ns(void)
{
	return clock_monotonic_ns(&clock_system);
}

static enum parser_status status_of(int r)
{
	switch (r) {
	case 0: return PARSER_OK;
	case -ENOMEM: return PARSER_NO_MEMORY;
	default: return PARSER_REFUSED;
	}
}

static int run_identify(int in_fd, int out_fd, struct errbuf *eb)
{
	struct parser_description d;
	int r = parser_identify(in_fd, &d, eb);

	if (r < 0)
		return r;
	return write(out_fd, &d, sizeof(d)) == (ssize_t)sizeof(d) ? 0 : -ENOMEM;
}

static int run_compile(const struct parser_inputs *in, int links_fd, int out_fd, struct errbuf *eb)
{
	struct links links = {.fd = links_fd};
	struct parser_finder finder = {.find = links_find, .ctx = &links};
	struct parser_inputs linked = *in;

	linked.finder = links_fd >= 0 ? &finder : NULL;
	return parser_compile(&linked, out_fd, eb);
}

/* Other children's answers are none of its business: neither their descriptors nor their pages. */
static void close_others(const struct zygote *z, const struct child *c)
{
	close(z->fd);
	close(c->reply_fd);
	for (int i = 0; i < PARSER_MAX_CHILDREN; i++) {
		const struct child *other = &z->children[i];

		if (other != c)
			(void)munmap(other->shared, SHARED_BYTES);
		if (other->pid) {
			close(other->reply_fd);
			close(other->out_fd);
		}
	}
}

_Noreturn static void child_main(const struct zygote *z, const struct parser_request *request,
	const int *inputs, size_t n_inputs, const struct child *c)
{
	struct parser_inputs in = {.fd = inputs[0]};
	struct errbuf eb = {{0}};
	int links_fd, r;

	close_others(z, c);
	links_fd = request->links ? inputs[--n_inputs] : -1;
	in.debug_fd = n_inputs > 1 ? inputs[1] : -1;
	r = sandbox_die_with(z->pid);
	if (r == 0)
		r = parser_limit_child(request->timeout_ms, inputs, n_inputs, links_fd >= 0, &eb);
	if (r == 0) {
		switch (request->op) {
		case PARSER_IDENTIFY: r = run_identify(in.fd, c->out_fd, &eb); break;
		case PARSER_COMPILE: r = run_compile(&in, links_fd, c->out_fd, &eb); break;
		case PARSER_ROWS:
			r = parser_compile_rows(in.fd, in.debug_fd, c->out_fd, &eb);
			break;
		case PARSER_DEMANGLE: r = parser_demangle(in.fd, c->out_fd, &eb); break;
		case PARSER_WALK:
			r = parser_walk(in.fd, inputs + 1, n_inputs - 1, c->out_fd, &eb);
			break;
		default: r = err_set(&eb, -EPROTO, "no such request"); break;
		}
	}
	c->shared->status = status_of(r);
	snprintf(c->shared->text, sizeof(c->shared->text), "%s", r < 0 ? err_text(&eb, r) : "");
	_exit(0);
}

static void send_reply(int fd, const struct parser_reply *reply, int memfd)
{
	/* Who asked may have given up: nothing to do then. */
	(void)!fd_message_send(fd, reply, sizeof(*reply), &memfd, memfd >= 0, MSG_DONTWAIT);
}

static void finish_child(struct child *c, int wait_status, const struct rusage *usage)
{
	struct parser_reply reply = {.magic = PARSER_MAGIC, .status = PARSER_CRASHED};
	const struct timeval *user = &usage->ru_utime, *sys = &usage->ru_stime;
	bool seal;

	reply.cpu_ns = (uint64_t)(user->tv_sec + sys->tv_sec) * NS_PER_S +
		       (uint64_t)(user->tv_usec + sys->tv_usec) * 1000;
	reply.peak_rss = (uint64_t)usage->ru_maxrss * 1024;
	if (c->killed || (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGXCPU))
		reply.status = PARSER_TIMEOUT;
	else if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
		reply.status =
			c->shared->status < PARSER_N_STATUS ? c->shared->status : PARSER_CRASHED;
		memcpy(reply.text, c->shared->text, sizeof(reply.text) - 1);
	}
	/* The child is gone, so nobody can write any more: what is read stays what was checked. */
	seal = fcntl(c->out_fd, F_ADD_SEALS,
		       F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0;
	if (!seal)
		reply.status = PARSER_FAILED;
	send_reply(c->reply_fd, &reply, seal ? c->out_fd : -1);
	close(c->out_fd);
	close(c->reply_fd);
	c->pid = 0;
}

static void refuse_request(int reply_fd, const char *text)
{
	struct parser_reply reply = {.magic = PARSER_MAGIC, .status = PARSER_FAILED};

	snprintf(reply.text, sizeof(reply.text), "%s", text);
	send_reply(reply_fd, &reply, -1);
}

static void start_child(struct zygote *z, struct child *c, const struct parser_request *request,
	int reply_fd, const int *inputs, size_t n_inputs)
{
	_cleanup_close_ int out_fd = memfd_create("symbols", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	pid_t pid;

	if (out_fd < 0) {
		refuse_request(reply_fd, "no memory for the answer");
		return;
	}
	c->reply_fd = reply_fd;
	c->out_fd = out_fd;
	c->killed = false;
	c->deadline_ns = now_ns() + (int64_t)request->timeout_ms * NS_PER_MS;
	memset(c->shared, 0, sizeof(*c->shared));
	c->shared->status = PARSER_CRASHED;
	pid = fork();
	if (pid == 0)
		child_main(z, request, inputs, n_inputs, c);
	if (pid < 0) {
		refuse_request(reply_fd, "cannot start a child");
		return;
	}
	c->pid = pid;
	c->out_fd = TAKE_FD(out_fd);
	c->reply_fd = dup(reply_fd);
}

static bool request_is_valid(const struct parser_request *r, size_t n_fds)
{
	return r->magic == PARSER_MAGIC && r->op >= PARSER_IDENTIFY && r->op <= PARSER_ROWS &&
	       r->timeout_ms && r->timeout_ms <= PARSER_MAX_TIMEOUT_MS && r->links <= 1 &&
	       n_fds >= 2 + r->links;
}

/* Nobody asks any more. What is at work may still finish, but who waits for that will not for long. */
static void begin_closing(struct zygote *z)
{
	int64_t until = now_ns() + PARSER_CLOSING_MS * NS_PER_MS;

	z->closing = true;
	for (int i = 0; i < PARSER_MAX_CHILDREN; i++)
		z->children[i].deadline_ns = MIN(z->children[i].deadline_ns, until);
}

static void receive_request(struct zygote *z, struct child *free_slot)
{
	struct parser_request request;
	int fds[1 + PARSER_MAX_INPUTS];
	size_t n_fds;
	int n = fd_message_receive(
		z->fd, &request, sizeof(request), fds, ARRAY_SIZE(fds), &n_fds, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR && n != -EPROTO))
		begin_closing(z);
	if (n == (int)sizeof(request) && request_is_valid(&request, n_fds))
		start_child(z, free_slot, &request, fds[0], fds + 1, n_fds - 1);
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
}

static void reap_children(struct zygote *z)
{
	for (int i = 0; i < PARSER_MAX_CHILDREN; i++) {
		struct child *c = &z->children[i];
		struct rusage usage;
		int status;

		if (!c->pid)
			continue;
		if (wait4(c->pid, &status, WNOHANG, &usage) == c->pid) {
			finish_child(c, status, &usage);
		} else if (!c->killed && now_ns() >= c->deadline_ns) {
			c->killed = true;
			kill(c->pid, SIGKILL);
		}
	}
}

static struct child *free_child(struct zygote *z)
{
	for (int i = 0; i < PARSER_MAX_CHILDREN; i++)
		if (!z->children[i].pid)
			return &z->children[i];
	return NULL;
}

static bool any_child(const struct zygote *z)
{
	for (int i = 0; i < PARSER_MAX_CHILDREN; i++)
		if (z->children[i].pid)
			return true;
	return false;
}

/* A child's end shows as SIGCHLD, which interrupts the wait; it is blocked everywhere else. That there will be no more
 * requests is to be seen while all children are busy too, and before those that wait in the socket. */
static void wait_for_work(struct zygote *z, const sigset_t *during_wait)
{
	struct child *slot = free_child(z);
	struct pollfd pfd = {
		.fd = z->closing ? -1 : z->fd, .events = (short)(POLLRDHUP | (slot ? POLLIN : 0))};
	int64_t until = INT64_MAX, left;
	struct timespec ts;
	int r;

	for (int i = 0; i < PARSER_MAX_CHILDREN; i++)
		if (z->children[i].pid && !z->children[i].killed)
			until = MIN(until, z->children[i].deadline_ns);
	left = MAX(until - now_ns(), 0);
	ts = (struct timespec) {.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};
	r = ppoll(&pfd, 1, until == INT64_MAX ? NULL : &ts, during_wait);
	if (r > 0 && pfd.revents & (POLLRDHUP | POLLHUP | POLLERR))
		begin_closing(z);
	else if (r > 0 && slot)
		receive_request(z, slot);
}

static void on_child(int sig)
{
	(void)sig;
}

int parser_zygote_run(int fd)
{
	struct sigaction act = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
	struct zygote z = {.fd = fd, .pid = getpid()};
	sigset_t blocked, during_wait;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, &during_wait);
	sigdelset(&during_wait, SIGCHLD);
	sigaction(SIGCHLD, &act, NULL);
	for (int i = 0; i < PARSER_MAX_CHILDREN; i++) {
		z.children[i].shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (z.children[i].shared == MAP_FAILED)
			return 1;
	}
	while (!z.closing || any_child(&z)) {
		wait_for_work(&z, &during_wait);
		reap_children(&z);
	}
	return 0;
}
