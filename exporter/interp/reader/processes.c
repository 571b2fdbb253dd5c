/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the process table → memory of the process → rows, and one line in the log for each file that is refused.
 */
#include "exporter/interp/reader/processes.h"
#include "exporter/interp/hotspot_rows.h"
#include "exporter/interp/reader/hotspots.h"
#include "exporter/interp/reader/memory.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "lib/base/table.h"
#include <stdio.h>
#include <string.h>

/* A process that has not come so far is looked at again after the first of these, then the next, then always after the last. */
static const int64_t waits_ns[] = {
	10 * NS_PER_MS, 30 * NS_PER_MS, 60 * NS_PER_MS, 100 * NS_PER_MS, NS_PER_S, 10 * NS_PER_S};
/* A thread list without the right thread may be one that is being made. */
enum { MIN_TRIES = 6, MAX_LOOKS = 3 };
#define MAX_READ_NS NS_PER_S /* of one process; others wait */

struct interp_processes {
	struct interp_processes_options o;
	/* Under the table's lock. */
	struct interp_layouts layouts;
	struct interp_hotspots hotspots;
};

/* What was found of a process. */
struct found {
	struct interp_process row; /* but for the numbers of the two that follow */
	struct interp_layout layout;
	struct interp_hotspot hotspot;
	bool is_hotspot;
};

struct interp_processes *interp_processes_new(const struct interp_processes_options *o)
{
	struct interp_processes *s = xcalloc(1, sizeof(*s));

	s->o = *o;
	s->layouts.layouts = o->layouts;
	s->hotspots.rows = o->hotspots;
	return s;
}

void interp_processes_freep(struct interp_processes **sp)
{
	free(*sp);
	*sp = NULL;
}

/* The interpreter's function, or V8's built-in ones, as native frame words have it. False: frames are found by it, and it is not known. */
static bool set_eval(struct interp_processes *s, const struct proc_interp_request *q,
	const struct runtime_record *r, const struct interp_layout *layout,
	struct interp_process *row)
{
	uint64_t start, end, off;

	if (!interp_eval_of(r, &start, &end) ||
		!binary_runtime_offset(s->o.binaries, q->runtime.binary, start, &off))
		return !interp_needs_eval(layout);
	row->eval_binary = q->runtime.binary;
	row->eval_off = off;
	row->eval_bytes = (uint32_t)(end - start);
	return true;
}

/* Of a Java VM its own tables say all. 0, or as interp_states_of. */
static int read_hotspot(
	const struct interp_memory *m, const struct runtime_record *record, struct found *ret)
{
	struct hotspot_vm vm;
	int r = hotspot_vm_read(m, record, &vm);

	ret->is_hotspot = true;
	if (r == -EBADMSG || (r == 0 && !hotspot_rows_of(&vm, &ret->layout, &ret->hotspot)))
		return INTERP_REFUSED_UNLIKE;
	return r;
}

static int read_states(struct interp_processes *s, const struct proc_interp_request *q,
	const struct interp_memory *m, const struct runtime_record *record, struct found *ret)
{
	if (record->kind == RUNTIME_HOTSPOT)
		return read_hotspot(m, record, ret);
	if (!interp_layout_of(record, &ret->layout))
		return RUNTIME_UNLIKE_VERSION;
	if (!set_eval(s, q, record, &ret->layout, &ret->row))
		return RUNTIME_NO_INTERPRETER;
	return interp_states_of(m, record, q->tries >= MIN_TRIES, &ret->row);
}

/* 0; -EAGAIN: later; -ESRCH: gone; positive: enum interp_refusal. Blocks. */
static int read_process(
	struct interp_processes *s, const struct proc_interp_request *q, struct found *ret)
{
	struct interp_window window;
	struct runtime_record record;
	int r = -EAGAIN;

