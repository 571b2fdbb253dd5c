/* SPDX-License-Identifier: Apache-2.0
 *
 * Label sets: order, replacement, deletion, canonical bytes, text.
 */
#include "lib/prof/labels.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* "name=value" strings applied in order. */
static void build(struct labels *ret, const char *const *sets)
{
	_cleanup_labels_builder_ struct labels_builder b;

	labels_builder_init(&b);
	for (; *sets; sets++) {
		const char *eq = strchr(*sets, '=');

		labels_builder_set_n(&b, *sets, (size_t)(eq - *sets), eq + 1, strlen(eq + 1));
	}
	assert_int_equal(labels_builder_finish(&b, ret), 0);
}

static void test_build_and_print(void **state)
{
	static const struct {
		const char *sets[8], *text;
	} cases[] = {
		{{NULL}, "{}"},
		{{"b=2", "a=1", "c=3"}, "{a=\"1\",b=\"2\",c=\"3\"}"},
		{{"a=1", "a=2"}, "{a=\"2\"}"},
		{{"a=1", "b=2", "a="}, "{b=\"2\"}"},
		{{"a="}, "{}"},
		{{"ab=2", "a=1", "abc=3", "B=0"}, "{B=\"0\",a=\"1\",ab=\"2\",abc=\"3\"}"},
		{{"a=q\"b\\n\nz"}, "{a=\"q\\\"b\\\\n\\nz\"}"},
		{{"k8s.pod=x", "1a=y", "_z9=w"}, "{\"1a\"=\"y\",_z9=\"w\",\"k8s.pod\"=\"x\"}"},
		{{"\xc3\xa9=1", "z=2"}, "{z=\"2\",\"\xc3\xa9\"=\"1\"}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_labels_ struct labels l;
		_cleanup_bytes_ struct bytes out;

		build(&l, cases[i].sets);
		bytes_init(&out, NULL, 0);
		labels_print(&l, &out);
		bytes_put_u8(&out, 0);
		assert_string_equal((char *)out.data, cases[i].text);
	}
}

static void test_get(void **state)
{
	static const char *const sets[] = {"job=x", "instance=h:1", "a=0", "zz=9", NULL};
	_cleanup_labels_ struct labels l;

	(void)state;
	build(&l, sets);
	assert_string_equal(labels_get(&l, "job"), "x");
	assert_string_equal(labels_get(&l, "a"), "0");
	assert_string_equal(labels_get(&l, "zz"), "9");
	assert_string_equal(labels_get(&l, "jo"), "");
	assert_string_equal(labels_get(&l, "jobs"), "");
	assert_string_equal(labels_get(&l, ""), "");
}

static void test_encode_and_hash(void **state)
{
	static const char *const sets[] = {"b=22", "a=1", NULL};
	static const uint8_t want[] = {2, 1, 'a', 1, '1', 1, 'b', 2, '2', '2'};
	_cleanup_labels_ struct labels l, copy;
	_cleanup_bytes_ struct bytes out;

	(void)state;
	build(&l, sets);
	bytes_init(&out, NULL, 0);
	labels_encode(&l, &out);
	assert_int_equal(out.len, sizeof(want));
	assert_memory_equal(out.data, want, sizeof(want));
	assert_true(labels_hash(&l) == hash_xxh3(want, sizeof(want)));
	assert_int_equal(labels_copy(&l, &copy), 0);
	assert_true(labels_equal(&l, &copy));
	assert_true(labels_hash(&copy) == labels_hash(&l));
}

static void test_hash_of_a_long_set(void **state)
{
	_cleanup_labels_builder_ struct labels_builder b;
	_cleanup_labels_ struct labels l;
	_cleanup_bytes_ struct bytes out;
	char value[3001];

	(void)state;
	memset(value, 'v', 3000);
	value[3000] = 0;
	labels_builder_init(&b);
	labels_builder_set(&b, "long", value);
	assert_int_equal(labels_builder_finish(&b, &l), 0);
	bytes_init(&out, NULL, 0);
	labels_encode(&l, &out);
	assert_int_equal(out.len, 1 + 1 + 4 + 2 + 3000);
	assert_true(labels_hash(&l) == hash_xxh3(out.data, out.len));
}

static void test_compare(void **state)
{
	/* In ascending order. */
	static const char *const sets[][4] = {
		{NULL}, {"a=1"}, {"a=1", "b=1"}, {"a=1", "b=2"}, {"a=1", "c=0"}, {"a=2"}, {"b=0"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		for (size_t k = 0; k < ARRAY_SIZE(sets); k++) {
			_cleanup_labels_ struct labels a, b;
			int c;

			build(&a, sets[i]);
			build(&b, sets[k]);
			c = labels_compare(&a, &b);
			assert_int_equal((c > 0) - (c < 0), (i > k) - (i < k));
			assert_int_equal(labels_equal(&a, &b), i == k);
		}
}

static void test_edit_from_base(void **state)
{
	static const char *const sets[] = {"a=1", "b=2", NULL};
	_cleanup_labels_builder_ struct labels_builder b;
	_cleanup_labels_ struct labels base, l;

	(void)state;
	build(&base, sets);
	labels_builder_init(&b);
	assert_int_equal(labels_builder_reset(&b, &base), 0);
	/* A value that lies in the builder itself, and text with a NUL inside. */
	labels_builder_set(&b, "c", labels_builder_get(&b, "b"));
	labels_builder_set(&b, "b", labels_builder_get(&b, "b"));
	labels_builder_set_n(&b, "d", 1, "x\0y", 3);
	labels_builder_set(&b, "a", "");
	assert_string_equal(labels_builder_get(&b, "a"), "");
	assert_int_equal(labels_builder_finish(&b, &l), 0);
	assert_int_equal(l.n, 3);
	assert_string_equal(labels_get(&l, "b"), "2");
	assert_string_equal(labels_get(&l, "c"), "2");
	assert_string_equal(labels_get(&l, "d"), "x");
	assert_int_equal(labels_builder_reset(&b, NULL), 0);
	assert_int_equal(b.n, 0);
}

static void test_out_of_memory_sticks(void **state)
{
	_cleanup_labels_builder_ struct labels_builder b;
	struct labels l;

	(void)state;
	/* The first item, the array, the second item; in finish the view and the block. */
	for (unsigned n = 1; n <= 5; n++) {
		labels_builder_init(&b);
		alloc_fail_after(n);
		labels_builder_set(&b, "a", "1");
		labels_builder_set(&b, "a", "");
		labels_builder_set(&b, "b", "1");
		assert_int_equal(labels_builder_finish(&b, &l), -ENOMEM);
		assert_int_equal(l.n, 0);
		alloc_fail_after(0);
		labels_builder_done(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_build_and_print),
		cmocka_unit_test(test_get),
		cmocka_unit_test(test_encode_and_hash),
		cmocka_unit_test(test_hash_of_a_long_set),
		cmocka_unit_test(test_compare),
		cmocka_unit_test(test_edit_from_base),
		cmocka_unit_test(test_out_of_memory_sticks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
