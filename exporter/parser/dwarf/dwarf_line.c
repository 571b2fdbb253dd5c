/* SPDX-License-Identifier: Apache-2.0
 *
 * Line programs, version 2 to 5.
 */
#include "exporter/parser/dwarf/dwarf_line.h"
#include "lib/base/alloc.h"
#include <dwarf.h>
#include <stdlib.h>

enum { MAX_PATHS = 1 << 20, MAX_FORMATS = 16 };

void dwarf_program_done(struct dwarf_program *p)
{
	free(p->dirs);
	free(p->paths);
}

static const char *read_string(struct cursor *c)
{
	const uint8_t *s = c->pos;
	const uint8_t *nul = cursor_left(c) ? memchr(s, 0, cursor_left(c)) : NULL;

	cursor_skip(c, nul ? (size_t)(nul - s) + 1 : SIZE_MAX);
	return nul ? (const char *)s : "";
}

static int add_dir(struct dwarf_program *p, const char *dir)
{
	int r = p->n_dirs == MAX_PATHS
			? -EFBIG
			: alloc_grow(&p->dirs, &p->cap_dirs, p->n_dirs + 1, sizeof(*p->dirs));

	if (r == 0)
		p->dirs[p->n_dirs++] = dir;
	return r;
}

static int add_path(struct dwarf_program *p, const char *name, uint64_t dir)
{
	int r = p->n_paths == MAX_PATHS
			? -EFBIG
			: alloc_grow(&p->paths, &p->cap_paths, p->n_paths + 1, sizeof(*p->paths));

	if (r == 0)
		p->paths[p->n_paths++] = (struct dwarf_path) {
			.name = name,
			.dir = (uint32_t)MIN(dir, (uint64_t)UINT32_MAX),
			.id = DWARF_NO_ID,
		};
	return r;
}

static int read_old_path(struct dwarf_program *p, struct cursor *c, const char *name)
{
	uint64_t dir = cursor_varint(c);

	(void)cursor_varint(c); /* time of change */
	(void)cursor_varint(c); /* size */
	return add_path(p, name, dir);
}

/* Versions 2 to 4: directory 0 is the unit's, paths count from 1. */
static int read_old_tables(struct dwarf_program *p, struct cursor *c)
{
	const char *s;
	int r = add_dir(p, "");

	while (r == 0 && *(s = read_string(c)))
		r = add_dir(p, s);
	if (r == 0)
		r = add_path(p, "", 0);
	while (r == 0 && *(s = read_string(c)))
		r = read_old_path(p, c, s);
	return r;
}

struct entry_format {
	uint64_t content, form;
};

/* A value of a version 5 table, a string too: those that gcc and clang write come first. */
static struct dwarf_value read_value(const struct dwarf_unit *u, struct cursor *c,
	const struct entry_format *format, const char **ret_s)
{
	struct dwarf_value v = {.form = (uint32_t)MIN(format->form, (uint64_t)UINT16_MAX)};

	switch (v.form) {
	case DW_FORM_line_strp:
		v.u = cursor_le(c, u->offset_bytes);
		*ret_s = c->error ? NULL : dwarf_string_at(u->file, DWARF_LINE_STR, v.u);
		return v;
	case DW_FORM_udata: v.u = cursor_varint(c); return v;
	case DW_FORM_string: *ret_s = read_string(c); return v;
	default: v = dwarf_read_form(u, c, v.form, 0);
	}
	*ret_s = format->content == DW_LNCT_path ? dwarf_string(u, v) : NULL;
	return v;
}

/* One entry of a version 5 table. */
static void read_entry(const struct dwarf_unit *u, struct cursor *c,
	const struct entry_format *formats, unsigned n, const char **ret_name, uint64_t *ret_dir)
{
	*ret_name = "";
	*ret_dir = 0;
	for (unsigned i = 0; i < n; i++) {
		const char *s = NULL;
		struct dwarf_value v = read_value(u, c, &formats[i], &s);

		if (formats[i].content == DW_LNCT_path)
			*ret_name = s ? s : "";
		else if (formats[i].content == DW_LNCT_directory_index)
			*ret_dir = v.u;
	}
}

