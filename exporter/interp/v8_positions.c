/* SPDX-License-Identifier: Apache-2.0
 *
 * V8's tables have differences from entry to entry: zigzag varints of source positions (src/codegen/source-position-table.cc), varints of
 * machine code by bytecode (src/baseline/bytecode-offset-iterator.h).
 */
#include "exporter/interp/v8_positions.h"

/* Bits of a source position: 1 says that it is in a file outside V8, 30 its place, 16 the inlined function; both one more than they are. */
enum { POSITION_IS_EXTERNAL = 1, PLACE_SHIFT = 1, INLINED_SHIFT = 31 };
#define PLACE_MASK ((1U << 30) - 1)
#define INLINED_MASK 0xffffU

struct v8_position v8_position_of(uint64_t raw)
{
	uint32_t place = (uint32_t)(raw >> PLACE_SHIFT) & PLACE_MASK;

	return (struct v8_position) {
		.source = raw & POSITION_IS_EXTERNAL || !place ? UINT32_MAX : place - 1,
		.inlined = (uint32_t)(raw >> INLINED_SHIFT) & INLINED_MASK,
	};
}

struct v8_positions v8_positions_of(const struct runtime_record *r, const uint8_t *bytes, size_t n)
{
	return (struct v8_positions) {
		.c = cursor_of(bytes, n),
		.code = r->offsets[V8_LINES] == V8_LINES_FROM_START ? 0 : -1,
		.is_flagged = r->offsets[V8_LINES] == V8_LINES_FLAGGED,
	};
}

bool v8_positions_next(struct v8_positions *p, struct v8_position *ret)
{
	int64_t step;

	if (!cursor_left(&p->c))
		return false;
	step = cursor_svarint(&p->c);
	if (step < 0) /* it is no statement of its own: the complement */
		step = -(step + 1);
	step >>= p->is_flagged;
	p->raw = (int64_t)((uint64_t)p->raw + (uint64_t)cursor_svarint(&p->c));
	if (p->c.error || step > INT32_MAX || p->code + step > INT32_MAX)
		return false;
	p->code += step;
	*ret = v8_position_of((uint64_t)p->raw);
	ret->code = (uint32_t)MAX(p->code, 0);
	return true;
}

/* The first bytecodes say that the operands of the next are 2 or 4 times as wide; those for debuggers too. */
enum { BYTECODE_WIDE, BYTECODE_EXTRA_WIDE, DEBUG_WIDE, DEBUG_EXTRA_WIDE, N_PREFIXES };

static uint32_t read_varint32(struct cursor *c)
{
	uint64_t v = cursor_varint(c);

	if (v > INT32_MAX)
		cursor_fail(c);
	return c->error ? 0 : (uint32_t)v;
}

struct v8_baseline v8_baseline_of(
	struct cursor table, struct cursor code, const uint8_t *lengths, uint32_t n_bytecodes)
{
	struct v8_baseline b = {.table = table,
		.bytecode = code,
		.lengths = lengths,
		.n_bytecodes = n_bytecodes,
		.offset = UINT32_MAX};

	b.end = read_varint32(&b.table); /* of what comes before the first bytecode */
	return b;
}

bool v8_baseline_next(struct v8_baseline *b)
{
	uint32_t scale = 0, bytes, at = b->next;
	uint8_t code;

	if (!cursor_left(&b->table) || !cursor_left(&b->bytecode))
		return false;
	code = cursor_u8(&b->bytecode);
	b->next++;
	if (code < N_PREFIXES) {
		scale = code == BYTECODE_WIDE || code == DEBUG_WIDE ? 1 : 2;
		code = cursor_u8(&b->bytecode);
		b->next++;
	}
	bytes = code < b->n_bytecodes ? b->lengths[scale * b->n_bytecodes + code] : 0;
	if (b->bytecode.error || !bytes)
		return false;
	cursor_skip(&b->bytecode, bytes - 1);
	b->next += bytes - 1;
	b->end += read_varint32(&b->table);
	b->offset = at;
	return !b->bytecode.error && !b->table.error && b->end <= INT32_MAX;
}

void v8_lines_put(struct bytes *b, uint32_t *at, struct v8_place *last, uint32_t offset,
	struct v8_place place)
{
	bytes_put_varint(b, offset - *at);
	bytes_put_svarint(b, (int64_t)place.line - last->line);
	bytes_put_varint(b, place.column);
	*at = offset;
	*last = place;
}

struct v8_place v8_lines_find(const uint8_t *lines, size_t n, uint32_t offset)
{
	struct cursor c = cursor_of(lines, n);
	struct v8_place ret = {0, 0}, place = {0, 0};
	uint64_t at = 0;

	while (cursor_left(&c)) {
		at += cursor_varint(&c);
		place.line += (uint32_t)cursor_svarint(&c);
		place.column = (uint32_t)cursor_varint(&c);
		if (c.error || at > offset)
			break;
		ret = place;
	}
	return ret;
}
