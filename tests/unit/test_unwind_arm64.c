/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker as it is compiled for arm64, on the host: return addresses in x30 and signed ones, frame records, save slots of
 * x29 and x19, signal frames.
 */
#define __TARGET_ARCH_arm64
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "bpf/unwind/walker.h"
#include "lib/base/cleanup.h"

/* Memory of the walked program: words from STACK up, and the code of a signal trampoline. */
#define STACK 0xffffe0000000ULL
enum { STACK_WORDS = 512, CODE_WORDS = 2 };
#define TRAMPOLINE 0x7000ULL
static uint64_t stack[STACK_WORDS];
static const uint32_t trampoline_code[2 * CODE_WORDS] = {0xd2801168, 0xd4000001};

static int read_part(
	void *to, size_t len, uint64_t from, const void *part, uint64_t base, size_t bytes)
{
	if (from < base || len > bytes || from - base > bytes - len)
		return -1;
	memcpy(to, (const uint8_t *)part + (from - base), len);
	return 0;
}

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	return read_part(to, bytes, from, stack, STACK, sizeof(stack)) < 0
		       ? read_part(to, bytes, from, trampoline_code, TRAMPOLINE,
				 sizeof(trampoline_code))
		       : 0;
}

/* One binary: a function every 4 KiB from 0x1000 on, and rule i + 1 holds in all of function i. */
enum { N_FUNCTIONS = 4, FUNCTION_BYTES = 0x1000, PAGES_PER_FUNCTION = 2 };
#define FUNCTION(i) ((uint64_t)FUNCTION_BYTES * ((i) + 1))
static struct unwind_binary the_binary = {
	.slab = 1, .n_pages = PAGES_PER_FUNCTION * (N_FUNCTIONS + 1)};
static uint32_t the_slab[UNWIND_SLAB_WORDS];
static struct unwind_rule rules[N_FUNCTIONS + 1];

static inline struct unwind_binary *unwind_binary_at(struct walk *w, __u32 i)
{
	(void)w;
	return i == 1 ? &the_binary : NULL;
}

static inline const __u32 *unwind_slab_at(struct walk *w, __u32 i)
{
	(void)w;
	return i == 1 ? the_slab : NULL;
}

static inline const struct unwind_rule *unwind_rule_at(struct walk *w, __u32 i)
{
	(void)w;
	return i < ARRAY_SIZE(rules) ? &rules[i] : NULL;
}

static inline int unwind_interp(struct walk *w, __u64 *words)
{
	(void)w, (void)words;
	return 0;
}

static inline int unwind_own_step(struct walk *w, enum unwind_place place)
{
	(void)w, (void)place;
	return 0;
}

static inline struct unwind_near *unwind_near_at(struct walk *w)
{
	(void)w;
	return NULL;
}

static inline struct unwind_answer *unwind_cache_at(struct walk *w, __u32 i)
{
	(void)w, (void)i;
	return NULL;
}

static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	/* What lies behind the functions has no rows. */
	if (addr < FUNCTION(0) || addr >= TRAMPOLINE + sizeof(trampoline_code))
		return UNWIND_IN_DATA;
	w->binary = 1;
	w->off = addr;
	return UNWIND_IN_FILE;
}

_Static_assert(
	UNWIND_BX == 19 && UNWIND_FP == 29 && UNWIND_LR == 30 && UNWIND_SP == 31, "DWARF numbers");

static __u64 words[ABI_MAX_WORDS + 1];

/* A function without a frame, as a leaf is before it saves anything. */
static const struct unwind_rule LEAF = {
	.cfa = UNWIND_CFA_REG,
	.reg = UNWIND_SP,
	.ra = UNWIND_IN_REG,
	.ra_off = UNWIND_LR,
};
/* stp x29, x30, [sp, -32]! */
static const struct unwind_rule FRAME = {
	.cfa = UNWIND_CFA_REG,
	.reg = UNWIND_SP,
	.off = 32,
	.ra = UNWIND_AT_CFA,
	.ra_off = -24,
	.fp = UNWIND_AT_CFA,
	.fp_off = -32,
};
/* The same with the CFA by x29, as after alloca. */
static const struct unwind_rule BY_X29 = {
	.cfa = UNWIND_CFA_REG,
	.reg = UNWIND_FP,
	.off = 32,
	.ra = UNWIND_AT_CFA,
	.ra_off = -24,
	.fp = UNWIND_AT_CFA,
	.fp_off = -32,
};
static const struct unwind_rule ROOT = {.cfa = UNWIND_CFA_REG, .reg = UNWIND_SP, .ra = UNWIND_GONE};

static void set_rules(const struct unwind_rule *const *r)
{
	memset(rules, 0, sizeof(rules));
	memset(the_slab, 0, sizeof(the_slab));
	for (uint32_t i = 0; i < N_FUNCTIONS; i++) {
		uint32_t word = 512 + i, page = PAGES_PER_FUNCTION * (i + 1);

		if (r[i])
			rules[i + 1] = *r[i];
		the_slab[word] = UNWIND_ROW(0, r[i] ? i + 1 : UNWIND_RULE_NONE);
		for (uint32_t k = 0; k < PAGES_PER_FUNCTION; k++)
			the_slab[page + k] = UNWIND_PAGE(1U << UNWIND_SLAB_SHIFT | word, 0);
	}
	memset(stack, 0, sizeof(stack));
}
#define SET_RULES(...) set_rules((const struct unwind_rule *const[N_FUNCTIONS]) {__VA_ARGS__})

