/* SPDX-License-Identifier: Apache-2.0
 *
 * What queries charge to their budget: the plan too, and at any limit they fail in full or answer.
 */
#include "scraper/query/heatmap.h"
#include "tests/unit/fake_part.h"

enum { N_JOBS = 40, PER_JOB = 40, N = N_JOBS * PER_JOB };
static char jobs[N_JOBS][8];

/* Many small profiles of many series, so that the plan is what costs memory. */
static int setup(void **state)
{
	(void)state;
	n_records = 0;
	n_fakes = 2;
	for (int i = 0; i < N; i++) {
		struct record *r = &records[n_records++];

		snprintf(jobs[i % N_JOBS], sizeof(jobs[0]), "j%d", i % N_JOBS);
		*r = (struct record) {.part = (unsigned)i % 2,
			.kind = STORE_DELTA,
			.time = (1000 + i) * SEC,
			.duration = SEC,
			.n_rows = 1,
			.rows = calloc(1, sizeof(*r->rows))};
		r->series.value[NAME] = "process_cpu";
		r->series.value[2] = jobs[i % N_JOBS];
		r->rows->labels.value[4] = "main";
		r->rows->depth = 1;
		r->rows->value[1] = 1;
	}
	for (unsigned i = 0; i < n_fakes; i++)
		fakes[i] = fake_new(i);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_records; i++)
		free(records[i].rows);
	for (unsigned i = 0; i < n_fakes; i++)
		free(fakes[i]);
	return 0;
}

enum ask { MERGE, OVER_TIME, PROFILES, HEATMAP, TYPES, NAMES, VALUES, SERIES, N_ASKS };

/* What there is: the lists are charged as long as they are kept. */
static int ask_catalog(enum ask what, struct query_env *env, struct errbuf *eb)
{
	const struct query_catalog all = {.env = env, .end_ns = (1000 + N) * SEC};
	_cleanup_query_type_list_ struct query_type_list types = {.n = 0};
	_cleanup_query_strings_ struct query_strings texts = {.n = 0};
	_cleanup_query_series_list_ struct query_series_list series = {.n = 0};
	int r;

	switch (what) {
	case TYPES: r = query_types(&all, &types, eb); break;
	case NAMES: r = query_label_names(&all, &texts, eb); break;
	case VALUES: r = query_label_values(&all, "job", &texts, eb); break;
	default: r = query_series(&all, 0, &series, eb);
	}
	if (r)
		return r;
	assert_int_equal(types.n + texts.n + series.n, what == TYPES	? 2
						       : what == NAMES	? 8
						       : what == VALUES ? N_JOBS
									: 2 * N_JOBS);
	/* What is kept is charged: at least its own bytes. */
	assert_true(env->budget->used_bytes >= types.n * sizeof(*types.items) +
						       texts.n * sizeof(*texts.items) +
						       series.n * sizeof(*series.items));
	return 0;
}

/* Runs one query within `limit` bytes; what it still holds at the end must be nothing. */
static int ask(enum ask what, uint64_t limit, uint64_t *ret_peak)
{
	struct query_selector selector;
	struct budget budget;
	struct query_env env = {.parts = fakes, .n_parts = n_fakes, .budget = &budget};
	struct query_spec spec = {.selector = &selector,
		.start_ns = 1000 * SEC,
		.end_ns = (1000 + N) * SEC,
		.step_ns = N * SEC,
		.group = true};
	struct errbuf eb = {};
	int r = 0;

	budget_init(&budget, NULL, "query", "--query.max-bytes", limit);
	/* A matcher on labels of rows: every profile's rows are looked at. */
	assert_int_equal(
		query_selector_parse(
			"process_cpu:cpu:nanoseconds:cpu:nanoseconds{thread_name=\"main\"}",
			&selector, NULL),
		0);
	switch (what) {
	case MERGE: {
		struct query_trees t = {};

		r = query_merge(&env, &spec, &t, &eb);
		if (!r)
			assert_int_equal(t.groups[0].tree.total[0], N);
		query_trees_done(&t);
		break;
	}
	case OVER_TIME: {
		struct query_matrix m = {};

		r = query_over_time(&env, &spec, &m, &eb);
		if (!r)
			assert_true(m.lines[0].sum > N - 2);
		query_matrix_done(&m);
		break;
	}
	case HEATMAP: {
		const struct query_heat_spec heat = {.n_rows = 20, .exemplars = true};
		struct query_heatmap h = {};

		r = query_heatmap(&env, &spec, &heat, &h, &eb);
		if (!r)
			assert_int_equal(h.lines[0].n_profiles, N);
		query_heatmap_done(&h);
		break;
	}
	case TYPES:
	case NAMES:
	case VALUES:
	case SERIES: r = ask_catalog(what, &env, &eb); break;
	default: {
		struct query_profiles p = {};

		r = query_profiles(&env, &spec, 0, &p, &eb);
		if (!r)
			assert_int_equal(p.n, N);
		query_profiles_done(&p);
	}
	}
	query_selector_done(&selector);
	assert_int_equal(budget.used_bytes, 0);
	*ret_peak = budget.peak_bytes;
	return r;
}