/* Version 5: one of its two tables. */
static int read_table(
	struct dwarf_program *p, const struct dwarf_unit *u, struct cursor *c, bool dirs)
{
	struct entry_format formats[MAX_FORMATS];
	unsigned n_formats = cursor_u8(c);
	uint64_t n;
	int r = 0;

	if (n_formats > MAX_FORMATS)
		return -EBADMSG;
	for (unsigned i = 0; i < n_formats; i++) {
		formats[i].content = cursor_varint(c);
		formats[i].form = cursor_varint(c);
	}
	n = cursor_varint(c);
	for (uint64_t i = 0; r == 0 && i < n && n_formats && !c->error && cursor_left(c); i++) {
		const char *name;
		uint64_t dir;

		read_entry(u, c, formats, n_formats, &name, &dir);
		r = dirs ? add_dir(p, name) : add_path(p, name, dir);
	}
	return r;
}

static int read_header(struct dwarf_program *p, const struct dwarf_unit *unit, uint64_t off)
{
	struct cursor c = dwarf_cursor(unit->file, DWARF_LINE, off);
	struct dwarf_unit u = *unit;
	uint64_t length, header_bytes;
	int r;

	p->offset_bytes = 4;
	length = cursor_u32(&c);
	if (length == 0xffffffffU) {
		p->offset_bytes = 8;
		length = cursor_u64(&c);
	}
	if (c.error || length > cursor_left(&c))
		return -EBADMSG;
	p->end = cursor_off(&c) + length;
	c.end = c.pos + length;
	p->version = cursor_u16(&c);
	if (p->version < 2 || p->version > 5)
		return -ENOTSUP;
	if (p->version >= 5)
		cursor_skip(&c, 2); /* bytes of an address and of a segment */
	header_bytes = cursor_le(&c, p->offset_bytes);
	if (header_bytes > cursor_left(&c))
		return -EBADMSG;
	p->code_off = cursor_off(&c) + header_bytes;
	c.end = c.pos + header_bytes;
	p->min_step = cursor_u8(&c);
	if (p->version >= 4)
		cursor_skip(
			&c, 1); /* operations of an instruction: none of our machines has more */
	cursor_skip(&c, 1);	/* is_stmt */
	p->line_base = (int8_t)cursor_u8(&c);
	p->line_range = cursor_u8(&c);
	p->opcode_base = cursor_u8(&c);
	p->operands_off = cursor_off(&c);
	cursor_skip(&c, p->opcode_base ? p->opcode_base - 1 : 0);
	if (c.error || !p->line_range || !p->opcode_base)
		return -EBADMSG;
	u.offset_bytes = p->offset_bytes;
	if (p->version < 5)
		return read_old_tables(p, &c);
	r = read_table(p, &u, &c, true);
	return r < 0 ? r : read_table(p, &u, &c, false);
}

static void read_program(struct dwarf_program *p)
{
	struct dwarf_file *d = p->unit->file;

	p->is_read = true;
	if (!dwarf_work(d, 64) || read_header(p, p->unit, p->unit->line_off) < 0)
		p->end = p->code_off = 0;
	dwarf_work(d, (p->n_dirs + p->n_paths) * 8);
}

void dwarf_program_release(struct dwarf_file *d, uint32_t program)
{
	struct dwarf_program *p = &d->programs[program - 1];

	if (p->defines_files)
		return;
	dwarf_program_done(p);
	p->dirs = NULL;
	p->paths = NULL;
	p->n_dirs = p->cap_dirs = p->n_paths = p->cap_paths = 0;
	p->is_read = false;
}

struct dwarf_program *dwarf_program_of(struct dwarf_unit *u)
{
	struct dwarf_file *d = u->file;
	struct dwarf_program *p;
	uint64_t *slot;
	bool is_new;
	int r = 0;

	if (!u->has_lines || u->is_broken)
		return NULL;
	if (!u->program) {
		slot = table_insert(&d->programs_by_off, u->line_off, &is_new);
		if (!slot)
			return NULL;
		if (is_new)
			r = alloc_grow(&d->programs, &d->cap_programs,
				d->n_programs ? d->n_programs + 1 : d->n_units,
				sizeof(*d->programs));
		if (r < 0) {
			table_remove(&d->programs_by_off, u->line_off);
			return NULL;
		}
		if (is_new) {
			d->programs[d->n_programs] = (struct dwarf_program) {.unit = u};
			*slot = ++d->n_programs;
		}
		u->program = (uint32_t)*slot;
	}
	p = &d->programs[u->program - 1];
	if (!p->is_read)
		read_program(p);
	if (!p->comp_dir)
		p->comp_dir = u->comp_dir;
	return p;
}

