/* SPDX-License-Identifier: Apache-2.0
 *
 * The process table against synthetic side-band records and records: fork, exec, exit, recycled
 * pids, lost records, mappings and their times, tasks, addresses, caps. /proc is an empty
 * directory unless a test fills it.
 */
#include "exporter/proc/maps.h"
#include "bpf/process/heads.h"
#include "tests/unit/proc_fixture.h"
#include <string.h>

static const char *path_of(struct fixture *f, uint64_t frame, struct binary_info *info)
{
	if (ABI_FRAME_KIND(frame) != ABI_FRAME_NATIVE)
		return "";
	binary_info(f->registry, ABI_NATIVE_BINARY(frame), info);
	return info->path;
}

/* A shell forks, the child execs and exits within 20 ms; nothing of it is in /proc when its
 * sample is handed on. */
static void test_short_process(void **state)
{
	struct abi_record before, after;
	struct proc_task_info info;
	struct binary_info bi;
	struct process *a, *b;
	struct fixture f;
	uint64_t frame;

	(void)state;
	setup(&f);
	write_process(&f, 10, 1, "bash", 5, "0::/system.slice/ssh.service\n");
	execed(&f, 10, "bash", 900);
	mapped(&f, 10, 0x1000, 0x1000, 0, "/bin/bash", 901);
	before = record(10, 900, 3, 950);
	info = info_of(&f, process_of(&f, &before), &before);
	assert_string_equal(info.systemd_unit, "ssh.service");
	forked(&f, 10, 11, 1000);
	execed(&f, 11, "true", 1002);
	mapped(&f, 11, 0x400000, 0x2000, 0x1000, "/bin/true", 1003);
	mapped(&f, 11, 0x7f0000, 0x2000, 0, "/lib/libc.so.6", 1004);
	exited(&f, 11, 1020);

	before = record(11, 1000, 3, 1001);
	after = record(11, 1000, 4, 1010);
	snprintf(after.leader_comm, sizeof(after.leader_comm), "true");
	a = process_of(&f, &before);
	b = process_of(&f, &after);
	assert_ptr_not_equal(a, b);
	/* Before the exec it was bash. */
	assert_string_equal(
		path_of(&f, proc_resolve(f.t, a, 0x1234, before.time_ns), &bi), "/bin/bash");
	assert_string_equal(info_of(&f, a, &before).executable, "/bin/bash");
	frame = proc_resolve(f.t, b, 0x400010, after.time_ns);
	assert_string_equal(path_of(&f, frame, &bi), "/bin/true");
	assert_int_equal(ABI_NATIVE_OFF(frame), 0x1010);
	assert_int_equal(
		ABI_FRAME_KIND(proc_resolve(f.t, b, 0x1234, after.time_ns)), ABI_FRAME_RAW);
	info = info_of(&f, b, &after);
	assert_string_equal(info.executable, "/bin/true");
	assert_string_equal(info.comm, "true");
	assert_string_equal(info.thread_name, "t11");
	assert_int_equal(info.ppid, 10);
	assert_true(info.exited);
	/* Its labels are its parent's. */
	assert_string_equal(info.systemd_unit, "ssh.service");
	assert_string_equal(info.cgroup, "/system.slice/ssh.service");
	teardown(&f);
}

