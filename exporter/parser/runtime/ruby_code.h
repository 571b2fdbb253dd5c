/* SPDX-License-Identifier: Apache-2.0
 *
 * Places in Ruby that have no symbol, from machine code (x86-64).
 */
#pragma once
#include "exporter/parser/elf/elf_image.h"
#include <stdbool.h>

struct ruby_range {
	uint64_t begin, end; /* ELF virtual addresses */
};

struct ruby_interpreter {
	struct ruby_range exec; /* the function that each entry from C runs in: vm_exec */
	struct ruby_range core; /* that of the instructions: vm_exec_core */
};

/*
 * The function of the instructions is that of the most indirect jumps in the file, since it ends each instruction with one, and calls
 * RUBY_RANGE_NEW, which lies at `range_new`. The other alone calls it. Functions are those of .eh_frame. False: there is no such pair.
 */
#define RUBY_RANGE_NEW "rb_range_new"
bool ruby_find_interpreter(
	const struct elf_image *image, uint64_t range_new, struct ruby_interpreter *ret);
/*
 * ruby_global_symbols, from rb_id2str at `vaddr` and the function that it ends in: they compare a number with the first field of the
 * structure, the number of symbols, and load the list of names behind it. 0: the code is another.
 */
uint64_t ruby_find_symbols(const struct elf_image *image, uint64_t vaddr);
