/* SPDX-License-Identifier: Apache-2.0
 *
 * Drains BPF rings and perf side-band buffers and hands records on in time order.
 */
#include "exporter/sample/drain.h"
#include "exporter/keeper/roles.h"
#include "exporter/sample/capture.h"
#include "exporter/sample/coverage.h"
#include "exporter/sample/cpus.h"
#include "exporter/sample/hold.h"
#include "exporter/sample/news.h"
#include "exporter/sample/ring.h"
#include "exporter/sample/run_cost.h"
#include "exporter/sample/unpack.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum {
	DEFAULT_HELD_BYTES = 16 << 20,
	MAX_PROC_STAT_BYTES = 1 << 20,
};
#define WATCH_INTERVAL_NS NS_PER_S
#define BEGINNING_NS \
	(2 * NS_PER_S) /* who waits for the first second of samples is waiting for drains */
#define CALM_SAMPLES 100
/*
 * What a sample costs here is measured for one of so many. One that took longer had to be read about in /proc: that is what a
 * new process costs, at whatever rate.
 */
#define COST_INTERVAL 16
#define MAX_COST_NS (200 * NS_PER_MS / 1000)

/* What the samples of an event cost. */
struct event_cost {
	struct run_cost bpf, sample; /* of its program; of handing samples on */
	uint64_t n_handed, n_timed;  /* samples; those that were measured */
	uint64_t timed_ns;	     /* CPU time of these */
	uint64_t
		taken_ns; /* CPU time of reading its records out of rings, and of copies of stacks */
	uint64_t n_read;  /* records of the rings, this time */
};

struct drain {
	struct drain_options options;
	struct ring rings[ARRAY_SIZE(((struct keeper_setup *)0)->ring_fds)];
	uint32_t n_rings;
	int news_fd;
	const uint64_t *counters; /* n_cpus rows */
	size_t counters_bytes;
	struct cpus cpus;
	struct hold hold;
	union unpacked *unpacked; /* the record read last */
	struct coverage *coverage;
	uint64_t *sampled_ns; /* by CPU, for coverage */
	int64_t started_ns, next_watch_ns;
	uint64_t rounds, news;
	bool is_calm; /* this step found no side-band records and left nothing waiting */
	struct event_cost costs[ABI_N_EVENTS];
	uint64_t main_cpu_ns, keeper_cpu_ns, parser_cpu_ns, fetcher_cpu_ns; /* once a second */
	uint64_t ring_peak, ring_read;
	bool said_mismatch;
	uint64_t lost[ABI_N_EVENTS]; /* samples, as the sink knows */
	pthread_mutex_t mutex;	     /* leaf lock; guards stats */
	struct drain_stats stats;
};

static uint64_t counter_at(const struct drain *d, uint32_t cpu, unsigned column)
{
	return __atomic_load_n(
		&d->counters[(size_t)cpu * ABI_COUNTERS_STRIDE + column], __ATOMIC_RELAXED);
}

static uint64_t counter(const struct drain *d, uint32_t cpu, enum abi_counter which)
{
	return counter_at(d, cpu, which);
}

static uint64_t event_counter(
	const struct drain *d, uint32_t cpu, enum abi_event event, enum abi_event_counter which)
{
	return counter_at(d, cpu, ABI_EVENT_COUNTERS(event) + which);
}

static uint64_t event_counter_sum(
	const struct drain *d, enum abi_event event, enum abi_event_counter which)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < d->cpus.n_cpus; i++)
		sum += event_counter(d, i, event, which);
	return sum;
}

static uint64_t counter_sum(const struct drain *d, enum abi_counter which)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < d->cpus.n_cpus; i++)
		sum += counter(d, i, which);
	return sum;
}

static int read_file(struct drain *d, const char *dir, const char *name, struct bytes *ret)
{
	char path[4096];
	int r;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	bytes_reset(ret);
	r = fs_read_file(d->options.fs, path, MAX_PROC_STAT_BYTES, ret, NULL);
	bytes_put_u8(ret, 0);
	return r < 0 ? r : bytes_error(ret);
}

