/* SPDX-License-Identifier: Apache-2.0
 *
 * kallsyms text → table: order, ties, modules, malformed input; the real one where it can be read.
 */
#include "bpf/abi.h"
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

static struct kernel_code_record code(uint64_t start, uint64_t len, const char *name, uint64_t ns)
{
	return (struct kernel_code_record) {
		.start = start, .len = len, .time_ns = ns, .name = name, .is_bpf = true};
}

static void code_comes(
	struct kernel_code *k, uint64_t start, uint64_t len, const char *name, uint64_t ns)
{
	const struct kernel_code_record r = code(start, len, name, ns);

	kernel_code_add(k, &r);
}

static void code_goes(
	struct kernel_code *k, uint64_t start, uint64_t len, const char *name, uint64_t ns)
{
	const struct kernel_code_record r = code(start, len, name, ns);

	kernel_code_remove(k, &r);
}

/* As a sample of that time has it. */
static uint64_t frame_at(struct kernel_code *k, uint64_t addr, uint64_t ns)
{
	uint64_t frame = ABI_FRAME(ABI_FRAME_KERNEL, addr);

	kernel_code_mark(k, &frame, 1, ns);
	assert_int_equal(ABI_FRAME_KIND(frame), ABI_FRAME_KERNEL);
	assert_true(kernel_code_address(frame) == addr);
	return frame;
}

static const char *name_of(struct kernel_code *k, uint64_t frame)
{
	static char name[KERNEL_CODE_NAME_MAX];
	bool is_bpf;

	switch (kernel_code_find(k, frame, kernel_code_address(frame), name, &is_bpf)) {
	case KERNEL_CODE_NAMED: return name;
	case KERNEL_CODE_FORGOTTEN: return "(forgotten)";
	default: return "";
	}
}

#define CODE 0xffffffffc0000000

static const char *code_at(struct kernel_code *k, uint64_t off)
{
	return name_of(k, frame_at(k, CODE + off, UINT64_MAX));
}

/* Code that comes and goes: the newest at an address wins, what is gone keeps its name until then. */
static void test_code(void **state)
{
	_cleanup_(kernel_code_done)
	struct kernel_code k;

	(void)state;
	kernel_code_init(&k);
	code_comes(&k, CODE + 0x3000, 0x100, "c", 1);
	code_comes(&k, CODE + 0x1000, 0x100, "a", 2);
	code_comes(&k, CODE + 0x2000, 0x100, "b", 3);
	assert_string_equal(code_at(&k, 0xfff), "");
	assert_string_equal(code_at(&k, 0x1000), "a");
	assert_string_equal(code_at(&k, 0x10ff), "a");
	assert_string_equal(code_at(&k, 0x1100), "");
	assert_string_equal(code_at(&k, 0x2080), "b");
	assert_string_equal(code_at(&k, 0x30ff), "c");
	code_goes(&k, CODE + 0x2000, 0x100, "b", 4);
	assert_string_equal(code_at(&k, 0x2080), "b");
	code_comes(&k, CODE + 0x2080, 0xf81, "d", 5); /* to the first byte of c */
	assert_string_equal(code_at(&k, 0x2000), "b");
	assert_string_equal(code_at(&k, 0x2080), "d");
	assert_string_equal(code_at(&k, 0x3000), "d");
	assert_string_equal(code_at(&k, 0x3001), "c");
	code_comes(&k, UINT64_MAX - 1, 0x100, "wraps", 6);
	assert_string_equal(name_of(&k, frame_at(&k, UINT64_MAX - 1, 7)), "");
	assert_false(kernel_code_take_incomplete(&k));
}

/* A sample keeps the name of what lay there when it was taken, whatever came to lie there before it was named. */
static void test_code_in_turn(void **state)
{
	_cleanup_(kernel_code_done)
	struct kernel_code k;
	uint64_t before, of_old, of_first, of_second, of_third;

	(void)state;
	kernel_code_init(&k);
	before = frame_at(&k, CODE + 0x8010, 5);
	code_comes(&k, CODE, 0x1000, "first", 10);
	of_first = frame_at(&k, CODE + 0x80, 20);
	/* Loaded before the first record. */
	of_old = frame_at(&k, CODE + 0x4010, 25);
	code_goes(&k, CODE + 0x4000, 0x100, "old", 26);
	code_goes(&k, CODE, 0x1000, "first", 30);
	code_comes(&k, CODE, 0x100, "second", 40);
	code_comes(&k, CODE + 0x4000, 0x80, "new", 41);
	of_second = frame_at(&k, CODE + 0x80, 50);
	code_goes(&k, CODE, 0x100, "second", 60);
	code_comes(&k, CODE + 0x40, 0x1000, "third", 70);
	of_third = frame_at(&k, CODE + 0x80, 80);
	assert_string_equal(name_of(&k, of_first), "first");
	assert_string_equal(name_of(&k, of_second), "second");
	assert_string_equal(name_of(&k, of_third), "third");
	assert_string_equal(name_of(&k, of_old), "old");
	assert_string_equal(name_of(&k, frame_at(&k, CODE + 0x4010, 90)), "new");
	assert_string_equal(name_of(&k, before), "");
	/* Samples that waited for something come later than the records. */
	assert_true(frame_at(&k, CODE + 0x80, 20) == of_first);
	assert_true(frame_at(&k, CODE + 0x80, 50) == of_second);
	assert_true(frame_at(&k, CODE + 0x80, 80) == of_third);
	/* Of the second one's addresses the third left some alone. */
	assert_string_equal(name_of(&k, frame_at(&k, CODE + 0x10, 50)), "second");
	/* Where nothing new came frames are the addresses. */
	assert_true(frame_at(&k, CODE + 0x9000, 80) == ABI_FRAME(ABI_FRAME_KERNEL, CODE + 0x9000));
}

