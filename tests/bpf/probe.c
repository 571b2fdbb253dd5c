/* SPDX-License-Identifier: Apache-2.0
 *
 * Attaches a program to a function in a file through the keeper, as an event source for allocations would: programs are those of
 * tests/bpf/probe.bpf.c, the table is this test's own. Prints each sample, then what was refused and the counters; ends with its input.
 *
 * usage: probe OBJECT FILE OFFSET
 */
#include "exporter/keeper/roles.h"
#include "exporter/sample/ring.h"
#include "exporter/sample/unpack.h"
#include "lib/base/bytes.h"
#include "lib/base/fs.h"
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EVENT_PROBE ((enum abi_event)ABI_N_EVENTS)
#define EVENT_OTHER ((enum abi_event)(ABI_N_EVENTS + 1))
enum { MAX_OBJECT = 16 << 20 };

static void print_sample(const void *rec, size_t len)
{
	static union unpacked u;
	const struct abi_record *r = rec;

	if (r->type == ABI_RECORD_STACK)
		return;
	if (r->type == ABI_RECORD_PACKED_SAMPLE && unpack_sample(rec, len, &u) > 0)
		r = &u.record;
	printf("{\"event\":%u,\"pid\":%u,\"tid\":%u,\"weight\":[%llu,%llu],\"comm\":\"%s\","
	       "\"user\":[",
		r->event, r->pid, r->tid, r->weight[0], r->weight[1], r->comm);
	for (unsigned i = 0; i < r->n_user; i++)
		printf("%s\"%llx\"", i ? "," : "", r->frames[r->n_kernel + i]);
	printf("]}\n");
}

static void drain(struct ring *rings, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const void *rec;
		uint32_t len;

		while ((rec = ring_next(&rings[i], &len)))
			print_sample(rec, len);
		ring_release(&rings[i]);
	}
	fflush(stdout);
}

/* What the keeper must not do: {event, file, offset} → the error and its text. */
static void print_refusals(struct keeper *k, int file)
{
	_cleanup_close_ int text = open("/etc/passwd", O_RDONLY | O_CLOEXEC),
			    dir = open("/etc", O_RDONLY | O_CLOEXEC);
	const struct {
		const char *name;
		enum abi_event event;
		int file;
		uint64_t offset;
	} cases[] = {{"off", EVENT_OTHER, file, 64}, {"per_cpu", ABI_EVENT_CPU, file, 64},
		{"no_row", (enum abi_event)9, file, 64}, {"text", EVENT_PROBE, text, 64},
		{"directory", EVENT_PROBE, dir, 64}, {"beyond", EVENT_PROBE, file, 1ULL << 40}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {0};
		int r = k->attach_file(k, cases[i].event, cases[i].file, cases[i].offset, &eb);

		printf("{\"refused\":\"%s\",\"errno\":%d,\"text\":\"%s\"}\n", cases[i].name, -r,
			eb.text);
		if (r >= 0)
			close(r);
	}
}

static void print_counters(const struct keeper_setup *s)
{
	size_t bytes = (size_t)s->n_cpus * ABI_COUNTERS_STRIDE * sizeof(uint64_t);
	const uint64_t *rows = mmap(NULL, bytes, PROT_READ, MAP_SHARED, s->counters_fd, 0);
	uint64_t sum[ABI_N_EVENT_COUNTERS] = {0};

	for (uint32_t cpu = 0; rows != MAP_FAILED && cpu < s->n_cpus; cpu++)
		for (unsigned i = 0; i < ABI_N_EVENT_COUNTERS; i++)
			sum[i] += rows[(size_t)cpu * ABI_COUNTERS_STRIDE +
				       ABI_EVENT_COUNTERS(EVENT_PROBE) + i];
	printf("{\"runs\":%llu,\"samples\":%llu,\"ring_full\":%llu,\"scratch_busy\":%llu,"
	       "\"maps_bytes\":%llu}\n",
		(unsigned long long)sum[ABI_EVENT_COUNT_RUNS],
		(unsigned long long)sum[ABI_EVENT_COUNT_SAMPLES],
		(unsigned long long)sum[ABI_EVENT_COUNT_RING_FULL],
		(unsigned long long)sum[ABI_EVENT_COUNT_SCRATCH_BUSY],
		(unsigned long long)s->maps_bytes);
}

static int run(const struct keeper_setup *s, int file, uint64_t offset)
{
	static struct ring rings[ARRAY_SIZE(s->ring_fds)];
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct errbuf eb = {0};
	int link;

	for (uint32_t i = 0; i < s->n_rings; i++)
		if (ring_open(&rings[i], s->ring_fds[i], s->ring_bytes, &eb) < 0)
			return 1;
	print_refusals(s->keeper, file);
	link = s->keeper->attach_file(s->keeper, EVENT_PROBE, file, offset, &eb);
	printf("{\"attached\":%d,\"text\":\"%s\"}\n", link >= 0, eb.text);
	fflush(stdout);
	while (poll(&input, 1, 20) == 0)
		drain(rings, s->n_rings);
	close(link);
	drain(rings, s->n_rings);
	print_counters(s);
	return link < 0;
}

int main(int argc, char **argv)
{
	static const struct keeper_programs programs = {.n = EVENT_OTHER + 1,
		.rows = {[ABI_EVENT_CPU] = {.event = "cpu", .target = EVENT_PER_CPU},
			[EVENT_PROBE] = {.event = "probe",
				.target = EVENT_PER_FILE,
				.is_preemptible = true,
				.is_on = true},
			[EVENT_OTHER] = {.event = "other", .target = EVENT_PER_FILE}}};
	struct role_options o = {.frequency_hz = 19,
		.max_frequency_hz = 19,
		.by_frame_pointer = true,
		.programs = &programs};
	_cleanup_bytes_ struct bytes object = {0};
	_cleanup_close_ int file = -1;
	struct keeper_setup setup;
	struct errbuf eb = {0};
	int r;

	if (argc < 4 || fs_read_file(&fs_system, argv[1], MAX_OBJECT, &object, &eb) < 0)
		return 2;
	o.object = object.data;
	o.object_bytes = object.len;
	r = role_start(&o, &setup, &eb);
	if (r < 0) {
		fprintf(stderr, "probe: %s\n", err_text(&eb, r));
		return 1;
	}
	file = open(argv[2], O_RDONLY | O_CLOEXEC);
	r = run(&setup, file, strtoull(argv[3], NULL, 0));
	setup.keeper->close(setup.keeper);
	return r;
}
