/* SPDX-License-Identifier: Apache-2.0
 *
 * HotSpot's attach protocol, for one command.
 */
#include "exporter/keeper/attach.h"
#include "exporter/keeper/server.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/sandbox.h"
#include "lib/base/str.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LISTEN_TRIES = 50, STATUS_BYTES = 8192, CMDLINE_BYTES = 16384 };
#define LISTEN_STEP_NS (100 * NS_PER_MS)

/* What /proc says of the JVM. */
struct jvm {
	uint32_t pid, ns_pid;
	uid_t uid;
	gid_t gid;
	int tmp_fd; /* its /tmp */
};

/* A file of /proc/PID, as a string; false when it cannot be read. */
static bool read_text(int proc_fd, const char *name, char *buf, size_t cap)
{
	_cleanup_close_ int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got;

	while (fd >= 0 && n < cap - 1 && (got = read(fd, buf + n, cap - 1 - n)) > 0)
		n += (size_t)got;
	buf[n] = '\0';
	/* Arguments are separated by NULs. */
	for (size_t i = 0; i < n; i++)
		buf[i] = buf[i] ? buf[i] : ' ';
	return n > 0;
}

/* The nth (from 1; 0: the last) word of the line that begins with `key`. */
static bool status_word(const char *status, const char *key, unsigned nth, int base, uint64_t *ret)
{
	const char *line = strstr(status, key), *end;
	bool found = false;
	char *after;

	if (!line)
		return false;
	line += strlen(key);
	end = line + strcspn(line, "\n");
	for (unsigned i = 1; line < end; i++) {
		uint64_t value = strtoull(line, &after, base);

		if (after == line || after > end)
			break;
		*ret = value;
		found = true;
		if (i == nth)
			return true;
		line = after;
	}
	return found && !nth;
}

static bool maps_libjvm(int proc_fd)
{
	_cleanup_close_ int fd = openat(proc_fd, "maps", O_RDONLY | O_CLOEXEC);
	char *line = NULL;
	bool found = false;
	size_t cap = 0;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	ssize_t n;

	if (!f)
		return false;
	fd = -1;
	while (!found && (n = getline(&line, &cap, f)) > 0)
		found = n > 11 && strcmp(line + n - 11, "/libjvm.so\n") == 0;
	free(line);
	fclose(f);
	return found;
}

/* SIGQUIT ends a process that does not catch it, and prints threads where attaching is turned off. */
static enum attach_status look(int proc_fd, struct jvm *ret)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	char status[STATUS_BYTES], cmdline[CMDLINE_BYTES];
	uint64_t uid, gid, ns_pid = 0, caught;
	_cleanup_close_ int root_fd = -1;

	if (!read_text(proc_fd, "status", status, sizeof(status)) ||
		!status_word(status, "\nUid:", 2, 10, &uid) ||
		!status_word(status, "\nGid:", 2, 10, &gid) ||
		!status_word(status, "\nNSpid:", 0, 10, &ns_pid) ||
		!status_word(status, "\nSigCgt:", 1, 16, &caught))
		return ATTACH_GONE;
	if (!(caught >> (SIGQUIT - 1) & 1) || !maps_libjvm(proc_fd) ||
		!read_text(proc_fd, "cmdline", cmdline, sizeof(cmdline)) ||
		strstr(cmdline, "-XX:+DisableAttachMechanism"))
		return ATTACH_NO_JVM;
	root_fd = openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ret->uid = (uid_t)uid;
	ret->gid = (gid_t)gid;
	ret->ns_pid = (uint32_t)ns_pid;
	ret->tmp_fd =
		root_fd < 0 ? -1 : (int)syscall(SYS_openat2, root_fd, "tmp", &how, sizeof(how));
	return ret->tmp_fd < 0 ? ATTACH_DENIED : ATTACH_OK;
}

/* From here on the helper may do what the JVM's user may, in that JVM's /tmp. */
static bool become(const struct jvm *j)
{
	return syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(j->gid, j->gid, j->gid) == 0 &&
	       setresuid(j->uid, j->uid, j->uid) == 0 && sandbox_limit_caps(NULL, 0, NULL) == 0 &&
	       fchdir(j->tmp_fd) == 0;
}

