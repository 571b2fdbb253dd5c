/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything behind the drain without a kernel: records → process table → log → names → pprof. What came in is captured in a
 * bundle on the way; replaying the bundle gives the same pprof, byte for byte. Frames: return addresses, kernel leaf, cut roots.
 * Garbage: the tree and the tables shrink when the log forgets.
 */
#include "exporter/intake/intake.h"
#include "exporter/proc/reader/reader.h"
#include "exporter/profile/source.h"
#include "exporter/sample/capture.h"
#include "exporter/sample/replay.h"
#include "exporter/sample/sideband.h"
#include "lib/render/render.h"
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "tests/unit/names_fixture.h"
#include "tests/unit/sideband_records.h"

/* tests/data/fuzz/elf/static: helper at 0x40010c, _start at 0x400110. */
#define ELF_PATH "tests/data/fuzz/elf/static"
#define MAPS "00400000-00401000 r-xp 00000000 08:01 77                     /opt/static\n"
#define KALLSYMS                                                                     \
	"ffffffff81000000 T _stext\nffffffff81000100 T do_work\nffffffff81000200 T " \
	"sys_work\nffffffff81000300 T _etext\n"
#define KERNEL(off) ABI_FRAME(ABI_FRAME_KERNEL, 0xffffffff81000000ULL + (off))
#define RAW(addr) ABI_FRAME(ABI_FRAME_RAW, addr)

