/* SPDX-License-Identifier: Apache-2.0
 *
 * Attribute values (DWARF 5 §7.5.5, §7.5.6) and range lists (§2.17.3, §7.25; DWARF 4 §2.17.3).
 */
#include "exporter/parser/dwarf/dwarf_file.h"
#include <dwarf.h>

enum { MAX_RANGES = 1 << 16 };

static uint64_t read_inline(struct cursor *c, uint64_t bytes)
{
	uint64_t off = cursor_off(c);

	cursor_skip(c, bytes);
	return off;
}

static uint64_t read_cstr(struct cursor *c)
{
	const uint8_t *nul = cursor_left(c) ? memchr(c->pos, 0, cursor_left(c)) : NULL;

	return read_inline(c, nul ? (uint64_t)(nul - c->pos) + 1 : UINT64_MAX);
}

struct dwarf_value dwarf_read_form(
	const struct dwarf_unit *u, struct cursor *c, uint32_t form, int64_t implicit)
{
	struct dwarf_value v = {.form = form};

	switch (form) {
	case DW_FORM_flag_present: v.u = 1; break;
	case DW_FORM_implicit_const: v.u = (uint64_t)implicit; break;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1: v.u = cursor_u8(c); break;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2: v.u = cursor_u16(c); break;
	case DW_FORM_strx3:
	case DW_FORM_addrx3: v.u = cursor_le(c, 3); break;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4: v.u = cursor_u32(c); break;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sup8:
	case DW_FORM_ref_sig8: v.u = cursor_u64(c); break;
	case DW_FORM_data16: v.u = read_inline(c, 16); break;
	case DW_FORM_addr: v.u = cursor_le(c, u->addr_bytes); break;
	case DW_FORM_ref_addr:
		v.u = cursor_le(c, u->version == 2 ? u->addr_bytes : u->offset_bytes);
		break;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt: v.u = cursor_le(c, u->offset_bytes); break;
	case DW_FORM_sdata: v.u = (uint64_t)cursor_sleb(c); break;
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index: v.u = cursor_varint(c); break;
	case DW_FORM_string: v.u = read_cstr(c); break;
	case DW_FORM_block1: v.u = read_inline(c, cursor_u8(c)); break;
	case DW_FORM_block2: v.u = read_inline(c, cursor_u16(c)); break;
	case DW_FORM_block4: v.u = read_inline(c, cursor_u32(c)); break;
	case DW_FORM_block:
	case DW_FORM_exprloc: v.u = read_inline(c, cursor_varint(c)); break;
	default: cursor_fail(c); break;
	}
	if (c->error)
		v.form = 0;
	return v;
}

/* An item of a table of offsets or addresses. */
static bool read_indexed(const struct dwarf_file *d, enum dwarf_section_kind kind, uint64_t base,
	uint64_t index, unsigned bytes, uint64_t *ret)
{
	struct cursor c;
	uint64_t off;

	if (__builtin_mul_overflow(index, bytes, &off) || __builtin_add_overflow(off, base, &off))
		return false;
	c = dwarf_cursor(d, kind, off);
	*ret = cursor_le(&c, bytes);
	return !c.error;
}

static bool address_at(const struct dwarf_unit *u, uint64_t index, uint64_t *ret)
{
	const struct dwarf_unit *holder = u->skeleton ? u->skeleton : u;

	return read_indexed(holder->file, DWARF_ADDR, holder->addr_base, index, u->addr_bytes, ret);
}

bool dwarf_is_address(uint32_t form)
{
	switch (form) {
	case DW_FORM_addr:
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index: return true;
	default: return false;
	}
}

bool dwarf_address(const struct dwarf_unit *u, struct dwarf_value v, uint64_t *ret)
{
	if (!dwarf_is_address(v.form))
		return false;
	if (v.form != DW_FORM_addr)
		return address_at(u, v.u, ret);
	*ret = v.u;
	return true;
}

