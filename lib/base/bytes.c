/* SPDX-License-Identifier: Apache-2.0
 *
 * Growable byte buffer.
 */
#include "lib/base/bytes.h"
#include "lib/base/alloc.h"
#include <stdio.h>

void bytes_init(struct bytes *b, struct budget *budget, size_t max_bytes)
{
	*b = (struct bytes) {.budget = budget, .max_bytes = max_bytes};
}

void bytes_done(struct bytes *b)
{
	if (b->budget && b->cap)
		budget_release(b->budget, b->cap);
	free(b->data);
	*b = (struct bytes) {.budget = b->budget, .max_bytes = b->max_bytes};
}

void bytes_reset(struct bytes *b)
{
	b->len = 0;
	b->error = 0;
}

static int grow(struct bytes *b, size_t need)
{
	size_t cap = b->cap ? b->cap : 256;
	uint8_t *p;

	if (b->max_bytes && need > b->max_bytes)
		return -EFBIG;
	while (cap < need)
		if (__builtin_mul_overflow(cap, 2, &cap))
			return -ENOMEM;
	if (b->max_bytes)
		cap = MIN(cap, b->max_bytes);
	if (b->budget && budget_charge(b->budget, cap - b->cap, NULL) < 0)
		return -ENOMEM;
	p = try_realloc(b->data, cap, 1);
	if (!p) {
		if (b->budget)
			budget_release(b->budget, cap - b->cap);
		return -ENOMEM;
	}
	b->data = p;
	b->cap = cap;
	return 0;
}

uint8_t *bytes_reserve_more(struct bytes *b, size_t n)
{
	size_t need;

	if (b->error)
		return NULL;
	if (__builtin_add_overflow(b->len, n, &need)) {
		b->error = -ENOMEM;
		return NULL;
	}
	if (need > b->cap || !b->data) {
		b->error = grow(b, need);
		if (b->error)
			return NULL;
	}
	return b->data + b->len;
}

void bytes_put(struct bytes *b, const void *p, size_t n)
{
	uint8_t *to = bytes_reserve(b, n);

	if (!to || !n)
		return;
	memcpy(to, p, n);
	b->len += n;
}

void bytes_put_str(struct bytes *b, const char *s)
{
	bytes_put(b, s, strlen(s));
}

void bytes_printf(struct bytes *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !bytes_reserve(b, (size_t)n + 1))
		return;
	va_start(ap, fmt);
	vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

enum { MAX_DIGITS = 20 };

static unsigned count_digits(uint64_t v)
{
	static const uint64_t least[MAX_DIGITS] = {0, 10ULL, 100ULL, 1000ULL, 10000ULL, 100000ULL,
		1000000ULL, 10000000ULL, 100000000ULL, 1000000000ULL, 10000000000ULL,
		100000000000ULL, 1000000000000ULL, 10000000000000ULL, 100000000000000ULL,
		1000000000000000ULL, 10000000000000000ULL, 100000000000000000ULL,
		1000000000000000000ULL, 10000000000000000000ULL};
	unsigned bits = 64U - (unsigned)__builtin_clzll(v | 1);
	unsigned below = bits * 1233 >> 12; /* log10(2) = 1233 / 4096: this or one more */

	return below + (v >= least[below]);
}

void bytes_print_uint(struct bytes *b, uint64_t v)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";
	uint8_t *to = bytes_reserve(b, MAX_DIGITS);
	unsigned n;

	if (!to)
		return;
	if (v < 10) { /* what most of an array are */
		*to = (uint8_t)('0' + v);
		b->len++;
		return;
	}
	n = count_digits(v);
	b->len += n;
	for (; v >= 100; v /= 100) {
		n -= 2;
		memcpy(to + n, pairs + v % 100 * 2, 2);
	}
	if (v < 10)
		*to = (uint8_t)('0' + v);
	else
		memcpy(to, pairs + v * 2, 2);
}

void bytes_print_int(struct bytes *b, int64_t v)
{
	if (v < 0)
		bytes_put_u8(b, '-');
	bytes_print_uint(b, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static void put_le(struct bytes *b, uint64_t v, unsigned n)
{
	uint8_t *to = bytes_reserve(b, n);

	if (!to)
		return;
	for (unsigned i = 0; i < n; i++)
		to[i] = (uint8_t)(v >> (8 * i));
	b->len += n;
}

void bytes_put_u16(struct bytes *b, uint16_t v)
{
	put_le(b, v, 2);
}

void bytes_put_u32(struct bytes *b, uint32_t v)
{
	put_le(b, v, 4);
}

void bytes_put_u64(struct bytes *b, uint64_t v)
{
	put_le(b, v, 8);
}

void bytes_put_varint(struct bytes *b, uint64_t v)
{
	uint8_t *to = bytes_reserve(b, 10);
	size_t n = 0;

	if (!to)
		return;
	for (; v >= 0x80; v >>= 7)
		to[n++] = (uint8_t)(v | 0x80);
	to[n++] = (uint8_t)v;
	b->len += n;
}

void bytes_put_svarint(struct bytes *b, int64_t v)
{
	bytes_put_varint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

int bytes_error(const struct bytes *b)
{
	return b->error;
}
