/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk of kernel stacks (bpf/kernel/walk.h) over stacks in memory: calls, faults and interrupts as the kernel leaves them,
 * and everything that must be refused; the search of its table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "bpf/kernel/walk.h"
#include "bpf/unwind/near.h"
#include "lib/base/cleanup.h"

#define STACK_BYTES 16384U
#define TASK 0xffffc90000010000ULL
#define IRQ 0xffffc90000100000ULL
#define TABLE 0xffffffff83000000ULL
#define CODE 0xffffffff81234567ULL

static uint64_t task_stack[STACK_BYTES / 8], irq_stack[STACK_BYTES / 8];
static int32_t table[1000];

static const struct {
	uint64_t at, bytes;
	void *memory;
} regions[] = {
	{TASK, sizeof(task_stack), task_stack},
	{IRQ, sizeof(irq_stack), irq_stack},
	{TABLE, sizeof(table), table},
};

static int kernel_read(void *to, __u32 bytes, __u64 from)
{
	for (size_t i = 0; i < ARRAY_SIZE(regions); i++)
		if (from >= regions[i].at && from + bytes <= regions[i].at + regions[i].bytes) {
			memcpy(to, (const uint8_t *)regions[i].memory + (from - regions[i].at),
				bytes);
			return 0;
		}
	return -14;
}

static void put(uint64_t at, uint64_t value)
{
	uint64_t *stack = at >= IRQ ? irq_stack : task_stack;

	stack[(at - (at >= IRQ ? IRQ : TASK)) / 8 % (STACK_BYTES / 8)] = value;
}

static uint64_t rule(uint32_t type, uint32_t sp_reg, int sp_off, uint32_t bp_reg, int bp_off)
{
	/* Faults and interrupts have the bit `signal`. */
	uint32_t bits = sp_reg | bp_reg << 4 | type << 8 | (type >= ORC_TYPE_REGS ? 1U << 11 : 0);

	return KERNEL_RULE(sp_off, bp_off, bits);
}

static uint64_t call(int sp_off)
{
	return rule(ORC_TYPE_CALL, ORC_REG_SP, sp_off, ORC_REG_UNDEFINED, 0);
}

static struct kernel_walk walk_at(uint64_t sp)
{
	struct kernel_walk w = {
		.pc = CODE, .sp = sp, .bp = 77, .exact = 1, .stack_bytes = STACK_BYTES};

	memset(task_stack, 0, sizeof(task_stack));
	memset(irq_stack, 0, sizeof(irq_stack));
	kernel_walk_place(&w, TASK);
	return w;
}

static void put_regs(uint64_t at, uint64_t ip, uint64_t cs, uint64_t sp, uint64_t bp)
{
	put(at + KERNEL_REGS_BP, bp);
	put(at + KERNEL_REGS_IP, ip);
	put(at + KERNEL_REGS_IP + 8, cs);
	put(at + KERNEL_REGS_IP + 24, sp);
}

static void test_rules_are_the_entrys_fields(void **state)
{
	uint64_t r = rule(ORC_TYPE_REGS, ORC_REG_SP_INDIRECT, -32768, ORC_REG_PREV_SP, -16);

	(void)state;
	assert_int_equal(KERNEL_RULE_SP_OFF(r), -32768);
	assert_int_equal(KERNEL_RULE_BP_OFF(r), -16);
	assert_int_equal(KERNEL_RULE_SP_REG(r), ORC_REG_SP_INDIRECT);
	assert_int_equal(KERNEL_RULE_BP_REG(r), ORC_REG_PREV_SP);
	assert_int_equal(KERNEL_RULE_TYPE(r), ORC_TYPE_REGS);
	assert_int_equal(KERNEL_RULE_SIGNAL(r), 1);
	assert_int_equal(KERNEL_RULE(-1, -1, 0xffff) >> UNWIND_PLAIN_BITS, 0);
}

