/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading protobuf's wire format, inline for the decoder's loops, in two ways:
 *  - wire_next and friends go through the bounded cursor and take every valid message;
 *  - wire_fast_* take what encoders usually write. They may read up to WIRE_SLACK bytes past the message in
 *    hand, so they are used only where that many bytes of the buffer follow it, and what they read counts only when
 *    it ended exactly at the message's end. In any other case the message is read again by the first way, which also
 *    says what is wrong.
 */
#pragma once
#include "lib/base/cursor.h"
#include <stdbool.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
/* A tag, a length of two bytes and a varint. */
enum { WIRE_SLACK = 16 };

#define WIRE_TAG(number, wire) ((uint8_t)((number) << 3 | (wire)))

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

/* How many numbers a field adds to a repeated number: packed (each varint ends at a byte below 0x80), or one. */
static inline size_t wire_count_numbers(struct cursor *c, const struct wire_field *f)
{
	size_t n = 0;

	if (f->wire == WIRE_VARINT)
		return 1;
	if (f->wire != WIRE_BYTES)
		cursor_fail(c);
	for (uint64_t i = 0; f->bytes && i < f->value; i++)
		n += f->bytes[i] < 0x80;
	return n;
}

/* Nine or ten bytes of which the first eight are in x, all continued. */
static inline const uint8_t *wire_fast_long(const uint8_t *p, uint64_t low56, uint64_t *ret)
{
	*ret = low56 | (uint64_t)(p[8] & 0x7f) << 56;
	if (p[8] < 0x80)
		return p + 9;
	*ret |= (uint64_t)p[9] << 63;
	return p[9] < 2 ? p + 10 : NULL;
}

/* Reads up to ten bytes; what follows the varint, or NULL when it is malformed. */
static inline const uint8_t *wire_fast_varint(const uint8_t *p, uint64_t *ret)
{
	uint64_t x, last;

	if (p[0] < 0x80) {
		*ret = p[0];
		return p + 1;
	}
	if (p[1] < 0x80) {
		*ret = (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
		return p + 2;
	}
	memcpy(&x, p, 8);
	last = ~x & 0x8080808080808080ULL; /* where a varint ends */
	if (last)
		x &= last ^ (last - 1);
	/* Eight groups of 7 bits close up pairwise, in three steps. */
	x = (x & 0x007f007f007f007fULL) | (x & 0x7f007f007f007f00ULL) >> 1;
	x = (x & 0x00003fff00003fffULL) | (x & 0x3fff00003fff0000ULL) >> 2;
	x = (x & 0x000000000fffffffULL) | (x & 0x0fffffff00000000ULL) >> 4;
	if (!last)
		return wire_fast_long(p, x, ret);
	*ret = x;
	return p + __builtin_ctzll(last) / 8 + 1;
}

/*
 * The bytes after a tag at p: its length of one or two bytes. True when they end at or before `end`. The length may
 * be read past it.
 */
static inline bool wire_fast_bytes(
	const uint8_t *p, const uint8_t *end, const uint8_t **ret_from, const uint8_t **ret_to)
{
	size_t len = p[1];

	p += 2;
	if (len >= 0x80) {
		if (*p >= 0x80)
			return false;
		len = (len & 0x7f) | (size_t)*p++ << 7;
	}
	*ret_from = p;
	*ret_to = p + len;
	return p <= end && len <= (size_t)(end - p);
}

/* An optional number field: *p is moved past it when it is there. False when it is malformed. */
static inline bool wire_fast_number(
	const uint8_t **p, const uint8_t *end, unsigned number, uint64_t *ret)
{
	if (*p >= end || **p != WIRE_TAG(number, WIRE_VARINT))
		return true;
	*p = wire_fast_varint(*p + 1, ret);
	return *p != NULL;
}
