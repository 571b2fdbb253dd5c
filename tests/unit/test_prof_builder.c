/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile builder: interning, merging of equal samples, budgets and failing allocations.
 */
#include "lib/prof/profile.h"
#include "lib/base/alloc.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static uint32_t str(struct prof_builder *b, const char *s)
{
	return prof_builder_string(b, s, strlen(s));
}

static uint32_t location(
	struct prof_builder *b, uint64_t address, const char *function, int64_t line)
{
	struct prof_function f = {.name = str(b, function)};
	struct prof_line l = {.function = prof_builder_function(b, &f), .line = line};

	return prof_builder_location(b, address, PROF_NONE, &l, 1);
}

static void test_rows_are_interned(void **state)
{
	struct prof_mapping m = {.start = 1, .limit = 2};
	struct prof_function f = {.start_line = 3};
	struct prof_line lines[2] = {{.function = 0, .line = 1}, {.function = 0, .line = 2}};
	_cleanup_profile_ struct profile p;
	_cleanup_prof_builder_ struct prof_builder *b = NULL;

	(void)state;
	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	assert_int_equal(str(b, ""), 0);
	assert_int_equal(str(b, "a"), 1);
	assert_int_equal(prof_builder_string(b, "b\0c", 3), 2);
	assert_int_equal(prof_builder_string(b, "b\0d", 3), 3);
	assert_int_equal(str(b, "a"), 1);
	m.filename = f.name = 1;
	assert_int_equal(prof_builder_mapping(b, &m), 0);
	assert_int_equal(prof_builder_mapping(b, &m), 0);
	m.has_functions = 1;
	assert_int_equal(prof_builder_mapping(b, &m), 1);
	assert_int_equal(prof_builder_function(b, &f), 0);
	f.start_line = 4;
	assert_int_equal(prof_builder_function(b, &f), 1);
	f.start_line = 3;
	assert_int_equal(prof_builder_function(b, &f), 0);
	assert_int_equal(prof_builder_location(b, 7, 0, lines, 2), 0);
	assert_int_equal(prof_builder_location(b, 7, 0, lines, 1), 1);
	assert_int_equal(prof_builder_location(b, 7, 0, NULL, 0), 2);
	assert_int_equal(prof_builder_location(b, 7, PROF_NONE, NULL, 0), 3);
	assert_int_equal(prof_builder_location_folded(b, 7, 0, lines, 2, 1), 4);
	assert_int_equal(prof_builder_location(b, 7, 0, lines, 2), 0);
	lines[1].column = 9;
	assert_int_equal(prof_builder_location(b, 7, 0, lines, 2), 5);
	prof_builder_comment(b, "x", 1);
	prof_builder_comment(b, "y", 1);
	prof_builder_comment(b, "x", 1);
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	assert_int_equal(p.n_strings, 6);
	assert_int_equal(p.n_mappings, 2);
	assert_int_equal(p.n_functions, 2);
	assert_int_equal(p.n_locations, 6);
	assert_int_equal(p.n_lines, 7);
	assert_int_equal(p.n_comments, 2);
	assert_true(profile_str_is(&p, p.comments[1], "y"));
	assert_int_equal(profile_str(&p, 2).len, 3);
	assert_memory_equal(profile_str(&p, 3).p, "b\0d", 3);
	assert_int_equal(profile_str(&p, PROF_NONE).len, 0);
	assert_int_equal(p.locations[5].first_line, 5);
	assert_int_equal(p.lines[6].column, 9);
	assert_int_equal(p.n_samples, 0);
	assert_int_equal(p.stack_first[0], 0);
}

