/* SPDX-License-Identifier: Apache-2.0
 *
 * The usual process_* metrics, read from /proc/self when asked, and the memory budgets.
 */
#include "lib/net/metrics/impl.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include <sys/resource.h>
#include <string.h>

struct process_metrics {
	const char *build_info_name, *version;
	double start_time_s;
};

struct budget_metrics {
	size_t n;
	struct budget *budgets[];
};

/* The value in kB of a "VmRSS:   123 kB" line of /proc/self/status, or 0. */
static double status_value(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t v = 0;
	char digits[32];

	if (!at)
		return 0;
	at += strlen(key);
	at += strspn(at, " \t");
	snprintf(digits, sizeof(digits), "%.*s", (int)strspn(at, "0123456789"), at);
	return str_parse_u64(digits, &v, NULL) < 0 ? 0 : (double)v;
}

static double count_fds(void)
{
	_cleanup_bytes_ struct bytes names = {0};
	double n = 0;

	bytes_init(&names, NULL, 0);
	if (fs_system.list(&fs_system, "/proc/self/fd", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.len; i++)
		n += names.data[i] == 0;
	return n - 1; /* the directory itself was open */
}

static void collect_process(struct metrics_writer *w, void *arg)
{
	const struct process_metrics *p = arg;
	_cleanup_bytes_ struct bytes status = {0};
	struct rusage usage = {0};
	struct rlimit limit = {0};

	bytes_init(&status, NULL, 0);
	if (fs_read_file(&fs_system, "/proc/self/status", 65536, &status, NULL) < 0)
		bytes_reset(&status);
	bytes_put_u8(&status, 0);
	getrusage(RUSAGE_SELF, &usage);
	getrlimit(RLIMIT_NOFILE, &limit);
	metrics_write_family(w, METRIC_COUNTER, "process_cpu_seconds_total",
		"User and system CPU time of this process.");
	metrics_write(w,
		(double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
		NULL);
	metrics_write_family(w, METRIC_GAUGE, "process_resident_memory_bytes",
		"Resident memory of this process.");
	metrics_write(w, status_value((const char *)status.data, "VmRSS:") * 1024, NULL);
	metrics_write_family(
		w, METRIC_GAUGE, "process_virtual_memory_bytes", "Virtual memory of this process.");
	metrics_write(w, status_value((const char *)status.data, "VmSize:") * 1024, NULL);
	metrics_write_family(w, METRIC_GAUGE, "process_threads", "Threads of this process.");
	metrics_write(w, status_value((const char *)status.data, "Threads:"), NULL);
	metrics_write_family(w, METRIC_GAUGE, "process_open_fds", "Open file descriptors.");
	metrics_write(w, count_fds(), NULL);
	metrics_write_family(w, METRIC_GAUGE, "process_max_fds", "Limit of open file descriptors.");
	metrics_write(w, (double)limit.rlim_cur, NULL);
	metrics_write_family(w, METRIC_GAUGE, "process_start_time_seconds",
		"Unix time at which this process started.");
	metrics_write(w, p->start_time_s, NULL);
	metrics_write_family(
		w, METRIC_GAUGE, p->build_info_name, "Always 1; the version is a label.");
	metrics_write(w, 1, "version", p->version, NULL);
}

void metrics_add_process(
	struct metrics *m, const char *build_info_name, const char *version, struct clock *clock)
{
	struct process_metrics *p = xcalloc(1, sizeof(*p));

	p->build_info_name = build_info_name;
	p->version = version;
	p->start_time_s = (double)clock_realtime_ns(clock) / 1e9;
	metrics_add_collector_owned(m, collect_process, p, true);
}

static void collect_budgets(struct metrics_writer *w, void *arg)
{
	const struct budget_metrics *b = arg;

	metrics_write_family(
		w, METRIC_GAUGE, "sonde_memory_used_bytes", "Bytes charged to a memory budget.");
	for (size_t i = 0; i < b->n; i++)
		metrics_write(
			w, (double)b->budgets[i]->used_bytes, "budget", b->budgets[i]->name, NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_memory_peak_bytes",
		"Highest value of sonde_memory_used_bytes so far.");
	for (size_t i = 0; i < b->n; i++)
		metrics_write(
			w, (double)b->budgets[i]->peak_bytes, "budget", b->budgets[i]->name, NULL);
	metrics_write_family(w, METRIC_GAUGE, "sonde_memory_limit_bytes",
		"Limit of a memory budget; 0 when it has none of its own.");
	for (size_t i = 0; i < b->n; i++)
		metrics_write(
			w, (double)b->budgets[i]->limit_bytes, "budget", b->budgets[i]->name, NULL);
	metrics_write_family(w, METRIC_COUNTER, "sonde_memory_refused_total",
		"Charges that a memory budget refused.");
	for (size_t i = 0; i < b->n; i++)
		metrics_write(w, (double)b->budgets[i]->refused_total, "budget",
			b->budgets[i]->name, NULL);
}

void metrics_add_budgets(struct metrics *m, struct budget *const *budgets, size_t n)
{
	struct budget_metrics *b = xcalloc(1, sizeof(*b) + n * sizeof(*b->budgets));

	b->n = n;
	memcpy(b->budgets, budgets, n * sizeof(*b->budgets));
	metrics_add_collector_owned(m, collect_budgets, b, true);
}
