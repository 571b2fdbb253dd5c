/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /targets: what runs here as Prometheus HTTP service discovery, so that a scraper can have one target per process,
 * container or unit. A group is listed when it used CPU lately.
 */
#include "exporter/interp/refusals.h"
#include "exporter/serve/internal.h"
#include "lib/base/alloc.h"
#include "lib/json/write.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include <inttypes.h>
#include <string.h>

#define USAGE_WINDOW_NS (60 * NS_PER_S)

enum by { BY_PROCESS, BY_CONTAINER, BY_UNIT };

/* Described by its first task; strings are copies made under the lock. */
struct group {
	struct proc_task_info info;
	uint64_t cpu_ns;
};

struct listing {
	enum by by;
	double min_cpu;
	struct group *groups;
	size_t n;
	int64_t window_ns;
};

static int parse(struct http_request *r, struct listing *l, struct errbuf *eb)
{
	const struct url_params *params = http_request_params(r);

	for (size_t i = 0; i < params->n; i++) {
		const char *name = params->items[i].name, *value = params->items[i].value;

		if (!strcmp(name, "by")) {
			if (!strcmp(value, "process"))
				l->by = BY_PROCESS;
			else if (!strcmp(value, "container"))
				l->by = BY_CONTAINER;
			else if (!strcmp(value, "unit"))
				l->by = BY_UNIT;
			else
				return err_set(eb, -EINVAL,
					"by=%.64s: expected process, container or unit", value);
		} else if (!strcmp(name, "min_cpu")) {
			if (str_parse_double(value, &l->min_cpu, NULL) < 0 || !(l->min_cpu >= 0))
				return err_set(eb, -EINVAL,
					"min_cpu=%.64s: expected a number of CPUs, like 0.05",
					value);
		} else {
			return err_set(eb, -EINVAL,
				"unknown parameter \"%.64s\": valid ones are by min_cpu", name);
		}
	}
	return 0;
}

/* The log whose samples stand for CPU time; NULL: it is off. */
static const struct sample_log *clock_log(const struct profile_source *source)
{
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		if (event_source(i)->is_clock && source->tables.logs[i])
			return source->tables.logs[i];
	return NULL;
}

/* CPU time per task id over the last minute; 0 of all when no clock is on. */
static uint64_t *usage_locked(
	const struct profile_source *source, struct arena *arena, int64_t *ret_window_ns)
{
	const struct sample_log *log = clock_log(source);
	int64_t now_ns = log ? sample_log_covered_ns(log) : 0;
	uint64_t *cpu_ns = arena_zalloc(
		arena, ((size_t)proc_n_tasks(source->tables.procs) + 1) * sizeof(*cpu_ns));
	struct sample_range range;
	struct sample_rows rows;
	size_t pos = 0;

	ASSERT_HELD(source->lock);
	*ret_window_ns = 1;
	if (!log)
		return cpu_ns;
	sample_log_window(log, now_ns - MIN(now_ns, USAGE_WINDOW_NS), now_ns, &range);
	*ret_window_ns = MAX(range.duration_ns, 1);
	while (cpu_ns && sample_log_next(log, &range, &pos, &rows))
		for (uint32_t i = 0; i < rows.n; i++)
			if (!rows.ms || (rows.ms[i] >= rows.from_ms && rows.ms[i] < rows.to_ms))
				cpu_ns[rows.task[i]] += sample_rows_weight(&rows, i);
	return cpu_ns;
}

/* What tasks of one group have in common; "" when the task belongs to none. */
static const char *group_key(const struct proc_task_info *info, enum by by, char buf[48])
{
	if (by == BY_CONTAINER)
		return info->container_id;
	if (by == BY_UNIT)
		return info->systemd_unit;
	if (info->exited || info->kernel_thread)
		return "";
	snprintf(buf, 48, "%" PRIu32 ".%" PRIu64, info->pid, info->start_ns);
	return buf;
}

static void copy_info(struct proc_task_info *info, struct arena *arena)
{
	const char **strings[] = {&info->comm, &info->thread_name, &info->executable,
		&info->cmdline, &info->cgroup, &info->container_id, &info->container_name,
		&info->container_image, &info->pod, &info->namespace_, &info->systemd_unit};

	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		const char *copy = arena_strdup(arena, *strings[i]);

		*strings[i] = copy ? copy : "";
	}
}

