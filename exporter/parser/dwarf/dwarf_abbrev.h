/* SPDX-License-Identifier: Apache-2.0
 *
 * Abbreviations: the parts of entries of .debug_info, and how to skip entries that nobody needs.
 */
#pragma once
#include "lib/base/cursor.h"
#include "lib/base/table.h"
#include <stdbool.h>

struct dwarf_unit; /* exporter/parser/dwarf/dwarf_file.h */

/* One value: a number, an offset, an index; of an inline string and of a block the offset in
 * .debug_info. */
struct dwarf_value {
	uint64_t u;    /* nothing where the attribute is not there */
	uint32_t form; /* 0: it is not there */
};

/* Attributes of functions and inlined calls, where struct dwarf_entry has them. */
enum dwarf_slot {
	DWARF_NOT_WANTED,
	DWARF_LOW_PC,
	DWARF_HIGH_PC,
	DWARF_RANGE_LIST,
	DWARF_ORIGIN,
	DWARF_SPECIFICATION,
	DWARF_NAME,
	DWARF_LINKAGE_NAME,
	DWARF_DECL_FILE,
	DWARF_DECL_LINE,
	DWARF_CALL_FILE,
	DWARF_CALL_LINE,
	DWARF_CALL_COLUMN,
	DWARF_N_SLOTS
};

struct dwarf_attr {
	uint16_t name, form;
	uint8_t slot;  /* enum dwarf_slot */
	uint8_t bytes; /* of a value that is a number of 1 to 8 bytes; 0: another form */
	int64_t implicit;
};

struct dwarf_entry {
	struct dwarf_value values[DWARF_N_SLOTS];
};

struct dwarf_abbrev {
	uint64_t code;
	uint32_t first_attr, n_attrs;
	uint32_t first_skip, n_skips; /* how to get over an entry without looking at it */
	uint32_t
		sibling_off; /* of DW_AT_sibling, as DW_FORM_ref4, in the values: behind what no function is below */
	uint32_t fixed_bytes; /* of all values, where is_fixed */
	uint16_t tag;
	bool has_children, has_pc;
	bool has_sibling; /* at sibling_off */
	bool is_fixed;	  /* every entry takes as many bytes */
};

enum { DWARF_N_SHORT_CODES = 128 };
/* How to get over the entries of an abbreviation whose code is of one byte, where that is simple; 0, 0: it is not. */
struct dwarf_hop {
	uint8_t bytes;	 /* of an entry that has no children and nothing to tell, with its code */
	uint8_t sibling; /* where one that no function is below tells its sibling, from its code on */
};

/* The abbreviations at one offset, as units of one shape read them. */
struct dwarf_abbrevs {
	struct dwarf_abbrev *items; /* one that is kept has its arrays behind it */
	struct dwarf_attr *attrs;   /* of entries that are looked at: functions and units */
	uint32_t *skips;
	size_t n, cap, n_attrs, cap_attrs, n_skips, cap_skips;
	bool dense; /* items[code - 1] */
	struct dwarf_hop hops[DWARF_N_SHORT_CODES];
};

/*
 * Tables of abbreviations. Mostly each unit has one of its own, which nobody else asks for: then it is read when the unit is, into
 * memory that the next one's takes over, for all of them together are many times what they are in the file. What entries of other
 * units are read with is kept.
 */
struct dwarf_tables {
	struct dwarf_abbrevs **kept;
	size_t n, cap;
	struct table by_key; /* number + 1 in kept */
	struct dwarf_abbrevs at_hand, scratch;
	uint64_t key_at_hand;
	bool go_back; /* some unit's lies before that of the unit before it: all are kept, as they may be shared */
};
void dwarf_tables_done(struct dwarf_tables *t);

enum { DWARF_N_FORMS = 0x2d };
/* What gets over values of each form, in units of one version and sizes. */
struct dwarf_shape {
	bool is_set;
	uint8_t addr_bytes, offset_bytes;
	uint16_t version;
	uint16_t skips[DWARF_N_FORMS];
	uint8_t plain[256]; /* of those whose values take as many bytes in each entry: how many */
};

/* Before a unit is read and walked: reads its table, over that of the unit before where it is not kept. */
void dwarf_abbrevs_begin(struct dwarf_unit *u);
/* NULL: malformed or out of memory. Valid until the next unit begins. */
const struct dwarf_abbrevs *dwarf_abbrevs_of(struct dwarf_unit *u);
const struct dwarf_abbrev *dwarf_abbrev_find(const struct dwarf_abbrevs *a, uint64_t code);
/* Moves the cursor over an entry's attributes. */
void dwarf_skip_entry(
	const struct dwarf_abbrevs *a, const struct dwarf_abbrev *abbrev, struct cursor *c);

/* Reads all values of an entry, whose code has been read. */
void dwarf_read_entry(const struct dwarf_unit *u, const struct dwarf_abbrevs *t,
	const struct dwarf_abbrev *abbrev, struct cursor *c, struct dwarf_entry *ret);
