/* SPDX-License-Identifier: Apache-2.0
 *
 * PromQL: what is parsed to what, and evaluation over series that are known. tests/e2e/test_prometheus.py compares the parser
 * with Prometheus' own.
 */
#include "lib/base/alloc.h"
#include "scraper/api/prometheus.h"
#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsing ---- */

static void print_selector(const struct promql_expr *e, struct bytes *out)
{
	static const char *const ops[] = {"=", "!=", "=~", "!~"};

	bytes_put_u8(out, '{');
	for (size_t i = 0; i < e->selector.n_matchers; i++)
		bytes_printf(out, "%s%s%s%s", i ? "," : "", e->selector.matchers[i].name,
			ops[e->selector.matchers[i].op], e->selector.matchers[i].value);
	bytes_put_u8(out, '}');
	if (e->range_ns)
		bytes_printf(out, "[%lld]", (long long)(e->range_ns / 1000000));
	if (e->offset_ns)
		bytes_printf(out, "@%lld", (long long)(e->offset_ns / 1000000));
}

/* Every operation in parentheses. */
static void print(const struct promql_expr *e, struct bytes *out)
{
	static const char *const aggregations[] = {"sum", "avg", "min", "max", "count", "topk"};

	switch (e->kind) {
	case PROMQL_NUMBER: bytes_printf(out, "%g", e->number); break;
	case PROMQL_SELECTOR: print_selector(e, out); break;
	case PROMQL_PAREN: print(e->left, out); break;
	case PROMQL_NEGATE:
		bytes_put_str(out, "(-");
		print(e->left, out);
		bytes_put_u8(out, ')');
		break;
	case PROMQL_BINARY:
		bytes_put_u8(out, '(');
		print(e->left, out);
		bytes_printf(out, " %c ", e->op);
		print(e->right, out);
		bytes_put_u8(out, ')');
		break;
	case PROMQL_CALL:
		bytes_put_str(out, e->function == PROMQL_RATE ? "rate(" : "increase(");
		print(e->left, out);
		bytes_put_u8(out, ')');
		break;
	case PROMQL_AGGREGATE:
		bytes_printf(out, "%s%s", aggregations[e->aggregation],
			!e->has_grouping ? ""
			: e->without	 ? " without"
					 : " by");
		for (size_t i = 0; i < e->n_grouping; i++)
			bytes_printf(out, " %s", e->grouping[i]);
		bytes_put_u8(out, '(');
		if (e->right) {
			print(e->right, out);
			bytes_put_str(out, ", ");
		}
		print(e->left, out);
		bytes_put_u8(out, ')');
	}
}

static void test_parse(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"1 + 2 * 3 ^ 2 ^ 2", "(1 + (2 * (3 ^ (2 ^ 2))))"},
		{"1 - 2 - 3", "((1 - 2) - 3)"},
		{"-1 ^ 2", "(-(1 ^ 2))"},
		{"-1 * 2", "((-1) * 2)"},
		{"+ - 1", "(-1)"},
		{"(1 + 2) % 3", "((1 + 2) % 3)"},
		{"0x10 + 010 + 08", "((16 + 8) + 8)"},
		{"a{b=\"c\",d!~'e|f',}", "{b=c,d!~e|f,__name__=a}"},
		{"rate(a:b[1h30m] offset -5m)", "rate({__name__=a:b}[5400000]@-300000)"},
		{"SUM(a) By (x,y,)", "sum by x y({__name__=a})"},
		{"topk without (x) (1 + 1, a)", "topk without x((1 + 1), {__name__=a})"},
		{"sum + count{by=\"z\"}", "({__name__=sum} + {by=z,__name__=count})"},
		{"a # b\n* c", "({__name__=a} * {__name__=c})"},
		{"{__name__=~'a.*'} offset 1d", "{__name__=~a.*}@86400000"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_promql_ struct promql_query q = {};
		_cleanup_bytes_ struct bytes out = {};
		struct errbuf eb = {};

		if (promql_parse(cases[i].text, &q, &eb) < 0)
			fail_msg("%s: %s", cases[i].text, eb.text);
		print(q.root, &out);
		bytes_put_u8(&out, 0);
		assert_string_equal((char *)out.data, cases[i].want);
	}
}

