/* SPDX-License-Identifier: Apache-2.0
 *
 * Abbreviation tables (DWARF 5 §7.5.3). Most entries are skipped unread: each abbreviation has a
 * short program that skips one entry, with runs of fixed sizes taken together.
 */
#include "exporter/parser/dwarf/dwarf_file.h"
#include "lib/base/alloc.h"
#include <dwarf.h>
#include <stdlib.h>

enum {
	MAX_ABBREVS = 1 << 20,
	MAX_ATTRS = 1 << 22,
	MAX_RUN_BYTES = 1 << 24,
	MAX_SKIMMED_BYTES = 1 << 10, /* at once */
	NOT_PLAIN = 0xff
};

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

/* The same for standard forms, looked up: a file has as many attributes as abbreviations are worth bytes, and few shapes of units. */
static void take_shape(const struct dwarf_unit *u)
{
	struct dwarf_shape *shape = &u->file->shape;

	if (shape->is_set && shape->version == u->version && shape->addr_bytes == u->addr_bytes &&
		shape->offset_bytes == u->offset_bytes)
		return;
	*shape = (struct dwarf_shape) {.is_set = true,
		.version = u->version,
		.addr_bytes = u->addr_bytes,
		.offset_bytes = u->offset_bytes};
	memset(shape->plain, NOT_PLAIN, sizeof(shape->plain));
	for (uint32_t form = 0; form < DWARF_N_FORMS; form++) {
		shape->skips[form] = (uint16_t)skip_of(u, form);
		if ((shape->skips[form] & SKIP_MASK) == SKIP_FIXED &&
			form != DW_FORM_implicit_const)
			shape->plain[form] = (uint8_t)(shape->skips[form] >> SKIP_SHIFT);
	}
}

static inline uint32_t skip_in(const struct dwarf_unit *u, uint32_t form)
{
	return form < DWARF_N_FORMS ? u->file->shape.skips[form] : skip_of(u, form);
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
	int r = alloc_grow(&t->skips, &t->cap_skips, t->n_skips + 1, sizeof(*t->skips));

	if (r < 0)
		return r;
	t->skips[t->n_skips++] = skip;
	a->n_skips++;
	return 0;
}