static uint32_t compose_path(
	const struct dwarf_program *p, const struct dwarf_path *path, struct debug_tables *t)
{
	const char *dir = path->dir < p->n_dirs ? p->dirs[path->dir] : "";
	const char *parts[3] = {p->comp_dir && *dir != '/' ? p->comp_dir : "", dir, path->name};
	_cleanup_bytes_ struct bytes b;

	bytes_init(&b, NULL, 0);
	if (path->name[0] == '/')
		return debug_tables_file(t, path->name, strlen(path->name));
	for (int i = 0; i < 3; i++) {
		if (!*parts[i])
			continue;
		if (b.len && b.data[b.len - 1] != '/')
			bytes_put_u8(&b, '/');
		bytes_put_str(&b, parts[i]);
	}
	return bytes_error(&b) < 0 ? DEBUG_NO_FILE
				   : debug_tables_file(t, (const char *)b.data, b.len);
}

uint32_t dwarf_program_file(struct dwarf_program *p, uint64_t number, struct debug_tables *t)
{
	struct dwarf_path *path;

	if (!p || number >= p->n_paths)
		return DEBUG_NO_FILE;
	path = &p->paths[number];
	if (path->id == DWARF_NO_ID)
		path->id = *path->name ? compose_path(p, path, t) : DEBUG_NO_FILE;
	return path->id;
}

/* A file is its id in the tables; of a sequence that is dead it isn't looked up. */
struct line_place {
	uint64_t addr;
	uint32_t file, line, column;
};

struct line_state {
	struct dwarf_program *p;
	struct debug_tables *t;
	struct cursor c;
	struct line_place at;
	uint64_t number; /* of the file */
	bool dead;	 /* the sequence is of code that the linker dropped */
	const struct dwarf_special *special;
};

static inline uint32_t find_file(const struct line_state *s)
{
	return s->dead ? DEBUG_NO_FILE : dwarf_program_file(s->p, s->number, s->t);
}

static void begin_sequence(struct line_state *s)
{
	s->number = 1;
	s->dead = !debug_tables_is_code(s->t, 0, 1);
	s->at = (struct line_place) {.file = find_file(s), .line = 1};
}

static void run_extended(struct line_state *s)
{
	struct cursor sub = cursor_sub(&s->c, cursor_varint(&s->c));

	switch (cursor_u8(&sub)) {
	case DW_LNE_end_sequence:
		if (s->dead)
			debug_tables_drop_sequence(s->t);
		else
			debug_tables_end_sequence(s->t, s->at.addr);
		begin_sequence(s);
		break;
	case DW_LNE_set_address:
		s->at.addr = cursor_le(&sub, cursor_left(&sub) >= 8 ? 8 : 4);
		s->dead = !debug_tables_is_code(s->t, s->at.addr, s->at.addr + 1);
		s->at.file = find_file(s);
		break;
	case DW_LNE_define_file:
		if (s->p->version < 5)
			(void)!read_old_path(s->p, &sub, read_string(&sub));
		s->p->defines_files = true;
		s->at.file = find_file(s); /* it may mean this one now */
		break;
	default: break; /* discriminators and vendors' own */
	}
}

/* Standard opcodes that are rare; returns where the program is behind it. */
static inline struct line_place run_standard(
	struct line_state *s, struct cursor *c, uint8_t op, struct line_place at)
{
	const struct dwarf_program *p = s->p;
	uint64_t column;

	switch (op) {
	case DW_LNS_advance_pc: at.addr += cursor_varint(c) * p->min_step; break;
	case DW_LNS_set_file:
		s->number = cursor_varint(c);
		at.file = find_file(s);
		break;
	case DW_LNS_set_column:
		column = cursor_varint(c);
		at.column = (uint32_t)MIN(column, (uint64_t)DEBUG_MAX_COLUMN);
		break;
	case DW_LNS_set_basic_block:
	case DW_LNS_set_prologue_end:
	case DW_LNS_set_epilogue_begin: break;
	case DW_LNS_const_add_pc: at.addr += s->special[255].step; break;
	case DW_LNS_fixed_advance_pc: at.addr += cursor_u16(c); break;
	default: /* DW_LNS_set_isa and later ones */
		for (unsigned i = c->start[p->operands_off + op - 1]; i; i--)
			(void)cursor_varint(c);
	}
	return at;
}

