/* SPDX-License-Identifier: Apache-2.0
 *
 * Go's table of functions, of any layout: what it tells lies inside the code, with names that end;
 * lines and inlined calls make tables that every look-up can bear.
 */
#include "exporter/parser/elf/elf_go.h"
#include "exporter/parser/elf/elf_image.h"
#include "exporter/parser/debug/go_lines.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CODE_START = 0x1000, CODE_END = 0x1000000, DATA_START = 0x2000000 };

/* The input is the table and all the memory that there is. */
static void read_lines(const uint8_t *data, size_t size)
{
	struct elf_file f = {.n_loads = 2,
		.loads = {
			{.vaddr = CODE_START, .memory_bytes = CODE_END - CODE_START, .flags = PF_X},
			{.vaddr = DATA_START, .file_bytes = size, .memory_bytes = size}}};
	struct elf_image image = {.f = &f, .data = data, .bytes = size};
	_cleanup_debug_sections_ struct debug_sections encoded = {.n = 0};
	_cleanup_debug_tables_ struct debug_tables t;
	struct go_table table;

	debug_tables_init(&t, &f);
	if (elf_go_table_of(data, size, CODE_START, &table) &&
		go_lines_read_table(&table, &image, DATA_START, &t) == 0)
		(void)!debug_tables_encode(&t, &encoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_symbols symbols = {0};
	const uint64_t end = CODE_END;

	if (elf_go_functions(data, size, CODE_START, end, &symbols) == 0)
		for (size_t i = 0; i < symbols.n; i++) {
			const struct elf_symbol *s = &symbols.items[i];
			const uint8_t *name = (const uint8_t *)s->name;

			if (!s->size || s->addr > end || s->size > end - s->addr || name < data ||
				name + strlen(s->name) >= data + size)
				abort();
		}
	elf_symbols_done(&symbols);
	read_lines(data, size);
	return 0;
}
