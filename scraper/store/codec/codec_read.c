/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading pages: bounds first, then one loop per codec.
 */
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include "scraper/store/codec/codec.h"
#include "scraper/store/codec/varints.h"
#include <inttypes.h>
#include <zstd.h>

static const char *const names[N_CODECS] = {
	[CODEC_CONST] = "const",
	[CODEC_VARINT] = "varint",
	[CODEC_ZIGZAG] = "zigzag",
	[CODEC_DELTA] = "delta",
	[CODEC_WRAP] = "wrap",
	[CODEC_DELTA2] = "delta2",
	[CODEC_RUN] = "run",
	[CODEC_RATIO] = "ratio",
	[CODEC_FIXED] = "fixed",
	[CODEC_BYTES] = "bytes",
};

static const char *codec_name(unsigned codec)
{
	return codec < N_CODECS ? names[codec] : "unknown";
}

/* The headers; columns[].len holds the stored length and data the stored bytes. */
struct header {
	uint8_t compression;
	uint32_t raw;
};

static int parse_headers(
	const void *bytes, size_t len, struct page *p, struct header *headers, struct errbuf *eb)
{
	struct cursor c = cursor_of(bytes, len);

	if (p->n_columns > PAGE_MAX_COLUMNS)
		return err_set(eb, -EBADMSG, "page of %u columns, at most %d expected",
			p->n_columns, PAGE_MAX_COLUMNS);
	for (unsigned i = 0; i < p->n_columns; i++) {
		struct column *col = &p->columns[i];

		col->codec = cursor_u8(&c);
		headers[i].compression = cursor_u8(&c);
		headers[i].raw = cursor_u32(&c);
		col->len = cursor_u32(&c);
		if (c.error)
			return err_set(eb, -EBADMSG, "page ends inside its column headers");
		if (col->codec >= N_CODECS)
			return err_set(
				eb, -ENOTSUP, "column %u has unknown codec %u", i, col->codec);
		if (headers[i].compression > CODEC_ZSTD)
			return err_set(eb, -ENOTSUP, "column %u has unknown compression %u", i,
				headers[i].compression);
		if (headers[i].raw > COLUMN_MAX_RAW ||
			(headers[i].compression == CODEC_PLAIN && headers[i].raw != col->len))
			return err_set(eb, -EBADMSG, "column %u has bad lengths %u and %u", i,
				headers[i].raw, col->len);
	}
	for (unsigned i = 0; i < p->n_columns; i++)
		p->columns[i].data = cursor_take(&c, p->columns[i].len);
	if (c.error || cursor_left(&c))
		return err_set(eb, -EBADMSG, "page columns do not add up to its length");
	return 0;
}

int page_view(const void *bytes, size_t len, uint32_t n_columns, uint32_t n_rows, struct page *ret,
	struct errbuf *eb)
{
	struct header headers[PAGE_MAX_COLUMNS];
	int r;

	*ret = (struct page) {.n_rows = n_rows, .n_columns = n_columns};
	r = parse_headers(bytes, len, ret, headers, eb);
	for (unsigned i = 0; r >= 0 && i < n_columns; i++)
		if (headers[i].compression != CODEC_PLAIN)
			r = err_set(eb, -EBADMSG, "column %u is compressed in place", i);
	return r;
}

/* A ratio needs an earlier column, which one its compressed bytes say: all of them. */
static uint32_t with_bases(const struct page *p, uint32_t wanted)
{
	for (unsigned i = p->n_columns; i-- > 0;)
		if (wanted >> i & 1 && p->columns[i].codec == CODEC_RATIO)
			return wanted | ((1U << i) - 1);
	return wanted;
}

static int load_column(const struct column *from, uint8_t compression, uint8_t *to, size_t n,
	unsigned i, struct errbuf *eb)
{
	if (compression == CODEC_PLAIN)
		memcpy(to, from->data, n);
	else if (ZSTD_decompress(to, n, from->data, from->len) != n)
		return err_set(eb, -EBADMSG, "column %u does not decompress", i);
	return 0;
}

int page_load_columns(const void *bytes, size_t len, uint32_t n_columns, uint32_t n_rows,
	uint32_t wanted, struct page **ret, struct errbuf *eb)
{
	struct page view = {.n_rows = n_rows, .n_columns = n_columns};
	struct header headers[PAGE_MAX_COLUMNS];
	size_t total = sizeof(view);
	_cleanup_free_ struct page *p = NULL;
	uint8_t *to;
	int r = parse_headers(bytes, len, &view, headers, eb);

	if (r < 0)
		return r;
	wanted = with_bases(&view, wanted);
	for (unsigned i = 0; i < n_columns; i++)
		total += wanted >> i & 1 ? headers[i].raw : 0;
	view.allocated_bytes = total;
	p = try_malloc(total);
	if (!p)
		return err_set(eb, -ENOMEM, "out of memory loading a page of %zu bytes", total);
	*p = view;
	to = (uint8_t *)(p + 1);
	for (unsigned i = 0; i < n_columns; i++) {
		struct column *col = &p->columns[i];
		size_t n = wanted >> i & 1 ? headers[i].raw : 0;

		r = n ? load_column(&view.columns[i], headers[i].compression, to, n, i, eb) : 0;
		if (r < 0)
			return r;
		col->data = to;
		col->len = (uint32_t)n;
		to += n;
	}
	*ret = TAKE(p);
	return 0;
}

