/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of OCaml's frametables on a program image of anybody's making: a byte that chooses the format,
 * then memory from 0x1000 on, which begins with caml_frametable.
 */
#include "exporter/parser/elf/elf_image.h"
#include "exporter/parser/debug/ocaml_frames.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { BASE = 0x1000 };
	struct elf_file f = {.n_loads = 1};
	struct elf_row row = {.start = 0x10, .size = 0x200};
	struct elf_rows rows = {.items = &row, .n = 1, .text_base = BASE};
	struct elf_symbols symbols = {.ocaml_frametable = BASE};
	struct elf_image image = {.f = &f};
	_cleanup_debug_sections_ struct debug_sections encoded = {.n = 0};
	_cleanup_debug_tables_ struct debug_tables t;
	uint8_t *copy;

	debug_tables_init(&t, &f);
	if (!size)
		return 0;
	symbols.ocaml_has_effects = symbols.ocaml_has_compaction = data[0] & 1;
	image.bytes = size - 1;
	image.data = copy = malloc(size);
	memcpy(copy, data + 1, size - 1);
	f.loads[0] = (struct elf_segment) {
		.vaddr = BASE, .file_bytes = size - 1, .memory_bytes = 0x4000, .flags = PF_X};
	t.base = BASE;
	if (ocaml_frames_read_image(&image, &symbols, &rows, &t) == 0)
		(void)!debug_tables_encode(&t, &encoded);
	free(copy);
	return 0;
}
