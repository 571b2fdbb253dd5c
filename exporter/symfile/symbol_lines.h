/* SPDX-License-Identifier: Apache-2.0
 *
 * Look-ups of files, lines and inlined calls in a symbol file. Opening it checks the indexes; each look-up checks the rows and
 * scopes that it reads, since checking all would read the whole tables. What does not hold gives no line. However a file lies,
 * a look-up reads two blocks of SYMBOL_BLOCK_ROWS and SYMBOL_MAX_NESTING scopes.
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

/* The indexes, when the file is opened: blocks in order, inside their streams, none longer than its rows can be. -EBADMSG. */
int symbol_lines_check(const struct symbol_file *s, struct errbuf *eb) _must_check_;

/* The places of an ELF virtual address, innermost inlined call first, the function that has the
 * code last; at most SYMBOL_MAX_PLACES, outer inlined calls are left out first. 0 when nothing is known. */
size_t symbol_file_places(
	const struct symbol_file *s, uint64_t vaddr, struct symbol_place ret[SYMBOL_MAX_PLACES]);
/* True when there are any lines. */
static inline bool symbol_file_has_lines(const struct symbol_file *s)
{
	return s->line_index.bytes || s->scope_index.bytes;
}
