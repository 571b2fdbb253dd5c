/* SPDX-License-Identifier: Apache-2.0
 *
 * V8's functions and machine code in a heap laid by hand: what is whole, what is malformed, and what changes while it is read. Whether
 * real heaps are like that shows test_interp_v8.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "exporter/interp/v8_deopt.h"
#include "tests/unit/v8_fake.h"

/* Code and instructions in one object, positions; in two; translations. */
static const uint32_t versions[] = {
	RUNTIME_VERSION(10, 2, 0), RUNTIME_VERSION(12, 4, 0), RUNTIME_VERSION(14, 6, 0)};

static int read_function(struct fake *k, uint64_t word, struct interp_code *ret)
{
	return interp_runtime_of(RUNTIME_V8)->read_code(&k->m, &k->r, word - 1, 0, ret);
}

static void test_function(void **state)
{
	static const struct {
		uint32_t position, line, column;
	} cases[] = {{0, 2, 2}, {1, 2, 2}, {2, 3, 2}, {3, 4, 2}, {1000, 4, 2},
		{ABI_INTERP_AT_START, 2, 0}, {ABI_INTERP_BEYOND, 0, 0}};

	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		_cleanup_interp_code_ struct interp_code c = {0};
		struct fake k;

		fake_init(&k, versions[v]);
		assert_int_equal(read_function(&k, k.outer, &c), 0);
		assert_string_equal(c.name, "outer");
		assert_string_equal(c.file, "/srv/app.js");
		assert_int_equal(c.first_line, 2);
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			struct v8_place p = v8_place(&c, cases[i].position);

			assert_int_equal(p.line, cases[i].line);
			assert_int_equal(p.column, cases[i].column);
		}
	}
}

static void check_frames(const struct v8_code *c, uint64_t pc, bool is_return, unsigned inner_line,
	unsigned outer_line)
{
	struct v8_frame f[4];
	size_t n = v8_code_frames(c, pc, is_return, f, 4), i = 0;

	assert_int_equal(n, inner_line ? 2 : 1);
	if (inner_line) {
		assert_string_equal(f[i].function->name, "inner");
		assert_int_equal(f[i++].place.line, inner_line);
	}
	assert_string_equal(f[i].function->name, "outer");
	assert_int_equal(f[i].place.line, outer_line);
	/* Of more than there is room for, the last is the outermost. */
	assert_int_equal(v8_code_frames(c, pc, is_return, f, 1), n);
	assert_string_equal(f[0].function->name, "outer");
	assert_int_equal(f[0].place.line, outer_line);
}

static void test_machine_code(void **state)
{
	_cleanup_v8_code_ struct v8_code by_positions = {0}, by_translations = {0};
	struct v8_code extent;
	struct fake k;

	(void)state;
	fake_init(&k, RUNTIME_VERSION(12, 4, 0));
	assert_int_equal(
		v8_read_machine_code(&k.m, &k.r, k.pc + 100, k.outer - 1, &by_positions), 0);
	check_frames(&by_positions, k.pc + 16, true, 0, 2);
	check_frames(&by_positions, k.pc + 16, false, 4, 3);
	check_frames(&by_positions, k.pc + 17, true, 4, 3);
	assert_int_equal(v8_find_machine_code(&k.m, &k.r, k.pc + 100, &extent), 0);
	assert_int_equal(extent.start, k.pc);
	assert_int_equal(extent.bytes, 256);
	fake_init(&k, RUNTIME_VERSION(14, 6, 0));
	assert_int_equal(v8_read_machine_code(&k.m, &k.r, k.pc + 100, 0, &by_translations), 0);
	check_frames(&by_translations, k.pc + 64, true, 3, 2);
	check_frames(&by_translations, k.pc + 63, true, 0, 0); /* no such call */
	check_frames(&by_translations, k.pc + 66, false, 3, 2);
	check_frames(&by_translations, k.pc + 88, false, 3, 2);
	check_frames(&by_translations, k.pc + 255, false, 3, 2);
}

