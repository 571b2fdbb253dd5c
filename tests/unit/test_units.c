/* SPDX-License-Identifier: Apache-2.0
 *
 * Units: a table that the web interface reads too, and what any value and any name give.
 */
#include "lib/base/cleanup.h"
#include "lib/base/str.h"
#include "lib/base/units.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX = 256, MAX_FIELDS = 5 };

static size_t split(char *line, char *ret[MAX_FIELDS])
{
	size_t n = 0;

	line[strcspn(line, "\n")] = '\0';
	for (char *at = line; at && n < MAX_FIELDS; n++) {
		ret[n] = at;
		at = strchr(at, '\t');
		if (at)
			*at++ = '\0';
	}
	return n;
}

/* As C writes it: no thin gaps, "us" for "µs". */
static void plain(const char *text, char *ret)
{
	for (; *text; text++) {
		if (*text == '~')
			continue;
		if (str_starts_with(text, "\xc2\xb5")) {
			*ret++ = 'u';
			text++;
		} else
			*ret++ = *text;
	}
	*ret = '\0';
}

static void check_text(char *const f[MAX_FIELDS])
{
	char got[UNITS_TEXT_MAX], want[MAX];
	double value;

	assert_int_equal(str_parse_double(f[1], &value, NULL), 0);
	units_text(value, f[2], got);
	plain(f[3], want);
	if (strcmp(got, want) != 0)
		fail_msg("%s %s: %s, expected %s", f[1], f[2], got, want);
}

static void check_rate(char *const f[MAX_FIELDS])
{
	char got[UNITS_NAME_MAX];

	units_rate(f[1], f[2], !strcmp(f[3], "instant"), got);
	if (strcmp(got, f[4]) != 0)
		fail_msg("%s in %s: %s, expected %s", f[1], f[2], got, f[4]);
}

static void test_table(void **state)
{
	_cleanup_fclose_ FILE *f = fopen("tests/data/units.txt", "re");
	char line[MAX], *fields[MAX_FIELDS];
	size_t n_texts = 0, n_rates = 0;

	(void)state;
	if (!f)
		fail_msg("tests/data/units.txt is missing; run from the top of the tree");
	while (fgets(line, sizeof(line), f)) {
		size_t n = *line == '#' ? 0 : split(line, fields);

		if (n == 4 && !strcmp(fields[0], "text")) {
			check_text(fields);
			n_texts++;
		} else if (n == 5 && !strcmp(fields[0], "rate")) {
			check_rate(fields);
			n_rates++;
		} else if (n == 3 && !strcmp(fields[0], "name"))
			assert_string_equal(units_name(fields[1]), fields[2]);
		else if (*line != '#')
			fail_msg("none of text, rate, name: %s", line);
	}
	assert_true(n_texts > 50);
	assert_true(n_rates > 5);
}

/* Every text fits, has no exponent, and a longer name is cut between characters. */
static void test_any(void **state)
{
	static const double values[] = {0, -0.0, 1e-300, 1e-20, 0.1, 99.949999, 99.95, 1e5, 1e18,
		9.3e18, -9.3e18, 5e-324, -1e-20};
	static const char *const names[] = {"nanoseconds", "bytes", "count", "", "nanocores", "ppm",
		"widgets", "/second", "bytes/second",
		"\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6"
		"\xc3\xb6"
		"\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6"
		"\xc3\xb6"
		"\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6"
		"\xc3\xb6"
		"/second"};
	char text[UNITS_TEXT_MAX], name[UNITS_NAME_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			units_text(values[k], names[i], text);
			assert_true(strlen(text) > 0 && strlen(text) < UNITS_TEXT_MAX);
			assert_true(str_is_utf8(text, strlen(text)));
			assert_null(strstr(text, "e-"));
			assert_null(strstr(text, "e+"));
			assert_false(str_starts_with(text, "-0 ") || !strcmp(text, "-0"));
			assert_true(
				!str_ends_with(names[i], "/second") || str_ends_with(text, "/s"));
		}
		units_rate("x", names[i], false, name);
		assert_true(str_ends_with(name, "/second"));
		assert_true(str_is_utf8(name, strlen(name)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
