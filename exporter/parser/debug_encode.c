/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathered lines and scopes → sections of the symbol file. Both become a sorted series of points,
 * "from this address on", in blocks of SYMBOL_BLOCK_ROWS that an index of 8 bytes each finds.
 */
#include "exporter/parser/debug_tables.h"
#include "lib/base/alloc.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_STREAM_BYTES = 1 << 30, MAX_NESTING = 4096 };
/* What a point mostly takes, and how many of them are provided for. */
enum { POINT_BYTES = 4, MAX_EXPECTED = 1 << 20 };

struct blocks {
	struct bytes index, stream;
	/* Where the next point goes: there is room for the rest of its block. NULL: memory was out. */
	uint8_t *at;
	uint32_t n_in_block, addr; /* the last point's */
	uint32_t line, file, scope;
};

/* Room for as many points as there will be about, so that nothing is copied while it grows. */
static void blocks_init(struct blocks *b, size_t n_points)
{
	*b = (struct blocks) {.n_in_block = SYMBOL_BLOCK_ROWS};
	bytes_init(&b->index, NULL, MAX_STREAM_BYTES);
	bytes_init(&b->stream, NULL, MAX_STREAM_BYTES);
	n_points = MIN(n_points, (size_t)MAX_EXPECTED);
	(void)bytes_reserve(&b->index, n_points / SYMBOL_BLOCK_ROWS * SYMBOL_BLOCK_BYTES);
	(void)bytes_reserve(&b->stream, n_points * POINT_BYTES);
}

/* A row or a point: four numbers. */
enum { MAX_ROW_BYTES = 4 * 10 };

static void begin_block(struct blocks *b, uint32_t addr)
{
	bytes_put_u32(&b->index, addr);
	bytes_put_u32(&b->index, (uint32_t)b->stream.len);
	b->at = bytes_reserve(&b->stream, SYMBOL_BLOCK_ROWS * MAX_ROW_BYTES);
	b->n_in_block = 0;
	b->line = b->file = b->scope = 0;
	b->addr = addr;
}

/* Begins a block where one is due; returns the distance from the last point. */
static inline uint32_t step_to(struct blocks *b, uint32_t addr)
{
	uint32_t delta;

	if (b->n_in_block == SYMBOL_BLOCK_ROWS)
		begin_block(b, addr);
	delta = addr - b->addr;
	b->n_in_block++;
	b->addr = addr;
	return delta;
}

static inline void put_end(struct blocks *b, uint8_t *p)
{
	b->stream.len += (size_t)(p - b->at);
	b->at = p;
}

static uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static inline void put_row(struct blocks *b, uint32_t addr, const struct debug_row *row)
{
	uint64_t head = (uint64_t)step_to(b, addr) << 2, line;
	uint8_t *p = b->at;

	if (!p)
		return;
	if (row->end) {
		put_end(b, debug_put_number(p, head | SYMBOL_ROW_END));
		return;
	}
	line = zigzag((int64_t)row->line - b->line);
	b->line = row->line;
	/* Mostly three numbers of a byte each. */
	if (row->file == b->file && (head | line | row->column) < 0x80) {
		p[0] = (uint8_t)head;
		p[1] = (uint8_t)line;
		p[2] = (uint8_t)row->column;
		put_end(b, p + 3);
		return;
	}
	p = debug_put_number(p, head | (row->file != b->file ? SYMBOL_ROW_NEW_FILE : 0));
	p = debug_put_number(p, line);
	p = debug_put_number(p, row->column);
	if (row->file != b->file)
		p = debug_put_number(p, row->file);
	b->file = row->file;
	put_end(b, p);
}

/* Points in order, on their way between the rows. */
struct line_writer {
	struct blocks *blocks;
	const struct debug_row *points;
	size_t n_points, next;
};

static const struct debug_row end_row = {.end = 1};

