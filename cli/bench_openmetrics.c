/* SPDX-License-Identifier: Apache-2.0
 *
 * All that was measured of a benchmark beside its profiles, as OpenMetrics with timestamps, which `promtool tsdb create-blocks-from
 * openmetrics` takes: gauges with the labels side and run, of whole runs at their end and over their time.
 */
#include "cli/bench.h"
#include <math.h>

struct family {
	const char *name, *unit, *help; /* the name ends with the unit, where there is one */
};

static const struct family whole[BENCH_N_METRICS] = {
	[BENCH_WALL] = {"run_wall_time_seconds", "seconds", "How long the run took."},
	[BENCH_USER] = {"run_user_cpu_seconds", "seconds", "CPU time of the run's own code."},
	[BENCH_SYSTEM] = {"run_system_cpu_seconds", "seconds",
		"CPU time of the kernel for the run."},
	[BENCH_RSS] = {"run_max_rss_bytes", "bytes",
		"Resident memory of the run's largest process, at its most."},
	[BENCH_MINOR_FAULTS] = {"run_minor_faults", NULL, "Page faults without I/O."},
	[BENCH_MAJOR_FAULTS] = {"run_major_faults", NULL, "Page faults with I/O."},
	[BENCH_READS] = {"run_block_reads", NULL, "Reads that went to a device."},
	[BENCH_WRITES] = {"run_block_writes", NULL, "Writes that go to a device."},
	[BENCH_VOLUNTARY_SWITCHES] = {"run_voluntary_switches", NULL,
		"Context switches of what waited."},
	[BENCH_INVOLUNTARY_SWITCHES] = {"run_involuntary_switches", NULL,
		"Context switches of what would have gone on."},
	[BENCH_PROGRESS] = {"run_progress", NULL, "The last number of --progress."},
};

static const struct family over_time[BENCH_SERIES_N] = {
	[BENCH_SERIES_CPU] = {"cpu_cores", "cores", "CPUs in use since the point before."},
	[BENCH_SERIES_RSS] = {"rss_bytes", "bytes", "Resident memory of all processes."},
	[BENCH_SERIES_MINOR_FAULTS] = {"minor_faults_per_second", NULL, "Page faults without I/O."},
	[BENCH_SERIES_MAJOR_FAULTS] = {"major_faults_per_second", NULL, "Page faults with I/O."},
	[BENCH_SERIES_READ] = {"read_bytes_per_second", NULL, "Read from devices."},
	[BENCH_SERIES_WRITTEN] = {"written_bytes_per_second", NULL, "Written to devices."},
	[BENCH_SERIES_SWITCHES] = {"context_switches_per_second", NULL, "Context switches."},
};

static const struct family progress = {"progress", NULL, "The last number of --progress so far."};

/* What is written, and from what. */
struct writer {
	const struct bench_result *results;
	size_t n_a, n;
	const char *const *labels;
	struct bytes *out;
};

static void put_family(const struct writer *w, const struct family *f)
{
	bytes_printf(w->out, "# TYPE sonde_bench_%s gauge\n", f->name);
	if (f->unit)
		bytes_printf(w->out, "# UNIT sonde_bench_%s %s\n", f->name, f->unit);
	bytes_printf(w->out, "# HELP sonde_bench_%s %s\n", f->name, f->help);
}

static void put_label_value(struct bytes *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			bytes_put_u8(out, '\\');
		if (*text == '\n')
			bytes_put_str(out, "\\n");
		else
			bytes_put_u8(out, (uint8_t)*text);
	}
}

/* Milliseconds of a run's second. */
static int64_t time_of(const struct bench_result *r, double seconds)
{
	return r->begun_ms + llround(seconds * 1000);
}

static void put_point(
	const struct writer *w, const struct family *f, size_t i, double v, int64_t at_ms)
{
	bytes_printf(w->out, "sonde_bench_%s{side=\"", f->name);
	put_label_value(w->out, w->labels[i >= w->n_a]);
	bytes_printf(w->out, "\",run=\"%zu\"} %.9g %lld.%03d\n", (i < w->n_a ? i : i - w->n_a) + 1,
		v, (long long)at_ms / 1000, (int)(at_ms % 1000));
}

/* One column of each run's points. A time stands once: what comes within the same millisecond is left out. */
static void put_series(const struct writer *w, const struct family *f, int metric)
{
	put_family(w, f);
	for (size_t i = 0; i < w->n; i++) {
		const struct bench_result *r = &w->results[i];
		const double *v = metric < 0 ? r->series.progress : r->series.values[metric];
		int64_t last = INT64_MIN;

		for (size_t k = 0; k < r->series.n; k++) {
			int64_t at = time_of(r, r->series.seconds[k]);

			if (isnan(v[k]) || at <= last)
				continue;
			put_point(w, f, i, v[k], at);
			last = at;
		}
	}
}

void bench_openmetrics(const struct bench_result *results, size_t n_a, size_t n,
	const char *const labels[2], struct bytes *out)
{
	const struct writer w = {results, n_a, n, labels, out};
	bool has_progress = bench_has_progress(results, n);

	for (int m = 0; m < BENCH_N_METRICS; m++) {
		if (m == BENCH_PROGRESS && !has_progress)
			continue;
		put_family(&w, &whole[m]);
		for (size_t i = 0; i < n; i++)
			put_point(&w, &whole[m], i, results[i].metrics[m],
				time_of(&results[i], results[i].metrics[BENCH_WALL]));
	}
	for (int m = 0; m < BENCH_SERIES_N; m++)
		put_series(&w, &over_time[m], m);
	if (has_progress)
		put_series(&w, &progress, -1);
	bytes_put_str(out, "# EOF\n");
}
