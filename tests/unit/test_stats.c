/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics of differences against R and limma (tests/data/stats/expected.R), and the rules that no package has.
 */
#include "lib/base/alloc.h"
#include "lib/stats/dist.h"
#include "lib/stats/rank.h"
#include "lib/stats/stats_internal.h"
#include "lib/stats/trees.h"
#include <errno.h>
#include <math.h>
#include "tests/data/stats/expected.inc"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void check_near(double have, double want, double tolerance)
{
	if (!(fabs(have - want) <= tolerance * fmax(fabs(want), 1e-300)) && have != want)
		fail_msg("have %.17g, want %.17g", have, want);
}

static void test_distributions(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected_gamma); i++) {
		const double *e = expected_gamma[i];

		check_near(dist_digamma(e[0]), e[1], 1e-11);
		check_near(dist_trigamma(e[0]), e[2], 1e-11);
		check_near(dist_trigamma_inverse(e[2]), e[0], 1e-9);
	}
	for (size_t i = 0; i < ARRAY_SIZE(expected_t); i++)
		check_near(dist_t_two_sided(expected_t[i][0], expected_t[i][1]), expected_t[i][2],
			1e-9);
	for (size_t i = 0; i < ARRAY_SIZE(expected_t_quantile); i++) {
		const double *e = expected_t_quantile[i];

		check_near(1 + dist_t_quantile(e[0], e[1]), 1 + e[2], 1e-9);
	}
	for (size_t i = 0; i < ARRAY_SIZE(expected_chi2_median); i++)
		check_near(dist_chi2_median(expected_chi2_median[i][0]), expected_chi2_median[i][1],
			1e-10);
}

static void test_mann_whitney(void **state)
{
	double p;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected_mann_whitney); i++) {
		const double *e = expected_mann_whitney[i];
		size_t n = (size_t)e[0], m = (size_t)e[1];

		assert_int_equal(rank_mann_whitney(e + 3, n, e + 3 + n, m, &p), 0);
		check_near(p, e[2], 1e-12);
	}
	assert_int_equal(
		rank_mann_whitney(large_a, ARRAY_SIZE(large_a), large_b, ARRAY_SIZE(large_b), &p),
		0);
	check_near(p, expected_large[0], 1e-10);
}

static void test_median(void **state)
{
	double v[31];
	struct rank_median m;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = (double)((i * 11) % 31); /* for n = 31: 0 … 30 in disorder */
	for (size_t i = 0; i < ARRAY_SIZE(expected_median_interval); i++) {
		const double *e = expected_median_interval[i];
		size_t n = (size_t)e[0], k = (size_t)e[1];
		double sorted[31];

		for (size_t j = 0; j < n; j++)
			sorted[n - 1 - j] = (double)j;
		assert_int_equal(rank_median(sorted, n, 0.95, &m), 0);
		check_near(m.median, (double)(n - 1) / 2, 0);
		check_near(m.low, k ? (double)k - 1 : -INFINITY, 0);
		check_near(m.high, k ? (double)(n - k) : INFINITY, 0);
		check_near(m.confidence, e[2], 1e-12);
	}
	assert_int_equal(rank_median(v, 31, 0.95, &m), 0);
	check_near(m.median, 15, 0);
}

static struct stats_row with_p(double p)
{
	return (struct stats_row) {.p = p, .mean_a = 100, .mean_b = 150, .ratio = 1.5, .q = NAN};
}

/* What was not tested does not enlarge the family. */
static void test_false_discovery_rate(void **state)
{
	struct stats_row rows[ARRAY_SIZE(bh_p) + 2];
	const struct stats_options opt = STATS_DEFAULTS;
	size_t n = ARRAY_SIZE(bh_p);

	(void)state;
	for (size_t i = 0; i < n; i++)
		rows[i] = with_p(bh_p[i]);
	rows[n] = with_p(NAN);
	rows[n + 1] = with_p(NAN);
	rows[n + 1].verdict = STATS_FEW;
	assert_int_equal(stats_judge(rows, n + 2, &opt), 0);
	for (size_t i = 0; i < n; i++) {
		check_near(rows[i].q, expected_bh_q[i], 1e-12);
		assert_int_equal(
			rows[i].verdict, expected_bh_q[i] <= 0.05 ? STATS_MORE : STATS_SAME);
	}
	assert_true(isnan(rows[n].q));
	assert_int_equal(rows[n].verdict, STATS_UNTESTED);
	assert_int_equal(rows[n + 1].verdict, STATS_FEW);
}

