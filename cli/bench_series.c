/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts are the kernel's software events, which every process and thread that comes of the command inherits and which lose none that
 * ended. Memory and I/O are those of the processes that are there when they are looked at.
 */
#include "cli/bench_series.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_PROC_BYTES = 1 << 16, MAX_LINE_BYTES = 1 << 16, NOT_COUNTED = -1 };

static const struct {
	const char *name, *unit;
	int event;    /* PERF_COUNT_SW_… */
	double scale; /* of the event */
} metrics[BENCH_SERIES_N] = {
	[BENCH_SERIES_CPU] = {"cpu", "cores", PERF_COUNT_SW_TASK_CLOCK, 1e-9},
	[BENCH_SERIES_RSS] = {"rss", "bytes", NOT_COUNTED, 1},
	[BENCH_SERIES_MINOR_FAULTS] = {"minor_faults", "count", PERF_COUNT_SW_PAGE_FAULTS_MIN, 1},
	[BENCH_SERIES_MAJOR_FAULTS] = {"major_faults", "count", PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1},
	[BENCH_SERIES_READ] = {"read", "bytes", NOT_COUNTED, 1},
	[BENCH_SERIES_WRITTEN] = {"written", "bytes", NOT_COUNTED, 1},
	[BENCH_SERIES_SWITCHES] = {"context_switches", "count", PERF_COUNT_SW_CONTEXT_SWITCHES, 1},
};

const char *bench_series_name(int metric)
{
	return metrics[metric].name;
}

const char *bench_series_unit(int metric)
{
	return metrics[metric].unit;
}

void bench_series_done(struct bench_series *s)
{
	free(s->seconds);
	free(s->progress);
	for (int m = 0; m < BENCH_SERIES_N; m++)
		free(s->values[m]);
	*s = (struct bench_series) {};
}

/* ---- the kernel's counters ---- */

static int open_counter(pid_t pid, int event)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(a),
		.config = (uint64_t)event,
		.inherit = 1};

	return (int)syscall(SYS_perf_event_open, &a, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void bench_probe_begin(struct bench_probe *p, pid_t pid, const struct regex *progress)
{
	*p = (struct bench_probe) {.pid = pid, .progress = progress, .is_open = true, .said = NAN};
	bytes_init(&p->line, NULL, 0);
	for (int m = 0; m < BENCH_SERIES_N; m++)
		p->counters[m] =
			metrics[m].event == NOT_COUNTED ? -1 : open_counter(pid, metrics[m].event);
}

void bench_probe_done(struct bench_probe *p)
{
	for (int m = 0; p->is_open && m < BENCH_SERIES_N; m++)
		if (p->counters[m] >= 0)
			close(p->counters[m]);
	bytes_done(&p->line);
}

static double read_counter(int fd)
{
	uint64_t v;

	return fd >= 0 && read(fd, &v, sizeof(v)) == (ssize_t)sizeof(v) ? (double)v : NAN;
}

/* ---- processes ---- */

struct process {
	pid_t pid, parent;
	double rss_bytes;
	bool is_ours;
};

struct processes {
	struct process *items;
	size_t n, cap;
};

static bool read_proc(pid_t pid, const char *file, struct bytes *ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	bytes_reset(ret);
	if (fs_read_file(&fs_system, path, MAX_PROC_BYTES, ret, NULL) < 0)
		return false;
	bytes_put_u8(ret, '\0');
	return !ret->error;
}

/* Parent and resident pages: fields 4 and 24, counted from behind the name, which is in parentheses and may hold anything. */
static bool take_stat(const char *text, struct process *ret)
{
	const char *at = strrchr(text, ')');
	long long parent = 0, pages = 0;

	if (!at || sscanf(at + 1, " %*c %lld", &parent) != 1)
		return false;
	at += 2;
	for (int field = 3; field < 24 && at; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (!at || sscanf(at, "%lld", &pages) != 1)
		return false;
	ret->parent = (pid_t)parent;
	ret->rss_bytes = (double)pages * (double)sysconf(_SC_PAGESIZE);
	return true;
}

static int list_processes(struct processes *all)
{
	_cleanup_bytes_ struct bytes text = {};
	DIR *proc = opendir("/proc");
	int r = proc ? 0 : -errno;

	for (struct dirent *e; r == 0 && (e = readdir(proc));) {
		struct process p = {};
		uint64_t pid;

		if (str_parse_u64(e->d_name, &pid, NULL) < 0 || pid > INT32_MAX)
			continue;
		p.pid = (pid_t)pid;
		if (!read_proc(p.pid, "stat", &text) || !take_stat((const char *)text.data, &p))
			continue;
		r = alloc_grow(&all->items, &all->cap, all->n + 1, sizeof(*all->items));
		if (r == 0)
			all->items[all->n++] = p;
	}
	if (proc)
		closedir(proc);
	return r;
}

/* The process and its descendants. */
static void find_ours(struct processes *all, pid_t root)
{
	bool found = true;

	for (size_t i = 0; i < all->n; i++)
		all->items[i].is_ours = all->items[i].pid == root;
	while (found) {
		found = false;
		for (size_t i = 0; i < all->n; i++)
			for (size_t k = 0; k < all->n && !all->items[i].is_ours; k++)
				if (all->items[k].is_ours &&
					all->items[k].pid == all->items[i].parent)
					found = all->items[i].is_ours = true;
	}
}

static double number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	long long v = 0;

	return at && sscanf(at + strlen(key), "%lld", &v) == 1 ? (double)v : 0;
}

/* Sums over the processes that are there now. */
static void look_at_processes(pid_t pid, double now[BENCH_SERIES_N])
{
	_cleanup_bytes_ struct bytes text = {};
	struct processes all = {};

	if (list_processes(&all) < 0)
		all.n = 0;
	find_ours(&all, pid);
	for (size_t i = 0; i < all.n; i++) {
		if (!all.items[i].is_ours)
			continue;
		now[BENCH_SERIES_RSS] += all.items[i].rss_bytes;
		if (!read_proc(all.items[i].pid, "io", &text))
			continue;
		/* With what children that were waited for had. */
		now[BENCH_SERIES_READ] += number_after((const char *)text.data, "\nread_bytes: ");
		now[BENCH_SERIES_WRITTEN] +=
			number_after((const char *)text.data, "\nwrite_bytes: ");
	}
	free(all.items);
}

/* ---- points ---- */

static int grow(struct bench_series *s, struct errbuf *eb)
{
	size_t cap = s->cap ? 2 * s->cap : 64;
	double **columns[BENCH_SERIES_N + 2] = {&s->seconds, &s->progress};

	if (s->n < s->cap)
		return 0;
	for (int m = 0; m < BENCH_SERIES_N; m++)
		columns[m + 2] = &s->values[m];
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		double *grown = try_realloc(*columns[i], cap, sizeof(**columns[i]));

		if (!grown)
			return err_set(eb, -ENOMEM, "out of memory for %zu points of a run", cap);
		*columns[i] = grown;
	}
	s->cap = cap;
	return 0;
}

