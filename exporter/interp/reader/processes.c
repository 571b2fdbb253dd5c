/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the process table → memory of the process → rows, and one line in the log for each file that is refused.
 */
#include "exporter/interp/reader/processes.h"
#include "exporter/interp/reader/memory.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "lib/base/table.h"
#include <stdio.h>
#include <string.h>

/* A process that has not come so far is looked at again after the first of these, then the next, then always after the last. */
static const int64_t waits_ns[] = {10 * NS_PER_MS, 100 * NS_PER_MS, NS_PER_S, 10 * NS_PER_S};
/* A thread list without the right thread may be one that is being made. */
enum { MIN_TRIES = 4, MAX_LOOKS = 3 };
#define MAX_READ_NS NS_PER_S /* of one process; others wait */

struct interp_processes {
	struct interp_processes_options o;
	struct interp_layouts layouts; /* under the table's lock */
};

struct interp_processes *interp_processes_new(const struct interp_processes_options *o)
{
	struct interp_processes *s = xcalloc(1, sizeof(*s));

	s->o = *o;
	s->layouts.layouts = o->layouts;
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

/* 0 with a row but its layout; -EAGAIN: later; -ESRCH: gone; positive: enum interp_refusal. Blocks. */
static int read_process(struct interp_processes *s, const struct proc_interp_request *q,
	struct interp_process *row, struct interp_layout *layout)
{
	struct interp_window window;
	struct runtime_record record;
	int r = -EAGAIN;

	/* The id may be another file's by now: then the process has ended too. */
	if (!binary_runtime(s->o.binaries, q->runtime.binary, &record))
		return -ESRCH;
	if (!interp_is_walked_here(record.kind))
		return INTERP_REFUSED_MACHINE;
	if (!interp_layout_of(&record, layout))
		return RUNTIME_UNLIKE_VERSION;
	interp_window_init(&window, s->o.keeper, q->pid, q->start_ns, q->runtime.bias);
	interp_window_limit(&window, s->o.clock, clock_monotonic_ns(s->o.clock) + MAX_READ_NS);
	if (!set_eval(s, q, &record, layout, row))
		return RUNTIME_NO_INTERPRETER;
	for (unsigned i = 0; i < MAX_LOOKS; i++) {
		interp_window_forget(&window);
		r = interp_states_of(&window.memory, &record, q->tries >= MIN_TRIES, row);
		if (r != INTERP_REFUSED_UNLIKE && r != -EFAULT)
			break;
	}
	interp_window_done(&window);
	if (r == INTERP_REFUSED_UNLIKE && q->tries < MIN_TRIES)
		return -EAGAIN;
	if (r >= 0 || r == -ESRCH || r == -EAGAIN)
		return r;
	/* Not now, not yet, or never: what stays so is refused. */
	return q->tries < MIN_TRIES || r == -EBUSY || r == -ETIMEDOUT ? -EAGAIN
								      : INTERP_REFUSED_MEMORY;
}

static void hand_back(struct interp_processes *s, const struct proc_interp_request *q, int r,
	struct interp_process *row, const struct interp_layout *layout)
{
	struct proc_table *t = s->o.table;
	int i = r == 0 ? interp_layouts_find(&s->layouts, layout) : 0;
	int64_t wait = waits_ns[MIN((size_t)q->tries, ARRAY_SIZE(waits_ns) - 1)];

	if (i < 0)
		r = INTERP_REFUSED_LAYOUTS;
	row->layout = (uint32_t)i;
	if (r == 0)
		proc_interp_walked(t, q, row);
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
		struct interp_process row = {0};
		struct interp_layout layout;
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
		r = read_process(s, &q, &row, &layout);
		lock_take(s->o.lock);
		hand_back(s, &q, r, &row, &layout);
		lock_release(s->o.lock);
	}
}