/* CPUs that came or went, CPUs whose ticks stopped, coverage. */
static int watch(struct drain *d, int64_t now_ns, struct errbuf *eb)
{
	_cleanup_bytes_ struct bytes b = {0};
	int r = read_file(d, d->options.sysfs, "devices/system/cpu/online", &b);

	if (r == 0)
		r = cpus_follow(&d->cpus, (const char *)b.data, eb);
	else
		err_set(eb, r, "%s/devices/system/cpu/online: %s", d->options.sysfs, strerror(-r));
	if (read_file(d, d->options.procfs, "stat", &b) < 0)
		return r;
	for (uint32_t i = 0; i < d->cpus.n_cpus; i++)
		d->sampled_ns[i] = counter(d, i, ABI_COUNT_BUSY_NS);
	coverage_observe(d->coverage, (const char *)b.data, b.len - 1, d->sampled_ns, now_ns);
	for (uint32_t i = 0; i < d->cpus.n_cpus; i++)
		cpus_revive(&d->cpus, i, event_counter(d, i, ABI_EVENT_CPU, ABI_EVENT_COUNT_RUNS),
			coverage_busy_ns(d->coverage, i));
	return r;
}

/* The roles' own time; what the governor answers for is main and keeper: the parser's work is paced by a budget of its own. */
static void measure_roles(struct drain *d)
{
	const struct keeper_setup *s = d->options.setup;
	struct keeper_stats k;

	d->main_cpu_ns = (uint64_t)role_cpu_ns((pid_t)s->main_pid);
	keeper_stats(s->keeper, &k);
	d->keeper_cpu_ns = (uint64_t)role_cpu_ns((pid_t)s->keeper_pid) + k.cpu_ns;
	d->parser_cpu_ns = (uint64_t)role_cpu_ns((pid_t)s->parser_pid);
	d->fetcher_cpu_ns = s->fetcher_pid ? (uint64_t)role_cpu_ns((pid_t)s->fetcher_pid) : 0;
}

/* Of all events: one budget is for them together. */
static uint64_t bpf_ns(const struct drain *d)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ABI_N_EVENTS; i++)
		sum += d->costs[i].bpf.ns;
	return sum;
}

/* What follows the rate of an event. A program at a tracepoint or in a file runs as often as what it is attached to. */
static uint64_t rate_ns(const struct drain *d, enum abi_event event)
{
	const struct event_cost *c = &d->costs[event];

	return event_follows_rate(event_source(event)) ? c->bpf.ns + c->sample.ns + c->taken_ns : 0;
}

static struct governor_rates govern(struct drain *d, int64_t now_ns)
{
	struct governor_cost cost = {.all_ns = d->main_cpu_ns + d->keeper_cpu_ns + bpf_ns(d)};

	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		cost.rate_ns[i] = rate_ns(d, i);
	return governor_step(d->options.governor, now_ns, &cost, d->cpus.n_online);
}

/* ---- the sink, with a meter before what samples cost ---- */

static void pass_sideband(void *ctx, const struct sideband *e)
{
	const struct sample_sink *to = &((struct drain *)ctx)->options.sink;

	to->sideband(to->ctx, e);
}

static void pass_stack(void *ctx, const struct abi_stack *s)
{
	struct drain *d = ctx;
	int64_t began_ns = clock_thread_cpu_ns();

	if (d->options.sink.stack)
		d->options.sink.stack(d->options.sink.ctx, s);
	if (s->event < ABI_N_EVENTS)
		d->costs[s->event].taken_ns += (uint64_t)(clock_thread_cpu_ns() - began_ns);
}

static void pass_code(void *ctx, const struct abi_code *c, bool early)
{
	const struct sample_sink *to = &((struct drain *)ctx)->options.sink;

	if (to->code)
		to->code(to->ctx, c, early);
}

static void pass_sample(void *ctx, const struct abi_record *r, bool late)
{
	struct drain *d = ctx;
	const struct sample_sink *to = &d->options.sink;
	struct event_cost *c = &d->costs[r->event];
	int64_t began_ns, took_ns;

	if (c->n_handed++ % COST_INTERVAL) {
		to->sample(to->ctx, r, late);
		return;
	}
	began_ns = clock_thread_cpu_ns();
	to->sample(to->ctx, r, late);
	took_ns = clock_thread_cpu_ns() - began_ns;
	if (took_ns <= MAX_COST_NS) {
		c->n_timed++;
		c->timed_ns += (uint64_t)took_ns;
	}
}

static struct sample_sink metered_sink(struct drain *d)
{
	return (struct sample_sink) {.ctx = d,
		.sideband = pass_sideband,
		.stack = pass_stack,
		.code = pass_code,
		.sample = pass_sample};
}

