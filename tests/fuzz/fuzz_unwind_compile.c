/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame information → rows. The input becomes .eh_frame, .eh_frame_hdr (by its first byte) or .debug_frame of an otherwise sound
 * ELF file, and the code that it is about; what the compiler makes of it must pass the checks of the symbol file's reader, stay within
 * its memory and be laid out.
 */
#include "exporter/parser/parser.h"
#include "exporter/symfile/symbol_unwind.h"
#include "exporter/unwind/tables.h"
#include "lib/base/bytes.h"
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CODE_OFF = 0x1000, CODE_BYTES = 0x8000, INPUT_OFF = 0x9000, MAX_INPUT = 0x8000 };

static void put_segment(
	uint8_t *file, unsigned i, uint32_t type, uint32_t flags, uint64_t off, uint64_t bytes)
{
	Elf64_Phdr p = {.p_type = type,
		.p_flags = flags,
		.p_offset = off,
		.p_vaddr = off,
		.p_filesz = bytes,
		.p_memsz = bytes};

	memcpy(file + sizeof(Elf64_Ehdr) + i * sizeof(p), &p, sizeof(p));
}

static void put_section(
	uint8_t *file, uint64_t table, unsigned i, uint32_t name, uint64_t off, uint64_t bytes)
{
	Elf64_Shdr s = {.sh_name = name,
		.sh_type = name == 1 ? SHT_STRTAB : SHT_PROGBITS,
		.sh_offset = off,
		.sh_addr = off,
		.sh_size = bytes};

	memcpy(file + table + i * sizeof(s), &s, sizeof(s));
}

/* kind 0: .eh_frame; 1: .eh_frame_hdr, its table leading into the input; 2: .debug_frame; +4: arm64. */
static size_t lay_file(uint8_t *file, unsigned kind, const uint8_t *data, size_t size)
{
	static const char names[] = "\0.shstrtab\0.eh_frame\0.debug_frame";
	uint64_t table = INPUT_OFF + (size + 7) / 8 * 8 + sizeof(names) + 8,
		 names_off = INPUT_OFF + size;
	Elf64_Ehdr h = {.e_type = ET_DYN,
		.e_machine = kind & 4 ? EM_AARCH64 : EM_X86_64,
		.e_version = 1,
		.e_phoff = sizeof(h),
		.e_ehsize = sizeof(h),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 1};

	table = table / 8 * 8;
	h.e_shoff = table;
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	h.e_ident[EI_VERSION] = EV_CURRENT;
	memcpy(file, &h, sizeof(h));
	put_segment(file, 0, PT_LOAD, PF_R | PF_X, CODE_OFF, CODE_BYTES);
	put_segment(file, 1, PT_LOAD, PF_R, INPUT_OFF, size);
	put_segment(file, 2, (kind & 3) == 1 ? PT_GNU_EH_FRAME : PT_NULL, PF_R, INPUT_OFF, size);
	memcpy(file + INPUT_OFF, data, size);
	memcpy(file + CODE_OFF, data, size);
	memcpy(file + names_off, names, sizeof(names));
	put_section(file, table, 1, 1, names_off, sizeof(names));
	put_section(file, table, 2, (kind & 3) == 2 ? 21 : 11, INPUT_OFF, size);
	return table + 3 * sizeof(Elf64_Shdr);
}

static void lay_table(const struct symbol_file *s)
{
	static struct unwind_memory m;
	static struct unwind_tables *t;
	struct symbol_unwind u;

	if (!m.n_slabs) {
		m = (struct unwind_memory) {.slabs = calloc(256, 4096),
			.n_slabs = 256,
			.rules = calloc(1024, sizeof(struct unwind_rule)),
			.n_rules = 1024,
			.binaries = calloc(4, sizeof(struct unwind_binary)),
			.n_binaries = 4,
			.cache = calloc(UNWIND_CACHE_ANSWERS, sizeof(struct unwind_answer)),
			.n_cache = UNWIND_CACHE_ANSWERS};
		t = unwind_tables_new(&m);
	}
	if (!symbol_unwind_of(s, &u))
		return;
	if (unwind_tables_load(t, 1, s->identity.content_id, &u, 1) == 0)
		unwind_tables_drop(t, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t file[INPUT_OFF + 2 * MAX_INPUT];
	int in, out;
	struct symbol_file s;
	size_t n;

	if (size < 1 || size > MAX_INPUT)
		return 0;
	memset(file, 0, sizeof(file));
	n = lay_file(file, data[0] & 7, data + 1, size - 1);
	in = memfd_create("in", 0);
	out = memfd_create("out", 0);
	if (write(in, file, n) == (ssize_t)n &&
		parser_compile(&(struct parser_inputs) {.fd = in, .debug_fd = -1}, out, NULL) ==
			0) {
		if (symbol_file_map(out, &s, NULL) < 0)
			abort();
		lay_table(&s);
		symbol_file_unmap(&s);
	}
	close(in);
	close(out);
	return 0;
}
