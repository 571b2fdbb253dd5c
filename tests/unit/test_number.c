/* SPDX-License-Identifier: Apache-2.0
 *
 * Which texts of labels are numbers, and that they come back as they went in.
 */
#include "lib/prof/number.h"
#include "lib/base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <cmocka.h>

static void test_read(void **state)
{
	static const struct {
		const char *key, *text;
		int64_t num; /* 0: a text */
		const char *unit;
	} cases[] = {
		{"bytes", "4096bytes", 4096, "bytes"},
		{"bytes", "4096", 4096, ""}, /* as Go's heap profiles have it */
		{"alignment", "8", 8, ""},
		{"latency", "-5milliseconds", -5, "milliseconds"},
		{"x", "9223372036854775807bytes", INT64_MAX, "bytes"},
		{"x", "9223372036854775808bytes", 0, ""},
		{"pid", "4096", 0, ""},
		{"hash", "1234567abcdef", 0, ""},
		{"bytes", "0", 0, ""}, /* pprof drops it as a number */
		{"bytes", "007", 0, ""},
		{"bytes", "4 bytes", 0, ""},
		{"bytes", "1-2", 0, ""},
		{"bytes", "bytes", 0, ""},
		{"bytes", "", 0, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[PROF_NUMBER_TEXT_MAX];
		const char *unit = NULL;
		int64_t num = 0;

		if (prof_number_read(cases[i].key, cases[i].text, &num, &unit) != !!cases[i].num)
			fail_msg("%s: %s", cases[i].key, cases[i].text);
		if (!cases[i].num)
			continue;
		assert_int_equal(num, cases[i].num);
		assert_string_equal(unit, cases[i].unit);
		prof_number_text(num, (struct prof_str) {unit, (uint32_t)strlen(unit)}, text);
		assert_string_equal(text, cases[i].text);
	}
}

static void test_labels(void **state)
{
	_cleanup_profile_ struct profile p;
	_cleanup_prof_builder_ struct prof_builder *b = NULL;
	static const int64_t values[] = {1};
	static const int64_t numbers[] = {7, 7, 8};

	(void)state;
	profile_init(&p, NULL);
	b = prof_builder_new(&p);
	prof_builder_type(b, "space", "bytes");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct prof_label l = {
			.key = prof_builder_string(b, "bytes", 5), .num = numbers[i]};

		prof_builder_sample(b, NULL, 0, values, &l, 1, false);
	}
	assert_int_equal(prof_builder_finish(b, NULL), 0);
	assert_int_equal(prof_number_labels(&p, NULL), 0);
	assert_true(profile_str_is(&p, p.labels[0].str, "7"));
	assert_true(profile_str_is(&p, p.labels[2].str, "8"));
	assert_int_equal(p.labels[0].str, p.labels[1].str);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