/* What was lost may have put something else anywhere. */
static void test_code_lost(void **state)
{
	_cleanup_(kernel_code_done)
	struct kernel_code k;
	uint64_t before, after;

	(void)state;
	kernel_code_init(&k);
	code_comes(&k, CODE, 0x100, "first", 10);
	code_comes(&k, CODE + 0x1000, 0x100, "other", 11);
	before = frame_at(&k, CODE + 0x80, 20);
	kernel_code_lost(&k, 30);
	assert_true(kernel_code_take_incomplete(&k));
	after = frame_at(&k, CODE + 0x80, 40);
	assert_true(frame_at(&k, CODE + 0x80, 20) == before);
	assert_string_equal(name_of(&k, before), "first");
	/* kallsyms is asked. */
	assert_string_equal(name_of(&k, after), "");
	assert_string_equal(code_at(&k, 0x1080), "");
	/* Its end tells which it was. */
	code_goes(&k, CODE, 0x100, "second", 50);
	assert_string_equal(name_of(&k, after), "second");
	code_comes(&k, CODE, 0x100, "third", 60);
	kernel_code_lost(&k, 70);
	kernel_code_lost(&k, 80);
	assert_string_equal(name_of(&k, frame_at(&k, CODE + 0x80, 65)), "third");
	assert_string_equal(name_of(&k, frame_at(&k, CODE + 0x80, 90)), "");
	assert_string_equal(name_of(&k, after), "second");
	assert_string_equal(name_of(&k, before), "first");
}

/* More turns than a frame can tell apart, and more of the past than is kept. */
static void test_code_past_cap(void **state)
{
	_cleanup_(kernel_code_done)
	struct kernel_code k;
	uint64_t first, second = 0, last_but_one = 0, last = 0;
	char name[16];

	(void)state;
	kernel_code_init(&k);
	code_comes(&k, CODE, 64, "0", 1);
	first = frame_at(&k, CODE, 1);
	for (uint64_t i = 1; i <= 2 * KERNEL_CODE_MAX_TURN; i++) {
		snprintf(name, sizeof(name), "%llu", (unsigned long long)i);
		code_comes(&k, CODE, 64, name, i + 1);
		last_but_one = last;
		last = frame_at(&k, CODE, i + 1);
		assert_string_equal(name_of(&k, last), name);
		if (i == KERNEL_CODE_MAX_TURN) {
			assert_string_equal(name_of(&k, first), "");
			assert_string_equal(name_of(&k, second), "(forgotten)");
		}
		second = i == 1 ? last : second;
	}
	assert_true(k.n_past <= KERNEL_CODE_MAX_PAST);
	assert_string_equal(name_of(&k, last), name);
	snprintf(name, sizeof(name), "%d", 2 * KERNEL_CODE_MAX_TURN - 1);
	assert_string_equal(name_of(&k, last_but_one), name);
}

/* A table full of what is there refuses and says so; what is gone makes room. */
static void test_code_cap(void **state)
{
	_cleanup_(kernel_code_done)
	struct kernel_code k;

	(void)state;
	kernel_code_init(&k);
	for (uint64_t i = 0; i < KERNEL_CODE_MAX; i++)
		code_comes(&k, CODE + i * 16, 16, "x", i);
	code_comes(&k, CODE + KERNEL_CODE_MAX * 16, 16, "y", KERNEL_CODE_MAX);
	assert_true(kernel_code_take_incomplete(&k));
	assert_false(kernel_code_take_incomplete(&k));
	assert_string_equal(code_at(&k, KERNEL_CODE_MAX * 16), "");
	code_goes(&k, CODE + 32, 16, "x", KERNEL_CODE_MAX + 1);
	code_comes(&k, CODE + KERNEL_CODE_MAX * 16, 16, "y", KERNEL_CODE_MAX + 2);
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
		cmocka_unit_test(test_code_in_turn),
		cmocka_unit_test(test_code_lost),
		cmocka_unit_test(test_code_past_cap),
		cmocka_unit_test(test_code_cap),
		cmocka_unit_test(test_own_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
