/* SPDX-License-Identifier: Apache-2.0
 *
 * DWARF → lines, functions and inlined calls. One pass over the line programs, one over the
 * entries; a unit that is malformed costs itself, what came before it in the same unit stays.
 */
#pragma once
#include "exporter/parser/debug_tables.h"

/* Adds what the ELF file `debug` says of the code of t->f (the same file, or one that its debug
 * sections were split off to). 0 also when there is no DWARF; -ENOMEM, -EFBIG. */
int dwarf_read(const struct elf_file *debug, struct debug_tables *t) _must_check_;
/* The same for sections that are at hand; takes over their `own`. */
struct dwarf_section;
int dwarf_read_sections(const struct dwarf_section *sections, struct debug_tables *t) _must_check_;
