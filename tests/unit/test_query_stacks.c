/* SPDX-License-Identifier: Apache-2.0
 *
 * Series over time of chosen stacks and of functions, against a second implementation that looks at each row's stack.
 */
#include "lib/base/alloc.h"
#include "lib/base/regex.h"
#include "scraper/query/query.h"
#include "tests/unit/fake_part.h"
#include <math.h>

enum { N_POINTS = 12 };
static const int64_t STEP = 7 * 1000000000LL, START = 1000 * 1000000000LL;
static uint64_t rng = 0x9e3779b97f4a7c15ULL;

static uint32_t random_below(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng % n);
}

static void make_records(void)
{
	static const char *const jobs[] = {"api", "db"}, *const threads[] = {"main", "gc", NULL};

	n_records = 0;
	n_fakes = 3;
	for (int i = 0; i < 60; i++) {
		struct record *r = &records[n_records++];
		bool instant = random_below(3) == 0;

		*r = (struct record) {.part = random_below(n_fakes),
			.kind = instant ? STORE_INSTANT : STORE_DELTA,
			.time = START + (i * 2 - 10) * SEC + random_below(1000),
			.duration = random_below(20) * SEC,
			.n_rows = random_below(15)};
		r->series.value[NAME] = instant ? "goroutine" : "process_cpu";
		r->series.value[2] = jobs[random_below(2)];
		r->rows = calloc(r->n_rows + 1, sizeof(*r->rows));
		assert_non_null(r->rows);
		for (size_t k = 0; k < r->n_rows; k++) {
			struct row *row = &r->rows[k];

			row->labels.value[4] = threads[random_below(3)];
			row->depth = random_below(MAX_DEPTH + 1);
			for (unsigned d = 0; d < row->depth; d++)
				row->stack[d] = (uint8_t)random_below(N_FUNCTIONS);
			row->value[0] = row->value[1] = 1 + random_below(1000);
		}
	}
	for (unsigned i = 0; i < n_fakes; i++)
		fakes[i] = fake_new(i);
}

static void drop_records(void)
{
	for (size_t i = 0; i < n_records; i++)
		free(records[i].rows);
	for (unsigned i = 0; i < n_fakes; i++)
		free(fakes[i]);
}

/* What is asked; functions by number, -1: none. */
struct ask {
	int focus, ignore, hide;
	int at[2];
	unsigned chosen[3], n_chosen;
	bool by_self;
};

static const struct ask asks[] = {
	{-1, -1, -1, {-1, -1}, {0}, 0, false},
	{3, -1, -1, {-1, -1}, {0}, 0, false},
	{-1, 2, -1, {-1, -1}, {0}, 0, false},
	{-1, -1, 4, {-1, -1}, {0}, 0, false},
	{-1, -1, -1, {1, -1}, {0}, 0, false},
	{-1, -1, 0, {1, 2}, {0}, 0, false},
	{-1, -1, -1, {-1, -1}, {1, 5, 0}, 3, true},
	{-1, -1, -1, {-1, -1}, {1, 5, 0}, 3, false},
	{6, 7, 1, {-1, -1}, {2, 6}, 2, true},
	{-1, -1, 8, {3, -1}, {3, 4}, 2, false},
};

/* Bits of the chosen functions that a stack is of, as tree_choose gives them. */
static unsigned naive_classes(const struct ask *a, const struct row *row)
{
	unsigned n = 0, bits = 0;
	uint8_t stack[MAX_DEPTH];
	bool focused = a->focus < 0, filters = a->focus >= 0 || a->ignore >= 0 || a->hide >= 0;

	for (unsigned d = 0; d < row->depth; d++) {
		focused |= row->stack[d] == a->focus;
		if (row->stack[d] == a->ignore)
			return 0;
		if (row->stack[d] != a->hide)
			stack[n++] = row->stack[d];
	}
	if (!focused || (filters && !n))
		return 0;
	for (unsigned i = 0; i < 2 && a->at[i] >= 0; i++)
		if (i >= n || stack[i] != a->at[i])
			return 0;
	for (unsigned d = 0; d < n; d++)
		for (unsigned k = 0; k < a->n_chosen; k++)
			if (stack[d] == a->chosen[k] && (!a->by_self || d == n - 1))
				bits |= 1U << k;
	return bits ? bits : 1U << a->n_chosen;
}

