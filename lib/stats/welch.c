/* SPDX-License-Identifier: Apache-2.0
 *
 * Welch's t test on logarithms, row by row. Zeros count as half a sample.
 */
#include "lib/stats/dist.h"
#include "lib/stats/stats_internal.h"
#include <math.h>

struct side {
	double mean, variance, n; /* of logarithms; variance of the mean */
};

static struct side log_side(const double *v, const double *unit, size_t n)
{
	struct side s = {.n = (double)n};
	double squares = 0;

	for (size_t i = 0; i < n; i++)
		s.mean += log(fmax(v[i], unit[i] / 2)) / s.n;
	for (size_t i = 0; i < n; i++) {
		double d = log(fmax(v[i], unit[i] / 2)) - s.mean;

		squares += d * d;
	}
	s.variance = squares / (s.n - 1) / s.n;
	return s;
}

void stats_welch(const struct stats_tested *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct stats_row *row = &t->rows[t->index[i]];
		const double *v = stats_values_of(t, i);
		struct side a = log_side(v, t->runs->unit, t->runs->n_a);
		struct side b =
			log_side(v + t->runs->n_a, t->runs->unit + t->runs->n_a, t->runs->n_b);
		double variance = a.variance + b.variance, se = sqrt(variance);
		double df =
			variance * variance /
			(a.variance * a.variance / (a.n - 1) + b.variance * b.variance / (b.n - 1));
		double half;

		row->se_a = sqrt(a.variance) * row->mean_a;
		row->se_b = sqrt(b.variance) * row->mean_b;
		if (variance <= 0) { /* all values of each side are equal: nothing to go by */
			row->p = 1;
			continue;
		}
		row->p = dist_t_two_sided((b.mean - a.mean) / se, df);
		half = dist_t_quantile(0.975, df) * se;
		if (row->mean_a > 0 && row->mean_b > 0) {
			row->low = exp(b.mean - a.mean - half);
			row->high = exp(b.mean - a.mean + half);
		}
		row->min_effect = stats_detectable(se, df, 1);
	}
}
