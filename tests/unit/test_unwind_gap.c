/* SPDX-License-Identifier: Apache-2.0
 *
 * Code without call frame information that is known by its bytes: synthetic pieces, and what is linked into this program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "exporter/parser/unwind/unwind.h"
#include "lib/base/cleanup.h"

enum { MAX_ROWS = 32, VADDR = 0x1000 };

static struct row {
	uint32_t at;
	int32_t above; /* of the return address; −1: nothing is known from here on */
	uint8_t reg, fp, cfa;
} rows[MAX_ROWS];
static size_t n_rows;

static void take(void *ctx, uint64_t begin, const struct unwind_rule *rule)
{
	assert_null(ctx);
	assert_true(n_rows < MAX_ROWS);
	rows[n_rows++] = (struct row) {.at = (uint32_t)(begin - VADDR),
		.above = rule ? rule->off - 8 : -1,
		.reg = rule ? rule->reg : 0,
		.fp = rule ? rule->fp : 0,
		.cfa = rule ? rule->cfa : 0};
}

static void run(const void *code, size_t n)
{
	const struct unwind_gap gap = {
		.machine = cfi_machine_of(62), .code = code, .n = n, .vaddr = VADDR, .row = take};

	n_rows = 0;
	unwind_gap(&gap);
}

static void assert_rows(const struct row *want, size_t n)
{
	assert_int_equal(n_rows, n);
	for (size_t i = 0; i < n; i++)
		if (memcmp(&rows[i], &want[i], sizeof(rows[i])) != 0)
			fail_msg("row %zu: at %u, %d above", i, rows[i].at, rows[i].above);
}

static void init_and_fini(void **state)
{
	static const uint8_t code[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08, 0x48, 0x8b,
		0x05, 1, 2, 3, 4, 0x48, 0x85, 0xc0, 0x74, 0x02, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08,
		0xc3, 0xcc, 0x48, 0x83, 0xec, 0x08, 0x48, 0x83, 0xc4, 0x08, 0xc3};
	static const struct row want[] = {{4, 0, 7, 0, 0}, {8, 8, 7, 0, 0}, {26, 0, 7, 0, 0},
		{27, -1, 0, 0, 0}, {28, 0, 7, 0, 0}, {32, 8, 7, 0, 0}, {36, 0, 7, 0, 0},
		{37, -1, 0, 0, 0}};

	(void)state;
	run(code, sizeof(code));
	assert_rows(want, ARRAY_SIZE(want));
	/* cut short, or another instruction in it */
	run(code, 26);
	assert_int_equal(n_rows, 0);
	run(code + 5, 20);
	assert_int_equal(n_rows, 0);
}

static void destructors(void **state)
{
	static const uint8_t code[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x80, 0x3d, 0, 0, 0, 0, 0, 0x75,
		0x13, 0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0xc6, 0x05, 0, 0, 0, 0, 1, 0x5d,
		0xc3, 0x90, 0xc3};
	static const struct row want[] = {{4, 0, 7, 0, 0}, {14, 8, 7, UNWIND_AT_CFA, 0},
		{17, 8, 6, UNWIND_AT_CFA, 0}, {30, 0, 7, 0, 0}, {33, -1, 0, 0, 0}};

	(void)state;
	run(code, sizeof(code));
	assert_rows(want, ARRAY_SIZE(want));
}

static void linkage_table(void **state)
{
	static const uint8_t first[16] = {
		0xff, 0x35, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0, 0x0f, 0x1f, 0x40, 0};
	static const uint8_t entry[16] = {0xff, 0x25, 0, 0, 0, 0, 0x68, 1, 0, 0, 0, 0xe9};
	static const struct row want[] = {{16, 8, 7, 0, 0}, {22, 16, 7, 0, 0},
		{32, 0, 7, 0, UNWIND_CFA_PLT}, {80, -1, 0, 0, 0}};
	uint8_t code[96] = {0};

	(void)state;
	memcpy(code + 16, first, 16);
	for (size_t i = 32; i < 80; i += 16)
		memcpy(code + i, entry, 16);
	run(code, sizeof(code));
	assert_rows(want, ARRAY_SIZE(want));
	/* an entry that does not begin where its rule expects it */
	run(code + 1, sizeof(code) - 1);
	assert_int_equal(n_rows, 0);
}

