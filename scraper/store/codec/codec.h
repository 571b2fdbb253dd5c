/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of columns, the one encoding of WAL, head and block (docs/formats/block.md, "Page"). The
 * writer tries every codec that can hold a column and takes the smallest; the reader checks every
 * bound, so that any bytes can be read: -EBADMSG with a text that names the column.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include <stddef.h>
#include <stdint.h>

enum codec {
	CODEC_CONST,
	CODEC_VARINT,
	CODEC_ZIGZAG,
	CODEC_DELTA,
	CODEC_WRAP,
	CODEC_DELTA2,
	CODEC_RUN,
	CODEC_RATIO,
	CODEC_FIXED,
	CODEC_BYTES,
	N_CODECS
};
enum codec_compression { CODEC_PLAIN, CODEC_ZSTD };
enum {
	PAGE_MAX_COLUMNS = 32,
	PAGE_MAX_ROWS = 32768,
	PAGE_MAX_ITEMS = 65536, /* a writer ends a page when its items pass this */
	COLUMN_MAX_RAW = 1 << 20,
	COLUMN_HEADER = 10,
};

struct column {
	uint8_t codec;
	uint32_t len;
	const uint8_t *data; /* decompressed */
};
struct page {
	uint32_t n_rows, n_columns;
	struct column columns[PAGE_MAX_COLUMNS];
	size_t allocated_bytes; /* by page_load_columns, this struct included */
};

/* Views an uncompressed page in place: `p` must stay. -EBADMSG, -ENOTSUP (unknown codec). */
int page_view(const void *p, size_t len, uint32_t n_columns, uint32_t n_rows, struct page *ret,
	struct errbuf *eb) _must_check_;
/* Decompresses into one allocation, freed with free(). Also -ENOMEM. Columns outside `wanted` (bit i: column i) stay undecoded and do not decode, but for what a wanted ratio refers
 * to. */
int page_load_columns(const void *p, size_t len, uint32_t n_columns, uint32_t n_rows,
	uint32_t wanted, struct page **ret, struct errbuf *eb) _must_check_;

/* Decodes n values of a column. Every byte of it must be used. */
int page_i64(const struct page *p, unsigned column, size_t n, int64_t *ret,
	struct errbuf *eb) _must_check_;
/* The same where all values must be below `limit`. */
int page_u32(const struct page *p, unsigned column, size_t n, uint32_t limit, uint32_t *ret,
	struct errbuf *eb) _must_check_;
/* The bytes of a CODEC_BYTES column, which must be n. */
int page_bytes(const struct page *p, unsigned column, size_t n, const uint8_t **ret,
	struct errbuf *eb) _must_check_;
/* True when the column is constant; its value then. */
bool page_is_const(const struct page *p, unsigned column, int64_t *ret);

struct page_writer;
/* Errors stick until page_writer_finish. One thread. */
struct page_writer *page_writer_new(bool compress);
/* How hard zstd tries from now on [1]. */
void page_writer_level(struct page_writer *w, int level);
void page_writer_free(struct page_writer *w);
void page_writer_begin(struct page_writer *w);
void page_writer_i64(struct page_writer *w, const int64_t *v, size_t n);
/* The same, trying also a ratio to the earlier column `of`, whose values are `base`. */
void page_writer_ratio(
	struct page_writer *w, const int64_t *v, size_t n, unsigned of, const int64_t *base);
void page_writer_u32(struct page_writer *w, const uint32_t *v, size_t n);
/* u64 each, without looking for anything shorter. */
void page_writer_fixed(struct page_writer *w, const uint64_t *v, size_t n);
void page_writer_bytes(struct page_writer *w, const void *p, size_t n);
/* Appends the page. *ret_columns: how many columns. -EFBIG: a column above COLUMN_MAX_RAW; -ENOMEM; errors of `out`. What was written of
 * the page since page_writer_begin counts. */
int page_writer_finish(
	struct page_writer *w, struct bytes *out, unsigned *ret_columns) _must_check_;
