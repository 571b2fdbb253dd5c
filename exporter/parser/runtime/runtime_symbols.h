/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbols by name, and the place of a thread's state in the code of a function that returns it.
 */
#pragma once
#include "exporter/parser/elf/elf_image.h"
#include "exporter/symfile/runtime.h"
#include <stdbool.h>

struct runtime_symbol {
	const char *name;
	uint64_t addr, bytes; /* 0: the file does not define it */
};

/* Fills in those that `table` (f->dynsym, f->symtab; NULL: nothing is found) defines. */
void runtime_symbols_find(
	const struct elf_file *f, Elf_Scn *table, struct runtime_symbol *symbols, size_t n);

/*
 * The thread-local variable that the function at `vaddr` returns, from its machine code (x86-64): the ways in which compilers and linkers
 * write it, after a prologue (ELF Handling For Thread-Local Storage, general dynamic to local exec). False: it is none of these.
 */
bool runtime_state_of_code(
	const struct elf_image *image, uint64_t vaddr, struct runtime_state *ret);
/*
 * The same of a function that does more than that: the first thread-local pointer that its code loads, within so many bytes.
 */
bool runtime_state_in_code(
	const struct elf_image *image, uint64_t vaddr, uint64_t bytes, struct runtime_state *ret);
/* Is the file linked to glibc? Other C libraries have the blocks of thread-local variables elsewhere in a thread (RUNTIME_BY_GOT_PAIR). */
bool runtime_needs_glibc(const struct elf_file *f);
/* The address of the u32 that the function at `vaddr` gives to a function as its first argument; 0: its code is another. */
uint64_t runtime_key_of_code(const struct elf_image *image, uint64_t vaddr);
/* The first address in [start, start + bytes) that the code of the function at `vaddr` has: absolute, relative to the code, or as a
 * distance from `start` (whose address it has from the GOT). 0: none. */
uint64_t runtime_address_of_code(
	const struct elf_image *image, uint64_t vaddr, uint64_t start, uint64_t bytes);
