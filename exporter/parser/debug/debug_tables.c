/* SPDX-License-Identifier: Apache-2.0
 *
 * Files, lines and inlined calls while they are gathered. Nothing here trusts its caller's
 * numbers: they come from files that anybody may have written.
 */
#include "exporter/parser/debug/debug_tables.h"
#include "lib/base/alloc.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_SCOPE_BYTES = 1 << 30 };
/* Five numbers of 32 bits. */
enum { MAX_SCOPE_RECORD = 5 * 5 };

/* What compilers write: a row takes some 11 bytes of .debug_line, a range 150 of .debug_info. */
enum {
	LINE_BYTES_A_ROW = 8,
	INFO_BYTES_A_RANGE = 128,
	SCOPE_BYTES_A_RANGE = 4,
	RANGES_A_FUNCTION = 4,
	ROWS_A_LONG_SEQUENCE = 8, /* of so many one may be in it */
	MAX_EXPECTED = 1 << 20
};

/* The largest executable segment, which most of a program is in. */
static void find_most_code(struct debug_tables *t)
{
	for (uint32_t i = 0; i < t->f->n_loads; i++) {
		const struct elf_segment *load = &t->f->loads[i];
		uint64_t end;

		if (!(load->flags & PF_X) || load->vaddr < t->base ||
			__builtin_add_overflow(load->vaddr, load->memory_bytes, &end) ||
			end - t->base >= UINT32_MAX ||
			end - load->vaddr <= t->code_end - t->code_start)
			continue;
		t->code_start = load->vaddr;
		t->code_end = end;
	}
}

static uint64_t lowest_code(const struct elf_file *f)
{
	uint64_t low = UINT64_MAX;

	for (uint32_t i = 0; i < f->n_loads; i++)
		if (f->loads[i].flags & PF_X)
			low = MIN(low, f->loads[i].vaddr);
	return low == UINT64_MAX ? 0 : low;
}

void debug_tables_init(struct debug_tables *t, const struct elf_file *f)
{
	*t = (struct debug_tables) {.f = f, .base = lowest_code(f)};
	t->pen = (struct debug_pen) {.base = t->base, .last = -1};
	find_most_code(t);
	interner_init(&t->files, NULL);
	interner_init(&t->names, NULL);
	bytes_init(&t->scopes, NULL, MAX_SCOPE_BYTES);
	debug_blocks_init(&t->lines, 0);
	if (interner_add(&t->files, "", 0, NULL) != DEBUG_NO_FILE)
		t->error = -ENOMEM;
}

void debug_tables_done(struct debug_tables *t)
{
	interner_done(&t->files);
	interner_done(&t->names);
	bytes_done(&t->scopes);
	debug_blocks_done(&t->lines);
	free(t->rows);
	free(t->points);
	free(t->sequences);
	free(t->functions);
	free(t->range_starts);
	free(t->ranges);
}

static bool grow(struct debug_tables *t, void *items, size_t *cap, size_t n, size_t item_bytes)
{
	if (!t->error && n >= UINT32_MAX)
		t->error = -EFBIG;
	if (!t->error)
		t->error = alloc_grow(items, cap, n + 1, item_bytes);
	return !t->error;
}

void debug_tables_expect(struct debug_tables *t, size_t line_bytes, size_t info_bytes)
{
	size_t n_rows = MIN(line_bytes / LINE_BYTES_A_ROW, (size_t)MAX_EXPECTED);
	size_t n_ranges = MIN(info_bytes / INFO_BYTES_A_RANGE, (size_t)MAX_EXPECTED);

	/* What is not there when it is needed is asked for again, and refused then. */
	if (!t->n_sequences) {
		debug_blocks_done(&t->lines);
		debug_blocks_init(&t->lines, n_rows);
	}
	(void)!alloc_grow(&t->range_starts, &t->cap_starts, n_ranges, sizeof(*t->range_starts));
	(void)!alloc_grow(&t->ranges, &t->cap_ranges, n_ranges, sizeof(*t->ranges));
	(void)bytes_reserve(&t->scopes, n_ranges * SCOPE_BYTES_A_RANGE);
	(void)!alloc_grow(&t->functions, &t->cap_functions, n_ranges / RANGES_A_FUNCTION,
		sizeof(*t->functions));
	/* Of one sequence. */
	if (t->pen.at == t->rows &&
		alloc_grow(&t->rows, &t->cap_rows, n_rows / ROWS_A_LONG_SEQUENCE + 2,
			sizeof(*t->rows)) == 0) {
		t->pen.at = t->rows;
		t->pen.end = t->rows + t->cap_rows - 1;
	}
}

uint32_t debug_tables_file(struct debug_tables *t, const char *path, size_t n)
{
	uint32_t id = n ? interner_add(&t->files, path, n, NULL) : DEBUG_NO_FILE;

	if (id != INTERNER_NONE)
		return id;
	t->error = -ENOMEM;
	return DEBUG_NO_FILE;
}

uint32_t debug_tables_function(struct debug_tables *t, const char *name, size_t name_bytes,
	uint32_t file, uint32_t line, bool name_wins)
{
	struct debug_function f = {
		.name = DEBUG_NO_NAME, .file = file, .line = line, .name_wins = name_wins};

	if (!grow(t, &t->functions, &t->cap_functions, t->n_functions, sizeof(*t->functions)))
		return 0;
	if (name_bytes) {
		f.name = interner_add(&t->names, name, name_bytes, NULL);
		t->error = f.name == INTERNER_NONE ? -ENOMEM : 0;
	}
	t->functions[t->n_functions] = f;
	return (uint32_t)t->n_functions++;
}