static void test_baseline(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		_cleanup_v8_code_ struct v8_code c = {0}, without = {0};
		struct fake k;

		fake_init(&k, versions[v]);
		fake_make_baseline(&k);
		assert_int_equal(v8_read_machine_code(&k.m, &k.r, k.pc + 24, k.outer - 1, &c), 0);
		assert_true(c.is_baseline);
		check_frames(&c, k.pc + 7, false, 0, 0);
		check_frames(&c, k.pc + 24, true, 0, 2);
		check_frames(&c, k.pc + 24, false, 0, 3);
		check_frames(&c, k.pc + 40, true, 0, 3);
		check_frames(&c, k.pc + 56, true, 0, 4);
		/* Which function's it is, it does not say; another's it is not. */
		assert_int_equal(v8_read_machine_code(&k.m, &k.r, k.pc + 24, 0, &without), -EAGAIN);
		assert_int_equal(v8_read_machine_code(&k.m, &k.r, k.pc + 24, k.inner - 1, &without),
			-EAGAIN);
		/* A file without the lengths of bytecodes: no lines. */
		k.r.addresses[V8_BYTECODE_LENGTHS] = 0;
		assert_int_equal(
			v8_read_machine_code(&k.m, &k.r, k.pc + 24, k.outer - 1, &without), 0);
		check_frames(&without, k.pc + 24, true, 0, 0);
	}
}

static void test_no_machine_code(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		struct v8_code c;
		struct fake k;

		fake_init(&k, versions[v]);
		assert_int_equal(v8_read_machine_code(&k.m, &k.r, k.pc + 257, 0, &c), -ENOENT);
		assert_int_equal(v8_read_machine_code(&k.m, &k.r, k.pc - 1, 0, &c), -ENOENT);
		assert_int_equal(v8_read_machine_code(&k.m, &k.r, 0, 0, &c), -ENOENT);
		assert_int_equal(v8_read_machine_code(&k.m, &k.r, UINT64_MAX, 0, &c), -ENOENT);
		/* Another function's frame. */
		assert_int_equal(v8_read_machine_code(&k.m, &k.r, k.pc, k.inner - 1, &c), -EAGAIN);
	}
}

/* Each byte of the heap has another value once, and each word is a few words that mislead: nothing bad happens, and no name is longer than
 * its bound. */
static void test_malformed(void **state)
{
	static const uint64_t words[] = {0, 1, 3, UINT64_MAX, 1ULL << 32, 0x7fffffffULL << 32,
		0xffffffffULL << 32, FAKE_BASE + FAKE_SCRIPT + 1};
	static struct fake whole, k;

	(void)state;
	for (size_t v = 0; v < 2 * ARRAY_SIZE(versions); v++) {
		fake_init(&whole, versions[v / 2]);
		if (v % 2)
			fake_make_baseline(&whole);
		for (uint32_t at = FAKE_MAPS; at < FAKE_CODE_PAGE + 0xa00; at += 8)
			for (size_t i = 0; i <= ARRAY_SIZE(words); i++) {
				_cleanup_interp_code_ struct interp_code c = {0};
				_cleanup_v8_code_ struct v8_code code = {0};
				struct v8_frame f[V8_MAX_DEPTH];

				if (at >= whole.next && at < FAKE_CODE_PAGE + 0x800)
					continue;
				k = whole;
				k.m.arg = &k;
				fake_put(&k, at,
					i < ARRAY_SIZE(words) ? words[i] : FAKE_BASE + at + 1, 8);
				if (read_function(&k, k.outer, &c) == 0)
					assert_true(strlen(c.name) <= INTERP_MAX_TEXT_BYTES);
				k.n_reads = 0;
				if (v8_read_machine_code(&k.m, &k.r, k.pc + 64,
					    i % 2 ? k.outer - 1 : 0, &code) == 0)
					assert_true(v8_code_frames(&code, k.pc + 64, true, f,
							    V8_MAX_DEPTH) <= V8_MAX_INLINED + 1);
				assert_true(k.n_reads <= V8_MAX_READS);
			}
	}
}

