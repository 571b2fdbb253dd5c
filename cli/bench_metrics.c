/* SPDX-License-Identifier: Apache-2.0
 *
 * Time and resources of whole runs, as the kernel counted them.
 */
#include "cli/bench.h"
#include "lib/render/render.h"
#include "lib/stats/rank.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const struct {
	const char *name, *unit;
	double scale; /* to what render_value takes */
} metrics[BENCH_N_METRICS] = {
	[BENCH_WALL] = {"wall_time", "nanoseconds", 1e9},
	[BENCH_USER] = {"user_cpu", "nanoseconds", 1e9},
	[BENCH_SYSTEM] = {"system_cpu", "nanoseconds", 1e9},
	[BENCH_RSS] = {"max_rss", "bytes", 1},
	[BENCH_MINOR_FAULTS] = {"minor_faults", "count", 1},
	[BENCH_MAJOR_FAULTS] = {"major_faults", "count", 1},
	[BENCH_READS] = {"block_reads", "count", 1},
	[BENCH_WRITES] = {"block_writes", "count", 1},
	[BENCH_VOLUNTARY_SWITCHES] = {"voluntary_switches", "count", 1},
	[BENCH_INVOLUNTARY_SWITCHES] = {"involuntary_switches", "count", 1},
	[BENCH_PROGRESS] = {"progress", "count", 1},
};

bool bench_has_progress(const struct bench_result *results, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (results[i].metrics[BENCH_PROGRESS] > 0)
			return true;
	return false;
}

static int count_metrics(const struct bench_result *results, size_t n)
{
	return bench_has_progress(results, n) ? BENCH_N_METRICS : BENCH_PROGRESS;
}

static void put_median(const struct rank_median *m, int metric, struct bytes *out)
{
	char text[64];

	render_value(llround(m->median * metrics[metric].scale), metrics[metric].unit, text);
	bytes_printf(out, " %12s", text);
}

static int put_metric(
	const struct bench_result *results, size_t n_a, size_t n_b, int metric, struct bytes *out)
{
	_cleanup_free_ double *v = calloc(n_a + n_b + 1, sizeof(*v));
	struct rank_median a, b;
	double p = 1;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n_a + n_b; i++)
		v[i] = results[i].metrics[metric];
	if (rank_median(v, n_a, 0.95, &a) || rank_median(v + n_a, n_b, 0.95, &b) ||
		rank_mann_whitney(v, n_a, v + n_a, n_b, &p))
		return -ENOMEM;
	bytes_printf(out, "%-20s", metrics[metric].name);
	put_median(&a, metric, out);
	put_median(&b, metric, out);
	if (a.median > 0 && p <= 0.05)
		bytes_printf(out, " %+9.1f %%", 100 * (b.median / a.median - 1));
	else
		bytes_printf(out, " %11s", "~");
	bytes_printf(out, "  %.3f\n", p);
	return bytes_error(out);
}

int bench_metrics_table(const struct bench_result *results, size_t n_a, size_t n_b,
	const char *label_a, const char *label_b, struct bytes *out)
{
	int r = 0, n = count_metrics(results, n_a + n_b);

	bytes_printf(out, "%-20s %12.12s %12.12s %11s  p (Mann-Whitney, n = %zu + %zu)\n", "median",
		label_a, label_b, "change", n_a, n_b);
	for (int m = 0; !r && m < n; m++)
		r = put_metric(results, n_a, n_b, m, out);
	return r;
}

void bench_metrics_charts(const struct bench_result *results, size_t n_a, size_t n_b,
	double *values, struct render_metric ret[BENCH_N_METRICS])
{
	for (int m = 0; m < BENCH_N_METRICS; m++) {
		double *v = values + (size_t)m * (n_a + n_b);

		for (size_t i = 0; i < n_a + n_b; i++)
			v[i] = results[i].metrics[m] * metrics[m].scale;
		ret[m] = (struct render_metric) {.name = metrics[m].name,
			.unit = metrics[m].unit,
			.a = v,
			.b = v + n_a,
			.n_a = n_a,
			.n_b = n_b};
	}
}

void bench_metrics_csv(const struct bench_result *results, size_t n_a, size_t n,
	const char *const labels[2], struct bytes *out)
{
	int n_metrics = count_metrics(results, n);

	bytes_put_str(out, "side,run");
	for (int m = 0; m < n_metrics; m++)
		bytes_printf(out, ",%s", metrics[m].name);
	bytes_put_str(out, "\r\n");
	for (size_t i = 0; i < n; i++) {
		render_csv_field(out, labels[i >= n_a]);
		bytes_printf(out, ",%zu", (i < n_a ? i : i - n_a) + 1);
		for (int m = 0; m < n_metrics; m++)
			bytes_printf(out, ",%.9g", results[i].metrics[m]);
		bytes_put_str(out, "\r\n");
	}
}

static void put_number(struct bytes *out, double v)
{
	if (isnan(v))
		bytes_put_u8(out, ',');
	else
		bytes_printf(out, ",%.9g", v);
}

void bench_series_csv(const struct bench_result *results, size_t n_a, size_t n,
	const char *const labels[2], struct bytes *out)
{
	bytes_put_str(out, "side,run,seconds,progress");
	for (int m = 0; m < BENCH_SERIES_N; m++)
		bytes_printf(out, ",%s%s", bench_series_name(m),
			m == BENCH_SERIES_RSS || m == BENCH_SERIES_CPU ? "" : "_per_second");
	bytes_put_str(out, "\r\n");
	for (size_t i = 0; i < n; i++) {
		const struct bench_series *s = &results[i].series;

		for (size_t k = 0; k < s->n; k++) {
			render_csv_field(out, labels[i >= n_a]);
			bytes_printf(out, ",%zu,%.3f", (i < n_a ? i : i - n_a) + 1, s->seconds[k]);
			put_number(out, s->progress[k]);
			for (int m = 0; m < BENCH_SERIES_N; m++)
				put_number(out, s->values[m][k]);
			bytes_put_str(out, "\r\n");
		}
	}
}