static void test_recycled_pid(void **state)
{
	struct abi_record r1 = record(20, 1000, 1, 1500), r2 = record(20, 2000, 1, 2500),
			  r3 = record(20, 3000, 1, 3500);
	struct process *p1, *p2, *p3;
	struct proc_stats stats;
	struct binary_info bi;
	struct fixture f;
	uint32_t t1, t2;

	(void)state;
	setup(&f);
	forked(&f, 1, 20, 1000);
	mapped(&f, 20, 0x1000, 0x1000, 0, "/bin/first", 1001);
	exited(&f, 20, 1900);
	forked(&f, 1, 20, 2000);
	mapped(&f, 20, 0x1000, 0x1000, 0, "/bin/second", 2001);
	/* Handed on late, after the pid was given anew. */
	p1 = process_of(&f, &r1);
	p2 = process_of(&f, &r2);
	assert_ptr_not_equal(p1, p2);
	assert_string_equal(
		path_of(&f, proc_resolve(f.t, p1, 0x1800, r1.time_ns), &bi), "/bin/first");
	assert_string_equal(
		path_of(&f, proc_resolve(f.t, p2, 0x1800, r2.time_ns), &bi), "/bin/second");
	t1 = proc_task_of_record(f.t, p1, &r1);
	t2 = proc_task_of_record(f.t, p2, &r2);
	assert_int_not_equal(t1, t2);
	/* A third of which no side-band record told. */
	p3 = process_of(&f, &r3);
	assert_ptr_not_equal(p3, p2);
	assert_int_equal(ABI_FRAME_KIND(proc_resolve(f.t, p3, 0x1800, r3.time_ns)), ABI_FRAME_RAW);
	/* Equal addresses of the two never meet. */
	assert_true(
		proc_resolve(f.t, p3, 0x10, r3.time_ns) != proc_resolve(f.t, p2, 0x10, r2.time_ns));
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.recycled, 2);
	teardown(&f);
}

static void test_mapping_times(void **state)
{
	struct abi_record r = record(30, 1000, 1, 1500);
	struct binary_info bi;
	struct process *p;
	struct fixture f;

	(void)state;
	setup(&f);
	forked(&f, 1, 30, 1000);
	mapped(&f, 30, 0x1000, 0x4000, 0, "/lib/old", 1001);
	p = process_of(&f, &r);
	assert_string_equal(path_of(&f, proc_resolve(f.t, p, 0x2800, r.time_ns), &bi), "/lib/old");
	/* dlclose and dlopen: the middle now is another file. */
	mapped(&f, 30, 0x2000, 0x1000, 0x7000, "/lib/new", 2000);
	assert_string_equal(path_of(&f, proc_resolve(f.t, p, 0x1800, 2100 * MS), &bi), "/lib/old");
	assert_string_equal(path_of(&f, proc_resolve(f.t, p, 0x2800, 2100 * MS), &bi), "/lib/new");
	assert_int_equal(ABI_NATIVE_OFF(proc_resolve(f.t, p, 0x2800, 2100 * MS)), 0x7800);
	assert_string_equal(path_of(&f, proc_resolve(f.t, p, 0x3800, 2100 * MS), &bi), "/lib/old");
	assert_int_equal(ABI_NATIVE_OFF(proc_resolve(f.t, p, 0x3800, 2100 * MS)), 0x2800);
	/* A sample from before is not put into the new file. */
	assert_int_equal(ABI_FRAME_KIND(proc_resolve(f.t, p, 0x2800, 1900 * MS)), ABI_FRAME_RAW);
	/* Data is no code. */
	sideband(&f, (struct sideband) {.kind = SIDEBAND_MMAP,
			     .time_ns = 2200 * MS,
			     .pid = 30,
			     .addr = 0x9000,
			     .len = 0x1000,
			     .prot = PROT_READ,
			     .path = "/lib/data"});
	assert_int_equal(ABI_FRAME_KIND(proc_resolve(f.t, p, 0x9800, 2300 * MS)), ABI_FRAME_RAW);
	mapped(&f, 30, 0x9000, 0x1000, 0, "//anon", 2400);
	assert_int_equal(ABI_FRAME_KIND(proc_resolve(f.t, p, 0x9800, 2500 * MS)), ABI_FRAME_JIT);
	teardown(&f);
}