static bool listens(const struct jvm *j, const char *name)
{
	struct stat st;

	return lstat(name, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == j->uid;
}

static enum attach_status make_listen(const struct jvm *j, int pid_fd, const char *name)
{
	char request[64];
	int fd;

	if (listens(j, name))
		return ATTACH_OK;
	snprintf(request, sizeof(request), ".attach_pid%u", j->ns_pid);
	fd = open(request, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno != EEXIST)
		return ATTACH_DENIED;
	if (fd >= 0)
		close(fd);
	if (syscall(SYS_pidfd_send_signal, pid_fd, SIGQUIT, NULL, 0)) {
		unlink(request);
		return errno == ESRCH ? ATTACH_GONE : ATTACH_DENIED;
	}
	for (int i = 0; i < LISTEN_TRIES && !listens(j, name); i++)
		clock_nanosleep(
			CLOCK_MONOTONIC, 0, &(struct timespec) {.tv_nsec = LISTEN_STEP_NS}, NULL);
	unlink(request);
	return listens(j, name) ? ATTACH_OK : ATTACH_TIMEOUT;
}

/* Version 1: the version, the command and three arguments, each with its NUL; a number and a newline come first in the answer. */
static enum attach_status command(const char *name)
{
	static const char message[] = "1\0jcmd\0Compiler.perfmap\0\0";
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char answer[256] = "", rest[256];
	ssize_t n;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", name);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return ATTACH_DENIED;
	if (write(fd, message, sizeof(message)) != (ssize_t)sizeof(message))
		return ATTACH_REFUSED;
	n = read(fd, answer, sizeof(answer) - 1);
	if (n <= 0)
		return ATTACH_REFUSED;
	/* The map is whole when the answer is. */
	while (read(fd, rest, sizeof(rest)) > 0)
		;
	return str_starts_with(answer, "0\n") || strcmp(answer, "0") == 0 ? ATTACH_OK
									  : ATTACH_REFUSED;
}

enum attach_status attach_perfmap(const char *procfs, uint32_t pid, uint64_t start_ns)
{
	_cleanup_close_ int proc_fd = server_open_process(procfs, pid, start_ns), pid_fd = -1,
			    again_fd = -1;
	struct jvm j = {.pid = pid, .tmp_fd = -1};
	enum attach_status status;
	char name[64];

	if (proc_fd < 0)
		return ATTACH_GONE;
	/* The pid descriptor is that process's when it is still the same after it was opened. */
	pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	again_fd = server_open_process(procfs, pid, start_ns);
	if (pid_fd < 0 || again_fd < 0)
		return ATTACH_GONE;
	status = look(again_fd, &j);
	if (status == ATTACH_OK && !become(&j))
		status = ATTACH_DENIED;
	snprintf(name, sizeof(name), ".java_pid%u", j.ns_pid);
	if (status == ATTACH_OK)
		status = make_listen(&j, pid_fd, name);
	if (status == ATTACH_OK)
		status = command(name);
	if (j.tmp_fd >= 0)
		close(j.tmp_fd);
	return status;
}

static enum attach_status serve_one(const char *procfs, const struct attach_message *m)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		/* A FIFO, a dead file system or a JVM that hangs ends the helper alone. */
		(void)sigaction(SIGALRM, &(struct sigaction) {.sa_handler = SIG_DFL}, NULL);
		alarm(ATTACH_TIMEOUT_S);
		_exit((int)attach_perfmap(procfs, m->pid, m->start_ns));
	}
	if (child < 0)
		return ATTACH_DENIED;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return ATTACH_DENIED;
	if (!WIFEXITED(status) || WEXITSTATUS(status) >= ATTACH_N_STATUS)
		return ATTACH_TIMEOUT;
	return (enum attach_status)WEXITSTATUS(status);
}

int attach_serve(const char *procfs, int sock)
{
	struct attach_message m;
	ssize_t n;

	while ((n = recv(sock, &m, sizeof(m), 0)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof(m) || m.magic != ATTACH_MAGIC)
			return 1;
		m.status = serve_one(procfs, &m);
		if (send(sock, &m, sizeof(m), MSG_NOSIGNAL) < 0)
			return 0;
	}
	return 0;
}

int attach_ask(int sock, uint32_t pid, uint64_t start_ns)
{
	struct attach_message m = {.magic = ATTACH_MAGIC, .pid = pid, .start_ns = start_ns};

	return send(sock, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(m)
		       ? 0
		       : -errno;
}

int attach_next_status(int sock)
{
	struct attach_message m;
	ssize_t n = recv(sock, &m, sizeof(m), MSG_DONTWAIT);

	return n == (ssize_t)sizeof(m) && m.magic == ATTACH_MAGIC && m.status < ATTACH_N_STATUS
		       ? (int)m.status
		       : -EAGAIN;
}
