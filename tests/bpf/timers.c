/* SPDX-License-Identifier: Apache-2.0
 *
 * Time spent in the callbacks of one kind of kernel timer, on all CPUs: by tests/bench/timers.bpf.c.
 *
 * usage: timers OBJECT FUNCTION SECONDS     (FUNCTION: its name in /proc/kallsyms); prints runs, and the nanoseconds of one
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct timer_row {
	__u64 began_ns, ns, runs;
};

static unsigned long address_of(const char *name)
{
	unsigned long addr, found = 0;
	char line[512], symbol[256];
	FILE *f = fopen("/proc/kallsyms", "r");

	while (f && !found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx %*c %255s", &addr, symbol) == 2 && !strcmp(symbol, name))
			found = addr;
	if (f)
		fclose(f);
	return found;
}

static int print_rows(struct bpf_object *o)
{
	int n = libbpf_num_possible_cpus();
	struct timer_row *rows = n > 0 ? calloc((size_t)n, sizeof(*rows)) : NULL, sum = {0};
	struct bpf_map *m = bpf_object__find_map_by_name(o, "timers");
	__u32 zero = 0;
	int r = -1;

	if (rows)
		r = bpf_map__lookup_elem(
			m, &zero, sizeof(zero), rows, (size_t)n * sizeof(*rows), 0);
	for (int i = 0; !r && i < n; i++) {
		sum.ns += rows[i].ns;
		sum.runs += rows[i].runs;
	}
	free(rows);
	if (!r)
		printf("%llu %.1f\n", sum.runs, sum.runs ? (double)sum.ns / (double)sum.runs : 0);
	return r;
}

static int failed(const char *what, const char *of)
{
	fprintf(stderr, "timers: %s: %s\n", of, what);
	return 1;
}

int main(int argc, char **argv)
{
	struct bpf_object *o;
	struct bpf_program *p;
	__u64 function;

	if (argc != 4) {
		fprintf(stderr, "usage: timers OBJECT FUNCTION SECONDS\n");
		return 2;
	}
	function = address_of(argv[2]);
	if (!function)
		return failed("no such function in /proc/kallsyms", argv[2]);
	o = bpf_object__open_file(argv[1], NULL);
	if (!o || bpf_map__set_initial_value(
			  bpf_object__find_map_by_name(o, ".rodata"), &function, sizeof(function)))
		return failed("cannot open", argv[1]);
	if (bpf_object__load(o))
		return failed("cannot load", argv[1]);
	bpf_object__for_each_program(p, o)
	{
		if (!bpf_program__attach(p))
			return failed("cannot attach", bpf_program__name(p));
	}
	sleep((unsigned)strtoul(argv[3], NULL, 10));
	return print_rows(o) ? failed("cannot read what was counted", argv[1]) : 0;
}
