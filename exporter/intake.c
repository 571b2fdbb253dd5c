/* SPDX-License-Identifier: Apache-2.0
 *
 * Three callbacks under the lock.
 */
#include "exporter/intake.h"
#include "lib/base/log.h"

void intake_init(struct intake *in, struct proc_table *procs, struct stacks *stacks,
	struct sample_log *log, struct binary_registry *binaries)
{
	*in = (struct intake) {
		.procs = procs,
		.stacks = stacks,
		.log = log,
		.collector = {.log = log, .stacks = stacks, .procs = procs, .binaries = binaries},
	};
	pthread_mutex_init(&in->lock, NULL);
}

void intake_done(struct intake *in)
{
	pthread_mutex_destroy(&in->lock);
}

static void take_sideband(void *ctx, const struct sideband *e)
{
	struct intake *in = ctx;

	pthread_mutex_lock(&in->lock);
	proc_table_sideband(in->procs, e);
	pthread_mutex_unlock(&in->lock);
}

static void take_sample_locked(struct intake *in, const struct abi_record *r)
{
	struct process *process = proc_table_of_record(in->procs, r);
	uint32_t n = record_frames(r, in->procs, process, &in->frames);
	struct sample_row row = {
		.time_ns = r->time_ns,
		.weight = r->weight,
		.task = proc_task_of_record(in->procs, process, r),
		.cpu = (uint16_t)r->cpu,
	};

	/* A tree that has no room left still counts the time, under the empty stack. */
	if (stacks_add(in->stacks, in->frames.words, n, &row.stack) < 0)
		row.stack = 0;
	if (sample_log_append(in->log, &row) < 0)
		LOG_RATED(LOG_DEBUG, "a sample was left out: the log's memory is full");
}

/* Whether a sample is late the log decides by its own slots. */
static void take_sample(void *ctx, const struct abi_record *r, _unused_ bool late)
{
	struct intake *in = ctx;

	pthread_mutex_lock(&in->lock);
	take_sample_locked(in, r);
	pthread_mutex_unlock(&in->lock);
}

static void take_drained(void *ctx, uint64_t up_to_ns, int64_t boot_offset_ns)
{
	struct intake *in = ctx;

	pthread_mutex_lock(&in->lock);
	sample_log_drained(in->log, (int64_t)up_to_ns, boot_offset_ns);
	proc_table_expire(in->procs, up_to_ns);
	collect_garbage(&in->collector);
	pthread_mutex_unlock(&in->lock);
}

struct sample_sink intake_sink(struct intake *in)
{
	return (struct sample_sink) {
		.ctx = in,
		.sideband = take_sideband,
		.sample = take_sample,
		.drained = take_drained,
	};
}
