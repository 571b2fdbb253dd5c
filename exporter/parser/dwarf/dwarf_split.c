/* SPDX-License-Identifier: Apache-2.0
 *
 * From a skeleton to its unit, by the id that both have.
 */
#include "exporter/parser/dwarf/dwarf_split.h"
#include "exporter/parser/dwarf/dwarf_scope.h"
#include <string.h>

/* §7.3.5.3: the index of a package. */
struct package_index {
	const struct dwarf_file *package;
	uint64_t slots_off, rows_off, columns_off, offs_off, sizes_off;
	uint32_t version, n_columns, n_units, n_slots;
};

bool dwarf_is_skeleton(const struct dwarf_unit *u)
{
	return !u->is_broken && u->dwo_name && u->dwo_id;
}

/* Its sections' numbers; those of GNU's version 2 and of DWARF 5 differ where both are given. */
static int section_of(const struct package_index *x, uint32_t number)
{
	switch (number) {
	case 1: return DWARF_INFO;
	case 3: return DWARF_ABBREV;
	case 6: return DWARF_STR_OFFSETS;
	case 8: return x->version >= 5 ? DWARF_RNGLISTS : DWARF_N_SECTIONS;
	default: return DWARF_N_SECTIONS;
	}
}

static bool read_index(const struct dwarf_file *package, struct package_index *ret)
{
	struct cursor c = dwarf_cursor(package, DWARF_CU_INDEX, 0);
	uint64_t cells;

	*ret = (struct package_index) {.package = package};
	/* Four bytes in version 2; in version 5 two and two that are 0. */
	ret->version = cursor_u32(&c) & 0xffff;
	ret->n_columns = cursor_u32(&c);
	ret->n_units = cursor_u32(&c);
	ret->n_slots = cursor_u32(&c);
	cells = (uint64_t)ret->n_columns * ret->n_units;
	if (c.error || (ret->version != 2 && ret->version != 5) || ret->n_columns > 16 ||
		(ret->n_slots & (ret->n_slots - 1)))
		return false;
	ret->slots_off = cursor_off(&c);
	ret->rows_off = ret->slots_off + (uint64_t)ret->n_slots * 8;
	ret->columns_off = ret->rows_off + (uint64_t)ret->n_slots * 4;
	ret->offs_off = ret->columns_off + (uint64_t)ret->n_columns * 4;
	ret->sizes_off = ret->offs_off + cells * 4;
	return ret->sizes_off + cells * 4 <= package->sections[DWARF_CU_INDEX].bytes;
}

static uint64_t index_at(const struct package_index *x, uint64_t off, unsigned bytes)
{
	struct cursor c = dwarf_cursor(x->package, DWARF_CU_INDEX, off);

	return cursor_le(&c, bytes);
}

/* The row of an id, counted from 1; 0: it has none. */
static uint32_t find_row(const struct package_index *x, uint64_t id, struct dwarf_file *work)
{
	uint64_t mask = (uint64_t)x->n_slots - 1, slot = id & mask, step = (id >> 32 & mask) | 1;

	for (uint32_t i = 0; i < x->n_slots && dwarf_work(work, 12); i++) {
		uint32_t row = (uint32_t)index_at(x, x->rows_off + slot * 4, 4);

		if (!row)
			return 0;
		if (index_at(x, x->slots_off + slot * 8, 8) == id)
			return row <= x->n_units ? row : 0;
		slot = (slot + step) & mask;
	}
	return 0;
}