/* Each read fails once. */
static void test_reads_fail(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		struct fake k;
		unsigned n_failed = 0;

		for (unsigned i = 1; i < 2000; i++) {
			_cleanup_v8_code_ struct v8_code code = {0};

			fake_init(&k, versions[v]);
			k.fails_at = i;
			if (v8_read_machine_code(&k.m, &k.r, k.pc + 64, k.outer - 1, &code) == 0) {
				if (k.n_reads < i)
					break;
				continue; /* lines may be lacking */
			}
			assert_null(code.functions);
			n_failed++;
		}
		assert_in_range(n_failed, 20, 1000);
	}
}

/* The function goes while it is read: it has no name then, or that which it had before. */
static void test_changes(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		unsigned n_reads = 0, n_refused = 0;
		struct fake k;

		for (unsigned i = 1; i == 1 || i <= n_reads; i++) {
			_cleanup_interp_code_ struct interp_code c = {0};

			fake_init(&k, versions[v]);
			k.changes_at = i;
			k.changed = (uint32_t)fake_at(k.outer, 0);
			if (read_function(&k, k.outer, &c) < 0)
				n_refused++;
			else
				fail_msg("a function that went at read %u of %u", i, n_reads);
			if (i == 1) {
				fake_init(&k, versions[v]);
				assert_int_equal(read_function(&k, k.outer, &c), 0);
				n_reads = k.n_reads -
					  2; /* the last two are of what is checked last */
			}
		}
		assert_true(n_refused > 10);
	}
}

/* The same function elsewhere has the same check; another has another. */
static void test_check(void **state)
{
	_cleanup_interp_code_ struct interp_code a = {0}, b = {0}, c = {0};
	static struct fake k, moved;

	(void)state;
	fake_init(&k, RUNTIME_VERSION(14, 6, 0));
	moved = k;
	moved.m.arg = &moved;
	moved.outer = FAKE_BASE + 0x3000 + 1;
	memcpy(moved.bytes + 0x3000, k.bytes + fake_at(k.outer, 0), 80);
	assert_int_equal(read_function(&k, k.outer, &a), 0);
	assert_int_equal(read_function(&moved, moved.outer, &b), 0);
	assert_int_equal(read_function(&k, k.inner, &c), 0);
	assert_int_equal(a.check, b.check);
	assert_int_not_equal(a.check, c.check);
}

/* A script that is known is not read again, until another one lies there. */
static void test_known_scripts(void **state)
{
	_cleanup_interp_code_ struct interp_code first = {0}, again = {0}, other = {0};
	_cleanup_v8_scripts_ struct v8_scripts scripts = {.n = 0};
	static struct fake k;
	unsigned n_reads;

	(void)state;
	fake_init(&k, RUNTIME_VERSION(14, 6, 0));
	k.m.scripts = &scripts;
	assert_int_equal(read_function(&k, k.outer, &first), 0);
	n_reads = k.n_reads;
	assert_int_equal(read_function(&k, k.outer, &again), 0);
	assert_true(k.n_reads < 2 * n_reads - 5);
	assert_string_equal(again.file, "/srv/app.js");
	assert_int_equal(again.first_line, first.first_line);
	assert_int_equal(scripts.n, 1);
	fake_put(&k, fake_at(k.script, 16), fake_string(&k, "/srv/b.js"), 8);
	assert_int_equal(read_function(&k, k.outer, &other), 0);
	assert_string_equal(other.file, "/srv/b.js");
	assert_int_equal(scripts.n, 2);
}