/*
 * Runs up to the next extended opcode; false: to the end. What changes with each opcode is in variables that
 * nobody else sees, and so, where the function is one of its own, in registers.
 */
static __attribute__((noinline)) bool run_plain(struct line_state *s)
{
	const uint8_t opcode_base = s->p->opcode_base;
	const struct dwarf_special *special = s->special;
	struct debug_pen pen = s->t->pen;
	struct line_place at = s->at;
	struct cursor c = s->c;
	bool extended = false;

	if (s->dead)
		pen.last = INT64_MAX; /* no row comes behind that */
	while (c.pos < c.end) {
		uint8_t op = *c.pos++;

		if (op >= opcode_base) {
			at.addr += special[op].step;
			at.line += special[op].line;
			debug_pen_row(s->t, &pen, at.addr, at.file, at.line, at.column);
			continue;
		}
		/* A quarter of all sets a column, mostly one below 128, and mostly turns is_stmt then. */
		if (op == DW_LNS_set_column && c.end - c.pos >= 2 && c.pos[0] < 0x80) {
			at.column = c.pos[0];
			c.pos += 1 + (c.pos[1] == DW_LNS_negate_stmt &&
					     opcode_base > DW_LNS_negate_stmt);
		} else if (op == DW_LNS_copy) {
			debug_pen_row(s->t, &pen, at.addr, at.file, at.line, at.column);
		} else if (op == DW_LNS_negate_stmt) {
			continue;
		} else if (op == DW_LNS_advance_line) {
			at.line = (uint32_t)(at.line + (uint64_t)cursor_sleb(&c));
		} else if (op) {
			at = run_standard(s, &c, op, at);
		} else if (c.end - c.pos >= 3 && c.pos[0] == 2 &&
			   c.pos[1] == DW_LNE_set_discriminator) {
			c.pos += 3; /* mostly one of one byte, which says nothing here */
		} else {
			extended = true;
			break;
		}
	}
	s->c = c;
	s->at = at;
	s->t->pen.at = pen.at;
	s->t->pen.last = s->dead ? s->t->pen.last : pen.last;
	return extended;
}

/* Of the opcode less the base, `step` counts whole ranges of lines and `line` is the rest. Nearly all programs of a file have the same. */
static const struct dwarf_special *specials_of(const struct dwarf_program *p)
{
	struct dwarf_specials *all = &p->unit->file->specials;

	if (all->line_range == p->line_range && all->line_base == p->line_base &&
		all->opcode_base == p->opcode_base && all->min_step == p->min_step)
		return all->by_opcode;
	all->line_range = p->line_range;
	all->line_base = p->line_base;
	all->opcode_base = p->opcode_base;
	all->min_step = p->min_step;
	for (unsigned op = p->opcode_base, step = 0, line = 0; op < 256; op++) {
		all->by_opcode[op].step = step * p->min_step;
		all->by_opcode[op].line = (uint32_t)(p->line_base + (int)line);
		line = line + 1 == p->line_range ? 0 : line + 1;
		step += !line;
	}
	return all->by_opcode;
}

static void prepare(struct line_state *s, struct dwarf_program *p, struct debug_tables *t)
{
	s->p = p;
	s->t = t;
	s->c = dwarf_cursor(p->unit->file, DWARF_LINE, p->code_off);
	s->c.end = s->c.start + p->end;
	s->special = specials_of(p);
	begin_sequence(s);
}

void dwarf_program_run(struct dwarf_program *p, struct debug_tables *t)
{
	struct line_state s;

	p->has_run = true;
	if (!p->end || p->code_off > p->end || !dwarf_work(p->unit->file, p->end - p->code_off))
		return;
	prepare(&s, p, t);
	while (!t->error && run_plain(&s))
		run_extended(&s);
	/* What has no end is not known to be whole. */
	debug_tables_drop_sequence(t);
	t->n_left_out += s.c.error != 0;
}
