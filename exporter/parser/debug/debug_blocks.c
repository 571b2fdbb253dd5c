/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of rows and points: written, appended to others, read again.
 */
#include "exporter/parser/debug/debug_blocks.h"
#include "lib/base/cursor.h"

enum { MAX_STREAM_BYTES = 1 << 30 };
/* What a point mostly takes, and how many of them are provided for. */
enum { POINT_BYTES = 4, MAX_EXPECTED = 1 << 20 };
/* A row or a point: four numbers. */
enum { MAX_ROW_BYTES = 4 * 10 };

void debug_blocks_init(struct debug_blocks *b, size_t n_points)
{
	*b = (struct debug_blocks) {.n_in_block = SYMBOL_BLOCK_ROWS};
	bytes_init(&b->index, NULL, MAX_STREAM_BYTES);
	bytes_init(&b->stream, NULL, MAX_STREAM_BYTES);
	if (!n_points)
		return;
	n_points = MIN(n_points, (size_t)MAX_EXPECTED);
	(void)bytes_reserve(&b->index, n_points / SYMBOL_BLOCK_ROWS * SYMBOL_BLOCK_BYTES);
	(void)bytes_reserve(&b->stream, n_points * POINT_BYTES);
	/* What is not there now is asked for again when it is needed, and refused then. */
	bytes_reset(&b->index);
	bytes_reset(&b->stream);
}

void debug_blocks_done(struct debug_blocks *b)
{
	bytes_done(&b->index);
	bytes_done(&b->stream);
}

int debug_blocks_error(const struct debug_blocks *b)
{
	int r = bytes_error(&b->index);

	return r < 0 ? r : bytes_error(&b->stream);
}

static void begin_block(struct debug_blocks *b, uint32_t addr)
{
	bytes_put_u32(&b->index, addr);
	bytes_put_u32(&b->index, (uint32_t)b->stream.len);
	b->at = bytes_reserve(&b->stream, SYMBOL_BLOCK_ROWS * MAX_ROW_BYTES);
	b->n_in_block = 0;
	b->line = b->file = b->scope = 0;
	b->addr = addr;
}

/* Begins a block where one is due; returns the distance from the last point. */
static inline uint32_t step_to(struct debug_blocks *b, uint32_t addr)
{
	uint32_t delta;

	if (b->n_in_block == SYMBOL_BLOCK_ROWS)
		begin_block(b, addr);
	delta = addr - b->addr;
	b->n_in_block++;
	b->addr = addr;
	return delta;
}

static inline void put_end(struct debug_blocks *b, uint8_t *p)
{
	b->stream.len += (size_t)(p - b->at);
	b->at = p;
}

static uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

void debug_blocks_row(struct debug_blocks *b, uint32_t addr, const struct debug_row *row)
{
	uint64_t head = (uint64_t)step_to(b, addr) << 2, line;
	uint8_t *p = b->at;

	if (!p)
		return;
	if (!row) {
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

void debug_blocks_scope(struct debug_blocks *b, uint32_t addr, uint32_t scope)
{
	uint32_t delta = step_to(b, addr);
	uint8_t *p = b->at;

	if (!p)
		return;
	p = debug_put_number(p, delta);
	p = debug_put_number(p, zigzag((int64_t)scope - b->scope));
	put_end(b, p);
	b->scope = scope;
}

struct block {
	uint32_t addr, off;
};

static struct block block_at(const struct debug_blocks *b, uint32_t i)
{
	struct block block;

	memcpy(&block, b->index.data + (size_t)i * SYMBOL_BLOCK_BYTES, sizeof(block));
	return (struct block) {.addr = le32toh(block.addr), .off = le32toh(block.off)};
}

/* Where a block begins in the stream; of the one behind the last: where the stream ends. */
static size_t block_off(const struct debug_blocks *b, uint32_t i)
{
	return i < debug_blocks_n(b) ? block_at(b, i).off : b->stream.len;
}

void debug_blocks_copy(struct debug_blocks *b, const struct debug_blocks *from, uint32_t first,
	uint32_t n, const struct debug_row *last, uint32_t n_in_last)
{
	size_t start = block_off(from, first), bytes = block_off(from, first + n) - start;

	for (uint32_t i = first; i < first + n; i++) {
		struct block block = block_at(from, i);

		bytes_put_u32(&b->index, block.addr);
		bytes_put_u32(&b->index, (uint32_t)(block.off - start + b->stream.len));
	}
	b->at = bytes_reserve(&b->stream, bytes + SYMBOL_BLOCK_ROWS * MAX_ROW_BYTES);
	if (!b->at)
		return;
	memcpy(b->at, from->stream.data + start, bytes);
	put_end(b, b->at + bytes);
	b->addr = last->addr;
	b->line = last->line;
	b->file = last->file;
	b->n_in_block = n_in_last;
}

uint32_t debug_blocks_read(
	const struct debug_blocks *b, uint32_t i, struct debug_row ret[SYMBOL_BLOCK_ROWS])
{
	size_t start = block_off(b, i);
	struct cursor c = cursor_of(b->stream.data + start, block_off(b, i + 1) - start);
	struct debug_row row = {.addr = block_at(b, i).addr};
	uint32_t n = 0;

	while (cursor_left(&c) && n < SYMBOL_BLOCK_ROWS) {
		uint64_t head = cursor_varint(&c);

		row.addr += (uint32_t)(head >> 2);
		row.line += (uint32_t)cursor_svarint(&c);
		row.column = (uint32_t)cursor_varint(&c);
		if (head & SYMBOL_ROW_NEW_FILE)
			row.file = (uint32_t)cursor_varint(&c);
		ret[n++] = row;
	}
	return n;
}
