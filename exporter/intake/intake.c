/* SPDX-License-Identifier: Apache-2.0
 *
 * Three callbacks under the lock.
 */
#include "exporter/intake/intake.h"
#include "exporter/event/event.h"
#include "exporter/proc/code_objects.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"

/* How long a sample waits for unwind tables being made; answers that cover its time wait with it. */
#define INTAKE_MAX_WAIT_NS (2 * NS_PER_S)
enum { INTAKE_MAX_CODES = 2 * ABI_MAX_STEPS }; /* a stack has no more */

/* Of which event stacks are counted by program, binary and process: the first that is on, the clock if it is. */
static enum abi_event counted_event(struct sample_log *const *logs)
{
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		if (logs[i])
			return i;
	return ABI_EVENT_CPU;
}

void intake_init(struct intake *in, struct proc_table *procs, struct stacks *stacks,
	struct sample_log *const *logs, struct binary_registry *binaries)
{
	struct outcomes *outcomes = outcomes_new(counted_event(logs));

	*in = (struct intake) {
		.outcomes = outcomes,
		.procs = procs,
		.stacks = stacks,
		.logs = logs,
		.collector = {.logs = logs,
			.stacks = stacks,
			.procs = procs,
			.binaries = binaries,
			.outcomes = outcomes},
	};
	lock_init(&in->lock);
}

void intake_done(struct intake *in)
{
	deferred_freep(&in->deferred);
	free(in->codes);
	outcomes_freep(&in->outcomes);
	lock_done(&in->lock);
}

static void tell_kernel_code(struct kernel_code *k, const struct sideband *e)
{
	const struct kernel_code_record r = {.start = e->addr,
		.len = e->len,
		.time_ns = e->time_ns,
		.name = e->path,
		.is_bpf = e->is_bpf};

	if (e->kind == SIDEBAND_LOST)
		kernel_code_lost(k, e->time_ns);
	else if (e->kind == SIDEBAND_KSYMBOL && e->gone)
		kernel_code_remove(k, &r);
	else if (e->kind == SIDEBAND_KSYMBOL)
		kernel_code_add(k, &r);
}

static void take_sideband(void *ctx, const struct sideband *e)
{
	struct intake *in = ctx;

	if (in->kernel_code)
		tell_kernel_code(in->kernel_code, e);
	lock_take(&in->lock);
	proc_table_sideband(in->procs, e);
	lock_release(&in->lock);
}

static void take_sample_locked(
	struct intake *in, const struct abi_record *r, struct process *process)
{
	uint32_t n = record_frames(r, in->procs, process, &in->frames);
	struct sample_row row = {
		.time_ns = r->time_ns,
		.weight = r->weight[0],
		.weight_2 = r->weight[1],
		.task = proc_task_of_record(in->procs, process, r),
		.cpu = (uint16_t)r->cpu,
	};

	ASSERT_HELD(&in->lock);
	if (in->kernel_code)
		kernel_code_mark(in->kernel_code, in->frames.words + in->frames.n_user,
			n - in->frames.n_user, r->time_ns);
	if (!(r->flags & ABI_FLAG_KTHREAD)) {
		outcomes_add(in->outcomes, r->event, r->leader_comm, in->frames.words,
			in->frames.n_user);
		if (r->event == outcomes_event(in->outcomes))
			proc_count_stack(
				process, outcomes_cut(in->frames.words, in->frames.n_user));
	}
	/* A tree that has no room left still counts the time, under the empty stack. */
	if (stacks_add(in->stacks, in->frames.words, n, &row.stack) < 0)
		row.stack = 0;
	if (sample_log_append(in->logs[r->event], &row) < 0)
		LOG_RATED(LOG_DEBUG, "a sample was left out: the log's memory is full");
}

static void take_stack(void *ctx, const struct abi_stack *s)
{
	struct intake *in = ctx;

	if (in->deferred)
		deferred_stack(in->deferred, s);
}