static int read_runs(struct cursor *c, size_t n, int64_t *v)
{
	for (size_t i = 0; i < n;) {
		uint64_t run = cursor_varint(c);
		uint64_t value = (uint64_t)cursor_svarint(c);

		if (c->error || !run || run > n - i)
			return -EBADMSG;
		for (size_t end = i + run; i < end; i++)
			v[i] = (int64_t)value;
	}
	return 0;
}

/* Values times multipliers; where `base` is given the values are its bytes, else those in v. */
static int read_multipliers(struct cursor *c, size_t n, const uint8_t *base, int64_t *v)
{
	for (size_t i = 0; i < n;) {
		uint64_t run = cursor_varint(c), value = (uint64_t)cursor_svarint(c);

		if (c->error || !run || run > n - i)
			return -EBADMSG;
		if (base)
			for (size_t end = i + run; i < end; i++)
				v[i] = (int64_t)(base[i] * value);
		else
			for (size_t end = i + run; i < end; i++)
				v[i] = (int64_t)((uint64_t)v[i] * value);
	}
	return 0;
}

/* A column whose values are its bytes: varints of one byte each, as counts mostly are. */
static const uint8_t *plain_bytes(const struct column *col, size_t n)
{
	uint8_t bits = 0;

	if (col->codec != CODEC_VARINT || col->len != n)
		return NULL;
	for (size_t i = 0; i < n; i++)
		bits |= col->data[i];
	return bits < 0x80 ? col->data : NULL;
}

/* The column that a ratio refers to: its bytes, or NULL and its values. */
static int read_base(const struct page *p, unsigned column, size_t n, struct cursor *c,
	const uint8_t **ret_bytes, int64_t *ret, struct errbuf *eb)
{
	const unsigned of = cursor_u8(c);

	if (c->error || of >= column)
		return err_set(eb, -EBADMSG, "column %u is a ratio of column %u", column, of);
	*ret_bytes = plain_bytes(&p->columns[of], n);
	return *ret_bytes ? 0 : page_i64(p, of, n, ret, eb);
}

static int read_delta2(struct cursor *c, size_t n, int64_t *v)
{
	uint64_t last = 0, step = 0;

	for (size_t i = 0; i < n; i++) {
		step += (uint64_t)cursor_svarint(c);
		last += step;
		v[i] = (int64_t)last;
	}
	return c->error;
}

static inline uint64_t unzigzag(uint64_t v)
{
	return v >> 1 ^ -(v & 1);
}

/* Codecs of one varint a value, all at once; false: value by value. */
static bool read_together(struct cursor *c, unsigned codec, size_t n, int64_t *values)
{
	uint64_t *v = (uint64_t *)values, last = 0, step = 0;

	if ((codec != CODEC_VARINT && codec != CODEC_ZIGZAG && codec != CODEC_DELTA &&
		    codec != CODEC_WRAP && codec != CODEC_DELTA2) ||
		!varints_u64(c->pos, cursor_left(c), n, v))
		return false;
	c->pos = c->end;
	for (size_t i = 0; codec == CODEC_ZIGZAG && i < n; i++)
		v[i] = unzigzag(v[i]);
	for (size_t i = 0; codec == CODEC_DELTA && i < n; i++)
		v[i] = last += unzigzag(v[i]);
	for (size_t i = 0; codec == CODEC_WRAP && i < n; i++)
		v[i] = last = (uint32_t)(last + v[i]);
	for (size_t i = 0; codec == CODEC_DELTA2 && i < n; i++)
		v[i] = last += step += unzigzag(v[i]);
	return true;
}

static int read_plain(struct cursor *c, unsigned codec, size_t n, int64_t *v)
{
	uint64_t last = 0;
	uint32_t last32 = 0;

	switch (codec) {
	case CODEC_VARINT:
		for (size_t i = 0; i < n; i++)
			v[i] = (int64_t)cursor_varint(c);
		break;
	case CODEC_ZIGZAG:
		for (size_t i = 0; i < n; i++)
			v[i] = cursor_svarint(c);
		break;
	case CODEC_DELTA:
		for (size_t i = 0; i < n; i++)
			v[i] = (int64_t)(last += (uint64_t)cursor_svarint(c));
		break;
	case CODEC_WRAP:
		for (size_t i = 0; i < n; i++)
			v[i] = last32 += (uint32_t)cursor_varint(c);
		break;
	case CODEC_FIXED:
		for (size_t i = 0; i < n; i++)
			v[i] = (int64_t)cursor_u64(c);
		break;
	default: return -EBADMSG;
	}
	return c->error;
}

