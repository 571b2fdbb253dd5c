/* SPDX-License-Identifier: Apache-2.0
 *
 * DWARF sections and units.
 */
#include "exporter/parser/dwarf/dwarf_file.h"
#include "exporter/parser/dwarf/dwarf_line.h"
#include "lib/base/alloc.h"
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <libdeflate.h>
#include <zstd.h>

enum {
	MAX_INFLATED_BYTES = 256 << 20,
	MAX_UNITS = 1 << 20,
	COMPRESSED_ZSTD = 2, /* ELFCOMPRESS_ZSTD, which libelf 0.188 does not inflate */
	GNU_ZLIB_HEADER = 12,
};
#define WORK_PER_BYTE 32U
#define WORK_MIN (1U << 20)

static const char *const names[DWARF_N_SECTIONS] = {
	[DWARF_INFO] = "info",
	[DWARF_ABBREV] = "abbrev",
	[DWARF_LINE] = "line",
	[DWARF_STR] = "str",
	[DWARF_LINE_STR] = "line_str",
	[DWARF_STR_OFFSETS] = "str_offsets",
	[DWARF_ADDR] = "addr",
	[DWARF_RANGES] = "ranges",
	[DWARF_RNGLISTS] = "rnglists",
	[DWARF_CU_INDEX] = "cu_index",
};

/*
 * Memory for what is decompressed, one piece for all sections of a file: so little is outside of whole large pages, and pages of
 * 4 KiB cost a quarter of the time that decompressing into them takes.
 */
static void provide(struct dwarf_inflated *pool, uint64_t bytes)
{
	size_t over = bytes % ALLOC_HUGE_PAGE_BYTES;

	if (bytes < ALLOC_HUGE_PAGE_BYTES / 2 || bytes > MAX_INFLATED_BYTES)
		return;
	bytes += over > ALLOC_HUGE_PAGE_BYTES / 2 ? ALLOC_HUGE_PAGE_BYTES - over : 0;
	/* Without it each section is given memory of its own, or none. */
	pool->memory = pool->at = try_malloc_huge(bytes);
	pool->left = pool->memory ? bytes : 0;
}

/* Where a section of so many bytes goes: in the file's piece of memory, else (*ret_own) in its own. */
static void *room_for(struct dwarf_inflated *pool, size_t bytes, void **ret_own)
{
	uint8_t *p = pool->at;

	*ret_own = NULL;
	if (!p || bytes > pool->left)
		return *ret_own = try_malloc(bytes + 1);
	pool->at += bytes;
	pool->left -= bytes;
	return p;
}

static int inflate_zstd(Elf_Data *raw, void *to, size_t bytes)
{
	size_t header = sizeof(Elf64_Chdr);
	size_t n =
		ZSTD_decompress(to, bytes, (const char *)raw->d_buf + header, raw->d_size - header);

	return ZSTD_isError(n) || n != bytes ? -EBADMSG : 0;
}

/* In two thirds of the time that zlib takes, which libelf calls. */
static int inflate_zlib(Elf_Data *raw, void *to, size_t bytes)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	size_t header = sizeof(Elf64_Chdr);
	bool ok = d && libdeflate_zlib_decompress(d, (const char *)raw->d_buf + header,
			       raw->d_size - header, to, bytes, NULL) == LIBDEFLATE_SUCCESS;

	libdeflate_free_decompressor(d);
	return ok ? 0 : -EBADMSG;
}

/* -ENOTSUP: left to libelf, which also knows the headers of x32. */
static int inflate(
	Elf_Scn *scn, const GElf_Chdr *chdr, struct dwarf_inflated *pool, struct dwarf_section *ret)
{
	Elf_Data *raw = elf_rawdata(scn, NULL);
	void *own, *to;
	int r;

	if (chdr->ch_type != COMPRESSED_ZSTD && chdr->ch_type != ELFCOMPRESS_ZLIB)
		return -ENOTSUP;
	if (!raw || !raw->d_buf || raw->d_size < sizeof(Elf64_Chdr))
		return chdr->ch_type == COMPRESSED_ZSTD ? -EBADMSG : -ENOTSUP;
	to = room_for(pool, chdr->ch_size, &own);
	if (!to)
		return -ENOMEM;
	r = chdr->ch_type == COMPRESSED_ZSTD ? inflate_zstd(raw, to, chdr->ch_size)
					     : inflate_zlib(raw, to, chdr->ch_size);
	if (r < 0) {
		free(own);
		return chdr->ch_type == COMPRESSED_ZSTD ? r : -ENOTSUP;
	}
	*ret = (struct dwarf_section) {.data = to, .bytes = chdr->ch_size, .own = own};
	return 0;
}

