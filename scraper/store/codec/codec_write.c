/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing pages. One pass over a column sizes every codec, the smallest is written; zstd is kept
 * where it saves an eighth.
 */
#include "lib/base/alloc.h"
#include "scraper/store/codec/codec.h"
#include <string.h>
#include <zstd.h>

enum { ZSTD_LEVEL = 1, MIN_COMPRESSED = 256 };

struct page_writer {
	struct bytes headers, data, raw;
	unsigned n_columns;
	int error;	 /* 0, or the first: -EFBIG, -ENOMEM */
	ZSTD_CCtx *cctx; /* NULL: no compression */
	int level;
	int64_t *wide;
	size_t cap_wide;
};

struct page_writer *page_writer_new(bool compress)
{
	struct page_writer *w = xcalloc(1, sizeof(*w));

	if (compress)
		w->cctx = ZSTD_createCCtx();
	w->level = ZSTD_LEVEL;
	return w;
}

void page_writer_level(struct page_writer *w, int level)
{
	w->level = level;
}

void page_writer_free(struct page_writer *w)
{
	if (!w)
		return;
	bytes_done(&w->headers);
	bytes_done(&w->data);
	bytes_done(&w->raw);
	ZSTD_freeCCtx(w->cctx);
	free(w->wide);
	free(w);
}

void page_writer_begin(struct page_writer *w)
{
	bytes_reset(&w->headers);
	bytes_reset(&w->data);
	w->n_columns = 0;
	w->error = 0;
}

static void fail(struct page_writer *w, int error)
{
	w->error = w->error ? w->error : error;
}

/* Moves w->raw into the page. */
static void put_column(struct page_writer *w, enum codec codec)
{
	enum codec_compression compression = CODEC_PLAIN;
	size_t raw = w->raw.len, stored = raw;

	fail(w, w->raw.error ? -ENOMEM : raw > COLUMN_MAX_RAW ? -EFBIG : 0);
	if (w->cctx && raw >= MIN_COMPRESSED) {
		size_t room = ZSTD_compressBound(raw);
		uint8_t *to = bytes_reserve(&w->data, room);
		size_t n =
			to ? ZSTD_compressCCtx(w->cctx, to, room, w->raw.data, raw, w->level) : 0;

		if (to && !ZSTD_isError(n) && n <= raw - raw / 8) {
			compression = CODEC_ZSTD;
			stored = n;
			w->data.len += n;
		}
	}
	if (compression == CODEC_PLAIN)
		bytes_put(&w->data, w->raw.data, raw);
	bytes_put_u8(&w->headers, (uint8_t)codec);
	bytes_put_u8(&w->headers, (uint8_t)compression);
	bytes_put_u32(&w->headers, (uint32_t)raw);
	bytes_put_u32(&w->headers, (uint32_t)stored);
	w->n_columns++;
	bytes_reset(&w->raw);
}

static inline uint64_t zigzag(int64_t v)
{
	return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline size_t varint_size(uint64_t v)
{
	return (size_t)(70 - __builtin_clzll(v | 1)) / 7;
}

static inline uint64_t sub(int64_t a, int64_t b)
{
	return (uint64_t)a - (uint64_t)b;
}

/* Bytes that each codec would take; SIZE_MAX where it cannot hold the column. */
static void size_codecs(const int64_t *v, size_t n, size_t size[N_CODECS])
{
	int64_t last = 0;
	uint64_t step = 0, bits = 0;
	size_t run = 0;

	memset(size, 0, N_CODECS * sizeof(*size));
	for (size_t i = 0; i < n; i++) {
		uint64_t d = sub(v[i], last);

		size[CODEC_VARINT] += varint_size((uint64_t)v[i]);
		size[CODEC_ZIGZAG] += varint_size(zigzag(v[i]));
		size[CODEC_DELTA] += varint_size(zigzag((int64_t)d));
		size[CODEC_WRAP] += varint_size((uint32_t)d);
		size[CODEC_DELTA2] += varint_size(zigzag((int64_t)(d - step)));
		if (i && !d) {
			run++;
		} else {
			size[CODEC_RUN] += run ? varint_size(run) : 0;
			size[CODEC_RUN] += varint_size(zigzag(v[i]));
			run = 1;
		}
		bits |= (uint64_t)v[i];
		step = d;
		last = v[i];
	}
	size[CODEC_RUN] += run ? varint_size(run) : 0;
	size[CODEC_CONST] = run == n ? 10 : SIZE_MAX;
	size[CODEC_FIXED] = n * 8;
	if (bits > UINT32_MAX)
		size[CODEC_WRAP] = SIZE_MAX;
	size[CODEC_RATIO] = size[CODEC_BYTES] = SIZE_MAX;
}

static enum codec smallest(const size_t size[N_CODECS])
{
	/* In order of decoding cost: the first of equals wins. */
	static const enum codec order[] = {CODEC_CONST, CODEC_VARINT, CODEC_WRAP, CODEC_RUN,
		CODEC_ZIGZAG, CODEC_DELTA, CODEC_FIXED, CODEC_DELTA2};
	enum codec best = CODEC_FIXED;

	if (size[CODEC_CONST] != SIZE_MAX)
		return CODEC_CONST;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		if (size[order[i]] < size[best])
			best = order[i];
	return best;
}

static void put_runs(struct page_writer *w, const int64_t *v, size_t n)
{
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && v[end] == v[i]; end++)
			;
		bytes_put_varint(&w->raw, end - i);
		bytes_put_svarint(&w->raw, v[i]);
	}
}