static void test_parse_errors(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"", "1:1: parse error: no expression found in input"},
		{"a +\n  ", "2:3: parse error: unexpected end of input"},
		{"a > 1", "1:3: not supported: operator >"},
		{"a and b", "1:3: not supported: operator and"},
		{"a + on(b) c", "1:5: not supported: on after an operator"},
		{"stddev(a)", "1:1: not supported: aggregation stddev(), only sum, avg, min, max, "
			      "count and topk"},
		{"irate(a[5m])",
			"1:1: not supported: function irate(), only rate() and increase()"},
		{"sum by (\"x.y\") (a)", "1:9: not supported: quoted labels in by and without"},
		{"limitk(2, a)",
			"1:1: not supported: aggregation limitk(), only sum, avg, min, max, "
			"count and topk"},
		{"first_over_time(a[5m])", "1:1: not supported: function first_over_time(), only "
					   "rate() and increase()"},
		{"nope(a)", "1:1: parse error: unknown function with name \"nope\""},
		{"a[5m:1m]", "1:2: not supported: subqueries"},
		{"a @ 1", "1:3: not supported: the @ modifier"},
		{"rate(a)", "1:6: parse error: expected type range vector in call to function "
			    "\"rate\", got "
			    "instant vector"},
		{"topk(a, 1)", "1:9: parse error: expected type instant vector in aggregation "
			       "expression, got "
			       "scalar"},
		{"a{b=\"\\q\"}", "1:6: parse error: unknown escape sequence"},
		{"a{b=~\"(\"}", "1:6: parse error: regular expression: position 1: missing ) of "
				"this group"},
		{"a[5m] + 1", "1:1: parse error: binary expression must contain only scalar and "
			      "instant vector "
			      "types"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct promql_query q;
		struct errbuf eb = {};

		assert_int_equal(promql_parse(cases[i].text, &q, &eb), -EINVAL);
		assert_string_equal(eb.text, cases[i].want);
	}
}

/* ---- evaluation over four series of three points ---- */

static const struct {
	const char *name, *job, *node;
	double values[3]; /* NaN: absent */
} stored[] = {
	{"a_total", "x", "1", {1, 2, 3}},
	{"a_total", "x", "2", {10, 20, 30}},
	{"a_total", "y", "1", {100, (double)NAN, 300}},
	{"b_total", "x", "1", {5, 5, 5}},
};

static int fake_select(
	void *ctx, const struct promql_select *s, struct promql_value *ret, struct errbuf *eb)
{
	struct arena *arena = ctx;

	for (size_t i = 0; i < ARRAY_SIZE(stored); i++) {
		_cleanup_labels_builder_ struct labels_builder b = {};
		struct promql_series *out;
		bool hit = true;

		for (size_t k = 0; k < s->selector->n_matchers; k++) {
			const struct query_matcher *m = &s->selector->matchers[k];
			const char *v = !strcmp(m->name, "__name__") ? stored[i].name
					: !strcmp(m->name, "job")    ? stored[i].job
					: !strcmp(m->name, "node")   ? stored[i].node
								     : "";

			hit &= query_matcher_matches(m, v, strlen(v), eb) == 1;
		}
		if (!hit)
			continue;
		out = promql_add_series(ret, arena, s->n_points);
		assert_non_null(out);
		labels_builder_init(&b);
		labels_builder_set(&b, "__name__", stored[i].name);
		labels_builder_set(&b, "job", stored[i].job);
		labels_builder_set(&b, "node", stored[i].node);
		assert_int_equal(labels_builder_finish(&b, &out->labels), 0);
		for (size_t k = 0; k < s->n_points; k++) {
			/* An offset of k seconds moves k points. */
			size_t at = (size_t)(s->start_ns / 1000000000) + k;

			out->present[k] = at < 3 && !isnan(stored[i].values[at]);
			out->values[k] = out->present[k] ? stored[i].values[at] : 0;
			if (s->window_ns)
				out->values[k] *= (double)s->window_ns / 1e9;
		}
	}
	return 0;
}

static int evaluate(
	const char *text, size_t n_points, int64_t start_s, struct bytes *out, struct errbuf *eb)
{
	_cleanup_promql_ struct promql_query q = {};
	_cleanup_promql_value_ struct promql_value v = {};
	_cleanup_arena_ struct arena arena;
	struct promql_run run = {.start_ns = start_s * 1000000000,
		.step_ns = 1000000000,
		.n_points = n_points,
		.arena = &arena,
		.select = fake_select,
		.ctx = &arena};
	char number[400];
	int r = promql_parse(text, &q, eb);

	arena_init(&arena, NULL);
	if (!r)
		r = promql_eval(&run, &q, &v, eb);
	for (size_t k = 0; !r && v.type == PROMQL_SCALAR && k < n_points; k++) {
		prometheus_format_value(v.scalar[k], number);
		bytes_printf(out, "%s%s", k ? " " : "", number);
	}
	for (size_t i = 0; !r && i < v.n_series; i++) {
		bytes_put_str(out, i ? "; " : "");
		labels_print(&v.series[i].labels, out);
		for (size_t k = 0; k < n_points; k++) {
			prometheus_format_value(v.series[i].values[k], number);
			bytes_printf(out, " %s", v.series[i].present[k] ? number : "-");
		}
	}
	bytes_put_u8(out, 0);
	return r;
}