static int bundle_open(struct keeper *k, uint32_t pid, uint64_t start_ns, enum keeper_what what,
	uint64_t start, uint64_t end)
{
	(void)k;
	(void)pid;
	(void)start_ns;
	(void)end;
	int fd = -ESRCH;

	if (what == KEEPER_MAPS)
		return fake_text(MAPS);
	if (what == KEEPER_KALLSYMS)
		return fake_text(KALLSYMS);
	if (what == KEEPER_MODULES)
		return fake_text("");
	if (what == KEEPER_MAP_FILE && start == 0x400000) {
		fd = open(ELF_PATH, O_RDONLY | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	return fd;
}

static int bundle_open_at(struct keeper *k, int root_fd, const char *path, int flags)
{
	(void)k;
	(void)root_fd;
	(void)path;
	(void)flags;
	return -ENOENT;
}

static struct keeper source_keeper = {.open = bundle_open, .open_at = bundle_open_at};

/* ---- the stages, fresh ---- */

struct stages {
	struct clock_virtual clock;
	struct fake_parser parser;
	struct binary_registry *binaries;
	struct symbolizer *symbolizer;
	struct stacks *stacks;
	struct sample_log *logs[ABI_N_EVENTS];
	struct proc_table *procs;
	struct intake intake;
	struct proc_reader *reader;
	struct worker worker;
	struct labels labels;
	struct profile_source source;
};

static void stages_init(struct stages *s, struct keeper *keeper, uint32_t retention_s)
{
	struct sample_log_options lo = {.retention_s = retention_s,
		.window_s = 10,
		.retention_bytes = 64 << 20,
		.start_id = 1};
	_cleanup_labels_builder_ struct labels_builder b;
	struct errbuf eb = {.text = ""};

	s->parser = fake_parser_start();
	s->binaries = binary_registry_new(&(struct binary_options) {.keeper = keeper,
						  .fs = &fs_system,
						  .clock = &clock_system,
						  .parser_fd = s->parser.fd,
						  .cache_path = "",
						  .cache_bytes = 256 << 20,
						  .max_cpu = 64},
		&eb);
	s->symbolizer = symbolizer_new(&(struct symbolizer_options) {.binaries = s->binaries,
					       .keeper = keeper,
					       .clock = &clock_system,
					       .parser_fd = s->parser.fd},
		&eb);
	assert_non_null(s->binaries);
	assert_non_null(s->symbolizer);
	s->procs = proc_table_new(&(struct proc_options) {.max_processes = 32768,
		.max_tasks = 131072,
		.binaries = s->binaries,
		.lock = &s->intake.lock});
	s->stacks = stacks_new(NULL);
	lo.stacks = s->stacks;
	lo.clock = &s->clock.clock;
	s->logs[ABI_EVENT_CPU] = sample_log_new(&lo);
	intake_init(&s->intake, s->procs, s->stacks, s->logs, s->binaries);
	intake_defer(&s->intake, &(struct deferred_tables) {.n_binaries = 0}, NULL);
	s->reader = proc_reader_new(&(struct proc_reader_options) {.procfs = "/nonexistent",
		.keeper = keeper,
		.binaries = s->binaries,
		.clock = &s->clock.clock,
		.table = s->procs,
		.lock = &s->intake.lock});
	labels_builder_init(&b);
	labels_builder_set(&b, "node", "n1");
	assert_int_equal(labels_builder_finish(&b, &s->labels), 0);
	s->source = (struct profile_source) {
		.lock = &s->intake.lock,
		.tables = {.logs = {[ABI_EVENT_CPU] = s->logs[ABI_EVENT_CPU]},
			.stacks = s->stacks,
			.procs = s->procs},
		.symbolizer = s->symbolizer,
		.clock = &clock_system,
		.constants = &s->labels,
		.hz = 1,
		.retention_s = retention_s,
		.window_s = 10,
	};
	worker_start(&s->worker, s->binaries);
}

static void stages_done(struct stages *s)
{
	worker_stop(&s->worker);
	intake_done(&s->intake);
	proc_reader_freep(&s->reader);
	proc_table_freep(&s->procs);
	symbolizer_freep(&s->symbolizer);
	binary_registry_freep(&s->binaries);
	sample_log_freep(&s->logs[ABI_EVENT_CPU]);
	stacks_freep(&s->stacks);
	labels_done(&s->labels);
	assert_int_equal(fake_parser_stop(&s->parser), 0);
}

/* All there is, the second that is still open too: pprof bytes and folded text, both NUL-terminated. */
static void take(struct stages *s, struct bytes *pprof, struct bytes *folded)
{
	const struct profile_query q = {.to_ns = INT64_MAX, .mode = SYMBOLIZE_FUNCTIONS};
	_cleanup_profile_ struct profile p = {.n_samples = 0};
	_cleanup_arena_ struct arena arena = {.error = 0};
	struct errbuf eb = {.text = ""};
	struct sample_range range;

	arena_init(&arena, NULL);
	profile_init(&p, NULL);
	bytes_init(pprof, NULL, 0);
	bytes_init(folded, NULL, 0);
	if (profile_source_take(&s->source, &q, &arena, &p, &range, &eb) < 0)
		fail_msg("%s", eb.text);
	assert_int_equal(prof_encode(&p, pprof), 0);
	assert_int_equal(render_profile_folded(&p, 1, folded, &eb), 0);
	bytes_put_u8(folded, 0);
}

/* ---- records ---- */

struct record {
	struct abi_record head;
	uint64_t frames[64];
};

static struct record make_record(uint64_t time_ns, uint32_t pid, uint16_t flags,
	const uint64_t *kernel, uint16_t n_kernel, const uint64_t *user, uint16_t n_user)
{
	struct record r = {.head = {.type = ABI_RECORD_SAMPLE,
				   .flags = flags,
				   .n_kernel = n_kernel,
				   .n_user = n_user,
				   .time_ns = time_ns,
				   .weight = {100},
				   .start_ns = 1000 + pid,
				   .pid = pid,
				   .tid = pid,
				   .comm = "worker",
				   .leader_comm = "static"}};

	for (uint16_t i = 0; i < n_kernel; i++)
		r.frames[i] = kernel[i];
	for (uint16_t i = 0; i < n_user; i++)
		r.frames[n_kernel + i] = user[i];
	return r;
}

static size_t record_bytes(const struct record *r)
{
	return sizeof(r->head) + (size_t)(r->head.n_kernel + r->head.n_user) * 8;
}

/* in user code; in a system call; cut; repeated; a kernel thread */
static size_t make_records(uint64_t now_ns, struct record *ret)
{
	const uint64_t user[] = {RAW(0x40010e), RAW(0x400118)},
		       kernel[] = {KERNEL(0x110), KERNEL(0x200)};
	const uint64_t call[] = {RAW(0x400118)};
	const uint64_t cut[] = {RAW(0x40010e), ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_READ_FAULT)};
	const uint64_t again[] = {
		RAW(0x40010e), RAW(0x400118), ABI_FRAME(ABI_FRAME_REPEAT, 1ULL << 32 | 2)};
	size_t n = 0;

	ret[n++] = make_record(now_ns, 500, ABI_FLAG_USER_MODE, NULL, 0, user, 2);
	ret[n++] = make_record(now_ns + 1, 500, ABI_FLAG_FIRST_IS_RETURN, kernel, 2, call, 1);
	ret[n++] = make_record(now_ns + 2, 500, ABI_FLAG_USER_MODE, NULL, 0, cut, 2);
	ret[n++] = make_record(now_ns + 3, 501, ABI_FLAG_USER_MODE, NULL, 0, again, 3);
	ret[n++] = make_record(now_ns + 4, 2, ABI_FLAG_KTHREAD, kernel, 2, NULL, 0);
	return n;
}

/* The kernel frame at 0x200 is a return address: its call is at 0x1ff, the end of do_work. */
static const char expected[] = "[truncated: read_fault];helper 100\n"
			       "_start;helper 100\n"
			       "_start;do_work;do_work 100\n"
			       "_start;_start;_start;helper 100\n"
			       "do_work;do_work 100\n";

/* The same lines in any order. */
static void assert_same_lines(const char *got, const char *wanted)
{
	bool same = strlen(got) == strlen(wanted);

	for (const char *line = wanted; *line; line += strcspn(line, "\n") + 1) {
		_cleanup_free_ char *copy = xstrndup(line, strcspn(line, "\n") + 1);
		const char *at = strstr(got, copy);

		while (at && at > got && at[-1] != '\n')
			at = strstr(at + 1, copy);
		same = same && at;
	}
	if (!same)
		fail_msg("got\n%swanted\n%s", got, wanted);
}

/* The mapping of ELF_PATH, as the kernel tells it. */
static size_t make_mapping(struct bytes *out, uint64_t time_ns, uint32_t pid)
{
	struct file_numbers {
		uint32_t dev_major, dev_minor;
		uint64_t ino;
	} numbers;
	struct stat st;
	size_t n;

	assert_int_equal(stat(ELF_PATH, &st), 0);
	numbers = (struct file_numbers) {major(st.st_dev), minor(st.st_dev), st.st_ino};
	bytes_init(out, NULL, 0);
	n = record_mmap2(out, time_ns, pid, 0x400000, 0x1000, NULL, 0, "/opt/static");
	memset(out->data + 32, 0, 8); /* the offset in the file */
	memcpy(out->data + 40, &numbers, sizeof(numbers));
	return n;
}

static void play_live(struct stages *s, struct capture *capture)
{
	struct sample_sink sink = intake_sink(&s->intake);
	uint64_t now_ns = (uint64_t)s->clock.mono_ns;
	struct record records[8];
	size_t n;

	capture_drain(capture, now_ns, 0, (uint64_t)s->clock.real_ns);
	sink.drained(sink.ctx, now_ns - SAMPLE_HOLD_NS, 0);
	for (uint32_t pid = 500; pid < 502; pid++) {
		_cleanup_bytes_ struct bytes raw = {.len = 0};
		struct sideband e;

		n = make_mapping(&raw, now_ns + 1, pid);
		assert_int_equal(sideband_parse(raw.data, n, false, &e), 0);
		sink.sideband(sink.ctx, &e);
		capture_record(capture, CAPTURE_SIDEBAND, raw.data, n);
	}
	n = make_records(now_ns + 5, records);
	for (size_t i = 0; i < n; i++) {
		sink.sample(sink.ctx, &records[i].head, false);
		capture_record(capture, CAPTURE_SAMPLE, &records[i], record_bytes(&records[i]));
	}
	assert_true(proc_reader_settle(s->reader));
	clock_virtual_advance(&s->clock, 3 * NS_PER_S);
	sink.drained(sink.ctx, (uint64_t)(s->clock.mono_ns - SAMPLE_HOLD_NS), 0);
	capture_drain(capture, (uint64_t)s->clock.mono_ns, 0, (uint64_t)s->clock.real_ns);
}

static void test_captured_bundle_replays_to_the_same_pprof(void **state)
{
	_cleanup_(temp_dir_done)
	char *dir = temp_dir();
	_cleanup_free_ char *path = xasprintf("%s/bundle", dir);
	_cleanup_bytes_ struct bytes live = {.len = 0}, live_text = {.len = 0}, again = {.len = 0},
				     again_text = {.len = 0};
	struct capture *capture;
	struct sample_sink sink;
	struct replay *replay;
	struct stages s = {.labels = {.n = 0}};
	struct errbuf eb = {.text = ""};

	(void)state;
	capture = capture_open(&fs_system, path, 0, &eb);
	assert_non_null(capture);
	clock_virtual_init(&s.clock, 1700000000 * NS_PER_S);
	stages_init(&s, capture_keeper(capture, &source_keeper), 300);
	play_live(&s, capture);
	take(&s, &live, &live_text);
	assert_same_lines((const char *)live_text.data, expected);
	stages_done(&s);
	capture_freep(&capture);

	/* The same from the file: nothing but the bundle answers now. */
	s = (struct stages) {.labels = {.n = 0}};
	clock_virtual_init(&s.clock, 1700000000 * NS_PER_S);
	sink = intake_sink(&s.intake); /* filled by stages_init, which wants the replay's keeper */
	if (replay_open(&fs_system, path, &sink, &s.clock, &replay, &eb) < 0)
		fail_msg("%s", eb.text);
	stages_init(&s, replay_keeper(replay), 300);
	while (replay_step(replay))
		proc_reader_settle(s.reader);
	intake_flush(&s.intake);
	take(&s, &again, &again_text);
	assert_same_lines((const char *)again_text.data, expected);
	assert_int_equal(again.len, live.len);
	assert_memory_equal(again.data, live.data, live.len);
	stages_done(&s);
	replay_freep(&replay);
}

static void test_garbage_is_given_back(void **state)
{
	struct stages s = {.labels = {.n = 0}};
	struct sample_log_stats log_stats;
	struct sample_sink sink;
	uint32_t peak_nodes = 0, peak_tasks = 0;

	(void)state;
	clock_virtual_init(&s.clock, 1700000000 * NS_PER_S);
	stages_init(&s, &source_keeper, 20);
	sink = intake_sink(&s.intake);
	/* Every second 300 threads with stacks of their own that never come back; 20 seconds are kept. */
	for (uint32_t second = 0; second < 100; second++) {
		for (uint32_t i = 0; i < 300; i++) {
			const uint64_t kernel[] = {
				KERNEL(16 * (i + 300 * second)), KERNEL(7), KERNEL(9)};
			const uint64_t user[] = {
				RAW(0x7f0000000000 + 64ULL * (i + 300 * second)), RAW(0x400118)};
			struct record r = make_record((uint64_t)s.clock.mono_ns + i, 600,
				ABI_FLAG_USER_MODE, kernel, 3, user, 2);

			r.head.tid = 600 + i + 300 * second;
			sink.sample(sink.ctx, &r.head, false);
		}
		clock_virtual_advance(&s.clock, NS_PER_S);
		sink.drained(sink.ctx, (uint64_t)s.clock.mono_ns, 0);
		peak_nodes = MAX(peak_nodes, stacks_count(s.stacks));
		lock_take(&s.intake.lock);
		peak_tasks = MAX(peak_tasks, proc_n_tasks(s.procs));
		lock_release(&s.intake.lock);
	}
	sample_log_stats(s.logs[ABI_EVENT_CPU], &log_stats);
	assert_int_equal(log_stats.appended, 30000);
	assert_int_equal(log_stats.rows, 6000);
	assert_true(s.intake.collector.runs >= 1);
	/* 20 live seconds make 6,000 tasks and some 24,000 nodes; without collection it would be five times as many. */
	assert_true(peak_nodes < 80000);
	assert_true(peak_tasks < 20000);
	stages_done(&s);
}

/* The log begins at the first drain of a bundle: that is when the stages are made. */
struct late_stages {
	struct stages stages;
	struct replay *replay;
	bool made;
};

static struct sample_sink late_sink(struct late_stages *l)
{
	if (!l->made)
		stages_init(&l->stages, replay_keeper(l->replay), 300);
	l->made = true;
	return intake_sink(&l->stages.intake);
}

static void late_sideband(void *ctx, const struct sideband *e)
{
	struct sample_sink to = late_sink(ctx);

	to.sideband(to.ctx, e);
}

static void late_sample(void *ctx, const struct abi_record *r, bool late)
{
	struct sample_sink to = late_sink(ctx);

	to.sample(to.ctx, r, late);
}

static bool late_drained(void *ctx, uint64_t up_to_ns, int64_t boot_offset_ns)
{
	struct sample_sink to = late_sink(ctx);

	return to.drained(to.ctx, up_to_ns, boot_offset_ns);
}

/* A profile waits two seconds for names; those of a machine full of programs take longer. */
static void wait_symbol_files(struct binary_registry *r)
{
	for (uint32_t id = 1; id < binary_n_ids(r); id++)
		for (int i = 0; binary_is_coming(r, id) && i < 12000; i++)
			usleep(10000);
}

/* SONDE_BUNDLE names a bundle that an exporter wrote: tests/e2e/test_exporter_life.py captures one and has it replayed here. */
/* An object is told of early, and right before its sample; the sample makes the process known. */
static void test_code_objects_wait_for_their_process(void **state)
{
	struct stages s = {.labels = {.n = 0}};
	struct sample_sink sink;
	struct proc_stats stats;
	struct record r;
	struct abi_code c;
	uint64_t word = ABI_INTERP(0x123, 4);

	(void)state;
	clock_virtual_init(&s.clock, 1700000000 * NS_PER_S);
	stages_init(&s, &source_keeper, 300);
	sink = intake_sink(&s.intake);
	r = make_record((uint64_t)s.clock.mono_ns, 500, ABI_FLAG_USER_MODE, NULL, 0, &word, 1);
	c = (struct abi_code) {.type = ABI_RECORD_CODE,
		.time_ns = r.head.time_ns,
		.start_ns = r.head.start_ns,
		.pid = 500,
		.object = 0x123,
		.check = 7};
	for (unsigned i = 0; i < 3; i++) {
		sink.code(sink.ctx, &c, true);
		c.object++;
	}
	assert_int_equal(s.intake.n_codes, 0);
	c.object = 0x123;
	sink.code(sink.ctx, &c, false);
	assert_int_equal(s.intake.n_codes, 1);
	sink.sample(sink.ctx, &r.head, false);
	assert_int_equal(s.intake.n_codes, 0);
	lock_take(&s.intake.lock);
	assert_true(proc_code_is_waiting(s.procs, PROC_CODE_OBJECTS));
	lock_release(&s.intake.lock);
	/* known by now */
	c.object++;
	sink.code(sink.ctx, &c, true);
	assert_int_equal(s.intake.n_codes, 0);
	lock_take(&s.intake.lock);
	proc_table_stats(s.procs, &stats);
	lock_release(&s.intake.lock);
	assert_int_equal(stats.addresses, 2);
	stages_done(&s);
}

static void test_bundle_of_an_exporter(void **state)
{
	_cleanup_bytes_ struct bytes pprof = {.len = 0}, folded = {.len = 0};
	struct late_stages l = {.made = false};
	const struct sample_sink sink = {.ctx = &l,
		.sideband = late_sideband,
		.sample = late_sample,
		.drained = late_drained};
	struct sample_log_stats stats;
	struct errbuf eb = {.text = ""};

	(void)state;
	clock_virtual_init(&l.stages.clock, 0);
	if (replay_open(
		    &fs_system, getenv("SONDE_BUNDLE"), &sink, &l.stages.clock, &l.replay, &eb) < 0)
		fail_msg("%s", eb.text);
	while (replay_step(l.replay))
		if (l.made)
			proc_reader_settle(l.stages.reader);
	assert_true(l.made);
	intake_flush(&l.stages.intake);
	wait_symbol_files(l.stages.binaries);
	take(&l.stages, &pprof, &folded);
	sample_log_stats(l.stages.logs[ABI_EVENT_CPU], &stats);
	printf("samples %llu\n%s", (unsigned long long)stats.appended, (const char *)folded.data);
	stages_done(&l.stages);
	replay_freep(&l.replay);
}

int main(void)
{
	const struct CMUnitTest bundle[] = {cmocka_unit_test(test_bundle_of_an_exporter)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_captured_bundle_replays_to_the_same_pprof),
		cmocka_unit_test(test_garbage_is_given_back),
		cmocka_unit_test(test_code_objects_wait_for_their_process),
	};

	return getenv("SONDE_BUNDLE") ? cmocka_run_group_tests(bundle, NULL, NULL)
				      : cmocka_run_group_tests(tests, NULL, NULL);
}
