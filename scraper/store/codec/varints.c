/* SPDX-License-Identifier: Apache-2.0
 *
 * Four lanes over one run. Every byte below 0x80 ends a value, so their number in a stretch is the number of values there. As many
 * bytes as values are values of one byte each: counts mostly are. Where the CPU can gather bits (BMI2), it does.
 */
#include "scraper/store/codec/varints.h"
#include "lib/base/cleanup.h"
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { LANES = 4, MIN_BYTES = 128 };

_Static_assert(
	__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "varints are read as little-endian words");

struct lane {
	const uint8_t *p;
	size_t at, n; /* where its values go, how many are left */
};

static inline __attribute__((always_inline)) size_t count_ends(const uint8_t *p, const uint8_t *end)
{
	size_t n = 0;

	for (; end - p >= 8; p += 8) {
		uint64_t w;

		memcpy(&w, p, 8);
		n += (size_t)__builtin_popcountll(~w & 0x8080808080808080ULL);
	}
	for (; p < end; p++)
		n += *p < 0x80;
	return n;
}

/* The first byte after a value's end at or after p. */
static const uint8_t *next_start(const uint8_t *p, const uint8_t *end)
{
	while (p < end && *p >= 0x80)
		p++;
	return p < end ? p + 1 : end;
}

/* The low seven bits of each byte, next to each other. */
static inline __attribute__((always_inline)) uint64_t gather_plain(uint64_t w)
{
	w = (w & 0x007f007f007f007fULL) | (w & 0x7f007f007f007f00ULL) >> 1;
	w = (w & 0x00003fff00003fffULL) | (w & 0x3fff00003fff0000ULL) >> 2;
	return (w & 0x0fffffffULL) | (w & 0x0fffffff00000000ULL) >> 4;
}

typedef uint64_t gather_fn(uint64_t w);

/* One value of at most `max` bytes, of which 8 are readable at *p. Without an end among them *bad is set. */
static inline __attribute__((always_inline)) uint64_t take(
	const uint8_t **p, unsigned max, gather_fn *gather, uint64_t *bad)
{
	uint64_t w, stop;

	memcpy(&w, *p, 8);
	stop = ~w & (0x8080808080808080ULL >> (64 - 8 * max));
	*bad |= !stop;
	stop |= 1ULL << 63;
	w &= stop ^ (stop - 1);
	*p += (unsigned)__builtin_ctzll(stop) / 8 + 1;
	return gather(w);
}

static inline __attribute__((always_inline)) void put(
	uint32_t *v32, uint64_t *v64, size_t i, uint64_t x, uint64_t *bits)
{
	if (v32)
		v32[i] = (uint32_t)x;
	else
		v64[i] = x;
	*bits |= x;
}

/* The last values of a run, where 8 bytes cannot be read. */
static bool take_last(struct lane *l, const uint8_t *end, unsigned max, uint32_t *v32,
	uint64_t *v64, uint64_t *bits)
{
	for (; l->n; l->n--, l->at++) {
		uint64_t x = 0;
		unsigned i = 0;

		for (; i < max && l->p < end && *l->p >= 0x80; i++)
			x |= (uint64_t)(*l->p++ & 0x7f) << (7 * i);
		if (i == max || l->p == end)
			return false;
		put(v32, v64, l->at, x | (uint64_t)*l->p++ << (7 * i), bits);
	}
	return l->p == end;
}

static inline __attribute__((always_inline)) bool make_lanes(
	const uint8_t *p, size_t len, size_t n, struct lane l[LANES])
{
	const uint8_t *end = p + len, *from = p;
	size_t at = 0;

	for (unsigned i = 0; i < LANES; i++) {
		const uint8_t *to =
			i + 1 < LANES ? next_start(p + len / LANES * (i + 1), end) : end;

		l[i] = (struct lane) {.p = from, .at = at, .n = count_ends(from, to)};
		at += l[i].n;
		from = to;
	}
	return at == n && end[-1] < 0x80;
}

