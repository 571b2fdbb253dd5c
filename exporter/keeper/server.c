/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's side of the protocol. Descriptors that clients ask for are opened through /proc/PID, whose directory
 * descriptor pins the process: it never comes to mean another one that got the same pid.
 */
#include "exporter/keeper/server.h"
#include "exporter/keeper/protocol.h"
#include "lib/base/fd_message.h"
#include "lib/base/clock.h"
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define TICK_NS (NS_PER_S / 100) /* USER_HZ, the unit of /proc/PID/stat */

/* Field 22 of /proc/PID/stat in ns of CLOCK_BOOTTIME, rounded down to a tick. The name in field 2 may hold anything but ends
 * at the last ')'. */
static int read_start_boottime_ns(int proc_fd, uint64_t *ret)
{
	_cleanup_close_ int fd = openat(proc_fd, "stat", O_RDONLY | O_CLOEXEC);
	char buf[1024], *p;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		return n < 0 ? -errno : -ESRCH;
	buf[n] = 0;
	p = strrchr(buf, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return -EBADMSG;
	*ret = strtoull(p + 1, NULL, 10) * (uint64_t)TICK_NS;
	return 0;
}

/*
 * Did the process start at start_ns (CLOCK_MONOTONIC)? The two clocks differ by the time that was spent in suspend before it
 * started, which lies between none and what it is now.
 */
static int check_start_time(int proc_fd, uint64_t start_ns)
{
	int64_t suspended = clock_boottime_ns(&clock_system) - clock_monotonic_ns(&clock_system);
	uint64_t boot_ns = 0;
	int r = read_start_boottime_ns(proc_fd, &boot_ns);

	if (r < 0)
		return r;
	if (boot_ns + (uint64_t)TICK_NS <= start_ns ||
		boot_ns > start_ns + (uint64_t)MAX(suspended, 0) + NS_PER_MS)
		return -ESRCH;
	return 0;
}

int server_open_process(const char *procfs, uint32_t pid, uint64_t start_ns)
{
	char path[256];
	int fd, r;

	snprintf(path, sizeof(path), "%s/%u", procfs, pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	r = start_ns ? check_start_time(fd, start_ns) : 0;
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

/* Follows a link of /proc/PID to a regular file; other kinds are refused before they are opened. */
static int open_regular(int proc_fd, const char *name)
{
	struct stat st;
	int fd;

	if (fstatat(proc_fd, name, &st, 0))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	fd = openat(proc_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_flags(int dir_fd, const char *name, int flags)
{
	int fd = openat(dir_fd, name, flags | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The link's text, which names the file as the process sees it; the file itself is not looked up. */
static int open_link_text(int proc_fd, const char *name)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(proc_fd, name, text, sizeof(text));
	int fd, r;

	if (n < 0)
		return -errno;
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (pwrite(fd, text, (size_t)n, 0) == n)
		return fd;
	r = errno ? -errno : -EIO;
	close(fd);
	return r;
}

static int open_of_process(int proc_fd, const struct keeper_request *q)
{
	char name[64];

	switch (q->what) {
	case KEEPER_MAPS: return open_flags(proc_fd, "maps", O_RDONLY);
	case KEEPER_ROOT: return open_flags(proc_fd, "root", O_PATH | O_DIRECTORY);
	case KEEPER_MNT_NS: return open_flags(proc_fd, "ns/mnt", O_RDONLY);
	case KEEPER_EXE: return open_link_text(proc_fd, "exe");
	case KEEPER_MAP_FILE:
		snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)q->start,
			(unsigned long long)q->end);
		return open_regular(proc_fd, name);
	default: return -EINVAL;
	}
}

static int answer_open(const struct server *s, const struct keeper_request *q, int *ret_fd)
{
	_cleanup_close_ int proc_fd = -1;
	char path[256];
	int fd;

	if (q->what == KEEPER_KALLSYMS || q->what == KEEPER_MODULES) {
		snprintf(path, sizeof(path), "%s/%s", s->procfs,
			q->what == KEEPER_KALLSYMS ? "kallsyms" : "modules");
		fd = open_flags(AT_FDCWD, path, O_RDONLY);
	} else {
		proc_fd = server_open_process(s->procfs, q->id, q->start_ns);
		fd = proc_fd < 0 ? proc_fd : open_of_process(proc_fd, q);
	}
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

/* Looked up once without opening it; then that very inode is opened, when it is a regular file. */
static int answer_open_at(const struct keeper_request *q, int root_fd, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (q->what & KEEPER_NO_LINK ? O_NOFOLLOW : 0),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_close_ int path_fd = -1;
	char path[KEEPER_MAX_PAYLOAD + 1], link[64];
	struct stat st;
	int fd;

	if (root_fd < 0 || !q->payload_len || memchr(q->payload, 0, q->payload_len))
		return -EINVAL;
	memcpy(path, q->payload, q->payload_len);
	path[q->payload_len] = 0;
	path_fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (path_fd < 0 || fstat(path_fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	fd = open_flags(AT_FDCWD, link, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

/* The process is asked for its start once more: what was read belongs to it only as long as it lives. */
static int answer_copy(const struct server *s, const struct keeper_request *q, int *ret_fd)
{
	struct keeper_range ranges[KEEPER_COPY_RANGES];
	int n = q->start_ns ? copy_get_ranges(q->payload, q->payload_len, ranges) : -EINVAL;
	_cleanup_close_ int proc_fd = -1, fd = -1;
	uint64_t bytes = 0;
	int r;

	for (int i = 0; i < n; i++)
		bytes += ranges[i].bytes;
	r = n < 0 ? n : copy_limit_take(s->copies, clock_monotonic_ns(&clock_system), bytes);
	if (r < 0)
		return r;
	proc_fd = server_open_process(s->procfs, q->id, q->start_ns);
	fd = proc_fd < 0 ? proc_fd : copy_to_file(proc_fd, ranges, (size_t)n);
	r = fd < 0 ? fd : check_start_time(proc_fd, q->start_ns);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int answer_attach(const struct server *s, const struct keeper_request *q, int fd_in,
	struct keeper_reply *reply, int *ret_fd)
{
	struct errbuf eb = {0};
	int r;

	if (q->op == KEEPER_OP_ATTACH_FILE)
		r = fd_in < 0 ? -EINVAL
			      : s->attach_file(s->attach_ctx, q->what, fd_in, q->start, &eb);
	else
		r = q->id < ABI_MAX_CPUS ? s->attach(s->attach_ctx, q->what, q->id, &eb) : -EINVAL;
	if (r < 0)
		snprintf(reply->text, sizeof(reply->text), "%s", eb.text);
	else
		*ret_fd = r;
	return MIN(r, 0);
}

static int answer_opener(const struct server *s, struct keeper_reply *reply, int *ret_fd)
{
	struct errbuf eb = {0};
	int r = s->start_opener(s->opener_ctx, ret_fd, &reply->pid, &eb);

	if (r < 0)
		snprintf(reply->text, sizeof(reply->text), "%s", eb.text);
	return r;
}

static int answer(const struct server *s, const struct keeper_request *q, int fd_in,
	struct keeper_reply *reply, int *fds)
{
	int r = -ENOTSUP;

	if ((q->op == KEEPER_OP_ATTACH && s->attach) ||
		(q->op == KEEPER_OP_ATTACH_FILE && s->attach_file))
		r = answer_attach(s, q, fd_in, reply, &fds[0]);
	else if (q->op == KEEPER_OP_OPENER && s->start_opener)
		r = answer_opener(s, reply, &fds[0]);
	else if (q->op == KEEPER_OP_OPEN && s->opens_files)
		r = answer_open(s, q, &fds[0]);
	else if (q->op == KEEPER_OP_OPEN_AT && s->opens_files)
		r = answer_open_at(q, fd_in, &fds[0]);
	else if (q->op == KEEPER_OP_COPY && s->copies)
		r = answer_copy(s, q, &fds[0]);
	if (r == 0)
		reply->n_fds = 1;
	return r;
}

static void close_all(const int *fds)
{
	for (int i = 0; i < KEEPER_MAX_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/*
 * Attaching to a file may read it, so it is done by a process of its own, which sends the reply: 1 in that one, -EAGAIN where there is
 * nothing left to do, 0 when the request is to be answered here, -errno when it cannot be.
 */
static int leave_to_helper(
	const struct server *s, const struct keeper_request *q, struct keeper_reply *reply)
{
	struct errbuf eb = {0};
	int r;

	if (q->op != KEEPER_OP_ATTACH_FILE || !s->attach_file || !s->fork_helper)
		return 0;
	r = s->fork_helper(s->opener_ctx, &eb);
	if (r < 0)
		snprintf(reply->text, sizeof(reply->text), "%s", eb.text);
	return r > 0 ? -EAGAIN : r == 0 ? 1 : r;
}

int server_wait(int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	return poll(&p, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

int server_answer(const struct server *s, int sock)
{
	uint8_t buf[KEEPER_MAX_MESSAGE], out[KEEPER_REPLY_BYTES + KEEPER_MAX_TEXT];
	int in_fds[KEEPER_MAX_FDS], out_fds[KEEPER_MAX_FDS] = {-1, -1};
	struct keeper_reply reply = {0};
	struct keeper_request q;
	int helper = 0;
	size_t n_in;
	int r = fd_message_receive(
		sock, buf, sizeof(buf), in_fds, KEEPER_MAX_FDS, &n_in, MSG_DONTWAIT);

	if (r == -EAGAIN || r == -EINTR)
		return 0;
	if (r == 0)
		return -EPIPE;
	if (r < 0 && r != -EPROTO)
		return r;
	if (r == -EPROTO || protocol_get_request(buf, (size_t)r, &q) < 0)
		reply.result = -EBADMSG;
	else
		helper = leave_to_helper(s, &q, &reply);
	if (helper == -EAGAIN) {
		close_all(in_fds);
		return 0;
	}
	if (helper < 0)
		reply.result = helper;
	else if (!reply.result)
		reply.result = answer(s, &q, in_fds[0], &reply, out_fds);
	reply.seq = r == -EPROTO ? 0 : q.seq;
	close_all(in_fds);
	r = protocol_put_reply(&reply, out);
	r = fd_message_send(sock, out, (size_t)r, out_fds, reply.n_fds, MSG_DONTWAIT);
	close_all(out_fds);
	if (helper > 0)
		_exit(0);
	/* No room: main gave those requests up and will read their replies when it asks again. */
	return r == -EAGAIN ? 0 : r;
}
