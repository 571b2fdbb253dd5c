/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs drawn again with replacement, the same runs for all rows. The test is Efron and Tibshirani's (1993, algorithm 16.2): both sides are
 * moved to the common mean, and a draw counts when its studentised difference is at least the one that was seen. With few runs a draw may
 * have no spread at all; it counts too, so that few runs find too little rather than what is not there.
 */
#include "lib/base/alloc.h"
#include "lib/stats/dist.h"
#include "lib/stats/stats_internal.h"
#include <errno.h>
#include <math.h>

/* splitmix64 (Steele, Lea and Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* n_resamples × runs: the run drawn for each place, of the same side. */
static uint32_t *draw(const struct stats_runs *runs, const struct stats_options *opt)
{
	size_t n = runs->n_a + runs->n_b;
	uint32_t *drawn = try_realloc(NULL, n * opt->n_resamples + 1, sizeof(*drawn));
	uint64_t state = opt->seed;

	for (size_t k = 0; drawn && k < n * opt->n_resamples; k++) {
		bool is_a = k % n < runs->n_a;
		uint64_t pick = next_random(&state) % (is_a ? runs->n_a : runs->n_b);

		drawn[k] = (uint32_t)(is_a ? pick : runs->n_a + pick);
	}
	return drawn;
}

struct means {
	double a, b, variance; /* of the difference */
};

static struct means means_of(const struct stats_runs *runs, const double *v, const uint32_t *drawn)
{
	double side[2] = {}, squares[2] = {};
	const size_t n[] = {runs->n_a, runs->n_b};

	for (size_t i = 0; i < n[0] + n[1]; i++)
		side[i >= n[0]] += v[drawn ? drawn[i] : i] / (double)n[i >= n[0]];
	for (size_t i = 0; i < n[0] + n[1]; i++) {
		double d = v[drawn ? drawn[i] : i] - side[i >= n[0]];

		squares[i >= n[0]] += d * d;
	}
	return (struct means) {side[0], side[1],
		squares[0] / (double)(n[0] - 1) / (double)n[0] +
			squares[1] / (double)(n[1] - 1) / (double)n[1]};
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void test_row(const struct stats_tested *t, size_t i, const uint32_t *drawn, double *ratio)
{
	const struct stats_runs *runs = t->runs;
	struct stats_row *row = &t->rows[t->index[i]];
	const double *v = stats_values_of(t, i);
	size_t n = runs->n_a + runs->n_b, n_draws = t->opt->n_resamples, as_far = 0;
	struct means seen = means_of(runs, v, NULL);
	double distance = fabs(seen.b - seen.a) / sqrt(seen.variance);

	for (size_t k = 0; k < n_draws; k++) {
		struct means m = means_of(runs, v, drawn + k * n);
		double moved = (m.b - seen.b) - (m.a - seen.a); /* as if the means were equal */

		ratio[k] = m.a > 0 ? m.b / m.a : INFINITY;
		as_far += m.variance <= 0 || fabs(moved) / sqrt(m.variance) >= distance;
	}
	qsort(ratio, n_draws, sizeof(*ratio), compare_doubles);
	row->p = (double)(as_far + 1) / (double)(n_draws + 1);
	row->se_a = sqrt(stats_squares(v, runs->n_a, row->mean_a) / (double)(runs->n_a - 1) /
			 (double)runs->n_a);
	row->se_b = sqrt(stats_squares(v + runs->n_a, runs->n_b, row->mean_b) /
			 (double)(runs->n_b - 1) / (double)runs->n_b);
	row->min_effect = stats_detectable(sqrt(seen.variance), INFINITY, row->mean_a);
	if (row->mean_a > 0 && row->mean_b > 0) {
		row->low = ratio[(size_t)(0.025 * (double)(n_draws - 1))];
		row->high = ratio[(size_t)ceil(0.975 * (double)(n_draws - 1))];
	}
}

int stats_bootstrap(const struct stats_tested *t)
{
	_cleanup_free_ uint32_t *drawn = draw(t->runs, t->opt);
	_cleanup_free_ double *ratio = try_realloc(NULL, t->opt->n_resamples + 1, sizeof(*ratio));

	if (!drawn || !ratio)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		test_row(t, i, drawn, ratio);
	return 0;
}
