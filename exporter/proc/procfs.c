/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read from /proc: names, cgroups, mappings, and the list of processes at start.
 */
#include "exporter/proc/publish.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>

enum { PF_KTHREAD = 0x00200000 };

/* Reads a small file of /proc/PID into the buffer, NUL-terminated. Its length, or -errno. */
static ssize_t read_small(struct proc_table *t, uint32_t pid, const char *name, size_t cap)
{
	char path[512];
	size_t len = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%u/%s", t->o.procfs, pid, name);
	fd = t->o.fs->open(t->o.fs, path, O_RDONLY, 0);
	if (fd < 0)
		return fd;
	while (len < cap) {
		ssize_t n = t->o.fs->pread(t->o.fs, fd, t->buffer + len, cap - len, len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	t->o.fs->close(t->o.fs, fd);
	t->buffer[MIN(len, PROC_READ_BYTES - 1)] = '\0';
	return (ssize_t)len;
}

struct proc_stat {
	char comm[ABI_COMM_LEN];
	uint32_t ppid;
	uint64_t flags, cpu_ticks, start_ticks;
};

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

/* proc(5), /proc/PID/stat: the name may hold anything, so what follows starts after the last
 * parenthesis. */
static int read_stat(struct proc_table *t, uint32_t pid, struct proc_stat *ret)
{
	enum { PPID = 4, FLAGS = 9, UTIME = 14, STIME = 15, START = 22 };
	ssize_t n = read_small(t, pid, "stat", 2048);
	const char *open = n > 0 ? strchr(t->buffer, '(') : NULL,
		   *close = open ? strrchr(open, ')') : NULL, *s;
	uint64_t field[START + 1] = {0};

	if (n < 0)
		return (int)n;
	if (!close || strlen(close) < 4)
		return -EBADMSG;
	s = close + 4; /* ") S " */
	for (int i = PPID; i <= START; i++)
		if (!take_number(&s, &field[i]))
			return -EBADMSG;
	*ret = (struct proc_stat) {
		.ppid = (uint32_t)field[PPID],
		.flags = field[FLAGS],
		.cpu_ticks = field[UTIME] + field[STIME],
		.start_ticks = field[START],
	};
	memcpy(ret->comm, open + 1, MIN((size_t)(close - open - 1), sizeof(ret->comm) - 1));
	return 0;
}

static void set_cgroup(
	struct proc_table *t, struct process *p, struct cgroup *c, uint64_t cgroup_id)
{
	proc_cgroup_put(t, &p->cgroup);
	p->cgroup = c;
	p->cgroup_id = cgroup_id;
	p->cgroup_read_ns = 0;
}

/* The process's own file is asked only while the record's id is not known: it shows where the process is by now. */
static void read_cgroup(struct proc_table *t, struct process *p, uint64_t cgroup_id)
{
	const struct cgroup *known = proc_cgroup_known(t, cgroup_id);
	const char *path = known ? known->path : "";
	size_t len = strlen(path);
	struct cgroup *c;
	bool v2 = false;
	ssize_t n;

	if (!known) {
		n = read_small(t, p->pid, "cgroup", PROC_READ_BYTES - 1);
		len = n > 0 ? cgroup_select(t->buffer, (size_t)n, &path, &v2) : 0;
	}
	c = len ? proc_cgroup_get(t, path, len) : NULL;
	if (!c)
		return;
	set_cgroup(t, p, c, cgroup_id);
	if (v2 && len > 1 && cgroup_id)
		p->cgroup_read_ns = (uint64_t)clock_monotonic_ns(t->o.clock);
}

/* Before its file was read and after it the process was in the same group, so that is the one of this id. From now on the id in a
 * record is enough, also for processes that have ended or moved when they are looked at. */
static void learn_cgroup(struct proc_table *t, struct process *p, const struct abi_record *r)
{
	if (!p->cgroup_read_ns || r->time_ns <= p->cgroup_read_ns || r->cgroup_id != p->cgroup_id)
		return;
	p->cgroup_read_ns = 0;
	proc_cgroup_learn(t, r->cgroup_id, p->cgroup);
}

static void read_cmdline(struct proc_table *t, struct process *p)
{
	ssize_t n = read_small(t, p->pid, "cmdline", PROC_CMDLINE_BYTES);

	while (n > 0 && !t->buffer[n - 1])
		n--;
	if (n <= 0)
		return;
	for (ssize_t i = 0; i < n; i++)
		t->buffer[i] = t->buffer[i] ? t->buffer[i] : ' ';
	proc_text_put(&p->cmdline);
	p->cmdline = proc_text_new(t->buffer, (size_t)n);
	if (p->runtime)
		proc_publish_soon(t, p);
}

/* From /proc/PID/status: the effective user, the second number of Uid; the pid inside the innermost
 * PID namespace, the last one of NSpid. */
static void read_status(struct proc_table *t, struct process *p)
{
	ssize_t n = read_small(t, p->pid, "status", 8192);
	const char *line = n > 0 ? strstr(t->buffer, "\nNSpid:") : NULL;
	const char *uid = n > 0 ? strstr(t->buffer, "\nUid:\t") : NULL;
	uint64_t user;

	uid = uid ? strchr(uid + strlen("\nUid:\t"), '\t') : NULL;
	if (uid && take_number(&(const char *) {uid + 1}, &user)) {
		p->uid = (uint32_t)user;
		p->uid_known = true;
	}

	for (const char *s = line ? line + strlen("\nNSpid:") : NULL; s && *s && *s != '\n';) {
		uint64_t pid;

		s += strspn(s, "\t ");
		if (!take_number(&s, &pid))
			break;
		p->ns_pid = (uint32_t)pid;
	}
}

static void note_stat(struct proc_table *t, struct process *p, const struct proc_stat *st)
{
	struct process *parent = p->parent || !st->ppid ? NULL : proc_newest(t, st->ppid);

	memcpy(p->comm, st->comm, sizeof(p->comm));
	p->start_ticks = st->start_ticks;
	p->kernel_thread = st->flags & PF_KTHREAD;
	if (parent && parent != p && parent->depth < PROC_MAX_DEPTH) {
		p->parent = parent;
		p->depth = parent->depth + 1;
		proc_ref(parent);
	}
}

static void read_all_labels(
	struct proc_table *t, struct process *p, const struct proc_stat *st, uint64_t cgroup_id)
{
	p->labels_read = p->labels_own = true;
	p->labels_due_ns = t->now_ns + PROC_LABELS_TTL_NS;
	t->stats.labels_read++;
	note_stat(t, p, st);
	read_cgroup(t, p, cgroup_id);
	if (p->kernel_thread)
		return;
	read_cmdline(t, p);
	read_status(t, p);
	proc_check_root(t, p);
}

/* The same process as the one that /proc shows now? Ticks are 10 ms; a pid comes back later than
 * that. */
static bool is_same_process(const struct process *p, const struct proc_stat *st)
{
	return !p->start_ticks || p->start_ticks == st->start_ticks;
}

/* `cgroup_id` is that of a record of its own, 0 none: its parent's may be another. */
static bool read_own_labels(struct proc_table *t, struct process *p, uint64_t cgroup_id)
{
	struct proc_stat st;

	p->labels_read = true;
	if (p->exited || read_stat(t, p->pid, &st) < 0 || !is_same_process(p, &st))
		return false;
	read_all_labels(t, p, &st, cgroup_id);
	return true;
}

/* Gone before it could be asked: it was where its parent is. That one may not have been asked
 * either, and what it has from its own parent may be from before it entered a container. */
static void labels_of_ancestor(struct proc_table *t, struct process *p)
{
	for (struct process *at = p->parent; !p->labels_own && at && at != t->other;
		at = at->parent) {
		if (!at->labels_own && !at->labels_read && proc_may_read(t))
			read_own_labels(t, at, 0);
		if (!at->labels_own)
			continue;
		proc_cgroup_put(t, &p->cgroup);
		p->cgroup = proc_cgroup_ref(at->cgroup);
		return;
	}
}

void proc_read_labels(struct proc_table *t, struct process *p)
{
	if (!read_own_labels(t, p, 0))
		labels_of_ancestor(t, p);
}

/* `told`: the record's cgroup id is known, so an ancestor's is not wanted. */
static void read_first_labels(
	struct proc_table *t, struct process *p, uint64_t cgroup_id, bool told)
{
	p->cgroup_id = cgroup_id;
	if (!read_own_labels(t, p, cgroup_id) && !told)
		labels_of_ancestor(t, p);
}

void proc_refresh_labels(struct proc_table *t, struct process *p, const struct abi_record *r)
{
	uint64_t id = r->cgroup_id;
	struct cgroup *known;
	struct proc_stat st;
	bool moved = id && p->cgroup_id && id != p->cgroup_id;

	if (p == t->other)
		return;
	learn_cgroup(t, p, r);
	if (p->labels_read && !moved && t->now_ns < p->labels_due_ns && (p->cgroup_id || !id))
		return;
	known = proc_cgroup_known(t, id);
	if (known && p->cgroup_id != id)
		set_cgroup(t, p, proc_cgroup_ref(known), id);
	if ((p->exited && p->labels_read) || !proc_may_read(t))
		return;
	if (!p->labels_read) {
		read_first_labels(t, p, id, known != NULL);
		return;
	}
	p->labels_due_ns = t->now_ns + PROC_LABELS_TTL_NS;
	p->cgroup_id = id;
	p->cgroup_read_ns = 0;
	if (read_stat(t, p->pid, &st) == 0 && is_same_process(p, &st)) {
		t->stats.labels_read++;
		read_cgroup(t, p, id);
	}
}

/* Without a build id a reused inode looks like its predecessor; size and time of change tell
 * them apart where the path leads there from here too. */
uint32_t proc_binary_of(struct proc_table *t, struct binary_identity *identity)
{
	struct fs_stat st;

	if (!identity->build_id_len && identity->path[0] == '/' &&
		t->o.fs->stat(t->o.fs, identity->path, &st) == 0 && st.ino == identity->ino &&
		major(st.dev) == identity->dev_major && minor(st.dev) == identity->dev_minor) {
		identity->size_bytes = st.size_bytes;
		identity->mtime_ns = st.mtime_ns;
	}
	return binary_get(t->o.binaries, identity);
}

static void add_line(struct proc_table *t, struct process *p, char *text)
{
	struct maps_line line;
	struct mapping m;

	if (!maps_parse_line(text, &line) || !line.executable)
		return;
	m = (struct mapping) {.start = line.start,
		.end = line.end,
		.file_off = line.file_off,
		.kind = maps_kind(line.path)};
	if (m.kind == MAPPING_FILE)
		m.binary = proc_binary_of(t, &(struct binary_identity) {
						     .dev_major = line.dev_major,
						     .dev_minor = line.dev_minor,
						     .ino = line.ino,
						     .path = line.path,
					     });
	proc_add_mapping(t, p, &m, line.path);
}

/* Adds the lines in the buffer; returns how many bytes of an unfinished one are left at its
 * front. */
static size_t add_lines(struct proc_table *t, struct process *p, size_t n)
{
	char *line = t->buffer, *end = t->buffer + n, *newline;

	while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
		*newline = '\0';
		add_line(t, p, line);
		line = newline + 1;
	}
	memmove(t->buffer, line, (size_t)(end - line));
	return (size_t)(end - line);
}

/* Mappings of which it is known since when they are there stay so. */
static void keep_times(struct maps *before, struct maps *after)
{
	for (uint32_t i = 0; i < maps_count(after); i++) {
		struct mapping *m = maps_find(after, maps_at(after, i)->start);
		const struct mapping *old = maps_find(before, m->start);

		if (old && old->binary == m->binary && old->file_off == m->file_off) {
			m->since_ns = old->since_ns;
			m->wanted_s = old->wanted_s;
		}
	}
}

void proc_read_maps(struct proc_table *t, struct process *p)
{
	struct keeper *k = t->o.keeper;
	struct maps *before = TAKE(p->maps);
	_cleanup_close_ int fd = -1;
	size_t held = 0;
	bool any = false;
	ssize_t n;

	p->maps_due_ns = t->now_ns + ((uint64_t)PROC_MAPS_BACKOFF_NS << p->maps_misses);
	t->stats.maps_reads++;
	fd = k->open(k, p->pid, p->start_ns, KEEPER_MAPS, 0, 0);
	while (fd >= 0 && (n = read(fd, t->buffer + held, PROC_READ_BYTES - held)) > 0) {
		any = true;
		held = add_lines(t, p, held + (size_t)n);
		if (held == PROC_READ_BYTES)
			break; /* a line longer than any path */
	}
	if (!any) {
		/* Gone, or just ending: what was known is still the best. */
		t->stats.maps_read_failed++;
		p->maps = before;
		return;
	}
	p->maps_complete = true;
	keep_times(before, p->maps);
	maps_put(&before);
}

static int by_cpu(const void *pa, const void *pb)
{
	const struct scan_item *a = pa, *b = pb;

	return a->cpu_ticks > b->cpu_ticks ? -1 : a->cpu_ticks < b->cpu_ticks;
}

static bool pid_of(const char *name, uint32_t *ret)
{
	uint64_t v;

	if (!take_number(&name, &v) || *name || !v || v > UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static void list_processes(struct proc_table *t)
{
	struct scan *s = &t->scan;
	_cleanup_bytes_ struct bytes names;

	bytes_init(&names, NULL, 0);
	s->n = s->at = 0;
	s->listed = true;
	s->begin_ns = (uint64_t)clock_monotonic_ns(t->o.clock);
	t->now_ns = MAX(t->now_ns, s->begin_ns);
	for (struct process *p = t->all; p; p = p->next)
		p->in_scan = false;
	if (t->o.fs->list(t->o.fs, t->o.procfs, &names) < 0)
		return;
	for (size_t at = 0; at < names.len; at += strlen((const char *)names.data + at) + 1) {
		struct scan_item item = {0};
		struct proc_stat st;

		if (!pid_of((const char *)names.data + at, &item.pid) ||
			read_stat(t, item.pid, &st) < 0)
			continue;
		item.cpu_ticks = st.cpu_ticks;
		if (alloc_grow(&s->items, &s->cap, s->n + 1, sizeof(*s->items)) < 0)
			return;
		s->items[s->n++] = item;
	}
	if (s->n)
		qsort(s->items, s->n, sizeof(*s->items), by_cpu);
}

static void scan_one(struct proc_table *t, uint32_t pid)
{
	struct process *p = proc_newest(t, pid);
	struct proc_stat st;

	if (read_stat(t, pid, &st) < 0)
		return;
	if (p && !p->exited && is_same_process(p, &st)) {
		p->in_scan = true;
		if (p->maps_complete || p->kernel_thread)
			return;
	} else {
		if (p && !p->exited)
			proc_image_end(t, p, t->now_ns);
		t->stats.recycled += p != NULL;
		p = proc_image_new(t, pid, (uint64_t)clock_monotonic_ns(t->o.clock));
		if (!p)
			return;
		p->found_running = p->in_scan = true;
	}
	read_all_labels(t, p, &st, 0);
	if (!p->kernel_thread)
		proc_read_maps(t, p);
}

/* After lost records: what was not found any more ended meanwhile. */
static void end_unseen(struct proc_table *t)
{
	for (struct process *p = t->all; p; p = p->next)
		if (!p->exited && !p->in_scan && p->begin_ns < t->scan.begin_ns)
			proc_image_end(t, p, t->scan.begin_ns);
}

int proc_table_scan_step(struct proc_table *t, int64_t budget_ns)
{
	int64_t until = clock_monotonic_ns(t->o.clock) + budget_ns;
	struct scan *s = &t->scan;

	if (!s->pending)
		return 0;
	if (!s->listed)
		list_processes(t);
	while (s->at < s->n) {
		scan_one(t, s->items[s->at++].pid);
		if (clock_monotonic_ns(t->o.clock) >= until)
			return 1;
	}
	end_unseen(t);
	s->pending = s->listed = false;
	free(TAKE(s->items));
	s->n = s->cap = 0;
	return 0;
}