static double share(const struct record *r, int64_t t)
{
	int64_t from = MAX(r->time - r->duration, t - STEP), to = MIN(r->time, t);

	if (!r->duration || r->kind != STORE_DELTA)
		return r->time > t - STEP && r->time <= t;
	return to > from ? (double)(to - from) / (double)r->duration : 0;
}

static double scrapes_of(const struct record *of, int64_t t)
{
	double n = 0;

	for (size_t i = 0; i < n_records; i++)
		n += records[i].kind == of->kind && same_set(&records[i].series, &of->series) &&
		     records[i].time > t - STEP && records[i].time <= t;
	return n;
}

/* sums[job][class][point]; without groups all is of job 0. */
struct sums {
	double of[2][4][N_POINTS];
};

static void naive(const struct ask *a, int kind, bool grouped, const char *thread, struct sums *out)
{
	for (size_t i = 0; i < n_records; i++) {
		const struct record *r = &records[i];
		int job = grouped && !strcmp(r->series.value[2], "db");

		for (size_t k = 0; r->kind == kind && k < r->n_rows; k++) {
			const struct row *row = &r->rows[k];
			unsigned classes = naive_classes(a, row);

			if (thread && (!row->labels.value[4] ||
					      strcmp(row->labels.value[4], thread) != 0))
				continue;
			for (int p = 0; p < N_POINTS; p++) {
				int64_t t = START + p * STEP;
				double v = share(r, t) * (double)row->value[1];

				if (v != 0 && kind == STORE_INSTANT)
					v /= scrapes_of(r, t);
				for (unsigned c = 0; c < 4; c++)
					if (classes >> c & 1)
						out->of[job][c][p] += v;
			}
		}
	}
}

static struct regex *expression(int function)
{
	struct regex *re = NULL;
	char text[32];

	if (function < 0)
		return NULL;
	snprintf(text, sizeof(text), "^f%d$", function);
	assert_int_equal(regex_compile(text, REGEX_SEARCH, &re, NULL), 0);
	return re;
}

/* The frame of a function, found by a merge into the same symbols. */
static void find_frames(const struct query_selector *selector, struct tree_symbols *symbols,
	const struct ask *a, uint32_t *ret)
{
	struct query_env env = {.parts = fakes, .n_parts = n_fakes};
	struct query_spec spec = {
		.selector = selector, .symbols = symbols, .end_ns = INT64_MAX / 2};
	struct query_trees trees;
	struct tree functions;

	tree_init(&functions, NULL);
	assert_int_equal(query_merge(&env, &spec, &trees, NULL), 0);
	assert_int_equal(tree_project(&trees.groups[0].tree, NULL, symbols, &functions, NULL), 0);
	for (unsigned k = 0; k < a->n_chosen; k++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", a->chosen[k]);
		for (uint32_t f = 0; f < symbols->n_frames; f++)
			if (!strcmp(tree_symbols_text(symbols, symbols->frames[f].name, NULL),
				    name))
				ret[k] = f;
	}
	tree_done(&functions);
	query_trees_done(&trees);
}

