/* SPDX-License-Identifier: Apache-2.0
 *
 * YAML and JSON trees: positions, aliases, merges, and everything that is refused, with its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/bytes.h"
#include "scraper/config/json.h"
#include "lib/conf/conf_yaml.h"
#include <string.h>

struct fixture {
	struct arena arena;
	struct conf_node *root;
	struct errbuf eb;
	int r;
};

static struct fixture parse_n(const char *text, size_t n)
{
	struct fixture f = {.root = NULL};

	arena_init(&f.arena, NULL);
	f.r = conf_yaml_parse("f.yml", text, n, &f.arena, &f.root, &f.eb);
	return f;
}

static struct fixture parse(const char *text)
{
	return parse_n(text, strlen(text));
}

static void test_as_json(void **state)
{
	static const struct {
		const char *yaml, *json;
	} cases[] = {
		{"a: 1\nb: [x, 'y', \"z\\n\", ~, true, 010]",
			"{\"a\":1,\"b\":[\"x\",\"y\",\"z\\n\",null,true,\"010\"]}"},
		{"x: &a {p: q}\ny: *a\n", "{\"x\":{\"p\":\"q\"},\"y\":{\"p\":\"q\"}}"},
		{"x: &a {p: q, r: s}\ny: {<<: *a, r: t}\n",
			"{\"x\":{\"p\":\"q\",\"r\":\"s\"},\"y\":{\"r\":\"t\",\"p\":\"q\"}}"},
		{"- &a {p: 1}\n- &b {p: 2, q: 3}\n- {<<: [*a, *b]}",
			"[{\"p\":1},{\"p\":2,\"q\":3},{\"p\":1,\"q\":3}]"},
		{"'<<': x", "{\"<<\":\"x\"}"},
		{"v: |\n  one\n  two\n", "{\"v\":\"one\\ntwo\\n\"}"},
		{"v: !!binary aGk=", "{\"v\":\"hi\"}"},
		{"v: !!str 5", "{\"v\":\"5\"}"},
		{"\xef\xbb\xbf"
		 "a: b",
			"{\"a\":\"b\"}"},
		{"{\"a\":\"b\",\"c\":[1,2]}", "{\"a\":\"b\",\"c\":[1,2]}"},
		{"a:\n", "{\"a\":null}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f = parse(cases[i].yaml);
		_cleanup_bytes_ struct bytes out = {.data = NULL};

		if (f.r < 0)
			fail_msg("%s: %s", cases[i].yaml, f.eb.text);
		conf_node_print(f.root, &out);
		bytes_put_u8(&out, 0);
		assert_string_equal((char *)out.data, cases[i].json);
		arena_done(&f.arena);
	}
}

static void test_positions(void **state)
{
	struct fixture f =
		parse("a:\n  - b: \"\xc3\xa9\xc3\xa9\"  # two characters\n    c: {d: e}\n");
	const struct conf_node *item = conf_node_get(f.root, "a")->items[0];

	(void)state;
	assert_int_equal(f.r, 0);
	assert_int_equal(item->line, 2);
	assert_int_equal(item->column, 5);
	assert_int_equal(conf_node_get(item, "b")->column, 8);
	assert_int_equal(conf_node_get(conf_node_get(item, "c"), "d")->line, 3);
	assert_int_equal(conf_node_get(conf_node_get(item, "c"), "d")->column, 12);
	arena_done(&f.arena);
	/* a byte order mark, as editors on Windows write it, is no text */
	f = parse("\xef\xbb\xbf"
		  "a: b\n");
	assert_int_equal(f.r, 0);
	assert_int_equal(conf_node_get(f.root, "a")->column, 4);
	arena_done(&f.arena);
}