int page_i64(const struct page *p, unsigned column, size_t n, int64_t *ret, struct errbuf *eb)
{
	const struct column *col = &p->columns[column];
	const uint8_t *base;
	struct cursor c;
	int r;

	if (column >= p->n_columns)
		return err_set(eb, -EBADMSG, "page has %u columns, number %u expected",
			p->n_columns, column);
	c = cursor_of(col->data, col->len);
	if (read_together(&c, col->codec, n, ret))
		return 0;
	switch (col->codec) {
	case CODEC_CONST: {
		int64_t value = cursor_svarint(&c);

		for (size_t i = 0; i < n; i++)
			ret[i] = value;
		r = c.error;
		break;
	}
	case CODEC_RUN: r = read_runs(&c, n, ret); break;
	case CODEC_RATIO:
		r = read_base(p, column, n, &c, &base, ret, eb);
		if (r < 0)
			return r;
		r = read_multipliers(&c, n, base, ret);
		break;
	case CODEC_DELTA2: r = read_delta2(&c, n, ret); break;
	default: r = read_plain(&c, col->codec, n, ret);
	}
	if (r < 0 || cursor_left(&c))
		return err_set(eb, -EBADMSG, "column %u (%s) does not hold %zu values", column,
			codec_name(col->codec), n);
	return 0;
}

/* The two codecs of node and count columns; what is decoded here is checked by the caller: *ret_max is at least the largest. */
static int read_u32(
	const struct column *col, size_t n, uint32_t *v, uint64_t *ret_bits, uint32_t *ret_max)
{
	bool wrap = col->codec == CODEC_WRAP;
	uint64_t bits = 0;
	uint32_t last = 0, max = 0;
	struct cursor c = cursor_of(col->data, col->len);

	if (varints_u32(col->data, col->len, n, v, &bits)) {
		c.pos = c.end;
	} else {
		for (size_t i = 0; i < n; i++) {
			uint64_t x = cursor_varint(&c);

			bits |= x;
			v[i] = (uint32_t)x;
		}
	}
	for (size_t i = 0; wrap && i < n; i++) {
		v[i] = last += v[i];
		max = MAX(max, last);
	}
	*ret_bits = wrap ? 0 : bits;
	*ret_max = wrap ? max : (uint32_t)bits;
	return c.error || cursor_left(&c) ? -EBADMSG : 0;
}

static int read_u32_slowly(
	const struct page *p, unsigned column, size_t n, uint32_t *ret, struct errbuf *eb)
{
	_cleanup_free_ int64_t *wide = try_realloc(NULL, n, sizeof(*wide));
	uint64_t bits = 0;
	int r;

	if (!wide)
		return err_set(eb, -ENOMEM, "out of memory decoding %zu values", n);
	r = page_i64(p, column, n, wide, eb);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		bits |= (uint64_t)wide[i];
		ret[i] = (uint32_t)wide[i];
	}
	return r < 0		   ? r
	       : bits > UINT32_MAX ? err_set(eb, -EBADMSG, "column %u is too wide", column)
				   : 0;
}

int page_u32(const struct page *p, unsigned column, size_t n, uint32_t limit, uint32_t *ret,
	struct errbuf *eb)
{
	const struct column *col = &p->columns[column];
	uint64_t bits = 0;
	uint32_t max = 0;
	int64_t value;
	int r = 0;

	if (column < p->n_columns && (col->codec == CODEC_VARINT || col->codec == CODEC_WRAP)) {
		r = read_u32(col, n, ret, &bits, &max);
		if (r < 0 || bits > UINT32_MAX)
			return err_set(eb, -EBADMSG, "column %u (%s) does not hold %zu values",
				column, codec_name(col->codec), n);
	} else if (page_is_const(p, column, &value)) {
		if (value < 0 || value > UINT32_MAX)
			return err_set(eb, -EBADMSG, "column %u is too wide", column);
		for (size_t i = 0; i < n; i++)
			ret[i] = (uint32_t)value;
		max = (uint32_t)value;
	} else {
		r = read_u32_slowly(p, column, n, ret, eb);
		max = UINT32_MAX;
	}
	if (r < 0)
		return r;
	if (max >= limit) {
		max = 0;
		for (size_t i = 0; i < n; i++)
			max = MAX(max, ret[i]);
	}
	if (n && max >= limit && limit)
		return err_set(
			eb, -EBADMSG, "column %u holds %u, below %u expected", column, max, limit);
	return n && !limit ? err_set(eb, -EBADMSG, "column %u refers to an empty table", column)
			   : 0;
}

int page_bytes(
	const struct page *p, unsigned column, size_t n, const uint8_t **ret, struct errbuf *eb)
{
	const struct column *col = &p->columns[column];

	if (column >= p->n_columns || col->codec != CODEC_BYTES || col->len != n)
		return err_set(eb, -EBADMSG, "column %u does not hold %zu bytes", column, n);
	*ret = col->data;
	return 0;
}

bool page_is_const(const struct page *p, unsigned column, int64_t *ret)
{
	struct cursor c;

	if (column >= p->n_columns || p->columns[column].codec != CODEC_CONST)
		return false;
	c = cursor_of(p->columns[column].data, p->columns[column].len);
	*ret = cursor_svarint(&c);
	return !c.error && !cursor_left(&c);
}
