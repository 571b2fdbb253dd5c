/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of DWARF on sections of anybody's making: for each section two bytes
 * of length and its bytes, the last one to the end. What comes of them must be a symbol file's
 * tables that every look-up can bear.
 */
#include "exporter/binary/symbol_lines.h"
#include "exporter/parser/debug_tables.h"
#include "exporter/parser/dwarf.h"
#include "exporter/parser/dwarf_file.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file f = {.n_loads = 1,
		.loads = {{.vaddr = CODE_START, .memory_bytes = CODE_BYTES, .flags = PF_X}}};
	struct dwarf_section sections[DWARF_N_SECTIONS] = {{.data = NULL}};
	_cleanup_debug_sections_ struct debug_sections encoded = {.n = 0};
	_cleanup_debug_tables_ struct debug_tables t;
	struct cursor c = cursor_of(data, size);

	for (int i = 0; i < DWARF_N_SECTIONS; i++) {
		size_t n = cursor_u16(&c);

		n = i + 1 == DWARF_N_SECTIONS || n > cursor_left(&c) ? cursor_left(&c) : n;
		/* A copy of its own, so that every byte beyond it is seen. */
		sections[i].own = malloc(n + !n);
		sections[i].bytes = n;
		sections[i].data = sections[i].own;
		memcpy(sections[i].own, c.pos, n);
		cursor_skip(&c, n);
	}
	debug_tables_init(&t, &f);
	if (dwarf_read_sections(sections, &t) == 0 && debug_tables_encode(&t, &encoded) == 0)
		look_up(&encoded);
	return 0;
}