static inline __attribute__((always_inline)) bool decode(const uint8_t *p, size_t len, size_t n,
	unsigned max, gather_fn *gather, uint32_t *v32, uint64_t *v64, uint64_t *ret_bits)
{
	enum { TAIL = 8 }; /* values that have 8 bytes at least */
	struct lane l[LANES];
	uint64_t bits = 0, bad = 0;
	size_t together;

	if (len < MIN_BYTES || !make_lanes(p, len, n, l) || l[3].n < TAIL)
		return false;
	together = MIN(MIN(l[0].n, l[1].n), MIN(l[2].n, l[3].n - TAIL));
	for (size_t i = 0; i < together && !bad; i++) {
		put(v32, v64, l[0].at + i, take(&l[0].p, max, gather, &bad), &bits);
		put(v32, v64, l[1].at + i, take(&l[1].p, max, gather, &bad), &bits);
		put(v32, v64, l[2].at + i, take(&l[2].p, max, gather, &bad), &bits);
		put(v32, v64, l[3].at + i, take(&l[3].p, max, gather, &bad), &bits);
	}
	for (unsigned k = 0; k < LANES; k++) {
		size_t left = k + 1 < LANES ? 0 : TAIL;

		l[k].at += together;
		l[k].n -= together;
		for (; l[k].n > left && !bad; l[k].n--)
			put(v32, v64, l[k].at++, take(&l[k].p, max, gather, &bad), &bits);
	}
	if (bad || !take_last(&l[3], p + len, max, v32, v64, &bits))
		return false;
	*ret_bits = bits;
	return true;
}

/* Values of one byte each. False: some are longer. */
static bool widen(const uint8_t *p, size_t n, uint32_t *v32, uint64_t *v64, uint64_t *ret_bits)
{
	uint8_t bits = 0;

	for (size_t i = 0; i < n; i++)
		bits |= p[i];
	for (size_t i = 0; v32 && i < n; i++)
		v32[i] = p[i];
	for (size_t i = 0; v64 && i < n; i++)
		v64[i] = p[i];
	*ret_bits = bits;
	return bits < 0x80;
}

static bool decode_plain(const uint8_t *p, size_t len, size_t n, unsigned max, uint32_t *v32,
	uint64_t *v64, uint64_t *ret_bits)
{
	return v32 ? decode(p, len, n, max, gather_plain, v32, NULL, ret_bits)
		   : decode(p, len, n, max, gather_plain, NULL, v64, ret_bits);
}

#ifdef __x86_64__
#define BMI2 __attribute__((target("bmi,bmi2,popcnt")))

BMI2 static inline uint64_t gather_bmi2(uint64_t w)
{
	return _pext_u64(w, 0x7f7f7f7f7f7f7f7fULL);
}

BMI2 static bool decode_bmi2(const uint8_t *p, size_t len, size_t n, unsigned max, uint32_t *v32,
	uint64_t *v64, uint64_t *ret_bits)
{
	return v32 ? decode(p, len, n, max, gather_bmi2, v32, NULL, ret_bits)
		   : decode(p, len, n, max, gather_bmi2, NULL, v64, ret_bits);
}

bool varints_use_bmi2(void)
{
	return __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}
#else
static bool decode_bmi2(const uint8_t *p, size_t len, size_t n, unsigned max, uint32_t *v32,
	uint64_t *v64, uint64_t *ret_bits)
{
	return decode_plain(p, len, n, max, v32, v64, ret_bits);
}

bool varints_use_bmi2(void)
{
	return false;
}
#endif

bool varints_decode(const uint8_t *p, size_t len, size_t n, unsigned max, bool bmi2, uint32_t *v32,
	uint64_t *v64, uint64_t *ret_bits)
{
	if (len == n && len >= MIN_BYTES)
		return widen(p, n, v32, v64, ret_bits);
	return bmi2 ? decode_bmi2(p, len, n, max, v32, v64, ret_bits)
		    : decode_plain(p, len, n, max, v32, v64, ret_bits);
}

bool varints_u32(const uint8_t *p, size_t len, size_t n, uint32_t *ret, uint64_t *ret_bits)
{
	return varints_decode(p, len, n, 5, varints_use_bmi2(), ret, NULL, ret_bits);
}

bool varints_u64(const uint8_t *p, size_t len, size_t n, uint64_t *ret)
{
	uint64_t bits;

	return varints_decode(p, len, n, 8, varints_use_bmi2(), NULL, ret, &bits);
}
