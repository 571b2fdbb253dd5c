/* SPDX-License-Identifier: Apache-2.0
 *
 * An ELF file that is open for compiling: libelf's handle, its segments and notes. Everything
 * lies in a read-only mapping of the file; a compile keeps only what it sorts, and unpacked
 * MiniDebugInfo, in memory of its own.
 */
#pragma once
#include "exporter/symfile/symbol_format.h"
#include "exporter/parser/parser.h"
#include <gelf.h>
#include <stdbool.h>

struct elf_segment {
	uint64_t vaddr, file_off, file_bytes, memory_bytes;
	uint32_t flags;
};

struct elf_file {
	int fd;
	Elf *elf;
	uint64_t file_bytes;
	uint16_t type, machine;
	struct elf_segment loads[SYMBOL_MAX_LOADS]; /* PT_LOAD, in the file's order */
	uint32_t n_loads;
	uint8_t build_id[SYMBOL_BUILD_ID_MAX];
	uint32_t build_id_len;
	char go_build_id[128];
	Elf_Scn *symtab, *dynsym;
	uint8_t *memory; /* what a file of .gnu_debugdata lies in; owned */
};

/* -EBADMSG: not ELF or malformed; -ENOTSUP: big-endian or a kind that is never mapped. */
int elf_file_open(int fd, struct elf_file *ret, struct errbuf *eb) _must_check_;
/* The same for a file that another one names: an object file will do too, and notes count without
 * segments. */
int elf_file_open_linked(int fd, struct elf_file *ret, struct errbuf *eb) _must_check_;
/* The same for what .gnu_debugdata of `f` (MiniDebugInfo: a file of symbols, compressed by xz)
 * holds; -ENOENT when there is none. */
int elf_file_open_mini(
	const struct elf_file *f, struct elf_file *ret, struct errbuf *eb) _must_check_;
/* The file that .gnu_debuglink names and its CRC; false when there is none. */
bool elf_file_debug_link(
	const struct elf_file *f, char ret[PARSER_DEBUG_LINK_MAX], uint32_t *ret_crc);
/* True when `debug` was split off `f`: by build id, or by the debug link's CRC. */
bool elf_file_is_debug_of(const struct elf_file *debug, const struct elf_file *f);
/* xz → malloc'ed memory, at most ELF_MAX_UNPACKED_BYTES. -EBADMSG, -EFBIG, -ENOMEM. */
int elf_unpack_xz(const void *packed, size_t n, uint8_t **ret, size_t *ret_n) _must_check_;
enum { ELF_MAX_UNPACKED_BYTES = 128 << 20 };
void elf_file_done(struct elf_file *f);
#define _cleanup_elf_file_ _cleanup_(elf_file_done)

/* The section of that name, or NULL; *ret_shdr is filled when found. */
Elf_Scn *elf_file_section(const struct elf_file *f, const char *name, GElf_Shdr *ret_shdr);
/* The bytes of a section as they lie in the file (NULL when it has none or they lie outside). */
Elf_Data *elf_file_section_data(Elf_Scn *scn);
/* True when the address lies in an executable segment. */
bool elf_file_is_code(const struct elf_file *f, uint64_t vaddr);
/* Where a symbol's name ends and its version begins: `memcpy@@GLIBC_2.14` and `memcpy@GLIBC_2.2.5` are both memcpy, the latter of an
 * old version. NULL: it has none. Reads n bytes at most. */
const char *elf_symbol_version(const char *name, size_t n);
void elf_file_content_id(const struct elf_file *f, uint8_t ret[SYMBOL_CONTENT_ID_LEN]);

/* One function, or what may become one. */
struct elf_symbol {
	uint64_t addr, size; /* size 0: up to the next */
	const char *name;
	uint8_t rank;	     /* of its kind: lower wins among equal addresses */
	uint8_t bind;	     /* lower wins */
	bool plt;	     /* printed as NAME@plt */
	bool is_old;	     /* of a version that no new program is linked to */
	uint32_t name_bytes; /* of what is kept of it; known once it has a row */
};
enum {
	ELF_RANK_FUNC = 0,
	ELF_RANK_PLT = 1,
	ELF_RANK_FUNC_UNSIZED = 2,
	ELF_RANK_NOTYPE = 3,
	ELF_RANK_NOTYPE_UNSIZED = 4
};
enum { ELF_BIND_GLOBAL = 0, ELF_BIND_WEAK = 1, ELF_BIND_LOCAL = 2 };

struct elf_symbols {
	struct elf_symbol *items;
	size_t n, cap;
	uint64_t ocaml_frametable; /* address of caml_frametable; 0: no OCaml */
	/* of the runtime: 5.0 or later; with the next one 5.2 or later */
	bool ocaml_has_effects, ocaml_has_compaction;
};
int elf_symbols_add(struct elf_symbols *s, const struct elf_symbol *symbol) _must_check_;
void elf_symbols_done(struct elf_symbols *s);
#define _cleanup_elf_symbols_ _cleanup_(elf_symbols_done)

/* Appends what .symtab and .dynsym of `tables` say of the code in `f` (mostly the same file). */
int elf_read_symbols(const struct elf_file *f, const struct elf_file *tables,
	struct elf_symbols *ret) _must_check_;
/* Appends the functions of a Go program's own table; -ENOENT when it has none. */
int elf_read_go_functions(const struct elf_file *f, struct elf_symbols *ret) _must_check_;
/* The same from the table's bytes. `text`: where the code begins when the table does not tell;
 * nothing that ends above text_end counts. */
int elf_go_functions(const void *table, size_t n, uint64_t text, uint64_t text_end,
	struct elf_symbols *ret) _must_check_;
/* Appends one symbol for each entry of the procedure linkage tables. */
int elf_read_plt(const struct elf_file *f, struct elf_symbols *ret) _must_check_;

/* One row of the function table: [start, start + size) belongs to symbols.items[symbol]. */
struct elf_row {
	uint32_t start, size, symbol;
};
struct elf_rows {
	struct elf_row *items;
	size_t n, cap;
	uint64_t text_base;
	uint32_t n_left_out; /* further than 4 GiB from the first, or nested too deeply */
};
/* Sorts symbols and makes rows that do not overlap. */
int elf_make_rows(const struct elf_file *f, const struct elf_symbols *symbols,
	struct elf_rows *ret) _must_check_;
void elf_rows_done(struct elf_rows *r);
#define _cleanup_elf_rows_ _cleanup_(elf_rows_done)