static void test_fork_shares_until_changed(void **state)
{
	struct abi_record rp = record(40, 1000, 1, 1500), rc = record(41, 1100, 1, 1500);
	struct process *parent, *child;
	struct binary_info bi;
	struct fixture f;

	(void)state;
	setup(&f);
	forked(&f, 1, 40, 1000);
	mapped(&f, 40, 0x1000, 0x1000, 0, "/bin/a", 1001);
	forked(&f, 40, 41, 1100);
	mapped(&f, 41, 0x5000, 0x1000, 0, "/lib/child", 1200);
	mapped(&f, 40, 0x1000, 0x1000, 0, "/bin/b", 1300);
	parent = process_of(&f, &rp);
	child = process_of(&f, &rc);
	assert_string_equal(
		path_of(&f, proc_resolve(f.t, parent, 0x1800, rp.time_ns), &bi), "/bin/b");
	assert_string_equal(
		path_of(&f, proc_resolve(f.t, child, 0x1800, rc.time_ns), &bi), "/bin/a");
	assert_string_equal(
		path_of(&f, proc_resolve(f.t, child, 0x5800, rc.time_ns), &bi), "/lib/child");
	assert_string_equal(path_of(&f, proc_resolve(f.t, parent, 0x5800, rp.time_ns), &bi), "");
	teardown(&f);
}

/* The first thread ends, others live on; the table must take the process back. */
static void test_leader_exits_first(void **state)
{
	struct abi_record r = record(50, 1000, 1, 1500);
	struct proc_stats stats;
	struct process *p;
	struct fixture f;

	(void)state;
	setup(&f);
	forked(&f, 1, 50, 1000);
	p = process_of(&f, &r);
	exited(&f, 50, 1600);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.tracked, 0);
	r.time_ns = 1700 * MS;
	r.tid = 51;
	assert_ptr_equal(process_of(&f, &r), p);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.tracked, 1);
	/* An end long after is one again. */
	exited(&f, 50, 5000);
	proc_table_expire(f.t, 9000 * MS);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.tracked, 0);
	teardown(&f);
}

static void test_expire(void **state)
{
	struct abi_record r = record(60, 1000, 1, 1100);
	struct proc_task_info info;
	struct proc_stats stats;
	uint64_t none[16] = {0};
	struct fixture f;
	uint32_t task;

	(void)state;
	setup(&f);
	for (uint32_t i = 0; i < 100; i++) {
		forked(&f, 1, 60 + i, 1000);
		mapped(&f, 60 + i, 0x1000, 0x1000, 0, "/bin/x", 1001);
		exited(&f, 60 + i, 1200 + i);
	}
	task = proc_task_of_record(f.t, process_of(&f, &r), &r);
	proc_table_expire(f.t, 1300 * MS);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.mappings, 100);
	proc_table_expire(f.t, 3250 * MS); /* 51 of them are two seconds past their end */
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.mappings, 50);
	proc_table_expire(f.t, 9000 * MS);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.mappings, 0);
	/* The one with a task keeps its labels until no sample has it. */
	proc_task_info(f.t, task, &info);
	assert_int_equal(info.pid, 60);
	assert_string_equal(info.executable, "/bin/x");
	proc_tasks_retain(f.t, none);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.tasks, 1);
	/* Its place is taken by the next. */
	r = record(61, 8000, 1, 9100);
	assert_int_equal(proc_task_of_record(f.t, process_of(&f, &r), &r), task);
	teardown(&f);
}

static void test_descendants(void **state)
{
	struct abi_record r = record(73, 1300, 1, 1500);
	struct fixture f;
	uint32_t task;

	(void)state;
	setup(&f);
	forked(&f, 1, 71, 1100);
	forked(&f, 71, 72, 1200);
	forked(&f, 72, 73, 1300);
	execed(&f, 73, "grandchild", 1310);
	exited(&f, 72, 1400);
	r.exec_id = 2;
	task = proc_task_of_record(f.t, process_of(&f, &r), &r);
	proc_table_expire(f.t, 60000 * MS);
	assert_true(proc_is_descendant(f.t, task, 73));
	assert_true(proc_is_descendant(f.t, task, 72));
	assert_true(proc_is_descendant(f.t, task, 71));
	assert_false(proc_is_descendant(f.t, task, 74));
	assert_false(proc_is_descendant(f.t, 999, 71));
	teardown(&f);
}

