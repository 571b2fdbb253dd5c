/* SPDX-License-Identifier: Apache-2.0
 *
 * A process table whose /proc is a directory that the test fills, side-band records and records for it.
 */
#pragma once
#include "exporter/proc/proc.h"
#include "exporter/walk/record.h"
#include "tests/unit/names_fixture.h"
#include "tests/unit/read_asked.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <cmocka.h>

#define MS NS_PER_MS

struct fixture {
	struct fake_keeper keeper;
	struct binary_registry *registry;
	struct proc_table *t;
	struct proc_reader_options reads;
	struct clock_virtual clock;
	char *procfs;
};

static inline void setup_caps(struct fixture *f, uint32_t max_processes, uint32_t max_tasks)
{
	*f = (struct fixture) {.procfs = temp_dir()};
	fake_keeper_init(&f->keeper);
	f->keeper.refuse = true;
	clock_virtual_init(&f->clock, 1000 * NS_PER_S);
	f->registry = binary_registry_new(&(struct binary_options) {.keeper = &f->keeper.keeper,
						  .fs = &fs_system,
						  .clock = &f->clock.clock,
						  .parser_fd = -1,
						  .cache_path = "",
						  .max_cpu = 1},
		NULL);
	f->t = proc_table_new(&(struct proc_options) {
		.max_processes = max_processes, .max_tasks = max_tasks, .binaries = f->registry});
	f->reads = (struct proc_reader_options) {.procfs = f->procfs,
		.keeper = &f->keeper.keeper,
		.binaries = f->registry,
		.clock = &f->clock.clock};
}

static inline void setup(struct fixture *f)
{
	setup_caps(f, 1000, 1000);
}

static inline void teardown(struct fixture *f)
{
	proc_table_freep(&f->t);
	binary_registry_freep(&f->registry);
	temp_dir_done(&f->procfs);
}

static inline void write_proc(
	const struct fixture *f, uint32_t pid, const char *name, const char *text, size_t n)
{
	_cleanup_free_ char *dir = xasprintf("%s/%u", f->procfs, pid),
			    *path = xasprintf("%s/%s", dir, name);

	mkdir(dir, 0755);
	assert_int_equal(fs_write_file(&fs_system, path, text, n, 0644, NULL), 0);
}

static inline void write_process(const struct fixture *f, uint32_t pid, uint32_t ppid,
	const char *comm, uint64_t start_ticks, const char *cgroup)
{
	_cleanup_free_ char *stat =
		xasprintf("%u (%s) S %u 1 1 0 -1 4194304 1 2 3 4 50 60 0 0 20 0 1 0 %llu 1 2", pid,
			comm, ppid, (unsigned long long)start_ticks);
	_cleanup_free_ char *status =
		xasprintf("Name:\t%s\nNSpid:\t%u\t7\nNStgid:\t1\n", comm, pid);

	write_proc(f, pid, "stat", stat, strlen(stat));
	write_proc(f, pid, "cgroup", cgroup, strlen(cgroup));
	write_proc(f, pid, "status", status, strlen(status));
	write_proc(f, pid, "cmdline", "prog\0--flag\0x\0", 14);
}

static inline void sideband(struct fixture *f, struct sideband e)
{
	if (!e.path)
		e.path = "";
	proc_table_sideband(f->t, &e);
}

static inline void forked(struct fixture *f, uint32_t ppid, uint32_t pid, uint64_t at_ms)
{
	sideband(f, (struct sideband) {.kind = SIDEBAND_FORK,
			    .time_ns = at_ms * MS,
			    .pid = pid,
			    .tid = pid,
			    .ppid = ppid,
			    .ptid = ppid});
}

static inline void execed(struct fixture *f, uint32_t pid, const char *comm, uint64_t at_ms)
{
	struct sideband e = {
		.kind = SIDEBAND_COMM, .time_ns = at_ms * MS, .pid = pid, .tid = pid, .exec = true};

	snprintf(e.comm, sizeof(e.comm), "%s", comm);
	sideband(f, e);
}

static inline void exited(struct fixture *f, uint32_t pid, uint64_t at_ms)
{
	sideband(f, (struct sideband) {
			    .kind = SIDEBAND_EXIT, .time_ns = at_ms * MS, .pid = pid, .tid = pid});
}

static inline void mapped(struct fixture *f, uint32_t pid, uint64_t addr, uint64_t len,
	uint64_t off, const char *path, uint64_t at_ms)
{
	sideband(f, (struct sideband) {.kind = SIDEBAND_MMAP,
			    .time_ns = at_ms * MS,
			    .pid = pid,
			    .tid = pid,
			    .addr = addr,
			    .len = len,
			    .pgoff = off,
			    .ino = 5,
			    .prot = PROT_READ | PROT_EXEC,
			    .path = path});
}

static inline struct abi_record record(
	uint32_t pid, uint64_t start_ms, uint32_t exec_id, uint64_t at_ms)
{
	struct abi_record r = {.type = ABI_RECORD_SAMPLE,
		.time_ns = at_ms * MS,
		.start_ns = start_ms * MS,
		.pid = pid,
		.tid = pid,
		.exec_id = exec_id};

	snprintf(r.comm, sizeof(r.comm), "t%u", pid);
	snprintf(r.leader_comm, sizeof(r.leader_comm), "p%u", pid);
	return r;
}

static inline void settle(struct fixture *f)
{
	read_asked(f->t, f->reads);
}

/* The process of a record, once what is asked about it was read. */
static inline struct process *process_of(struct fixture *f, const struct abi_record *r)
{
	return read_process(f->t, &f->reads, r);
}

static inline struct proc_task_info info_of(
	struct fixture *f, struct process *p, const struct abi_record *r)
{
	struct proc_task_info info;

	while (proc_table_awaits(f->t, p, r) == PROC_AWAITED)
		settle(f);
	proc_task_info(f->t, proc_task_of_record(f->t, p, r), &info);
	return info;
}
