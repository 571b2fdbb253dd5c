/* SPDX-License-Identifier: Apache-2.0
 *
 * The resources of a run over its time: CPU, memory, faults, I/O and switches of a process and its descendants, and the progress in its
 * output.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/regex.h"
#include "lib/render/render.h"
#include <sys/types.h>

/* Beside memory all are per second, over the time since the point before. */
enum bench_series_metric {
	BENCH_SERIES_CPU,
	BENCH_SERIES_RSS,
	BENCH_SERIES_MINOR_FAULTS,
	BENCH_SERIES_MAJOR_FAULTS,
	BENCH_SERIES_READ,
	BENCH_SERIES_WRITTEN,
	BENCH_SERIES_SWITCHES,
	BENCH_SERIES_N,
};

struct bench_series {
	double *seconds;		/* since the run's begin */
	double *progress;		/* the last one in the output; NAN before */
	double *values[BENCH_SERIES_N]; /* NAN: not known */
	size_t n, cap;
};
void bench_series_done(struct bench_series *s);

/* One that is being measured. */
struct bench_probe {
	pid_t pid;
	int counters[BENCH_SERIES_N]; /* of the kernel; -1: none */
	bool is_open;
	double last[BENCH_SERIES_N], last_s;
	const struct regex *progress; /* or NULL */
	struct bytes line;	      /* of the output, unfinished */
	double said;		      /* NAN: nothing yet */
};
#define BENCH_PROBE_NONE ((struct bench_probe) {})
/* Of a command that is held: its counters follow all that comes of it. What the kernel refuses stays unknown. */
void bench_probe_begin(struct bench_probe *p, pid_t pid, const struct regex *progress);
void bench_probe_done(struct bench_probe *p);
/* A point at so many seconds of the run. `ended`: the process is gone, and only counters have values. -ENOMEM. */
int bench_probe_take(struct bench_probe *p, double seconds, bool ended, struct bench_series *to,
	struct errbuf *eb) _must_check_;
/* Output of the command: the first group of the expression, or all that it matches, is a number. */
void bench_probe_output(struct bench_probe *p, const char *text, size_t n);

const char *bench_series_name(int metric);
const char *bench_series_unit(int metric);
