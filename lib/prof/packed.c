/* SPDX-License-Identifier: Apache-2.0
 *
 * The shuffles, made once, and the loop over them.
 */
#include "lib/prof/packed.h"
#include <pthread.h>
#ifdef __x86_64__
#include <tmmintrin.h>

enum { BLOCK = 8, MASKS = 1 << BLOCK, NO_BYTE = 0x80 };

/* As constant as if it were written out: by mask of the bytes that do not end a varint. */
static struct {
	uint8_t shuffle[MASKS][2 * BLOCK];
	struct step {
		uint8_t n, bytes;
	} step[MASKS];
} table;

static void make_entry(unsigned mask)
{
	uint8_t *to = table.shuffle[mask];
	unsigned at = 0, n = 0;

	for (unsigned i = 0; i < 2 * BLOCK; i++)
		to[i] = NO_BYTE;
	while (at < BLOCK) {
		bool is_long = mask >> at & 1;

		/* longer than two bytes, or not complete in this block */
		if (is_long && (at + 1 == BLOCK || mask >> (at + 1) & 1))
			break;
		to[2 * n] = (uint8_t)at++;
		if (is_long)
			to[2 * n + 1] = (uint8_t)at++;
		n++;
	}
	table.step[mask] = (struct step) {.n = (uint8_t)n, .bytes = (uint8_t)at};
}

static void make_table(void)
{
	for (unsigned mask = 0; mask < MASKS; mask++)
		make_entry(mask);
}

bool packed_is_fast(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_table);
	return __builtin_cpu_supports("ssse3");
}

/* The numbers of the block at p that the mask says are there. */
__attribute__((target("ssse3"), always_inline)) static inline void put_block(
	const uint8_t *p, unsigned mask, uint32_t *to)
{
	const __m128i zero = _mm_setzero_si128(), minus_one = _mm_set1_epi32(-1);
	const __m128i low = _mm_set1_epi16(0x7f), high = _mm_set1_epi16(0x3f80);
	__m128i x = _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)(const void *)p),
		_mm_loadu_si128((const __m128i *)(const void *)table.shuffle[mask]));

	x = _mm_or_si128(_mm_and_si128(x, low), _mm_and_si128(_mm_srli_epi16(x, 1), high));
	_mm_storeu_si128(
		(__m128i *)(void *)to, _mm_add_epi32(_mm_unpacklo_epi16(x, zero), minus_one));
	_mm_storeu_si128(
		(__m128i *)(void *)(to + 4), _mm_add_epi32(_mm_unpackhi_epi16(x, zero), minus_one));
}

/* Two blocks a turn: the mask of the second is there before its bytes are loaded. */
__attribute__((target("ssse3"))) const uint8_t *packed_rows(
	const uint8_t *p, const uint8_t *end, uint32_t **w)
{
	uint32_t *to = *w;

	while (p < end) {
		unsigned mask = (unsigned)_mm_movemask_epi8(
			_mm_loadu_si128((const __m128i *)(const void *)p));
		struct step first, second;

		/* what lies behind the end ends nothing */
		if (end - p < 2 * BLOCK)
			mask |= UINT32_MAX << (end - p);
		first = table.step[mask % MASKS];
		if (!first.n)
			break;
		put_block(p, mask % MASKS, to);
		p += first.bytes;
		to += first.n;
		mask = mask >> first.bytes;
		second = table.step[mask % MASKS];
		put_block(p, mask % MASKS, to);
		p += second.bytes;
		to += second.n;
	}
	*w = to;
	return p;
}
#else
bool packed_is_fast(void)
{
	return false;
}

const uint8_t *packed_rows(const uint8_t *p, const uint8_t *end, uint32_t **w)
{
	(void)end;
	(void)w;
	return p;
}
#endif