static int map_kernel_memory(struct drain *d, struct errbuf *eb)
{
	const struct keeper_setup *s = d->options.setup;
	void *p;

	d->counters_bytes = (size_t)s->n_cpus * ABI_COUNTERS_STRIDE * sizeof(uint64_t);
	p = mmap(NULL, d->counters_bytes, PROT_READ, MAP_SHARED, s->counters_fd, 0);
	if (p == MAP_FAILED)
		return err_set(eb, -errno, "cannot map the counters: %s", strerror(errno));
	d->counters = p;
	for (uint32_t i = 0; i < s->n_rings; i++) {
		int r = ring_open(&d->rings[i], s->ring_fds[i], s->ring_bytes, eb);

		if (r < 0)
			return r;
		d->n_rings++;
		r = news_watch(d->news_fd, s->ring_fds[i], eb);
		if (r < 0)
			return r;
	}
	return 0;
}

struct drain *drain_new(const struct drain_options *o, struct errbuf *eb)
{
	_cleanup_(drain_freep)
	struct drain *d = xcalloc(1, sizeof(*d));
	const struct sample_sink sink = metered_sink(d);
	uint32_t n_cpus = o->setup->n_cpus;
	int64_t now = clock_monotonic_ns(o->clock);
	struct governor_rates rates;

	d->options = *o;
	d->news_fd = news_open(eb);
	if (d->news_fd < 0)
		return NULL;
	if (!d->options.procfs)
		d->options.procfs = "/proc";
	if (!d->options.sysfs)
		d->options.sysfs = "/sys";
	hold_init(&d->hold, &sink, o->budget,
		o->max_held_bytes ? o->max_held_bytes : DEFAULT_HELD_BYTES);
	measure_roles(d);
	rates = govern(d, now);
	cpus_init(&d->cpus, o->setup, d->news_fd, n_cpus, &rates);
	d->coverage = coverage_new(n_cpus);
	d->sampled_ns = xcalloc(n_cpus, sizeof(*d->sampled_ns));
	d->unpacked = xcalloc(1, sizeof(*d->unpacked));
	pthread_mutex_init(&d->mutex, NULL);
	if (map_kernel_memory(d, eb) < 0)
		return NULL;
	(void)watch(d, now, eb);
	if (!d->cpus.n_attached)
		return NULL;
	d->started_ns = now;
	d->next_watch_ns = now + WATCH_INTERVAL_NS;
	return TAKE(d);
}

void drain_freep(struct drain **pd)
{
	struct drain *d = *pd;

	if (!d)
		return;
	cpus_done(&d->cpus);
	for (uint32_t i = 0; i < d->n_rings; i++)
		ring_done(&d->rings[i]);
	if (d->news_fd >= 0)
		close(d->news_fd);
	if (d->counters)
		munmap((void *)(uintptr_t)d->counters, d->counters_bytes);
	hold_done(&d->hold);
	coverage_freep(&d->coverage);
	free(d->sampled_ns);
	free(d->unpacked);
	pthread_mutex_destroy(&d->mutex);
	free(d);
	*pd = NULL;
}

/* What of a record the drain itself looks at. */
static void note(struct drain *d, const void *rec, size_t len)
{
	struct abi_record r;
	struct abi_code c;

	/* Its process may not live long, and its name is read from there. */
	if (len == sizeof(c) && *(const uint8_t *)rec == ABI_RECORD_CODE) {
		memcpy(&c, rec, sizeof(c));
		if (d->options.sink.code && c.event < ABI_N_EVENTS)
			d->options.sink.code(d->options.sink.ctx, &c, true);
	}
	if (len < sizeof(r))
		return;
	memcpy(&r, rec, sizeof(r));
	if (r.event < ABI_N_EVENTS)
		d->costs[r.event].n_read++;
}

/* A ring's record as everything else knows it; one that cannot be unpacked stays as it is, and is counted as bad. */
static const void *take(struct drain *d, const void *rec, uint32_t *len)
{
	int n;

	if (*len < sizeof(struct abi_record) ||
		((const struct abi_record *)rec)->type != ABI_RECORD_PACKED_SAMPLE)
		return rec;
	n = unpack_sample(rec, *len, d->unpacked);
	if (n < 0)
		return rec;
	*len = (uint32_t)n;
	return d->unpacked;
}

static void read_ring(struct drain *d, struct ring *r)
{
	uint64_t began = r->at;
	const void *rec;
	uint32_t len;

	d->ring_peak = MAX(d->ring_peak, ring_used(r));
	while ((rec = ring_next(r, &len))) {
		rec = take(d, rec, &len);
		if (d->options.capture)
			capture_record(d->options.capture, CAPTURE_SAMPLE, rec, len);
		note(d, rec, len);
		hold_add(&d->hold, HOLD_SAMPLE, rec, len);
	}
	d->ring_read += r->at - began;
	ring_release(r);
}

