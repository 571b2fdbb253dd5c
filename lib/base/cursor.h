/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounded reader through which all bytes from outside pass. Reading past the end or a malformed
 * varint sets a sticky error; after it every read gives 0 and an empty range. Integers are
 * little-endian. The bytes stay the caller's and must outlive the cursor and what was taken from it.
 */
#pragma once
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <endian.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *start, *pos, *end;
	int error;	  /* 0 or -EBADMSG */
	size_t error_off; /* bytes from `start` */
};

static inline struct cursor cursor_of(const void *p, size_t n)
{
	const uint8_t *b = p;

	return (struct cursor) {.start = b, .pos = b, .end = b ? b + n : b};
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->pos);
}

static inline size_t cursor_off(const struct cursor *c)
{
	return (size_t)(c->pos - c->start);
}

static inline void cursor_fail(struct cursor *c)
{
	if (!c->error) {
		c->error = -EBADMSG;
		c->error_off = cursor_off(c);
	}
	c->pos = c->end;
}

/* The next n bytes, or NULL. */
static inline const uint8_t *cursor_take(struct cursor *c, size_t n)
{
	const uint8_t *p = c->pos;

	if (n > cursor_left(c)) {
		cursor_fail(c);
		return NULL;
	}
	c->pos += n;
	return p;
}

static inline void cursor_skip(struct cursor *c, size_t n)
{
	(void)cursor_take(c, n);
}

/* n: at most 8. */
static inline uint64_t cursor_le(struct cursor *c, unsigned n)
{
	size_t left = cursor_left(c);
	const uint8_t *p = cursor_take(c, n);
	uint64_t v = 0;

	if (p && n && left >= sizeof(v)) {
		memcpy(&v, p, sizeof(v));
		return le64toh(v) & UINT64_MAX >> (64 - 8 * n);
	}
	for (unsigned i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 1);

	return p ? *p : 0;
}

static inline uint16_t cursor_u16(struct cursor *c)
{
	return (uint16_t)cursor_le(c, 2);
}

static inline uint32_t cursor_u32(struct cursor *c)
{
	return (uint32_t)cursor_le(c, 4);
}

static inline uint64_t cursor_u64(struct cursor *c)
{
	return cursor_le(c, 8);
}

/* LEB128 of at most 10 bytes; bits above 64 are an error. Mostly one byte. */
static inline uint64_t cursor_varint(struct cursor *c)
{
	const uint8_t *p = c->pos;
	uint64_t v = 0;

	if (p < c->end && *p < 0x80) {
		c->pos = p + 1;
		return *p;
	}
	for (unsigned shift = 0; shift < 70 && p < c->end; shift += 7) {
		uint8_t b = *p++;

		if (shift == 63 && b > 1)
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			c->pos = p;
			return v;
		}
	}
	cursor_fail(c);
	return 0;
}

/* DWARF's signed LEB128 of at most 10 bytes: two's complement, sign-extended from the last byte. Bits above 64 are dropped. */
static inline int64_t cursor_sleb(struct cursor *c)
{
	const uint8_t *p = c->pos;
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70 && p < c->end; shift += 7) {
		uint8_t b = *p++;

		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			c->pos = p;
			if (shift < 57 && (b & 0x40))
				v |= ~0ULL << (shift + 7);
			return (int64_t)v;
		}
	}
	cursor_fail(c);
	return 0;
}

/* Moves over a LEB128 number of either kind and any length. */
static inline void cursor_skip_leb(struct cursor *c)
{
	while (c->pos < c->end)
		if (!(*c->pos++ & 0x80))
			return;
	cursor_fail(c);
}

/* Protobuf's zigzag form. */
static inline int64_t cursor_svarint(struct cursor *c)
{
	uint64_t v = cursor_varint(c);

	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* A sub-cursor over the next n bytes; on error it is empty and carries the error too. */
static inline struct cursor cursor_sub(struct cursor *c, size_t n)
{
	const uint8_t *p = cursor_take(c, n);
	struct cursor sub = cursor_of(p, p ? n : 0);

	sub.error = c->error;
	return sub;
}
