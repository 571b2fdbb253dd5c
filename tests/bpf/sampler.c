/* SPDX-License-Identifier: Apache-2.0
 *
 * The first two stages alone: roles, then a drain that prints what it hands on, one JSON object a line; tests of the kernel
 * half read it. The last line has the counters. It runs until its standard input ends.
 *
 * usage: sampler HZ [HZ2 [N]]     (HZ2: asked for when a byte comes there, as a request with hz= does; N: one kernel stack of so
 * many is walked by the kernel too)
 */
#include "exporter/keeper/roles.h"
#include "exporter/sample/drain.h"
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const counter_names[] = {
#define COUNTER(name, metric, labels, text) #name,
#include "bpf/counters.def"
};
static const char *const event_counter_names[] = {
#define EVENT_COUNTER(name, metric, labels, text) #name,
#include "bpf/counters.def"
};

static void on_sideband(void *ctx, const struct sideband *e)
{
	(void)ctx;
	printf("{\"sideband\":%d,\"t\":%" PRIu64
	       ",\"pid\":%u,\"tid\":%u,\"ppid\":%u,\"exec\":%d,\"comm\":\"%s\",\"path\":\"%s\","
	       "\"ino\":%" PRIu64 "}\n",
		e->kind, e->time_ns, e->pid, e->tid, e->ppid, e->exec,
		e->kind == SIDEBAND_COMM && !strpbrk(e->comm, "\"\\") ? e->comm : "",
		e->kind == SIDEBAND_MMAP && !strpbrk(e->path, "\"\\") ? e->path : "", e->ino);
}

static void print_words(const char *name, const __u64 *words, unsigned n)
{
	printf("\"%s\":[", name);
	for (unsigned i = 0; i < n; i++)
		printf("%s\"%llx\"", i ? "," : "", words[i]);
	printf("],");
}

static void on_sample(void *ctx, const struct abi_record *r, bool late)
{
	(void)ctx;
	printf("{\"sample\":1,\"t\":%llu,\"weight\":%llu,\"pid\":%u,\"tid\":%u,\"cpu\":%u,"
	       "\"flags\":%u,\"start_ns\":%llu,\"exec_id\":%u,\"cgroup\":%llu,\"late\":%d,",
		r->time_ns, r->weight[0], r->pid, r->tid, r->cpu, r->flags, r->start_ns, r->exec_id,
		r->cgroup_id, late);
	printf("\"comm\":\"%s\",\"leader\":\"%s\",", strpbrk(r->comm, "\"\\") ? "" : r->comm,
		strpbrk(r->leader_comm, "\"\\") ? "" : r->leader_comm);
	print_words("kernel", r->frames, r->n_kernel);
	print_words("user", r->frames + r->n_kernel, r->n_user);
	printf("\"end\":0}\n");
}

static bool on_drained(void *ctx, uint64_t up_to_ns, int64_t boot_offset_ns)
{
	(void)ctx;
	(void)up_to_ns;
	(void)boot_offset_ns;
	return false;
}

static void print_stats(struct drain *d)
{
	struct drain_stats s;

	drain_stats(d, &s);
	printf("{\"stats\":1,\"online\":%u,\"attached\":%u,\"revived\":%" PRIu64
	       ",\"coverage\":%.4f,\"bpf_ns\":%" PRIu64 ",\"late\":%" PRIu64 ",\"bad\":%" PRIu64
	       ",\"lost\":%" PRIu64 ",\"complete\":%" PRIu64 ",\"ring_peak\":%" PRIu64 ",",
		s.n_online, s.n_attached, s.cpus_revived, s.coverage_ratio, s.bpf_ns,
		s.late_samples, s.bad_records, s.sideband_lost, s.stacks[ABI_CUT_NONE],
		s.ring_used_peak_bytes);
	for (int i = 0; i < ABI_N_COUNTERS; i++)
		printf("\"%s\":%" PRIu64 ",", counter_names[i], s.counters[i]);
	for (int i = 0; i < ABI_N_EVENT_COUNTERS; i++)
		printf("\"%s\":%" PRIu64 ",", event_counter_names[i],
			s.events[ABI_EVENT_CPU].counters[i]);
	printf("\"end\":0}\n");
}

enum input { INPUT_NONE, INPUT_BYTE, INPUT_END };

static enum input look_at_input(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char c;

	if (poll(&p, 1, 0) == 0)
		return INPUT_NONE;
	return read(STDIN_FILENO, &c, 1) == 1 ? INPUT_BYTE : INPUT_END;
}

static int run(const struct keeper_setup *setup, uint32_t hz, uint32_t hz2)
{
	const struct governor_options go = {
		.base_hz = hz, .max_hz = 9999, .shares = {[ABI_EVENT_CPU] = 1}};
	_cleanup_(governor_freep)
	struct governor *g = governor_new(&go);
	_cleanup_(drain_freep)
	struct drain *d = NULL;
	struct errbuf eb = {0};
	const struct drain_options o = {.setup = setup,
		.clock = &clock_system,
		.fs = &fs_system,
		.governor = g,
		.sink = {.sideband = on_sideband, .sample = on_sample, .drained = on_drained}};
	int64_t next = 0;
	enum input in = INPUT_NONE;

	d = drain_new(&o, &eb);
	if (!d) {
		fprintf(stderr, "sampler: %s\n", eb.text);
		return 1;
	}
	printf("{\"ready\":1}\n");
	fflush(stdout);
	/* The last round is later than the end of the input by more than the hold: all samples of before are there. */
	while (in != INPUT_END) {
		in = look_at_input();
		if (in == INPUT_BYTE)
			governor_request(g, ABI_EVENT_CPU, hz2);
		next = MAX(next, clock_monotonic_ns(&clock_system)) + SAMPLE_DRAIN_INTERVAL_NS;
		clock_system.sleep_until_ns(&clock_system, next);
		drain_step(d);
		fflush(stdout);
	}
	print_stats(d);
	return 0;
}

int main(int argc, char **argv)
{
	uint32_t hz = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 19;
	const struct role_options o = {.frequency_hz = hz,
		.max_frequency_hz = hz,
		.kernel_check_each = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0,
		.by_frame_pointer = true};
	struct keeper_setup setup;
	struct errbuf eb = {0};
	int r = role_start(&o, &setup, &eb);

	if (r < 0) {
		fprintf(stderr, "sampler: %s\n", err_text(&eb, r));
		return 1;
	}
	r = run(&setup, hz, argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0);
	setup.keeper->close(setup.keeper);
	return r;
}
