/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of DWARF by hand: functions are found behind entries that are passed over, however these are written.
 */
#include "exporter/parser/dwarf/dwarf.h"
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { CODE_START = 0x1000, CODE_BYTES = 0x3000, UNIT_HEADER = 12 };
enum { UNIT = 1, VARIABLE, FUNCTION, FLAG, LABEL, TYPE };

/* A function takes an address of 8 bytes, a size of 4 and a name of 2; a variable 4 and 1 bytes; a label a name alone; a type where its sibling is. */
static const uint8_t abbrevs[] = {
	UNIT,
	DW_TAG_compile_unit,
	1,
	0,
	0,
	VARIABLE,
	DW_TAG_variable,
	0,
	DW_AT_type,
	DW_FORM_ref4,
	DW_AT_decl_line,
	DW_FORM_data1,
	0,
	0,
	FUNCTION,
	DW_TAG_subprogram,
	0,
	DW_AT_low_pc,
	DW_FORM_addr,
	DW_AT_high_pc,
	DW_FORM_data4,
	DW_AT_name,
	DW_FORM_string,
	0,
	0,
	FLAG,
	DW_TAG_variable,
	0,
	DW_AT_external,
	DW_FORM_flag_present,
	0,
	0,
	LABEL,
	DW_TAG_label,
	0,
	DW_AT_name,
	DW_FORM_string,
	0,
	0,
	TYPE,
	DW_TAG_structure_type,
	1,
	DW_AT_sibling,
	DW_FORM_ref4,
	0,
	0,
	0,
};

#define A_VARIABLE VARIABLE, 1, 2, 3, 4, 5
#define A_TYPE(sibling) TYPE, sibling, 0, 0, 0
#define A_FUNCTION(name, page) FUNCTION, 0, 0x10 + (page), 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, name, 0

static const struct entries_case {
	const char *name;
	uint8_t bytes[80];
	uint8_t n;
	const char *functions; /* a letter each */
	uint32_t n_left_out;
} cases[] = {
	{"behind variables", {UNIT, A_VARIABLE, A_VARIABLE, FLAG, FLAG, A_FUNCTION('f', 1), 0},
		1 + 6 + 6 + 2 + 15 + 1, "f", 0},
	{"between them", {UNIT, A_FUNCTION('f', 1), A_VARIABLE, A_FUNCTION('g', 2), FLAG, 0},
		1 + 15 + 6 + 15 + 1 + 1, "fg", 0},
	{"at the very end", {UNIT, FLAG, A_FUNCTION('f', 1)}, 1 + 1 + 15, "f", 0},
	{"behind a code of more bytes than it needs",
		{UNIT, VARIABLE | 0x80, 0, 1, 2, 3, 4, 5, A_FUNCTION('f', 1), 0}, 1 + 7 + 15 + 1,
		"f", 0},
	{"behind a name", {UNIT, A_VARIABLE, LABEL, 'a', 'b', 0, FLAG, A_FUNCTION('f', 1), 0},
		1 + 6 + 4 + 1 + 15 + 1, "f", 0},
	/* No compiler puts a function there: that it is not seen tells that all below a type is passed over. */
	{"behind a type and what is below it",
		{UNIT, A_TYPE(34), A_FUNCTION('x', 1), 0, A_FUNCTION('f', 2), 0},
		1 + 5 + 15 + 1 + 15 + 1, "f", 0},
	{"a sibling that is the type",
		{UNIT, A_TYPE(13), A_FUNCTION('f', 1), 0, A_FUNCTION('g', 2), 0},
		1 + 5 + 15 + 1 + 15 + 1, "fg", 0},
	{"a sibling within the reference to it",
		{UNIT, A_TYPE(17), A_FUNCTION('f', 1), 0, A_FUNCTION('g', 2), 0},
		1 + 5 + 15 + 1 + 15 + 1, "fg", 0},
	{"a sibling behind the unit",
		{UNIT, A_TYPE(50), A_FUNCTION('f', 1), 0, A_FUNCTION('g', 2), 0},
		1 + 5 + 15 + 1 + 15 + 1, "fg", 0},
	{"a sibling that is cut off", {UNIT, A_FUNCTION('f', 1), TYPE, 34, 0}, 1 + 15 + 3, "f", 1},
	{"a variable that is cut off", {UNIT, A_FUNCTION('f', 1), VARIABLE, 1, 2}, 1 + 15 + 3, "f",
		1},
	{"a unit that is a variable", {FLAG, A_FUNCTION('f', 1)}, 1 + 15, "", 0},
	{"a code that no abbreviation has",
		{UNIT, A_FUNCTION('f', 1), FLAG, 77, A_FUNCTION('g', 2)}, 1 + 15 + 2 + 15, "f", 1},
};

static void read_entries(const struct entries_case *k, struct debug_tables *t)
{
	struct dwarf_section sections[DWARF_N_SECTIONS] = {{.data = NULL}};
	_cleanup_dwarf_links_ struct dwarf_links links = {.package = {.elf = {.fd = -1}}};
	_cleanup_dwarf_file_ struct dwarf_file d;
	size_t n = UNIT_HEADER + k->n;
	uint8_t *info = malloc(n); /* of this size, so that every byte beyond it is seen */
	const uint8_t header[UNIT_HEADER] = {(uint8_t)(n - 4), 0, 0, 0, 5, 0, DW_UT_compile, 8};

	assert_non_null(info);
	memcpy(info, header, sizeof(header));
	memcpy(info + UNIT_HEADER, k->bytes, k->n);
	sections[DWARF_INFO] = (struct dwarf_section) {.data = info, .bytes = n, .own = info};
	sections[DWARF_ABBREV] = (struct dwarf_section) {.data = abbrevs, .bytes = sizeof(abbrevs)};
	dwarf_file_init(&d, sections);
	assert_int_equal(dwarf_read_file(&d, &links, t), 0);
}

