/* SPDX-License-Identifier: Apache-2.0
 *
 * Means, filter, false discovery rate and verdicts: what all methods share.
 */
#include "lib/base/alloc.h"
#include "lib/stats/dist.h"
#include "lib/stats/stats_internal.h"
#include <errno.h>
#include <math.h>
#include <string.h>

const char *stats_method_name(enum stats_method m)
{
	static const char *const names[STATS_N_METHODS] = {"ql", "welch", "bootstrap", "none"};

	return names[m];
}

const char *stats_verdict_name(enum stats_verdict v)
{
	static const char *const names[STATS_N_VERDICTS] = {
		"untested", "few", "~", "+", "-", "new", "gone", "moved"};

	return names[v];
}

/* Standard error of a mean as far as sampling alone goes. */
static double sampling_error(double mean, const double *unit, size_t n)
{
	return sqrt(mean * stats_mean(unit, n) / (double)n);
}

static void begin_row(const struct stats_runs *runs, const double *v, struct stats_row *row)
{
	*row = (struct stats_row) {.mean_a = stats_mean(v, runs->n_a),
		.mean_b = stats_mean(v + runs->n_a, runs->n_b),
		.low = NAN,
		.high = NAN,
		.p = NAN,
		.q = NAN,
		.min_effect = NAN};
	row->ratio = row->mean_b / row->mean_a;
	row->se_a = sampling_error(row->mean_a, runs->unit, runs->n_a);
	row->se_b = sampling_error(row->mean_b, runs->unit + runs->n_a, runs->n_b);
}

static bool has_samples(
	const struct stats_runs *runs, const struct stats_row *row, double min_samples)
{
	return row->mean_a >= min_samples * stats_mean(runs->unit, runs->n_a) ||
	       row->mean_b >= min_samples * stats_mean(runs->unit + runs->n_a, runs->n_b);
}

/* The rows with enough samples for a test, and replicates to go by. */
static size_t choose_rows(const struct stats_runs *runs, const double *values, size_t n_rows,
	const struct stats_options *opt, struct stats_row *rows, uint32_t *index)
{
	bool replicates = runs->n_a >= STATS_MIN_RUNS && runs->n_b >= STATS_MIN_RUNS;
	struct stats_row scratch;
	size_t n = 0;

	for (size_t i = 0; i < n_rows; i++) {
		struct stats_row *row = rows ? &rows[i] : &scratch;

		begin_row(runs, values + i * (runs->n_a + runs->n_b), row);
		if (!has_samples(runs, row, opt->min_samples))
			row->verdict = STATS_FEW;
		else if (replicates && opt->method != STATS_NONE)
			index[n++] = (uint32_t)i;
	}
	return n;
}

int stats_fit(const struct stats_runs *runs, const double *values, size_t n_rows,
	const struct stats_options *opt, struct stats_model *ret)
{
	_cleanup_free_ uint32_t *index = try_realloc(NULL, n_rows + 1, sizeof(*index));
	struct stats_tested t = {.runs = runs, .values = values, .index = index, .opt = opt};

	*ret = (struct stats_model) {};
	if (!index)
		return -ENOMEM;
	t.n = choose_rows(runs, values, n_rows, opt, NULL, index);
	return stats_fit_rows(&t, ret);
}

int stats_test(const struct stats_runs *runs, const double *values, size_t n_rows,
	const struct stats_model *model, const struct stats_options *opt,
	struct stats_row *ret_rows)
{
	_cleanup_free_ uint32_t *index = try_realloc(NULL, n_rows + 1, sizeof(*index));
	struct stats_tested t = {.runs = runs,
		.values = values,
		.rows = ret_rows,
		.index = index,
		.model = model,
		.opt = opt};

	if (!index)
		return -ENOMEM;
	t.n = choose_rows(runs, values, n_rows, opt, ret_rows, index);
	switch (t.n ? opt->method : STATS_NONE) {
	case STATS_QL: stats_ql(&t); return 0;
	case STATS_WELCH: stats_welch(&t); return 0;
	case STATS_BOOTSTRAP: return stats_bootstrap(&t);
	default: return 0;
	}
}

static int compare_p(const void *a, const void *b)
{
	double x = (*(struct stats_row *const *)a)->p, y = (*(struct stats_row *const *)b)->p;

	return (x > y) - (x < y);
}

