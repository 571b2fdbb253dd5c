/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip over libdeflate for whole buffers. The trailer of a member states its size modulo 2^32; it
 * is used as a hint for the first buffer and to refuse an honest bomb without inflating it, and
 * never trusted beyond that.
 */
#include "lib/gzip/gzip.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include <libdeflate.h>
#include <limits.h>
#include <zlib.h>

enum {
	GZIP_MIN_BYTES = 18, /* header 10, empty block 2 (or more), trailer 8; shorter is cut */
	DEFLATE_MAX_RATIO = 1032, /* 258 bytes from a quarter of a byte, the format's bound */
	GUESS_MIN_BYTES = 4096,
	CHECK_BUFFER_BYTES = 32768,
};

bool gzip_is(const void *p, size_t n)
{
	const uint8_t *b = p;

	return n >= 3 && b[0] == 0x1f && b[1] == 0x8b && b[2] == 8;
}

static void decompressor_freep(struct libdeflate_decompressor **d)
{
	libdeflate_free_decompressor(*d);
}

static void compressor_freep(struct libdeflate_compressor **c)
{
	libdeflate_free_compressor(*c);
}

static uint32_t stated_size(const uint8_t *p, size_t n)
{
	struct cursor c = cursor_of(p + n - 4, 4);

	return cursor_u32(&c);
}

size_t gzip_stated_size(const void *p, size_t n)
{
	return n < GZIP_MIN_BYTES || !gzip_is(p, n) ? 0 : stated_size(p, n);
}

/* libdeflate says only "bad data"; zlib, run once more over a refused member, tells a cut stream
 * from a corrupt one. */
static int bad_member(const uint8_t *p, size_t n, size_t at, size_t max_bytes, struct errbuf *eb)
{
	_cleanup_free_ uint8_t *scratch = xmalloc(CHECK_BUFFER_BYTES);
	z_stream z = {.next_in = (Bytef *)(uintptr_t)(p + at),
		.avail_in = (uInt)MIN(n - at, (size_t)UINT_MAX)};
	int r = inflateInit2(&z, 15 + 16);

	while (r == Z_OK && z.total_out <= max_bytes) {
		z.next_out = scratch;
		z.avail_out = CHECK_BUFFER_BYTES;
		r = inflate(&z, Z_NO_FLUSH);
	}
	inflateEnd(&z);
	if (r == Z_BUF_ERROR)
		return err_set(eb, -EBADMSG, "gzip: truncated after %zu bytes", n);
	return err_set(eb, -EBADMSG, "gzip: corrupt near byte %zu (%s)", at + z.total_in,
		z.msg ? z.msg : "bad data");
}

static int too_big(size_t max_bytes, struct errbuf *eb);

/*
 * The trailer claims more than the cap. A bomb, or a stream cut in the middle whose last bytes are no trailer: inflating into
 * a small window tells, without the memory.
 */
static int check_claim(const uint8_t *p, size_t n, size_t max_bytes, struct errbuf *eb)
{
	_cleanup_free_ uint8_t *scratch = xmalloc(CHECK_BUFFER_BYTES);
	z_stream z = {.next_in = (Bytef *)(uintptr_t)p, .avail_in = (uInt)MIN(n, (size_t)UINT_MAX)};
	int r = inflateInit2(&z, 15 + 16);

	while (r == Z_OK && z.total_out <= max_bytes) {
		z.next_out = scratch;
		z.avail_out = CHECK_BUFFER_BYTES;
		r = inflate(&z, Z_NO_FLUSH);
		if (r == Z_STREAM_END && z.avail_in)
			r = inflateReset(&z);
	}
	inflateEnd(&z);
	if (r == Z_OK || r == Z_STREAM_END)
		return too_big(max_bytes, eb);
	return bad_member(p, n, 0, max_bytes, eb);
}

static int too_big(size_t max_bytes, struct errbuf *eb)
{
	return err_set(eb, -EFBIG, "gzip: more than %zu bytes when decompressed", max_bytes);
}

/* Inflates one member from p[0..n) behind out->len, growing `out` up to max_len in all. *ret_in:
 * bytes of the member. */
static int inflate_member(struct libdeflate_decompressor *d, const uint8_t *p, size_t n,
	size_t max_len, struct bytes *out, size_t *ret_in)
{
	size_t room = max_len - out->len;
	size_t ratio_cap = n > room / DEFLATE_MAX_RATIO ? room : n * DEFLATE_MAX_RATIO;
	size_t guess =
		MIN(MAX((size_t)stated_size(p, n), (size_t)GUESS_MIN_BYTES), MIN(room, ratio_cap));

	for (;;) {
		uint8_t *to = bytes_reserve(out, guess ? guess : 1);
		size_t n_out = 0;
		enum libdeflate_result res;

		if (!to)
			return bytes_error(out);
		res = libdeflate_gzip_decompress_ex(d, p, n, to, guess, ret_in, &n_out);
		if (res == LIBDEFLATE_SUCCESS) {
			out->len += n_out;
			return 0;
		}
		if (res != LIBDEFLATE_INSUFFICIENT_SPACE)
			return -EBADMSG;
		if (guess >= room)
			return -EFBIG;
		guess = guess > room / 4 ? room : guess * 4;
	}
}

int gzip_inflate(const void *p, size_t n, size_t max_bytes, struct bytes *out, struct errbuf *eb)
{
	_cleanup_(decompressor_freep)
	struct libdeflate_decompressor *d = NULL;
	const uint8_t *b = p;
	size_t start_len = out->len, at = 0;
	size_t max_len = max_bytes > SIZE_MAX - start_len ? SIZE_MAX : start_len + max_bytes;

	if (n < GZIP_MIN_BYTES)
		return err_set(eb, -EBADMSG, "gzip: truncated after %zu bytes", n);
	if (!gzip_is(p, n))
		return err_set(eb, -EBADMSG, "gzip: not a gzip stream");
	if (stated_size(b, n) > max_bytes && stated_size(b, n) / DEFLATE_MAX_RATIO <= n)
		return check_claim(b, n, max_bytes, eb);
	d = libdeflate_alloc_decompressor();
	if (!d)
		return err_set(eb, -ENOMEM, "gzip: out of memory");
	while (at < n) {
		size_t used = 0;
		int r;

		if (n - at < GZIP_MIN_BYTES || !gzip_is(b + at, n - at)) {
			out->len = start_len;
			return err_set(eb, -EBADMSG,
				"gzip: %zu bytes of other data after the stream", n - at);
		}
		r = inflate_member(d, b + at, n - at, max_len, out, &used);
		if (r < 0)
			out->len = start_len;
		if (r == -EBADMSG)
			return bad_member(b, n, at, max_bytes, eb);
		if (r == -EFBIG)
			return too_big(max_bytes, eb);
		if (r < 0)
			return err_set(eb, r, "gzip: no memory for the decompressed body");
		at += used;
	}
	return 0;
}

int gzip_deflate(const void *p, size_t n, int level, struct bytes *out, struct errbuf *eb)
{
	_cleanup_(compressor_freep)
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(level);
	size_t bound, len;
	uint8_t *to;

	if (!c)
		return err_set(eb, -EINVAL, "gzip: bad level %d or out of memory", level);
	bound = libdeflate_gzip_compress_bound(c, n);
	to = bytes_reserve(out, bound);
	if (!to)
		return err_set(eb, bytes_error(out), "gzip: no memory for %zu bytes", bound);
	len = libdeflate_gzip_compress(c, p, n, to, bound);
	ASSERT(len > 0);
	out->len += len;
	return 0;
}