static void test_scan_and_lost(void **state)
{
	static const char maps[] =
		"400000-401000 r--p 00000000 08:01 11   /bin/x\n"
		"401000-402000 r-xp 00001000 08:01 11                         /bin/x with space\n"
		"7f00000000-7f00001000 r-xp 00000000 00:00 0 \n"
		"7ffc0000-7ffc1000 r-xp 00000000 00:00 0                          [vdso]\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  "
		"[vsyscall]\n";
	struct abi_record r = record(80, 10, 1, 3000), r2;
	struct proc_task_info info;
	struct proc_stats stats;
	struct binary_info bi;
	struct process *p;
	struct fixture f;

	(void)state;
	setup(&f);
	write_process(&f, 80, 1, "a) (b", 100, "4:memory:/docker/x\n0::/\n");
	write_process(&f, 81, 80, "kid", 200, "0::/\n");
	f.keeper.refuse = false;
	f.keeper.maps_text = maps;
	settle(&f);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.tracked, 2);
	assert_int_equal(stats.mappings, 8);
	r.start_ns = 0;
	p = process_of(&f, &r);
	assert_string_equal(
		path_of(&f, proc_resolve(f.t, p, 0x401010, r.time_ns), &bi), "/bin/x with space");
	assert_string_equal(
		path_of(&f, proc_resolve(f.t, p, 0x7ffc0010, r.time_ns), &bi), "[vdso]");
	assert_int_equal(
		ABI_FRAME_KIND(proc_resolve(f.t, p, 0x7f00000800, r.time_ns)), ABI_FRAME_JIT);
	info = info_of(&f, p, &r);
	assert_string_equal(info.cmdline, "prog --flag x");
	assert_int_equal(info.ns_pid, 7);
	assert_string_equal(info.cgroup, "/docker/x");
	assert_string_equal(info.executable, "/bin/x with space");

	/* Records were lost; meanwhile 81 ended and 80 is another process. */
	sideband(&f, (struct sideband) {.kind = SIDEBAND_LOST, .time_ns = 4000 * MS, .lost = 3});
	_cleanup_free_ char *gone = xasprintf("%s/81", f.procfs);
	assert_int_equal(fs_remove_all(&fs_system, gone), 0);
	write_process(&f, 80, 1, "other", 777, "0::/new\n");
	clock_virtual_advance(&f.clock, 5 * NS_PER_S);
	settle(&f);
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.sideband_lost, 3);
	assert_int_equal(stats.tracked, 1);
	r2 = record(80, 3900, 1, 6000);
	assert_ptr_not_equal(process_of(&f, &r2), p);
	assert_string_equal(info_of(&f, process_of(&f, &r2), &r2).cgroup, "/new");
	teardown(&f);
}

/* By the options that the emulator was started with. */
static void test_frame_pointers_of_beam(void **state)
{
	static const char maps[] =
		"00400000-00500000 r-xp 00000000 08:01 5 /x/erts-13.1.5/beam.smp\n";
#if defined(__x86_64__)
	const uint32_t kept = PROCESS_JIT_CHAIN;
#else
	const uint32_t kept = PROCESS_JIT_NO_FP;
#endif
	const struct {
		const char *cmdline;
		uint32_t want;
	} cases[] = {
		{"/x/erts-13.1.5/beam.smp -- -root /x", PROCESS_JIT_NO_FP},
		{"/x/erts-13.1.5/beam.smp -JPperf true -- -root /x", kept},
		{"/x/erts-13.1.5/beam.smp -JPperftrue -- -root /x", kept},
		{"/x/erts-13.1.5/beam.smp -JPperf true -JPperf false --", PROCESS_JIT_NO_FP},
		{"/x/erts-12.3/beam.smp -JPperf true -- -root /x", PROCESS_JIT_NO_FP},
		{"/x/erts-14.2/beam.smp -JPperf dump -- -root /x", PROCESS_JIT_NO_FP},
		{"/x/erts-14.2/beam.smp -JPperf dump -JPperf map --", kept},
		{"/x/erts-14.2/beam.smp -JPperf map -JPperf no_fp --", PROCESS_JIT_NO_FP},
		{"/x/erts-14.2/beam.smp -JPperf fp -JPperfdirectory /map --", kept},
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		struct abi_record r = record(80, 1000, 1, 3000);
		struct fixture f;

		setup(&f);
		write_process(&f, 80, 1, "beam.smp", 100, "0::/\n");
		write_proc(&f, 80, "cmdline", cases[c].cmdline, strlen(cases[c].cmdline) + 1);
		f.keeper.refuse = false;
		f.keeper.maps_text = maps;
		settle(&f);
		r.start_ns = 0;
		if (proc_flags(process_of(&f, &r)) != cases[c].want)
			fail_msg("%s", cases[c].cmdline);
		teardown(&f);
	}
}