int bench_probe_take(struct bench_probe *p, double seconds, bool ended, struct bench_series *to,
	struct errbuf *eb)
{
	double now[BENCH_SERIES_N] = {0}, span = seconds - p->last_s;
	int r = grow(to, eb);

	if (r < 0 || span <= 0)
		return r;
	if (!ended)
		look_at_processes(p->pid, now);
	for (int m = 0; m < BENCH_SERIES_N; m++) {
		bool is_counted = metrics[m].event != NOT_COUNTED;
		double v = is_counted ? read_counter(p->counters[m]) * metrics[m].scale
			   : ended    ? NAN
				      : now[m];

		to->values[m][to->n] =
			m == BENCH_SERIES_RSS || isnan(v) ? v : fmax((v - p->last[m]) / span, 0);
		p->last[m] = v;
	}
	to->seconds[to->n] = seconds;
	to->progress[to->n++] = p->said;
	p->last_s = seconds;
	return 0;
}

/* ---- progress ---- */

static void take_line(struct bench_probe *p)
{
	struct regex_span spans[2];
	const char *s = (const char *)p->line.data;
	_cleanup_free_ char *text = NULL;
	double v;
	int group;

	if (regex_match_groups(p->progress, s, p->line.len, 0, spans, 2, NULL) != 1)
		return;
	group = spans[1].start >= 0;
	text = xstrndup(s + spans[group].start, (size_t)(spans[group].end - spans[group].start));
	if (str_parse_double(text, &v, NULL) == 0 && isfinite(v))
		p->said = v;
}

void bench_probe_output(struct bench_probe *p, const char *text, size_t n)
{
	for (size_t i = 0; p->progress && i < n; i++) {
		if (text[i] != '\n' && text[i] != '\r') {
			if (p->line.len < MAX_LINE_BYTES)
				bytes_put_u8(&p->line, (uint8_t)text[i]);
			continue;
		}
		if (p->line.len)
			take_line(p);
		bytes_reset(&p->line);
	}
}
