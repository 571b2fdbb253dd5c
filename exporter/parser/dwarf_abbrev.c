/* SPDX-License-Identifier: Apache-2.0
 *
 * Abbreviation tables (DWARF 5 §7.5.3). Most entries are never looked at: for each abbreviation a
 * short program tells how to get over one, runs of fixed sizes taken together.
 */
#include "exporter/parser/dwarf_file.h"
#include "lib/base/alloc.h"
#include <dwarf.h>
#include <stdlib.h>

enum { MAX_ABBREVS = 1 << 20, MAX_ATTRS = 1 << 22 };

/* A step: what, and for SKIP_FIXED how many bytes above it. */
enum skip {
	SKIP_FIXED,
	SKIP_LEB,
	SKIP_CSTR,
	SKIP_BLOCK1,
	SKIP_BLOCK2,
	SKIP_BLOCK4,
	SKIP_BLOCK,
	SKIP_INDIRECT,
	SKIP_BAD,
	SKIP_SHIFT = 4,
	SKIP_MASK = (1 << SKIP_SHIFT) - 1,
};

/* The bytes of a form, or what else gets over it. */
static uint32_t skip_of(const struct dwarf_unit *u, uint32_t form)
{
	uint32_t n;

	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const: n = 0; break;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1: n = 1; break;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2: n = 2; break;
	case DW_FORM_strx3:
	case DW_FORM_addrx3: n = 3; break;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4: n = 4; break;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sup8:
	case DW_FORM_ref_sig8: n = 8; break;
	case DW_FORM_data16: n = 16; break;
	case DW_FORM_addr: n = u->addr_bytes; break;
	case DW_FORM_ref_addr: n = u->version == 2 ? u->addr_bytes : u->offset_bytes; break;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt: n = u->offset_bytes; break;
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index: return SKIP_LEB;
	case DW_FORM_string: return SKIP_CSTR;
	case DW_FORM_block1: return SKIP_BLOCK1;
	case DW_FORM_block2: return SKIP_BLOCK2;
	case DW_FORM_block4: return SKIP_BLOCK4;
	case DW_FORM_block:
	case DW_FORM_exprloc: return SKIP_BLOCK;
	case DW_FORM_indirect: return SKIP_INDIRECT;
	default: return SKIP_BAD;
	}
	return n << SKIP_SHIFT | SKIP_FIXED;
}

static enum dwarf_slot slot_of(uint64_t name)
{
	switch (name) {
	case DW_AT_low_pc: return DWARF_LOW_PC;
	case DW_AT_high_pc: return DWARF_HIGH_PC;
	case DW_AT_ranges: return DWARF_RANGE_LIST;
	case DW_AT_abstract_origin: return DWARF_ORIGIN;
	case DW_AT_specification: return DWARF_SPECIFICATION;
	case DW_AT_name: return DWARF_NAME;
	case DW_AT_linkage_name:
	case DW_AT_MIPS_linkage_name: return DWARF_LINKAGE_NAME;
	case DW_AT_decl_file: return DWARF_DECL_FILE;
	case DW_AT_decl_line: return DWARF_DECL_LINE;
	case DW_AT_call_file: return DWARF_CALL_FILE;
	case DW_AT_call_line: return DWARF_CALL_LINE;
	case DW_AT_call_column: return DWARF_CALL_COLUMN;
	default: return DWARF_NOT_WANTED;
	}
}

/* The bytes of a form whose value is a number of that many; 0: of others. */
static uint8_t number_bytes(uint32_t form, uint32_t skip)
{
	uint32_t n = skip >> SKIP_SHIFT;

	return (skip & SKIP_MASK) == SKIP_FIXED && form != DW_FORM_data16 ? (uint8_t)n : 0;
}