static void test_kernel_threads(void **state)
{
	static const struct {
		const char *comm, *want;
	} cases[] = {{"kworker/1:2", "kworker"}, {"ksoftirqd/0", "ksoftirqd"},
		{"kswapd0", "kswapd0"}, {"/x", "/x"}};
	struct fixture f;

	(void)state;
	setup(&f);
	for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct abi_record r = record(100 + i, 1000, 0, 1500);
		struct proc_task_info info;

		r.flags = ABI_FLAG_KTHREAD;
		snprintf(r.leader_comm, sizeof(r.leader_comm), "%s", cases[i].comm);
		snprintf(r.comm, sizeof(r.comm), "%s", cases[i].comm);
		info = info_of(&f, process_of(&f, &r), &r);
		assert_string_equal(info.comm, cases[i].want);
		assert_string_equal(info.thread_name, cases[i].comm);
		assert_true(info.kernel_thread);
	}
	assert_int_equal(f.keeper.n_maps, 0);
	teardown(&f);
}

static void test_caps(void **state)
{
	struct proc_stats stats;
	struct fixture f;

	(void)state;
	setup_caps(&f, 10, 8);
	for (uint32_t i = 0; i < 20; i++) {
		struct abi_record r = record(200 + i, 1000, 1, 1500);
		struct process *p = process_of(&f, &r);

		for (uint32_t tid = 0; tid < 3; tid++) {
			r.tid = 1000 + tid;
			info_of(&f, p, &r);
			proc_resolve(f.t, p, 0x10 + tid, r.time_ns);
		}
	}
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.tracked, 10);
	assert_int_equal(stats.table_full, 10);
	assert_true(stats.tasks_full > 0);
	assert_true(proc_n_tasks(f.t) <= 10);
	assert_int_equal(stats.addresses, 30);
	assert_int_equal(stats.addresses_full, 30);
	/* The shared process has the shared address. */
	assert_null(proc_interned_address(f.t, 0).process);
	teardown(&f);
}

static void test_addresses_are_given_back(void **state)
{
	struct abi_record r = record(300, 1000, 1, 1500);
	uint64_t keep[2] = {0}, a, b;
	struct process *p;
	struct fixture f;

	(void)state;
	setup(&f);
	p = process_of(&f, &r);
	a = proc_resolve(f.t, p, 0x10, r.time_ns);
	b = proc_resolve(f.t, p, 0x20, r.time_ns);
	assert_int_equal(proc_n_addresses(f.t), 3);
	keep[0] = 1ULL << ABI_FRAME_VALUE(b);
	proc_addresses_retain(f.t, keep);
	assert_int_equal(proc_interned_address(f.t, ABI_FRAME_VALUE(b)).addr, 0x20);
	assert_true(proc_resolve(f.t, p, 0x30, r.time_ns) == a); /* the place of the first */
	assert_true(proc_resolve(f.t, p, 0x20, r.time_ns) == b);
	teardown(&f);
}