static enum stats_verdict verdict_of(const struct stats_row *row, const struct stats_options *opt)
{
	if (row->verdict == STATS_FEW)
		return STATS_FEW;
	if (isnan(row->p))
		return STATS_UNTESTED;
	if (row->q > opt->alpha || fabs(row->ratio - 1) < opt->min_effect)
		return STATS_SAME;
	if (row->mean_a <= 0)
		return STATS_NEW;
	if (row->mean_b <= 0)
		return STATS_GONE;
	return row->mean_b > row->mean_a ? STATS_MORE : STATS_LESS;
}

int stats_judge(struct stats_row *rows, size_t n_rows, const struct stats_options *opt)
{
	_cleanup_free_ struct stats_row **by_p = try_realloc(NULL, n_rows + 1, sizeof(*by_p));
	double least = 1;
	size_t n = 0;

	if (!by_p)
		return -ENOMEM;
	for (size_t i = 0; i < n_rows; i++)
		if (!isnan(rows[i].p))
			by_p[n++] = &rows[i];
	qsort(by_p, n, sizeof(struct stats_row *), compare_p);
	for (size_t i = n; i-- > 0;) {
		least = fmin(least, by_p[i]->p * (double)n / (double)(i + 1));
		by_p[i]->q = least;
	}
	for (size_t i = 0; i < n_rows; i++)
		rows[i].verdict = verdict_of(&rows[i], opt);
	return 0;
}

/* Sums over the significant children of a node. */
struct moved {
	double up, down;
};

int stats_find_moved(struct stats_row *rows, const uint32_t *parent, size_t n)
{
	_cleanup_free_ struct moved *moved = try_realloc(NULL, n + 1, sizeof(*moved));

	if (!moved)
		return -ENOMEM;
	memset(moved, 0, (n + 1) * sizeof(*moved));
	for (size_t i = 1; i < n; i++) {
		double delta = rows[i].mean_b - rows[i].mean_a;

		if (!stats_is_significant(rows[i].verdict))
			continue;
		if (delta > 0)
			moved[parent[i]].up += delta;
		else
			moved[parent[i]].down -= delta;
	}
	/* From below, so that a node that is itself marked does not count as changed less for it. */
	for (size_t i = n; i-- > 1;) {
		const struct moved *m = &moved[parent[i]];

		if (rows[parent[i]].verdict == STATS_SAME &&
			stats_is_significant(rows[i].verdict) && m->up > 0 && m->down > 0 &&
			fabs(m->up - m->down) < (m->up + m->down) / 2)
			rows[i].verdict = STATS_MOVED;
	}
	return 0;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Logarithm of the geometric mean, NAN with a zero. */
static double log_mean(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i] > 0 ? log(v[i]) : NAN;
	return sum / (double)n;
}

int stats_size_factors(const double *values, size_t n_rows, size_t n_runs, double *ret)
{
	_cleanup_free_ double *mean = try_realloc(NULL, n_rows + 1, sizeof(*mean));
	_cleanup_free_ double *ratio = try_realloc(NULL, n_rows + 1, sizeof(*ratio));

	if (!mean || !ratio)
		return -ENOMEM;
	for (size_t i = 0; i < n_rows; i++)
		mean[i] = log_mean(values + i * n_runs, n_runs);
	for (size_t run = 0; run < n_runs; run++) {
		size_t n = 0;

		for (size_t i = 0; i < n_rows; i++)
			if (!isnan(mean[i]))
				ratio[n++] = log(values[i * n_runs + run]) - mean[i];
		qsort(ratio, n, sizeof(*ratio), compare_doubles);
		ret[run] = n ? exp((ratio[(n - 1) / 2] + ratio[n / 2]) / 2) : 1;
	}
	return 0;
}

double stats_drift(const struct stats_runs *runs, const double *value, const size_t *order)
{
	size_t n = runs->n_a + runs->n_b;
	double means[] = {stats_mean(value, runs->n_a), stats_mean(value + runs->n_a, runs->n_b)};
	double time_means[2] = {}, xx = 0, xy = 0, yy = 0, r, df = (double)n - 3;

	if (n < 4 || means[0] <= 0 || means[1] <= 0)
		return 1;
	for (size_t i = 0; i < n; i++)
		time_means[i >= runs->n_a] +=
			(double)order[i] / (double)(i < runs->n_a ? runs->n_a : runs->n_b);
	for (size_t i = 0; i < n; i++) {
		double x = (double)order[i] - time_means[i >= runs->n_a];
		double y = value[i] / means[i >= runs->n_a] - 1;

		xx += x * x;
		xy += x * y;
		yy += y * y;
	}
	if (xx <= 0 || yy <= 0)
		return 1;
	r = xy / sqrt(xx * yy);
	return r * r < 1 ? dist_t_two_sided(r * sqrt(df / (1 - r * r)), df) : 0;
}
