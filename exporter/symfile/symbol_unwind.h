/* SPDX-License-Identifier: Apache-2.0
 *
 * The unwind sections of a symbol file.
 */
#pragma once
#include "bpf/unwind/tables.h"
#include "exporter/symfile/symbol_file.h"

struct symbol_unwind {
	struct symbol_range words, rules;
	uint32_t n_words, n_rules;
	uint32_t info[SYMBOL_UNWIND_N_INFO]; /* by enum symbol_unwind_info */
};
/* False: the file has no unwind sections (a machine that is not unwound). */
bool symbol_unwind_of(const struct symbol_file *s, struct symbol_unwind *ret);
void symbol_unwind_rule(const struct symbol_unwind *u, uint32_t i, struct unwind_rule *ret);

/* Part of symbol_file_parse: after it every page entry leads to rows within the words, in one slab,
 * and every row to a rule whose fields have a meaning. */
int symbol_unwind_check(const struct symbol_file *s, struct errbuf *eb) _must_check_;
