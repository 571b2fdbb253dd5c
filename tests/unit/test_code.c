/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of mappings: a table that the web interface reads too.
 */
#include "lib/base/cleanup.h"
#include "lib/prof/code.h"
#include "lib/tree/symbols.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *language_name(enum prof_language language)
{
	static const char *const names[PROF_N_LANGUAGES] = {"", "python", "java", "javascript",
		"ruby", "php", "perl", "lua", "erlang", "dotnet"};

	return names[language];
}

static void check_case(const char *name, const char *kind, const char *language)
{
	static const char *const kinds[] = {"native", "kernel", "jit", "interpreter"};
	enum prof_language got = prof_language_of_mapping(name, strlen(name));

	if (strcmp(kinds[prof_code_of_mapping(name, strlen(name))], kind) != 0)
		fail_msg("%s: expected %s", name, kind);
	if (strcmp(tree_kind_name(tree_kind_of_mapping(name)), kind) != 0)
		fail_msg("%s in a tree: expected %s", name, kind);
	if (strcmp(language_name(got), language) != 0)
		fail_msg(
			"%s: language \"%s\", expected \"%s\"", name, language_name(got), language);
}

static void test_the_table(void **state)
{
	_cleanup_fclose_ FILE *f = fopen("tests/data/mappings.txt", "re");
	char line[256];
	int n = 0;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *kind = strchr(line, '\t'), *language = kind ? strchr(kind + 1, '\t') : NULL;

		if (line[0] == '#')
			continue;
		assert_non_null(language);
		*kind++ = *language++ = '\0';
		language[strcspn(language, "\n")] = '\0';
		check_case(line, kind, language);
		n++;
	}
	assert_in_range(n, 40, 1000);
}

/* A name need not end in a NUL byte. */
static void test_no_byte_behind_the_name_is_read(void **state)
{
	(void)state;
	assert_int_equal(prof_code_of_mapping("[python3.13]x", 7), PROF_CODE_NATIVE);
	assert_int_equal(prof_code_of_mapping("[ext4]x", 6), PROF_CODE_KERNEL);
	assert_int_equal(prof_code_of_mapping("", 0), PROF_CODE_NATIVE);
	assert_int_equal(prof_language_of_mapping("[python3", 7), PROF_LANGUAGE_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_table),
		cmocka_unit_test(test_no_byte_behind_the_name_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