static int take_data(Elf_Scn *scn, struct dwarf_section *ret)
{
	Elf_Data *data = elf_rawdata(scn, NULL);

	if (!data || !data->d_buf)
		return -EBADMSG;
	ret->data = data->d_buf;
	ret->bytes = data->d_size;
	return 0;
}

/* .zdebug_…: "ZLIB", the size in big-endian, the stream. */
static int inflate_gnu(Elf_Scn *scn, uint64_t *inflated, struct dwarf_section *ret)
{
	Elf_Data *raw = elf_rawdata(scn, NULL);
	uint64_t bytes = 0;

	if (!raw || !raw->d_buf || raw->d_size < GNU_ZLIB_HEADER)
		return -EBADMSG;
	for (int i = 4; i < GNU_ZLIB_HEADER; i++)
		bytes = bytes << 8 | ((const uint8_t *)raw->d_buf)[i];
	if (bytes > MAX_INFLATED_BYTES - *inflated)
		return -EFBIG;
	*inflated += bytes;
	return elf_compress_gnu(scn, 0, 0) < 0 ? -EBADMSG : take_data(scn, ret);
}

static int read_section(Elf_Scn *scn, const GElf_Shdr *shdr, bool gnu, struct dwarf_inflated *pool,
	struct dwarf_section *ret)
{
	GElf_Chdr chdr;
	int r;

	if (gnu)
		return inflate_gnu(scn, &pool->bytes, ret);
	if (!(shdr->sh_flags & SHF_COMPRESSED))
		return take_data(scn, ret);
	if (!gelf_getchdr(scn, &chdr))
		return -EBADMSG;
	if (chdr.ch_size > MAX_INFLATED_BYTES - pool->bytes)
		return -EFBIG;
	pool->bytes += chdr.ch_size;
	r = inflate(scn, &chdr, pool, ret);
	if (r != -ENOTSUP)
		return r;
	return elf_compress(scn, 0, 0) < 0 ? -EBADMSG : take_data(scn, ret);
}

/* True for a section of type units, which hold no code. */
static bool holds_types(const struct dwarf_section *s)
{
	struct cursor c = cursor_of(s->data, s->bytes);

	if (cursor_u32(&c) == UINT32_MAX)
		cursor_skip(&c, 8);
	return cursor_u16(&c) >= 5 && cursor_u8(&c) == DW_UT_split_type && !c.error;
}

/* gcc gives each split type unit a section of its own, before that of the compile unit. */
static int load_section(Elf_Scn *scn, const GElf_Shdr *shdr, bool gnu, struct dwarf_inflated *pool,
	bool is_split_info, struct dwarf_section *ret)
{
	struct dwarf_section next = {.data = NULL};
	int r;

	if (ret->data && !(is_split_info && holds_types(ret)))
		return 0;
	r = read_section(scn, shdr, gnu, pool, &next);
	if (r < 0) {
		free(next.own);
		return r;
	}
	free(ret->own);
	*ret = next;
	return 0;
}

/* Which one `name` is, .debug_ and .zdebug_ cut off; DWARF_N_SECTIONS: none. */
static int kind_of(const char *name, bool split)
{
	for (int i = 0; i < DWARF_N_SECTIONS; i++) {
		size_t n = strlen(names[i]);

		if (strncmp(name, names[i], n) == 0 &&
			strcmp(name + n, split && i != DWARF_CU_INDEX ? ".dwo" : "") == 0)
			return i;
	}
	return DWARF_N_SECTIONS;
}

/* A section of ours that has bytes; `kind` DWARF_N_SECTIONS: it is none. */
struct found {
	Elf_Scn *scn;
	GElf_Shdr shdr;
	int kind;
	bool gnu;
};

/* The next section; false at the end. */
static bool next_section(const struct elf_file *f, size_t strings, bool split, struct found *s)
{
	const char *name;

	s->scn = elf_nextscn(f->elf, s->scn);
	s->kind = DWARF_N_SECTIONS;
	if (!s->scn)
		return false;
	name = gelf_getshdr(s->scn, &s->shdr) ? elf_strptr(f->elf, strings, s->shdr.sh_name) : NULL;
	s->gnu = name && strncmp(name, ".zdebug_", 8) == 0;
	if (name && s->shdr.sh_type != SHT_NOBITS && (s->gnu || strncmp(name, ".debug_", 7) == 0))
		s->kind = kind_of(name + (s->gnu ? 8 : 7), split);
	return true;
}

