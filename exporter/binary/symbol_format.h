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
	SYMBOL_VERSION = 1,
	SYMBOL_HEADER_BYTES = 128,
	SYMBOL_SECTION_BYTES = 24,
	SYMBOL_MAX_SECTIONS = 32,
	SYMBOL_ALIGN = 8, /* of each section's offset */
	SYMBOL_LOAD_BYTES = 40,
	SYMBOL_MAX_LOADS = 512,
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
	SYMBOL_OFF_BUILD_ID = 72,
	SYMBOL_OFF_CHECKSUM = 120,
};

enum symbol_flags {
	/* names come from a .symtab (the file's, its debug file's, that of .gnu_debugdata);
	 * otherwise only what is exported has one */
	SYMBOL_HAS_SYMTAB = 1,
	/* a file with the debug information of this one was read too */
	SYMBOL_HAS_DEBUG_FILE = 2,
};

enum symbol_section {
	/* SYMBOL_LOAD_BYTES each: u64 vaddr, file offset, bytes in file, bytes in memory;
	 * u32 flags, 0 */
	SYMBOL_LOADS = 1,
	SYMBOL_FUNC_STARTS = 2, /* u32 each: address less text base, ascending */
	SYMBOL_FUNC_SIZES = 3,	/* u32 each */
	SYMBOL_FUNC_NAMES = 4,	/* u32 each: offset in SYMBOL_STRINGS */
	SYMBOL_STRINGS = 5,	/* NUL-terminated; the first is "" */
	SYMBOL_GO_BUILD_ID = 6, /* text */
	/* Kinds kept free for what is to come; a reader skips kinds that it does not know. */
	SYMBOL_FILES = 16,
	SYMBOL_LINES = 17,
	SYMBOL_INLINES = 18,
	SYMBOL_UNWIND_RULES = 32,
	SYMBOL_UNWIND_ROWS = 33,
	SYMBOL_UNWIND_PAGES = 34,
};