static void test_verdicts(void **state)
{
	static const struct {
		double a, b, p;
		enum stats_verdict want;
	} cases[] = {
		{100, 101, 1e-9, STATS_SAME}, /* under the minimum effect */
		{100, 103, 1e-9, STATS_MORE},
		{100, 97, 1e-9, STATS_LESS},
		{100, 50, 0.2, STATS_SAME},
		{0, 50, 1e-9, STATS_NEW},
		{50, 0, 1e-9, STATS_GONE},
		{0, 50, 0.3, STATS_SAME},
	};
	const struct stats_options opt = STATS_DEFAULTS;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct stats_row row = {.mean_a = cases[i].a,
			.mean_b = cases[i].b,
			.ratio = cases[i].b / cases[i].a,
			.p = cases[i].p};

		assert_int_equal(stats_judge(&row, 1, &opt), 0);
		assert_int_equal(row.verdict, cases[i].want);
	}
}

static void check_prior(const double *phi, size_t n, double df, const double *prior,
	const double *shrunk, double tolerance)
{
	struct stats_variance v[64];
	struct stats_model m = {};

	assert_true(n <= ARRAY_SIZE(v));
	for (size_t i = 0; i < n; i++)
		v[i] = (struct stats_variance) {.phi = phi[i], .df = df, .weight = 1};
	assert_int_equal(stats_fit_prior(v, n, &m), 0);
	if (isinf(prior[1])) {
		assert_true(m.spread == 0);
		return;
	}
	check_near(2 * dist_trigamma_inverse(m.spread), prior[1], tolerance);
	for (size_t i = 0; i < n; i++) {
		struct stats_shrunk s = stats_shrink(&v[i], &m);

		check_near(s.phi, shrunk[i], tolerance);
		check_near(s.df, df + prior[1], tolerance);
	}
}

static void test_moderated_variances(void **state)
{
	struct stats_model wide = {.spread = 0.5}, none = {};
	struct stats_variance v = {.phi = 3, .df = 4, .weight = 1};
	double full, half;

	(void)state;
	check_prior(variance_spread, ARRAY_SIZE(variance_spread), 4, expected_prior_spread,
		expected_shrunk_spread, 1e-9);
	check_prior(variance_equal, ARRAY_SIZE(variance_equal), 40, expected_prior_equal,
		expected_shrunk_equal, 1e-9);
	/* A row of mostly sampling variance is pulled harder towards 1. */
	full = stats_shrink(&v, &wide).phi;
	v.weight = 0.3;
	half = stats_shrink(&v, &wide).phi;
	assert_true(full < 3 && half < full && half > 1);
	assert_true(stats_shrink(&v, &none).df == 104);
}

/* The whole test against R, where few numbers are there to go by: two runs a side, sides of zeros and without spread, large values. */
static void test_quasi_likelihood(void **state)
{
	enum { ROWS = 12, MAX_RUNS = 7 };
	static const struct {
		const double *values, *expected; /* n_a, n_b, unit, δ, p of each row */
	} cases[] = {
		{ql_values_2_2, expected_ql_2_2},
		{ql_values_2_5, expected_ql_2_5},
		{ql_values_3_3, expected_ql_3_3},
		{ql_values_4_3, expected_ql_4_3},
	};
	const struct stats_options opt = STATS_DEFAULTS;

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		const double *e = cases[c].expected;
		double unit[MAX_RUNS] = {e[2], e[2], e[2], e[2], e[2], e[2], e[2]};
		struct stats_runs runs = {(size_t)e[0], (size_t)e[1], unit};
		struct stats_row rows[ROWS];
		struct stats_model model;

		assert_int_equal(stats_fit(&runs, cases[c].values, ROWS, &opt, &model), 0);
		assert_int_equal(stats_test(&runs, cases[c].values, ROWS, &model, &opt, rows), 0);
		check_near(model.delta, e[3], 1e-9);
		for (size_t i = 0; i < ROWS; i++)
			check_near(rows[i].p, e[4 + i], 1e-7);
		assert_int_equal(stats_judge(rows, ROWS, &opt), 0);
		assert_int_equal(rows[0].verdict, STATS_NEW);
		assert_int_equal(rows[1].verdict, STATS_GONE);
		assert_int_equal(rows[2].verdict, STATS_SAME);
		assert_int_equal(rows[3].verdict, STATS_MORE);
	}
}

static void test_welch(void **state)
{
	const double values[] = {103, 98, 110, 125, 131, 119, 140}, unit[] = {1, 1, 1, 1, 1, 1, 1};
	struct stats_options opt = STATS_DEFAULTS;
	struct stats_runs runs = {3, 4, unit};
	struct stats_row row;

	(void)state;
	opt.method = STATS_WELCH;
	assert_int_equal(stats_test(&runs, values, 1, NULL, &opt, &row), 0);
	check_near(row.p, expected_welch[0], 1e-9);
	check_near(row.low, expected_welch[1], 1e-9);
	check_near(row.high, expected_welch[2], 1e-9);
}