static void test_binaries_are_marked(void **state)
{
	struct abi_record r = record(310, 1000, 1, 1500);
	uint64_t bits[4] = {0};
	struct binary_info bi;
	struct process *p;
	struct fixture f;
	uint64_t frame;

	(void)state;
	setup(&f);
	forked(&f, 1, 310, 1000);
	mapped(&f, 310, 0x9000, 0x1000, 0, "/bin/program", 1001);
	mapped(&f, 310, 0x1000, 0x1000, 0, "/lib/one", 1001);
	mapped(&f, 310, 0x1000, 0x1000, 0, "/lib/two", 1002);
	p = process_of(&f, &r);
	frame = proc_resolve(f.t, p, 0x1800, r.time_ns);
	proc_table_mark_binaries(f.t, bits, 256);
	/* The program, whose labels are its process's, and the mapping that is left; a want that waits is kept by the registry
	 * itself. Bit 0 is no binary. */
	assert_int_equal(bits[0] & ~1ULL, 1ULL << 1 | 1ULL << ABI_NATIVE_BINARY(frame));
	binary_retain(f.registry, bits, 256);
	binary_info(f.registry, 2, &bi);
	assert_string_equal(bi.path, "/lib/one"); /* a response may be at work with it */
	clock_virtual_advance(&f.clock, 61 * NS_PER_S);
	binary_retain(f.registry, bits, 256);
	assert_string_equal(path_of(&f, frame, &bi), "/lib/two");
	binary_info(f.registry, 2, &bi);
	assert_string_equal(bi.path, "");
	teardown(&f);
}

/* A walk through code without frame pointers took a stack address for a return address: the
 * stack ends there. */
static void test_record_is_cut_at_no_code(void **state)
{
	enum { N_KERNEL = 2, N_USER = 5 };
	uint64_t raw[sizeof(struct abi_record) / 8 + N_KERNEL + N_USER];
	uint64_t *frames = raw + sizeof(struct abi_record) / 8;
	struct abi_record *r = (struct abi_record *)raw;
	struct record_buffer words;
	struct proc_stats stats;
	struct fixture f;

	(void)state;
	setup(&f);
	*r = record(320, 1000, 1, 1500);
	forked(&f, 1, 320, 1000);
	mapped(&f, 320, 0x1000, 0x1000, 0, "/bin/one", 1001);
	mapped(&f, 320, 0x3000, 0x1000, 0, "//anon", 1002);
	r->n_kernel = N_KERNEL;
	r->n_user = N_USER;
	frames[0] = ABI_FRAME(ABI_FRAME_KERNEL, 0x100);
	frames[1] = ABI_FRAME(ABI_FRAME_KERNEL, 0x200);
	frames[2] = ABI_FRAME(ABI_FRAME_RAW, 0x9999); /* the leaf stays, wherever it is */
	frames[3] = ABI_FRAME(ABI_FRAME_RAW, 0x1800);
	frames[4] = ABI_FRAME(ABI_FRAME_RAW, 0x3100);
	frames[5] = ABI_FRAME(ABI_FRAME_RAW, 0x7ffc5b77e4bf);
	frames[6] = ABI_FRAME(ABI_FRAME_RAW, 0x1900);
	assert_int_equal(record_frames(r, f.t, process_of(&f, r), &words), 6);
	assert_true(words.words[0] == ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_BAD_PC));
	assert_int_equal(ABI_FRAME_KIND(words.words[1]), ABI_FRAME_JIT);
	assert_int_equal(ABI_FRAME_KIND(words.words[2]), ABI_FRAME_NATIVE);
	assert_int_equal(ABI_NATIVE_OFF(words.words[2]), 0x7ff);
	assert_int_equal(ABI_FRAME_KIND(words.words[3]), ABI_FRAME_RAW);
	assert_true(words.words[4] == ABI_FRAME(ABI_FRAME_KERNEL, 0x1ff));
	assert_true(words.words[5] == ABI_FRAME(ABI_FRAME_KERNEL, 0x100));
	proc_table_stats(f.t, &stats);
	assert_int_equal(stats.unmapped_returns, 1);
	assert_int_equal(stats.addresses, 2); /* what was cut is not remembered */

	/* A whole stack, in a system call: the first frame is a return address too. */
	r->flags = ABI_FLAG_FIRST_IS_RETURN;
	frames[2] = ABI_FRAME(ABI_FRAME_RAW, 0x1010);
	frames[5] = ABI_FRAME(ABI_FRAME_RAW, 0x1020);
	assert_int_equal(record_frames(r, f.t, process_of(&f, r), &words), 7);
	assert_int_equal(ABI_NATIVE_OFF(words.words[0]), 0x8ff);
	assert_int_equal(ABI_NATIVE_OFF(words.words[4]), 0x00f);
	teardown(&f);
}

