/* SPDX-License-Identifier: Apache-2.0
 *
 * Error rates of differences on simulated runs: the short form of tests/bench/bench_stats.c, with fixed seeds.
 */
#include "tests/stats_simulation.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { COMPARISONS = 100 };

/* Sums over the comparisons, as shares. */
struct rates {
	double any, any_family, false_share, power;
};

static struct rates compare(const struct sim_case *c)
{
	static struct sim s;
	static struct stats_row rows[SIM_ROWS];
	const size_t functions = 2 * SIM_FUNCTIONS;
	struct rates r = {};

	for (uint64_t seed = 1; seed <= COMPARISONS; seed++) {
		struct sim_calls self, table, nodes;

		sim_make(&s, c, seed * 7919);
		assert_int_equal(sim_test(&s, c, STATS_QL, rows), 0);
		self = sim_count(rows, s.differs, SIM_FUNCTIONS);
		table = sim_count(rows, s.differs, functions);
		nodes = sim_count(rows + functions, s.differs + functions, SIM_NODES);
		r.any += table.right + table.wrong > 0;
		r.any_family += table.right + table.wrong + nodes.right + nodes.wrong > 0;
		if (table.wrong)
			r.false_share += (double)table.wrong / (double)(table.right + table.wrong);
		if (self.changed)
			r.power += (double)self.right / (double)self.changed;
	}
	return (struct rates) {r.any / COMPARISONS, r.any_family / COMPARISONS,
		r.false_share / COMPARISONS, r.power / COMPARISONS};
}

static void test_no_change(void **state)
{
	const struct sim_case cases[] = {{"", 3, 5940, 1}, {"", 5, 356400, 1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rates r = compare(&cases[i]);

		assert_true(r.any <= 0.07);
		assert_true(r.any_family <= 0.12);
	}
}

static void test_change(void **state)
{
	const struct sim_case c = {"", 5, 5940, 1.3};
	struct rates r = compare(&c);

	(void)state;
	assert_true(r.false_share <= 0.06);
	assert_true(r.power >= 0.45);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_change),
		cmocka_unit_test(test_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