static void check(const struct ask *a, int kind, bool grouped, const char *thread)
{
	static const char *const job = "job";
	char text[128];
	struct query_selector selector;
	struct query_env env = {.parts = fakes, .n_parts = n_fakes};
	struct tree_symbols symbols;
	struct regex *focus = expression(a->focus), *ignore = expression(a->ignore),
		     *hide = expression(a->hide);
	uint32_t frames[3] = {};
	char names[2][16];
	const char *at[2] = {names[0], names[1]};
	struct tree_choice choice = {.filter = {.focus = focus, .ignore = ignore, .hide = hide},
		.at = at,
		.frames = frames,
		.n_frames = a->n_chosen,
		.by_self = a->by_self};
	struct query_matrix m;
	struct sums sums = {};
	struct errbuf eb = {};

	while (choice.n_at < 2 && a->at[choice.n_at] >= 0) {
		snprintf(names[choice.n_at], sizeof(names[0]), "f%d", a->at[choice.n_at]);
		choice.n_at++;
	}
	snprintf(text, sizeof(text), "%s:cpu:nanoseconds:cpu:nanoseconds{%s%s%s}",
		kind == STORE_INSTANT ? "goroutine" : "process_cpu", thread ? "thread_name=\"" : "",
		thread ? thread : "", thread ? "\"" : "");
	assert_int_equal(query_selector_parse(text, &selector, &eb), 0);
	tree_symbols_init(&symbols, NULL);
	find_frames(&selector, &symbols, a, frames);
	struct query_spec spec = {.selector = &selector,
		.stacks = &choice,
		.symbols = &symbols,
		.start_ns = START,
		.end_ns = START + (N_POINTS - 1) * STEP,
		.step_ns = STEP,
		.group_by = &job,
		.n_group_by = grouped,
		.group = true};
	if (query_over_time(&env, &spec, &m, &eb) < 0)
		fail_msg("%s: %s", text, eb.text);
	naive(a, kind, grouped, thread, &sums);
	for (size_t i = 0; i < m.n_lines; i++)
		for (size_t k = 0; k < m.lines[i].n_points; k++) {
			const struct query_point *p = &m.lines[i].points[k];
			int db = !strcmp(labels_get(&m.lines[i].labels, "job"), "db");

			sums.of[db][m.lines[i].function][(p->time_ns - START) / STEP] -= p->value;
		}
	for (size_t i = 0; i < sizeof(sums) / sizeof(double); i++)
		if (fabs(((const double *)&sums)[i]) > 1e-6)
			fail_msg("%s, question %td: differs by %g", text, a - asks,
				((const double *)&sums)[i]);
	query_matrix_done(&m);
	query_selector_done(&selector);
	tree_symbols_done(&symbols);
	regex_free(focus);
	regex_free(ignore);
	regex_free(hide);
}

static void test_random(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		make_records();
		for (size_t i = 0; i < ARRAY_SIZE(asks); i++)
			for (unsigned how = 0; how < 8; how++)
				check(&asks[i], how & 1 ? STORE_INSTANT : STORE_DELTA, how & 2,
					how & 4 ? "gc" : NULL);
		drop_records();
	}
}

/* Averages are over profiles, whole, wherever their rows and pages lie, and whatever their kind. */
static void check_average(int kind, const char *thread)
{
	static const char *const job = "job";
	double sums[2][N_POINTS] = {}, counts[2][N_POINTS] = {};
	struct query_selector selector;
	struct query_env env = {.parts = fakes, .n_parts = n_fakes};
	struct query_matrix m;
	char text[128];

	snprintf(text, sizeof(text), "%s:cpu:nanoseconds:cpu:nanoseconds{%s%s%s}",
		kind == STORE_INSTANT ? "goroutine" : "process_cpu", thread ? "thread_name=\"" : "",
		thread ? thread : "", thread ? "\"" : "");
	for (size_t i = 0; i < n_records; i++) {
		const struct record *r = &records[i];
		int db = !strcmp(r->series.value[2], "db");
		int64_t p = r->time <= START - STEP ? -1 : (r->time - START + STEP - 1) / STEP;
		double v = 0;
		bool any = !thread;

		if (r->kind != kind || p < 0 || p >= N_POINTS)
			continue;
		for (size_t k = 0; k < r->n_rows; k++) {
			const char *have = r->rows[k].labels.value[4];

			if (thread && (!have || strcmp(have, thread) != 0))
				continue;
			any = true;
			v += (double)r->rows[k].value[1];
		}
		sums[db][p] += v;
		counts[db][p] += any;
	}
	assert_int_equal(query_selector_parse(text, &selector, NULL), 0);
	struct query_spec spec = {.selector = &selector,
		.average = true,
		.start_ns = START,
		.end_ns = START + (N_POINTS - 1) * STEP,
		.step_ns = STEP,
		.group_by = &job,
		.n_group_by = 1,
		.group = true};
	assert_int_equal(query_over_time(&env, &spec, &m, NULL), 0);
	for (size_t i = 0; i < m.n_lines; i++)
		for (size_t k = 0; k < m.lines[i].n_points; k++) {
			const struct query_point *p = &m.lines[i].points[k];
			int db = !strcmp(labels_get(&m.lines[i].labels, "job"), "db");
			int64_t at = (p->time_ns - START) / STEP;

			assert_true(counts[db][at] > 0);
			assert_true(fabs(p->value - sums[db][at] / counts[db][at]) < 1e-6);
			counts[db][at] = 0;
		}
	for (int k = 0; k < 2 * N_POINTS; k++) /* every bucket was answered */
		assert_true(counts[k / N_POINTS][k % N_POINTS] == 0);
	query_matrix_done(&m);
	query_selector_done(&selector);
}

