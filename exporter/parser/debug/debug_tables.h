/* SPDX-License-Identifier: Apache-2.0
 *
 * Files, lines and inlined calls on their way into a symbol file. The readers of DWARF, of
 * OCaml's frametables and of Go's tables fill them, in any order. Addresses
 * are ELF virtual addresses. Rows outside the executable segments are left out: linkers
 * leave the tables of code that they dropped. Memory until encoded: 4 bytes a row, mostly, and 16 for
 * each row of the sequence under way; 24 a range.
 *
 * A scope is one function's body: a root (a function as it stands in the file) or an inlined copy
 * within another scope. Of ranges that overlap the one that starts later is the inner one.
 */
#pragma once
#include "exporter/parser/debug/debug_blocks.h"
#include "exporter/parser/elf/elf_file.h"
#include "exporter/parser/elf/elf_toolchain.h"
#include "lib/base/bytes.h"
#include "lib/base/radix.h"
#include "lib/base/table.h"

/* Rows of addresses that ascend, in blocks of their own. */
struct debug_sequence {
	uint32_t start, end;			   /* less the base */
	uint32_t first_block, n_blocks, n_in_last; /* rows of the last block */
	struct debug_row last;
};

/* Where the next row of a sequence goes. Who writes many takes it out of the tables, so that it stays in registers, and puts it back. */
struct debug_pen {
	struct debug_row *at, *end; /* the last row; the last one that there is room for */
	int64_t last;		    /* its address; -1: there is none */
	uint64_t base;
};

struct debug_function {
	uint32_t name; /* id in names, or DEBUG_NO_NAME */
	uint32_t file;
	uint32_t line;
	bool name_wins; /* over the symbol table's */
};
enum { DEBUG_NO_NAME = 0xffffffffU, DEBUG_NO_FILE = 0 };

struct debug_range {
	uint32_t end, scope;
};

struct debug_tables {
	const struct elf_file *f;
	uint64_t base;		       /* the lowest executable address */
	uint64_t code_start, code_end; /* of the largest executable segment; empty: unknown */
	struct interner files, names;
	/* Of the sequence that has not ended, behind an empty one. */
	struct debug_row *rows;
	struct debug_pen pen;
	struct debug_blocks lines; /* of those that have, in the order in which they came */
	struct debug_sequence *sequences;
	struct debug_row *points; /* rows of one byte each, over those of any sequence */
	struct debug_function *functions;
	struct radix_item *range_starts; /* value: index into ranges */
	struct debug_range *ranges;
	struct bytes scopes; /* records as they are written */
	size_t n_points, cap_points, cap_rows, n_sequences, cap_sequences, n_functions,
		cap_functions, n_ranges, cap_starts, cap_ranges;
	struct toolchain_votes votes; /* of DWARF units */
	uint32_t n_left_out;	      /* units (of any source) that were malformed or too much */
	int error;		      /* sticky: -ENOMEM, -EFBIG */
};

void debug_tables_init(struct debug_tables *t, const struct elf_file *f);
void debug_tables_done(struct debug_tables *t);
#define _cleanup_debug_tables_ _cleanup_(debug_tables_done)

/* The id of a path; DEBUG_NO_FILE for "". */
uint32_t debug_tables_file(struct debug_tables *t, const char *path, size_t n);
/* A function: name NULL or "" when only the symbol table has one. */
uint32_t debug_tables_function(struct debug_tables *t, const char *name, size_t name_bytes,
	uint32_t file, uint32_t line, bool name_wins);

/*
 * Room for what sections of so many bytes mostly hold, so that nothing is copied while it grows. Memory that is not used is
 * not touched.
 */
void debug_tables_expect(struct debug_tables *t, size_t line_bytes, size_t info_bytes);

enum { DEBUG_MAX_COLUMN = UINT16_MAX };
/* Room for one more behind `pen.at`. */
bool debug_tables_grow_rows(struct debug_tables *t);

static inline void debug_pen_row(struct debug_tables *t, struct debug_pen *pen, uint64_t vaddr,
	uint32_t file, uint32_t line, uint32_t column)
{
	uint64_t rel = vaddr - pen->base;

	/* What is not code is never found; the end tells whether the whole sequence is. */
	if (rel >= UINT32_MAX || (int64_t)rel < pen->last)
		return;
	if (pen->at == pen->end) {
		t->pen.at = pen->at;
		if (!debug_tables_grow_rows(t))
			return;
		pen->at = t->pen.at;
		pen->end = t->pen.end;
	}
	/* Reckoned, not asked: gcc writes several for one address, in no order that a processor could foresee. */
	pen->at += (int64_t)rel != pen->last;
	pen->last = (int64_t)rel;
	*pen->at = (struct debug_row) {
		.addr = (uint32_t)rel, .file = file, .line = line, .column = column};
}

/* Rows of one sequence, in ascending order of addresses; of several at one address the last
 * counts. `end` closes it at the first address behind. */
static inline void debug_tables_row(
	struct debug_tables *t, uint64_t vaddr, uint32_t file, uint32_t line, uint32_t column)
{
	debug_pen_row(t, &t->pen, vaddr, file, line, MIN(column, (uint32_t)DEBUG_MAX_COLUMN));
}

void debug_tables_end_sequence(struct debug_tables *t, uint64_t vaddr);
/* The line of one byte alone, whatever a sequence says of it. */
void debug_tables_point(
	struct debug_tables *t, uint64_t vaddr, uint32_t file, uint32_t line, uint32_t column);
/* Forgets what was added since the last end. */
void debug_tables_drop_sequence(struct debug_tables *t);

enum { DEBUG_NO_SCOPE = 0xffffffffU };
/* Appends a scope; parent DEBUG_NO_SCOPE: a root, else where it was called. */
uint32_t debug_tables_scope(struct debug_tables *t, uint32_t parent, uint32_t function,
	uint32_t call_file, uint32_t call_line, uint32_t call_column);
/* [start, end) belongs to the scope. Outer scopes come before inner ones. */
void debug_tables_range(struct debug_tables *t, uint64_t start, uint64_t end, uint32_t scope);
/* True when the range lies in an executable segment. */
bool debug_tables_is_code(const struct debug_tables *t, uint64_t start, uint64_t end);

/* The sections of the symbol file, in this order. */
enum { DEBUG_N_SECTIONS = 8 };
struct debug_section {
	uint32_t kind, item_bytes;
	struct bytes data;
};
struct debug_sections {
	struct debug_section items[DEBUG_N_SECTIONS];
	uint32_t n; /* 0: there are no lines */
	uint32_t n_left_out;
	bool failed; /* there were lines, but too many for the memory */
	uint64_t base;
};
/* Frees nothing but hands the scopes over. Sections come in the order of the format page. */
int debug_tables_encode(struct debug_tables *t, struct debug_sections *ret) _must_check_;
void debug_sections_done(struct debug_sections *s);
#define _cleanup_debug_sections_ _cleanup_(debug_sections_done)
