/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences of cumulative profiles against a naive evaluation: per stack, clamped, resets, eviction.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "scraper/scrape/delta.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACKS = 40 };

/* A profile with sample i of value v[i] in column 0 and 100 in column 1, in the order given. */
static void make(struct profile *p, const int64_t *v, size_t n, bool reverse)
{
	_cleanup_(prof_builder_freep)
	struct prof_builder *b = NULL;

	profile_init(p, NULL);
	b = prof_builder_new(p);
	prof_builder_type(b, "alloc_space", "bytes");
	prof_builder_type(b, "inuse_space", "bytes");
	for (size_t k = 0; k < n; k++) {
		size_t i = reverse ? n - 1 - k : k;
		char name[16];
		int len = snprintf(name, sizeof(name), "f%zu", i);
		struct prof_function f = {.name = prof_builder_string(b, name, (size_t)len)};
		struct prof_line line = {
			.function = prof_builder_function(b, &f), .line = (int64_t)i};
		uint32_t location = prof_builder_location(b, 0, PROF_NONE, &line, 1);

		prof_builder_sample(b, &location, 1, (const int64_t[]) {v[i], 100}, NULL, 0, 0);
	}
	assert_int_equal(prof_builder_finish(b, NULL), 0);
}

/* Sum of column 0 of the samples of function i. */
static int64_t value_of(const struct profile *p, size_t i)
{
	int64_t sum = 0;

	for (size_t s = 0; s < p->n_samples; s++)
		if (p->lines[p->locations[p->stacks[p->stack_first[s]]].first_line].line ==
			(int64_t)i)
			sum += p->values[s * 2];
	return sum;
}

static enum scrape_delta_result apply(
	struct scrape_delta *d, struct profile *p, int64_t time_ns, int64_t *ret_duration_ns)
{
	static const bool cumulative[] = {true, false};
	enum scrape_delta_result result;
	bool evicted;

	assert_int_equal(scrape_delta_apply(d, p, cumulative, time_ns, &result, ret_duration_ns,
				 &evicted, NULL),
		0);
	for (size_t s = 0; s < p->n_samples; s++)
		assert_int_equal(p->values[s * 2 + 1], 100);
	return result;
}

static void test_differences(void **state)
{
	struct budget budget;
	struct scrape_delta d;
	int64_t before[STACKS] = {0}, now[STACKS] = {0}, duration;

	(void)state;
	srand(7);
	budget_init(&budget, NULL, "scrape", "--x", 0);
	scrape_delta_init(&d, &budget);
	for (int round = 0; round < 50; round++) {
		_cleanup_profile_ struct profile p;
		enum scrape_delta_result result;

		for (size_t i = 0; i < STACKS; i++)
			now[i] += rand() % 3 ? 0 : rand() % 1000;
		now[0] += 1;
		make(&p, now, STACKS, round % 2);
		result = apply(&d, &p, round * 1000, &duration);
		assert_int_equal(result, round ? SCRAPE_DELTA_DIFFERENCE : SCRAPE_DELTA_FIRST);
		assert_int_equal(duration, round ? 1000 : 0);
		for (size_t i = 0; i < STACKS; i++)
			assert_int_equal(value_of(&p, i), round ? now[i] - before[i] : 0);
		memcpy(before, now, sizeof(now));
	}
	assert_int_equal(budget.used_bytes, STACKS * (8 + 16) + 16);
	scrape_delta_done(&d);
	assert_int_equal(budget.used_bytes, 0);
}

