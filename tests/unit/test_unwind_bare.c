/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker in code of which the rows say that it keeps no frame pointer, and nothing else; and at the end of a fiber's stack.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/cleanup.h"
#include "tests/unit/unwind_host.h"

/* The stack of the walked program, and its code at word CODE and behind. */
#define BASE 0x7fff00000000ULL
#define CODE_AT(word) (BASE + (word)*8ULL)
#define CALL_IN_FRONT (0xe8ULL << 24) /* a word that ends in a call */
enum { N_WORDS = 4096, CODE = 2000, CALLER = 3000 };
enum { BINARY = 1, SLAB = 1, CARRY = 1000, RULE = 5, N_PAGES = N_WORDS * 8 / UNWIND_PAGE_BYTES };
static uint64_t stack_words[N_WORDS];
static bool has_rows;
static __u64 words[ABI_MAX_WORDS + 1], spare[ABI_USER_TAIL_WORDS];

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	if (bytes > sizeof(stack_words) || from - BASE > sizeof(stack_words) - bytes)
		return -1;
	memcpy(to, (const uint8_t *)stack_words + (from - BASE), bytes);
	return 0;
}

static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	w->binary = BINARY;
	w->off = addr - BASE;
	return addr < BASE + sizeof(stack_words) ? UNWIND_IN_FILE : UNWIND_IN_DATA;
}

/* All code is of one kind, or has no rows. */
static void set_rows(bool has)
{
	__u32 *slab = host_memory.slabs + (size_t)SLAB * UNWIND_SLAB_WORDS;

	has_rows = has;
	host_memory.binaries[BINARY] =
		(struct unwind_binary) {.seq = host_memory.binaries[BINARY].seq + 2,
			.slab = has ? SLAB : UNWIND_SLAB_ROWLESS,
			.n_pages = has ? N_PAGES : 0};
	for (unsigned i = 0; i < N_PAGES; i++)
		slab[i] = UNWIND_PAGE(SLAB * UNWIND_SLAB_WORDS + CARRY, 0);
	slab[CARRY] = UNWIND_ROW(0, RULE);
	host_memory.rules[RULE] = (struct unwind_rule) {.cfa = UNWIND_CFA_NO_FP};
}

/*
 * Code that was followed in vain, of a function that sets no frame pointer: the register is some caller's. It leads to a frame, but those
 * between are missing, so the stack is cut. What a root says of itself counts as before.
 */
static void without_frame_pointer(void **state)
{
	static const struct {
		uint64_t before, code; /* of the return address */
		bool is_zero;	       /* the register is */
		uint32_t want_cut, want_steps;
	} cases[] = {
		{CALL_IN_FRONT, 0x9090909090909090, false, ABI_CUT_NO_TABLE, 1},
		{CALL_IN_FRONT, 0x9090909090909090, true, ABI_CUT_NO_TABLE, 1},
		{0x12345678e8e78948, 0x9090909090909090, true, ABI_CUT_NONE,
			1}, /* a program's entry */
		{0x12345678e8e78948, 0x9090909090909090, false, ABI_CUT_NO_TABLE, 1},
		{0x12345678e8f0e483, 0x9090909090909090, false, ABI_CUT_NONE, 1},
		{CALL_IN_FRONT, 0x12345678e8c789, true, ABI_CUT_NONE, 1}, /* mov %eax, %edi; call */
		{CALL_IN_FRONT, 0x050f3cb0c031c789, false, ABI_CUT_NONE, 1}, /* musl's clone */
		{CALL_IN_FRONT, 0xc308c48348, false, ABI_CUT_BAD_PC, 1},     /* add $8, %rsp; ret */
	};

	(void)state;
	set_rows(true);
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		struct walk w;

		memset(stack_words, 0, sizeof(stack_words));
		stack_words[CODE - 1] = cases[c].before;
		stack_words[CODE] = cases[c].code;
		stack_words[2] = 8; /* what gives back its frame finds that for a return address */
		stack_words[100] = CODE_AT(120);
		stack_words[101] = CODE_AT(CALLER);
		walk_init(&w, 0);
		w.known = UNWIND_ALL_REGS;
		assert_int_equal(
			walk_arrive(&w, CODE_AT(CODE), BASE + 8, UNWIND_BY_FP), UNWIND_MORE);
		w.exact = 0;
		w.regs[UNWIND_FP] = cases[c].is_zero ? 0 : CODE_AT(100);
		assert_int_equal(walk_turn(&w, words), 1);
		if (w.cut != cases[c].want_cut || w.n_steps != cases[c].want_steps)
			fail_msg("case %zu: cut %u after %u steps", c, w.cut, w.n_steps);
	}
}

