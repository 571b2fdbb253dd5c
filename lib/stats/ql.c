/* SPDX-License-Identifier: Apache-2.0
 *
 * The quasi-likelihood test of stats.h.
 */
#include "lib/base/alloc.h"
#include "lib/stats/dist.h"
#include "lib/stats/stats_internal.h"
#include <errno.h>
#include <math.h>

enum { BISECTIONS = 60 };
/* A coefficient of variation from run to run of more than this is not looked for. */
#define MAX_CV 3.0

/* Variance of the mean of a side where it is μ, for φ = 1. */
static double mean_variance(const double *unit, size_t n, double mean, double delta)
{
	return (stats_mean(unit, n) * mean + delta * mean * mean) / (double)n;
}

struct residual {
	double squares, df, mean;
};

/* Pearson residuals of one side; a side of zeros has none. */
static void add_residuals(
	struct residual *r, const double *v, const double *unit, size_t n, double delta)
{
	double mean = stats_mean(v, n);

	if (mean <= 0)
		return;
	for (size_t i = 0; i < n; i++)
		r->squares +=
			(v[i] - mean) * (v[i] - mean) / (unit[i] * mean + delta * mean * mean);
	r->df += (double)n - 1;
}

static struct residual residual_of(const struct stats_tested *t, size_t i, double delta)
{
	const double *v = stats_values_of(t, i), *unit = t->runs->unit;
	size_t n_a = t->runs->n_a, n_b = t->runs->n_b;
	struct residual r = {.mean = stats_mean(v, n_a + n_b)};

	add_residuals(&r, v, unit, n_a, delta);
	add_residuals(&r, v + n_a, unit + n_a, n_b, delta);
	return r;
}

/* How far more of the rows, weighted by what they know about δ, lie above their median than below. */
static double excess_above(const struct stats_tested *t, double delta, double mean_unit)
{
	double sum = 0, df = 0, median = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct residual r = residual_of(t, i, delta);
		double weight = r.mean / (mean_unit + delta * r.mean);

		if (r.df != df) {
			df = r.df;
			median = dist_chi2_median(df);
		}
		sum += r.squares > median ? weight : -weight;
	}
	return sum;
}

/* δ from the weighted median of the excess variance. */
static double find_delta(const struct stats_tested *t, double mean_unit)
{
	double low = 0, high = MAX_CV * MAX_CV;

	if (excess_above(t, 0, mean_unit) <= 0)
		return 0;
	for (int i = 0; i < BISECTIONS; i++) {
		double mid = i < BISECTIONS / 2 && low <= 0 ? high / 16 : (low + high) / 2;

		if (excess_above(t, mid, mean_unit) > 0)
			low = mid;
		else
			high = mid;
	}
	return (low + high) / 2;
}

/* The variance of a row against the model's δ. */
static struct stats_variance variance_of(const struct stats_tested *t, size_t i, double delta)
{
	struct residual r = residual_of(t, i, delta);
	double unit = stats_mean(t->runs->unit, t->runs->n_a + t->runs->n_b);

	return (struct stats_variance) {.phi = r.squares / r.df,
		.df = r.df,
		.weight = delta * r.mean / (unit + delta * r.mean)};
}

int stats_fit_rows(const struct stats_tested *t, struct stats_model *ret)
{
	_cleanup_free_ struct stats_variance *v = try_realloc(NULL, t->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	ret->delta = find_delta(t, stats_mean(t->runs->unit, t->runs->n_a + t->runs->n_b));
	for (size_t i = 0; i < t->n; i++)
		v[i] = variance_of(t, i, ret->delta);
	return stats_fit_prior(v, t->n, ret);
}

static void test_row(const struct stats_tested *t, size_t i)
{
	struct stats_row *row = &t->rows[t->index[i]];
	const double *unit = t->runs->unit;
	size_t n_a = t->runs->n_a, n_b = t->runs->n_b;
	double delta = t->model->delta;
	struct stats_variance variance = variance_of(t, i, delta);
	struct stats_shrunk shrunk = stats_shrink(&variance, t->model);
	double mean = stats_mean(stats_values_of(t, i), n_a + n_b), df = shrunk.df;
	double se = sqrt(shrunk.phi * (mean_variance(unit, n_a, mean, delta) +
					      mean_variance(unit + n_a, n_b, mean, delta)));

	row->p = dist_t_two_sided((row->mean_b - row->mean_a) / se, df);
	row->min_effect = stats_detectable(se, df, row->mean_a);
	row->se_a = sqrt(shrunk.phi * mean_variance(unit, n_a, row->mean_a, delta));
	row->se_b = sqrt(shrunk.phi * mean_variance(unit + n_a, n_b, row->mean_b, delta));
	if (row->mean_a > 0 && row->mean_b > 0) {
		double half = dist_t_quantile(0.975, df) *
			      hypot(row->se_a / row->mean_a, row->se_b / row->mean_b);

		row->low = row->ratio * exp(-half);
		row->high = row->ratio * exp(half);
	}
}

void stats_ql(const struct stats_tested *t)
{
	for (size_t i = 0; i < t->n; i++)
		test_row(t, i);
}
