/* SPDX-License-Identifier: Apache-2.0
 *
 * What a parser child runs, in-process: ELF → identity and symbol file. What is compiled must be
 * what the reader takes.
 */
#include "exporter/parser/parser.h"
#include "exporter/symfile/symbol_file.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int in = memfd_create("in", 0), out = memfd_create("out", 0);
	struct parser_description file;
	struct symbol_file s;

	if (write(in, data, size) == (ssize_t)size &&
		parser_compile(&(struct parser_inputs) {.fd = in, .debug_fd = -1}, out, NULL) ==
			0) {
		if (symbol_file_map(out, &s, NULL) < 0)
			abort();
		if (parser_identify(in, &file, NULL) < 0 ||
			memcmp(&file.identity, &s.identity, sizeof(s.identity)) != 0)
			abort();
		symbol_file_unmap(&s);
	}
	close(in);
	close(out);
	return 0;
}
