/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects the compiler and the language of a file: from marks that only one runtime leaves (names of functions, libraries,
 * texts that no strip removes), else from the units of its DWARF, else from `.comment`.
 */
#pragma once
#include "exporter/symfile/toolchain.h"
#include "exporter/parser/elf/elf_file.h"

/* How many DWARF units say so. */
struct toolchain_votes {
	uint32_t compilers[TOOLCHAIN_N_COMPILERS], languages[N_LANGUAGES];
};

/* By DW_AT_producer (NULL: none). */
enum toolchain_compiler elf_toolchain_compiler(const char *producer);
/* One unit: its DW_AT_language (0: none) and the compiler. */
void elf_toolchain_vote(
	struct toolchain_votes *v, uint64_t language, enum toolchain_compiler compiler);
/* C is what is left when nothing speaks for another language. */
struct toolchain elf_toolchain(const struct elf_file *f, const struct elf_symbols *symbols,
	const struct toolchain_votes *votes);