const char *dwarf_string(const struct dwarf_unit *u, struct dwarf_value v)
{
	uint64_t off;

	switch (v.form) {
	case DW_FORM_string: return (const char *)u->file->sections[DWARF_INFO].data + v.u;
	case DW_FORM_strp: return dwarf_string_at(u->file, DWARF_STR, v.u);
	case DW_FORM_line_strp: return dwarf_string_at(u->file, DWARF_LINE_STR, v.u);
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		return u->file->alt ? dwarf_string_at(u->file->alt, DWARF_STR, v.u) : NULL;
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		if (!read_indexed(u->file, DWARF_STR_OFFSETS, u->str_offsets_base, v.u,
			    u->offset_bytes, &off))
			return NULL;
		return dwarf_string_at(u->file, DWARF_STR, off);
	default: return NULL;
	}
}

bool dwarf_reference(const struct dwarf_unit *u, struct dwarf_value v, struct dwarf_file **ret_file,
	uint64_t *ret_off)
{
	*ret_file = u->file;
	*ret_off = v.u;
	switch (v.form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata: return !__builtin_add_overflow(u->off, v.u, ret_off);
	case DW_FORM_ref_addr: return true;
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8: *ret_file = u->file->alt; return *ret_file != NULL;
	default: return false;
	}
}

/* DWARF 2 to 4: pairs of addresses; the highest address as the first gives a new base. */
static void read_old_ranges(const struct dwarf_unit *u, uint64_t off, dwarf_range_fn *fn, void *arg)
{
	const struct dwarf_unit *holder = u->skeleton ? u->skeleton : u;
	uint64_t base = holder->low_pc, max = u->addr_bytes == 8 ? UINT64_MAX : UINT32_MAX;
	struct cursor c = dwarf_cursor(holder->file, DWARF_RANGES, off);

	for (int i = 0; i < MAX_RANGES && dwarf_work(u->file, 16); i++) {
		uint64_t start = cursor_le(&c, u->addr_bytes), end = cursor_le(&c, u->addr_bytes);

		if (c.error || (!start && !end))
			return;
		if (start == max)
			base = end;
		else if (start < end)
			fn(arg, base + start, base + end);
	}
}

/* One entry of a DWARF 5 list; false at its end. */
static bool read_range(
	const struct dwarf_unit *u, struct cursor *c, uint64_t *base, dwarf_range_fn *fn, void *arg)
{
	uint64_t start = 0, end = 0;
	bool ok = true;

	switch (cursor_u8(c)) {
	case DW_RLE_base_addressx: return address_at(u, cursor_varint(c), base) && !c->error;
	case DW_RLE_base_address: *base = cursor_le(c, u->addr_bytes); return !c->error;
	case DW_RLE_startx_endx:
		ok = address_at(u, cursor_varint(c), &start) &&
		     address_at(u, cursor_varint(c), &end);
		break;
	case DW_RLE_startx_length:
		ok = address_at(u, cursor_varint(c), &start);
		end = start + cursor_varint(c);
		break;
	case DW_RLE_offset_pair:
		start = *base + cursor_varint(c);
		end = *base + cursor_varint(c);
		break;
	case DW_RLE_start_end:
		start = cursor_le(c, u->addr_bytes);
		end = cursor_le(c, u->addr_bytes);
		break;
	case DW_RLE_start_length:
		start = cursor_le(c, u->addr_bytes);
		end = start + cursor_varint(c);
		break;
	default: return false; /* DW_RLE_end_of_list */
	}
	if (ok && !c->error && start < end)
		fn(arg, start, end);
	return !c->error;
}

void dwarf_ranges(const struct dwarf_unit *u, struct dwarf_value v, dwarf_range_fn *fn, void *arg)
{
	uint64_t off = v.u, base = u->skeleton ? u->skeleton->low_pc : u->low_pc;
	struct cursor c;

	if (u->version < 5) {
		/* The skeleton's own ranges are not relative to the base that it gives. */
		read_old_ranges(u, off + (u->skeleton ? u->skeleton->ranges_base : 0), fn, arg);
		return;
	}
	if (v.form == DW_FORM_rnglistx) {
		if (!read_indexed(
			    u->file, DWARF_RNGLISTS, u->rnglists_base, v.u, u->offset_bytes, &off))
			return;
		off += u->rnglists_base;
	}
	c = dwarf_cursor(u->file, DWARF_RNGLISTS, off);
	for (int i = 0; i < MAX_RANGES && dwarf_work(u->file, 8); i++)
		if (!read_range(u, &c, &base, fn, arg))
			return;
}