static void test_samples_merge(void **state)
{
	_cleanup_profile_ struct profile p;
	_cleanup_prof_builder_ struct prof_builder *b = NULL;
	struct prof_label label = {.num = 0}, two[2];
	const int64_t values[] = {1, 10};
	uint32_t stack[2], reversed[2];

	(void)state;
	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	prof_builder_type(b, "samples", "count");
	prof_builder_type(b, "cpu", "nanoseconds");
	stack[0] = reversed[1] = location(b, 1, "leaf", 5);
	stack[1] = reversed[0] = location(b, 2, "main", 6);
	label.key = str(b, "comm");
	label.str = str(b, "x");
	two[0] = two[1] = label;
	two[1].num_unit = label.str;
	prof_builder_sample(b, stack, 2, values, NULL, 0, 1);
	prof_builder_sample(b, reversed, 2, values, NULL, 0, 1);
	prof_builder_sample(b, stack, 2, values, &label, 1, 1);
	prof_builder_sample(b, stack, 1, values, NULL, 0, 1);
	prof_builder_sample(b, NULL, 0, values, NULL, 0, 1);
	prof_builder_sample(b, stack, 2, values, two, 2, 1);
	prof_builder_sample(b, stack, 2, values, NULL, 0, 1);
	prof_builder_sample(b, stack, 2, values, &label, 1, 1);
	prof_builder_sample(b, NULL, 0, values, NULL, 0, 1);
	prof_builder_sample(b, stack, 2, values, NULL, 0, 0); /* told not to merge */
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	assert_int_equal(p.n_types, 2);
	assert_true(profile_str_is(&p, p.types[1].unit, "nanoseconds"));
	assert_int_equal(p.n_samples, 7);
	static const int64_t want[] = {2, 20, 1, 10, 2, 20, 1, 10, 2, 20, 1, 10, 1, 10};
	assert_memory_equal(p.values, want, sizeof(want));
	assert_int_equal(p.stack_first[7], p.n_stack_words);
	assert_int_equal(p.label_first[7], p.n_labels);
	assert_int_equal(p.stack_first[3] - p.stack_first[2], 2);
	assert_int_equal(p.label_first[3] - p.label_first[2], 1);
	assert_int_equal(p.stacks[p.stack_first[1]], stack[1]);
}

/* Many rows: every index still answers right after growing. */
static void test_growth(void **state)
{
	_cleanup_profile_ struct profile p;
	_cleanup_prof_builder_ struct prof_builder *b = NULL;
	enum { N = 20000 };

	(void)state;
	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	prof_builder_type(b, "n", "count");
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < N; i++) {
			int64_t value = i;
			uint32_t loc;
			char name[16];

			snprintf(name, sizeof(name), "f%u", i);
			loc = location(b, i, name, i);
			assert_int_equal(loc, i);
			prof_builder_sample(b, &loc, 1, &value, NULL, 0, 1);
		}
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	assert_int_equal(p.n_samples, N);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(p.values[i], 2 * i);
	/* There were no labels. */
	for (uint32_t i = 0; i <= N; i++)
		assert_int_equal(p.label_first[i], 0);
}

static int build_some(struct profile *p, bool labelled, struct errbuf *eb)
{
	_cleanup_prof_builder_ struct prof_builder *b = prof_builder_new(p);
	struct prof_label label = {.num = 1};

	prof_builder_type(b, "n", "count");
	for (uint32_t i = 0; i < 500; i++) {
		struct prof_mapping m = {.start = i};
		int64_t value = 1;
		uint32_t loc;
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		loc = location(b, i, name, 1);
		label.key = str(b, name);
		prof_builder_mapping(b, &m);
		prof_builder_sample(b, &loc, 1, &value, &label, labelled, 1);
	}
	prof_builder_comment(b, "c", 1);
	return prof_builder_finish(b, eb);
}

static void check_failing_allocations(bool labelled)
{
	bool succeeded = false;

	for (unsigned n = 1; n < 500 && !succeeded; n++) {
		_cleanup_profile_ struct profile p;
		struct errbuf eb = {.text = ""};
		int r;

		profile_init(&p, NULL);
		alloc_fail_after(n);
		r = build_some(&p, labelled, &eb);
		alloc_fail_after(0);
		succeeded = !r;
		if (r) {
			assert_int_equal(r, -ENOMEM);
			assert_true(strstr(eb.text, "out of memory") != NULL);
			assert_int_equal(p.n_samples, 0);
		}
	}
	assert_true(succeeded);
}

static void test_failing_allocations_stick(void **state)
{
	(void)state;
	check_failing_allocations(true);
	check_failing_allocations(false);
}