bool debug_tables_is_code(const struct debug_tables *t, uint64_t start, uint64_t end)
{
	if (start >= t->code_start && start < end && end <= t->code_end)
		return true;
	for (uint32_t i = 0; i < t->f->n_loads; i++) {
		const struct elf_segment *load = &t->f->loads[i];

		if ((load->flags & PF_X) && start >= load->vaddr && start < end &&
			end - load->vaddr <= load->memory_bytes)
			return end - t->base < UINT32_MAX;
	}
	return false;
}

bool debug_tables_grow_rows(struct debug_tables *t)
{
	size_t n = (size_t)(t->pen.at - t->rows);

	if (!grow(t, &t->rows, &t->cap_rows, n + 1, sizeof(*t->rows)))
		return false;
	t->pen.at = t->rows + n;
	t->pen.end = t->rows + t->cap_rows - 1;
	return true;
}

void debug_tables_point(
	struct debug_tables *t, uint64_t vaddr, uint32_t file, uint32_t line, uint32_t column)
{
	if (!debug_tables_is_code(t, vaddr, vaddr + 1) ||
		!grow(t, &t->points, &t->cap_points, t->n_points, sizeof(*t->points)))
		return;
	t->points[t->n_points++] = (struct debug_row) {.addr = (uint32_t)(vaddr - t->base),
		.file = file,
		.line = line,
		.column = MIN(column, (uint32_t)DEBUG_MAX_COLUMN)};
}

void debug_tables_drop_sequence(struct debug_tables *t)
{
	t->pen.at = t->rows;
	t->pen.last = -1;
}

static inline bool same_place(const struct debug_row *a, const struct debug_row *b)
{
	return !((a->line ^ b->line) | (a->file ^ b->file) | (a->column ^ b->column));
}

/* Writes the rows that say something new; returns the last of them. */
static const struct debug_row *write_rows(
	struct debug_blocks *b, const struct debug_row *rows, size_t n)
{
	const struct debug_row *last = rows;

	debug_blocks_row(b, rows->addr, rows);
	for (const struct debug_row *row = rows + 1; row < rows + n; row++) {
		if (same_place(row, last))
			continue;
		debug_blocks_row(b, row->addr, row);
		last = row;
	}
	return last;
}

static void close_sequence(
	struct debug_tables *t, const struct debug_row *rows, size_t n, uint32_t end)
{
	struct debug_sequence *s;

	if (!grow(t, &t->sequences, &t->cap_sequences, t->n_sequences, sizeof(*t->sequences)))
		return;
	s = &t->sequences[t->n_sequences++];
	*s = (struct debug_sequence) {
		.start = rows->addr, .end = end, .first_block = debug_blocks_n(&t->lines)};
	debug_blocks_close(&t->lines);
	s->last = *write_rows(&t->lines, rows, n);
	s->n_blocks = debug_blocks_n(&t->lines) - s->first_block;
	s->n_in_last = t->lines.n_in_block;
	t->error = t->error ? t->error : debug_blocks_error(&t->lines);
}

void debug_tables_end_sequence(struct debug_tables *t, uint64_t vaddr)
{
	const struct debug_row *rows = t->rows + 1;
	size_t n = (size_t)(t->pen.at - t->rows);
	uint64_t rel = vaddr - t->base;

	/* Rows of no bytes before the end, as assemblers write them. */
	while (vaddr > t->base && n && rows[n - 1].addr >= rel)
		n--;
	if (!t->error && n && debug_tables_is_code(t, t->base + rows->addr, vaddr))
		close_sequence(t, rows, n, (uint32_t)rel);
	debug_tables_drop_sequence(t);
}

uint32_t debug_tables_scope(struct debug_tables *t, uint32_t parent, uint32_t function,
	uint32_t call_file, uint32_t call_line, uint32_t call_column)
{
	uint32_t at = (uint32_t)t->scopes.len;
	uint8_t *start = bytes_reserve(&t->scopes, MAX_SCOPE_RECORD), *p = start;

	if (!start) {
		t->error = t->error ? t->error : bytes_error(&t->scopes);
		return at;
	}
	p = debug_put_number(p, parent == DEBUG_NO_SCOPE ? 0 : at - parent);
	p = debug_put_number(p, function);
	if (parent != DEBUG_NO_SCOPE) {
		p = debug_put_number(p, call_file);
		p = debug_put_number(p, call_line);
		p = debug_put_number(p, call_column);
	}
	t->scopes.len += (size_t)(p - start);
	return at;
}

void debug_tables_range(struct debug_tables *t, uint64_t start, uint64_t end, uint32_t scope)
{
	size_t n = t->n_ranges;

	if (!debug_tables_is_code(t, start, end) ||
		!grow(t, &t->range_starts, &t->cap_starts, n, sizeof(*t->range_starts)) ||
		!grow(t, &t->ranges, &t->cap_ranges, n, sizeof(*t->ranges)))
		return;
	t->range_starts[n] =
		(struct radix_item) {.key = (uint32_t)(start - t->base), .value = (uint32_t)n};
	t->ranges[n] = (struct debug_range) {.end = (uint32_t)(end - t->base), .scope = scope};
	t->n_ranges++;
}