/* arch/x86/include/asm/orc_types.h of 6.1 and 6.3: a call is type 0, what an interrupt saved 1, a part of it 2. */
static void test_entries_of_other_kernels(void **state)
{
	const uint32_t sp_bp = ORC_REG_SP | ORC_REG_BP << 4, end = ORC_TYPE_END_OF_STACK << 8;
	const uint32_t call = sp_bp | ORC_TYPE_CALL << 8, regs = sp_bp | ORC_TYPE_REGS << 8;
	const uint32_t part = sp_bp | ORC_TYPE_REGS_PARTIAL << 8, signal = 1U << 11;

	(void)state;
	assert_int_equal(kernel_orc_bits(0x5fff, KERNEL_ORC_6_4), 0x5fff);
	assert_int_equal(kernel_orc_bits(0x283, KERNEL_ORC_REGS_AS_INSNS),
		ORC_REG_SP | ORC_REG_PREV_SP << 4 | ORC_TYPE_CALL << 8);
	assert_int_equal(kernel_orc_bits(0xb4a, KERNEL_ORC_REGS_AS_INSNS),
		ORC_REG_BP_INDIRECT | ORC_REG_BP << 4 | ORC_TYPE_REGS << 8 | signal);
	assert_int_equal(kernel_orc_bits(0x209, KERNEL_ORC_REGS_AS_INSNS),
		ORC_REG_SP_INDIRECT | ORC_TYPE_CALL << 8);
	assert_false(kernel_rule_is_known(
		KERNEL_RULE(8, 0, kernel_orc_bits(0x201, KERNEL_ORC_REGS_AS_INSNS))));
	assert_int_equal(kernel_orc_bits(sp_bp, KERNEL_ORC_BEFORE_6_3), call);
	assert_int_equal(kernel_orc_bits(sp_bp | 1U << 8, KERNEL_ORC_BEFORE_6_3), regs | signal);
	assert_int_equal(kernel_orc_bits(sp_bp | 2U << 8, KERNEL_ORC_BEFORE_6_3), part | signal);
	assert_int_equal(kernel_orc_bits(1U << 10, KERNEL_ORC_BEFORE_6_3), end);
	assert_int_equal(kernel_orc_bits(0, KERNEL_ORC_BEFORE_6_3), ORC_TYPE_UNDEFINED);
	assert_int_equal(kernel_orc_bits(sp_bp, KERNEL_ORC_6_3), call);
	assert_int_equal(kernel_orc_bits(sp_bp | 1U << 10, KERNEL_ORC_6_3), call | signal);
	assert_int_equal(kernel_orc_bits(sp_bp | 1U << 8, KERNEL_ORC_6_3), regs);
	assert_int_equal(kernel_orc_bits(sp_bp | 5U << 8, KERNEL_ORC_6_3), regs | signal);
	assert_int_equal(kernel_orc_bits(1U << 11, KERNEL_ORC_6_3), end);
}

static void test_only_some_rules_are_known(void **state)
{
	(void)state;
	for (uint32_t type = 0; type < 8; type++)
		for (uint32_t sp = 0; sp < 16; sp++)
			for (uint32_t bp = 0; bp < 16; bp++) {
				bool is_sp = sp == 4 || sp == 5 || sp == 8 || sp == 9;
				bool is_bp = bp < 2 || bp == 4;
				bool known = type == ORC_TYPE_END_OF_STACK ||
					     (type == ORC_TYPE_CALL && is_sp && is_bp) ||
					     (type == ORC_TYPE_REGS && is_sp && bp == 0);

				assert_int_equal(
					kernel_rule_is_known(rule(type, sp, 8, bp, 0)), known);
			}
	assert_false(kernel_rule_is_known(0));
}

static void test_calls_up_to_user_mode(void **state)
{
	uint64_t sp = TASK + 8000;
	struct kernel_walk w = walk_at(sp);

	(void)state;
	put(sp + 16, 4242); /* the saved frame pointer */
	put(sp + 24, CODE + 1);
	assert_int_equal(kernel_step(&w, rule(ORC_TYPE_CALL, ORC_REG_SP, 32, ORC_REG_PREV_SP, -16)),
		KERNEL_MORE);
	assert_int_equal(w.pc, CODE + 1);
	assert_int_equal(w.sp, sp + 32);
	assert_int_equal(w.bp, 4242);
	assert_int_equal(w.exact, 0);
	assert_int_equal(kernel_walk_addr(&w), CODE);

	/* Saved far below the caller's frame; then a frame pointer of use. */
	put(sp + 40, TASK + 9600);
	put(sp + 1056 - 8, CODE + 2);
	assert_int_equal(
		kernel_step(&w, rule(ORC_TYPE_CALL, ORC_REG_SP, 1024, ORC_REG_PREV_SP, -1016)),
		KERNEL_MORE);
	assert_int_equal(w.bp, TASK + 9600);
	put(TASK + 9608, CODE + 3);
	put(TASK + 9600, 5);
	assert_int_equal(kernel_step(&w, rule(ORC_TYPE_CALL, ORC_REG_BP, 16, ORC_REG_PREV_SP, -16)),
		KERNEL_MORE);
	assert_int_equal(w.pc, CODE + 3);
	assert_int_equal(w.sp, TASK + 9616);
	assert_int_equal(w.bp, 5);

	put_regs(TASK + 9616, 0x401000, 0x33, 0x7ffc0000, 9);
	assert_int_equal(kernel_step(&w, rule(ORC_TYPE_REGS, ORC_REG_SP, 0, 0, 0)), KERNEL_ROOT);
}

