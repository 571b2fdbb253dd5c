/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums that all tests use.
 */
#include "lib/stats/dist.h"
#include "lib/stats/stats_internal.h"
#include <math.h>

double stats_mean(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

double stats_squares(const double *v, size_t n, double mean)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (v[i] - mean) * (v[i] - mean);
	return sum;
}

double stats_detectable(double se, double df, double mean_a)
{
	if (mean_a <= 0 || !(df >= 1))
		return NAN;
	return (dist_t_quantile(0.975, df) + dist_t_quantile(0.8, df)) * se / mean_a;
}
