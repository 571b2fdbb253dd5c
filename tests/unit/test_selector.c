/* SPDX-License-Identifier: Apache-2.0
 *
 * The selector parser: what is taken, what is refused and where.
 */
#include "scraper/query/selector.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* type|name op value, … */
static void print(const struct query_selector *s, char *out, size_t n)
{
	static const char *const ops[] = {"=", "!=", "=~", "!~"};
	size_t len = 0;

	out[0] = 0;
	if (s->has_type)
		len = (size_t)snprintf(out, n, "%s/%s/%s/%s/%s|", s->type.name, s->type.sample_type,
			s->type.sample_unit, s->type.period_type, s->type.period_unit);
	for (size_t i = 0; i < s->n_matchers; i++)
		len += (size_t)snprintf(out + len, n - len, "%s%s%s%s", i ? "," : "",
			s->matchers[i].name, ops[s->matchers[i].op], s->matchers[i].value);
}

static void test_accepted(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"", ""},
		{"{}", ""},
		{" { } ", ""},
		{"process_cpu:cpu:nanoseconds:cpu:nanoseconds{}",
			"process_cpu/cpu/nanoseconds/cpu/nanoseconds|"},
		{"process_cpu:cpu:nanoseconds:cpu:nanoseconds",
			"process_cpu/cpu/nanoseconds/cpu/nanoseconds|"},
		{"memory:inuse_space:bytes:space:bytes:delta{a=\"b\"}",
			"memory/inuse_space/bytes/space/bytes|a=b"},
		{"off_cpu:off_cpu:nanoseconds::", "off_cpu/off_cpu/nanoseconds//|"},
		{"process_cpu{a=\"b\"}", "__name__=process_cpu,a=b"},
		{"up", "__name__=up"},
		{"{a=\"x\",b!='y',c=~`z.*`,d!~\"q|r\",}", "a=x,b!=y,c=~z.*,d!~q|r"},
		{"{ a = \"x\" , b = \"y\" }", "a=x,b=y"},
		{"{a=\"x\",a!=\"\"}", "a=x,a!="},
		{"{\"http.route\"=\"x\", 'ü'='ö'}", "http.route=x,ü=ö"},
		{"{\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\", a=\"b\"}",
			"process_cpu/cpu/nanoseconds/cpu/nanoseconds|a=b"},
		{"{\"up\"}", "__name__=up"},
		{"{a=\"\\\"\\\\\\n\\t\\x41\\101\\u00e9\\U0001F600\"}",
			"a=\"\\\n\tAA\xc3\xa9\xf0\x9f\x98\x80"},
		{"{a=`\\n\"'`}", "a=\\n\"'"},
		{"{a='\\''}", "a='"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct query_selector s;
		struct errbuf eb = {};
		char text[512];

		if (query_selector_parse(cases[i].text, &s, &eb) < 0)
			fail_msg("%s: %s", cases[i].text, eb.text);
		print(&s, text, sizeof(text));
		assert_string_equal(text, cases[i].want);
		query_selector_done(&s);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"{", "selector, position 1: { is not closed"},
		{"{a}", "selector, position 3: expected one of = != =~ !~"},
		{"{a=}", "selector, position 4: expected a quoted value"},
		{"{a=b}", "selector, position 4: expected a quoted value"},
		{"{a=\"b}", "selector, position 4: string is not closed"},
		{"{a=\"b\nc\"}", "selector, position 6: line break in a quoted string"},
		{"{a=\"b\" c=\"d\"}", "selector, position 8: expected , or }"},
		{"{a=\"b\",,}", "selector, position 8: expected a label name, a quoted name or }"},
		{"{9a=\"b\"}", "selector, position 2: expected a label name, a quoted name or }"},
		{"{a.b=\"c\"}",
			"selector, position 3: a label name with this character must be quoted"},
		{"{}x", "selector, position 3: unexpected text after the selector"},
		{"up{\"down\"}", "selector, position 4: a second profile type or metric name"},
		{"a:b:c:d:e:f", "selector, position 1: a profile type is "
				"name:sample_type:sample_unit:period_type:period_unit"},
		{"{a=~\"(\"}", NULL},
		{"{a=~\"\\x41(\"}", NULL},
		{"{a=\"\\q\"}", "selector, position 5: unknown escape sequence"},
		{"{a=\"\\x4\"}", "selector, position 5: bad escape sequence"},
		{"{a=\"\\x00\"}", "selector, position 5: a NUL character is not allowed"},
		{"{a=\"\\ud800\"}", "selector, position 5: escape is no valid Unicode code point"},
		{"{a=\"\\xff\"}", "selector, position 4: not valid UTF-8"},
		{"{a=\"\xff\"}", "selector, position 1: not valid UTF-8"},
		{"{\"\"=\"x\"}", "selector, position 2: empty label name"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct query_selector s;
		struct errbuf eb = {};

		if (query_selector_parse(cases[i].text, &s, &eb) != -EINVAL)
			fail_msg("%s was accepted", cases[i].text);
		if (cases[i].want)
			assert_string_equal(eb.text, cases[i].want);
		else
			assert_non_null(strstr(eb.text, "position 5: regular expression: "));
	}
}

static void test_too_many(void **state)
{
	char text[2048] = "{";
	struct query_selector s;
	struct errbuf eb = {};

	(void)state;
	for (int i = 0; i < 31; i++)
		strncat(text, "a=\"b\",", sizeof(text) - strlen(text) - 1);
	text[strlen(text) - 1] = '}';
	assert_int_equal(query_selector_parse(text, &s, &eb), 0);
	assert_int_equal(s.n_matchers, 31);
	query_selector_done(&s);
	text[strlen(text) - 1] = 0;
	strncat(text, ",a=\"b\"}", sizeof(text) - strlen(text) - 1);
	assert_int_equal(query_selector_parse(text, &s, &eb), -EINVAL);
}

static void test_matches(void **state)
{
	static const struct {
		const char *selector, *value;
		int want;
	} cases[] = {
		{"{a=\"x\"}", "x", 1},
		{"{a=\"x\"}", "", 0},
		{"{a=\"\"}", "", 1},
		{"{a!=\"x\"}", "", 1},
		{"{a=~\"x|y\"}", "y", 1},
		{"{a=~\"x\"}", "xx", 0},
		{"{a=~\".*\"}", "", 1},
		{"{a=~\".+\"}", "", 0},
		{"{a!~\"x.*\"}", "xy", 0},
		{"{a!~\"x.*\"}", "y", 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct query_selector s;

		assert_int_equal(query_selector_parse(cases[i].selector, &s, NULL), 0);
		assert_int_equal(query_matcher_matches(&s.matchers[0], cases[i].value,
					 strlen(cases[i].value), NULL),
			cases[i].want);
		query_selector_done(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_matches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