/* Bytes of the compressed sections, as they say themselves. */
static uint64_t inflated_bytes(const struct elf_file *f, size_t strings, bool split)
{
	struct found s = {.scn = NULL};
	uint64_t bytes = 0;
	GElf_Chdr chdr;

	while (next_section(f, strings, split, &s))
		if (s.kind < DWARF_N_SECTIONS && (s.shdr.sh_flags & SHF_COMPRESSED) &&
			gelf_getchdr(s.scn, &chdr))
			bytes += MIN(chdr.ch_size, (uint64_t)MAX_INFLATED_BYTES);
	return bytes;
}

static int load_sections(const struct elf_file *f, struct dwarf_file *d)
{
	struct found s = {.scn = NULL};
	size_t strings;
	int r = 0;

	if (elf_getshdrstrndx(f->elf, &strings) < 0)
		return -ENOENT;
	provide(&d->inflated, inflated_bytes(f, strings, d->is_split));
	while (r >= 0 && next_section(f, strings, d->is_split, &s)) {
		if (s.kind < DWARF_N_SECTIONS)
			r = load_section(s.scn, &s.shdr, s.gnu, &d->inflated,
				d->is_split && s.kind == DWARF_INFO, &d->sections[s.kind]);
		/* A section that cannot be read is as if it were not there. */
		r = r == -EBADMSG ? 0 : r;
	}
	return r;
}

const char *dwarf_string_at(const struct dwarf_file *d, enum dwarf_section_kind kind, uint64_t off)
{
	const struct dwarf_section *s = &d->sections[kind];

	if (off >= s->bytes)
		return NULL;
	/* Mostly the last one ends in a NUL, and so any that begins before it. */
	if (s->data[s->bytes - 1] && !memchr(s->data + off, 0, s->bytes - off))
		return NULL;
	return (const char *)s->data + off;
}

/* §7.5.1: a unit's header. False at the end of the headers that can be read. */
static bool read_header(struct dwarf_file *d, struct cursor *c, struct dwarf_unit *ret)
{
	struct dwarf_unit u = {.file = d, .off = cursor_off(c), .offset_bytes = 4};
	uint64_t length = cursor_u32(c);

	if (length == 0xffffffffU) {
		u.offset_bytes = 8;
		length = cursor_u64(c);
	}
	if (c->error || length > cursor_left(c))
		return false;
	u.end = cursor_off(c) + length;
	u.version = cursor_u16(c);
	u.type = DW_UT_compile;
	if (u.version >= 5) {
		u.type = cursor_u8(c);
		u.addr_bytes = cursor_u8(c);
		u.abbrev_off = cursor_le(c, u.offset_bytes);
		if (u.type == DW_UT_skeleton || u.type == DW_UT_split_compile)
			u.dwo_id = cursor_u64(c);
	} else {
		u.abbrev_off = cursor_le(c, u.offset_bytes);
		u.addr_bytes = cursor_u8(c);
	}
	u.die_off = cursor_off(c);
	if (d->is_split && u.version >= 5) {
		/* Not given: behind the headers of the only contribution. */
		u.str_offsets_base = u.offset_bytes == 8 ? 16 : 8;
		u.rnglists_base = u.offset_bytes == 8 ? 20 : 12;
	}
	u.is_broken = u.version < 2 || u.version > 5 || c->error || u.die_off > u.end ||
		      (u.addr_bytes != 4 && u.addr_bytes != 8) || u.type == DW_UT_type ||
		      u.type == DW_UT_split_type;
	if (u.end > d->sections[DWARF_INFO].bytes)
		return false;
	c->error = 0;
	c->pos = c->start + u.end;
	*ret = u;
	return true;
}

static void take_unit_attr(struct dwarf_unit *u, uint16_t name, struct dwarf_value v,
	struct dwarf_value *low_pc, struct dwarf_value *comp_dir, struct dwarf_value *dwo_name,
	struct dwarf_value *producer)
{
	switch (name) {
	case DW_AT_stmt_list:
		u->line_off = v.u;
		u->has_lines = true;
		break;
	case DW_AT_low_pc: *low_pc = v; break;
	case DW_AT_comp_dir: *comp_dir = v; break;
	case DW_AT_producer: *producer = v; break;
	case DW_AT_language: u->language = (uint16_t)v.u; break;
	case DW_AT_str_offsets_base: u->str_offsets_base = v.u; break;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base: u->addr_base = v.u; break;
	case DW_AT_rnglists_base: u->rnglists_base = v.u; break;
	case DW_AT_GNU_ranges_base: u->ranges_base = v.u; break;
	case DW_AT_GNU_dwo_id: u->dwo_id = v.u; break;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name: *dwo_name = v; break;
	default: break;
	}
}

