/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame information by hand: the expressions that compilers, linkers and OCaml 5 write, and what must be refused; an arm64
 * function that signs and saves its return address.
 */
#include "exporter/parser/unwind/cfi.h"
#include <dwarf.h>
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct expression_case {
	const char *name;
	uint8_t bytes[16];
	uint8_t n;
	bool from_cfa, ok;
	struct cfi_value want;
};

static void expressions(void **state)
{
	static const struct expression_case cases[] = {
		{"realigned stack: *(rbp - 8)", {DW_OP_breg6, 0x78, DW_OP_deref}, 3, false, true,
			{UNWIND_CFA_DEREF, 6, -8, 0, 0}},
		{"libcrypto: *(rsp + 4432) + 8",
			{DW_OP_breg7, 0xd0, 0x22, DW_OP_deref, DW_OP_plus_uconst, 8}, 6, false,
			true, {UNWIND_CFA_DEREF, 7, 4432, 0, 8}},
		{"OCaml 5, C to OCaml: *(rsp + 16) + 80",
			{DW_OP_breg7, 16, DW_OP_deref, DW_OP_plus_uconst, 80}, 5, false, true,
			{UNWIND_CFA_DEREF, 7, 16, 0, 80}},
		{"OCaml 5, effect handler: *(*(rsp + 56)) + 8",
			{DW_OP_breg7, 56, DW_OP_deref, DW_OP_plus_uconst, 0, DW_OP_deref,
				DW_OP_plus_uconst, 8},
			8, false, true, {UNWIND_CFA_DEREF2, 7, 56, 0, 8}},
		{"two constants in a row",
			{DW_OP_breg7, 0, DW_OP_deref, DW_OP_plus_uconst, 32, DW_OP_plus_uconst,
				0x90, 1},
			8, false, true, {UNWIND_CFA_DEREF, 7, 0, 0, 176}},
		{"PLT, 11",
			{DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit11,
				DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus},
			11, false, true, {UNWIND_CFA_PLT, 7, 11, 0, 8}},
		{"PLT, 10",
			{DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit10,
				DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus},
			11, false, true, {UNWIND_CFA_PLT, 7, 10, 0, 8}},
		{"slot by rbp", {DW_OP_breg6, 0x68}, 2, true, true, {UNWIND_CFA_REG, 6, 0, 0, -24}},
		{"slot by CFA", {DW_OP_const1s, 0xf0, DW_OP_plus}, 3, true, true,
			{UNWIND_CFA_REG, CFI_FROM_CFA, 0, 0, -16}},
		{"minus", {DW_OP_breg3, 8, DW_OP_lit3, DW_OP_minus}, 4, false, true,
			{UNWIND_CFA_REG, 3, 0, 0, 5}},
		{"nothing", {0}, 0, false, false, {0}},
		{"a constant", {DW_OP_lit3}, 1, false, false, {0}},
		{"three times", {DW_OP_breg7, 0, DW_OP_deref, DW_OP_deref, DW_OP_deref}, 5, false,
			false, {0}},
		{"sum of registers", {DW_OP_breg7, 0, DW_OP_breg6, 0, DW_OP_plus}, 5, false, false,
			{0}},
		{"cut short", {DW_OP_breg7}, 1, false, false, {0}},
		{"no such register", {DW_OP_breg17, 0}, 2, false, false, {0}},
		{"unknown operation", {DW_OP_breg7, 0, DW_OP_xderef}, 3, false, false, {0}},
		{"too deep", {DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0}, 5, false,
			false, {0}},
	};
	const struct cfi_machine *m = cfi_machine_of(EM_X86_64);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct expression_case *t = &cases[i];
		struct cfi_value got = {0};
		bool ok = cfi_evaluate(m, cursor_of(t->bytes, t->n), t->from_cfa, &got);

		if (ok != t->ok || (ok && (got.kind != t->want.kind || got.reg != t->want.reg ||
						  got.d1 != t->want.d1 || got.d2 != t->want.d2 ||
						  got.off != t->want.off)))
			fail_msg("%s: %d, kind %u reg %u d1 %ld d2 %ld off %ld", t->name, ok,
				got.kind, got.reg, got.d1, got.d2, got.off);
	}
}

struct rows {
	uint64_t begin[8];
	struct unwind_rule rule[8];
	unsigned n;
};

static void take_row(void *ctx, uint64_t begin, const struct unwind_rule *rule)
{
	struct rows *r = ctx;

	assert_true(r->n < 8);
	r->begin[r->n] = begin;
	r->rule[r->n++] = *rule;
}

/* paciasp; stp x29, x30, [sp, -65568]! (in effect); … ; ldp; autiasp; ret */
static void arm64(void **state)
{
	static const uint8_t frame[] = {
		/* CIE: version 1, "zR", code 4, data -8, x30; absolute addresses; CFA = sp */
		16, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 4, 0x78, 30, 1, DW_EH_PE_absptr,
		DW_CFA_def_cfa, 31, 0,
		/* FDE: [0x1000, 0x1020) */
		42, 0, 0, 0, 24, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0,
		DW_CFA_advance_loc | 1, DW_CFA_GNU_window_save, DW_CFA_advance_loc | 1,
		DW_CFA_def_cfa_offset, 0xa0, 0x80, 4, DW_CFA_offset | 29, 0x84, 0x40,
		DW_CFA_offset | 30, 0x83, 0x40, DW_CFA_advance_loc | 2, DW_CFA_restore | 30,
		DW_CFA_restore | 29, DW_CFA_def_cfa_offset, 0, DW_CFA_nop, DW_CFA_nop, DW_CFA_nop};
	struct cfi_section s;
	struct cfi_fde fde;
	struct rows rows = {.n = 0};
	uint64_t off = 0;

	(void)state;
	cfi_section_init(&s, cfi_machine_of(EM_AARCH64), frame, sizeof(frame), 0);
	assert_int_equal(cfi_read(&s, &off, &fde), CFI_CIE);
	assert_int_equal(cfi_read(&s, &off, &fde), CFI_FDE);
	assert_int_equal(off, sizeof(frame));
	assert_int_equal(fde.begin, 0x1000);
	assert_int_equal(fde.end, 0x1020);
	assert_true(cfi_run(s.machine, &fde, take_row, &rows));
	assert_int_equal(rows.n, 4);
	/* At the begin, and signed: in x30. */
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rows.begin[i], 0x1000 + 4 * i);
		assert_int_equal(rows.rule[i].reg, 31);
		assert_int_equal(rows.rule[i].off, 0);
		assert_int_equal(rows.rule[i].ra, UNWIND_IN_REG);
		assert_int_equal(rows.rule[i].ra_off, 30);
		assert_int_equal(rows.rule[i].fp, UNWIND_SAME);
	}
	/* Saved, 64 KiB away. */
	assert_int_equal(rows.begin[2], 0x1008);
	assert_int_equal(rows.rule[2].off, 65568);
	assert_int_equal(rows.rule[2].ra, UNWIND_AT_CFA);
	assert_int_equal(rows.rule[2].ra_off, -65560);
	assert_int_equal(rows.rule[2].fp_off, -65568);
	assert_int_equal(rows.begin[3], 0x1010);
	assert_memory_equal(&rows.rule[3], &rows.rule[0], sizeof(rows.rule[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expressions),
		cmocka_unit_test(arm64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
