/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of Go programs from the runtime's own table, which no strip removes: .gopclntab
 * (Go's debug/gosym/pclntab.go; runtime/symtab.go). The magic distinguishes four layouts: of Go
 * 1.2, 1.16, 1.18 and 1.20. Little-endian with 8-byte pointers, as on all machines that Sonde supports.
 */
#include "exporter/parser/elf/elf_go.h"
#include <string.h>

enum { HEADER_BYTES = 8, POINTER_BYTES = 8, MAX_FUNCTIONS = 1 << 24 };

static bool layout_of(uint32_t magic, enum go_layout *ret)
{
	switch (magic) {
	case 0xfffffffb: *ret = GO_2; return true;
	case 0xfffffffa: *ret = GO_16; return true;
	case 0xfffffff0: *ret = GO_18; return true;
	case 0xfffffff1: *ret = GO_20; return true;
	default: return false;
	}
}

/* A count beyond the table's bytes would cost seconds of work. */
static bool has_functions(const struct go_table *t)
{
	uint64_t entry = t->layout >= GO_18 ? 8 : 2 * POINTER_BYTES, bytes = cursor_left(&t->all);

	return t->n_functions <= MAX_FUNCTIONS && t->functions_off <= bytes &&
	       t->n_functions * entry <= bytes - t->functions_off;
}

/* magic, 0, 0, instruction quantum, pointer size; then numbers of pointer size. */
static bool read_header(struct go_table *t, uint64_t text)
{
	struct cursor c = t->all;
	uint64_t told_text;

	if (!layout_of(cursor_u32(&c), &t->layout) || cursor_u16(&c))
		return false;
	t->quantum = cursor_u8(&c);
	if (cursor_u8(&c) != POINTER_BYTES)
		return false;
	t->n_functions = cursor_u64(&c);
	if (t->layout == GO_2) {
		t->functions_off = HEADER_BYTES + POINTER_BYTES;
		return !c.error && has_functions(t);
	}
	cursor_skip(&c, 8); /* files */
	if (t->layout >= GO_18) {
		told_text = cursor_u64(&c);
		t->text = told_text ? told_text : text; /* 0 where the loader would fill it in */
	}
	t->names_off = cursor_u64(&c);
	t->units_off = cursor_u64(&c);
	t->files_off = cursor_u64(&c);
	t->values_off = cursor_u64(&c);
	t->functions_off = cursor_u64(&c);
	return !c.error && has_functions(t);
}

static struct cursor at(const struct go_table *t, uint64_t off)
{
	struct cursor c = t->all;

	if (off > cursor_left(&c))
		cursor_fail(&c);
	else
		cursor_skip(&c, (size_t)off);
	return c;
}

struct go_entry {
	uint64_t start, info; /* info: offset of the function's record */
};

/* The i-th entry; the one behind the last has the end of all in place of a start. */
static bool read_entry(const struct go_table *t, uint64_t i, struct go_entry *ret)
{
	uint64_t width = t->layout >= GO_18 ? 4 : POINTER_BYTES;
	struct cursor c = at(t,
		t->functions_off > UINT64_MAX / 2 ? UINT64_MAX : t->functions_off + i * 2 * width);
	uint64_t start = cursor_le(&c, (unsigned)width), info = 0;

	if (i < t->n_functions)
		info = cursor_le(&c, (unsigned)width);
	*ret = (struct go_entry) {.start = t->text + start, .info = info};
	return !c.error;
}

const char *elf_go_text(const struct go_table *t, uint64_t base, uint32_t off)
{
	uint64_t text_off;
	struct cursor c;
	const char *text;

	if (__builtin_add_overflow(base, off, &text_off))
		return NULL;
	c = at(t, text_off);
	text = (const char *)c.pos;
	return !c.error && cursor_left(&c) && memchr(text, '\0', cursor_left(&c)) && text[0] ? text
											     : NULL;
}

static struct cursor record_at(const struct go_table *t, uint64_t info)
{
	uint64_t base = t->layout == GO_2 ? 0 : t->functions_off, off;

	if (__builtin_add_overflow(base, info, &off))
		return (struct cursor) {.error = -EBADMSG};
	return at(t, off);
}

/* A record begins with the function's start again, then the place of its name. */
static const char *name_of(const struct go_table *t, uint64_t info)
{
	struct cursor c = record_at(t, info);
	uint32_t name_off;

	cursor_skip(&c, t->layout >= GO_18 ? 4 : POINTER_BYTES);
	name_off = cursor_u32(&c);
	return c.error ? NULL : elf_go_text(t, t->names_off, name_off);
}

int elf_go_functions(
	const void *table, size_t n, uint64_t text, uint64_t text_end, struct elf_symbols *ret)
{
	struct go_table t = {.all = cursor_of(table, n)};
	struct go_entry entry, next;
	int r = 0;

	if (!read_header(&t, text))
		return -ENOENT;
	for (uint64_t i = 0; r == 0 && i < t.n_functions; i++) {
		const char *name;

		if (!read_entry(&t, i, &entry) || !read_entry(&t, i + 1, &next))
			break;
		name = name_of(&t, entry.info);
		if (!name || next.start <= entry.start || next.start > text_end)
			continue;
		r = elf_symbols_add(ret, &(struct elf_symbol) {.addr = entry.start,
						 .size = next.start - entry.start,
						 .name = name,
						 .rank = ELF_RANK_FUNC});
	}
	return r;
}

/* A table without a section of its own, in a program that an external linker made position-independent:
 * among what is read-only after relocation. */
static bool find_table(const struct elf_file *f, struct cursor *ret)
{
	static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};
	GElf_Shdr shdr;
	Elf_Data *data = NULL;

	for (size_t i = 0; !data && i < ARRAY_SIZE(names); i++)
		data = elf_file_section_data(elf_file_section(f, names[i], &shdr));
	if (data) {
		*ret = cursor_of(data->d_buf, data->d_size);
		return true;
	}
	data = elf_file_section_data(elf_file_section(f, ".data.rel.ro", &shdr));
	if (!data || !f->go_build_id[0])
		return false;
	for (size_t off = 0; off + HEADER_BYTES <= data->d_size; off += POINTER_BYTES) {
		struct go_table t = {
			.all = cursor_of((const uint8_t *)data->d_buf + off, data->d_size - off)};
		struct go_entry first;

		if (!read_header(&t, 0) || !t.n_functions || !read_entry(&t, 0, &first) ||
			!name_of(&t, first.info))
			continue;
		*ret = t.all;
		return true;
	}
	return false;
}

