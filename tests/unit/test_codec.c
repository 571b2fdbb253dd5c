/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of columns: what is written is read again, by the codec that the values call for; what is damaged is refused.
 */
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "scraper/store/codec/codec.h"
#include "scraper/store/codec/varints.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

enum { N = 5000 };

static void free_writer(struct page_writer **w)
{
	page_writer_free(*w);
}

static int64_t values[N], base[N], out[N];

/* Writes one column (and a base column before it when `ratio`), reads it back, gives the codec. */
static unsigned round_trip(bool compress, bool ratio)
{
	_cleanup_(free_writer)
	struct page_writer *w = page_writer_new(compress);
	_cleanup_bytes_ struct bytes bytes = {.data = NULL};
	_cleanup_free_ struct page *p = NULL;
	struct errbuf eb = {.text = ""};
	unsigned n_columns, column = ratio ? 1 : 0;

	page_writer_begin(w);
	if (ratio) {
		page_writer_i64(w, base, N);
		page_writer_ratio(w, values, N, 0, base);
	} else {
		page_writer_i64(w, values, N);
	}
	assert_int_equal(page_writer_finish(w, &bytes, &n_columns), 0);
	assert_int_equal(n_columns, column + 1);
	assert_int_equal(
		page_load_columns(bytes.data, bytes.len, n_columns, N, UINT32_MAX, &p, &eb), 0);
	assert_int_equal(page_i64(p, column, N, out, &eb), 0);
	assert_memory_equal(out, values, sizeof(values));
	return p->columns[column].codec;
}

static void fill(int kind)
{
	uint64_t x = 1;

	for (int i = 0; i < N; i++) {
		x = hash_mix(x + 0x9e3779b97f4a7c15ULL);
		base[i] = 1 + (int64_t)(x % 7);
		switch (kind) {
		case CODEC_CONST: values[i] = -5; break;
		case CODEC_VARINT: values[i] = (int64_t)(x % 100); break;
		case CODEC_ZIGZAG: values[i] = (int64_t)(x % 100) - 50; break;
		case CODEC_DELTA:
			values[i] = (i ? values[i - 1] : 1LL << 40) + (int64_t)(x % 60) - 25;
			break;
		case CODEC_WRAP: /* ascending runs that start again, steps that zigzag needs two bytes for */
			values[i] = i % 150 ? values[i - 1] + 64 + (int64_t)(x % 60)
					    : (int64_t)(x % 1000);
			break;
		case CODEC_DELTA2: values[i] = i * 15000000000LL + (int64_t)(x % 3); break;
		case CODEC_RUN: values[i] = i % 500 ? values[i - 1] : (int64_t)x; break;
		case CODEC_RATIO: values[i] = base[i] * (i < N / 2 ? 10101010 : 52631578); break;
		default: values[i] = (int64_t)x;
		}
	}
}

static void test_codecs(void **state)
{
	static const int kinds[] = {CODEC_CONST, CODEC_VARINT, CODEC_ZIGZAG, CODEC_DELTA,
		CODEC_WRAP, CODEC_DELTA2, CODEC_RUN, CODEC_RATIO, CODEC_FIXED};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		fill(kinds[i]);
		assert_int_equal(round_trip(false, kinds[i] == CODEC_RATIO), kinds[i]);
		assert_int_equal(round_trip(true, kinds[i] == CODEC_RATIO), kinds[i]);
	}
}

static void test_extremes(void **state)
{
	static const int64_t edge[] = {INT64_MIN, INT64_MAX, 0, -1, 1, UINT32_MAX, 1LL << 62};

	(void)state;
	for (int i = 0; i < N; i++) {
		values[i] = edge[hash_mix((uint64_t)i) % ARRAY_SIZE(edge)];
		base[i] = edge[hash_mix((uint64_t)i * 3) % ARRAY_SIZE(edge)];
	}
	round_trip(false, false);
	round_trip(true, true);
}

/* Any one changed byte gives an error or values, never a read outside (the sanitizer says). */
static void test_flips(void **state)
{
	static const int kinds[] = {
		CODEC_VARINT, CODEC_DELTA, CODEC_WRAP, CODEC_RUN, CODEC_RATIO, CODEC_DELTA2};
	_cleanup_(free_writer)
	struct page_writer *w = page_writer_new(true);
	uint32_t narrow[64];

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		_cleanup_bytes_ struct bytes bytes = {.data = NULL};
		unsigned n_columns;

		fill(kinds[k]);
		page_writer_begin(w);
		page_writer_i64(w, base, 64);
		page_writer_ratio(w, values, 64, 0, base);
		assert_int_equal(page_writer_finish(w, &bytes, &n_columns), 0);
		for (size_t i = 0; i < bytes.len * 8; i++) {
			_cleanup_free_ struct page *p = NULL;
			struct errbuf eb = {.text = ""};
			int r;

			bytes.data[i / 8] ^= (uint8_t)(1 << i % 8);
			r = page_load_columns(
				bytes.data, bytes.len, n_columns, 64, UINT32_MAX, &p, &eb);
			for (unsigned c = 0; !r && c < 2; c++) {
				int wide = page_i64(p, c, 64, out, &eb),
				    slim = page_u32(p, c, 64, 1000, narrow, &eb);

				assert_true(wide <= 0);
				for (size_t v = 0; !slim && v < 64; v++)
					assert_true(narrow[v] < 1000);
			}
			assert_true(r <= 0);
			bytes.data[i / 8] ^= (uint8_t)(1 << i % 8);
		}
	}
}