static int add_skip(struct dwarf_abbrevs *t, struct dwarf_abbrev *a, uint32_t skip)
{
	uint32_t *last = a->n_skips ? &t->skips[t->n_skips - 1] : NULL;
	int r;

	if ((skip & SKIP_MASK) == SKIP_FIXED) {
		if (!(skip >> SKIP_SHIFT))
			return 0;
		if (last && (*last & SKIP_MASK) == SKIP_FIXED && *last < UINT32_MAX - skip) {
			*last += skip;
			return 0;
		}
	}
	r = alloc_grow(&t->skips, &t->cap_skips, t->n_skips + 1, sizeof(*t->skips));
	if (r < 0)
		return r;
	t->skips[t->n_skips++] = skip;
	a->n_skips++;
	return 0;
}

/* True when all attributes so far take a number of bytes that is known: then one step is over them. */
static bool all_fixed(const struct dwarf_abbrevs *t, const struct dwarf_abbrev *a)
{
	return !a->n_skips ||
	       (a->n_skips == 1 && (t->skips[t->n_skips - 1] & SKIP_MASK) == SKIP_FIXED);
}

/* True when no function is defined below: types hold declarations, calls the values of their arguments. */
static bool holds_no_code(uint16_t tag)
{
	switch (tag) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_array_type:
	case DW_TAG_subroutine_type:
	case DW_TAG_call_site:
	case DW_TAG_GNU_call_site: return true;
	default: return false;
	}
}

/* True when an entry's values are asked for: units, functions, and what a function's origin or specification can be. */
static bool is_read(uint16_t tag)
{
	switch (tag) {
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_entry_point:
	case DW_TAG_compile_unit:
	case DW_TAG_partial_unit:
	case DW_TAG_skeleton_unit: return true;
	default: return false;
	}
}

static int add_attr(struct dwarf_abbrevs *t, struct dwarf_abbrev *a, const struct dwarf_attr *attr)
{
	int r;

	if (!is_read(a->tag))
		return 0;
	if (t->n_attrs == MAX_ATTRS)
		return -EBADMSG;
	r = alloc_grow(&t->attrs, &t->cap_attrs, t->n_attrs + 1, sizeof(*t->attrs));
	if (r < 0)
		return r;
	t->attrs[t->n_attrs++] = *attr;
	a->n_attrs++;
	return 0;
}

static int read_attrs(const struct dwarf_unit *u, struct cursor *c, struct dwarf_abbrevs *t,
	struct dwarf_abbrev *a)
{
	for (;;) {
		uint64_t name = cursor_varint(c), form = cursor_varint(c);
		struct dwarf_attr attr;
		uint32_t skip;
		int r;

		if (c->error || (!name && !form))
			return c->error;
		if (name > UINT16_MAX || form > UINT16_MAX)
			return -EBADMSG;
		skip = skip_of(u, (uint32_t)form);
		attr = (struct dwarf_attr) {.name = (uint16_t)name,
			.form = (uint16_t)form,
			.slot = slot_of(name),
			.bytes = number_bytes((uint32_t)form, skip)};
		if (form == DW_FORM_implicit_const)
			attr.implicit = cursor_sleb(c);
		a->has_pc |= name == DW_AT_low_pc || name == DW_AT_ranges;
		if (name == DW_AT_sibling && form == DW_FORM_ref4 && a->has_children &&
			holds_no_code(a->tag) && all_fixed(t, a)) {
			a->has_sibling = true;
			a->sibling_off = a->n_skips ? t->skips[t->n_skips - 1] >> SKIP_SHIFT : 0;
		}
		r = add_attr(t, a, &attr);
		if (r == 0)
			r = add_skip(t, a, skip);
		if (r < 0)
			return r;
	}
}

static void note_hop(struct dwarf_abbrevs *t, const struct dwarf_abbrev *a)
{
	bool has_code =
		(a->tag == DW_TAG_subprogram || a->tag == DW_TAG_inlined_subroutine) && a->has_pc;

	if (a->code >= DWARF_N_SHORT_CODES)
		return;
	if (a->has_sibling && a->sibling_off < UINT8_MAX)
		t->hops[a->code].sibling = (uint8_t)(1 + a->sibling_off);
	else if (a->is_fixed && a->fixed_bytes < UINT8_MAX && !a->has_children && !has_code)
		t->hops[a->code].bytes = (uint8_t)(1 + a->fixed_bytes);
}