static void begin(struct walk *w, uint64_t pc)
{
	memset(w, 0, sizeof(*w));
	walk_init(w, 0);
	w->pc = pc;
	w->regs[UNWIND_SP] = STACK;
	w->known = UNWIND_ALL_REGS;
}

/* Walks and compares the frames with `want`, which ends with a 0. */
static void walk_to(struct walk *w, uint32_t cut, const uint64_t *want)
{
	static __u64 spare[ABI_USER_TAIL_WORDS];
	uint32_t n, n_want = 0;

	for (int i = 0; i <= ABI_MAX_STEPS; i++)
		if (walk_turn(w, words))
			break;
	n = frames_end(&w->frames, words, spare, w->cut);
	assert_int_equal(w->cut, cut);
	while (want[n_want]) {
		assert_true(n_want < n);
		assert_int_equal(words[n_want], ABI_NATIVE(1, want[n_want]));
		n_want++;
	}
	assert_int_equal(n, n_want + (cut != ABI_CUT_NONE));
}
#define WALK(w, cut, ...) walk_to(w, cut, (const uint64_t[]) {__VA_ARGS__, 0})

/* The signature that a processor with pointer authentication puts over bits 48 to 54. */
#define SIGNED(addr, by) ((addr) | (uint64_t)((by)&0x7f) << 48)

/* leaf → frame → root, each return address signed with another one of all signatures. */
static void signed_return_addresses(void **state)
{
	struct walk w;

	(void)state;
	for (unsigned by = 0; by < 128; by++) {
		SET_RULES(&LEAF, &FRAME, &FRAME, &ROOT);
		begin(&w, FUNCTION(0) + 8);
		w.regs[UNWIND_LR] = SIGNED(FUNCTION(1) + 12, by);
		stack[1] = SIGNED(FUNCTION(2) + 16, by + 1);
		stack[4 + 1] = SIGNED(FUNCTION(3) + 20, by + 2);
		WALK(&w, ABI_CUT_NONE, FUNCTION(0) + 8, FUNCTION(1) + 12, FUNCTION(2) + 16,
			FUNCTION(3) + 20);
		assert_int_equal(w.regs[UNWIND_SP], STACK + 64);
		assert_int_equal(w.by[UNWIND_BY_CFI], 3);
	}
	/* What is no signature is no address either: of the kernel, and with a tag. */
	for (unsigned bit = 55; bit < 64; bit++) {
		begin(&w, FUNCTION(0));
		w.regs[UNWIND_LR] = FUNCTION(1) | 1ULL << bit;
		WALK(&w, ABI_CUT_BAD_PC, FUNCTION(0));
	}
	/* A signed 0 ends the stack as a plain one. */
	begin(&w, FUNCTION(0));
	w.regs[UNWIND_LR] = SIGNED(0ULL, 0x55);
	WALK(&w, ABI_CUT_NONE, FUNCTION(0));
}

/* Only the leaf's x30 is known: a caller whose rule wants it cuts the stack rather than going in circles. */
static void link_register_of_a_caller(void **state)
{
	struct walk w;

	(void)state;
	SET_RULES(&LEAF, &LEAF, &ROOT, NULL);
	begin(&w, FUNCTION(0));
	w.regs[UNWIND_LR] = FUNCTION(1) + 4;
	WALK(&w, ABI_CUT_LOST_REGISTER, FUNCTION(0), FUNCTION(1) + 4);
}

/* x29 is followed through a frame that leaves it alone, from the slot in which another one saved it. */
static void frame_pointer_is_followed(void **state)
{
	static const struct unwind_rule leaves_x29 = {.cfa = UNWIND_CFA_REG,
		.reg = UNWIND_SP,
		.off = 16,
		.ra = UNWIND_AT_CFA,
		.ra_off = -16};
	struct walk w;

	(void)state;
	SET_RULES(&FRAME, &leaves_x29, &BY_X29, &ROOT);
	begin(&w, FUNCTION(0) + 4);
	w.regs[UNWIND_FP] = 0xdead; /* is not the frame's; nothing may use it */
	stack[0] = STACK + 100 * 8; /* x29 of function 2 */
	stack[1] = FUNCTION(1) + 4;
	stack[4] = FUNCTION(2) + 4;
	stack[100] = STACK + 200 * 8;
	stack[101] = FUNCTION(3) + 4;
	WALK(&w, ABI_CUT_NONE, FUNCTION(0) + 4, FUNCTION(1) + 4, FUNCTION(2) + 4, FUNCTION(3) + 4);
	assert_int_equal(w.regs[UNWIND_SP], STACK + 104 * 8);
	assert_int_equal(w.regs[UNWIND_FP], STACK + 200 * 8);
}

