/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests → files → answers, by a few threads.
 */
#include "exporter/proc/reader/reader.h"
#include "exporter/proc/reader/container.h"
#include "exporter/proc/reader/files.h"
#include "lib/base/alloc.h"
#include "lib/base/lock.h"
#include <string.h>

/* Of one kind, that many at once: the second goes on when the first hangs. */
enum { AT_WORK_MAX = 2 };
/* Reading about all processes of a list takes a twentieth of one CPU's time: each is followed by a rest. */
enum { SCAN_REST_FACTOR = 19 };

struct proc_reader {
	struct proc_reader_options o;
	struct lock lock; /* all that follows; a leaf */
	pthread_cond_t work;
	bool is_awake;
	_Atomic bool stopping; /* written under the lock, read also without */
	unsigned n_at_work[PROC_N_ASKS];
	bool is_scanning,
		scan_awaited; /* there is more of the list; a thread sleeps until it is due */
	int64_t scan_due_ns, read_cpu_ns; /* read_cpu_ns: mean of a request */
	struct proc_reader_stats stats;
};

/* A request that a thread works on. */
struct job {
	struct proc_request request;
	size_t slot; /* in stats.at_work */
};

struct proc_reader *proc_reader_new(const struct proc_reader_options *o)
{
	struct proc_reader *r = xcalloc(1, sizeof(*r));

	r->o = *o;
	if (!r->o.fs)
		r->o.fs = &fs_system;
	lock_init(&r->lock);
	lock_cond_init(&r->work);
	r->is_awake = true;
	return r;
}

void proc_reader_freep(struct proc_reader **rp)
{
	struct proc_reader *r = *rp;

	if (!r)
		return;
	pthread_cond_destroy(&r->work);
	lock_done(&r->lock);
	free(r);
	*rp = NULL;
}

/* Blocks. */
static void read_root(const struct proc_reader_options *o, struct proc_answer *a)
{
	a->root = binary_root_open(o->binaries, a->request.pid, a->request.start_ns, &a->error);
}

/* Blocks. */
static void read_container(const struct proc_reader_options *o, struct proc_answer *a)
{
	a->error = container_read(
			   o->keeper, a->request.container_id, a->request.user_id, &a->container)
			   ? 0
			   : -ENOENT;
}

static struct proc_answer *answer(const struct proc_reader_options *o, const struct proc_request *q)
{
	static void (*const read[PROC_N_ASKS])(
		const struct proc_reader_options *o, struct proc_answer *a) = {
		[PROC_ASK_LABELS] = files_read_labels,
		[PROC_ASK_MAPS] = files_read_maps,
		[PROC_ASK_ROOT] = read_root,
		[PROC_ASK_CONTAINER] = read_container,
		[PROC_ASK_LIST] = files_read_list,
	};
	struct proc_answer *a = xcalloc(1, sizeof(*a));

	a->request = *q;
	a->begun_ns = (uint64_t)clock_monotonic_ns(o->clock);
	read[q->ask](o, a);
	a->read_ns = (uint64_t)clock_monotonic_ns(o->clock);
	return a;
}

static enum proc_read_result result_of(int error)
{
	switch (error) {
	case 0: return PROC_READ_OK;
	case -ESRCH:
	case -ENOENT: return PROC_READ_GONE;
	case -ETIMEDOUT: return PROC_READ_TIMEOUT;
	case -EBUSY: return PROC_READ_BUSY;
	default: return PROC_READ_ERROR;
	}
}

/* Takes a request of any kind of which not too many are at work. */
static bool take_request_locked(struct proc_reader *r, struct proc_request *ret)
{
	bool found = false;

	ASSERT_HELD(&r->lock);
	for (enum proc_ask ask = 0; !found && ask < PROC_N_ASKS; ask++)
		found = r->n_at_work[ask] < AT_WORK_MAX && proc_table_next(r->o.table, ask, ret);
	return found;
}

