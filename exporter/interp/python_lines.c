/* SPDX-License-Identifier: Apache-2.0
 *
 * Instruction → line.
 */
#include "exporter/interp/python_lines.h"
#include "lib/base/cursor.h"

enum { UNIT_BYTES = 2, NO_LINE = -128 };

/* Heads of location entries: 1, code (4 bits), units less one (3 bits). */
enum {
	LOCATION_HEAD = 0x80,
	LOCATION_LINE_0 = 10, /* and 11, 12: so many lines further on */
	LOCATION_LINE_2 = 12,
	LOCATION_NO_COLUMNS = 13,
	LOCATION_LONG = 14,
	LOCATION_NONE = 15,
};

static uint32_t line_of(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* PyCode_Addr2Line up to 3.9. */
static uint32_t find_lnotab(struct cursor c, int64_t line, uint32_t wanted)
{
	for (uint32_t at = 0; cursor_left(&c) >= 2;) {
		at += cursor_u8(&c);
		if (at > wanted)
			break;
		line += (int8_t)cursor_u8(&c);
	}
	return line_of(line);
}

/* A range without a line does not move the line of those behind it. */
static uint32_t find_range(struct cursor c, int64_t line, uint32_t wanted)
{
	for (uint32_t end = 0; cursor_left(&c) >= 2;) {
		int8_t step;

		end += cursor_u8(&c);
		step = (int8_t)cursor_u8(&c);
		line += step == NO_LINE ? 0 : step;
		if (wanted < end)
			return step == NO_LINE ? 0 : line_of(line);
	}
	return 0;
}

/* 6 bits a byte, the lowest first; bit 6 says that there are more. */
static uint32_t take_varint(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 36; shift += 6) {
		uint8_t b = cursor_u8(c);

		v |= (uint64_t)(b & 0x3f) << shift;
		if (!(b & 0x40) && v <= UINT32_MAX)
			return (uint32_t)v;
		if (!(b & 0x40))
			break;
	}
	cursor_fail(c);
	return 0;
}

/* The sign is bit 0. */
static int64_t take_svarint(struct cursor *c)
{
	uint32_t v = take_varint(c);

	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

static uint32_t find_location(struct cursor c, int64_t line, uint32_t wanted)
{
	for (uint32_t end = 0; cursor_left(&c);) {
		uint8_t head = cursor_u8(&c), code = head >> 3 & 15;

		if (!(head & LOCATION_HEAD))
			return 0;
		end += (head & 7) + 1;
		if (code == LOCATION_LONG || code == LOCATION_NO_COLUMNS)
			line += take_svarint(&c);
		if (code == LOCATION_LONG) { /* last line, columns */
			take_varint(&c);
			take_varint(&c);
			take_varint(&c);
		} else if (code >= LOCATION_LINE_0 && code <= LOCATION_LINE_2) {
			line += code - LOCATION_LINE_0;
			cursor_skip(&c, 2);
		} else if (code < LOCATION_LINE_0) {
			cursor_skip(&c, 1);
		}
		if (c.error)
			return 0;
		/* An entry without a line does not move the line of those behind it. */
		if (wanted < end)
			return code == LOCATION_NONE ? 0 : line_of(line);
	}
	return 0;
}

uint32_t python_lines_find(enum python_lines format, const uint8_t *table, size_t bytes,
	uint32_t first_line, uint32_t position)
{
	struct cursor c = cursor_of(table, bytes);

	switch (format) {
	case PYTHON_LINES_NONE: break;
	case PYTHON_LINES_LNOTAB: return find_lnotab(c, first_line, position * UNIT_BYTES);
	case PYTHON_LINES_RANGES: return find_range(c, first_line, position * UNIT_BYTES);
	case PYTHON_LINES_LOCATIONS: return find_location(c, first_line, position);
	}
	return 0;
}