static void test_eval(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"1 / 4", "0.25 0.25 0.25"},
		{"a_total{node='1'}", "{__name__=\"a_total\",job=\"x\",node=\"1\"} 1 2 3; "
				      "{__name__=\"a_total\",job=\"y\",node=\"1\"} 100 - 300"},
		{"a_total{job='x',node='1'} offset 1s",
			"{__name__=\"a_total\",job=\"x\",node=\"1\"} - 1 2"},
		{"rate(a_total{job='x',node='1'}[7s])", "{job=\"x\",node=\"1\"} 1 2 3"},
		{"increase(a_total{job='x',node='1'}[7s])", "{job=\"x\",node=\"1\"} 7 14 21"},
		{"sum(a_total)", "{} 111 22 333"},
		{"avg(a_total)", "{} 37 11 111"},
		{"count(a_total)", "{} 3 2 3"},
		{"min by (job) (a_total)", "{job=\"x\"} 1 2 3; {job=\"y\"} 100 - 300"},
		{"max without (job) (a_total)", "{node=\"1\"} 100 2 300; {node=\"2\"} 10 20 30"},
		{"topk(1, a_total)", "{__name__=\"a_total\",job=\"x\",node=\"2\"} - 20 -; "
				     "{__name__=\"a_total\",job=\"y\",node=\"1\"} 100 - 300"},
		{"topk(1, a_total) by (job)",
			"{__name__=\"a_total\",job=\"x\",node=\"2\"} 10 20 30; "
			"{__name__=\"a_total\",job=\"y\",node=\"1\"} 100 - 300"},
		{"topk(0, a_total)", ""},
		{"a_total * b_total", "{job=\"x\",node=\"1\"} 5 10 15"},
		{"b_total - 2", "{job=\"x\",node=\"1\"} 3 3 3"},
		{"2 - b_total", "{job=\"x\",node=\"1\"} -3 -3 -3"},
		{"-b_total % 3", "{job=\"x\",node=\"1\"} -2 -2 -2"},
		{"b_total ^ 2 / 0", "{job=\"x\",node=\"1\"} +Inf +Inf +Inf"},
		{"sum(a_total) / count(a_total)", "{} 37 11 111"},
		{"sum(nothing)", ""},
		{"sum({job='x'})", "{} 16 27 38"},
		{"count by (__name__) ({job='x'})",
			"{__name__=\"a_total\"} 2 2 2; {__name__=\"b_total\"} 1 1 1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes out = {};
		struct errbuf eb = {};

		if (evaluate(cases[i].text, 3, 0, &out, &eb) < 0)
			fail_msg("%s: %s", cases[i].text, eb.text);
		assert_string_equal((char *)out.data, cases[i].want);
	}
}

/* At one point topk is in order of rank. */
static void test_eval_instant(void **state)
{
	_cleanup_bytes_ struct bytes out = {};

	(void)state;
	assert_int_equal(evaluate("topk(2, {node='1'})", 1, 0, &out, NULL), 0);
	assert_string_equal((char *)out.data, "{__name__=\"a_total\",job=\"y\",node=\"1\"} 100; "
					      "{__name__=\"b_total\",job=\"x\",node=\"1\"} 5");
}

static void test_eval_errors(void **state)
{
	static const struct {
		const char *text, *want;
		int error;
	} cases[] = {
		{"rate({job='x'}[5s])", "vector cannot contain metrics with the same labelset",
			-EDOM},
		{"-{job='x'}", "vector cannot contain metrics with the same labelset", -EDOM},
		{"{job='x'} + a_total",
			"many-to-many matching not allowed: labels other than __name__ must be "
			"unique on "
			"each side of +",
			-EDOM},
		{"topk(NaN, a_total)", "Scalar value nan overflows int64", -EDOM},
		{"a_total[5m]",
			"1:1: not supported: a range vector as the result; profiles are no samples",
			-EINVAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes out = {};
		struct errbuf eb = {};

		assert_int_equal(evaluate(cases[i].text, 3, 0, &out, &eb), cases[i].error);
		assert_string_equal(eb.text, cases[i].want);
	}
}

/* As Go's strconv writes them. */
static void test_numbers(void **state)
{
	static const struct {
		double v;
		const char *want;
	} cases[] = {{0, "0"}, {-0.0, "-0"}, {1, "1"}, {-1.5, "-1.5"}, {100, "100"},
		{1e15, "1000000000000000"}, {123456.789, "123456.789"},
		{1e20, "100000000000000000000"}, {1e21, "1e+21"}, {1.25e22, "1.25e+22"},
		{0.1, "0.1"}, {0.000001, "0.000001"}, {0.00000123, "0.00000123"},
		{9.99e-7, "9.99e-07"}, {1e-100, "1e-100"}, {1.0 / 3, "0.3333333333333333"},
		{2.0 / 3, "0.6666666666666666"}, {0.1 + 0.2, "0.30000000000000004"},
		{9007199254740993.0, "9007199254740992"},
		{1.7976931348623157e308, "1.7976931348623157e+308"}, {5e-324, "5e-324"},
		{(double)INFINITY, "+Inf"}, {-(double)INFINITY, "-Inf"}};
	char text[400];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		prometheus_format_value(cases[i].v, text);
		assert_string_equal(text, cases[i].want);
	}
	for (uint64_t i = 0, x = 88172645463325252ULL; i < 20000; i++) {
		union {
			uint64_t bits;
			double d;
		} u;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		u.bits = x;
		if (isnan(u.d) || isinf(u.d))
			continue;
		prometheus_format_value(u.d, text);
		assert_true(strtod(text, NULL) == u.d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parse_errors),
		cmocka_unit_test(test_eval),
		cmocka_unit_test(test_eval_instant),
		cmocka_unit_test(test_eval_errors),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