/* Parts, and text beyond the bound. */
static void test_strings(void **state)
{
	struct v8_heap h;
	static struct fake k;
	char *text = NULL, longer[3000];
	uint64_t cons, sliced, thin, two;

	(void)state;
	fake_init(&k, RUNTIME_VERSION(14, 6, 0));
	h = (struct v8_heap) {.m = &k.m, .r = &k.r};
	cons = fake_new(&k, 9, 32);
	fake_put(&k, fake_at(cons, 12), 6, 4);
	fake_put(&k, fake_at(cons, 16), fake_string(&k, "abc"), 8);
	fake_put(&k, fake_at(cons, 24), fake_string(&k, "def"), 8);
	sliced = fake_new(&k, 11, 32);
	fake_put(&k, fake_at(sliced, 12), 3, 4);
	fake_put(&k, fake_at(sliced, 16), cons, 8);
	fake_put(&k, fake_at(sliced, 24), fake_smi(2), 8);
	thin = fake_new(&k, 13, 32);
	fake_put(&k, fake_at(thin, 12), 3, 4);
	fake_put(&k, fake_at(thin, 16), sliced, 8);
	assert_int_equal(v8_string(&h, thin, &text), 0);
	assert_string_equal(text, "cde");
	free(text);
	two = fake_new(&k, 0, 32); /* a pair, half a pair, and a character */
	fake_put(&k, fake_at(two, 12), 4, 4);
	fake_put(&k, fake_at(two, 16), 0x0041d83dde00d83dULL, 8);
	assert_int_equal(v8_string(&h, two, &text), 0);
	assert_string_equal(text, "\xf0\x9f\x98\x80\xef\xbf\xbd"
				  "A");
	free(text);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	assert_int_equal(v8_string(&h, fake_string(&k, longer), &text), 0);
	assert_true(strlen(text) <= INTERP_MAX_TEXT_BYTES);
	assert_string_equal(text + strlen(text) - 3, "\xe2\x80\xa6");
	free(text);
	/* It is its own first part. */
	fake_put(&k, fake_at(cons, 16), cons, 8);
	assert_int_equal(v8_string(&h, cons, &text), -EBADMSG);
}

static void test_translations(void **state)
{
	static const uint8_t bytes[] = {14, 0, 4, 4, 1, 0, 2, 0, 2, 40, 2, 1, 4, 0, 0, 2, 14, 16, 4,
		4, 46, 1, 6, 0, 0, 2, 14, 26, 4, 4, 47};
	struct v8_translated f[4];

	(void)state;
	assert_int_equal(v8_translate(bytes, sizeof(bytes), 0, 2, f, 4), 2);
	assert_int_equal(f[0].literal, 1);
	assert_int_equal(f[1].offset, 2);
	assert_int_equal(v8_translate(bytes, sizeof(bytes), 16, 2, f, 4), 2);
	assert_int_equal(f[0].offset, 0);
	assert_int_equal(f[1].offset, 3);
	assert_int_equal(v8_translate(bytes, sizeof(bytes), 16, 2, f, 1), 1);
	assert_int_equal(v8_translate(bytes, sizeof(bytes), 26, 2, f, 4), -EBADMSG); /* it ends */
	assert_int_equal(v8_translate(bytes, sizeof(bytes), 4, 2, f, 4), -EBADMSG);
	assert_int_equal(v8_translate(bytes, sizeof(bytes), 1000, 2, f, 4), -EBADMSG);
	for (size_t n = 0; n < sizeof(bytes); n++)
		for (uint32_t at = 0; at < sizeof(bytes); at++)
			assert_true(v8_translate(bytes, n, at, 3, f, 4) <= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_function),
		cmocka_unit_test(test_machine_code),
		cmocka_unit_test(test_baseline),
		cmocka_unit_test(test_no_machine_code),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_reads_fail),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_known_scripts),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_translations),
	};

	return cmocka_run_group_tests_name("interp_v8_heap", tests, NULL, NULL);
}
