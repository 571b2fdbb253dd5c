/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip: round trips, members, caps, and what truncated and corrupt streams are called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "lib/gzip/gzip.h"
#include "lib/base/alloc.h"
#include <string.h>

static void fill(struct bytes *b, size_t n, unsigned step)
{
	for (size_t i = 0; i < n; i++)
		bytes_put_u8(b, (uint8_t)(i * step >> 3));
}

static void pack(struct bytes *out, const struct bytes *in, int level)
{
	assert_int_equal(gzip_deflate(in->data, in->len, level, out, NULL), 0);
}

static void test_round_trip(void **state)
{
	static const size_t sizes[] = {0, 1, 100, 65536, 1 << 20};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_bytes_ struct bytes in = {0}, gz = {0}, out = {0};

		fill(&in, sizes[i], 7);
		pack(&gz, &in, GZIP_LEVEL_FAST);
		assert_true(gzip_is(gz.data, gz.len));
		assert_int_equal(gzip_inflate(gz.data, gz.len, 1 << 20, &out, NULL), 0);
		assert_int_equal(out.len, in.len);
		assert_true(!in.len || !memcmp(out.data, in.data, in.len));
	}
}

static void test_members(void **state)
{
	_cleanup_bytes_ struct bytes a = {0}, b = {0}, gz = {0}, out = {0};

	(void)state;
	fill(&a, 100000, 3);
	fill(&b, 10, 5);
	pack(&gz, &a, 1);
	pack(&gz, &b, 6);
	bytes_put_str(&out, "before");
	assert_int_equal(gzip_inflate(gz.data, gz.len, 1 << 20, &out, NULL), 0);
	assert_int_equal(out.len, 6 + a.len + b.len);
	assert_memory_equal(out.data + 6, a.data, a.len);
	assert_memory_equal(out.data + 6 + a.len, b.data, b.len);
}

static void expect_error(const struct bytes *gz, size_t n, size_t max, int code, const char *part)
{
	_cleanup_bytes_ struct bytes out = {0};
	struct errbuf eb = {0};
	int r = gzip_inflate(gz->data, n, max, &out, &eb);

	assert_int_equal(out.len, 0);
	if (r != code || !strstr(eb.text, part))
		fail_msg("%d \"%s\", expected %d \"%s\"", r, eb.text, code, part);
}

static void test_errors(void **state)
{
	_cleanup_bytes_ struct bytes in = {0}, gz = {0}, other = {0};

	(void)state;
	fill(&in, 200000, 7);
	pack(&gz, &in, 6);
	for (size_t n = 18; n < gz.len; n += 1 + gz.len / 50)
		expect_error(&gz, n, 1 << 20, -EBADMSG, "truncated after");
	expect_error(&gz, 5, 1 << 20, -EBADMSG, "truncated after 5 bytes");
	gz.data[gz.len / 2] ^= 0x55;
	expect_error(&gz, gz.len, 1 << 20, -EBADMSG, "gzip: ");
	gz.data[gz.len / 2] ^= 0x55;
	gz.data[gz.len - 6] ^= 1; /* the checksum */
	expect_error(&gz, gz.len, 1 << 20, -EBADMSG, "corrupt");
	gz.data[gz.len - 6] ^= 1;
	bytes_put_str(&other, "this is no gzip stream");
	expect_error(&other, other.len, 1 << 20, -EBADMSG, "not a gzip stream");
	bytes_put_str(&gz, "trailing bytes that are no member");
	expect_error(&gz, gz.len, 1 << 20, -EBADMSG, "33 bytes of other data after the stream");
}

/* A cap holds whatever the trailer claims, and memory stays below it. */
static void test_bomb(void **state)
{
	_cleanup_bytes_ struct bytes in = {0}, gz = {0}, out = {0};
	struct budget budget;
	struct errbuf eb = {0};

	(void)state;
	memset(bytes_reserve(&in, 64 << 20), 0, 64 << 20);
	in.len = 64 << 20;
	pack(&gz, &in, 9);
	expect_error(&gz, gz.len, 1 << 20, -EFBIG, "more than 1048576 bytes when decompressed");
	/* the trailer lies: 1000 bytes */
	gz.data[gz.len - 4] = 0xe8;
	gz.data[gz.len - 3] = 3;
	gz.data[gz.len - 2] = gz.data[gz.len - 1] = 0;
	budget_init(&budget, NULL, "scrape", "--scrape.max-memory", 4 << 20);
	bytes_init(&out, &budget, 0);
	assert_int_equal(gzip_inflate(gz.data, gz.len, 1 << 20, &out, &eb), -EFBIG);
	assert_true(budget.peak_bytes <= 2 << 20);
	bytes_done(&out);
	/* the budget is smaller than the cap */
	budget_init(&budget, NULL, "scrape", "--scrape.max-memory", 1 << 20);
	bytes_init(&out, &budget, 0);
	assert_int_equal(gzip_inflate(gz.data, gz.len, 32 << 20, &out, &eb), -ENOMEM);
	bytes_done(&out);
	assert_int_equal(budget.used_bytes, 0);
}

/* Every allocation that fails is an error, never a crash or a wrong answer. */
static void test_allocation_failures(void **state)
{
	_cleanup_bytes_ struct bytes in = {0}, gz = {0};

	(void)state;
	fill(&in, 100000, 7);
	pack(&gz, &in, 1);
	for (unsigned n = 1; n < 4; n++) {
		_cleanup_bytes_ struct bytes out = {0};
		int r;

		alloc_fail_after(n);
		r = gzip_inflate(gz.data, gz.len, 1 << 20, &out, NULL);
		alloc_fail_after(0);
		assert_true(r == -ENOMEM || (r == 0 && out.len == in.len));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_allocation_failures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