static void test_unknown_is_named(void **state)
{
	static const uint8_t codec[] = {77, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0};
	static const uint8_t compression[] = {0, 9, 1, 0, 0, 0, 1, 0, 0, 0, 0};
	struct errbuf eb = {.text = ""};
	struct page p;

	(void)state;
	assert_int_equal(page_view(codec, sizeof(codec), 1, 1, &p, &eb), -ENOTSUP);
	assert_string_equal(eb.text, "column 0 has unknown codec 77");
	assert_int_equal(page_view(compression, sizeof(compression), 1, 1, &p, &eb), -ENOTSUP);
	assert_string_equal(eb.text, "column 0 has unknown compression 9");
}

/* The lanes against one value at a time, on runs of every width and on bytes that are no such run. */
static void check_varints(bool bmi2)
{
	enum { MOST = 400 };
	uint64_t random = 1, wide[MOST + 1], bits;
	uint32_t narrow[MOST + 1];
	unsigned n_together = 0;

	for (unsigned round = 0; round < 3000; round++) {
		_cleanup_bytes_ struct bytes run = {.data = NULL};
		unsigned width = round % 64 + 1, n = 1 + round % MOST;
		struct cursor c;
		bool ok32, ok64;

		for (unsigned i = 0; i < n; i++) {
			random = hash_mix(random + i + 1);
			bytes_put_varint(&run, random >> (64 - width) >> (random & 15));
		}
		if (round % 3 == 0) /* broken somewhere, the last byte often */
			run.data[round % 2 ? run.len - 1 : random % run.len] ^= 0x80;
		ok32 = varints_decode(run.data, run.len, n, 5, bmi2, narrow, NULL, &bits);
		ok64 = varints_decode(run.data, run.len, n, 8, bmi2, NULL, wide, &bits);
		c = cursor_of(run.data, run.len);
		for (unsigned i = 0; i < n && (ok32 || ok64); i++) {
			uint64_t x = cursor_varint(&c);

			assert_true(!ok32 || narrow[i] == (uint32_t)x);
			assert_true(!ok64 || wide[i] == x);
		}
		assert_true((!ok32 && !ok64) || (!c.error && !cursor_left(&c)));
		if (round % 3 && run.len >= 200 && width <= 28)
			assert_true(ok32 && ok64);
		n_together += ok64;
	}
	assert_true(n_together > 500);
}

/* What the store refuses for its size must not be what it had no memory for. */
static void test_errors(void **state)
{
	struct page_writer *w = page_writer_new(false);
	_cleanup_bytes_ struct bytes page = {.data = NULL};
	const uint32_t three[] = {1, 2, 3};
	_cleanup_free_ uint8_t *large = xcalloc(1, COLUMN_MAX_RAW + 1);
	unsigned n;

	(void)state;
	page_writer_begin(w);
	alloc_fail_after(1);
	page_writer_u32(w, three, ARRAY_SIZE(three));
	alloc_fail_after(0);
	assert_int_equal(page_writer_finish(w, &page, &n), -ENOMEM);
	page_writer_begin(w);
	alloc_fail_after(1);
	page_writer_bytes(w, large, COLUMN_MAX_RAW);
	alloc_fail_after(0);
	assert_int_equal(page_writer_finish(w, &page, &n), -ENOMEM);
	page_writer_begin(w);
	page_writer_bytes(w, large, COLUMN_MAX_RAW + 1);
	assert_int_equal(page_writer_finish(w, &page, &n), -EFBIG);
	page_writer_begin(w);
	page_writer_bytes(w, large, COLUMN_MAX_RAW);
	assert_int_equal(page_writer_finish(w, &page, &n), 0);
	page_writer_free(w);
}

static void test_varints(void **state)
{
	(void)state;
	check_varints(false);
	if (varints_use_bmi2())
		check_varints(true);
}

/* One byte a value: as many bytes as values, none of which goes on. */
static void test_varints_of_one_byte(void **state)
{
	enum { RUN = 300 };
	uint8_t run[RUN];
	uint64_t wide[RUN], bits;
	uint32_t narrow[RUN];

	(void)state;
	for (unsigned i = 0; i < RUN; i++)
		run[i] = (uint8_t)(i * 7 % 0x80);
	assert_true(varints_u32(run, RUN, RUN, narrow, &bits));
	assert_int_equal(bits, 0x7f);
	assert_true(varints_u64(run, RUN, RUN, wide));
	for (unsigned i = 0; i < RUN; i++)
		assert_true(narrow[i] == run[i] && wide[i] == run[i]);
	for (unsigned i = 0; i < RUN; i++) {
		run[i] |= 0x80;
		assert_false(varints_u32(run, RUN, RUN, narrow, &bits));
		assert_false(varints_u64(run, RUN, RUN, wide));
		run[i] &= 0x7f;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_varints),
		cmocka_unit_test(test_varints_of_one_byte),
		cmocka_unit_test(test_codecs),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_flips),
		cmocka_unit_test(test_unknown_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
