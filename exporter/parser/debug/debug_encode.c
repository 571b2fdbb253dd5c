/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathered lines and scopes → sections of the symbol file. Both become a sorted series of points,
 * "from this address on", in blocks of SYMBOL_BLOCK_ROWS that an index of 8 bytes each finds.
 */
#include "exporter/parser/debug/debug_tables.h"
#include "lib/base/alloc.h"
#include <stdlib.h>
#include <string.h>

/* Sequences of fewer blocks are written anew, so that blocks are full where sequences are short. */
enum { MIN_BLOCKS_COPIED = 2 };

/* Points in order, on their way between the rows. */
struct line_writer {
	struct debug_blocks *blocks;
	const struct debug_row *points;
	size_t n_points, next;
};

/* Writes `row` (NULL: nothing is known) for [from, to): a point in there has its byte. */
static inline void put_span(
	struct line_writer *w, uint32_t from, uint32_t to, const struct debug_row *row)
{
	while (w->next < w->n_points && w->points[w->next].addr < to) {
		const struct debug_row *point = &w->points[w->next++];

		if (point->addr < from)
			continue;
		if (point->addr > from)
			debug_blocks_row(w->blocks, from, row);
		debug_blocks_row(w->blocks, point->addr, point);
		from = point->addr + 1;
	}
	if (from < to)
		debug_blocks_row(w->blocks, from, row);
}

static int by_addr(const void *pa, const void *pb)
{
	const struct debug_row *a = pa, *b = pb;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

/* True when nothing but the sequence tells of its bytes, of which those before `pos` are taken. */
static bool is_alone(const struct line_writer *w, const struct debug_sequence *s, uint32_t pos)
{
	return s->start >= pos && (w->next == w->n_points || w->points[w->next].addr >= s->end);
}

/* Row by row: what it says of bytes from `pos` on. */
static void put_sequence(struct line_writer *w, const struct debug_blocks *lines,
	const struct debug_sequence *s, uint32_t pos)
{
	struct debug_row rows[SYMBOL_BLOCK_ROWS + 1];
	uint32_t n = 0;

	/* The last row of a block reaches to the first of the next. */
	for (uint32_t i = 0; i < s->n_blocks; i++) {
		n += debug_blocks_read(lines, s->first_block + i, rows + n);
		for (uint32_t k = 0; k + 1 < n; k++)
			if (rows[k + 1].addr > pos)
				put_span(w, MAX(rows[k].addr, pos), rows[k + 1].addr, &rows[k]);
		rows[0] = rows[n - 1];
		n = 1;
	}
	put_span(w, MAX(rows[0].addr, pos), s->end, &rows[0]);
}

/* Sequences in order; where two overlap the first one has the bytes. */
static int encode_lines(const struct debug_tables *t, struct debug_blocks *b)
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

		if (s->end <= pos)
			continue;
		if (s->start > pos)
			put_span(&w, pos, s->start, NULL);
		if (s->n_blocks >= MIN_BLOCKS_COPIED && is_alone(&w, s, pos))
			debug_blocks_copy(
				b, &t->lines, s->first_block, s->n_blocks, &s->last, s->n_in_last);
		else
			put_sequence(&w, &t->lines, s, pos);
		pos = s->end;
	}
	put_span(&w, pos, UINT32_MAX, NULL);
	return 0;
}

struct open_scope {
	uint32_t end, scope;
};

struct scope_sweep {
	struct debug_blocks *blocks;
	struct open_scope *stack;
	size_t depth, cap;
	uint32_t addr, scope;	/* not yet written; scope + 1, 0: none */
	uint32_t written_scope; /* the last one that was */
};

static void flush_point(struct scope_sweep *s)
{
	if (s->scope == s->written_scope)
		return;
	debug_blocks_scope(s->blocks, s->addr, s->scope);
	s->written_scope = s->scope;
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

static int sort_ranges(struct debug_tables *t)
{
	/* The rows have been encoded: mostly their memory is enough, which has been touched already. */
	bool fits = t->lines.stream.cap / sizeof(struct radix_item) >= t->n_ranges;
	_cleanup_free_ struct radix_item *own =
		fits ? NULL : try_realloc(NULL, t->n_ranges, sizeof(*own));

	if (!fits && !own)
		return -ENOMEM;
	if (t->n_ranges)
		radix_sort(t->range_starts, fits ? (void *)t->lines.stream.data : own, t->n_ranges);
	return 0;
}

/* Writes over the memory of the rows. */
static int encode_scopes(struct debug_tables *t, struct debug_blocks *b)
{
	struct scope_sweep s = {.blocks = b};
	int r = sort_ranges(t);

	for (size_t i = 0; r == 0 && i < t->n_ranges; i++) {
		const struct debug_range *range = &t->ranges[t->range_starts[i].value];

		close_until(&s, t->range_starts[i].key);
		if (s.depth == SYMBOL_MAX_NESTING) {
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
	struct debug_blocks lines, scopes;
	struct bytes files, functions, strings;
	_cleanup_bytes_ struct bytes name_offs = {.data = NULL};
	int r = t->error;

	bytes_init(&name_offs, NULL, 0);
	*ret = (struct debug_sections) {.base = t->base};
	if (r < 0 || (!t->n_sequences && !t->n_points && !t->n_ranges))
		return r;
	debug_blocks_init(&lines, t->lines.stream.len / 3);
	debug_blocks_init(&scopes, t->n_ranges);
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