/* The runtime's moduledata has the first function's address, the end of all, and what entries are
 * relative to, one after the other: three words that nothing else has. */
struct text_search {
	uint64_t first, span; /* of entries */
	uint64_t words[3];
	unsigned n;
	uint64_t text; /* 0: not found */
	uint64_t at;   /* the address of that word */
};

static void see_word(struct text_search *s, uint64_t addr, uint64_t value)
{
	s->n = s->n && addr == s->at + POINTER_BYTES ? s->n + 1 : 1;
	s->at = addr;
	s->words[0] = s->words[1];
	s->words[1] = s->words[2];
	s->words[2] = value;
	if (s->n >= 3 && s->words[1] - s->words[0] == s->span &&
		s->words[2] + s->first == s->words[0])
		s->text = value;
}

static void search_section(const struct elf_file *f, const char *name, struct text_search *s)
{
	GElf_Shdr shdr;
	Elf_Data *data = elf_file_section_data(elf_file_section(f, name, &shdr));
	struct cursor c = cursor_of(data ? data->d_buf : NULL, data ? data->d_size : 0);

	s->n = 0;
	while (!s->text && cursor_left(&c) >= POINTER_BYTES) {
		uint64_t off = cursor_off(&c);

		see_word(s, shdr.sh_addr + off, cursor_u64(&c));
	}
}

static void search_relocations(const struct elf_file *f, struct text_search *s)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = elf_file_section(f, ".rela.dyn", &shdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;

	s->n = 0;
	for (size_t i = 0; data && shdr.sh_entsize && i < data->d_size / shdr.sh_entsize &&
			   i <= INT32_MAX && !s->text;
		i++) {
		GElf_Rela rela;

		if (gelf_getrela(data, (int)i, &rela) && !GELF_R_SYM(rela.r_info))
			see_word(s, rela.r_offset, (uint64_t)rela.r_addend);
	}
}

