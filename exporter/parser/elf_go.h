/* SPDX-License-Identifier: Apache-2.0
 *
 * The function table that every Go program carries (.gopclntab), one function at a time.
 */
#pragma once
#include "exporter/parser/elf_file.h"
#include "lib/base/cursor.h"

enum go_layout { GO_2, GO_16, GO_18 }; /* 1.20 differs in what is not read here */

struct go_table {
	struct cursor all;
	enum go_layout layout;
	uint32_t quantum; /* bytes that distances between instructions count in */
	uint64_t text;	  /* what entries are relative to; 0: they are addresses */
	uint64_t n_functions;
	uint64_t names_off, values_off, functions_off; /* in the table */
};

struct go_function {
	uint64_t start, end;
	const char *name;
	struct cursor
		stack; /* how far the stack pointer is below where it was at the call, by pc */
};

/* False: not a Go program, or its table is of a layout that is not read. */
bool elf_go_open(const struct elf_file *f, struct go_table *ret);
/* The i-th function, in order of addresses; false when its record is malformed. */
bool elf_go_function(const struct go_table *t, uint64_t i, struct go_function *ret);
/* The next stretch of t's values by pc (Go's runtime/symtab.go, step): until *pc the value is *value. Start with the function's
 * start and −1. False at the end. */
bool elf_go_next_value(
	const struct go_table *t, struct cursor *c, bool first, uint64_t *pc, int64_t *value);