static void test_empty(void **state)
{
	static const char *const empty[] = {
		"", "\n", "# nothing\n", "---\n", "~", "\xef\xbb\xbf# marked\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
		struct fixture f = parse(empty[i]);

		assert_int_equal(f.r, 0);
		assert_true(!f.root || conf_node_is_null(f.root));
		arena_done(&f.arena);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"a: b\na: c\n", "f.yml:2:1: duplicate key \"a\", already given in line 1"},
		{"a: b\nb: {x: 1, y: 2, x: 3}\n",
			"f.yml:2:17: duplicate key \"x\", already given in line 2"},
		{"a: [b\n", "f.yml:2:1: did not find expected ',' or ']' while parsing a flow "
			    "sequence"},
		{"a: b: c\n", "f.yml:1:5: mapping values are not allowed in this context"},
		{"a: *x\n", "f.yml:1:4: alias *x refers to no anchor before it"},
		{"a: &x [1, *x]\n", "f.yml:1:11: alias *x stands inside what it refers to"},
		{"? [a]\n: b\n", "f.yml:1:3: a key must be text, not a list"},
		{"a: !foo b\n", "f.yml:1:4: tag !foo is not supported"},
		{"a: !!binary '*'\n", "f.yml:1:4: !!binary is not base64"},
		{"a: !!binary /w==\n", "f.yml:1:4: text that is not valid UTF-8"},
		{"a: \"x\\0y\"\n", "f.yml:1:4: text with a NUL character"},
		{"a: b\n---\nc: d\n", "f.yml:2:1: a second document; expected one"},
		{"a: \xc3\xa9\xff\n", "f.yml:1:5: byte 0xff is not valid UTF-8"},
		{"\tb: c\n", "f.yml:1:1: found character that cannot start any token while "
			     "scanning for the next token"},
		{"<<: 5\n", "f.yml:1:5: << needs a mapping or a list of mappings"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f = parse(cases[i].text);

		assert_int_equal(f.r, -EINVAL);
		assert_string_equal(f.eb.text, cases[i].error);
		arena_done(&f.arena);
	}
}

/* A billion laughs, and depth through aliases. */
static void test_caps(void **state)
{
	_cleanup_bytes_ struct bytes text = {.data = NULL}, deep = {.data = NULL};
	struct fixture f;

	(void)state;
	bytes_put_str(&text, "- &a0 [x, x, x, x, x, x, x, x, x, x]\n");
	for (int i = 1; i < 9; i++) {
		bytes_printf(&text, "- &a%d [", i);
		for (int k = 0; k < 10; k++)
			bytes_printf(&text, "%s*a%d", k ? ", " : "", i - 1);
		bytes_put_str(&text, "]\n");
	}
	f = parse_n((char *)text.data, text.len);
	assert_int_equal(f.r, -EINVAL);
	assert_non_null(strstr(f.eb.text, "more than 1000000 values after aliases are followed"));
	arena_done(&f.arena);

	bytes_put_str(&deep, "- &a0 [x]\n");
	for (int i = 1; i < 100; i++)
		bytes_printf(&deep, "- &a%d [*a%d]\n", i, i - 1);
	f = parse_n((char *)deep.data, deep.len);
	assert_int_equal(f.r, -EINVAL);
	assert_non_null(strstr(f.eb.text, "nested deeper than 64"));
	arena_done(&f.arena);

	bytes_reset(&deep);
	for (int i = 0; i < 2000; i++)
		bytes_put_u8(&deep, '[');
	f = parse_n((char *)deep.data, deep.len);
	assert_int_equal(f.r, -EINVAL);
	assert_non_null(strstr(f.eb.text, "nested deeper than 64"));
	arena_done(&f.arena);
}

static void test_json(void **state)
{
	static const char good[] =
		"[{\"targets\": [\"a\\ud83d\\ude00\"], \"n\": 1, \"t\": true, \"z\": null}]";
	_cleanup_bytes_ struct bytes out = {.data = NULL};
	struct conf_node *root;
	struct errbuf eb = {0};
	struct arena arena;

	(void)state;
	arena_init(&arena, NULL);
	assert_int_equal(config_json_parse("f.json", good, strlen(good), &arena, &root, &eb), 0);
	conf_node_print(root, &out);
	bytes_put_u8(&out, 0);
	assert_string_equal((char *)out.data,
		"[{\"targets\":[\"a\xf0\x9f\x98\x80\"],\"n\":1,\"t\":true,\"z\":null}]");
	assert_int_equal(config_json_parse("f.json", "[1,]", 4, &arena, &root, &eb), -EINVAL);
	assert_memory_equal(eb.text, "f.json: line 1", 14);
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_json),
		cmocka_unit_test(test_positions),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