static void group_locked(
	const struct profile_source *source, struct arena *arena, struct listing *l)
{
	uint32_t n = proc_n_tasks(source->tables.procs);
	uint64_t *cpu_ns = usage_locked(source, arena, &l->window_ns);
	_cleanup_interner_ struct interner keys;

	ASSERT_HELD(source->lock);
	interner_init(&keys, arena->budget);
	l->groups = arena_alloc_array(arena, n, sizeof(*l->groups));
	for (uint32_t task = 0; cpu_ns && l->groups && task < n; task++) {
		struct proc_task_info info;
		struct group *g;
		const char *key;
		char buf[48];
		uint32_t id;

		if (!cpu_ns[task])
			continue;
		proc_task_info(source->tables.procs, task, &info);
		key = group_key(&info, l->by, buf);
		id = *key ? interner_add(&keys, key, strlen(key), NULL) : INTERNER_NONE;
		if (id == INTERNER_NONE)
			continue;
		g = &l->groups[id];
		if (id == l->n) {
			*g = (struct group) {.info = info};
			copy_info(&g->info, arena);
			l->n++;
		}
		g->cpu_ns += cpu_ns[task];
	}
}

static void put_meta(struct json *j, const char *name, const char *value)
{
	if (*value)
		json_kv_string(j, name, value);
}

static void put_number(struct json *j, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	json_kv_string(j, name, text);
}

/* The language runtime, and why its frames do not stand in stacks. */
static void put_runtime(struct json *j, const struct proc_task_info *info)
{
	char version[SERVE_VERSION_BYTES];

	serve_runtime_version(info->interp.version, version);
	put_meta(j, "__meta_process_runtime", runtime_name(info->interp.kind));
	put_meta(j, "__meta_process_runtime_version", version);
	put_meta(j, "__meta_process_runtime_refused", interp_refusal_text(info->interp.refusal));
}

static void put_group(struct json *j, const struct listing *l, const struct group *g,
	const char *host, int64_t epoch_ns)
{
	const struct proc_task_info *info = &g->info;

	json_object_begin(j);
	json_key(j, "targets");
	json_array_begin(j);
	json_string(j, host);
	json_array_end(j);
	json_key(j, "labels");
	json_object_begin(j);
	if (l->by == BY_PROCESS) {
		put_number(j, "__param_pid", info->pid);
		put_number(j, "__meta_process_pid", info->pid);
		put_number(j, "__meta_process_ppid", info->ppid);
		put_meta(j, "__meta_process_comm", info->comm);
		put_meta(j, "__meta_process_executable", info->executable);
		put_meta(j, "__meta_process_cmdline", info->cmdline);
		put_meta(j, "__meta_process_cgroup", info->cgroup);
		put_runtime(j, info);
		put_number(j, "__meta_process_start_time",
			(uint64_t)MAX((epoch_ns + (int64_t)info->start_ns) / NS_PER_S, 0));
	} else if (l->by == BY_CONTAINER) {
		json_kv_string(j, "__param_container", info->container_id);
	} else {
		json_kv_string(j, "__param_unit", info->systemd_unit);
	}
	if (l->by != BY_UNIT) {
		put_meta(j, "__meta_container_id", info->container_id);
		put_meta(j, "__meta_container_name", info->container_name);
		put_meta(j, "__meta_container_image", info->container_image);
	}
	if (l->by != BY_CONTAINER)
		put_meta(j, "__meta_systemd_unit", info->systemd_unit);
	json_object_end(j);
	json_object_end(j);
}

void serve_targets(struct http_request *r, void *arg)
{
	struct serve *s = arg;
	struct arena *arena = http_request_arena(r);
	struct listing l = {.by = BY_PROCESS};
	struct errbuf eb = {.text = ""};
	_cleanup_bytes_ struct bytes out;
	int64_t epoch_ns = clock_realtime_ns(s->o.clock) - clock_monotonic_ns(s->o.clock);
	struct json j;

	bytes_init(&out, s->o.budget, 64 << 20);
	if (parse(r, &l, &eb) < 0) {
		http_reply_text(r, 400, "%s", eb.text);
		return;
	}
	lock_take(s->o.source->lock);
	group_locked(s->o.source, arena, &l);
	lock_release(s->o.source->lock);
	if (arena_error(arena, &eb) < 0) {
		http_reply_text(r, 503, "%s", eb.text);
		return;
	}
	j = json_to(&out);
	json_array_begin(&j);
	for (size_t i = 0; i < l.n; i++)
		if ((double)l.groups[i].cpu_ns >= l.min_cpu * (double)l.window_ns)
			put_group(&j, &l, &l.groups[i], http_request_host(r), epoch_ns);
	json_array_end(&j);
	http_reply_bytes(r, 200, "application/json", &out);
}