static void test_average(void **state)
{
	(void)state;
	for (int round = 0; round < 30; round++) {
		make_records();
		for (unsigned how = 0; how < 4; how++)
			check_average(how & 1 ? STORE_INSTANT : STORE_DELTA, how & 2 ? "gc" : NULL);
		drop_records();
	}
}

/* A gauge has no stacks: to choose among them is a mistake, not an empty answer. */
static void test_gauge_refused(void **state)
{
	struct query_selector selector;
	struct query_env env = {.parts = fakes, .n_parts = 1};
	const char *at = "main";
	struct tree_choice choice = {.at = &at, .n_at = 1};
	struct tree_symbols symbols;
	struct query_matrix m;
	struct errbuf eb = {};

	(void)state;
	n_records = n_fakes = 1;
	records[0] =
		(struct record) {.series.value[NAME] = "up", .kind = STORE_GAUGE, .time = START};
	fakes[0] = fake_new(0);
	tree_symbols_init(&symbols, NULL);
	assert_int_equal(query_selector_parse("up{}", &selector, NULL), 0);
	struct query_spec spec = {.selector = &selector,
		.stacks = &choice,
		.symbols = &symbols,
		.start_ns = START,
		.end_ns = START,
		.step_ns = STEP};
	assert_int_equal(query_over_time(&env, &spec, &m, &eb), -EINVAL);
	assert_non_null(strstr(eb.text, "has no stacks"));
	query_selector_done(&selector);
	tree_symbols_done(&symbols);
	drop_records();
}

/* Every allocation that may fail, failing. */
static void test_no_memory(void **state)
{
	const struct ask *a = &asks[8];
	struct query_selector selector;
	struct query_env env = {.parts = fakes};
	struct tree_symbols symbols;
	struct regex *focus = expression(a->focus);
	uint32_t frames[3] = {};
	struct tree_choice choice = {
		.filter.focus = focus, .frames = frames, .n_frames = a->n_chosen};
	int r = -ENOMEM;

	(void)state;
	make_records();
	env.n_parts = n_fakes;
	assert_int_equal(query_selector_parse(
				 "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", &selector, NULL),
		0);
	for (unsigned n = 1; r; n++) {
		struct query_matrix m = {};
		struct errbuf eb = {};

		tree_symbols_init(&symbols, NULL);
		find_frames(&selector, &symbols, a, frames);
		struct query_spec spec = {.selector = &selector,
			.stacks = &choice,
			.symbols = &symbols,
			.start_ns = START,
			.end_ns = START + 50 * SEC,
			.step_ns = STEP,
			.group = true};
		alloc_fail_after(n);
		r = query_over_time(&env, &spec, &m, &eb);
		alloc_fail_after(0);
		if (r)
			assert_int_equal(r, -ENOMEM);
		query_matrix_done(&m);
		tree_symbols_done(&symbols);
		assert_true(n < 10000);
	}
	query_selector_done(&selector);
	regex_free(focus);
	drop_records();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_average),
		cmocka_unit_test(test_gauge_refused),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
