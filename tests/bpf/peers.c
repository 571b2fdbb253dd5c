/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the perf_event programs of a BPF object (tests/bench/peers.bpf.c) on the CPU clock of every CPU and prints what a run of
 * each took: what our own is measured beside. Needs kernel.bpf_stats_enabled=1. With HZ 0 it only loads the object and prints
 * the CPU time of that, and how many instructions the verifier went through and the kernel keeps; SECONDS says with
 * what code for frames of language runtimes (enum abi_interp_walks).
 *
 * usage: peers OBJECT HZ SECONDS [PID NAME=ID …]     (PID: whose stacks are walked again and again, by the maps of a running
 * exporter, which are given by name and id)
 */
#include "bpf/abi.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int attach(int prog_fd, int cpu, unsigned hz)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000000ULL / hz,
		.disabled = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog_fd) ||
		ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		return -1;
	return fd;
}

static double cpu_ms(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e3 +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e3;
}

static struct bpf_prog_info info_of(const struct bpf_program *p)
{
	struct bpf_prog_info info = {0};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &len))
		exit(1);
	return info;
}

/* Row of the map `again` (tests/bench/peers.bpf.c). */
struct again_row {
	__u64 ns, walks, frames, pid;
};

static void configure(struct bpf_object *o, const struct abi_config *config)
{
	struct bpf_map *m = bpf_object__find_map_by_name(o, ".rodata.config");
	/* Each object that was linked has a copy there; all programs read the first. */
	size_t bytes = bpf_map__value_size(m);
	struct abi_config *all = calloc(1, bytes);

	if (!all)
		exit(1);
	*all = *config;
	if (bpf_map__set_initial_value(m, all, bytes))
		exit(1);
	free(all);
}

static void use_maps(struct bpf_object *o, char **args, int n)
{
	struct abi_config config = {.version = ABI_VERSION};

	for (int i = 0; i < n; i++) {
		char *id = strchr(args[i], '=');
		struct bpf_map *m;
		int fd;

		if (!id)
			continue;
		*id++ = 0;
		m = bpf_object__find_map_by_name(o, args[i]);
		fd = m ? bpf_map_get_fd_by_id((__u32)strtoul(id, NULL, 10)) : -1;
		if (fd < 0 || bpf_map__reuse_fd(m, fd))
			continue;
		if (!strcmp(args[i], "heads"))
			config.bucket_mask = bpf_map__max_entries(m) - 1;
		if (!strcmp(args[i], "known_files"))
			config.file_mask = bpf_map__max_entries(m) - 1;
	}
	configure(o, &config);
}

static void set_pid(struct bpf_object *o, const char *pid)
{
	struct again_row row = {.pid = strtoul(pid, NULL, 10)};

	if (bpf_map__update_elem(bpf_object__find_map_by_name(o, "again"), &(__u32) {0},
		    sizeof(__u32), &row, sizeof(row), BPF_ANY))
		exit(1);
}

static void print_again(struct bpf_object *o)
{
	static const char *const names[] = {"again_walk", "again_stackid", "again_stack"};

	for (__u32 i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct again_row row;

		if (bpf_map__lookup_elem(bpf_object__find_map_by_name(o, "again"), &i, sizeof(i),
			    &row, sizeof(row), 0))
			exit(1);
		printf("%s %.1f\n", names[i], row.walks ? (double)row.ns / (double)row.walks : 0);
		if (i == 0)
			printf("again_frames %.1f\n",
				row.walks ? (double)row.frames / (double)row.walks : 0);
	}
}

static void print_load(struct bpf_object *o, double ms)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o)
	{
		printf("%s %u verified\n", bpf_program__name(p), info_of(p).verified_insns);
		printf("%s %u bytes\n", bpf_program__name(p), info_of(p).xlated_prog_len);
	}
	printf("load %.1f ms\n", ms);
}

int main(int argc, char **argv)
{
	struct bpf_object *o = argc > 3 ? bpf_object__open_file(argv[1], NULL) : NULL;
	unsigned hz = argc > 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	uint32_t interp = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
	struct bpf_program *p;
	double began = cpu_ms();

	if (o && argc > 4)
		use_maps(o, argv + 5, argc - 5);
	if (o && !hz && interp)
		configure(o, &(struct abi_config) {.version = ABI_VERSION, .interp = interp});
	if (!o || bpf_object__load(o))
		return 1;
	if (argc > 4)
		set_pid(o, argv[4]);
	if (!hz) {
		print_load(o, cpu_ms() - began);
		bpf_object__close(o);
		return 0;
	}
	bpf_object__for_each_program(p, o)
	{
		for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
			if (attach(bpf_program__fd(p), cpu, hz) < 0)
				return 1;
	}
	sleep((unsigned)strtoul(argv[3], NULL, 10));
	bpf_object__for_each_program(p, o)
	{
		struct bpf_prog_info info = info_of(p);

		printf("%s %.1f\n", bpf_program__name(p),
			info.run_cnt ? (double)info.run_time_ns / (double)info.run_cnt : 0);
	}
	if (argc > 4)
		print_again(o);
	return 0;
}