static int by_code(const void *pa, const void *pb)
{
	const struct dwarf_abbrev *a = pa, *b = pb;

	return a->code < b->code ? -1 : a->code > b->code;
}

static int read_abbrevs(const struct dwarf_unit *u, uint64_t off, struct dwarf_abbrevs *t)
{
	struct cursor c = dwarf_cursor(u->file, DWARF_ABBREV, off);

	t->n = t->n_attrs = t->n_skips = 0;
	t->dense = true;
	memset(t->hops, 0, sizeof(t->hops));
	for (;;) {
		struct dwarf_abbrev a = {.code = cursor_varint(&c)};
		uint64_t tag;
		int r;

		if (c.error || !a.code || t->n == MAX_ABBREVS) {
			dwarf_work(u->file, cursor_off(&c) - off);
			break;
		}
		tag = cursor_varint(&c);
		a.tag = tag > UINT16_MAX ? 0 : (uint16_t)tag;
		a.has_children = cursor_u8(&c) != 0;
		a.first_attr = (uint32_t)t->n_attrs;
		a.first_skip = (uint32_t)t->n_skips;
		r = read_attrs(u, &c, t, &a);
		if (r == 0)
			r = alloc_grow(&t->items, &t->cap, t->n + 1, sizeof(*t->items));
		if (r < 0)
			return r;
		a.is_fixed = all_fixed(t, &a);
		a.fixed_bytes =
			a.is_fixed && a.n_skips ? t->skips[t->n_skips - 1] >> SKIP_SHIFT : 0;
		note_hop(t, &a);
		t->dense &= a.code == t->n + 1;
		t->items[t->n++] = a;
	}
	if (!t->dense)
		qsort(t->items, t->n, sizeof(*t->items), by_code);
	return c.error;
}

/* A copy of a table, no larger than it is. */
static int copy_abbrevs(const struct dwarf_abbrevs *from, struct dwarf_abbrevs *ret)
{
	size_t items = from->n * sizeof(*from->items), attrs = from->n_attrs * sizeof(*from->attrs),
	       skips = from->n_skips * sizeof(*from->skips);
	char *p = try_malloc(items + attrs + skips + 1);

	if (!p)
		return -ENOMEM;
	*ret = *from;
	ret->items = (struct dwarf_abbrev *)p;
	ret->attrs = (struct dwarf_attr *)(p + items);
	ret->skips = (uint32_t *)(p + items + attrs);
	if (items)
		memcpy(ret->items, from->items, items);
	if (attrs)
		memcpy(ret->attrs, from->attrs, attrs);
	if (skips)
		memcpy(ret->skips, from->skips, skips);
	return 0;
}

const struct dwarf_abbrevs *dwarf_abbrevs_of(struct dwarf_unit *u)
{
	struct dwarf_file *d = u->file;
	uint64_t off = u->abbrev_off, key, *slot;
	bool is_new;
	int r;

	if (u->abbrevs)
		return &d->abbrevs[u->abbrevs - 1];
	if (off > UINT32_MAX || !dwarf_work(d, 1))
		return NULL;
	key = off << 8 | (uint64_t)(u->version == 2) << 7 | u->addr_bytes << 3 |
	      u->offset_bytes >> 3;
	slot = table_insert(&d->abbrevs_by_off, key, &is_new);
	if (!slot)
		return NULL;
	if (is_new) {
		r = alloc_grow(&d->abbrevs, &d->cap_abbrevs, d->n_abbrevs + 1, sizeof(*d->abbrevs));
		if (r < 0) {
			table_remove(&d->abbrevs_by_off, key);
			return NULL;
		}
		d->abbrevs[d->n_abbrevs] = (struct dwarf_abbrevs) {.n = 0};
		*slot = ++d->n_abbrevs;
		/* What follows a malformed one is not known; what precedes it is. */
		(void)!read_abbrevs(u, off, &d->abbrevs_at_hand);
		(void)!copy_abbrevs(&d->abbrevs_at_hand, &d->abbrevs[*slot - 1]);
	}
	u->abbrevs = (uint32_t)*slot;
	return &d->abbrevs[u->abbrevs - 1];
}