/* Mapping arrays against a model of 256 pages. */
static void test_maps_model(void **state)
{
	enum { PAGES = 256 };
	uint32_t owner[PAGES] = {0}, seed = 1;
	uint64_t offset[PAGES] = {0};
	struct maps *m = NULL, *shared = NULL;

	(void)state;
	for (uint32_t step = 1; step < 5000; step++) {
		uint32_t first, n;

		seed = seed * 1103515245 + 12345;
		first = (seed >> 8) % PAGES;
		n = 1 + (seed >> 20) % 40;
		n = MIN(n, PAGES - first);
		if (step % 50 == 0) {
			maps_put(&shared);
			shared = maps_ref(m);
		}
		assert_int_equal(maps_add(&m, &(struct mapping) {.start = first * 4096,
						      .end = (first + n) * 4096,
						      .file_off = step * 0x100000,
						      .binary = step}),
			0);
		for (uint32_t i = 0; i < n; i++) {
			owner[first + i] = step;
			offset[first + i] = step * 0x100000 + i * 4096;
		}
		for (uint32_t i = 0; i < PAGES; i++) {
			const struct mapping *found = maps_find(m, i * 4096ULL + 5);

			assert_int_equal(found ? found->binary : 0, owner[i]);
			if (found)
				assert_true(
					i * 4096ULL - found->start + found->file_off == offset[i]);
		}
	}
	maps_put(&shared);
	maps_put(&m);
}

static void test_bad_map_lines(void **state)
{
	static const char *const bad[] = {"", "x", "1000", "1000-2000", "1000-2000 r-x",
		"2000-1000 r-xp 0 8:1 1 /x", "g000-2000 r-xp 0 8:1 1 /x", "1000-2000 r-xp 0 8 1 /x",
		"10000000000000000-2 r-xp 0 8:1 1 /x",
		"1000-2000 r-xp 0 8:1 99999999999999999999999 /x", "1000-2000 r-xp 0 8:1"};
	struct maps_line line;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_free_ char *text = xstrdup(bad[i]);

		if (maps_parse_line(text, &line))
			fail_msg("taken: '%s'", bad[i]);
	}
	_cleanup_free_ char *good = xstrdup("1000-2000 r-xp 00000a00 fd:01 123 ");

	assert_true(maps_parse_line(good, &line));
	assert_true(line.start == 0x1000 && line.end == 0x2000 && line.file_off == 0xa00 &&
		    line.dev_major == 0xfd && line.ino == 123);
	assert_string_equal(line.path, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_process),
		cmocka_unit_test(test_recycled_pid),
		cmocka_unit_test(test_mapping_times),
		cmocka_unit_test(test_fork_shares_until_changed),
		cmocka_unit_test(test_leader_exits_first),
		cmocka_unit_test(test_expire),
		cmocka_unit_test(test_descendants),
		cmocka_unit_test(test_scan_and_lost),
		cmocka_unit_test(test_frame_pointers_of_beam),
		cmocka_unit_test(test_kernel_threads),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_addresses_are_given_back),
		cmocka_unit_test(test_binaries_are_marked),
		cmocka_unit_test(test_record_is_cut_at_no_code),
		cmocka_unit_test(test_maps_model),
		cmocka_unit_test(test_bad_map_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
