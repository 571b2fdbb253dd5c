/* SPDX-License-Identifier: Apache-2.0
 *
 * Ruby's tables of lines. Up to 2.5 each entry has the position from which on its line counts; then bits say where entries begin
 * (iseq.c: succ_index_table).
 */
#pragma once
#include "exporter/interp/ruby_objects.h"

/* Fills in ret->lines from a sequence's body: a table in a form of our own, the same for all versions. A sequence without lines, or with
 * too many, has none of it. */
int ruby_read_lines(const struct interp_memory *m, const struct runtime_record *r,
	const struct ruby_head *body, struct interp_code *ret);
/* The line of a position (exporter/interp/ruby.h) in that table; 0: it has none. */
uint32_t ruby_lines_find(const uint8_t *table, size_t bytes, uint32_t position);
