/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbol tables and procedure linkage tables → candidate functions.
 */
#include "exporter/parser/elf/elf_file.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include "lib/base/str.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_SYMBOLS = 32 << 20 };

int elf_symbols_add(struct elf_symbols *s, const struct elf_symbol *symbol)
{
	int r;

	if (s->n == MAX_SYMBOLS)
		return -EFBIG;
	r = alloc_grow(&s->items, &s->cap, s->n + 1, sizeof(*s->items));
	if (r < 0)
		return r;
	s->items[s->n++] = *symbol;
	return 0;
}

void elf_symbols_done(struct elf_symbols *s)
{
	free(s->items);
	*s = (struct elf_symbols) {0};
}

/* Names that assemblers and compilers leave behind: they mark places, not functions. */
static bool is_marker(const char *name)
{
	static const char *const suffixes[] = {"code_begin", "code_end", "data_begin", "data_end",
		"frametable", "data_segments", "code_segments"};

	if (!name[0] || name[0] == '$' || (name[0] == '.' && name[1] == 'L'))
		return true;
	if (name[0] != 'c' || !str_starts_with(name, "caml"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (str_ends_with(name, suffixes[i]))
			return true;
	return false;
}

/* Untyped symbols count when their section holds code: hand-written assembly often gives neither
 * type nor size. */
static bool section_is_code(const struct elf_file *f, uint32_t index)
{
	Elf_Scn *scn = index && index < SHN_LORESERVE ? elf_getscn(f->elf, index) : NULL;
	GElf_Shdr shdr;

	return scn && gelf_getshdr(scn, &shdr) && (shdr.sh_flags & SHF_EXECINSTR);
}

static bool candidate_of(const struct elf_file *f, const struct elf_file *tables,
	const GElf_Sym *sym, struct elf_symbol *ret)
{
	static const uint8_t bind_rank[] = {[STB_LOCAL] = ELF_BIND_LOCAL,
		[STB_GLOBAL] = ELF_BIND_GLOBAL,
		[STB_WEAK] = ELF_BIND_WEAK};
	unsigned type = GELF_ST_TYPE(sym->st_info), bind = GELF_ST_BIND(sym->st_info);
	bool func = type == STT_FUNC || type == STT_GNU_IFUNC;

	if (sym->st_shndx == SHN_UNDEF || (!func && type != STT_NOTYPE) ||
		!elf_file_is_code(f, sym->st_value))
		return false;
	if (!func && !section_is_code(tables, sym->st_shndx))
		return false;
	*ret = (struct elf_symbol) {
		.addr = sym->st_value,
		.size = sym->st_size,
		.rank = func ? (sym->st_size ? ELF_RANK_FUNC : ELF_RANK_FUNC_UNSIZED)
			     : (sym->st_size ? ELF_RANK_NOTYPE : ELF_RANK_NOTYPE_UNSIZED),
		.bind = bind < ARRAY_SIZE(bind_rank) ? bind_rank[bind] : ELF_BIND_WEAK,
	};
	return true;
}

/* Marks of OCaml's runtime, which every program that has OCaml code exports. */
static void note_ocaml(const char *name, const GElf_Sym *sym, struct elf_symbols *ret)
{
	if (name[0] != 'c' || !str_starts_with(name, "caml_") || sym->st_shndx == SHN_UNDEF)
		return;
	if (!strcmp(name, "caml_frametable"))
		ret->ocaml_frametable = sym->st_value;
	else if (!strcmp(name, "caml_runstack"))
		ret->ocaml_has_effects = true;
	else if (!strcmp(name, "caml_compact_heap"))
		ret->ocaml_has_compaction = true;
}

/* A symbol table and its names, opened once: libelf's own calls look both up again for each symbol. */
struct symbol_table {
	Elf_Data *symbols, *names;
	Elf_Data *versions; /* u16 each; NULL: versions stand in the names */
	size_t n;
	bool is_plain; /* 64 bits, entries of the usual size */
};

static bool open_table(const struct elf_file *f, Elf_Scn *scn, struct symbol_table *ret)
{
	GElf_Shdr shdr, versions;
	Elf_Scn *names;

	*ret = (struct symbol_table) {.symbols = scn ? elf_getdata(scn, NULL) : NULL};
	if (!ret->symbols || !ret->symbols->d_buf || !gelf_getshdr(scn, &shdr) || !shdr.sh_entsize)
		return false;
	ret->n = MIN(ret->symbols->d_size / shdr.sh_entsize, (size_t)INT32_MAX);
	ret->is_plain = gelf_getclass(f->elf) == ELFCLASS64 && shdr.sh_entsize == sizeof(Elf64_Sym);
	if (scn == f->dynsym)
		ret->versions =
			elf_file_section_data(elf_file_section(f, ".gnu.version", &versions));
	names = elf_getscn(f->elf, shdr.sh_link);
	ret->names = names ? elf_getdata(names, NULL) : NULL;
	return ret->names && ret->names->d_buf && ret->names->d_size &&
	       !((const char *)ret->names->d_buf)[ret->names->d_size - 1];
}

const char *elf_symbol_version(const char *name, size_t n)
{
	const char *at = memchr(name, '@', n);

	return at && at != name && (at[1] == '@' || (at[1] >= 'A' && at[1] <= 'Z')) ? at : NULL;
}

/* A version that is not the default one is hidden from those that link to the name. */
static bool is_of_old_version(const struct symbol_table *t, size_t i, const char *name)
{
	enum { HIDDEN = 0x8000 };
	const char *version = elf_symbol_version(name, strlen(name));
	struct cursor c;

	if (version || !t->versions)
		return version && version[1] != '@';
	c = cursor_of(t->versions->d_buf, t->versions->d_size);
	cursor_skip(&c, 2 * i);
	return cursor_u16(&c) & HIDDEN;
}

static bool symbol_at(const struct symbol_table *t, size_t i, GElf_Sym *ret)
{
	if (!t->is_plain)
		return gelf_getsym(t->symbols, (int)i, ret);
	memcpy(ret, (const char *)t->symbols->d_buf + i * sizeof(*ret), sizeof(*ret));
	return true;
}

static int read_table(const struct elf_file *f, const struct elf_file *tables, Elf_Scn *scn,
	struct elf_symbols *ret)
{
	struct symbol_table t;

	if (!open_table(tables, scn, &t))
		return 0;
	for (size_t i = 1; i < t.n; i++) {
		struct elf_symbol symbol;
		const char *name;
		GElf_Sym sym;
		int r;

		if (!symbol_at(&t, i, &sym))
			break;
		if (sym.st_name >= t.names->d_size)
			continue;
		name = (const char *)t.names->d_buf + sym.st_name;
		note_ocaml(name, &sym, ret);
		if (!candidate_of(f, tables, &sym, &symbol) || is_marker(name))
			continue;
		symbol.name = name;
		symbol.is_old = is_of_old_version(&t, i, name);
		r = elf_symbols_add(ret, &symbol);
		if (r < 0)
			return r;
	}
	return 0;
}

static uint64_t n_symbols(Elf_Scn *scn)
{
	GElf_Shdr shdr;

	return scn && gelf_getshdr(scn, &shdr) && shdr.sh_entsize ? shdr.sh_size / shdr.sh_entsize
								  : 0;
}

/* Linkers put what they export into both tables, so a whole .symtab has all of .dynsym; one of which only a
 * few were kept is the shorter one. */
int elf_read_symbols(
	const struct elf_file *f, const struct elf_file *tables, struct elf_symbols *ret)
{
	int r = read_table(f, tables, tables->symtab, ret);

	if (r < 0 || (tables->symtab && n_symbols(tables->symtab) >= n_symbols(tables->dynsym)))
		return r;
	return read_table(f, tables, tables->dynsym, ret);
}

/*
 * Procedure linkage tables. An entry jumps through a slot of the global offset table; the
 * relocation of that slot names the function.
 */

struct plt_slot {
	uint64_t addr;	  /* of the slot */
	const char *name; /* of what it will hold */
};

struct plt_slots {
	struct plt_slot *items;
	size_t n, cap;
};

static void plt_slots_done(struct plt_slots *s)
{
	free(s->items);
}

static int compare_slots(const void *pa, const void *pb)
{
	const struct plt_slot *a = pa, *b = pb;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

static int read_relocations(const struct elf_file *f, const char *section, struct plt_slots *slots)
{
	GElf_Shdr shdr, symbols_shdr;
	Elf_Scn *scn = elf_file_section(f, section, &shdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL, *symbols;

	if (!data || shdr.sh_type != SHT_RELA || !shdr.sh_entsize || !f->dynsym ||
		!gelf_getshdr(f->dynsym, &symbols_shdr))
		return 0;
	symbols = elf_getdata(f->dynsym, NULL);
	for (size_t i = 0; symbols && i < data->d_size / shdr.sh_entsize && i <= INT32_MAX; i++) {
		GElf_Rela rela;
		GElf_Sym sym;
		int r;

		if (!gelf_getrela(data, (int)i, &rela))
			break;
		if (!GELF_R_SYM(rela.r_info) ||
			!gelf_getsym(symbols, (int)GELF_R_SYM(rela.r_info), &sym))
			continue;
		if (slots->n == MAX_SYMBOLS)
			return -EFBIG;
		r = alloc_grow(&slots->items, &slots->cap, slots->n + 1, sizeof(*slots->items));
		if (r < 0)
			return r;
		slots->items[slots->n++] = (struct plt_slot) {
			.addr = rela.r_offset,
			.name = elf_strptr(f->elf, symbols_shdr.sh_link, sym.st_name),
		};
	}
	return 0;
}

/* x86-64: `jmp *disp(%rip)` (ff 25), maybe after endbr64 and with a bnd prefix. The slot's
 * address, or 0. */
static uint64_t x86_slot(const uint8_t *code, size_t n, uint64_t vaddr)
{
	struct cursor c = cursor_of(code, n);
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	if (n >= 4 && memcmp(code, endbr64, 4) == 0)
		cursor_skip(&c, 4);
	if (cursor_left(&c) && *c.pos == 0xf2)
		cursor_skip(&c, 1);
	if (cursor_u8(&c) != 0xff || cursor_u8(&c) != 0x25)
		return 0;
	vaddr += (uint64_t)(int64_t)(int32_t)cursor_u32(&c);
	return c.error ? 0 : vaddr + cursor_off(&c);
}

/* arm64: adrp x16, page; ldr x17, [x16, offset]. The slot's address, or 0. */
static uint64_t arm64_slot(const uint8_t *code, size_t n, uint64_t vaddr)
{
	struct cursor c = cursor_of(code, n);
	uint32_t adrp = cursor_u32(&c), ldr = cursor_u32(&c);
	int64_t pages;

	if (adrp == 0xd503245f) { /* bti c */
		adrp = ldr;
		ldr = cursor_u32(&c);
		vaddr += 4;
	}
	if (c.error || (adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
		return 0;
	pages = (int64_t)((uint64_t)((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3)) << 43) >> 43;
	return (vaddr & ~0xfffULL) + (uint64_t)(pages * 4096) + (uint64_t)(ldr >> 10 & 0xfff) * 8;
}

static int read_plt_section(const struct elf_file *f, const char *name,
	const struct plt_slots *slots, struct elf_symbols *ret)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = elf_file_section(f, name, &shdr);
	Elf_Data *data = elf_file_section_data(scn);
	size_t step = shdr.sh_entsize == 8 ? 8 : 16;

	if (!data || !(shdr.sh_flags & SHF_EXECINSTR))
		return 0;
	if (strcmp(name, ".plt.got") == 0 && f->machine == EM_X86_64)
		step = shdr.sh_entsize == 16 ? 16 : 8;
	for (size_t off = 0; off + step <= data->d_size; off += step) {
		const uint8_t *code = (const uint8_t *)data->d_buf + off;
		uint64_t vaddr = shdr.sh_addr + off;
		uint64_t slot = f->machine == EM_X86_64 ? x86_slot(code, step, vaddr)
							: arm64_slot(code, step, vaddr);
		struct plt_slot key = {.addr = slot}, *found;
		int r;

		if (!slot)
			continue;
		found = bsearch(&key, slots->items, slots->n, sizeof(key), compare_slots);
		if (!found || !found->name || !found->name[0])
			continue;
		r = elf_symbols_add(ret, &(struct elf_symbol) {.addr = vaddr,
						 .size = step,
						 .name = found->name,
						 .rank = ELF_RANK_PLT,
						 .plt = true});
		if (r < 0)
			return r;
	}
	return 0;
}

int elf_read_plt(const struct elf_file *f, struct elf_symbols *ret)
{
	static const char *const tables[] = {".plt", ".plt.sec", ".plt.got"};
	_cleanup_(plt_slots_done)
	struct plt_slots slots = {0};
	int r;

	if (f->machine != EM_X86_64 && f->machine != EM_AARCH64)
		return 0;
	r = read_relocations(f, ".rela.plt", &slots);
	if (r == 0)
		r = read_relocations(f, ".rela.dyn", &slots);
	if (r < 0 || !slots.n)
		return r;
	qsort(slots.items, slots.n, sizeof(*slots.items), compare_slots);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(tables); i++)
		r = read_plt_section(f, tables[i], &slots, ret);
	return r;
}
