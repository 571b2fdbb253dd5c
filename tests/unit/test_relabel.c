/* SPDX-License-Identifier: Apache-2.0
 *
 * Relabel rules: a table of rules in YAML, labels before and after. Cases follow Prometheus's
 * relabel_test.go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "scraper/config/config.h"
#include "scraper/relabel/relabel.h"
#include <string.h>

/* "a=1,b=2" into a builder. */
static void set_labels(struct labels_builder *b, const char *text)
{
	while (*text) {
		size_t name = strcspn(text, "="), value = strcspn(text + name + 1, ",");

		labels_builder_set_n(b, text, name, text + name + 1, value);
		text += name + 1 + value;
		text += *text == ',';
	}
}

static void print_labels(const struct labels_builder *b, struct bytes *out)
{
	for (size_t i = 0; i < b->n; i++)
		bytes_printf(out, "%s%s=%s", i ? "," : "", b->items[i].name, b->items[i].value);
	bytes_put_u8(out, 0);
}

static struct config_rules parse(const char *yaml)
{
	struct config_rules rules;
	struct errbuf eb = {0};

	if (config_parse_rules("rules", yaml, strlen(yaml), &rules, &eb) < 0)
		fail_msg("%s: %s", yaml, eb.text);
	return rules;
}

static const struct {
	const char *rules, *before, *after; /* NULL: dropped */
} cases[] = {
	/* replace */
	{"[{source_labels: [a], regex: 'f(.*)', target_label: d, replacement: 'ch${1}-ch${1}'}]",
		"a=foo,b=bar", "a=foo,b=bar,d=choo-choo"},
	{"[{source_labels: [a, b], regex: 'f(.*);(.*)r', target_label: a, replacement: "
	 "'b${1}${2}m'},"
	 " {source_labels: [a, c], regex: '(b).*b(.*)ba(.*)', target_label: d, replacement: "
	 "'$1$2$2$3'}]",
		"a=foo,b=bar,c=baz", "a=boobam,b=bar,c=baz,d=bam;am;z"},
	{"[{source_labels: [a], regex: x, target_label: d, replacement: y}]", "a=foo", "a=foo"},
	{"[{source_labels: [a], regex: 'oo', target_label: d, replacement: y}]", "a=foo", "a=foo"},
	{"[{source_labels: [a], regex: '.*', target_label: a, replacement: ''}]", "a=foo,b=x",
		"b=x"},
	{"[{source_labels: [a], regex: '(.+)', target_label: '$1', replacement: v}]", "a=foo",
		"a=foo,foo=v"},
	{"[{source_labels: [a], regex: '(.*)', target_label: '$2', replacement: v}]", "a=foo",
		"a=foo"},
	{"[{source_labels: [a], regex: '(.*)', target_label: '${1}-x.y', replacement: v}]", "a=foo",
		"a=foo,foo-x.y=v"},
	{"[{source_labels: [missing], target_label: d, replacement: const}]", "a=1", "a=1,d=const"},
	{"[{source_labels: [missing], target_label: a, replacement: ''}]", "a=1", ""},
	{"[{target_label: d, replacement: const}]", "a=1", "a=1,d=const"},
	{"[{source_labels: [missing], target_label: a}]", "a=1,b=2", "b=2"},
	{"[{source_labels: [a], target_label: b}]", "a=1", "a=1,b=1"},
	{"[{source_labels: [a, b], separator: '', target_label: c}]", "a=1,b=2", "a=1,b=2,c=12"},
	{"[{source_labels: [a, b], separator: '<>', target_label: c}]", "a=1,b=2",
		"a=1,b=2,c=1<>2"},
	{"[{source_labels: [a], regex: '(?P<x>.)(?P<y>.)', target_label: c, replacement: "
	 "'$y-${x}$$1x'}]",
		"a=12", "a=12,c=2-1$1x"},
	{"[{source_labels: [a], regex: '(1)', target_label: c, replacement: '$1x'}]", "a=1,c=old",
		"a=1"},
	{"[{source_labels: [a], regex: , target_label: c, replacement: empty}]", "b=1",
		"b=1,c=empty"},
	{"[{source_labels: [a], regex: , target_label: c, replacement: empty}]", "a=1", "a=1"},
	{"[{source_labels: [a], target_label: 'utf-8.label', replacement: 'x'}]", "a=1",
		"a=1,utf-8.label=x"},
	/* keep and drop */
	{"[{source_labels: [a], regex: 'foo|bar', action: keep}]", "a=bar", "a=bar"},
	{"[{source_labels: [a], regex: 'foo|bar', action: keep}]", "a=baz", NULL},
	{"[{source_labels: [a], regex: 'foo', action: keep}]", "b=1", NULL},
	{"[{source_labels: [a], regex: '.*o.*', action: drop}]", "a=foo", NULL},
	{"[{source_labels: [a], regex: 'f', action: DROP}]", "a=foo", "a=foo"},
	{"[{source_labels: [a], regex: '.*b.*', action: drop}, {target_label: x, replacement: y}]",
		"a=abc", NULL},
	{"[{action: keep}]", "a=1", "a=1"},
	/* keepequal and dropequal */
	{"[{source_labels: [a], target_label: b, action: keepequal}]", "a=1,b=1", "a=1,b=1"},
	{"[{source_labels: [a], target_label: b, action: keepequal}]", "a=1,b=2", NULL},
	{"[{source_labels: [a], target_label: b, action: dropequal}]", "a=1,b=1", NULL},
	{"[{source_labels: [x], target_label: y, action: dropequal}]", "a=1", NULL},
	{"[{source_labels: [a, b], target_label: c, action: dropequal}]", "a=1,b=2,c=1;2", NULL},
	/* hashmod: values from Prometheus's own test */
	{"[{source_labels: [c], target_label: d, modulus: 1000, action: hashmod}]",
		"a=foo,b=bar,c=baz", "a=foo,b=bar,c=baz,d=976"},
	{"[{source_labels: [c], target_label: d, modulus: 1000, action: hashmod}]",
		"a=foo\nbar,b=bar,c=baz", "a=foo\nbar,b=bar,c=baz,d=976"},
	/* labelmap */
	{"[{regex: '(b.*)', replacement: 'bar_${1}', action: labelmap}]", "a=foo,b1=bar,b2=baz",
		"a=foo,b1=bar,b2=baz,bar_b1=bar,bar_b2=baz"},
	{"[{regex: '__meta_(my.*)', replacement: '${1}', action: labelmap}]",
		"__meta_my_bar=aaa,__meta_my_baz=bbb,a=foo",
		"__meta_my_bar=aaa,__meta_my_baz=bbb,a=foo,my_bar=aaa,my_baz=bbb"},
	{"[{regex: 'x(.)', replacement: '$1', action: labelmap}]", "a=old,xa=new", "a=new,xa=new"},
	/* What a rule makes is not mapped again by the same rule. */
	{"[{regex: '(a+)', replacement: 'a$1', action: labelmap}]", "a=1", "a=1,aa=1"},
	/* labeldrop and labelkeep */
	{"[{regex: '(b.*)', action: labeldrop}]", "a=foo,b1=bar,b2=baz", "a=foo"},
	{"[{regex: '(b.*)', action: labelkeep}]", "a=foo,b1=bar,b2=baz", "b1=bar,b2=baz"},
	{"[{regex: 'foo', action: labelkeep}]", "__address__=x,foo=1", "foo=1"},
	/* case, with letters outside ASCII; one to one, so ß stays */
	{"[{source_labels: [a], target_label: l, action: lowercase}, {source_labels: [a], "
	 "target_label: u, action: uppercase}]",
		"a=bAr123Foo\xc3\x84\xc3\x9f\xd0\xaf",
		"a=bAr123Foo\xc3\x84\xc3\x9f\xd0\xaf,l=bar123foo\xc3\xa4\xc3\x9f\xd1\x8f,u="
		"BAR123FOO\xc3\x84\xc3\x9f\xd0\xaf"},
	/* . matches newlines */
	{"[{source_labels: [a], regex: 'x.y', action: keep}]", "a=x\ny", "a=x\ny"},
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct config_rules rules = parse(cases[i].rules);
		_cleanup_labels_builder_ struct labels_builder b;
		_cleanup_bytes_ struct bytes out = {.data = NULL};
		struct errbuf eb = {0};
		int r;

		labels_builder_init(&b);
		set_labels(&b, cases[i].before);
		r = relabel_apply(rules.rules, rules.n, &b, NULL, &eb);
		print_labels(&b, &out);
		if (r != (cases[i].after != NULL) ||
			(r && strcmp((char *)out.data, cases[i].after)))
			fail_msg("%s on %s: %d %s", cases[i].rules, cases[i].before, r,
				(char *)out.data);
		config_rules_free(&rules);
	}
}

