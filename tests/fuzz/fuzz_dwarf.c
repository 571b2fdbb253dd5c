/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of DWARF on sections of anybody's making: for each section two bytes
 * of length and its bytes, first those of a program, then of its supplementary file, then of its package
 * of split units. What comes of them must be a symbol file's tables that every look-up can bear.
 */
#include "exporter/symfile/symbol_lines.h"
#include "exporter/parser/debug/debug_tables.h"
#include "exporter/parser/dwarf/dwarf.h"
#include "exporter/parser/dwarf/dwarf_file.h"
#include "lib/base/cursor.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CODE_START = 0x1000, CODE_BYTES = 0x10000 };

static void look_up(struct debug_sections *d)
{
	struct symbol_file s = {.debug_base = d->base};
	struct symbol_range *const ranges[DEBUG_N_SECTIONS] = {&s.files, &s.line_index, &s.lines,
		&s.scope_index, &s.scope_ranges, &s.scopes, &s.debug_functions, &s.debug_strings};
	struct symbol_place places[SYMBOL_MAX_PLACES];

	for (uint32_t i = 0; i < d->n; i++)
		*ranges[i] = (struct symbol_range) {
			.data = d->items[i].data.data, .bytes = d->items[i].data.len};
	for (uint64_t at = CODE_START - 1; at <= CODE_START + CODE_BYTES; at += 61) {
		size_t n = symbol_file_places(&s, at, places);

		for (size_t i = 0; i < n; i++)
			if (strlen(places[i].function) + strlen(places[i].file) > 1 << 20)
				abort();
	}
}

static void take_file(struct cursor *c, bool split, struct dwarf_file *ret)
{
	struct dwarf_section sections[DWARF_N_SECTIONS] = {{.data = NULL}};

	for (int i = 0; i < DWARF_N_SECTIONS; i++) {
		size_t n = cursor_u16(c);

		n = c->error ? 0 : MIN(n, cursor_left(c));
		/* A copy of its own, so that every byte beyond it is seen. */
		sections[i].own = malloc(n + !n);
		sections[i].bytes = n;
		sections[i].data = sections[i].own;
		memcpy(sections[i].own, c->pos, n);
		cursor_skip(c, n);
	}
	dwarf_file_init(ret, sections);
	ret->is_split = split;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file f = {.n_loads = 1,
		.loads = {{.vaddr = CODE_START, .memory_bytes = CODE_BYTES, .flags = PF_X}}};
	_cleanup_dwarf_links_ struct dwarf_links links = {
		.package_asked = true, .package = {.elf = {.fd = -1}}};
	_cleanup_dwarf_file_ struct dwarf_file program, alt;
	_cleanup_debug_sections_ struct debug_sections encoded = {.n = 0};
	_cleanup_debug_tables_ struct debug_tables t;
	struct cursor c = cursor_of(data, size);

	take_file(&c, false, &program);
	take_file(&c, false, &alt);
	take_file(&c, true, &links.package.dwarf);
	program.alt = dwarf_file_list(&alt) == 0 ? &alt : NULL;
	debug_tables_init(&t, &f);
	if (dwarf_read_file(&program, &links, &t) == 0 && debug_tables_encode(&t, &encoded) == 0)
		look_up(&encoded);
	return 0;
}