/* Writes `row` for [from, to): a point in there has its byte. */
static inline void put_span(
	struct line_writer *w, uint32_t from, uint32_t to, const struct debug_row *row)
{
	while (w->next < w->n_points && w->points[w->next].addr < to) {
		const struct debug_row *point = &w->points[w->next++];

		if (point->addr < from)
			continue;
		if (point->addr > from)
			put_row(w->blocks, from, row);
		put_row(w->blocks, point->addr, point);
		from = point->addr + 1;
	}
	if (from < to)
		put_row(w->blocks, from, row);
}

static int by_addr(const void *pa, const void *pb)
{
	const struct debug_row *a = pa, *b = pb;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

/* Sequences in order; where two overlap the first one has the bytes. */
static int encode_lines(const struct debug_tables *t, struct blocks *b)
{
	struct line_writer w = {.blocks = b, .points = t->points, .n_points = t->n_points};
	_cleanup_free_ struct radix_item *order =
		try_realloc(NULL, t->n_sequences + 1, 2 * sizeof(*order));
	uint32_t pos = 0;

	if (!order)
		return -ENOMEM;
	if (t->n_points)
		qsort(t->points, t->n_points, sizeof(*t->points), by_addr);
	for (size_t i = 0; i < t->n_sequences; i++)
		order[i] = (struct radix_item) {.key = t->sequences[i].start, .value = (uint32_t)i};
	radix_sort(order, order + t->n_sequences + 1, t->n_sequences);
	for (size_t i = 0; i < t->n_sequences; i++) {
		const struct debug_sequence *s = &t->sequences[order[i].value];
		const struct debug_row *rows = t->rows + s->first;

		if (s->end <= pos)
			continue;
		if (s->start > pos)
			put_span(&w, pos, s->start, &end_row);
		for (uint32_t k = 0; k + 1 < s->n; k++)
			if (rows[k + 1].addr > pos)
				put_span(&w, MAX(rows[k].addr, pos), rows[k + 1].addr, &rows[k]);
		pos = s->end;
	}
	put_span(&w, pos, UINT32_MAX, &end_row);
	return 0;
}

struct open_scope {
	uint32_t end, scope;
};

struct scope_sweep {
	struct blocks *blocks;
	struct open_scope *stack;
	size_t depth, cap;
	uint32_t addr, scope;	/* not yet written; scope + 1, 0: none */
	uint32_t written_scope; /* the last one that was */
};

static void flush_point(struct scope_sweep *s)
{
	struct blocks *b = s->blocks;
	uint32_t delta;
	uint8_t *p;

	if (s->scope == s->written_scope)
		return;
	delta = step_to(b, s->addr);
	p = b->at;
	if (!p)
		return;
	p = debug_put_number(p, delta);
	p = debug_put_number(p, zigzag((int64_t)s->scope - b->scope));
	put_end(b, p);
	b->scope = s->written_scope = s->scope;
}

static void set_point(struct scope_sweep *s, uint32_t addr)
{
	if (addr != s->addr)
		flush_point(s);
	s->addr = addr;
	s->scope = s->depth ? s->stack[s->depth - 1].scope + 1 : 0;
}

static void close_until(struct scope_sweep *s, uint32_t addr)
{
	while (s->depth && s->stack[s->depth - 1].end <= addr) {
		uint32_t end = s->stack[--s->depth].end;

		while (s->depth && s->stack[s->depth - 1].end <= end)
			s->depth--;
		set_point(s, end);
	}
}

static int encode_scopes(struct debug_tables *t, struct blocks *b)
{
	_cleanup_free_ struct radix_item *tmp = try_realloc(NULL, t->n_ranges + 1, sizeof(*tmp));
	struct scope_sweep s = {.blocks = b};
	int r = tmp ? 0 : -ENOMEM;

	if (r == 0 && t->n_ranges)
		radix_sort(t->range_starts, tmp, t->n_ranges);
	for (size_t i = 0; r == 0 && i < t->n_ranges; i++) {
		const struct debug_range *range = &t->ranges[t->range_starts[i].value];

		close_until(&s, t->range_starts[i].key);
		if (s.depth == MAX_NESTING) {
			t->n_left_out++;
			continue;
		}
		r = alloc_grow(&s.stack, &s.cap, s.depth + 1, sizeof(*s.stack));
		if (r < 0)
			break;
		s.stack[s.depth++] = (struct open_scope) {.end = range->end, .scope = range->scope};
		set_point(&s, t->range_starts[i].key);
	}
	close_until(&s, UINT32_MAX);
	flush_point(&s);
	free(s.stack);
	return r;
}

/* Appends every string and, where `offs` is given, the offset of each. */
static void put_strings(const struct interner *from, struct bytes *strings, struct bytes *offs)
{
	for (size_t i = 0; i < from->n; i++) {
		if (offs)
			bytes_put_u32(offs, (uint32_t)strings->len);
		bytes_put(strings, from->items[i].bytes, from->items[i].len);
		bytes_put_u8(strings, 0);
	}
}

static void put_functions(
	const struct debug_tables *t, const struct bytes *name_offs, struct bytes *out)
{
	(void)bytes_reserve(out, t->n_functions * SYMBOL_DEBUG_FUNCTION_BYTES);
	for (size_t i = 0; i < t->n_functions; i++) {
		const struct debug_function *f = &t->functions[i];
		uint32_t name_off = 0;

		if (f->name != DEBUG_NO_NAME && !bytes_error(name_offs))
			memcpy(&name_off, name_offs->data + (size_t)f->name * 4, 4);
		bytes_put_u32(out, name_off);
		bytes_put_u32(out, f->file);
		bytes_put_u32(out, f->line);
		bytes_put_u32(out, f->name_wins ? SYMBOL_NAME_WINS : 0);
	}
}

static void add_section(
	struct debug_sections *s, uint32_t kind, uint32_t item_bytes, struct bytes *data)
{
	s->items[s->n++] =
		(struct debug_section) {.kind = kind, .item_bytes = item_bytes, .data = *data};
	bytes_init(data, NULL, 0);
}

int debug_tables_encode(struct debug_tables *t, struct debug_sections *ret)
{
	struct blocks lines, scopes;
	struct bytes files, functions, strings;
	_cleanup_bytes_ struct bytes name_offs = {.data = NULL};
	int r = t->error;

	bytes_init(&name_offs, NULL, 0);
	*ret = (struct debug_sections) {.base = t->base};
	if (r < 0 || (!t->n_sequences && !t->n_points && !t->n_ranges))
		return r;
	blocks_init(&lines, t->n_rows);
	blocks_init(&scopes, t->n_ranges);
	bytes_init(&files, NULL, 0);
	bytes_init(&functions, NULL, 0);
	bytes_init(&strings, NULL, UINT32_MAX);
	r = encode_lines(t, &lines);
	if (r == 0)
		r = encode_scopes(t, &scopes);
	put_strings(&t->files, &strings, &files);
	put_strings(&t->names, &strings, &name_offs);
	put_functions(t, &name_offs, &functions);
	add_section(ret, SYMBOL_FILES, 4, &files);
	add_section(ret, SYMBOL_LINE_INDEX, SYMBOL_BLOCK_BYTES, &lines.index);
	add_section(ret, SYMBOL_LINES, 1, &lines.stream);
	add_section(ret, SYMBOL_SCOPE_INDEX, SYMBOL_BLOCK_BYTES, &scopes.index);
	add_section(ret, SYMBOL_SCOPE_RANGES, 1, &scopes.stream);
	add_section(ret, SYMBOL_SCOPES, 1, &t->scopes);
	add_section(ret, SYMBOL_DEBUG_FUNCTIONS, SYMBOL_DEBUG_FUNCTION_BYTES, &functions);
	add_section(ret, SYMBOL_DEBUG_STRINGS, 1, &strings);
	for (uint32_t i = 0; i < ret->n && r == 0; i++)
		r = bytes_error(&ret->items[i].data);
	return r < 0 ? r : bytes_error(&name_offs);
}

void debug_sections_done(struct debug_sections *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		bytes_done(&s->items[i].data);
	s->n = 0;
}
