/* SPDX-License-Identifier: Apache-2.0
 *
 * What trees refer to: equal content has one id, however it came in.
 */
#include "lib/prof/profile.h"
#include "lib/tree/symbols.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* Strings that came at once and those that came one by one are found again, whoever was first. */
static void test_strings(void **state)
{
	static const struct prof_str texts[] = {{"b", 1}, {"", 0}, {"a\0c", 3}, {"a", 1}};
	uint32_t first[ARRAY_SIZE(texts)], again[ARRAY_SIZE(texts)];
	size_t len;

	(void)state;
	for (unsigned early = 0; early < 2; early++) {
		_cleanup_tree_symbols_ struct tree_symbols s;
		uint32_t a = 0;

		tree_symbols_init(&s, NULL);
		if (early)
			a = tree_symbols_string(&s, "a", 1);
		tree_symbols_strings(&s, texts, ARRAY_SIZE(texts), first);
		if (early)
			assert_int_equal(first[3], a);
		assert_int_equal(first[1], 0);
		assert_memory_equal(tree_symbols_text(&s, first[2], &len), "a\0c", 4);
		assert_int_equal(len, 3);
		assert_int_equal(tree_symbols_string(&s, "b", 1), first[0]);
		assert_int_equal(tree_symbols_string(&s, "new", 3), 4);
		tree_symbols_strings(&s, texts, ARRAY_SIZE(texts), again);
		assert_memory_equal(first, again, sizeof(first));
		assert_int_equal(s.n_strings, 5);
	}
}

/* What came without a look-up is found by one. */
static void test_new_symbols(void **state)
{
	const struct tree_function f = {.name = 1, .start_line = 3}, other = {.name = 2};
	const struct tree_line lines[] = {{.function = 0, .line = 7}, {.function = 1, .line = 9}};
	_cleanup_tree_symbols_ struct tree_symbols s;

	(void)state;
	tree_symbols_init(&s, NULL);
	assert_int_equal(tree_symbols_new_function(&s, &f), 0);
	assert_int_equal(tree_symbols_function(&s, &other), 1);
	assert_int_equal(tree_symbols_function(&s, &f), 0);
	assert_int_equal(tree_symbols_new_location(&s, 5, TREE_NONE, lines, 2), 0);
	assert_int_equal(tree_symbols_new_location(&s, 5, TREE_NONE, lines, 1), 1);
	assert_int_equal(tree_symbols_location(&s, 6, TREE_NONE, lines, 2), 2);
	assert_int_equal(tree_symbols_location(&s, 5, TREE_NONE, lines, 1), 1);
	assert_int_equal(tree_symbols_location(&s, 5, TREE_NONE, lines, 2), 0);
	assert_int_equal(s.n_functions, 2);
	assert_int_equal(s.n_locations, 3);
}

static void test_kinds(void **state)
{
	static const struct {
		const char *file;
		enum tree_kind kind;
	} cases[] = {
		{"[kernel.kallsyms]", TREE_KERNEL},
		{"[kernel.kallsyms]_stext", TREE_KERNEL},
		{"/lib/modules/6.1/kernel/fs/ext4.ko.xz", TREE_KERNEL},
		{"[vdso]", TREE_NATIVE},
		{"[jit]", TREE_JIT},
		{"/tmp/perf-12.map", TREE_JIT},
		{"[python]", TREE_INTERPRETER},
		{"/usr/bin/python3.11", TREE_NATIVE},
		{"", TREE_NATIVE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(tree_kind_of_mapping(cases[i].file), cases[i].kind);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_new_symbols),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