/* A row range is 48 bytes and there is one for each profile; neighbours of one series cannot be joined here. */
static void test_plan_is_charged(void **state)
{
	uint64_t peak;

	(void)state;
	for (enum ask what = 0; what < TYPES; what++) {
		assert_int_equal(ask(what, 0, &peak), 0);
		assert_true(peak > (what == MERGE ? N_JOBS : N / 2) * 48);
	}
}

static void test_limits(void **state)
{
	(void)state;
	for (enum ask what = 0; what < N_ASKS; what++) {
		uint64_t whole, peak;
		unsigned refused = 0;

		assert_int_equal(ask(what, 0, &whole), 0);
		for (uint64_t limit = 512; limit < whole; limit += 512 + whole / 256) {
			int r = ask(what, limit, &peak);

			assert_true(r == 0 || r == -ENOMEM);
			assert_true(peak <= limit);
			refused += r != 0;
		}
		assert_true(refused > 10);
		assert_int_equal(ask(what, whole, &peak), 0);
	}
}

/* Many groups of few rows each in a tree that many stacks made: what they cost is their rows, not groups times nodes. */
static void test_groups_are_charged_by_rows(void **state)
{
	static const char *const by_job[] = {"job"};
	struct query_selector selector;
	struct budget budget;
	struct query_env env = {.parts = fakes, .n_parts = n_fakes, .budget = &budget};
	struct query_spec spec = {.selector = &selector,
		.start_ns = 1000 * SEC,
		.end_ns = (1000 + N) * SEC,
		.group_by = by_job,
		.n_group_by = 1,
		.group = true};
	struct query_trees t = {};
	uint64_t dense_bytes = 0; /* of the larger part: an array for each group */

	(void)state;
	for (unsigned i = 0; i < n_fakes; i++)
		free(fakes[i]);
	/* Of any group every 40th stack, so that no two groups have the same ones. */
	for (size_t i = 0; i < n_records; i++) {
		struct row *row = records[i].rows;

		row->depth = 4;
		for (unsigned d = 0, left = (unsigned)i; d < row->depth; d++, left /= N_FUNCTIONS)
			row->stack[d] = (uint8_t)(left % N_FUNCTIONS);
	}
	for (unsigned i = 0; i < n_fakes; i++) {
		fakes[i] = fake_new(i);
		dense_bytes = MAX(dense_bytes, fakes[i]->info.n_nodes * N_JOBS * sizeof(int64_t));
	}
	budget_init(&budget, NULL, "query", "--query.max-bytes", 0);
	assert_int_equal(query_selector_parse(
				 "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", &selector, NULL),
		0);
	assert_int_equal(query_merge(&env, &spec, &t, NULL), 0);
	assert_int_equal(t.n_groups, N_JOBS);
	for (size_t g = 0; g < t.n_groups; g++)
		assert_int_equal(t.groups[g].tree.total[0], PER_JOB);
	query_trees_done(&t);
	assert_true(budget.peak_bytes < dense_bytes);
	query_selector_done(&selector);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_plan_is_charged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_groups_are_charged_by_rows, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
