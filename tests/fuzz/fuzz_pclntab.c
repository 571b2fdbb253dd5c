/* SPDX-License-Identifier: Apache-2.0
 *
 * Go's table of functions, of any layout: what it tells lies inside the code, with names that end.
 */
#include "exporter/parser/elf_file.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_symbols symbols = {0};
	const uint64_t end = 0x1000000;

	if (elf_go_functions(data, size, 0x1000, end, &symbols) == 0)
		for (size_t i = 0; i < symbols.n; i++) {
			const struct elf_symbol *s = &symbols.items[i];
			const uint8_t *name = (const uint8_t *)s->name;

			if (!s->size || s->addr > end || s->size > end - s->addr || name < data ||
				name + strlen(s->name) >= data + size)
				abort();
		}
	elf_symbols_done(&symbols);
	return 0;
}