/* Functions that align their stack keep where they were called from below their frame pointer. */
static void test_a_function_that_aligns_its_stack(void **state)
{
	uint64_t sp = TASK + 8000;
	struct kernel_walk w = walk_at(sp);

	(void)state;
	w.bp = sp + 64;
	put(w.bp - 8, sp + 120);
	put(w.bp, 1234);
	put(sp + 112, CODE + 1);
	assert_int_equal(
		kernel_step(&w, rule(ORC_TYPE_CALL, ORC_REG_BP_INDIRECT, -8, ORC_REG_BP, 0)),
		KERNEL_MORE);
	assert_int_equal(w.pc, CODE + 1);
	assert_int_equal(w.sp, sp + 120);
	assert_int_equal(w.bp, 1234);
}

static void test_a_fault_in_the_kernel(void **state)
{
	uint64_t sp = TASK + 8000, above = sp + KERNEL_REGS_BYTES;
	struct kernel_walk w = walk_at(sp);

	(void)state;
	put_regs(sp, CODE + 9, 0x10, above, 4711);
	assert_int_equal(kernel_step(&w, rule(ORC_TYPE_REGS, ORC_REG_SP, 0, 0, 0)), KERNEL_MORE);
	assert_int_equal(w.pc, CODE + 9);
	assert_int_equal(w.sp, above);
	assert_int_equal(w.bp, 4711);
	assert_int_equal(kernel_walk_addr(&w), CODE + 9); /* no return address */
	put(above, CODE + 10);
	assert_int_equal(kernel_step(&w, call(8)), KERNEL_MORE);
	assert_int_equal(w.exact, 0);
	assert_int_equal(kernel_step(&w, rule(ORC_TYPE_END_OF_STACK, 0, 0, 0, 0)), KERNEL_ROOT);
}

static void test_an_interrupts_stack_leads_to_the_tasks(void **state)
{
	uint64_t top = IRQ + STACK_BYTES - 8, sp = top - 200;
	struct kernel_walk w = walk_at(sp);

	(void)state;
	assert_int_equal(w.task_low, TASK);
	put(sp, CODE + 1);
	assert_int_equal(kernel_step(&w, call(8)), KERNEL_MORE);
	put(top - 8, CODE + 2);
	assert_int_equal(kernel_step(&w, call(200 - 8)), KERNEL_MORE);
	assert_int_equal(w.sp, top);
	put(top, TASK + 4096);
	put(TASK + 4096, CODE + 3);
	assert_int_equal(
		kernel_step(&w, rule(ORC_TYPE_CALL, ORC_REG_SP_INDIRECT, 8, 0, 0)), KERNEL_MORE);
	assert_int_equal(w.pc, CODE + 3);
	assert_int_equal(w.sp, TASK + 4104);
	assert_int_equal(w.low, TASK);
	assert_int_equal(w.high, TASK + STACK_BYTES);
	assert_int_equal(w.task_low, 0);
	/* Once only. */
	put(w.sp, TASK + 8000);
	assert_int_equal(
		kernel_step(&w, rule(ORC_TYPE_CALL, ORC_REG_SP_INDIRECT, 8, 0, 0)), KERNEL_REFUSED);
}