static void test_which_rule_dropped(void **state)
{
	struct config_rules rules =
		parse("[{action: keep}, {source_labels: [a], regex: x, action: keep}]");
	_cleanup_labels_builder_ struct labels_builder b;
	size_t rule = 99;

	(void)state;
	labels_builder_init(&b);
	assert_int_equal(relabel_apply(rules.rules, rules.n, &b, &rule, NULL), 0);
	assert_int_equal(rule, 1);
	assert_string_equal(
		rules.texts[1], "{\"source_labels\":[\"a\"],\"regex\":\"x\",\"action\":\"keep\"}");
	config_rules_free(&rules);
}

static void test_checks(void **state)
{
	static const struct {
		const char *rules, *error;
	} refused[] = {
		{"[{}]", "rules:1:2: [0]: action replace requires target_label"},
		{"[{action: hashmod, target_label: x, modulus: 0}]",
			"rules:1:2: [0]: action hashmod requires a non-zero modulus"},
		{"[{action: keepequal}]", "rules:1:2: [0]: action keepequal requires target_label"},
		{"[{action: keepequal, target_label: x, regex: '(.*)'}]",
			"rules:1:46: [0].regex: regex can not be set for action keepequal"},
		{"[{action: dropequal, target_label: x, separator: ','}]",
			"rules:1:50: [0].separator: separator can not be set for action dropequal"},
		{"[{action: labelkeep, regex: a, target_label: x}]",
			"rules:1:46: [0].target_label: target_label can not be set for action "
			"labelkeep"},
		{"[{action: labelmap, replacement: ''}]",
			"rules:1:34: [0].replacement: action labelmap requires a label name as "
			"replacement"},
		{"[{action: frob}]", "rules:1:11: [0].action: unknown relabel action \"frob\", "
				     "expected one of replace, keep, drop, "
				     "keepequal, dropequal, hashmod, labelmap, labeldrop, "
				     "labelkeep, lowercase, uppercase"},
		{"", "rules: expected a list of relabel rules, got nothing"},
	};
	static const char *const accepted[] = {
		"[]",
		"[{action: lowercase, target_label: x, "
		"replacement: $1}]", /* the default may be written */
		"[{action: keepequal, target_label: x, separator: "
		";}]",
		"[{action: labeldrop}]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct config_rules rules;
		struct errbuf eb = {0};

		assert_int_equal(config_parse_rules("rules", refused[i].rules,
					 strlen(refused[i].rules), &rules, &eb),
			-EINVAL);
		assert_string_equal(eb.text, refused[i].error);
	}
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		struct config_rules rules = parse(accepted[i]);

		config_rules_free(&rules);
	}
}

