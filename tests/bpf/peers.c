/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the perf_event programs of a BPF object (tests/bench/peers.bpf.c) on the CPU clock of every CPU and prints what a run of
 * each took: what our own is measured beside. Needs kernel.bpf_stats_enabled=1. With HZ 0 it only loads the object and prints
 * the CPU time of that, and how many instructions the verifier went through.
 *
 * usage: peers OBJECT HZ SECONDS
 */
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

static void print_load(struct bpf_object *o, double ms)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o)
		printf("%s %u verified\n", bpf_program__name(p), info_of(p).verified_insns);
	printf("load %.1f ms\n", ms);
}

int main(int argc, char **argv)
{
	struct bpf_object *o = argc > 3 ? bpf_object__open_file(argv[1], NULL) : NULL;
	unsigned hz = argc > 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	struct bpf_program *p;
	double began = cpu_ms();

	if (!o || bpf_object__load(o))
		return 1;
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
	return 0;
}
