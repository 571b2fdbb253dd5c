/* SPDX-License-Identifier: Apache-2.0
 *
 * The metrics text, JSON reading.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "lib/json/read.h"
#include "lib/net/metrics/metrics.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

static void collect(struct metrics_writer *w, void *arg)
{
	metrics_write_family(w, METRIC_GAUGE, "extra", "Help with \\ and\nnewline.");
	metrics_write(w, NAN, "a", arg, "b", "quote\" slash\\ line\n", NULL);
	metrics_write(w, -INFINITY, NULL);
}

static void test_text(void **state)
{
	static const double bounds[] = {0.005, 1};
	static char value[] = "x";
	struct metrics *m = metrics_new();
	struct metric *requests = metrics_counter(m, "requests_total", "Requests.", "code,handler");
	struct metric *g = metrics_gauge(m, "temperature", "Now.", NULL);
	struct metric *h = metrics_histogram(m, "took_seconds", "Took.", "op", bounds, 2);
	_cleanup_bytes_ struct bytes out = {0};

	(void)state;
	metrics_add_collector(m, collect, value);
	metric_inc(metric_cell(requests, "200", "/"));
	metric_add(metric_cell(requests, "200", "/"), 2);
	metric_inc(metric_cell(requests, "404", "/"));
	metric_inc(metric_cell(requests, "500", "/"));
	metric_remove_of(requests, (const char *const[]) {"500", "/"}, 2);
	metric_set(metric_only(g), 0.1);
	metric_observe(metric_cell(h, "a"), 0.005);
	metric_observe(metric_cell(h, "a"), 0.5);
	metric_observe(metric_cell(h, "a"), 7);
	metrics_print(m, &out);
	bytes_put_u8(&out, 0);
	assert_string_equal((char *)out.data,
		"# HELP requests_total Requests.\n"
		"# TYPE requests_total counter\n"
		"requests_total{code=\"200\",handler=\"/\"} 3\n"
		"requests_total{code=\"404\",handler=\"/\"} 1\n"
		"# HELP temperature Now.\n"
		"# TYPE temperature gauge\n"
		"temperature 0.1\n"
		"# HELP took_seconds Took.\n"
		"# TYPE took_seconds histogram\n"
		"took_seconds_bucket{op=\"a\",le=\"0.005\"} 1\n"
		"took_seconds_bucket{op=\"a\",le=\"1\"} 2\n"
		"took_seconds_bucket{op=\"a\",le=\"+Inf\"} 3\n"
		"took_seconds_sum{op=\"a\"} 7.505\n"
		"took_seconds_count{op=\"a\"} 3\n"
		"# HELP extra Help with \\\\ and\\nnewline.\n"
		"# TYPE extra gauge\n"
		"extra{a=\"x\",b=\"quote\\\" slash\\\\ line\\n\"} NaN\n"
		"extra -Inf\n");
	metrics_freep(&m);
}

enum { THREADS = 4, ADDS = 20000 };

static void *add_many(void *arg)
{
	for (int i = 0; i < ADDS; i++)
		metric_inc(metric_cell((struct metric *)arg, i % 2 ? "odd" : "even"));
	return NULL;
}

static void test_threads(void **state)
{
	struct metrics *m = metrics_new();
	struct metric *f = metrics_counter(m, "n_total", "N.", "kind");
	pthread_t t[THREADS];
	_cleanup_bytes_ struct bytes out = {0};

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, add_many, f), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	metrics_print(m, &out);
	bytes_put_u8(&out, 0);
	assert_non_null(strstr(
		(char *)out.data, "n_total{kind=\"even\"} 40000\nn_total{kind=\"odd\"} 40000\n"));
	metrics_freep(&m);
}

static void test_process(void **state)
{
	struct metrics *m = metrics_new();
	struct budget b;
	struct budget *list[] = {&b};
	_cleanup_bytes_ struct bytes out = {0};

	(void)state;
	budget_init(&b, NULL, "scrape", "--x", 100);
	assert_int_equal(budget_charge(&b, 40, NULL), 0);
	assert_int_equal(budget_charge(&b, 80, NULL), -ENOMEM);
	metrics_add_process(m, "sonde_build_info", "1.2", &clock_system);
	metrics_add_budgets(m, list, 1);
	metrics_print(m, &out);
	bytes_put_u8(&out, 0);
	assert_non_null(strstr((char *)out.data, "sonde_build_info{version=\"1.2\"} 1\n"));
	assert_non_null(
		strstr((char *)out.data, "sonde_memory_used_bytes{budget=\"scrape\"} 40\n"));
	assert_non_null(
		strstr((char *)out.data, "sonde_memory_refused_total{budget=\"scrape\"} 1\n"));
	assert_null(strstr((char *)out.data, "\nprocess_threads 0\n"));
	assert_null(strstr((char *)out.data, "process_resident_memory_bytes 0\n"));
	metrics_freep(&m);
}

static void test_json(void **state)
{
	static const char text[] = "{\"a\": [1, 2.5, \"x\", true, null], \"b\": {\"c\": \"d\"}}";
	_cleanup_(json_doc_freep)
	struct json_doc *d = NULL;
	const struct json_value *root, *a, *value;
	const char *key;
	void *pos = NULL;

	(void)state;
	assert_int_equal(json_read(text, strlen(text), 1000, &d, NULL), 0);
	root = json_doc_root(d);
	a = json_value_get(root, "a");
	assert_int_equal(json_value_len(a), 5);
	assert_int_equal(json_value_int(json_value_at(a, 0)), 1);
	assert_true(json_value_double(json_value_at(a, 1)) == 2.5);
	assert_string_equal(json_value_str(json_value_at(a, 2)), "x");
	assert_true(json_value_bool(json_value_at(a, 3)));
	assert_int_equal(json_value_kind(json_value_at(a, 4)), JSON_KIND_NULL);
	assert_null(json_value_at(a, 5));
	assert_null(json_value_get(a, "x"));
	assert_string_equal(json_value_kind_name(a), "an array");
	assert_true(json_value_next(root, &pos, &key, &value));
	assert_string_equal(key, "a");
	assert_true(json_value_next(root, &pos, &key, &value));
	assert_string_equal(json_value_str(json_value_get(value, "c")), "d");
	assert_false(json_value_next(root, &pos, &key, &value));
}

static void test_json_errors(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"{\"a\":1,\n\"a\":2}", "line 2, column 3: duplicate object key"},
		{"[1,]", "line 1, column 4"},
		{"{} x", "end of file expected"},
		{"\"\xff\"", "line 1"},
		{"\"\\u0000\"", "NUL"},
		{"", "line 1"},
	};
	struct json_doc *d = NULL;
	struct errbuf eb = {0};
	char deep[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&eb, 0, sizeof(eb));
		assert_int_equal(
			json_read(cases[i].text, strlen(cases[i].text), 1000, &d, &eb), -EBADMSG);
		if (!strstr(eb.text, cases[i].error))
			fail_msg("%s: \"%s\", expected \"%s\"", cases[i].text, eb.text,
				cases[i].error);
	}
	memset(deep, '[', 100);
	memset(deep + 100, ']', 100);
	assert_int_equal(json_read(deep, 200, 1000, &d, &eb), -EBADMSG);
	assert_int_equal(json_read("[]", 2, 1, &d, &eb), -EFBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
