/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that DWARF names: the supplementary file that dwz moves to what several files have in
 * common (DWARF 5 §7.3.6; .gnu_debugaltlink before that), packages and objects of split units (§7.3.2).
 * The child asks main for each file (parser.h); a file counts when it has the id that was named.
 */
#pragma once
#include "exporter/parser/dwarf/dwarf_file.h"

/* Such a file while it is read. */
struct dwarf_linked {
	struct elf_file elf; /* .fd is ours */
	struct dwarf_file dwarf;
};
void dwarf_linked_done(struct dwarf_linked *l);
#define _cleanup_dwarf_linked_ _cleanup_(dwarf_linked_done)

/* What one input names and what came of it. */
struct dwarf_links {
	const struct parser_finder *finder; /* NULL: nothing is found */
	bool from_debug;		    /* the second input's */
	bool package_asked;
	struct dwarf_linked package; /* no .debug_cu_index: there is none */
	uint32_t n_lacking;	     /* not found, or none had the id */
};
void dwarf_links_done(struct dwarf_links *l);
#define _cleanup_dwarf_links_ _cleanup_(dwarf_links_done)

/* True when the file is the one that was asked for. */
typedef bool dwarf_link_fits(struct dwarf_linked *file, const void *arg);
/* Asks for candidates until one fits. Opens it, with the sections of split units or the others. -ENOENT. */
int dwarf_link_open(struct dwarf_links *l, struct parser_link *link, bool split,
	dwarf_link_fits *fits, const void *arg, struct dwarf_linked *ret) _must_check_;

/* The supplementary file of `f`, its units listed. -ENOENT: none is named, or (counted) none fits. */
int dwarf_alt_open(
	const struct elf_file *f, struct dwarf_links *l, struct dwarf_linked *ret) _must_check_;