static void test_what_is_refused(void **state)
{
	const uint64_t sp = TASK + 8000;
	const struct {
		const char *what;
		uint64_t sp, bp, rule, regs_cs, regs_sp;
	} cases[] = {
		{"below sp", sp, 0, call(0), 0, 0},
		{"below sp by bp", sp, sp - 64,
			rule(ORC_TYPE_CALL, ORC_REG_BP, 16, ORC_REG_UNDEFINED, 0), 0, 0},
		{"bp is no stack", sp, 77,
			rule(ORC_TYPE_CALL, ORC_REG_BP, 16, ORC_REG_UNDEFINED, 0), 0, 0},
		{"where it was called from lies below sp", sp, sp,
			rule(ORC_TYPE_CALL, ORC_REG_BP_INDIRECT, -8, ORC_REG_BP, 0), 0, 0},
		{"bp saved below sp", sp, sp, rule(ORC_TYPE_CALL, ORC_REG_SP, 16, ORC_REG_BP, -8),
			0, 0},
		{"bp saved below sp, near the frame", sp, 0,
			rule(ORC_TYPE_CALL, ORC_REG_SP, 16, ORC_REG_PREV_SP, -24), 0, 0},
		{"unaligned", sp, 0, call(12), 0, 0},
		{"above the stack", TASK + STACK_BYTES - 8, 0, call(16), 0, 0},
		{"bp saved outside", sp, 0,
			rule(ORC_TYPE_CALL, ORC_REG_SP, 16, ORC_REG_PREV_SP, -16384), 0, 0},
		{"bp saved unaligned", sp, 0,
			rule(ORC_TYPE_CALL, ORC_REG_SP, 16, ORC_REG_PREV_SP, -12), 0, 0},
		{"another stack than the CPU's", sp, 0,
			rule(ORC_TYPE_CALL, ORC_REG_SP_INDIRECT, 8, 0, 0), 0, 0},
		{"regs beyond the end", TASK + STACK_BYTES - 160, 0,
			rule(ORC_TYPE_REGS, ORC_REG_SP, 0, 0, 0), 0x10, TASK},
		{"regs that go back", sp, 0, rule(ORC_TYPE_REGS, ORC_REG_SP, 0, 0, 0), 0x10,
			sp + 8},
		{"regs of another stack", sp, 0, rule(ORC_TYPE_REGS, ORC_REG_SP, 0, 0, 0), 0x10,
			IRQ + 800},
		{"user mode, not from the task's stack", IRQ + 800, 0,
			rule(ORC_TYPE_REGS, ORC_REG_SP, 0, 0, 0), 0x33, 0},
		{"an end, not from the task's stack", IRQ + 800, 0,
			rule(ORC_TYPE_END_OF_STACK, 0, 0, 0, 0), 0, 0},
		{"memory that is not there", 0xffff888000000000ULL, 0, call(16), 0, 0},
		{"to a stack that is not the task's", IRQ + 800, 0,
			rule(ORC_TYPE_CALL, ORC_REG_SP_INDIRECT, 8, 0, 0), 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kernel_walk w = walk_at(cases[i].sp);

		w.bp = cases[i].bp;
		if (cases[i].regs_cs && cases[i].sp < TASK + STACK_BYTES - 168)
			put_regs(cases[i].sp, CODE, cases[i].regs_cs, cases[i].regs_sp, 0);
		else if (cases[i].regs_cs)
			put_regs(TASK, CODE, 0, 0, 0);
		if (kernel_step(&w, cases[i].rule) != KERNEL_REFUSED)
			fail_msg("not refused: %s", cases[i].what);
	}
}

static void put_table(const uint64_t *ips, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		table[i] = (int32_t)(int64_t)(ips[i] - (TABLE + 4ULL * i));
}

static void test_the_search_finds_the_last_that_begins_before(void **state)
{
	enum { N = 900 };
	uint64_t ips[N], ip = CODE;

	(void)state;
	srand(3);
	for (uint32_t i = 0; i < N; i++)
		ips[i] = ip += (uint64_t)(rand() % 4) * 3; /* some begin at one address */
	put_table(ips, N);
	for (uint64_t addr = ips[0]; addr < ips[N - 1] + 20; addr++) {
		struct kernel_search s = {.ips = TABLE, .addr = addr, .hi = N - 1};
		uint32_t want = 0;

		for (uint32_t i = 0; i < N; i++)
			want = ips[i] <= addr ? i : want;
		for (uint32_t i = 0; i < KERNEL_SEARCH_STEPS && !kernel_search_turn(&s); i++)
			;
		assert_int_equal(s.lo, want);
		assert_true(kernel_search_holds(&s, N));
		/* Whatever lies beside it is not taken for it. */
		s.lo = want + 1;
		assert_false(kernel_search_holds(&s, N));
		s.lo = want - 1;
		assert_false(want && kernel_search_holds(&s, N));
	}
}

static void test_a_table_that_cannot_be_read_gives_nothing(void **state)
{
	struct kernel_search s = {.ips = 0x1000, .addr = CODE, .hi = 100};

	(void)state;
	while (!kernel_search_turn(&s))
		;
	assert_false(kernel_search_holds(&s, 101));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules_are_the_entrys_fields),
		cmocka_unit_test(test_entries_of_other_kernels),
		cmocka_unit_test(test_only_some_rules_are_known),
		cmocka_unit_test(test_calls_up_to_user_mode),
		cmocka_unit_test(test_a_function_that_aligns_its_stack),
		cmocka_unit_test(test_a_fault_in_the_kernel),
		cmocka_unit_test(test_an_interrupts_stack_leads_to_the_tasks),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_the_search_finds_the_last_that_begins_before),
		cmocka_unit_test(test_a_table_that_cannot_be_read_gives_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