/* The sections of one unit: its part of each that is divided. */
static bool slice(const struct package_index *x, uint32_t row, struct dwarf_section *ret)
{
	memset(ret, 0, DWARF_N_SECTIONS * sizeof(*ret));
	ret[DWARF_STR] = x->package->sections[DWARF_STR];
	ret[DWARF_STR].own = NULL;
	for (uint32_t i = 0; i < x->n_columns; i++) {
		uint64_t cell = ((uint64_t)(row - 1) * x->n_columns + i) * 4;
		uint64_t off = index_at(x, x->offs_off + cell, 4);
		uint64_t bytes = index_at(x, x->sizes_off + cell, 4);
		int kind = section_of(x, (uint32_t)index_at(x, x->columns_off + i * 4ULL, 4));
		const struct dwarf_section *whole;

		if (kind == DWARF_N_SECTIONS)
			continue;
		whole = &x->package->sections[kind];
		if (off > whole->bytes || bytes > whole->bytes - off)
			return false;
		ret[kind] = (struct dwarf_section) {.data = whole->data + off, .bytes = bytes};
	}
	return true;
}

/* The unit of the skeleton among those of `dwo`, which have been listed. */
static struct dwarf_unit *unit_of(const struct dwarf_unit *skeleton, const struct dwarf_file *dwo)
{
	for (size_t i = 0; i < dwo->n_units; i++) {
		struct dwarf_unit *u = &dwo->units[i];

		dwarf_abbrevs_begin(u);
		if (dwarf_unit_read(u) && u->dwo_id == skeleton->dwo_id)
			return u;
	}
	return NULL;
}

static bool walk_in(struct dwarf_unit *skeleton, struct dwarf_file *dwo, struct debug_tables *t)
{
	struct dwarf_unit *u = unit_of(skeleton, dwo);

	if (!u)
		return false;
	u->skeleton = skeleton;
	elf_toolchain_vote(&t->votes, u->language, elf_toolchain_compiler(u->producer));
	dwarf_walk_unit(u, t);
	return true;
}

static bool is_package(struct dwarf_linked *file, const void *arg)
{
	struct package_index x;

	(void)arg;
	return read_index(&file->dwarf, &x);
}

static bool walk_in_package(
	struct dwarf_unit *skeleton, struct dwarf_links *l, struct debug_tables *t)
{
	struct parser_link link = {.kind = PARSER_LINK_PACKAGE};
	struct dwarf_section sections[DWARF_N_SECTIONS];
	_cleanup_dwarf_file_ struct dwarf_file dwo;
	struct package_index x;
	uint32_t row;

	if (!l->package_asked) {
		l->package_asked = true;
		(void)!dwarf_link_open(l, &link, true, is_package, NULL, &l->package);
	}
	dwarf_file_init(&dwo, NULL);
	dwo.is_split = true;
	if (!read_index(&l->package.dwarf, &x))
		return false;
	row = find_row(&x, skeleton->dwo_id, skeleton->file);
	if (!row || !slice(&x, row, sections))
		return false;
	memcpy(dwo.sections, sections, sizeof(sections));
	return dwarf_file_list(&dwo) == 0 && walk_in(skeleton, &dwo, t);
}

static bool has_unit(struct dwarf_linked *file, const void *skeleton)
{
	return dwarf_file_list(&file->dwarf) == 0 && unit_of(skeleton, &file->dwarf);
}

static bool walk_in_object(
	struct dwarf_unit *skeleton, struct dwarf_links *l, struct debug_tables *t)
{
	_cleanup_dwarf_linked_ struct dwarf_linked dwo = {.elf = {.fd = -1}};
	struct parser_link link = {.kind = PARSER_LINK_SPLIT};
	bool relative = skeleton->dwo_name[0] != '/' && skeleton->comp_dir;
	int n = snprintf(link.path, sizeof(link.path), "%s%s%s", relative ? skeleton->comp_dir : "",
		relative ? "/" : "", skeleton->dwo_name);

	return n < (int)sizeof(link.path) &&
	       dwarf_link_open(l, &link, true, has_unit, skeleton, &dwo) == 0 &&
	       walk_in(skeleton, &dwo.dwarf, t);
}

bool dwarf_split_walk(struct dwarf_unit *skeleton, struct dwarf_links *l, struct debug_tables *t)
{
	if (walk_in_package(skeleton, l, t) || walk_in_object(skeleton, l, t))
		return true;
	l->n_lacking++;
	return false;
}