static void read_rings(struct drain *d)
{
	int64_t began_ns = clock_thread_cpu_ns();
	uint64_t n_read = 0, took_ns;

	for (uint32_t i = 0; i < d->n_rings; i++)
		read_ring(d, &d->rings[i]);
	took_ns = (uint64_t)(clock_thread_cpu_ns() - began_ns);
	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		n_read += d->costs[i].n_read;
	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		d->costs[i].taken_ns += took_ns * d->costs[i].n_read / MAX(n_read, 1U);
		d->costs[i].n_read = 0;
	}
}

static void read_sideband(struct drain *d, struct sideband_buffer *b)
{
	const void *rec;
	size_t len;

	while ((rec = sideband_next(b, &len))) {
		if (d->options.capture)
			capture_record(d->options.capture, CAPTURE_SIDEBAND, rec, len);
		hold_add(&d->hold, HOLD_SIDEBAND, rec, len);
		d->is_calm = false;
	}
	sideband_release(b);
}

static void measure_rate(struct drain *d)
{
	for (uint32_t i = 0; i < ABI_N_EVENTS; i++) {
		struct event_cost *c = &d->costs[i];

		run_cost_update(&c->sample, c->n_handed, c->n_timed, c->timed_ns);
		run_cost_update(&c->bpf, event_counter_sum(d, i, ABI_EVENT_COUNT_RUNS),
			event_counter_sum(d, i, ABI_EVENT_COUNT_COST_RUNS),
			event_counter_sum(d, i, ABI_EVENT_COUNT_COST_NS));
	}
}

static uint64_t kernel_mismatches(const struct drain *d)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ABI_N_EVENTS; i++)
		sum += event_counter_sum(d, i, ABI_EVENT_COUNT_KERNEL_MISMATCH);
	return sum;
}

/* All that sonde_samples_dropped_total counts but for the log's own. */
static uint64_t lost_samples(const struct drain *d, enum abi_event event)
{
	return event_counter_sum(d, event, ABI_EVENT_COUNT_RING_FULL) +
	       event_counter_sum(d, event, ABI_EVENT_COUNT_SCRATCH_BUSY) +
	       d->hold.stats.dropped[event];
}

static void tell_lost(struct drain *d)
{
	const struct sample_sink *sink = &d->options.sink;

	for (unsigned i = 0; i < ABI_N_EVENTS; i++) {
		uint64_t lost = lost_samples(d, (enum abi_event)i);

		if (sink->lost && lost > d->lost[i])
			sink->lost(sink->ctx, (enum abi_event)i, lost - d->lost[i]);
		d->lost[i] = lost;
	}
}

/* The kernel half has switched its own walk off by then. */
static void watch_kernel_walk(struct drain *d)
{
	if (d->said_mismatch || !kernel_mismatches(d))
		return;
	d->said_mismatch = true;
	log_write(LOG_WARN, "a kernel stack was walked to other frames than the kernel's own walk",
		"effect", "from now on the kernel walks all, as with --unwind.kernel=kernel", NULL);
}

static void publish(struct drain *d)
{
	const struct keeper_setup *setup = d->options.setup;
	const struct hold_stats *h = &d->hold.stats;
	struct drain_stats s = {.rounds = d->rounds,
		.news = d->news,
		.samples = h->samples,
		.sideband = h->sideband,
		.late_samples = h->late_samples,
		.late_sideband = h->late_sideband,
		.bad_records = h->bad_records,
		.sideband_lost = h->sideband_lost + h->sideband_dropped,
		.overflowed = h->overflowed,
		.held_bytes = d->hold.bytes.len,
		.cpus_attached = d->cpus.attached,
		.cpus_detached = d->cpus.detached,
		.cpu_attach_failures = d->cpus.failures,
		.cpus_revived = d->cpus.revived,
		.n_online = d->cpus.n_online,
		.n_attached = d->cpus.n_attached,
		.ring_bytes = (uint64_t)setup->ring_bytes * d->n_rings,
		.ring_used_peak_bytes = d->ring_peak,
		.ring_read_bytes = d->ring_read,
		.coverage_ratio = coverage_ratio(d->coverage),
		.coverage_worst_ratio = coverage_worst_ratio(d->coverage),
		.main_cpu_ns = d->main_cpu_ns,
		.keeper_cpu_ns = d->keeper_cpu_ns,
		.parser_cpu_ns = d->parser_cpu_ns,
		.fetcher_cpu_ns = d->fetcher_cpu_ns,
		.bpf_ns = bpf_ns(d),
		.maps_bytes = setup->maps_bytes};

	for (uint32_t i = 0; i < ABI_N_COUNTERS; i++)
		s.counters[i] = counter_sum(d, i);
	for (uint32_t i = 0; i < ABI_N_EVENTS; i++)
		for (uint32_t which = 0; which < ABI_N_EVENT_COUNTERS; which++)
			s.events[i].counters[which] = event_counter_sum(d, i, which);
	for (uint32_t i = 0; i < ABI_N_EVENTS; i++) {
		s.events[i].samples = d->costs[i].n_handed;
		s.events[i].dropped = h->dropped[i];
		s.events[i].rate_ns = rate_ns(d, i);
	}
	memcpy(s.stacks, h->stacks, sizeof(s.stacks));
	pthread_mutex_lock(&d->mutex);
	d->stats = s;
	pthread_mutex_unlock(&d->mutex);
}

