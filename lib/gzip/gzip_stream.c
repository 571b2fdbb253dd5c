/* SPDX-License-Identifier: Apache-2.0
 *
 * A gzip writer in pieces, over zlib.
 */
#include "lib/gzip/gzip.h"
#include "lib/base/alloc.h"
#include <limits.h>
#include <zlib.h>

enum { OUT_STEP_BYTES = 16384, GZIP_WINDOW_BITS = 15 + 16, MEM_LEVEL = 8 };

struct gzip_stream {
	z_stream z;
	struct bytes *out;
};

struct gzip_stream *gzip_stream_new(int level, struct bytes *out)
{
	struct gzip_stream *s = xcalloc(1, sizeof(*s));
	int r = deflateInit2(
		&s->z, level, Z_DEFLATED, GZIP_WINDOW_BITS, MEM_LEVEL, Z_DEFAULT_STRATEGY);

	if (r != Z_OK)
		err_panic("gzip: deflateInit2 level %d: %d", level, r);
	s->out = out;
	return s;
}

void gzip_stream_freep(struct gzip_stream **s)
{
	if (!*s)
		return;
	deflateEnd(&(*s)->z);
	free(*s);
	*s = NULL;
}

static int pump(struct gzip_stream *s, int flush)
{
	int r;

	do {
		uint8_t *to = bytes_reserve(s->out, OUT_STEP_BYTES);

		if (!to)
			return bytes_error(s->out);
		s->z.next_out = to;
		s->z.avail_out = OUT_STEP_BYTES;
		r = deflate(&s->z, flush);
		ASSERT(r != Z_STREAM_ERROR);
		s->out->len += OUT_STEP_BYTES - s->z.avail_out;
	} while (flush == Z_FINISH ? r != Z_STREAM_END : s->z.avail_out == 0);
	return 0;
}

int gzip_stream_put(struct gzip_stream *s, const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n) {
		uInt step = (uInt)MIN(n, (size_t)INT_MAX);
		int r;

		s->z.next_in = (Bytef *)(uintptr_t)b;
		s->z.avail_in = step;
		r = pump(s, Z_NO_FLUSH);
		if (r < 0)
			return r;
		b += step;
		n -= step;
	}
	return 0;
}

int gzip_stream_finish(struct gzip_stream *s)
{
	s->z.next_in = NULL;
	s->z.avail_in = 0;
	return pump(s, Z_FINISH);
}
