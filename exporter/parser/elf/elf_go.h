/* SPDX-License-Identifier: Apache-2.0
 *
 * The function table that every Go program carries (.gopclntab), one function at a time.
 */
#pragma once
#include "exporter/parser/elf/elf_file.h"
#include "lib/base/cursor.h"

enum go_layout { GO_2, GO_16, GO_18, GO_20 };

struct go_table {
	struct cursor all;
	enum go_layout layout;
	uint32_t quantum; /* bytes that distances between instructions count in */
	uint64_t text;	  /* what entries are relative to; 0: they are addresses */
	uint64_t n_functions;
	/* in the table; units and files: 0 in the oldest layout */
	uint64_t names_off, units_off, files_off, values_off, functions_off;
};

struct go_function {
	uint64_t start, end;
	const char *name;
	struct cursor record; /* all that the table has of it; from its start on */
	/* how far the stack pointer is below where it was at the call, by pc */
	struct cursor stack;
};

/* False: not a Go program, or its table is of a layout that is not read. */
bool elf_go_open(const struct elf_file *f, struct go_table *ret);
/* The i-th function, in order of addresses; false when its record is malformed. */
bool elf_go_function(const struct go_table *t, uint64_t i, struct go_function *ret);
/* The values by pc that lie at an offset of their part of the table; its error is set for 0: there are none. */
struct cursor elf_go_values(const struct go_table *t, uint32_t off);
/* The text that lies at an offset, NULL when it is empty or does not end. base: one of the table's parts. */
const char *elf_go_text(const struct go_table *t, uint64_t base, uint32_t off);
/* The address of the word `text` in the runtime's moduledata; 0: not found. */
uint64_t elf_go_module_text(const struct elf_file *f, const struct go_table *t);
/* A table that is at hand; text as for elf_go_functions. */
bool elf_go_table_of(const void *table, size_t n, uint64_t text, struct go_table *ret);
/* The next stretch of t's values by pc (Go's runtime/symtab.go, step): until *pc the value is *value. Start with the function's
 * start and −1. False at the end. */
bool elf_go_next_value(
	const struct go_table *t, struct cursor *c, bool first, uint64_t *pc, int64_t *value);
