/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading protobuf's wire format field by field through the bounded cursor, inline for the decoder's loops.
 */
#pragma once
#include "lib/base/cursor.h"
#include <stdbool.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct wire_field {
	uint64_t number, value; /* value: of a varint; length of bytes */
	const uint8_t *bytes;
	unsigned wire;
};

static inline uint64_t wire_varint(struct cursor *c)
{
	return c->pos < c->end && *c->pos < 0x80 ? *c->pos++ : cursor_varint(c);
}

/* The next field of a message; false at its end and after an error (c->error). Groups are not known. */
static inline bool wire_next(struct cursor *c, struct wire_field *f)
{
	uint64_t tag;

	if (c->pos == c->end)
		return false;
	tag = wire_varint(c);
	f->number = tag >> 3;
	f->wire = tag & 7;
	f->value = 0;
	f->bytes = NULL;
	if (f->wire == WIRE_VARINT) {
		f->value = wire_varint(c);
	} else if (f->wire == WIRE_BYTES) {
		f->value = wire_varint(c);
		f->bytes = cursor_take(c, f->value);
	} else if (f->wire == WIRE_64) {
		cursor_skip(c, 8);
	} else if (f->wire == WIRE_32) {
		cursor_skip(c, 4);
	} else {
		cursor_fail(c);
	}
	if (!f->number)
		cursor_fail(c);
	return !c->error;
}

/* The value of a field that must be one number. */
static inline uint64_t wire_number(struct cursor *c, const struct wire_field *f)
{
	if (f->wire != WIRE_VARINT)
		cursor_fail(c);
	return f->value;
}

/* The content of a field that must be bytes; empty after an error. */
static inline struct cursor wire_bytes(struct cursor *c, const struct wire_field *f)
{
	if (f->wire == WIRE_BYTES)
		return cursor_of(f->bytes, f->value);
	cursor_fail(c);
	return cursor_of(c->end, 0);
}

static inline size_t wire_bytes_len(struct cursor *c, const struct wire_field *f)
{
	if (f->wire != WIRE_BYTES)
		cursor_fail(c);
	return f->wire == WIRE_BYTES ? f->value : 0;
}

/* How many varints end in these bytes: each at a byte below 0x80. */
static inline size_t wire_count_varints(const uint8_t *p, size_t n)
{
	const uint64_t ones = 0x0101010101010101ULL;
	size_t count = 0;

	for (; n >= 8; n -= 8, p += 8) {
		uint64_t v;

		memcpy(&v, p, 8);
		count += ((~v >> 7 & ones) * ones) >> 56;
	}
	for (; n; n--)
		count += *p++ < 0x80;
	return count;
}

/* How many numbers a field adds to a repeated number: packed, or one. */
static inline size_t wire_count_numbers(struct cursor *c, const struct wire_field *f)
{
	if (f->wire == WIRE_BYTES)
		return wire_count_varints(f->bytes, f->value);
	if (f->wire != WIRE_VARINT)
		cursor_fail(c);
	return 1;
}