static void entries(void **state)
{
	struct elf_file f = {.n_loads = 1,
		.loads = {{.vaddr = CODE_START, .memory_bytes = CODE_BYTES, .flags = PF_X}}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct entries_case *k = &cases[i];
		_cleanup_debug_tables_ struct debug_tables t;

		print_message("%s\n", k->name);
		debug_tables_init(&t, &f);
		read_entries(k, &t);
		assert_int_equal(t.n_functions, strlen(k->functions));
		assert_int_equal(t.n_ranges, strlen(k->functions));
		assert_int_equal(t.n_left_out, k->n_left_out);
		for (size_t j = 0; j < t.n_functions; j++) {
			assert_int_equal(
				*t.names.items[t.functions[j].name].bytes, k->functions[j]);
			assert_int_equal(t.ranges[j].end - t.range_starts[j].key, 0x40);
		}
	}
}

/* A table in which numbers mean something else: a copy of a function has its address, its size and where the function is. */
static const uint8_t copy_abbrevs[] = {UNIT, DW_TAG_compile_unit, 1, 0, 0, 2, DW_TAG_subprogram, 0,
	DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4, DW_AT_abstract_origin,
	DW_FORM_ref_addr, 0, 0, 0};

enum { FUNCTION_UNIT_BYTES = UNIT_HEADER + 1 + 15 + 1, COPY_UNIT_BYTES = UNIT_HEADER + 1 + 17 + 1 };

static void put_function_unit(uint8_t *p, uint8_t abbrev_off)
{
	const uint8_t unit[FUNCTION_UNIT_BYTES] = {FUNCTION_UNIT_BYTES - 4, 0, 0, 0, 5, 0,
		DW_UT_compile, 8, abbrev_off, 0, 0, 0, UNIT, A_FUNCTION('f', 0), 0};

	memcpy(p, unit, sizeof(unit));
}

static void put_copy_unit(uint8_t *p, uint8_t abbrev_off, uint8_t page, uint8_t function_off)
{
	const uint8_t unit[COPY_UNIT_BYTES] = {COPY_UNIT_BYTES - 4, 0, 0, 0, 5, 0, DW_UT_compile, 8,
		abbrev_off, 0, 0, 0, UNIT, 2, 0, 0x10 + page, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0,
		function_off, 0, 0, 0, 0};

	memcpy(p, unit, sizeof(unit));
}

/* Tables of abbreviations in the order of units and in the other, references to a unit before and to one behind. */
static void units(void **state)
{
	struct elf_file f = {.n_loads = 1,
		.loads = {{.vaddr = CODE_START, .memory_bytes = CODE_BYTES, .flags = PF_X}}};

	(void)state;
	for (int i = 0; i < 4; i++) {
		bool copies_first = i & 1, other_tables_first = i & 2;
		struct dwarf_section sections[DWARF_N_SECTIONS] = {{.data = NULL}};
		_cleanup_dwarf_links_ struct dwarf_links links = {.package = {.elf = {.fd = -1}}};
		uint8_t info[FUNCTION_UNIT_BYTES + 3 * COPY_UNIT_BYTES], *p = info;
		uint8_t tables[sizeof(abbrevs) + sizeof(copy_abbrevs)];
		uint8_t function_off = copies_first ? 2 * COPY_UNIT_BYTES : 0;
		uint8_t own = other_tables_first ? sizeof(copy_abbrevs) : 0,
			other = other_tables_first ? 0 : sizeof(abbrevs);
		_cleanup_dwarf_file_ struct dwarf_file d;
		_cleanup_debug_tables_ struct debug_tables t;

		memcpy(tables + own, abbrevs, sizeof(abbrevs));
		memcpy(tables + other, copy_abbrevs, sizeof(copy_abbrevs));
		for (uint8_t unit = 0; unit < 4; unit++) {
			if (p == info + function_off) {
				put_function_unit(p, own);
				p += FUNCTION_UNIT_BYTES;
			} else {
				put_copy_unit(p, other, unit + 1, function_off + UNIT_HEADER + 1);
				p += COPY_UNIT_BYTES;
			}
		}
		sections[DWARF_INFO] = (struct dwarf_section) {.data = info, .bytes = sizeof(info)};
		sections[DWARF_ABBREV] =
			(struct dwarf_section) {.data = tables, .bytes = sizeof(tables)};
		debug_tables_init(&t, &f);
		dwarf_file_init(&d, sections);
		assert_int_equal(dwarf_read_file(&d, &links, &t), 0);
		assert_int_equal(t.n_left_out, 0);
		assert_int_equal(t.n_ranges, 4);
		/* All of them are the one function. */
		assert_int_equal(t.n_functions, 1);
		assert_string_equal(t.names.items[t.functions[0].name].bytes, "f");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries),
		cmocka_unit_test(units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
