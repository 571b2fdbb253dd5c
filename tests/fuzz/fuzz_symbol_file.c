/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbol file reader. The checksum is made to fit, so that what lies behind it is reached.
 */
#include "exporter/symfile/symbol_lines.h"
#include "lib/base/hash.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t probes[] = {0, 1, 0x1000, 0x400000, UINT32_MAX, UINT64_MAX};
	uint8_t *copy = malloc(size ? size : 1);
	struct symbol_file s;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (size >= SYMBOL_HEADER_BYTES) {
		uint64_t sum, bytes = size;

		memcpy(copy + SYMBOL_OFF_FILE_BYTES, &bytes, 8);
		sum = hash_xxh3_seed(copy + SYMBOL_HEADER_BYTES, size - SYMBOL_HEADER_BYTES,
			hash_xxh3(copy, SYMBOL_OFF_CHECKSUM));
		memcpy(copy + SYMBOL_OFF_CHECKSUM, &sum, 8);
	}
	if (symbol_file_parse(copy, size, &s, NULL) == 0) {
		for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
			struct symbol_place places[SYMBOL_MAX_PLACES];
			struct symbol_function f;
			uint64_t vaddr;
			size_t n = symbol_file_places(&s, probes[i] + s.debug_base, places);

			for (size_t k = 0; k < n; k++)
				if (strlen(places[k].function) + strlen(places[k].file) > 2 * size)
					abort();

			if (symbol_file_find(&s, probes[i] + s.text_base, &f) &&
				strlen(f.name) > size)
				abort();
			symbol_file_vaddr(&s, probes[i], &vaddr);
			if (symbol_file_unnamed(&s, probes[i], &vaddr) && vaddr > probes[i])
				abort();
		}
	}
	free(copy);
	return 0;
}
