/* SPDX-License-Identifier: Apache-2.0
 *
 * proc(5): stat, cgroup, cmdline, status, maps, and the list of processes.
 */
#include "exporter/proc/reader/files.h"
#include "exporter/proc/cgroup.h"
#include "exporter/proc/maps.h"
#include "exporter/proc/reader/moved.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PF_KTHREAD = 0x00200000,
	CGROUP_BYTES = 64 << 10,
	CMDLINE_BYTES = 4096,
	STATUS_BYTES = 8192,
	STAT_BYTES = 2048,
	MAPS_STEP_BYTES = 64 << 10,
	MAPS_BYTES = 64 << 20, /* of one process */
};

/* Reads a small file of /proc/PID, NUL-terminated. Its length, or -errno. */
static ssize_t read_small(const struct proc_reader_options *o, uint32_t pid, const char *name,
	char *buffer, size_t cap)
{
	char path[512];
	size_t len = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%u/%s", o->procfs, pid, name);
	fd = o->fs->open(o->fs, path, O_RDONLY, 0);
	if (fd < 0)
		return fd;
	while (len < cap - 1) {
		ssize_t n = o->fs->pread(o->fs, fd, buffer + len, cap - 1 - len, len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	o->fs->close(o->fs, fd);
	buffer[len] = '\0';
	return (ssize_t)len;
}

static bool take_number(const char **s, uint64_t *ret)
{
	uint64_t v = 0;
	const char *p = *s;
	bool negative = *p == '-';

	for (p += negative; *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (uint64_t)(*p - '0');
	if (p == *s + negative)
		return false;
	*s = p + (*p == ' ');
	*ret = negative ? 0 : v;
	return true;
}

/* The name may hold anything, so what follows starts after the last parenthesis. */
static int read_stat(const struct proc_reader_options *o, uint32_t pid, struct proc_stat *ret)
{
	enum { PPID = 4, FLAGS = 9, UTIME = 14, STIME = 15, START = 22 };
	char buffer[STAT_BYTES];
	ssize_t n = read_small(o, pid, "stat", buffer, sizeof(buffer));
	const char *open = n > 0 ? strchr(buffer, '(') : NULL,
		   *close = open ? strrchr(open, ')') : NULL, *s;
	uint64_t field[START + 1] = {0};

	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	if (n == 0)
		return -ESRCH; /* it ended meanwhile */
	if (!close || strlen(close) < 4)
		return -EBADMSG;
	s = close + 4; /* ") S " */
	for (int i = PPID; i <= START; i++)
		if (!take_number(&s, &field[i]))
			return -EBADMSG;
	*ret = (struct proc_stat) {
		.ppid = (uint32_t)field[PPID],
		.kernel_thread = field[FLAGS] & PF_KTHREAD,
		.cpu_ticks = field[UTIME] + field[STIME],
		.start_ticks = field[START],
	};
	memcpy(ret->comm, open + 1, MIN((size_t)(close - open - 1), sizeof(ret->comm) - 1));
	return 0;
}

static void read_cgroup(const struct proc_reader_options *o, struct proc_answer *a)
{
	_cleanup_free_ char *buffer = xmalloc(CGROUP_BYTES);
	ssize_t n = read_small(o, a->request.pid, "cgroup", buffer, CGROUP_BYTES);
	const char *path = NULL;
	size_t len = n > 0 ? cgroup_select(buffer, (size_t)n, &path, &a->cgroup_is_v2) : 0;

	if (len)
		a->cgroup = xstrndup(path, len);
}

static void read_cmdline(const struct proc_reader_options *o, struct proc_answer *a)
{
	char buffer[CMDLINE_BYTES + 1];
	ssize_t n = read_small(o, a->request.pid, "cmdline", buffer, sizeof(buffer));

	while (n > 0 && !buffer[n - 1])
		n--;
	if (n <= 0)
		return;
	for (ssize_t i = 0; i < n; i++)
		buffer[i] = buffer[i] ? buffer[i] : ' ';
	a->cmdline = xstrndup(buffer, (size_t)n);
}

/* The effective user is the second number of Uid; the pid inside the innermost PID namespace the last one of NSpid. */
static void read_status(const struct proc_reader_options *o, struct proc_answer *a)
{
	char buffer[STATUS_BYTES];
	ssize_t n = read_small(o, a->request.pid, "status", buffer, sizeof(buffer));
	const char *line = n > 0 ? strstr(buffer, "\nNSpid:") : NULL;
	const char *uid = n > 0 ? strstr(buffer, "\nUid:\t") : NULL;
	uint64_t user;

	uid = uid ? strchr(uid + strlen("\nUid:\t"), '\t') : NULL;
	if (uid && take_number(&(const char *) {uid + 1}, &user)) {
		a->uid = (uint32_t)user;
		a->uid_known = true;
	}
	for (const char *s = line ? line + strlen("\nNSpid:") : NULL; s && *s && *s != '\n';) {
		uint64_t pid;

		s += strspn(s, "\t ");
		if (!take_number(&s, &pid))
			break;
		a->ns_pid = (uint32_t)pid;
	}
}

void files_read_labels(const struct proc_reader_options *o, struct proc_answer *a)
{
	a->error = read_stat(o, a->request.pid, &a->stat);
	if (a->error < 0)
		return;
	if (a->request.cgroup)
		read_cgroup(o, a);
	if (!a->request.names || a->stat.kernel_thread)
		return;
	read_cmdline(o, a);
	read_status(o, a);
}

/* All text of the file, which the lines then point into. */
static int read_text(int fd, struct bytes *text)
{
	ssize_t n;

	do {
		if (text->len > MAPS_BYTES || !bytes_reserve(text, MAPS_STEP_BYTES))
			return -ENOMEM;
		n = read(fd, text->data + text->len, MAPS_STEP_BYTES);
		text->len += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : text->len ? 0 : -ESRCH;
}

/* The lines of maps, as they are read. */
struct reading {
	size_t cap; /* of the answer's lines */
	struct moved moved;
	struct proc_line first; /* of a file */
	const char *first_code; /* path of the first file with code; NULL: none yet */
};

static int add_line(
	const struct proc_reader_options *o, struct proc_answer *a, struct reading *r, char *line)
{
	struct maps_line m;
	struct proc_line add;

	if (!maps_parse_line(line, &m))
		return 0;
	moved_line(o, &r->moved, a, &m);
	add = (struct proc_line) {.start = m.start,
		.end = m.end,
		.file_off = m.file_off,
		.ino = m.ino,
		.dev_major = m.dev_major,
		.dev_minor = m.dev_minor,
		.path = (uint32_t)(m.path - a->text)};
	if (!r->first.ino && m.ino && m.path[0] == '/')
		r->first = add;
	if (!m.executable)
		return 0;
	if (!r->first_code && m.path[0] == '/' && maps_kind(m.path) == MAPPING_FILE)
		r->first_code = m.path;
	if (alloc_grow(&a->lines, &r->cap, a->n + 1, sizeof(*a->lines)) < 0)
		return -ENOMEM;
	a->lines[a->n++] = add;
	return 0;
}

/* Mostly the first file with code is the program itself, but for one that moved its code or mapped something below it. */
static void read_executable(
	const struct proc_reader_options *o, struct proc_answer *a, const struct reading *r)
{
	_cleanup_close_ int fd = -1;
	char text[PATH_MAX + 1];
	ssize_t n;

	if (!r->first.ino || (r->first_code && strcmp(r->first_code, a->text + r->first.path) == 0))
		return;
	fd = o->keeper->open(o->keeper, a->request.pid, a->request.start_ns, KEEPER_EXE, 0, 0);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	a->executable = xstrdup(text);
	if (strcmp(text, a->text + r->first.path) == 0)
		a->executable_line = r->first;
}

void files_read_maps(const struct proc_reader_options *o, struct proc_answer *a)
{
	struct keeper *k = o->keeper;
	_cleanup_close_ int fd = k->open(k, a->request.pid, a->request.start_ns, KEEPER_MAPS, 0, 0);
	_cleanup_bytes_ struct bytes text;
	struct reading reading = {0};

	bytes_init(&text, NULL, 0);
	a->error = fd < 0 ? fd : read_text(fd, &text);
	if (a->error < 0)
		return;
	bytes_put_u8(&text, 0);
	a->error = bytes_error(&text);
	if (a->error < 0)
		return;
	a->text = (char *)text.data;
	text.data = NULL;
	for (char *line = a->text, *end; a->error == 0 && (end = strchr(line, '\n'));
		line = end + 1) {
		*end = '\0';
		a->error = add_line(o, a, &reading, line);
	}
	if (a->error == 0)
		read_executable(o, a, &reading);
}

static int by_cpu(const void *pa, const void *pb)
{
	const struct proc_listed *a = pa, *b = pb;

	if (a->stat.cpu_ticks != b->stat.cpu_ticks)
		return a->stat.cpu_ticks > b->stat.cpu_ticks ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static bool pid_of(const char *name, uint32_t *ret)
{
	uint64_t v;

	if (!take_number(&name, &v) || *name || !v || v > UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

void files_read_list(const struct proc_reader_options *o, struct proc_answer *a)
{
	_cleanup_bytes_ struct bytes names;
	size_t cap = 0;

	bytes_init(&names, NULL, 0);
	a->error = o->fs->list(o->fs, o->procfs, &names);
	for (size_t at = 0; a->error == 0 && at < names.len;
		at += strlen((const char *)names.data + at) + 1) {
		struct proc_listed item = {0};

		if (!pid_of((const char *)names.data + at, &item.pid) ||
			read_stat(o, item.pid, &item.stat) < 0)
			continue;
		if (alloc_grow(&a->listed, &cap, a->n + 1, sizeof(*a->listed)) < 0)
			a->error = -ENOMEM;
		else
			a->listed[a->n++] = item;
	}
	if (a->n)
		qsort(a->listed, a->n, sizeof(*a->listed), by_cpu);
}
