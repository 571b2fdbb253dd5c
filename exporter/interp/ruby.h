/* SPDX-License-Identifier: Apache-2.0
 *
 * Code objects of Ruby 2.5 to 4.0: instruction sequences (rb_iseq_t), which methods, blocks and files have, and methods that are written in
 * C (rb_method_entry_t), which have a name alone. Names are those that Thread#backtrace of that version has. The kernel half's check of a
 * method is made of where its definition is and what that does and is called; that of a sequence of where its body is, and of the words of that up
 * to its table of lines.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/interp/interp.h"

/*
 * Positions are addresses of an instruction in units of RUBY_WORD_BYTES, modulo RUBY_POSITIONS: the walker need not know where the code of a
 * sequence begins. One has at most so many words, or no lines.
 */
enum { RUBY_WORD_BYTES = 8, RUBY_POSITIONS = ABI_INTERP_AT_START };

/*
 * context: what a sequence's frame has of the method that it runs for, the word at -16 of the environment of the method, or of the block that
 * is one (define_method). 0: not known. From 3.4 on names have the class of that method.
 */
int ruby_read_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t object,
	uint64_t context, struct interp_code *ret);
/* Sets what tells one code object from the next at its address: code_check and what follows it in a layout. */
void ruby_check_of(const struct runtime_record *r, struct interp_layout *ret);
uint32_t ruby_line(const struct interp_code *c, uint32_t position);
