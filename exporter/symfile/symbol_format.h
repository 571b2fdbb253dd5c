/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbol file's layout, for its writer (exporter/parser) and its reader (symbol_file.h).
 * docs/formats/symbol-file.md describes it byte by byte. All integers are little-endian; a
 * change of any meaning raises SYMBOL_VERSION.
 */
#pragma once
#include <stdint.h>

#define SYMBOL_MAGIC "SONDESYM"

enum {
	SYMBOL_VERSION = 16,
	SYMBOL_HEADER_BYTES = 128,
	SYMBOL_SECTION_BYTES = 24,
	SYMBOL_MAX_SECTIONS = 32,
	SYMBOL_ALIGN = 8, /* of each section's offset */
	SYMBOL_LOAD_BYTES = 40,
	SYMBOL_MAX_LOADS = 512,
	SYMBOL_BLOCK_BYTES = 8, /* an index entry of lines and scopes */
	SYMBOL_BLOCK_ROWS = 16, /* points in a block, at most */
	/* of a row: distance and flags 5, line 5, column 3, file 5; a point has fewer */
	SYMBOL_ROW_MAX_BYTES = 18,
	SYMBOL_MAX_NESTING = 4096, /* scopes within each other */
	SYMBOL_DEBUG_FUNCTION_BYTES = 16,
	SYMBOL_UNNAMED_BYTES = 8,
	SYMBOL_RUNTIME_BYTES = 232,
};

/* Offsets in the header. */
enum {
	SYMBOL_OFF_MAGIC = 0,
	SYMBOL_OFF_VERSION = 8,
	SYMBOL_OFF_N_SECTIONS = 12,
	SYMBOL_OFF_FILE_BYTES = 16,
	SYMBOL_OFF_TEXT_BASE = 24,
	SYMBOL_OFF_ELF_TYPE = 32,
	SYMBOL_OFF_ELF_MACHINE = 34,
	SYMBOL_OFF_FLAGS = 36,
	SYMBOL_OFF_N_FUNCTIONS = 40,
	SYMBOL_OFF_N_LEFT_OUT = 44,
	SYMBOL_OFF_CONTENT_ID = 48,
	SYMBOL_OFF_BUILD_ID_LEN = 64,
	SYMBOL_OFF_COMPILER = 68,
	SYMBOL_OFF_LANGUAGE = 70,
	SYMBOL_OFF_BUILD_ID = 72,
	SYMBOL_OFF_DEBUG_BASE = 104,
	SYMBOL_OFF_DEBUG_LEFT_OUT = 112,
	SYMBOL_OFF_DEBUG_LACKING = 116,
	SYMBOL_OFF_CHECKSUM = 120,
};

enum symbol_flags {
	/* names come from a .symtab (the file's, its debug file's, that of .gnu_debugdata);
	 * otherwise only what is exported has one */
	SYMBOL_HAS_SYMTAB = 1,
	/* a file with the debug information of this one was read too */
	SYMBOL_HAS_DEBUG_FILE = 2,
	/* there are lines, but they were too much for the parser */
	SYMBOL_DEBUG_FAILED = 4,
	/* it has more unwind information than is read */
	SYMBOL_UNWIND_FAILED = 16,
};

/* Low bits of a row's first number; the rest is the distance from the row before. */
enum symbol_row_flags { SYMBOL_ROW_END = 1, SYMBOL_ROW_NEW_FILE = 2 };

/* Of a debug function: its name is better than the symbol table's (OCaml's module path). */
enum symbol_debug_flags { SYMBOL_NAME_WINS = 1 };

enum symbol_section {
	/* SYMBOL_LOAD_BYTES each: u64 vaddr, file offset, bytes in file, bytes in memory;
	 * u32 flags, 0 */
	SYMBOL_LOADS = 1,
	SYMBOL_FUNC_STARTS = 2, /* u32 each: address less text base, ascending */
	SYMBOL_FUNC_SIZES = 3,	/* u32 each */
	SYMBOL_FUNC_NAMES = 4,	/* u32 each: offset in SYMBOL_STRINGS */
	SYMBOL_STRINGS = 5,	/* NUL-terminated; the first is "" */
	SYMBOL_GO_BUILD_ID = 6, /* text */
	SYMBOL_UNNAMED = 7,	/* SYMBOL_UNNAMED_BYTES each: u32 start, size */
	/* Files, lines and inlined calls; addresses are relative to SYMBOL_OFF_DEBUG_BASE. */
	SYMBOL_FILES = 16,	/* u32 each: offset in SYMBOL_DEBUG_STRINGS */
	SYMBOL_LINE_INDEX = 17, /* SYMBOL_BLOCK_BYTES each: u32 first address, offset in the rows */
	SYMBOL_LINES = 18,	/* rows */
	SYMBOL_SCOPE_INDEX = 19, /* as SYMBOL_LINE_INDEX */
	SYMBOL_SCOPE_RANGES = 20,
	SYMBOL_SCOPES = 21,	     /* records */
	SYMBOL_DEBUG_FUNCTIONS = 22, /* SYMBOL_DEBUG_FUNCTION_BYTES: u32 name, file, line, flags */
	SYMBOL_DEBUG_STRINGS = 23,   /* as SYMBOL_STRINGS */
	/* Kinds kept free for what is to come; a reader skips kinds that it does not know. */
	/* docs/formats/unwind-tables.md */
	SYMBOL_UNWIND_RULES = 32, /* struct unwind_rule each; number 0 is of no use */
	SYMBOL_UNWIND_WORDS = 33, /* u32 each: page entries, then rows */
	SYMBOL_UNWIND_INFO = 34,  /* one, SYMBOL_UNWIND_INFO_BYTES */
	SYMBOL_RUNTIME =
		40, /* one struct runtime_record (symbol_runtime.h), SYMBOL_RUNTIME_BYTES */
};

/* SYMBOL_UNWIND_INFO: u32 each. */
enum symbol_unwind_info {
	SYMBOL_UNWIND_FIRST_PAGE, /* file offset / 2 KiB */
	SYMBOL_UNWIND_N_PAGES,
	SYMBOL_UNWIND_SOURCES, /* enum symbol_unwind_source */
	SYMBOL_UNWIND_N_ROWS,
	SYMBOL_UNWIND_N_FUNCTIONS,
	SYMBOL_UNWIND_N_BAD, /* functions whose information is malformed or overlaps another's */
	SYMBOL_UNWIND_N_RULES_REFUSED, /* rows whose rule is unknown because there are too many rules */
	SYMBOL_UNWIND_N_PAGES_REFUSED, /* pages with more rows than fit a slab */
	SYMBOL_UNWIND_N_INFO
};
enum { SYMBOL_UNWIND_INFO_BYTES = 4 * SYMBOL_UNWIND_N_INFO };

/* Where rows come from. */
enum symbol_unwind_source {
	SYMBOL_UNWIND_EH_FRAME = 1,
	SYMBOL_UNWIND_DEBUG_FRAME = 2,
	SYMBOL_UNWIND_PCLNTAB = 4, /* Go */
	SYMBOL_UNWIND_CODE = 8,	   /* by following code that has none of these */
};