/* The unit's own entry: the bases come first, since the others may refer to them. */
static bool read_unit_entry(struct dwarf_unit *u)
{
	struct dwarf_value low_pc = {0}, comp_dir = {0}, dwo_name = {0}, producer = {0};
	struct cursor c = dwarf_cursor(u->file, DWARF_INFO, u->die_off);
	const struct dwarf_abbrevs *abbrevs = dwarf_abbrevs_of(u);
	const struct dwarf_abbrev *a;

	c.end = c.start + u->end;
	a = abbrevs ? dwarf_abbrev_find(abbrevs, cursor_varint(&c)) : NULL;
	if (!a)
		return false;
	for (uint32_t i = 0; i < a->n_attrs && !c.error; i++) {
		const struct dwarf_attr *attr = &abbrevs->attrs[a->first_attr + i];

		take_unit_attr(u, attr->name, dwarf_read_form(u, &c, attr->form, attr->implicit),
			&low_pc, &comp_dir, &dwo_name, &producer);
	}
	if (c.error)
		return false;
	u->comp_dir = dwarf_string(u, comp_dir);
	u->dwo_name = dwarf_string(u, dwo_name);
	u->producer = dwarf_string(u, producer);
	if (!dwarf_address(u, low_pc, &u->low_pc))
		u->low_pc = 0;
	return true;
}

/* Nearly as many as there are: what is malformed has no more behind it. */
static size_t count_units(struct dwarf_file *d)
{
	struct cursor c = dwarf_cursor(d, DWARF_INFO, 0);
	size_t n = 0;

	for (; cursor_left(&c) && n < MAX_UNITS; n++) {
		uint64_t length = cursor_u32(&c);

		cursor_skip(&c, length == UINT32_MAX ? cursor_u64(&c) : length);
	}
	return n;
}

static int list_units(struct dwarf_file *d)
{
	struct cursor c = dwarf_cursor(d, DWARF_INFO, 0);
	uint64_t last_off = 0;
	struct dwarf_unit u;
	int r = alloc_grow(&d->units, &d->cap_units, count_units(d), sizeof(*d->units));

	while (r == 0 && cursor_left(&c) && d->n_units < MAX_UNITS && read_header(d, &c, &u)) {
		r = alloc_grow(&d->units, &d->cap_units, d->n_units + 1, sizeof(*d->units));
		if (r < 0)
			break;
		d->tables.go_back |= u.abbrev_off < last_off;
		last_off = u.abbrev_off;
		d->units[d->n_units++] = u;
	}
	return r;
}

bool dwarf_unit_read(struct dwarf_unit *u)
{
	if (!u->is_read && !u->is_broken)
		u->is_broken = !read_unit_entry(u);
	u->is_read = true;
	return !u->is_broken;
}

void dwarf_file_init(struct dwarf_file *d, const struct dwarf_section *sections)
{
	*d = (struct dwarf_file) {.units = NULL};
	table_init(&d->tables.by_key, NULL);
	table_init(&d->programs_by_off, NULL);
	if (sections)
		memcpy(d->sections, sections, sizeof(d->sections));
}

int dwarf_file_load(const struct elf_file *f, bool split, struct dwarf_file *ret)
{
	dwarf_file_init(ret, NULL);
	ret->is_split = split;
	return load_sections(f, ret);
}

int dwarf_file_list(struct dwarf_file *d)
{
	uint64_t bytes = 0;

	/* The strings of a package are there for all of its units. */
	for (int i = 0; i < DWARF_N_SECTIONS; i++)
		bytes += d->is_split && i == DWARF_STR ? 0 : d->sections[i].bytes;
	d->max_work = WORK_MIN + bytes * WORK_PER_BYTE;
	if (!d->sections[DWARF_INFO].bytes && !d->sections[DWARF_LINE].bytes)
		return -ENOENT;
	return list_units(d);
}

struct dwarf_unit *dwarf_unit_at(struct dwarf_file *d, uint64_t off)
{
	size_t low = 0, n = d->n_units;
	struct dwarf_unit *u = d->unit_at_hand;

	if (u && off >= u->die_off && off < u->end)
		return u;
	while (n > 1) {
		size_t half = n / 2;

		low += d->units[low + half].off <= off ? half : 0;
		n -= half;
	}
	if (!n || off < d->units[low].die_off || off >= d->units[low].end)
		return NULL;
	return &d->units[low];
}

void dwarf_file_done(struct dwarf_file *d)
{
	for (int i = 0; i < DWARF_N_SECTIONS; i++)
		free(d->sections[i].own);
	free(d->inflated.memory);
	dwarf_tables_done(&d->tables);
	for (size_t i = 0; i < d->n_programs; i++)
		dwarf_program_done(&d->programs[i]);
	free(d->programs);
	free(d->units);
	table_done(&d->programs_by_off);
	free(d->functions.items);
	free(d->functions.slots);
	*d = (struct dwarf_file) {.units = NULL};
}