static bool take_job(struct proc_reader *r, struct job *ret)
{
	int64_t now_ns = clock_monotonic_ns(&clock_system);
	bool found;

	lock_take(r->o.lock);
	lock_take(&r->lock);
	/* Its turn comes by time, also where requests never end. */
	if (now_ns >= r->scan_due_ns && proc_table_scan_step(r->o.table))
		r->scan_due_ns = now_ns + PROC_READS_PER_LISTED * r->read_cpu_ns * SCAN_REST_FACTOR;
	r->is_scanning = proc_table_is_scanning(r->o.table);
	found = take_request_locked(r, &ret->request);
	if (found) {
		r->n_at_work[ret->request.ask]++;
		for (ret->slot = 0; r->stats.at_work[ret->slot].since_ns; ret->slot++)
			ASSERT(ret->slot + 1 < PROC_READER_THREADS);
		r->stats.at_work[ret->slot].ask = ret->request.ask;
		r->stats.at_work[ret->slot].pid = ret->request.pid;
		r->stats.at_work[ret->slot].since_ns = now_ns;
	}
	lock_release(&r->lock);
	lock_release(r->o.lock);
	return found;
}

static void do_job(struct proc_reader *r, struct job *job)
{
	int64_t cpu_ns = clock_thread_cpu_ns();
	struct proc_answer *a = answer(&r->o, &job->request);
	enum proc_read_result result = result_of(a->error);

	/* The keeper's part of the work takes less than ours. */
	cpu_ns = 2 * (clock_thread_cpu_ns() - cpu_ns);
	lock_take(r->o.lock);
	proc_table_answer(r->o.table, a);
	lock_release(r->o.lock);
	lock_take(&r->lock);
	r->n_at_work[job->request.ask]--;
	r->stats.at_work[job->slot].since_ns = 0;
	r->stats.reads[job->request.ask][result]++;
	r->read_cpu_ns += (cpu_ns - r->read_cpu_ns) / 8;
	lock_release(&r->lock);
}

/* Sleeps until woken or, one of the threads, until more of the list is due; false when the time is over. */
static bool sleep_until(struct proc_reader *r, int64_t until_ns)
{
	bool in_time = true, for_scan, found;

	lock_take(&r->lock);
	for_scan = r->is_scanning && !r->scan_awaited;
	r->scan_awaited |= for_scan;
	if (for_scan)
		until_ns = MIN(until_ns, r->scan_due_ns);
	while (!r->is_awake && !r->stopping && in_time)
		in_time = lock_wait_until(&r->lock, &r->work, until_ns);
	if (for_scan)
		r->scan_awaited = false;
	found = (r->is_awake || for_scan) && !r->stopping;
	r->is_awake = false;
	lock_release(&r->lock);
	return found;
}

void proc_reader_work(struct proc_reader *r, int64_t timeout_ns)
{
	struct job job;

	if (!sleep_until(r, clock_monotonic_ns(&clock_system) + timeout_ns))
		return;
	while (!r->stopping && take_job(r, &job)) {
		proc_reader_wake(r); /* another may take what comes next */
		do_job(r, &job);
	}
}

bool proc_reader_settle(struct proc_reader *r)
{
	bool any = false;
	struct job job;

	for (;;) {
		r->scan_due_ns = 0;
		if (!take_job(r, &job))
			return any;
		do_job(r, &job);
		any = true;
	}
}

void proc_reader_wake(struct proc_reader *r)
{
	lock_take(&r->lock);
	r->is_awake = true;
	pthread_cond_signal(&r->work);
	lock_release(&r->lock);
}

void proc_reader_stop(struct proc_reader *r)
{
	lock_take(&r->lock);
	r->stopping = true;
	pthread_cond_broadcast(&r->work);
	lock_release(&r->lock);
}

void proc_reader_stats(struct proc_reader *r, struct proc_reader_stats *ret)
{
	lock_take(&r->lock);
	*ret = r->stats;
	lock_release(&r->lock);
}

const char *proc_ask_name(enum proc_ask ask)
{
	static const char *const names[PROC_N_ASKS] = {
		[PROC_ASK_LABELS] = "labels",
		[PROC_ASK_MAPS] = "maps",
		[PROC_ASK_ROOT] = "root",
		[PROC_ASK_CONTAINER] = "container",
		[PROC_ASK_LIST] = "list",
	};

	return names[ask];
}

const char *proc_read_result_name(enum proc_read_result result)
{
	static const char *const names[PROC_N_READ_RESULTS] = {
		[PROC_READ_OK] = "ok",
		[PROC_READ_GONE] = "gone",
		[PROC_READ_TIMEOUT] = "timeout",
		[PROC_READ_BUSY] = "busy",
		[PROC_READ_ERROR] = "error",
	};

	return names[result];
}
