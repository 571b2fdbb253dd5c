/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines and inlined calls of Go programs from the tables that their runtime needs for panics and stack
 * traces, which no strip removes (.gopclntab, moduledata's go:func.*).
 */
#pragma once
#include "exporter/parser/debug/debug_tables.h"

/* Adds what a Go program's own tables say; nothing when it is none. -ENOMEM, -EFBIG. */
int go_lines_read(const struct elf_file *f, struct debug_tables *t) _must_check_;
/* The same for a table and an image that are at hand. module_text: as elf_go_module_text gives it;
 * 0: inlined calls are unknown. */
struct elf_image;
struct go_table;
int go_lines_read_table(const struct go_table *table, struct elf_image *image, uint64_t module_text,
	struct debug_tables *t) _must_check_;