static void test_size_factors(void **state)
{
	double have[ARRAY_SIZE(expected_size_factors)];
	const double zero[] = {0, 5, 5, 0};

	(void)state;
	assert_int_equal(stats_size_factors(size_counts, ARRAY_SIZE(size_counts) / ARRAY_SIZE(have),
				 ARRAY_SIZE(have), have),
		0);
	for (size_t i = 0; i < ARRAY_SIZE(have); i++)
		check_near(have[i], expected_size_factors[i], 1e-12);
	assert_int_equal(stats_size_factors(zero, 2, 2, have), 0);
	assert_true(have[0] == 1 && have[1] == 1);
}

static void test_drift(void **state)
{
	const double value[] = {10, 10.4, 10.9, 8.1, 8.3, 8.8}, unit[] = {1, 1, 1, 1, 1, 1};
	const double flat[] = {10, 10, 10, 8, 8, 8};
	const size_t order[] = {0, 3, 4, 1, 2, 5};
	struct stats_runs runs = {3, 3, unit};

	(void)state;
	check_near(stats_drift(&runs, value, order), expected_drift[0], 1e-9);
	assert_true(stats_drift(&runs, flat, order) == 1);
	runs.n_a = runs.n_b = 1;
	assert_true(stats_drift(&runs, value, order) == 1);
}

/* Equal work in half the time; and the same in other units gives the same answer. */
static void test_half(void **state)
{
	enum { ROWS = 30, RUNS = 6 };
	static const double noise[RUNS] = {-0.01, 0.02, -0.01, 0.015, 0, -0.015};
	struct stats_options opt = STATS_DEFAULTS;

	(void)state;
	for (double scale = 1; scale < 1e8; scale *= 1e7) {
		double values[ROWS * RUNS], unit[RUNS];
		struct stats_runs runs = {3, 3, unit};
		struct stats_row rows[ROWS];
		struct stats_model model;

		for (size_t i = 0; i < RUNS; i++)
			unit[i] = scale;
		for (size_t r = 0; r < ROWS; r++)
			for (size_t i = 0; i < RUNS; i++)
				values[r * RUNS + i] = scale * (1000 + 10 * (double)r) *
						       (1 + noise[(i + r) % RUNS]) *
						       (!r && i >= 3 ? 0.5 : 1);
		assert_int_equal(stats_fit(&runs, values, ROWS, &opt, &model), 0);
		assert_int_equal(stats_test(&runs, values, ROWS, &model, &opt, rows), 0);
		assert_int_equal(stats_judge(rows, ROWS, &opt), 0);
		assert_int_equal(rows[0].verdict, STATS_LESS);
		check_near(rows[0].ratio, 0.5, 0.02);
		assert_true(rows[0].low < 0.5 && rows[0].high > 0.5 && rows[0].q < 1e-6);
		for (size_t r = 1; r < ROWS; r++)
			assert_int_equal(rows[r].verdict, STATS_SAME);
	}
}

/* Of three runs a side one draw in 81 is the same run thrice, on both sides: p cannot go below that, and twelve runs' can. */
static void test_bootstrap(void **state)
{
	double values[24], unit[24];
	struct stats_options opt = STATS_DEFAULTS;
	struct stats_runs runs = {12, 12, unit};
	struct stats_row row, again;

	(void)state;
	opt.method = STATS_BOOTSTRAP;
	for (size_t i = 0; i < 24; i++) {
		unit[i] = 1;
		values[i] = (i < 12 ? 100 : 120) + (double)((i * 7) % 12);
	}
	assert_int_equal(stats_test(&runs, values, 1, NULL, &opt, &row), 0);
	assert_true(row.p < 0.005 && row.low > 1.1 && row.high < 1.3);
	assert_int_equal(stats_test(&runs, values, 1, NULL, &opt, &again), 0);
	assert_true(again.p == row.p && again.low == row.low);
	runs.n_a = runs.n_b = 3;
	memmove(values + 3, values + 12, 3 * sizeof(double));
	assert_int_equal(stats_test(&runs, values, 1, NULL, &opt, &row), 0);
	assert_true(row.p > 1.0 / 100);
}

static void test_no_replicates(void **state)
{
	const double values[] = {100, 300, 4, 5}, unit[] = {1, 1};
	const struct stats_options opt = STATS_DEFAULTS;
	struct stats_runs runs = {1, 1, unit};
	struct stats_model model;
	struct stats_row rows[2];

	(void)state;
	assert_int_equal(stats_fit(&runs, values, 2, &opt, &model), 0);
	assert_int_equal(stats_test(&runs, values, 2, &model, &opt, rows), 0);
	assert_int_equal(stats_judge(rows, 2, &opt), 0);
	assert_int_equal(rows[0].verdict, STATS_UNTESTED);
	assert_int_equal(rows[1].verdict, STATS_FEW);
	check_near(rows[0].se_a, 10, 1e-12); /* Poisson */
}