/* What attributes of so many bytes in a row take. */
static int add_run(struct dwarf_abbrevs *t, struct dwarf_abbrev *a, uint32_t bytes)
{
	return bytes ? add_skip(t, a, bytes << SKIP_SHIFT | SKIP_FIXED) : 0;
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

static int add_attr(struct dwarf_abbrevs *t, struct dwarf_abbrev *a, uint64_t name, uint32_t form,
	uint32_t skip, int64_t implicit)
{
	int r = t->n_attrs == MAX_ATTRS
			? -EBADMSG
			: alloc_grow(&t->attrs, &t->cap_attrs, t->n_attrs + 1, sizeof(*t->attrs));

	if (r < 0)
		return r;
	t->attrs[t->n_attrs++] = (struct dwarf_attr) {.name = (uint16_t)name,
		.form = (uint16_t)form,
		.slot = slot_of(name),
		.bytes = number_bytes(form, skip),
		.implicit = implicit};
	a->n_attrs++;
	a->has_pc |= name == DW_AT_low_pc || name == DW_AT_ranges;
	return 0;
}

/*
 * Skips attributes that nobody needs. Stops at a sibling, and at an attribute whose name or form takes more than a byte or whose form has
 * no fixed size. Returns the bytes of all of them.
 */
static inline uint32_t skim(const struct dwarf_unit *u, struct cursor *c)
{
	const uint8_t *plain = u->file->shape.plain, *p = c->pos,
		      *end = p + MIN(cursor_left(c), (size_t)MAX_SKIMMED_BYTES);
	uint32_t bytes = 0;

	for (; end - p >= 2 && p[0] > DW_AT_sibling && p[0] < 0x80 && plain[p[1]] != NOT_PLAIN;
		p += 2)
		bytes += plain[p[1]];
	c->pos = p;
	return bytes;
}

static int read_attrs(const struct dwarf_unit *u, struct cursor *c, struct dwarf_abbrevs *t,
	struct dwarf_abbrev *a)
{
	const bool wanted = is_read(a->tag), leaps = a->has_children && holds_no_code(a->tag);
	uint32_t run = 0; /* bytes of attributes that take a number of bytes that is known */
	int r = 0;

	while (r == 0) {
		uint64_t name, form;
		int64_t implicit;
		uint32_t skip;

		run += wanted ? 0 : skim(u, c);
		name = cursor_varint(c);
		form = cursor_varint(c);
		if (c->error || (!name && !form))
			break;
		if (name > UINT16_MAX || form > UINT16_MAX)
			return -EBADMSG;
		skip = skip_in(u, (uint32_t)form);
		implicit = form == DW_FORM_implicit_const ? cursor_sleb(c) : 0;
		if (leaps && name == DW_AT_sibling && form == DW_FORM_ref4 && !a->n_skips) {
			a->has_sibling = true;
			a->sibling_off = run;
		}
		if (wanted)
			r = add_attr(t, a, name, (uint32_t)form, skip, implicit);
		if (r == 0 && (skip & SKIP_MASK) == SKIP_FIXED && run < MAX_RUN_BYTES) {
			run += skip >> SKIP_SHIFT;
		} else if (r == 0) {
			r = add_run(t, a, run);
			run = (skip & SKIP_MASK) == SKIP_FIXED ? skip >> SKIP_SHIFT : 0;
			r = r == 0 && !run ? add_skip(t, a, skip) : r;
		}
	}
	a->is_fixed = !a->n_skips;
	if (a->is_fixed)
		a->fixed_bytes = run;
	else if (r == 0)
		r = add_run(t, a, run);
	return r < 0 ? r : c->error;
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

/* The next one, in its place: copied there it would have to wait for its bytes. -ENOENT: there is none. */
static int read_abbrev(const struct dwarf_unit *u, struct cursor *c, struct dwarf_abbrevs *t)
{
	uint64_t code = cursor_varint(c), tag;
	struct dwarf_abbrev *a;
	int r;

	if (c->error || !code || t->n == MAX_ABBREVS)
		return -ENOENT;
	r = alloc_grow(&t->items, &t->cap, t->n + 1, sizeof(*t->items));
	if (r < 0)
		return r;
	a = &t->items[t->n];
	tag = cursor_varint(c);
	*a = (struct dwarf_abbrev) {.code = code,
		.first_attr = (uint32_t)t->n_attrs,
		.first_skip = (uint32_t)t->n_skips,
		.tag = tag > UINT16_MAX ? 0 : (uint16_t)tag};
	a->has_children = cursor_u8(c) != 0;
	r = read_attrs(u, c, t, a);
	if (r < 0)
		return r;
	note_hop(t, a);
	t->dense &= code == t->n + 1;
	t->n++;
	return 0;
}

static int read_abbrevs(const struct dwarf_unit *u, uint64_t off, struct dwarf_abbrevs *t)
{
	struct cursor c = dwarf_cursor(u->file, DWARF_ABBREV, off);
	int r = 0;

	take_shape(u);
	t->n = t->n_attrs = t->n_skips = 0;
	t->dense = true;
	memset(t->hops, 0, sizeof(t->hops));
	while (r == 0)
		r = read_abbrev(u, &c, t);
	dwarf_work(u->file, cursor_off(&c) - off);
	if (!t->dense)
		qsort(t->items, t->n, sizeof(*t->items), by_code);
	return r == -ENOENT ? c.error : r;
}

/* A copy of a table, no larger than it is; NULL when memory is out. */
static struct dwarf_abbrevs *copy_abbrevs(const struct dwarf_abbrevs *from)
{
	size_t items = from->n * sizeof(*from->items), attrs = from->n_attrs * sizeof(*from->attrs),
	       skips = from->n_skips * sizeof(*from->skips);
	struct dwarf_abbrevs *t = try_malloc(sizeof(*t) + items + attrs + skips);
	char *p = (char *)(t + 1);

	if (!t)
		return NULL;
	*t = *from;
	t->items = (struct dwarf_abbrev *)p;
	t->attrs = (struct dwarf_attr *)(p + items);
	t->skips = (uint32_t *)(p + items + attrs);
	if (items)
		memcpy(t->items, from->items, items);
	if (attrs)
		memcpy(t->attrs, from->attrs, attrs);
	if (skips)
		memcpy(t->skips, from->skips, skips);
	return t;
}

static void free_arrays(struct dwarf_abbrevs *t)
{
	free(t->items);
	free(t->attrs);
	free(t->skips);
}

void dwarf_tables_done(struct dwarf_tables *all)
{
	for (size_t i = 0; i < all->n; i++)
		free(all->kept[i]);
	free(all->kept);
	free_arrays(&all->at_hand);
	free_arrays(&all->scratch);
	table_done(&all->by_key);
}

/* What a table depends on; 0: none that is read. */
static uint64_t key_of(const struct dwarf_unit *u)
{
	if (u->abbrev_off > UINT32_MAX)
		return 0;
	return u->abbrev_off << 8 | (uint64_t)(u->version == 2) << 7 | u->addr_bytes << 3 |
	       u->offset_bytes >> 3;
}

void dwarf_abbrevs_begin(struct dwarf_unit *u)
{
	struct dwarf_tables *all = &u->file->tables;
	uint64_t key = key_of(u);

	u->file->unit_at_hand = u;
	if (u->is_broken || all->go_back || u->abbrevs || !key || key == all->key_at_hand ||
		!dwarf_work(u->file, 1))
		return;
	all->key_at_hand = key;
	/* What follows a malformed one is not known; what precedes it is. */
	(void)!read_abbrevs(u, u->abbrev_off, &all->at_hand);
}

/* Reads a table that stays. Returns its number + 1, or 0. */
static uint64_t keep_abbrevs(struct dwarf_unit *u)
{
	struct dwarf_tables *all = &u->file->tables;
	int r = alloc_grow(&all->kept, &all->cap, all->n + 1, sizeof(*all->kept));
	struct dwarf_abbrevs *t;

	if (r < 0)
		return 0;
	(void)!read_abbrevs(u, u->abbrev_off, &all->scratch);
	t = copy_abbrevs(&all->scratch);
	if (!t)
		return 0;
	all->kept[all->n] = t;
	return ++all->n;
}

const struct dwarf_abbrevs *dwarf_abbrevs_of(struct dwarf_unit *u)
{
	struct dwarf_tables *all = &u->file->tables;
	uint64_t key = key_of(u), *slot;
	bool is_new;

	if (u->abbrevs)
		return all->kept[u->abbrevs - 1];
	if (!key || !dwarf_work(u->file, 1))
		return NULL;
	if (key == all->key_at_hand)
		return &all->at_hand;
	slot = table_insert(&all->by_key, key, &is_new);
	if (!slot)
		return NULL;
	if (is_new)
		*slot = keep_abbrevs(u);
	if (!*slot) {
		table_remove(&all->by_key, key);
		return NULL;
	}
	u->abbrevs = (uint32_t)*slot;
	return all->kept[u->abbrevs - 1];
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
	if (abbrev->is_fixed)
		cursor_skip(c, abbrev->fixed_bytes);
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
