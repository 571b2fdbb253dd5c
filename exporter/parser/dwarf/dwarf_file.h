/* SPDX-License-Identifier: Apache-2.0
 *
 * DWARF 2 to 5 as it lies in an ELF file: sections, units, abbreviations, forms. Sources: the
 * DWARF 5 standard (sections by number in dwarf_*.c) and the GNU extensions that gcc, clang and
 * dwz write. All reading is bounded; `work` counts the time that one file may cost.
 */
#pragma once
#include "exporter/parser/dwarf/dwarf_abbrev.h"
#include "exporter/parser/elf/elf_file.h"

enum dwarf_section_kind {
	DWARF_INFO,
	DWARF_ABBREV,
	DWARF_LINE,
	DWARF_STR,
	DWARF_LINE_STR,
	DWARF_STR_OFFSETS,
	DWARF_ADDR,
	DWARF_RANGES,
	DWARF_RNGLISTS,
	DWARF_CU_INDEX, /* of a package of split units */
	DWARF_N_SECTIONS
};

struct dwarf_section {
	const uint8_t *data;
	size_t bytes;
	void *own; /* decompressed by ourselves, where that has memory of its own */
};

/* What sections were decompressed into. */
struct dwarf_inflated {
	uint8_t *memory, *at; /* NULL: each has memory of its own */
	size_t left;	      /* from `at` on */
	uint64_t bytes;	      /* of all that was, or was tried */
};

struct dwarf_unit {
	struct dwarf_file *file;
	/* of a split unit: has its lines, addresses and old ranges; NULL: not split */
	struct dwarf_unit *skeleton;
	uint64_t off, die_off, end; /* in .debug_info */
	uint64_t low_pc;	    /* base of its range lists */
	uint64_t str_offsets_base, addr_base, rnglists_base, ranges_base;
	uint64_t abbrev_off, line_off, dwo_id;
	const char *comp_dir, *dwo_name, *producer;
	uint32_t abbrevs; /* index + 1 of its table, where that is kept; 0: it isn't yet */
	uint32_t program; /* index + 1 of its line program; 0: not read yet */
	uint16_t version, language;
	uint8_t type, addr_bytes, offset_bytes;
	bool has_lines, is_broken;
	bool is_read; /* its own entry is, or that was tried */
};

/* The unit that has what a split one leaves in the program. */
static inline struct dwarf_unit *dwarf_skeleton_of(struct dwarf_unit *u)
{
	return u->skeleton ? u->skeleton : u;
}

/* Functions by the offset of their entry: less than half of what a struct table takes. */
struct dwarf_functions {
	struct dwarf_function {
		uint64_t off;
		uint32_t id; /* in the tables that are filled */
	} * items;
	uint32_t *slots; /* index + 1; 0: free */
	size_t n, cap, n_slots;
};

/* What special opcodes of line programs add, by opcode, so that nothing is divided for each row. */
struct dwarf_specials {
	uint8_t line_range, opcode_base, min_step; /* line_range 0: not set */
	int8_t line_base;
	struct dwarf_special {
		uint32_t line, step;
	} by_opcode[256];
};

struct dwarf_program; /* exporter/parser/dwarf/dwarf_line.h */

struct dwarf_file {
	struct dwarf_section sections[DWARF_N_SECTIONS];
	struct dwarf_inflated inflated;
	struct dwarf_unit *units; /* ascending by offset */
	struct dwarf_unit *
		unit_at_hand; /* most references lead to entries of the unit that they are in; NULL: none yet */
	struct dwarf_tables tables;
	struct dwarf_shape shape; /* of the table that was read last */
	struct dwarf_program *programs;
	size_t n_units, cap_units, n_programs, cap_programs;
	struct table programs_by_off;
	struct dwarf_specials specials; /* of the program that ran last */
	struct dwarf_functions functions;
	struct dwarf_file *alt;	 /* the supplementary file; NULL: not there */
	bool is_split;		 /* a .dwo file, or what a package has of one */
	uint64_t work, max_work; /* bytes read, roughly: what nests or repeats has an end */
};