static void check_budget(bool labelled)
{
	struct budget budget;
	struct errbuf eb = {.text = ""};
	struct profile p;

	budget_init(&budget, NULL, "scrape", "--scrape.max-bytes", 32 << 10);
	profile_init(&p, &budget);
	assert_int_equal(build_some(&p, labelled, &eb), -ENOMEM);
	assert_true(strstr(eb.text, "--scrape.max-bytes") != NULL);
	profile_done(&p);
	assert_int_equal(budget.used_bytes, 0);
	budget_init(&budget, NULL, "scrape", "--scrape.max-bytes", 1 << 20);
	profile_init(&p, &budget);
	assert_int_equal(build_some(&p, labelled, &eb), 0);
	assert_int_equal(budget.used_bytes, p.arena.total_bytes);
	profile_done(&p);
	assert_int_equal(budget.used_bytes, 0);
}

static void test_budget(void **state)
{
	(void)state;
	check_budget(true);
	check_budget(false);
}

enum { N_FOUND = 300 };

/* String, function and location i, of which every third is in the builder. */
static void put_candidate(struct prof_builder *b, uint32_t i, char *name, struct prof_str *s,
	struct prof_function *f, struct prof_location *l, struct prof_line *line)
{
	snprintf(name, 16, "name %u", i);
	*s = (struct prof_str) {name, (uint32_t)strlen(name)};
	if (i % 3 == 0)
		location(b, i, name, i);
	/* what location() makes: the empty string, then name, function and location i / 3 */
	*f = (struct prof_function) {.name = i % 3 ? PROF_NONE - 1 : i / 3 + 1};
	*line = (struct prof_line) {.function = i % 3 ? PROF_NONE - 1 : i / 3, .line = i};
	*l = (struct prof_location) {
		.address = i, .mapping = PROF_NONE, .first_line = i, .n_lines = 1};
}

static void test_many_are_found(void **state)
{
	enum { UNTOUCHED = 12345678 };
	static char names[N_FOUND][16];
	struct prof_str s[N_FOUND];
	struct prof_function f[N_FOUND];
	struct prof_location l[N_FOUND];
	struct prof_line lines[N_FOUND];
	uint32_t rows[3][N_FOUND];
	_cleanup_profile_ struct profile p;
	_cleanup_prof_builder_ struct prof_builder *b = NULL;

	(void)state;
	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	for (size_t i = 0; i < N_FOUND; i++)
		rows[0][i] = rows[1][i] = rows[2][i] = UNTOUCHED;
	/* In a builder that has none of them. */
	prof_builder_find_functions(b, f, 0, rows[1]);
	prof_builder_find_locations(b, l, lines, 0, rows[2]);
	for (uint32_t i = 0; i < N_FOUND; i++) {
		put_candidate(b, i, names[i], &s[i], &f[i], &l[i], &lines[i]);
		if (i)
			continue;
		prof_builder_find_strings(b, s, 1, rows[0]);
		assert_int_equal(rows[0][0], 1);
	}
	prof_builder_find_strings(b, s, N_FOUND, rows[0]);
	prof_builder_find_functions(b, f, N_FOUND, rows[1]);
	prof_builder_find_locations(b, l, lines, N_FOUND, rows[2]);
	for (uint32_t i = 0; i < N_FOUND; i++) {
		assert_int_equal(rows[0][i], i % 3 ? UNTOUCHED : i / 3 + 1);
		assert_int_equal(rows[1][i], i % 3 ? UNTOUCHED : i / 3);
		assert_int_equal(rows[2][i], i % 3 ? UNTOUCHED : i / 3);
	}
	/* Equal but for one field. */
	l[0].address++;
	l[3].is_folded = 1;
	lines[6].column++;
	f[9].start_line++;
	s[12].len--;
	memset(rows, 0xff, sizeof(rows));
	prof_builder_find_strings(b, s, N_FOUND, rows[0]);
	prof_builder_find_functions(b, f, N_FOUND, rows[1]);
	prof_builder_find_locations(b, l, lines, N_FOUND, rows[2]);
	assert_int_equal(rows[2][0], PROF_NONE);
	assert_int_equal(rows[2][3], PROF_NONE);
	assert_int_equal(rows[2][6], PROF_NONE);
	assert_int_equal(rows[1][9], PROF_NONE);
	assert_int_equal(rows[0][12], PROF_NONE);
	assert_int_equal(rows[2][12], 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_interned),
		cmocka_unit_test(test_samples_merge),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_failing_allocations_stick),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_many_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
