/* SPDX-License-Identifier: Apache-2.0
 *
 * DWARF → lines, functions and inlined calls. One pass over the line programs, one over the
 * entries; a malformed unit loses only its own rest: what came before the fault stays.
 */
#pragma once
#include "exporter/parser/debug/debug_tables.h"
#include "exporter/parser/dwarf/dwarf_links.h"

/* Adds what the ELF file `debug` says of the code of t->f (the same file, or one that its debug
 * sections were split off to), with the files that it names. 0 also when there is no DWARF;
 * -ENOMEM, -EFBIG. */
int dwarf_read(const struct elf_file *debug, struct dwarf_links *links,
	struct debug_tables *t) _must_check_;
/* The same for sections that were loaded. */
int dwarf_read_file(
	struct dwarf_file *d, struct dwarf_links *links, struct debug_tables *t) _must_check_;