const struct dwarf_abbrev *dwarf_abbrev_find(const struct dwarf_abbrevs *t, uint64_t code)
{
	if (t->dense)
		return code && code <= t->n ? &t->items[code - 1] : NULL;
	return t->n ? bsearch(&(struct dwarf_abbrev) {.code = code}, t->items, t->n,
			      sizeof(*t->items), by_code)
		    : NULL;
}

void dwarf_skip_entry(
	const struct dwarf_abbrevs *t, const struct dwarf_abbrev *abbrev, struct cursor *c)
{
	for (uint32_t i = 0; i < abbrev->n_skips; i++) {
		uint32_t skip = t->skips[abbrev->first_skip + i];
		const uint8_t *nul;

		switch (skip & SKIP_MASK) {
		case SKIP_FIXED: cursor_skip(c, skip >> SKIP_SHIFT); break;
		case SKIP_LEB: cursor_skip_leb(c); break;
		case SKIP_CSTR:
			nul = cursor_left(c) ? memchr(c->pos, 0, cursor_left(c)) : NULL;
			cursor_skip(c, nul ? (size_t)(nul - c->pos) + 1 : SIZE_MAX);
			break;
		case SKIP_BLOCK1: cursor_skip(c, cursor_u8(c)); break;
		case SKIP_BLOCK2: cursor_skip(c, cursor_u16(c)); break;
		case SKIP_BLOCK4: cursor_skip(c, cursor_u32(c)); break;
		case SKIP_BLOCK: cursor_skip(c, cursor_varint(c)); break;
		default: cursor_fail(c); break; /* DW_FORM_indirect is not seen in practice */
		}
	}
}

/* Of an entry that lies `sizeof(uint64_t)` bytes before the end at least: no value needs a check of its own. */
static void read_fixed(const struct dwarf_unit *u, const struct dwarf_attr *attr,
	const struct dwarf_abbrev *abbrev, struct cursor *c, struct dwarf_entry *ret)
{
	const uint8_t *p = c->pos;

	for (uint32_t i = 0; i < abbrev->n_attrs; i++, attr++) {
		struct dwarf_value *v = &ret->values[attr->slot];

		if (attr->bytes) {
			memcpy(&v->u, p, sizeof(v->u));
			v->u = le64toh(v->u) & UINT64_MAX >> (64 - 8 * attr->bytes);
			v->form = attr->form;
			p += attr->bytes;
		} else {
			c->pos = p;
			*v = dwarf_read_form(u, c, attr->form, attr->implicit);
			p = c->pos;
		}
	}
	c->pos = p;
}

void dwarf_read_entry(const struct dwarf_unit *u, const struct dwarf_abbrevs *t,
	const struct dwarf_abbrev *abbrev, struct cursor *c, struct dwarf_entry *ret)
{
	const struct dwarf_attr *attr = t->attrs + abbrev->first_attr;

	/* Not all of it: gcc clears so much with an instruction that takes 50 cycles to start. */
	for (int i = 0; i < DWARF_N_SLOTS; i++)
		ret->values[i].form = 0;
	if (abbrev->is_fixed &&
		cursor_left(c) >= (uint64_t)abbrev->fixed_bytes + sizeof(uint64_t)) {
		read_fixed(u, attr, abbrev, c, ret);
		return;
	}
	for (uint32_t i = 0; i < abbrev->n_attrs && !c->error; i++, attr++) {
		if (attr->bytes)
			ret->values[attr->slot] = (struct dwarf_value) {
				.u = cursor_le(c, attr->bytes), .form = attr->form};
		else
			ret->values[attr->slot] = dwarf_read_form(u, c, attr->form, attr->implicit);
	}
}
