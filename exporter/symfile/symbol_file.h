/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of symbol files. A file is checked whole when it is opened (checksum, bounds,
 * order), since it comes from a process that has read hostile input or from a disk; look-ups
 * after that are two binary searches and allocate nothing.
 */
#pragma once
#include "exporter/symfile/identity.h"
#include "exporter/symfile/symbol_format.h"
#include "exporter/symfile/toolchain.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol_range {
	const uint8_t *data;
	size_t bytes;
};

struct symbol_file {
	const uint8_t *data;
	size_t bytes;
	struct symbol_range loads, starts, sizes, names, strings, go_build_id, unnamed;
	/* symbol_lines.h */
	struct symbol_range files, line_index, lines, scope_index, scope_ranges, scopes,
		debug_functions, debug_strings;
	struct symbol_range unwind_rules, unwind_words, unwind_info; /* symbol_unwind.h */
	struct symbol_range runtime;				     /* symbol_runtime.h */
	struct symbol_identity identity;
	uint64_t text_base, debug_base;
	uint32_t n_debug_left_out, n_debug_lacking;
	uint32_t n_loads, n_functions, n_left_out, flags;
	struct toolchain toolchain;
	uint16_t elf_type, elf_machine;
	bool mapped;	 /* `data` is a mapping of our own */
	uint32_t n_refs; /* binary_symbols_get less _put; the registry's lock guards it */
	void *owner;	 /* the registry's */
};

/* Checks `bytes` bytes at `data`, which must outlive `ret`. -EBADMSG with a text on any
 * violation, -ENOTSUP for another version. */
int symbol_file_parse(
	const void *data, size_t bytes, struct symbol_file *ret, struct errbuf *eb) _must_check_;
/* Maps a descriptor (which may be closed afterwards) read-only, checks it and lets its pages go. */
int symbol_file_map(int fd, struct symbol_file *ret, struct errbuf *eb) _must_check_;
void symbol_file_unmap(struct symbol_file *s);
/* A range that was read and is not needed soon gives its memory back; what is read of it again comes from the page cache. */
void symbol_file_rest(const struct symbol_file *s, const struct symbol_range *range);

struct symbol_function {
	const char *name;     /* raw; in the file */
	uint64_t start, size; /* ELF virtual address, bytes */
};
/* The function that covers an ELF virtual address. */
bool symbol_file_find(const struct symbol_file *s, uint64_t vaddr, struct symbol_function *ret);

/* Of a file offset that no named function covers: the offset where its function starts, by the unwind information. */
bool symbol_file_unnamed(const struct symbol_file *s, uint64_t file_off, uint64_t *ret_start);

struct symbol_load {
	uint64_t vaddr, file_off, file_bytes, memory_bytes;
	uint32_t flags; /* PF_X … */
};
void symbol_file_load(const struct symbol_file *s, uint32_t i, struct symbol_load *ret);
/* The loaded segment that holds a file offset, executable ones first, and last the one whose pages do; false when none does. */
bool symbol_file_load_of(const struct symbol_file *s, uint64_t file_off, struct symbol_load *ret);
/* What the kernel maps of a segment: from its first page to the end of its last one. */
void symbol_load_pages(const struct symbol_load *load, uint64_t *ret_start, uint64_t *ret_limit,
	uint64_t *ret_file_off);
/* File offset → ELF virtual address; false when no segment holds it. */
bool symbol_file_vaddr(const struct symbol_file *s, uint64_t file_off, uint64_t *ret);