/* x19, the other register that is followed: a CFA that starts from it, two frames above where it was saved. */
static void x19_is_followed(void **state)
{
	static const struct unwind_rule saves = {.cfa = UNWIND_CFA_REG,
		.reg = UNWIND_SP,
		.off = 32,
		.ra = UNWIND_AT_CFA,
		.ra_off = -24,
		.fp = UNWIND_AT_CFA,
		.fp_off = -32,
		.bx = UNWIND_AT_CFA,
		.bx_off = -16};
	static const struct unwind_rule uses = {.cfa = UNWIND_CFA_REG,
		.reg = UNWIND_BX,
		.off = 16,
		.ra = UNWIND_AT_CFA,
		.ra_off = -8};
	struct walk w;

	(void)state;
	SET_RULES(&saves, &FRAME, &uses, &ROOT);
	begin(&w, FUNCTION(0));
	stack[1] = FUNCTION(1) + 4;
	stack[2] = STACK + 300 * 8;
	stack[5] = FUNCTION(2) + 4;
	stack[301] = FUNCTION(3) + 4;
	WALK(&w, ABI_CUT_NONE, FUNCTION(0), FUNCTION(1) + 4, FUNCTION(2) + 4, FUNCTION(3) + 4);
	assert_int_equal(w.regs[UNWIND_SP], STACK + 302 * 8);
}

/*
 * Code without rows keeps frame records {x29, x30}. Where in its frame a record lies is not told, so that sp is lost with it:
 * a caller whose rule starts from sp is left by its own record, one whose rule starts from x29 by the rule.
 */
static void frame_records(void **state)
{
	struct walk w;

	(void)state;
	SET_RULES(NULL, &FRAME, &BY_X29, &ROOT);
	begin(&w, FUNCTION(0) + 4);
	w.regs[UNWIND_FP] = STACK + 10 * 8;
	stack[10] = STACK + 20 * 8;
	stack[11] = SIGNED(FUNCTION(1) + 4, 3);
	stack[20] = STACK + 30 * 8;
	stack[21] = SIGNED(FUNCTION(2) + 4, 4);
	stack[30] = 0;
	stack[31] = SIGNED(FUNCTION(3) + 4, 5);
	WALK(&w, ABI_CUT_NONE, FUNCTION(0) + 4, FUNCTION(1) + 4, FUNCTION(2) + 4, FUNCTION(3) + 4);
	assert_int_equal(w.by[UNWIND_BY_FP], 2);
	assert_int_equal(w.by[UNWIND_BY_CFI], 1);
}

/* Other registers are lost with a frame record: a rule that wants x19 behind it cuts the stack. */
static void frame_record_loses_registers(void **state)
{
	static const struct unwind_rule uses = {.cfa = UNWIND_CFA_REG,
		.reg = UNWIND_BX,
		.off = 16,
		.ra = UNWIND_AT_CFA,
		.ra_off = -8};
	struct walk w;

	(void)state;
	SET_RULES(NULL, &uses, &ROOT, NULL);
	begin(&w, FUNCTION(0));
	w.regs[UNWIND_FP] = STACK + 10 * 8;
	w.regs[UNWIND_BX] = STACK + 40 * 8;
	stack[11] = FUNCTION(1) + 4;
	stack[41] = FUNCTION(2) + 4;
	WALK(&w, ABI_CUT_LOST_REGISTER, FUNCTION(0), FUNCTION(1) + 4);
}

/*
 * A handler, called on the interrupted leaf's stack: the trampoline is known by its code; the ucontext above the siginfo_t has
 * every register, and the pc in it is exact, so that a leaf's x30 counts again.
 */
static void signal_frame(void **state)
{
	enum { UCONTEXT = 4 + 128 / 8, GREGS = UCONTEXT + 184 / 8 };
	struct walk w;

	(void)state;
	SET_RULES(&FRAME, &LEAF, &FRAME, &ROOT);
	begin(&w, FUNCTION(0) + 4);
	stack[1] = TRAMPOLINE;
	stack[GREGS + UNWIND_LR] = SIGNED(FUNCTION(2) + 4, 9);
	stack[GREGS + UNWIND_SP] = STACK + 400 * 8;
	stack[GREGS + 32] =
		FUNCTION(1); /* the first instruction: one byte lower is another function */
	stack[401] = FUNCTION(3) + 4;
	/* Frames that are exact but not the leaf, and the trampoline, are recorded one byte higher. */
	WALK(&w, ABI_CUT_NONE, FUNCTION(0) + 4, TRAMPOLINE + 1, FUNCTION(1) + 1, FUNCTION(2) + 4,
		FUNCTION(3) + 4);
	assert_int_equal(w.by[UNWIND_BY_SIGNAL], 1);
	assert_int_equal(w.by[UNWIND_BY_CFI], 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signed_return_addresses),
		cmocka_unit_test(link_register_of_a_caller),
		cmocka_unit_test(frame_pointer_is_followed),
		cmocka_unit_test(x19_is_followed),
		cmocka_unit_test(frame_records),
		cmocka_unit_test(frame_record_loses_registers),
		cmocka_unit_test(signal_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