/* Every instruction of crosscall1: six registers pushed, the frame pointer second, and popped again. */
static void threads_of_go(void **state)
{
	static const uint8_t code[] = {0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57,
		0x48, 0x89, 0xfb, 0x48, 0x89, 0xd7, 0xff, 0xd6, 0xff, 0xd3, 0x41, 0x5f, 0x41, 0x5e,
		0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3};
	static const struct row want[] = {{0, 0, 7, 0, 0}, {1, 8, 7, 0, 0},
		{2, 16, 7, UNWIND_AT_CFA, 0}, {4, 24, 7, UNWIND_AT_CFA, 0},
		{6, 32, 7, UNWIND_AT_CFA, 0}, {8, 40, 7, UNWIND_AT_CFA, 0},
		{10, 48, 7, UNWIND_AT_CFA, 0}, {22, 40, 7, UNWIND_AT_CFA, 0},
		{24, 32, 7, UNWIND_AT_CFA, 0}, {26, 24, 7, UNWIND_AT_CFA, 0},
		{28, 16, 7, UNWIND_AT_CFA, 0}, {29, 8, 7, 0, 0}, {30, 0, 7, 0, 0},
		{31, -1, 0, 0, 0}};

	(void)state;
	run(code, sizeof(code));
	assert_rows(want, ARRAY_SIZE(want));
}

/* What a handler returns to is looked up by the byte before it; it may lie anywhere in a C library. */
static void trampolines(void **state)
{
	static const uint8_t musl[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t shorter[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
	enum { FAR = 100000 };
	static const struct row near[] = {{19, -8, 7, 0, UNWIND_CFA_SIGNAL}, {29, -1, 0, 0, 0},
		{29, -8, 7, 0, UNWIND_CFA_SIGNAL}, {36, -1, 0, 0, 0},
		{FAR - 1, -8, 7, 0, UNWIND_CFA_SIGNAL}, {FAR + 7, -1, 0, 0, 0},
		{FAR + 99, -8, 7, 0, UNWIND_CFA_SIGNAL}, {FAR + 109, -1, 0, 0, 0}};
	static const struct row first[] = {{0, -8, 7, 0, UNWIND_CFA_SIGNAL}, {9, -1, 0, 0, 0}};
	static uint8_t code[FAR + 200];

	(void)state;
	memcpy(code + 20, musl, sizeof(musl));
	memcpy(code + 29, shorter, sizeof(shorter));
	memcpy(code + FAR, shorter, sizeof(shorter));
	memcpy(code + FAR + 100, musl, sizeof(musl));
	run(code, sizeof(code));
	assert_rows(near, ARRAY_SIZE(near));
	run(code + 20, sizeof(musl));
	assert_rows(first, ARRAY_SIZE(first));
	run(code + FAR + 100, sizeof(musl) - 1);
	assert_int_equal(n_rows, 0);
}

#ifdef __x86_64__
extern const uint8_t linked_init[] __asm__("_init");
extern const uint8_t linked_fini[] __asm__("_fini");

static void what_is_linked_here(void **state)
{
	(void)state;
	run(linked_init, 27);
	assert_int_equal(n_rows, 4);
	run(linked_fini, 13);
	assert_int_equal(n_rows, 4);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init_and_fini),
		cmocka_unit_test(destructors),
		cmocka_unit_test(linkage_table),
		cmocka_unit_test(threads_of_go),
		cmocka_unit_test(trampolines),
#ifdef __x86_64__
		cmocka_unit_test(what_is_linked_here),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