int64_t drain_interval_ns(uint32_t hz, bool is_calm)
{
	int64_t longest_ns = is_calm ? SAMPLE_DRAIN_CALM_NS : SAMPLE_DRAIN_INTERVAL_NS;

	return MAX(
		MIN(CALM_SAMPLES * NS_PER_S / MAX(hz, 1U), longest_ns), SAMPLE_DRAIN_INTERVAL_NS);
}

/* Where new code or new objects are met all the time, a step is not made for each. */
#define SOON_NS (10 * NS_PER_MS)

static int64_t next_step_ns(
	const struct drain *d, int64_t began_ns, const struct governor_rates *rates)
{
	uint32_t hz = 0; /* of all that may come to wait in a ring */
	bool is_calm = d->is_calm && began_ns >= d->started_ns + BEGINNING_NS;
	uint64_t unknown_ns = MIN(hold_unknown_ns(&d->hold), (uint64_t)(INT64_MAX - NS_PER_S));
	int64_t handed_ns =
		MAX((int64_t)unknown_ns + SAMPLE_HOLD_NS + NS_PER_MS, began_ns + SOON_NS);

	for (unsigned i = 0; i < ABI_N_EVENTS; i++)
		hz += rates->hz[i];
	return MIN(began_ns + drain_interval_ns(hz, is_calm), handed_ns);
}

int drain_news_fd(const struct drain *d)
{
	return d->news_fd;
}

int64_t drain_take_news(struct drain *d)
{
	news_take(d->news_fd);
	read_rings(d);
	d->news++;
	return clock_monotonic_ns(d->options.clock) + SAMPLE_HOLD_NS + NS_PER_MS;
}

int64_t drain_step(struct drain *d)
{
	int64_t began = clock_monotonic_ns(d->options.clock);
	int64_t boot_offset = clock_boot_offset_ns(d->options.clock);
	uint64_t up_to = (uint64_t)(began - SAMPLE_HOLD_NS);
	struct errbuf eb = {0};
	struct governor_rates rates;

	d->rounds++;
	d->is_calm = true;
	for (uint32_t i = 0; i < d->cpus.n_cpus; i++)
		if (d->cpus.cpu[i].attached)
			read_sideband(d, &d->cpus.cpu[i].sideband);
	read_rings(d);
	if (d->options.capture)
		capture_drain(d->options.capture, (uint64_t)began, boot_offset,
			(uint64_t)clock_realtime_ns(d->options.clock));
	hold_flush(&d->hold, up_to);
	tell_lost(d);
	if (d->options.sink.drained(d->options.sink.ctx, up_to, boot_offset))
		d->is_calm = false;

	if (began >= d->next_watch_ns) {
		if (watch(d, began, &eb) < 0)
			LOG_RATED(LOG_WARN, "cannot follow CPUs: %s", eb.text);
		measure_roles(d);
		d->next_watch_ns = began + WATCH_INTERVAL_NS;
	}
	measure_rate(d);
	watch_kernel_walk(d);
	rates = govern(d, began);
	cpus_set_rates(&d->cpus, &rates);
	publish(d);
	return next_step_ns(d, began, &rates);
}

void drain_stats(struct drain *d, struct drain_stats *ret)
{
	pthread_mutex_lock(&d->mutex);
	*ret = d->stats;
	pthread_mutex_unlock(&d->mutex);
}