/* Node 1 is the same as a whole while its children change places; under node 4 one really grew. */
static void test_moved(void **state)
{
	static const uint32_t parent[] = {0, 0, 1, 1, 0, 4, 4};
	static const struct {
		double a, b;
		enum stats_verdict before, after;
	} cases[] = {
		{300, 340, STATS_SAME, STATS_SAME},
		{100, 101, STATS_SAME, STATS_SAME},
		{80, 20, STATS_LESS, STATS_MOVED},
		{20, 81, STATS_MORE, STATS_MOVED},
		{200, 240, STATS_MORE, STATS_MORE},
		{100, 90, STATS_LESS, STATS_LESS},
		{100, 150, STATS_MORE, STATS_MORE},
	};
	struct stats_row rows[ARRAY_SIZE(cases)];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		rows[i] = (struct stats_row) {
			.mean_a = cases[i].a, .mean_b = cases[i].b, .verdict = cases[i].before};
	assert_int_equal(stats_find_moved(rows, parent, ARRAY_SIZE(cases)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(rows[i].verdict, cases[i].after);
}

/* Selfs of the same function that cancel over the runs: the union of them does not have it. */
static void test_values_below_zero(void **state)
{
	static const int64_t values[] = {500, -500};
	const struct stats_options opt = STATS_DEFAULTS;
	_cleanup_(tree_symbols_done)
	struct tree_symbols symbols;
	_cleanup_stats_trees_ struct stats_trees got = {};
	struct errbuf eb = {.text = ""};
	struct tree trees[2];
	struct stats_run runs[2];
	uint32_t frame;

	(void)state;
	tree_symbols_init(&symbols, NULL);
	frame = tree_symbols_frame(&symbols, &(struct tree_frame) {.kind = TREE_NATIVE});
	for (size_t i = 0; i < 2; i++) {
		_cleanup_tree_builder_ struct tree_builder b;

		tree_builder_init(&b, NULL);
		tree_init(&trees[i], NULL);
		tree_builder_stack(&b, &frame, 1, values[i]);
		assert_int_equal(tree_builder_finish(&b, &trees[i], NULL), 0);
		runs[i] = (struct stats_run) {
			.tree = &trees[i], .scale = 1, .unit = 1, .name = i ? "the second" : NULL};
	}
	assert_int_equal(
		stats_trees_make(runs, 1, 1, false, &symbols, &opt, NULL, &got, &eb), -EINVAL);
	assert_string_equal(eb.text, "the second has values below 0: is it a difference already?");
	runs[1].tree = &trees[0];
	assert_int_equal(stats_trees_make(runs, 1, 1, false, &symbols, &opt, NULL, &got, &eb), 0);
	assert_int_equal(got.n_nodes, 2);
	tree_done(&trees[0]);
	tree_done(&trees[1]);
}

static void test_out_of_memory(void **state)
{
	double values[] = {100, 110, 90, 120, 130, 140}, unit[] = {1, 1, 1, 1, 1, 1}, p;
	struct stats_options opt = STATS_DEFAULTS;
	struct stats_runs runs = {3, 3, unit};
	struct stats_model model;
	struct stats_row row;

	(void)state;
	for (unsigned n = 1; n <= 2; n++) {
		alloc_fail_after(n);
		assert_int_equal(stats_fit(&runs, values, 1, &opt, &model), -ENOMEM);
		alloc_fail_after(n);
		assert_int_equal(rank_mann_whitney(values, 3, values + 3, 3, &p), -ENOMEM);
	}
	opt.method = STATS_BOOTSTRAP;
	for (unsigned n = 1; n <= 3; n++) {
		alloc_fail_after(n);
		assert_int_equal(stats_test(&runs, values, 1, NULL, &opt, &row), -ENOMEM);
	}
	alloc_fail_after(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distributions),
		cmocka_unit_test(test_mann_whitney),
		cmocka_unit_test(test_median),
		cmocka_unit_test(test_false_discovery_rate),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_moderated_variances),
		cmocka_unit_test(test_quasi_likelihood),
		cmocka_unit_test(test_welch),
		cmocka_unit_test(test_size_factors),
		cmocka_unit_test(test_drift),
		cmocka_unit_test(test_half),
		cmocka_unit_test(test_bootstrap),
		cmocka_unit_test(test_no_replicates),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_values_below_zero),
		cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