static void test_reset_and_clamp(void **state)
{
	struct scrape_delta d;
	struct budget budget;
	struct profile p;
	int64_t duration;

	(void)state;
	budget_init(&budget, NULL, "scrape", "--x", 0);
	scrape_delta_init(&d, &budget);
	make(&p, (const int64_t[]) {1000, 500}, 2, false);
	assert_int_equal(apply(&d, &p, 0, &duration), SCRAPE_DELTA_FIRST);
	profile_done(&p);
	/* one stack fell by the noise of scaling, the sum rose */
	make(&p, (const int64_t[]) {1100, 499}, 2, false);
	assert_int_equal(apply(&d, &p, 10, &duration), SCRAPE_DELTA_DIFFERENCE);
	assert_int_equal(value_of(&p, 0), 100);
	assert_int_equal(value_of(&p, 1), 0);
	profile_done(&p);
	/* the process began anew: what it has now came since */
	make(&p, (const int64_t[]) {30, 20}, 2, false);
	assert_int_equal(apply(&d, &p, 20, &duration), SCRAPE_DELTA_RESET);
	assert_int_equal(duration, 10);
	assert_int_equal(value_of(&p, 0), 30);
	assert_int_equal(value_of(&p, 1), 20);
	profile_done(&p);
	/* a new stack, and one that is gone */
	make(&p, (const int64_t[]) {0, 20, 700}, 3, false);
	assert_int_equal(apply(&d, &p, 30, &duration), SCRAPE_DELTA_DIFFERENCE);
	assert_int_equal(value_of(&p, 0), 0);
	assert_int_equal(value_of(&p, 2), 700);
	profile_done(&p);
	/* extreme values do not overflow */
	make(&p, (const int64_t[]) {INT64_MAX, INT64_MAX, INT64_MIN}, 3, false);
	assert_in_range(apply(&d, &p, 40, &duration), SCRAPE_DELTA_DIFFERENCE, SCRAPE_DELTA_RESET);
	profile_done(&p);
	scrape_delta_done(&d);
}

/* Equal stacks that stand apart in the profile count once. */
static void test_equal_stacks(void **state)
{
	struct scrape_delta d;
	struct budget budget;
	int64_t duration;

	(void)state;
	budget_init(&budget, NULL, "scrape", "--x", 0);
	scrape_delta_init(&d, &budget);
	for (int round = 0; round < 2; round++) {
		_cleanup_profile_ struct profile p;
		_cleanup_(prof_builder_freep)
		struct prof_builder *b = NULL;
		struct prof_function f;
		struct prof_line line;
		uint32_t location;

		profile_init(&p, NULL);
		b = prof_builder_new(&p);
		prof_builder_type(b, "alloc_space", "bytes");
		prof_builder_type(b, "inuse_space", "bytes");
		f = (struct prof_function) {.name = prof_builder_string(b, "f", 1)};
		line = (struct prof_line) {.function = prof_builder_function(b, &f)};
		location = prof_builder_location(b, 0, PROF_NONE, &line, 1);
		for (int i = 0; i < 3; i++)
			prof_builder_sample(b, &location, 1,
				(const int64_t[]) {10 + 5 * round, 100}, NULL, 0, 0);
		assert_int_equal(prof_builder_finish(b, NULL), 0);
		{
			static const bool cumulative[] = {true, false};
			enum scrape_delta_result result;
			bool evicted;

			assert_int_equal(scrape_delta_apply(&d, &p, cumulative, round, &result,
						 &duration, &evicted, NULL),
				0);
		}
		assert_int_equal(value_of(&p, 0), round ? 15 : 0);
	}
	scrape_delta_done(&d);
}

/* A budget without room costs one interval, not the scrape. */
static void test_eviction(void **state)
{
	static const bool cumulative[] = {true, false};
	struct scrape_delta d;
	struct budget budget;
	enum scrape_delta_result result;
	int64_t duration;
	bool evicted;

	(void)state;
	budget_init(&budget, NULL, "scrape", "--x", 1000);
	scrape_delta_init(&d, &budget);
	for (int round = 0; round < 4; round++) {
		_cleanup_profile_ struct profile p;

		budget.limit_bytes = round == 1 ? 10 : 1000;
		make(&p, (const int64_t[]) {100 + round, 7}, 2, false);
		assert_int_equal(scrape_delta_apply(&d, &p, cumulative, round, &result, &duration,
					 &evicted, NULL),
			0);
		assert_int_equal(evicted, round == 1);
		assert_int_equal(result,
			round == 0 || round == 2 ? SCRAPE_DELTA_FIRST : SCRAPE_DELTA_DIFFERENCE);
		assert_int_equal(value_of(&p, 0), round == 0 || round == 2 ? 0 : 1);
	}
	scrape_delta_done(&d);
	assert_int_equal(budget.used_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_differences),
		cmocka_unit_test(test_reset_and_clamp),
		cmocka_unit_test(test_equal_stacks),
		cmocka_unit_test(test_eviction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
