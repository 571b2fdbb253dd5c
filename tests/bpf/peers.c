/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the programs of a BPF object (tests/bench/peers.bpf.c) on the CPU clock of every CPU and prints what a run of each took:
 * what our own is measured beside. Needs kernel.bpf_stats_enabled=1.
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

int main(int argc, char **argv)
{
	struct bpf_object *o = argc > 3 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct bpf_program *p;

	if (!o || bpf_object__load(o))
		return 1;
	bpf_object__for_each_program(p, o)
	{
		for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
			if (attach(bpf_program__fd(p), cpu, (unsigned)strtoul(argv[2], NULL, 10)) <
				0)
				return 1;
	}
	sleep((unsigned)strtoul(argv[3], NULL, 10));
	bpf_object__for_each_program(p, o)
	{
		struct bpf_prog_info info = {0};
		__u32 len = sizeof(info);

		if (bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &len))
			return 1;
		printf("%s %.1f\n", bpf_program__name(p),
			info.run_cnt ? (double)info.run_time_ns / (double)info.run_cnt : 0);
	}
	return 0;
}