/* Finds sections, those of split units (`.debug_….dwo`) or the others; decompresses what is
 * compressed. -EFBIG: more than 256 MiB decompressed; -ENOMEM. */
int dwarf_file_load(const struct elf_file *f, bool split, struct dwarf_file *ret) _must_check_;
/* The same with sections that are at hand, whose `own` it takes over. */
void dwarf_file_init(struct dwarf_file *d, const struct dwarf_section *sections);
/* Lists the units by their headers. -ENOENT: neither .debug_info nor .debug_line is there; -ENOMEM. */
int dwarf_file_list(struct dwarf_file *d) _must_check_;
void dwarf_file_done(struct dwarf_file *d);
#define _cleanup_dwarf_file_ _cleanup_(dwarf_file_done)

/* Counts work; false when the file has had its share. */
static inline bool dwarf_work(struct dwarf_file *d, uint64_t n)
{
	d->work += n;
	return d->work <= d->max_work;
}

static inline struct cursor dwarf_cursor(
	const struct dwarf_file *d, enum dwarf_section_kind kind, uint64_t off)
{
	const struct dwarf_section *s = &d->sections[kind];
	struct cursor c = cursor_of(s->data, s->bytes);

	if (off > s->bytes)
		cursor_fail(&c);
	else if (off) /* a section that is not there has no bytes to point at */
		c.pos = c.start + off;
	return c;
}
/* The string at an offset of a section, or NULL. */
const char *dwarf_string_at(const struct dwarf_file *d, enum dwarf_section_kind kind, uint64_t off);
/* The unit that holds an offset of .debug_info, or NULL. */
struct dwarf_unit *dwarf_unit_at(struct dwarf_file *d, uint64_t off);

/* Reads the unit's own entry, once; false: the unit is broken. */
bool dwarf_unit_read(struct dwarf_unit *u);

/* Moves to the sibling whose place stands `off` bytes on; false: the place is not behind the entry in the unit. */
static inline bool dwarf_to_sibling(const struct dwarf_unit *u, struct cursor *c, uint32_t off)
{
	uint32_t sibling;
	uint64_t to;

	if (cursor_left(c) < off + sizeof(sibling))
		return false;
	memcpy(&sibling, c->pos + off, sizeof(sibling));
	to = u->off + le32toh(sibling);
	if (to >= u->end || to < cursor_off(c) + off + sizeof(sibling))
		return false;
	c->pos = c->start + to;
	return true;
}

/* Moves the cursor over entries that have nothing to tell, with what is below them: most of a file's are such. */
static inline void dwarf_skip_dull(
	const struct dwarf_unit *u, const struct dwarf_abbrevs *t, struct cursor *c)
{
	while (c->pos < c->end && *c->pos < DWARF_N_SHORT_CODES) {
		struct dwarf_hop hop = t->hops[*c->pos];

		if (hop.bytes && hop.bytes <= c->end - c->pos)
			c->pos += hop.bytes;
		else if (!hop.sibling || !dwarf_to_sibling(u, c, hop.sibling))
			break;
	}
}

/* Reads one value; the cursor's error is set when it is malformed or of an unknown form. */
struct dwarf_value dwarf_read_form(
	const struct dwarf_unit *u, struct cursor *c, uint32_t form, int64_t implicit);
/* What a value means; false or NULL when it is of another class or points nowhere. */
bool dwarf_address(const struct dwarf_unit *u, struct dwarf_value v, uint64_t *ret);
const char *dwarf_string(const struct dwarf_unit *u, struct dwarf_value v);
bool dwarf_is_address(uint32_t form);
/* The entry that a reference points to: its file in *ret_file. */
bool dwarf_reference(const struct dwarf_unit *u, struct dwarf_value v, struct dwarf_file **ret_file,
	uint64_t *ret_off);

/* Calls for each range of a DW_AT_ranges value. */
typedef void dwarf_range_fn(void *arg, uint64_t start, uint64_t end);
void dwarf_ranges(const struct dwarf_unit *u, struct dwarf_value v, dwarf_range_fn *fn, void *arg);