/* The legacy scheme: `replace` leaves out a name that is none, and patterns are checked beforehand. */
static void test_legacy_names(void **state)
{
	static const struct {
		const char *name;
		bool is_name, is_template;
	} names[] = {
		{"a", true, true},
		{"_a1", true, true},
		{"1a", false, false},
		{"a.b", false, false},
		{"é", false, false},
		{"$1", false, true},
		{"${1}", false, true},
		{"a${1}_b2", false, true},
		{"${1}2", false, true},
		{"$1-x", false, false},
		{"a$", false, false},
		{"${1", false, false},
		{"${}", false, false},
		{"$${1}", false, false},
	};
	struct config_rules rules =
		parse("[{source_labels: [a], target_label: '${1}', replacement: v}]");
	_cleanup_labels_builder_ struct labels_builder b;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct relabel_rule rule = {.action = RELABEL_REPLACE,
			.target_label = names[i].name,
			.replacement = "x"};

		if (relabel_is_legacy_name(names[i].name) != names[i].is_name ||
			(relabel_rule_check_legacy(&rule, NULL) == 0) != names[i].is_template)
			fail_msg("%s", names[i].name);
		rule.action = RELABEL_HASHMOD;
		assert_true((relabel_rule_check_legacy(&rule, NULL) == 0) == names[i].is_name);
	}
	rules.rules[0].legacy_names = true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		labels_builder_init(&b);
		labels_builder_set(&b, "a", names[i].name);
		assert_int_equal(relabel_apply(rules.rules, rules.n, &b, NULL, NULL), 1);
		assert_string_equal(
			labels_builder_get(&b, names[i].name), names[i].is_name ? "v" : "");
		labels_builder_done(&b);
	}
	labels_builder_init(&b);
	config_rules_free(&rules);
}

/* An expression that explodes is an error of that rule, not a wrong answer. */
static void test_step_limit(void **state)
{
	struct config_rules rules = parse(
		"[{action: keep}, {source_labels: [a], regex: '((a*)*)*[bc]', action: drop}]");
	_cleanup_labels_builder_ struct labels_builder b;
	struct errbuf eb = {0};

	(void)state;
	labels_builder_init(&b);
	labels_builder_set(&b, "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	assert_int_equal(relabel_apply(rules.rules, rules.n, &b, NULL, &eb), -ENOMEM);
	assert_memory_equal(eb.text, "relabel rule 2: ", 16);
	config_rules_free(&rules);
}

/* Every allocation may fail: an error and nothing leaked. */
static void test_out_of_memory(void **state)
{
	struct config_rules rules = parse(
		"[{source_labels: [a, b], regex: '(.);(.)', target_label: c, replacement: '$2$1'},"
		" {regex: '(.)', replacement: 'x$1', action: labelmap},"
		" {source_labels: [a], target_label: a, action: uppercase}]");
	bool done = false;

	(void)state;
	for (unsigned n = 1; n < 200 && !done; n++) {
		_cleanup_labels_builder_ struct labels_builder b;
		int r;

		labels_builder_init(&b);
		set_labels(&b, "a=1,b=2");
		alloc_fail_after(n);
		r = relabel_apply(rules.rules, rules.n, &b, NULL, NULL);
		alloc_fail_after(0);
		assert_true(r == 1 || r == -ENOMEM);
		done = r == 1;
	}
	assert_true(done);
	config_rules_free(&rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_which_rule_dropped),
		cmocka_unit_test(test_checks),
		cmocka_unit_test(test_legacy_names),
		cmocka_unit_test(test_step_limit),
		cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
