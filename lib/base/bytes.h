/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable byte buffer. An allocation failure or a passed cap sticks: later puts do nothing and
 * bytes_error() reports it, so that a writer checks once. Integers are little-endian. One thread at a time. A zeroed
 * struct is an empty buffer without budget or limit.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/cleanup.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	uint8_t *data;
	size_t len, cap;
	/* cap never passes it; 0: no limit. What takes a varying number of bytes (varints, decimal text, printf) reserves the most it can
	 * take, so near the limit it may be refused although it would fit. */
	size_t max_bytes;
	struct budget *budget; /* NULL: none; charged with cap */
	int error;
};

void bytes_init(struct bytes *b, struct budget *budget, size_t max_bytes);
void bytes_done(struct bytes *b);
#define _cleanup_bytes_ _cleanup_(bytes_done)
/* Forgets the content and a sticky error, keeps the memory. */
void bytes_reset(struct bytes *b);
/* Room for n more bytes; the pointer is valid until the next call. NULL after an error. Advance len
 * yourself. */
static inline uint8_t *bytes_reserve(struct bytes *b, size_t n);
uint8_t *bytes_reserve_more(struct bytes *b, size_t n); /* its slow half */
void bytes_put(struct bytes *b, const void *p, size_t n);
void bytes_put_str(struct bytes *b, const char *s);
void bytes_printf(struct bytes *b, const char *fmt, ...) _printf_(2, 3);
/* As decimal text. */
void bytes_print_int(struct bytes *b, int64_t v);
void bytes_print_uint(struct bytes *b, uint64_t v);
static inline void bytes_put_u8(struct bytes *b, uint8_t v);
void bytes_put_u16(struct bytes *b, uint16_t v);
void bytes_put_u32(struct bytes *b, uint32_t v);
void bytes_put_u64(struct bytes *b, uint64_t v);
/* LEB128, 1 to 10 bytes; the signed form is zigzag. */
void bytes_put_varint(struct bytes *b, uint64_t v);
void bytes_put_svarint(struct bytes *b, int64_t v);
/* 0, or the sticky error: -ENOMEM (memory or budget), -EFBIG (max_bytes). */
int bytes_error(const struct bytes *b) _must_check_;

static inline uint8_t *bytes_reserve(struct bytes *b, size_t n)
{
	if (b->error || !b->data || n > b->cap - b->len)
		return bytes_reserve_more(b, n);
	return b->data + b->len;
}

static inline void bytes_put_u8(struct bytes *b, uint8_t v)
{
	uint8_t *to = bytes_reserve(b, 1);

	if (!to)
		return;
	*to = v;
	b->len++;
}