	/* The id may be another file's by now: then the process has ended too. */
	if (!binary_runtime(s->o.binaries, q->runtime.binary, &record))
		return -ESRCH;
	if (!interp_is_walked_here(record.kind))
		return INTERP_REFUSED_MACHINE;
	interp_window_init(&window, s->o.keeper, q->pid, q->start_ns, q->runtime.bias);
	interp_window_limit(&window, s->o.clock, clock_monotonic_ns(s->o.clock) + MAX_READ_NS);
	for (unsigned i = 0; i < MAX_LOOKS; i++) {
		interp_window_forget(&window);
		r = read_states(s, q, &window.memory, &record, ret);
		if (r != INTERP_REFUSED_UNLIKE && r != -EFAULT)
			break;
	}
	interp_window_done(&window);
	if (r == INTERP_REFUSED_UNLIKE && q->tries < MIN_TRIES)
		return -EAGAIN;
	if (r == INTERP_REFUSED_UNLIKE && ret->is_hotspot)
		return RUNTIME_UNLIKE_VERSION;
	if (r >= 0 || r == -ESRCH || r == -EAGAIN)
		return r;
	/* Not now, not yet, or never: what stays so is refused. */
	return q->tries < MIN_TRIES || r == -EBUSY || r == -ETIMEDOUT ? -EAGAIN
								      : INTERP_REFUSED_MEMORY;
}

/* 0 with a row that the kernel half can read; else enum interp_refusal. */
static int place(struct interp_processes *s, struct found *found)
{
	int i = interp_layouts_find(&s->layouts, &found->layout);

	if (i < 0)
		return INTERP_REFUSED_LAYOUTS;
	found->row.layout = (uint32_t)i;
	if (!found->is_hotspot)
		return 0;
	i = interp_hotspots_take(&s->hotspots, s->o.table, &found->hotspot);
	if (i < 0)
		return INTERP_REFUSED_PROCESSES;
	found->row.hotspot = (uint32_t)i;
	return 0;
}

static void hand_back(
	struct interp_processes *s, const struct proc_interp_request *q, int r, struct found *found)
{
	struct proc_table *t = s->o.table;
	int64_t wait = waits_ns[MIN((size_t)q->tries, ARRAY_SIZE(waits_ns) - 1)];

	if (r == 0)
		r = place(s, found);
	if (r == 0)
		proc_interp_walked(t, q, &found->row);
	else if (r > 0)
		proc_interp_refused(t, q, (uint32_t)r);
	else if (r == -EAGAIN)
		proc_interp_later(t, q, clock_monotonic_ns(s->o.clock) + wait);
	else
		proc_interp_gone(t, q);
}

static void log_refusal(struct interp_processes *s, const struct proc_interp_binary *b)
{
	char version[32] = "";
	struct binary_info info;

	binary_info(s->o.binaries, b->binary, &info);
	if (b->version)
		snprintf(version, sizeof(version), " %u.%u", RUNTIME_MAJOR(b->version),
			RUNTIME_MINOR(b->version));
	LOG_RATED(LOG_WARN, "%s: %s%s: %s", info.path, runtime_name(b->kind), version,
		interp_refusal_text(b->refusal));
}

int64_t interp_processes_round(struct interp_processes *s)
{
	struct proc_interp_binary refused;
	int64_t due_ns = INT64_MAX;

	for (;;) {
		struct proc_interp_request q;
		struct found found = {.is_hotspot = false};
		bool is_asked, is_refused;
		int r;

		lock_take(s->o.lock);
		is_refused = proc_interp_next_refused(s->o.table, &refused);
		is_asked =
			proc_interp_next(s->o.table, clock_monotonic_ns(s->o.clock), &q, &due_ns);
		lock_release(s->o.lock);
		if (is_refused)
			log_refusal(s, &refused);
		if (!is_asked && !is_refused)
			return due_ns;
		if (!is_asked)
			continue;
		r = read_process(s, &q, &found);
		lock_take(s->o.lock);
		hand_back(s, &q, r, &found);
		lock_release(s->o.lock);
	}
}
