/* SPDX-License-Identifier: Apache-2.0
 *
 * Look-ups of files, lines and inlined calls in a symbol file. The file's checksum was checked when it was
 * opened; what its tables say is checked at each look-up instead, since reading all of them would
 * touch every page. What does not hold gives no line.
 */
#pragma once
#include "exporter/symfile/symbol_file.h"

/* One function that an address belongs to. */
struct symbol_place {
	const char *function;		   /* raw; "": only the function table may know it */
	const char *file;		   /* "" unknown */
	uint32_t line, column, start_line; /* 0 unknown */
	bool name_wins;			   /* over the function table's name */
};

enum { SYMBOL_MAX_PLACES = 128 };

/* The places of an ELF virtual address, innermost inlined call first, the function that has the
 * code last; at most SYMBOL_MAX_PLACES, outer inlined calls are left out first. 0 when nothing is known. */
size_t symbol_file_places(
	const struct symbol_file *s, uint64_t vaddr, struct symbol_place ret[SYMBOL_MAX_PLACES]);
/* True when there are any lines. */
static inline bool symbol_file_has_lines(const struct symbol_file *s)
{
	return s->line_index.bytes || s->scope_index.bytes;
}