static void put_values(struct page_writer *w, enum codec codec, const int64_t *v, size_t n)
{
	uint64_t step = 0, d;
	int64_t last = 0;

	if (codec == CODEC_CONST) {
		bytes_put_svarint(&w->raw, n ? v[0] : 0);
		return;
	}
	if (codec == CODEC_RUN) {
		put_runs(w, v, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		d = sub(v[i], last);
		if (codec == CODEC_VARINT)
			bytes_put_varint(&w->raw, (uint64_t)v[i]);
		else if (codec == CODEC_ZIGZAG)
			bytes_put_svarint(&w->raw, v[i]);
		else if (codec == CODEC_DELTA)
			bytes_put_svarint(&w->raw, (int64_t)d);
		else if (codec == CODEC_WRAP)
			bytes_put_varint(&w->raw, (uint32_t)d);
		else if (codec == CODEC_DELTA2)
			bytes_put_svarint(&w->raw, (int64_t)(d - step));
		else
			bytes_put_u64(&w->raw, (uint64_t)v[i]);
		step = d;
		last = v[i];
	}
}

void page_writer_i64(struct page_writer *w, const int64_t *v, size_t n)
{
	size_t size[N_CODECS];
	enum codec codec;

	size_codecs(v, n, size);
	codec = smallest(size);
	put_values(w, codec, v, n);
	put_column(w, codec);
}

/* Writes runs of equal multipliers into w->raw; false when a value is no multiple or the runs pass
 * `limit` bytes. */
static bool try_ratio(
	struct page_writer *w, const int64_t *v, size_t n, const int64_t *base, size_t limit)
{
	uint64_t multiplier = 0;
	size_t run = 0;

	for (size_t i = 0; i < n; i++) {
		if (run && (uint64_t)base[i] * multiplier == (uint64_t)v[i]) {
			run++;
			continue;
		}
		if (!base[i] || v[i] == INT64_MIN || v[i] % base[i] || w->raw.len > limit)
			return false;
		if (run) {
			bytes_put_varint(&w->raw, run);
			bytes_put_svarint(&w->raw, (int64_t)multiplier);
		}
		multiplier = (uint64_t)(v[i] / base[i]);
		run = 1;
	}
	bytes_put_varint(&w->raw, run);
	bytes_put_svarint(&w->raw, (int64_t)multiplier);
	return w->raw.len <= limit;
}

void page_writer_ratio(
	struct page_writer *w, const int64_t *v, size_t n, unsigned of, const int64_t *base)
{
	size_t size[N_CODECS];
	enum codec codec;

	size_codecs(v, n, size);
	codec = smallest(size);
	bytes_put_u8(&w->raw, (uint8_t)of);
	if (codec != CODEC_CONST && try_ratio(w, v, n, base, size[codec])) {
		put_column(w, CODEC_RATIO);
		return;
	}
	bytes_reset(&w->raw);
	put_values(w, codec, v, n);
	put_column(w, codec);
}

void page_writer_u32(struct page_writer *w, const uint32_t *v, size_t n)
{
	if (alloc_grow(&w->wide, &w->cap_wide, n, sizeof(*w->wide)) < 0) {
		fail(w, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < n; i++)
		w->wide[i] = v[i];
	page_writer_i64(w, w->wide, n);
}

void page_writer_fixed(struct page_writer *w, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes_put_u64(&w->raw, v[i]);
	put_column(w, CODEC_FIXED);
}

void page_writer_bytes(struct page_writer *w, const void *p, size_t n)
{
	bytes_put(&w->raw, p, n);
	put_column(w, CODEC_BYTES);
}

int page_writer_finish(struct page_writer *w, struct bytes *out, unsigned *ret_columns)
{
	fail(w, w->headers.error || w->data.error ? -ENOMEM : 0);
	if (w->error)
		return w->error;
	bytes_put(out, w->headers.data, w->headers.len);
	bytes_put(out, w->data.data, w->data.len);
	*ret_columns = w->n_columns;
	return bytes_error(out);
}
