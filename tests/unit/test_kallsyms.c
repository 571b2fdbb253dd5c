/* SPDX-License-Identifier: Apache-2.0
 *
 * kallsyms text → table: order, ties, modules, malformed input; the real one where it can be read.
 */
#include "exporter/symbolize/kernel.h"
#include "exporter/symbolize/kernel_code.h"
#include "tests/unit/names_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static int read_text(const char *text, struct kernel_symbols *k)
{
	_cleanup_close_ int fd = fake_text(text);

	return kernel_symbols_read(fd, k, NULL);
}

static const char *name_at(const struct kernel_symbols *k, uint64_t addr)
{
	struct kernel_symbol s;

	return kernel_symbols_find(k, addr, &s) ? s.name : "";
}

static void test_table(void **state)
{
	static const char text[] = "ffffffff81000300 t third\n"
				   "ffffffff81000100 t a_local\nffffffff81000100 W "
				   "weak\nffffffff81000100 T __global\nffffffff81000100 T _global\n"
				   "ffffffff81000200 D data\n"
				   "0000000000000000 A zero\n"
				   "ffffffff81000500 T _etext\n"
				   "ffffffffc0001000 t in_module\t[nf_tables]\n"
				   "ffffffffc0002000 t in_bpf\t[bpf]\n"
				   "ffffffffc0001800 t later\t[nf_tables]";
	_cleanup_(kernel_symbols_done)
	struct kernel_symbols k = {0};
	struct kernel_symbol s;

	(void)state;
	assert_int_equal(read_text(text, &k), 0);
	assert_string_equal(name_at(&k, 0xffffffff810000ff), "");
	assert_string_equal(name_at(&k, 0xffffffff81000100), "_global");
	assert_string_equal(name_at(&k, 0xffffffff81000250), "_global");
	assert_string_equal(name_at(&k, 0xffffffff81000300), "third");
	assert_string_equal(name_at(&k, 0xffffffff81000500), "");
	assert_string_equal(name_at(&k, 0x1000), "");
	assert_string_equal(name_at(&k, UINT64_MAX), "");
	assert_true(kernel_symbols_find(&k, 0xffffffffc0001010, &s));
	assert_string_equal(s.module, "nf_tables");
	assert_true(s.start == 0xffffffffc0001000);
	assert_true(kernel_symbols_find(&k, 0xffffffffc0002010, &s));
	assert_string_equal(s.module, "bpf");
	/* A megabyte behind the last symbol is nobody's. */
	assert_string_equal(name_at(&k, 0xffffffffc0102000), "");
}

static void test_malformed(void **state)
{
	static const struct {
		const char *text;
		int error;
	} cases[] = {
		{"", -EBADMSG},
		{"hello\n", -EBADMSG},
		{"ffffffff81000000\n", -EBADMSG},
		{"ffffffff81000000 T\n", -EBADMSG},
		{"ffffffff810000000 T too_long\n", -EBADMSG},
		{"ffffffff81000000 T ok\nxyz\n", -EBADMSG},
		{"0000000000000000 T a\n0000000000000000 t b\n", -EPERM},
		{"ffffffff81000000 T \n", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(kernel_symbols_done)
		struct kernel_symbols k = {0};

		if (read_text(cases[i].text, &k) != cases[i].error)
			fail_msg("case %zu", i);
	}
	_cleanup_free_ char *line = xmalloc(100001);
	_cleanup_(kernel_symbols_done)
	struct kernel_symbols k = {0};

	memset(line, 'a', 100000);
	line[100000] = '\0';
	assert_int_equal(read_text(line, &k), -EBADMSG);
}

static const char *code_at(struct kernel_code *k, uint64_t addr)
{
	static char name[KERNEL_CODE_NAME_MAX];
	bool is_bpf;

	return kernel_code_find(k, addr, name, &is_bpf) ? name : "";
}

/* Code that comes and goes: the newest at an address wins, what is gone keeps its name until then. */
static void test_code(void **state)
{
	_cleanup_(kernel_code_done)
	struct kernel_code k;

	(void)state;
	kernel_code_init(&k);
	kernel_code_add(&k, 0x3000, 0x100, "c", true);
	kernel_code_add(&k, 0x1000, 0x100, "a", true);
	kernel_code_add(&k, 0x2000, 0x100, "b", false);
	assert_string_equal(code_at(&k, 0xfff), "");
	assert_string_equal(code_at(&k, 0x1000), "a");
	assert_string_equal(code_at(&k, 0x10ff), "a");
	assert_string_equal(code_at(&k, 0x1100), "");
	assert_string_equal(code_at(&k, 0x2080), "b");
	assert_string_equal(code_at(&k, 0x30ff), "c");
	kernel_code_remove(&k, 0x2000);
	assert_string_equal(code_at(&k, 0x2080), "b");
	kernel_code_add(&k, 0x2080, 0xf81, "d", true); /* to the first byte of c */
	assert_string_equal(code_at(&k, 0x2000), "");
	assert_string_equal(code_at(&k, 0x3000), "d");
	assert_string_equal(code_at(&k, 0x3001), "");
	kernel_code_add(&k, UINT64_MAX - 1, 0x100, "wraps", true);
	assert_string_equal(code_at(&k, UINT64_MAX - 1), "");
	assert_false(kernel_code_take_incomplete(&k));
}

/* A table full of what is there refuses and says so; what is gone makes room. */
static void test_code_cap(void **state)
{
	_cleanup_(kernel_code_done)
	struct kernel_code k;

	(void)state;
	kernel_code_init(&k);
	for (uint64_t i = 0; i < KERNEL_CODE_MAX; i++)
		kernel_code_add(&k, i * 16, 16, "x", true);
	kernel_code_add(&k, KERNEL_CODE_MAX * 16, 16, "y", true);
	assert_true(kernel_code_take_incomplete(&k));
	assert_false(kernel_code_take_incomplete(&k));
	assert_string_equal(code_at(&k, KERNEL_CODE_MAX * 16), "");
	kernel_code_remove(&k, 32);
	kernel_code_add(&k, KERNEL_CODE_MAX * 16, 16, "y", true);
	assert_string_equal(code_at(&k, KERNEL_CODE_MAX * 16), "y");
	assert_string_equal(code_at(&k, 32), "");
	assert_string_equal(code_at(&k, 48), "x");
}

static void test_own_kernel(void **state)
{
	_cleanup_(kernel_symbols_done)
	struct kernel_symbols k = {0};
	_cleanup_close_ int fd = open("/proc/kallsyms", O_RDONLY);
	int r = fd < 0 ? -EPERM : kernel_symbols_read(fd, &k, NULL);

	(void)state;
	if (r == -EPERM)
		skip();
	assert_int_equal(r, 0);
	assert_true(k.n > 10000);
	/* Less than 6 MB for 150,000 symbols. */
	assert_true(kernel_symbols_bytes(&k) < (size_t)k.n * 40);
	for (uint32_t i = 1; i < k.n; i++)
		assert_true(k.starts[i - 1] < k.starts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_code_cap),
		cmocka_unit_test(test_own_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
