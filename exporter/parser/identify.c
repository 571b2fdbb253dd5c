/* SPDX-License-Identifier: Apache-2.0
 *
 * PARSER_IDENTIFY: the identity of a file, and the debug files that it names.
 */
#include "exporter/parser/elf/elf_file.h"
#include "exporter/parser/parser.h"
#include <string.h>

int parser_identify(int in_fd, struct parser_description *ret, struct errbuf *eb)
{
	_cleanup_elf_file_ struct elf_file f = {.fd = -1};
	int r = elf_file_open(in_fd, &f, eb);
	GElf_Shdr shdr;

	if (r < 0)
		return r;
	*ret = (struct parser_description) {.identity = {.build_id_len = f.build_id_len}};
	memcpy(ret->identity.build_id, f.build_id, f.build_id_len);
	elf_file_content_id(&f, ret->identity.content_id);
	ret->has = (f.symtab ? PARSER_HAS_SYMTAB : 0) |
		   (elf_file_section(&f, ".debug_info", &shdr) ? PARSER_HAS_DWARF : 0);
	elf_file_debug_link(&f, ret->debug_link, &ret->debug_link_crc);
	return 0;
}
