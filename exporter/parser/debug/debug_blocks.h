/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and points on their way into a symbol file: a stream of numbers in blocks of at most
 * SYMBOL_BLOCK_ROWS, and an index of where each begins (docs/formats/symbol-file.md).
 */
#pragma once
#include "exporter/symfile/symbol_format.h"
#include "lib/base/bytes.h"

/* What holds from an address on. */
struct debug_row {
	uint32_t addr, file, line, column; /* addr: less the base */
};

struct debug_blocks {
	struct bytes index, stream;
	/* Where the next point goes: there is room for the rest of its block. NULL: memory was out. */
	uint8_t *at;
	uint32_t n_in_block, addr; /* the last point's */
	uint32_t line, file, scope;
};

/* With room for as many points as there will be about, so that nothing is copied while it grows. */
void debug_blocks_init(struct debug_blocks *b, size_t n_points);
void debug_blocks_done(struct debug_blocks *b);
/* 0, or what the index or the stream ran into. */
int debug_blocks_error(const struct debug_blocks *b) _must_check_;
/* NULL: nothing is known from there on. */
void debug_blocks_row(struct debug_blocks *b, uint32_t addr, const struct debug_row *row);
void debug_blocks_scope(struct debug_blocks *b, uint32_t addr, uint32_t scope);

/* The next point begins a block. */
static inline void debug_blocks_close(struct debug_blocks *b)
{
	b->n_in_block = SYMBOL_BLOCK_ROWS;
}

static inline uint32_t debug_blocks_n(const struct debug_blocks *b)
{
	return (uint32_t)(b->index.len / SYMBOL_BLOCK_BYTES);
}

/* Appends whole blocks of rows of another one. `last` is the last row of them, the n-th of its block: what comes then goes on with it. */
void debug_blocks_copy(struct debug_blocks *b, const struct debug_blocks *from, uint32_t first,
	uint32_t n, const struct debug_row *last, uint32_t n_in_last);

/* The rows of a block, which debug_blocks_row wrote; returns how many. */
uint32_t debug_blocks_read(
	const struct debug_blocks *b, uint32_t block, struct debug_row ret[SYMBOL_BLOCK_ROWS]);

/* A varint where there is room for one; returns the place behind it. */
static inline uint8_t *debug_put_number(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}
