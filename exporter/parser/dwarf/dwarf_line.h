/* SPDX-License-Identifier: Apache-2.0
 *
 * Line programs (DWARF 5 §6.2): which file and line each address comes from, and the file numbers
 * that the entries of the same units use.
 */
#pragma once
#include "exporter/parser/debug/debug_tables.h"
#include "exporter/parser/dwarf/dwarf_file.h"

struct dwarf_path {
	const char *name;
	uint32_t dir, id; /* id in the debug tables; DWARF_NO_ID: not asked for yet */
};
enum { DWARF_NO_ID = 0xffffffffU };

struct dwarf_program {
	const struct dwarf_unit *unit; /* the first that refers to it */
	const char *comp_dir;
	const char **dirs;
	struct dwarf_path *paths;
	size_t n_dirs, cap_dirs, n_paths, cap_paths;
	uint64_t code_off, end; /* of the instructions, in .debug_line */
	uint16_t version;
	uint8_t offset_bytes, min_step, opcode_base, line_range;
	int8_t line_base;
	uint64_t
		operands_off; /* how many each standard opcode has, from opcode 1 on, in .debug_line */
	bool is_read;	      /* its header is */
	bool has_run;
	bool defines_files; /* the program does, of which only a run tells */
};

/* The program of a unit, its header read; NULL when there is none or it is malformed. Valid until
 * the next call. */
struct dwarf_program *dwarf_program_of(struct dwarf_unit *u);
/* Its tables of files (`program` as of a unit) are read again if they are asked for again: what they took serves the next unit's. */
void dwarf_program_release(struct dwarf_file *d, uint32_t program);
/* Puts its rows into the tables. */
void dwarf_program_run(struct dwarf_program *p, struct debug_tables *t);
/* The path that a file number of the unit means: its id in the tables. */
uint32_t dwarf_program_file(struct dwarf_program *p, uint64_t number, struct debug_tables *t);
void dwarf_program_done(struct dwarf_program *p);
