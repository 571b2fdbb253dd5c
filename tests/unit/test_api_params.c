/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of query endpoints: times, ranges, defaults, what is refused.
 */
#include "lib/base/instant.h"
#include "scraper/api/params.h"
#include "lib/net/url/url.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static const int64_t SEC = 1000000000, NOW = 1795000000000000000;

static void test_times(void **state)
{
	static const struct {
		const char *text;
		int64_t want;
	} cases[] = {
		{"0", 0},
		{"1700000000", 1700000000000000000},
		{"1700000000.5", 1700000000500000000},
		{"1.7e9", 1700000000000000000},
		{"-5", -5000000000},
		{"1700000000123", 1700000000123000000},
		{"1700000000123456", 1700000000123456000},
		{"1700000000123456789", 1700000000123456789},
		{"9223372036854775807", INSTANT_MAX_NS},
		{"-9223372036854775808", -INSTANT_MAX_NS},
		{"2200-01-01T00:00:00Z", INSTANT_MAX_NS},
		/* what clients of Prometheus, Grafana and JavaScript send for "from the first to the last" */
		{"-9223309901257974", -INSTANT_MAX_NS},
		{"9223309901257974", INSTANT_MAX_NS},
		{"9223309901257974.999", INSTANT_MAX_NS},
		{"-292273086-05-16T16:47:06Z", -INSTANT_MAX_NS},
		{"292277025-08-18T07:12:54.999999999Z", INSTANT_MAX_NS},
		{"+292277025-08-18T07:12:54Z", INSTANT_MAX_NS},
		{"0001-01-01T00:00:00Z", -INSTANT_MAX_NS},
		{"9999-12-31T23:59:59+14:00", INSTANT_MAX_NS},
		{"9007199254740991", INSTANT_MAX_NS},
		{"92233720368547758", INSTANT_MAX_NS},
		{"18446744073709551615", INSTANT_MAX_NS},
		{"-1e30", -INSTANT_MAX_NS},
		{"+002023-11-14T22:13:20Z", 1700000000000000000},
		{"now", NOW},
		{"now-1h", NOW - 3600 * SEC},
		{"now-1h30m", NOW - 5400 * SEC},
		{"now-0", NOW},
		{"2023-11-14T22:13:20Z", 1700000000000000000},
		{"2023-11-14T22:13:20.25Z", 1700000000250000000},
		{"2023-11-15T00:13:20+02:00", 1700000000000000000},
		{"2023-11-14t22:13:20z", 1700000000000000000},
		{"2023-11-14 22:13:20Z", 1700000000000000000},
		{"2023-11-14T22:13:20.1234567891Z", 1700000000123456789},
	};
	static const char *const bad[] = {"", "x", "now+1h", "now-", "now-1x",
		"2023-13-14T22:13:20Z", "2023-02-30T00:00:00Z", "2023-11-14T25:00:00Z",
		"2023-11-14T22:13:20", "2023-11-14T22:13:20+2:00", "2023-11-14T22:13:20.Z",
		"2023-11-14", "NaN", "Inf", "9999-99-99T99:99:99Z", "-",
		"2922770250-08-18T07:12:54Z", "292277025-13-18T07:12:54Z",
		"--2023-11-14T22:13:20Z"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {};
		int64_t t = 1;

		if (instant_parse(cases[i].text, NOW, &t, &eb) < 0)
			fail_msg("%s: %s", cases[i].text, eb.text);
		if (t != cases[i].want)
			fail_msg("%s gave %lld", cases[i].text, (long long)t);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int64_t t;

		if (instant_parse(bad[i], NOW, &t, NULL) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
	}
}

static void test_steps(void **state)
{
	int64_t ns;

	(void)state;
	assert_int_equal(api_parse_step("15", &ns, NULL), 0);
	assert_int_equal(ns, 15 * SEC);
	assert_int_equal(api_parse_step("0.5", &ns, NULL), 0);
	assert_int_equal(ns, SEC / 2);
	assert_int_equal(api_parse_step("1m30s", &ns, NULL), 0);
	assert_int_equal(ns, 90 * SEC);
	assert_int_equal(api_parse_step("0", &ns, NULL), -EINVAL);
	assert_int_equal(api_parse_step("-1", &ns, NULL), -EINVAL);
	assert_int_equal(api_parse_step("1e300", &ns, NULL), -EINVAL);
	assert_int_equal(api_parse_step("abc", &ns, NULL), -EINVAL);
}

static void test_format_time(void **state)
{
	char text[40];

	(void)state;
	api_format_time(1700000000123456789, text);
	assert_string_equal(text, "2023-11-14T22:13:20.123Z");
	api_format_time(-NS_PER_MS, text);
	assert_string_equal(text, "1969-12-31T23:59:59.999Z");
	api_format_time(-2 * NS_PER_S, text);
	assert_string_equal(text, "1969-12-31T23:59:58.000Z");
	api_format_time(0, text);
	assert_string_equal(text, "0001-01-01T00:00:00Z");
}

static int parse(const char *query, struct api_params *p, struct errbuf *eb)
{
	static struct url_params u; /* outlives the parameters that point into it */

	url_params_done(&u);
	u = (struct url_params) {};
	assert_int_equal(url_params_parse(&u, query, strlen(query), 100, NULL), 0);
	return api_params_parse(&u, NOW, API_JSON, 1000000, p, eb);
}

static void test_defaults(void **state)
{
	struct api_params p;

	(void)state;
	assert_int_equal(parse("", &p, NULL), 0);
	assert_int_equal(p.end_ns, NOW);
	assert_int_equal(p.start_ns, NOW - 3600 * SEC);
	assert_int_equal(p.step_ns, 15 * SEC);
	assert_int_equal(p.format, API_JSON);
	assert_int_equal(p.terms, QUERY_PROMETHEUS_TERMS);
	assert_int_equal(p.n_selectors, 0);
	assert_false(p.group);
	api_params_done(&p);
}

static void test_all(void **state)
{
	struct api_params p;

	(void)state;
	assert_int_equal(
		parse("query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{a%3D%22b%22}&start=now-2d&"
		      "end=now-1d&focus=x&show_from=y&group_by=job&group_by=&group_by=comm&at=a&at="
		      "b&"
		      "max_nodes=100&limit=7&format=svg&step=1m",
			&p, NULL),
		0);
	assert_true(p.selectors[0].has_type);
	assert_int_equal(p.terms, QUERY_PROFILE_TERMS);
	assert_int_equal(p.start_ns, NOW - 2 * 86400 * SEC);
	assert_int_equal(p.end_ns, NOW - 86400 * SEC);
	assert_non_null(p.focus);
	assert_non_null(p.show_from);
	assert_null(p.ignore);
	assert_int_equal(p.n_group_by, 2);
	assert_true(p.group);
	assert_string_equal(p.at[1], "b");
	assert_int_equal(p.max_nodes, 100);
	assert_int_equal(p.limit, 7);
	assert_int_equal(p.format, API_SVG);
	assert_int_equal(p.step_ns, 60 * SEC);
	api_params_done(&p);
	/* go tool pprof -seconds N adds this to whatever URL it was given. */
	assert_int_equal(parse("query=up&start=1&end=1700000000&seconds=30", &p, NULL), 0);
	assert_int_equal(p.start_ns, 1699999970 * SEC);
	api_params_done(&p);
	/* Profiles say when they were; times that nothing can have do not overflow. */
	assert_int_equal(parse("start=now-1m&profile_id=00000000-3b9a-ca01-0000-0000000000aa&"
			       "profile_id=00000000-3b9a-ca00-0000-000000000001",
				 &p, NULL),
		0);
	assert_int_equal(p.n_profiles, 2);
	assert_int_equal(p.profiles[0].series, 0xaa);
	assert_int_equal(p.start_ns, SEC);
	assert_int_equal(p.end_ns, SEC + 1);
	api_params_done(&p);
	assert_int_equal(parse("profile_id=80000000-0000-0000-0000-000000000000&"
			       "profile_id=7fffffff-ffff-ffff-ffff-ffffffffffff",
				 &p, NULL),
		0);
	assert_true(p.start_ns == -4000000000 * SEC && p.end_ns == 4000000000 * SEC);
	api_params_done(&p);
	assert_int_equal(parse("match[]=up&match[]={a=\"b\"}&query_ignored=1", &p, NULL), 0);
	assert_int_equal(p.n_selectors, 2);
	assert_int_equal(p.terms, QUERY_PROMETHEUS_TERMS);
	api_params_done(&p);
	assert_int_equal(
		parse("start=-292273086-05-16T16:47:06Z&end=9223309901257974", &p, NULL), 0);
	assert_true(p.start_ns == -INSTANT_MAX_NS && p.end_ns == INSTANT_MAX_NS);
	assert_true(p.step_ns == 32000000 * SEC);
	api_params_done(&p);
	assert_int_equal(parse("start=0&end=100000", &p, NULL), 0);
	assert_int_equal(p.step_ns, 400 * SEC);
	api_params_done(&p);
}

static void test_refused(void **state)
{
	static const struct {
		const char *query, *want;
	} cases[] = {
		{"start=x",
			"start: cannot parse \"x\" as a time: unix seconds, RFC 3339 or now-1h"},
		{"end=x", "end: cannot parse \"x\" as a time: unix seconds, RFC 3339 or now-1h"},
		{"start=10&end=5", "end: is before start"},
		{"seconds=0", "seconds: \"0\" is no number of seconds above 0"},
		{"seconds=-3", "seconds: \"-3\" is no number of seconds above 0"},
		{"query={", "query: selector, position 1: { is not closed"},
		{"match[]=up&match[]={", "match[]: selector, position 1: { is not closed"},
		{"focus=(", NULL},
		{"focus=%FF", "focus: not valid UTF-8"},
		{"max_nodes=x", "max_nodes: \"x\" is no whole number"},
		{"max_nodes=1000001", "max_nodes: 1000001 is above the limit of 1000000"},
		{"limit=-1", "limit: \"-1\" is no whole number"},
		{"format=xml", "format: \"xml\" is none of json pprof folded speedscope svg html "
			       "dot csv text"},
		{"step=0", "step: cannot parse \"0\" as a step: seconds or a duration of at least "
			   "1ms"},
		{"group_by=a&group_by=b&group_by=c&group_by=d&group_by=e&group_by=f&group_by=g&"
		 "group_by=h&"
		 "group_by=i",
			"group_by: more than 8 labels"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {};
		struct api_params p;

		if (parse(cases[i].query, &p, &eb) != -EINVAL)
			fail_msg("%s was taken", cases[i].query);
		if (cases[i].want)
			assert_string_equal(eb.text, cases[i].want);
		else
			assert_memory_equal(eb.text, "focus: position", 15);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_format_time),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