/* False: not found; `t` may lack what its entries are relative to. */
static bool search_text(const struct elf_file *f, const struct go_table *t, struct text_search *s)
{
	static const char *const sections[] = {".go.module", ".noptrdata", ".data"};
	struct go_entry first, last;

	*s = (struct text_search) {0};
	if (!t->n_functions || !read_entry(t, 0, &first) || !read_entry(t, t->n_functions, &last))
		return false;
	s->first = first.start - t->text;
	s->span = last.start - first.start;
	for (size_t i = 0; !s->text && i < ARRAY_SIZE(sections); i++)
		search_section(f, sections[i], s);
	if (!s->text)
		search_relocations(f, s);
	return s->text;
}

static uint64_t find_text(const struct elf_file *f, const struct cursor *table)
{
	struct go_table t = {.all = *table};
	struct text_search s;
	GElf_Shdr text = {0};

	elf_file_section(f, ".text", &text);
	return read_header(&t, 0) && !t.text && search_text(f, &t, &s) ? s.text : text.sh_addr;
}

uint64_t elf_go_module_text(const struct elf_file *f, const struct go_table *t)
{
	struct text_search s;

	return search_text(f, t, &s) ? s.at : 0;
}

int elf_read_go_functions(const struct elf_file *f, struct elf_symbols *ret)
{
	struct cursor table;
	uint64_t end = 0;

	if (!find_table(f, &table))
		return -ENOENT;
	for (uint32_t i = 0; i < f->n_loads; i++)
		if (f->loads[i].flags & PF_X)
			end = MAX(end, f->loads[i].vaddr + f->loads[i].memory_bytes);
	return elf_go_functions(
		table.start, (size_t)(table.end - table.start), find_text(f, &table), end, ret);
}

bool elf_go_open(const struct elf_file *f, struct go_table *ret)
{
	struct cursor table;

	if (!find_table(f, &table))
		return false;
	return elf_go_table_of(
		table.start, (size_t)(table.end - table.start), find_text(f, &table), ret);
}

bool elf_go_table_of(const void *table, size_t n, uint64_t text, struct go_table *ret)
{
	*ret = (struct go_table) {.all = cursor_of(table, n)};
	return read_header(ret, text);
}

struct cursor elf_go_values(const struct go_table *t, uint32_t off)
{
	uint64_t values_off;

	if (!off || __builtin_add_overflow(t->values_off, off, &values_off))
		return (struct cursor) {.error = -EBADMSG};
	return at(t, values_off);
}

/* A record: start, name, arguments, deferreturn, then where the stack pointer's distances are. */
static struct cursor stack_of(const struct go_table *t, struct cursor record)
{
	uint32_t off;

	cursor_skip(&record, t->layout >= GO_18 ? 16 : POINTER_BYTES + 12);
	off = cursor_u32(&record);
	return elf_go_values(t, record.error ? 0 : off);
}

bool elf_go_function(const struct go_table *t, uint64_t i, struct go_function *ret)
{
	struct go_entry entry, next;

	if (!read_entry(t, i, &entry) || !read_entry(t, i + 1, &next) || next.start <= entry.start)
		return false;
	*ret = (struct go_function) {.start = entry.start,
		.end = next.start,
		.name = name_of(t, entry.info),
		.record = record_at(t, entry.info)};
	ret->stack = stack_of(t, ret->record);
	return ret->name && !ret->stack.error;
}

bool elf_go_next_value(
	const struct go_table *t, struct cursor *c, bool first, uint64_t *pc, int64_t *value)
{
	uint64_t delta = cursor_varint(c);

	if (c->error || (!delta && !first))
		return false;
	/* The runtime's own are 32 bits wide. */
	if (__builtin_add_overflow(
		    *value, delta & 1 ? ~(int64_t)(delta >> 1) : (int64_t)(delta >> 1), value))
		return false;
	*pc += cursor_varint(c) * t->quantum;
	return !c->error;
}