/* There push %rbp may come behind other pushes; a return is one anywhere. */
static void begins_without_frame_pointer(void **state)
{
	static const struct {
		uint64_t code;
		uint32_t want_steps;
	} cases[] = {{0x90909090909055, 0}, {0x9090909090e58948, 0}, {0x90909090909090c3, 1},
		{0x90909090fa1e0ff3, 1}};

	(void)state;
	for (size_t c = 0; c < 2 * ARRAY_SIZE(cases); c++) {
		struct walk w;

		set_rows(c % 2);
		memset(stack_words, 0, sizeof(stack_words));
		stack_words[CODE] = cases[c / 2].code;
		stack_words[1] = stack_words[2] = CODE_AT(CALLER);
		walk_init(&w, 0);
		w.pc = CODE_AT(CODE);
		w.known = UNWIND_ALL_REGS;
		w.regs[UNWIND_SP] = BASE + 8;
		w.regs[UNWIND_FP] = 1;
		(void)walk_turn(&w, words);
		assert_int_equal(w.n_steps, has_rows ? cases[c / 2].want_steps : 1);
	}
}

/*
 * A fiber's first function returns to an address that its maker wrote, at the end of the stack: the frame is that of the function there,
 * and the root. Where a call leads there, where rows did not, or where the stack goes on, it is none.
 */
static void roots_written_by_hand(void **state)
{
	static const struct {
		uint64_t before; /* the return address */
		uint64_t above;	 /* words above the stack pointer */
		enum unwind_method method;
		uint32_t want_cut;
		bool is_written;
	} cases[] = {
		{0x9090909090909090, 0, UNWIND_BY_CFI, ABI_CUT_NONE, true},
		{0xe8ULL << 24, 0, UNWIND_BY_CFI, ABI_CUT_NONE, true}, /* glibc's abort */
		{0x12345678e8909090, 0, UNWIND_BY_CFI, ABI_CUT_READ_FAULT, false},
		{0x9090909090909090, 0, UNWIND_BY_FP, ABI_CUT_READ_FAULT, false},
		{0x9090909090909090, 9, UNWIND_BY_CFI, ABI_CUT_BAD_PC, false},
		{0x9090909090909090, 10, UNWIND_BY_CFI, ABI_CUT_NONE, true}, /* zeros */
		{0x12345678e8909090, 10, UNWIND_BY_CFI, ABI_CUT_NONE, false},
	};

	(void)state;
	set_rows(true);
	host_memory.rules[RULE] = (struct unwind_rule) {.cfa = UNWIND_CFA_REG,
		.reg = UNWIND_SP,
		.ra = UNWIND_AT_CFA,
		.off = 32,
		.ra_off = -8};
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		uint32_t n;
		struct walk w;

		memset(stack_words, 0, sizeof(stack_words));
		stack_words[CODE - 1] = cases[c].before;
		stack_words[N_WORDS - 6] = 1; /* no address */
		walk_init(&w, 0);
		w.known = UNWIND_ALL_REGS;
		assert_int_equal(walk_arrive(&w, CODE_AT(CODE), CODE_AT(N_WORDS - cases[c].above),
					 cases[c].method),
			UNWIND_MORE);
		w.exact = 0;
		assert_int_equal(walk_turn(&w, words), 1);
		n = frames_end(&w.frames, words, spare, w.cut);
		if (w.cut != cases[c].want_cut)
			fail_msg("case %zu: %u", c, w.cut);
		assert_int_equal(n, w.cut == ABI_CUT_NONE ? 1 : 2);
		/* readers look one byte lower */
		assert_int_equal(words[0], ABI_NATIVE(BINARY, CODE * 8 + cases[c].is_written));
	}
	set_rows(true);
}

static int make_memory(void **state)
{
	(void)state;
	host_memory_init(SLAB + 1, RULE + 1, BINARY + 1);
	return 0;
}

static int free_memory(void **state)
{
	(void)state;
	host_memory_done();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_frame_pointer),
		cmocka_unit_test(begins_without_frame_pointer),
		cmocka_unit_test(roots_written_by_hand),
	};

	return cmocka_run_group_tests(tests, make_memory, free_memory);
}