/* The process of a code object may come with the sample that follows it where it is not early. */
static void take_code(void *ctx, const struct abi_code *c, bool early)
{
	struct intake *in = ctx;
	struct process *process;

	lock_take(&in->lock);
	process = proc_table_of_code(in->procs, c);
	if (process)
		proc_object_seen(in->procs, process, c);
	else if (!early && in->n_codes < INTAKE_MAX_CODES &&
		 alloc_grow(&in->codes, &in->cap_codes, in->n_codes + 1, sizeof(*c)) == 0)
		in->codes[in->n_codes++] = *c;
	lock_release(&in->lock);
}

/* Code objects that waited for this sample; what waited for another one, which was lost, is given up. */
static void take_waiting_codes_locked(struct intake *in, const struct abi_record *r)
{
	ASSERT_HELD(&in->lock);
	for (size_t i = 0; i < in->n_codes; i++)
		if (in->codes[i].time_ns == r->time_ns && in->codes[i].cpu == r->cpu)
			proc_object_seen(
				in->procs, proc_table_of_record(in->procs, r), &in->codes[i]);
	in->n_codes = 0;
}

static void take_deferred(void *ctx, const struct abi_record *r, struct process *process)
{
	take_sample_locked(ctx, r, process);
}

static void take_shadow(void *ctx, const struct abi_record *r, const struct abi_stack *s)
{
	struct intake *in = ctx;

	if (in->shadow)
		shadow_take(in->shadow, r, s);
}

/* Asks about its process, but does not wait. */
static void take_at_once(struct intake *in, const struct abi_record *r)
{
	struct process *process = proc_table_of_record(in->procs, r);

	(void)proc_table_awaits(in->procs, process, r);
	take_sample_locked(in, r, process);
}

/* The log decides lateness by its own slots; the flag is unused. */
static void take_sample(void *ctx, const struct abi_record *r, _unused_ bool late)
{
	struct intake *in = ctx;

	lock_take(&in->lock);
	take_waiting_codes_locked(in, r);
	if (!in->logs[r->event]) /* of a bundle that was captured with other types */
		LOG_RATED(LOG_WARN, "samples of %s are left out: --profile.types does not name it",
			event_source(r->event)->name);
	else if (in->deferred)
		deferred_sample(in->deferred, r);
	else
		take_at_once(in, r);
	lock_release(&in->lock);
}

static void take_lost(void *ctx, enum abi_event event, uint64_t n)
{
	struct intake *in = ctx;

	lock_take(&in->lock);
	if (in->logs[event])
		sample_log_lose(in->logs[event], n);
	lock_release(&in->lock);
}

static bool take_drained(void *ctx, uint64_t up_to_ns, int64_t boot_offset_ns)
{
	struct intake *in = ctx;
	uint64_t covered_ns;

	lock_take(&in->lock);
	proc_table_come(in->procs, up_to_ns);
	covered_ns = in->deferred ? deferred_retry(in->deferred, up_to_ns) : up_to_ns;
	in->covered_ns = MAX(in->covered_ns, covered_ns);
	for (size_t i = 0; i < ABI_N_EVENTS; i++)
		if (in->logs[i])
			sample_log_drained(in->logs[i], (int64_t)in->covered_ns, boot_offset_ns);
	proc_table_expire(in->procs, up_to_ns);
	collect_garbage(&in->collector);
	lock_release(&in->lock);
	return covered_ns < up_to_ns;
}

void intake_flush(struct intake *in)
{
	lock_take(&in->lock);
	proc_table_come(in->procs, UINT64_MAX / 2);
	if (in->deferred)
		deferred_retry(in->deferred, UINT64_MAX / 2);
	lock_release(&in->lock);
}

void intake_defer(struct intake *in, const struct deferred_tables *tables, struct budget *budget)
{
	in->deferred = deferred_new(&(struct deferred_options) {
		.tables = *tables,
		.procs = in->procs,
		.binaries = in->collector.binaries,
		.budget = budget,
		.max_wait_ns = INTAKE_MAX_WAIT_NS,
		.ctx = in,
		.sample = take_deferred,
		.shadow = take_shadow,
	});
}

struct sample_sink intake_sink(struct intake *in)
{
	return (struct sample_sink) {
		.ctx = in,
		.sideband = take_sideband,
		.stack = take_stack,
		.code = take_code,
		.sample = take_sample,
		.lost = take_lost,
		.drained = take_drained,
	};
}
