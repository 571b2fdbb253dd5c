/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip from targets: any bytes give an error or at most the cap; what libdeflate accepts, zlib accepts with equal output.
 */
#include "lib/gzip/gzip.h"
#include "lib/base/err.h"
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CAP = 1 << 16 };

/* What zlib refuses and libdeflate takes: it skips the header's checksum and decodes the codes that deflate leaves undefined (lengths
 * 286 and 287, distances 30 and 31). The checksum of the output holds in either case. */
static bool libdeflate_takes(const char *msg)
{
	return !strcmp(msg, "header crc mismatch") || !strcmp(msg, "invalid literal/length code") ||
	       !strcmp(msg, "invalid distance code");
}

/* The same members through zlib; the length of the output, −1 when it refuses them, −2 when libdeflate may not. */
static long by_zlib(const uint8_t *data, size_t size, uint8_t out[CAP])
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)data,
		.avail_in = (uInt)size,
		.next_out = out,
		.avail_out = CAP};
	long total = -1;
	int r = inflateInit2(&z, 15 + 16);

	while (r == Z_OK) {
		r = inflate(&z, Z_NO_FLUSH);
		if (r == Z_STREAM_END && !z.avail_in)
			total = (long)CAP - z.avail_out;
		else if (r == Z_STREAM_END)
			r = inflateReset(&z);
	}
	if (r == Z_DATA_ERROR && z.msg && libdeflate_takes(z.msg))
		total = -2;
	inflateEnd(&z);
	return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t other[CAP];
	struct bytes out;
	struct errbuf eb = {0};
	int r;

	bytes_init(&out, NULL, 0);
	bytes_put_str(&out, "kept");
	r = gzip_inflate(data, size, CAP, &out, &eb);
	if (r < 0) {
		ASSERT(r == -EBADMSG || r == -EFBIG);
		ASSERT(eb.text[0] && out.len == 4);
	} else {
		long n = by_zlib(data, size, other);

		ASSERT(n == -2 || (n >= 0 && (size_t)n == out.len - 4 && (size_t)n <= CAP));
		ASSERT(n <= 0 || !memcmp(out.data + 4, other, (size_t)n));
	}
	ASSERT(!memcmp(out.data, "kept", 4));
	bytes_done(&out);
	return 0;
}
