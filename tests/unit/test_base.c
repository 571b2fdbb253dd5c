/* SPDX-License-Identifier: Apache-2.0
 *
 * lib/base: buffers, cursor, arena and budget, tables, text, JSON, virtual clock, file helpers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lib/base/alloc.h"
#include "lib/base/arena.h"
#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/cursor.h"
#include "lib/base/fs.h"
#include "lib/base/hash.h"
#include "lib/json/write.h"
#include "lib/base/str.h"
#include "lib/base/table.h"

static void test_varint_round_trip(void **state)
{
	static const uint64_t values[] = {
		0, 1, 127, 128, 300, 1ULL << 32, UINT64_MAX - 1, UINT64_MAX};
	_cleanup_bytes_ struct bytes b = {.data = NULL};
	struct cursor c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		bytes_put_varint(&b, values[i]);
		bytes_put_svarint(&b, (int64_t)values[i]);
	}
	bytes_put_u16(&b, 0x1234);
	c = cursor_of(b.data, b.len);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		assert_true(cursor_varint(&c) == values[i]);
		assert_true(cursor_svarint(&c) == (int64_t)values[i]);
	}
	assert_int_equal(cursor_u16(&c), 0x1234);
	assert_int_equal(c.error, 0);
	assert_int_equal(cursor_left(&c), 0);
	assert_int_equal(cursor_u8(&c), 0);
	assert_int_equal(c.error, -EBADMSG);
}

static void test_cursor_refuses(void **state)
{
	static const uint8_t too_long[] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
	static const uint8_t cut[] = {0x80};
	struct cursor c = cursor_of(too_long, sizeof(too_long)), sub;

	(void)state;
	cursor_varint(&c);
	assert_int_equal(c.error, -EBADMSG);
	c = cursor_of(cut, sizeof(cut));
	cursor_varint(&c);
	assert_int_equal(c.error, -EBADMSG);
	c = cursor_of(cut, sizeof(cut));
	sub = cursor_sub(&c, 2);
	assert_int_equal(sub.error, -EBADMSG);
	assert_int_equal(cursor_left(&sub), 0);
}

static void test_budget_is_a_tree(void **state)
{
	struct budget root, child;
	struct errbuf eb = {.text = ""};

	(void)state;
	budget_init(&root, NULL, "process", "--memory", 1000);
	budget_init(&child, &root, "query", "--query.max-bytes", 600);
	assert_int_equal(budget_charge(&child, 600, &eb), 0);
	assert_int_equal(budget_charge(&child, 1, &eb), -ENOMEM);
	assert_non_null(strstr(eb.text, "--query.max-bytes"));
	assert_int_equal(budget_charge(&root, 401, &eb), -ENOMEM);
	assert_int_equal(root.used_bytes, 600);
	budget_release(&child, 600);
	assert_int_equal(root.used_bytes, 0);
	assert_int_equal(child.peak_bytes, 600);
	assert_int_equal(child.refused_total, 1);
}

static void test_growth_in_a_budget(void **state)
{
	struct budget b;
	struct errbuf eb = {};
	uint64_t *items = NULL;
	size_t cap = 0;

	(void)state;
	budget_init(&b, NULL, "query", "--query.max-bytes", 1000);
	assert_int_equal(alloc_grow_in(&b, &items, &cap, 3, sizeof(*items), &eb), 0);
	assert_true(cap >= 3 && b.used_bytes == cap * sizeof(*items));
	items[2] = 7;
	assert_int_equal(alloc_grow_in(&b, &items, &cap, 100, sizeof(*items), &eb), -ENOMEM);
	assert_non_null(strstr(eb.text, "--query.max-bytes"));
	assert_int_equal(alloc_grow_in(&b, &items, &cap, 60, sizeof(*items), &eb), 0);
	assert_int_equal(items[2], 7);
	alloc_fail_after(1);
	b.limit_bytes = 0;
	assert_int_equal(alloc_grow_in(&b, &items, &cap, 1000, sizeof(*items), &eb), -ENOMEM);
	alloc_fail_after(0);
	assert_int_equal(b.used_bytes, cap * sizeof(*items));
	assert_int_equal(
		alloc_grow_in(&b, &items, &cap, SIZE_MAX / 4, sizeof(*items), &eb), -ENOMEM);
	budget_free(&b, items, cap, sizeof(*items));
	assert_int_equal(b.used_bytes, 0);
}

static void test_arena_sticks_at_its_budget(void **state)
{
	_cleanup_arena_ struct arena a;
	struct budget b;
	struct errbuf eb = {.text = ""};

	(void)state;
	budget_init(&b, NULL, "test", NULL, 64 << 10);
	arena_init(&a, &b);
	for (int i = 0; i < 10; i++)
		assert_non_null(memset(arena_alloc(&a, 1000), i, 1000));
	assert_null(arena_alloc(&a, 1 << 20));
	assert_null(arena_alloc(&a, 1));
	assert_int_equal(arena_error(&a, &eb), -ENOMEM);
	arena_reset(&a);
	assert_int_equal(arena_error(&a, NULL), 0);
	assert_string_equal(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
	assert_null(arena_alloc_array(&a, SIZE_MAX / 2, 16));
	arena_done(&a);
	assert_int_equal(b.used_bytes, 0);
}

static void test_table_against_array(void **state)
{
	enum { KEYS = 512, STEPS = 20000 };
	static uint64_t expect[KEYS];
	_cleanup_table_ struct table t;
	uint64_t x = 88172645463325252ULL, k, v, *p;
	size_t n = 0, pos = 0;

	(void)state;
	table_init(&t, NULL);
	for (int i = 0; i < STEPS; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		k = x % KEYS;
		if (x & 0x10000) {
			p = table_insert(&t, k, NULL);
			assert_non_null(p);
			*p = expect[k] = x | 1;
		} else {
			assert_int_equal(table_remove(&t, k), expect[k] != 0);
			expect[k] = 0;
		}
	}
	for (k = 0; k < KEYS; k++) {
		p = table_find(&t, k);
		assert_int_equal(p != NULL, expect[k] != 0);
		if (p) {
			assert_true(*p == expect[k]);
			n++;
		}
	}
	assert_int_equal(t.n_used, n);
	while (table_next(&t, &pos, &k, &v)) {
		assert_true(v == expect[k]);
		n--;
	}
	assert_int_equal(n, 0);
}

static void test_interner_ids_are_dense(void **state)
{
	_cleanup_interner_ struct interner t;
	char name[32];
	bool is_new;

	(void)state;
	interner_init(&t, NULL);
	assert_int_equal(interner_find(&t, "x", 1), INTERNER_NONE);
	for (uint32_t i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "string-%u", i);
		assert_int_equal(interner_add(&t, name, strlen(name), &is_new), i);
		assert_true(is_new);
	}
	for (uint32_t i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "string-%u", i);
		assert_int_equal(interner_add(&t, name, strlen(name), &is_new), i);
		assert_false(is_new);
		assert_string_equal(interner_str(&t, i), name);
	}
	assert_int_equal(interner_add(&t, "", 0, &is_new), 5000);
}

static void test_nth_allocation_fails(void **state)
{
	_cleanup_interner_ struct interner t;
	char name[32];

	(void)state;
	interner_init(&t, NULL);
	for (uint32_t i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		alloc_fail_after(1);
		if (interner_add(&t, name, strlen(name), NULL) == INTERNER_NONE) {
			alloc_fail_after(0);
			assert_int_equal(interner_find(&t, name, strlen(name)), INTERNER_NONE);
			assert_int_equal(interner_add(&t, name, strlen(name), NULL), i);
		}
		alloc_fail_after(0);
	}
	assert_int_equal(t.n, 200);
}

static void test_doubles(void **state)
{
	static const char *const wrong[] = {"", " 1", "\t1", "\n1", "\v1", "1 ", "1x"};
	double v = 0;

	(void)state;
	assert_int_equal(str_parse_double("-1.5e3", &v, NULL), 0);
	assert_true(v == -1500);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(str_parse_double(wrong[i], &v, NULL), -EINVAL);
}

static void test_base64(void **state)
{
	static const struct {
		const char *text, *ret; /* NULL: it is none */
	} cases[] = {
		{"", ""},
		{"QQ==", "A"},
		{"QQ", "A"},
		{"QUI=", "AB"},
		{" QU\nJD ", "ABC"},
		{"QUJDRA==", "ABCD"},
		{"Q", NULL}, /* six bits are no byte */
		{"QUJDR", NULL},
		{"QQ=", NULL}, /* padded to three */
		{"QUI==", NULL},
		{"====", NULL},
		{"Q=Q=", NULL},
		{"QU*D", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes out = {0};
		int r = str_decode_base64(cases[i].text, strlen(cases[i].text), &out);

		assert_int_equal(r, cases[i].ret ? 0 : -EINVAL);
		if (!cases[i].ret)
			continue;
		assert_int_equal(out.len, strlen(cases[i].ret));
		assert_memory_equal(out.len ? (const char *)out.data : "", cases[i].ret, out.len);
	}
}

static void test_durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ms; /* -1: refused */
		const char *back;
	} cases[] = {
		{"0", 0, "0s"},
		{"15s", 15000, "15s"},
		{"1h30m", 5400000, "1h30m"},
		{"90m", 5400000, "1h30m"},
		{"1d", 86400000, "1d"},
		{"2w", 1209600000, "2w"},
		{"100ms", 100, "100ms"},
		{"1y", 31536000000, "1y"},
		{"1.5d", -1, NULL},
		{"1", -1, NULL},
		{"1m1h", -1, NULL},
		{"1s1s", -1, NULL},
		{"-5s", -1, NULL},
		{"", -1, NULL},
		{"300y", -1, NULL},
		{"99999999999999999999s", -1, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {.text = ""};
		char back[64];
		int64_t ms = -1;
		int r = str_parse_duration_ms(cases[i].text, &ms, &eb);

		if (cases[i].ms < 0) {
			assert_int_equal(r, -EINVAL);
			assert_true(eb.text[0]);
			continue;
		}
		assert_int_equal(r, 0);
		assert_true(ms == cases[i].ms);
		str_format_duration_ms(ms, back);
		assert_string_equal(back, cases[i].back);
	}
}

static void test_go_durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ns; /* -1: refused */
	} cases[] = {
		{"0", 0},
		{"0s", 0},
		{"100ms", 100 * NS_PER_MS},
		{"1.5s", 1500 * NS_PER_MS},
		{".5s", 500 * NS_PER_MS},
		{"1.s", NS_PER_S},
		{"1h2m3s4ms5us6ns", 3723004005006},
		{"3s1h", 3603 * NS_PER_S},
		{"500us", 500000},
		{"500µs", 500000},
		{"500μs", 500000},
		{"0.3s", 300 * NS_PER_MS},
		{"0.0000000001s", 0},
		{"2540400h", 9145440000000000000},
		{"2562048h", -1},
		{"99999999999999999999s", -1},
		{"", -1},
		{"1", -1},
		{"s", -1},
		{".s", -1},
		{"-1s", -1},
		{"1d", -1},
		{"1s ", -1},
		{"1.5", -1},
		{"1..5s", -1},
		{"00", -1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct errbuf eb = {0};
		int64_t ns = -1;
		int r = str_parse_go_duration_ns(cases[i].text, &ns, &eb);

		if (r == 0 ? ns != cases[i].ns : cases[i].ns != -1 || !eb.text[0])
			fail_msg("\"%s\": %d, %lld: %s", cases[i].text, r, (long long)ns, eb.text);
	}
}

static void test_sizes(void **state)
{
	uint64_t v;

	(void)state;
	assert_int_equal(str_parse_bytes("32MB", &v, NULL), 0);
	assert_int_equal(v, 32 << 20);
	assert_int_equal(str_parse_bytes("1KiB", &v, NULL), 0);
	assert_int_equal(v, 1024);
	assert_int_equal(str_parse_bytes("0", &v, NULL), 0);
	assert_int_equal(str_parse_bytes("1.5KB", &v, NULL), 0);
	assert_int_equal(v, 1536);
	assert_int_equal(str_parse_bytes("0.25GiB", &v, NULL), 0);
	assert_int_equal(v, 1 << 28);
	assert_int_equal(str_parse_bytes("15.9999999999999999999999EB", &v, NULL), 0);
	assert_true(v > UINT64_MAX - 1024);
	assert_int_equal(str_parse_bytes("16.0EB", &v, NULL), -EINVAL);
	assert_int_equal(str_parse_bytes("1.MB", &v, NULL), -EINVAL);
	assert_int_equal(str_parse_bytes(".5MB", &v, NULL), -EINVAL);
	assert_int_equal(str_parse_bytes("1.5.5MB", &v, NULL), -EINVAL);
	assert_int_equal(str_parse_bytes("0.5", &v, NULL), -EINVAL);
	assert_int_equal(str_parse_bytes("100", &v, NULL), -EINVAL);
	assert_int_equal(str_parse_bytes("1QB", &v, NULL), -EINVAL);
	assert_int_equal(str_parse_bytes("99999999EB", &v, NULL), -EINVAL);
}

static void test_utf8(void **state)
{
	(void)state;
	assert_true(str_is_utf8("aß€😀", strlen("aß€😀")));
	assert_false(str_is_utf8("\xc0\x80", 2));
	assert_false(str_is_utf8("\xed\xa0\x80", 3));
	assert_false(str_is_utf8("\xf4\x90\x80\x80", 4));
	assert_false(str_is_utf8("\xe2\x82", 2));
	assert_int_equal(str_utf8_fit("aß€😀", 10, 10), 10);
	assert_int_equal(str_utf8_fit("aß€😀", 10, 9), 6);
	assert_int_equal(str_utf8_fit("aß€😀", 10, 6), 6);
	assert_int_equal(str_utf8_fit("aß€😀", 10, 5), 3);
	assert_int_equal(str_utf8_fit("ß", 2, 1), 0);
}

static void test_json_text(void **state)
{
	_cleanup_bytes_ struct bytes b = {.data = NULL};
	struct json j = json_to(&b);

	(void)state;
	json_object_begin(&j);
	json_kv_string(&j, "a", "x\"\\\n\x01\xff€");
	json_key(&j, "b");
	json_array_begin(&j);
	json_int(&j, -1);
	json_double(&j, 0.1);
	json_double(&j, 1e300 * 1e300);
	json_bool(&j, true);
	json_array_end(&j);
	json_kv_uint(&j, "c", UINT64_MAX);
	json_object_end(&j);
	bytes_put_u8(&b, 0);
	assert_string_equal((char *)b.data,
		"{\"a\":\"x\\\"\\\\\\n\\u0001\xef\xbf\xbd€\",\"b\":[-1,0.1,null,true],\"c\":"
		"18446744073709551615}");
}

/* Every byte at every place of a string whose other bytes stand for themselves. */
static void test_json_every_byte(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 256; c++)
		for (unsigned at = 0; at < 19; at++) {
			_cleanup_bytes_ struct bytes got = {}, want = {};
			struct json j = json_to(&got);
			char text[19];

			memset(text, at % 2 ? '~' : ' ', sizeof(text));
			text[at] = (char)c;
			json_string_n(&j, text, sizeof(text));
			bytes_put_u8(&want, '"');
			bytes_put(&want, text, at);
			if (c == '\n')
				bytes_put_str(&want, "\\n");
			else if (c == '"' || c == '\\')
				bytes_printf(&want, "\\%c", c);
			else if (c < ' ' || c == 0x7f)
				bytes_printf(&want, "\\u%04x", c);
			else if (c < 0x80)
				bytes_put_u8(&want, (uint8_t)c);
			else
				bytes_put_str(&want, "\xef\xbf\xbd");
			bytes_put(&want, text + at + 1, sizeof(text) - at - 1);
			bytes_put_u8(&want, '"');
			assert_int_equal(got.len, want.len);
			assert_memory_equal(got.data, want.data, want.len);
		}
}

static void check_decimal(uint64_t v)
{
	_cleanup_bytes_ struct bytes got = {};
	char want[96];

	bytes_print_uint(&got, v);
	bytes_put_u8(&got, ' ');
	bytes_print_int(&got, (int64_t)v);
	bytes_put_u8(&got, 0);
	snprintf(want, sizeof(want), "%" PRIu64 " %" PRId64, v, (int64_t)v);
	assert_string_equal((char *)got.data, want);
}

static void test_decimal(void **state)
{
	(void)state;
	for (uint64_t power = 1, up = 0; up < 20; up++, power *= 10)
		for (uint64_t step = 0; step < 3; step++) {
			check_decimal(power + step - 1);
			check_decimal(power * 7 + step - 1);
			check_decimal(-power - step + 1);
		}
	for (unsigned bit = 0; bit < 64; bit++) {
		check_decimal(1ULL << bit);
		check_decimal((1ULL << bit) - 1);
	}
}

/* Keys that differ little fall evenly into the places of a table, whichever bits choose them. */
static void test_hash_words(void **state)
{
	enum { N = 1 << 16 };
	const unsigned shifts[] = {0, 16, 32, 48};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(shifts); k++) {
		_cleanup_free_ uint8_t *hit = xcalloc(N, 1);
		size_t n_hit = 0;

		for (uint64_t i = 0; i < N; i++) {
			const uint64_t key[] = {i % 64, 7, i / 64, 0, 0};
			uint64_t place =
				hash_words(key, ARRAY_SIZE(key), 42) >> shifts[k] & (N - 1);

			n_hit += !hit[place];
			hit[place] = 1;
		}
		/* 1 - 1/e of them, were it chance */
		assert_in_range(n_hit, N * 62 / 100, N * 65 / 100);
	}
}

static void test_known_hashes(void **state)
{
	uint8_t d[32];

	(void)state;
	assert_int_equal(hash_crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(hash_crc32c(hash_crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
	hash_md5("abc", 3, d);
	assert_int_equal(d[0], 0x90);
	hash_sha1("abc", 3, d);
	assert_memory_equal(d,
		"\xa9\x99\x3e\x36\x47\x06\x81\x6a\xba\x3e\x25\x71\x78\x50\xc2\x6c\x9c\xd0\xd8\x9d",
		20);
	hash_sha256("abc", 3, d);
	assert_int_equal(d[0], 0xba);
	assert_true(hash_xxh3("", 0) == 0x2d06800538d394c2ULL);
}

static void test_virtual_clock(void **state)
{
	struct clock_virtual v;

	(void)state;
	clock_virtual_init(&v, 1000 * NS_PER_S);
	v.clock.sleep_until_ns(&v.clock, 5 * NS_PER_S);
	assert_true(clock_monotonic_ns(&v.clock) == 5 * NS_PER_S);
	assert_true(clock_realtime_ns(&v.clock) == 1004 * NS_PER_S);
	clock_virtual_step(&v, -NS_PER_S);
	assert_true(clock_realtime_ns(&v.clock) == 1003 * NS_PER_S);
	assert_true(clock_boottime_ns(&v.clock) == 5 * NS_PER_S);
}

static void test_files(void **state)
{
	char dir[] = "/tmp/sonde-test-base.XXXXXX";
	_cleanup_bytes_ struct bytes b = {.data = NULL};
	struct errbuf eb = {.text = ""};
	char path[128];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a/b/c", dir);
	assert_int_equal(fs_make_dirs(&fs_system, path, 0755), 0);
	assert_int_equal(fs_read_file(&fs_system, path, 10, &b, &eb), -EISDIR);
	snprintf(path, sizeof(path), "%s/a/b/c/file", dir);
	assert_int_equal(fs_write_file(&fs_system, path, "hello", 5, 0644, &eb), 0);
	assert_int_equal(fs_read_file(&fs_system, path, 4, &b, &eb), -EFBIG);
	bytes_reset(&b);
	assert_int_equal(fs_read_file(&fs_system, path, 5, &b, &eb), 0);
	assert_int_equal(b.len, 5);
	assert_int_equal(fs_remove_all(&fs_system, dir), 0);
	assert_int_equal(fs_remove_all(&fs_system, dir), 0);
}

/* What is beneath a directory, by whatever way that does not lead out of it. */
static void test_files_beneath(void **state)
{
	static const struct {
		const char *path;
		int want;
	} cases[] = {
		{"in/file", 0},
		{"in/../in/file", 0},
		{"in/inside", 0},
		{"in/none", -ENOENT},
		{"", -ENOENT},
		{"in", -ENOENT},
		{"in/file/", -ENOENT},
		{"../secret", -ENOENT},
		{"in/../../secret", -ENOENT},
		{"/etc/passwd", -ENOENT},
		{"in/outside", -ENOENT},
		{"in/root/etc/passwd", -ENOENT},
		{"in/loop", -ENOENT},
		{"in/pipe", -ENOENT},
	};
	char top[] = "/tmp/sonde-test-base.XXXXXX", path[128], dir[64];
	_cleanup_bytes_ struct bytes b = {.data = NULL};
	struct errbuf eb = {.text = ""};

	(void)state;
	assert_non_null(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/dir", top);
	snprintf(path, sizeof(path), "%s/in", dir);
	assert_int_equal(fs_make_dirs(&fs_system, path, 0755), 0);
	snprintf(path, sizeof(path), "%s/secret", top);
	assert_int_equal(fs_write_file(&fs_system, path, "secret", 6, 0644, &eb), 0);
	snprintf(path, sizeof(path), "%s/in/file", dir);
	assert_int_equal(fs_write_file(&fs_system, path, "hello", 5, 0644, &eb), 0);
	snprintf(path, sizeof(path), "%s/in/inside", dir);
	assert_int_equal(symlink("../in/file", path), 0);
	snprintf(path, sizeof(path), "%s/in/outside", dir);
	assert_int_equal(symlink("../../secret", path), 0);
	snprintf(path, sizeof(path), "%s/in/root", dir);
	assert_int_equal(symlink("/", path), 0);
	snprintf(path, sizeof(path), "%s/in/loop", dir);
	assert_int_equal(symlink("loop", path), 0);
	snprintf(path, sizeof(path), "%s/in/pipe", dir);
	assert_int_equal(mkfifo(path, 0644), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r;

		bytes_reset(&b);
		r = fs_read_beneath(dir, cases[i].path, 5, &b, &eb);
		if (r != cases[i].want || b.len != (r ? 0 : 5))
			fail_msg("\"%s\": %d, %zu bytes", cases[i].path, r, b.len);
	}
	assert_int_equal(fs_read_beneath(dir, "in/file", 4, &b, &eb), -EFBIG);
	assert_int_equal(fs_read_beneath("/nonexistent", "file", 4, &b, &eb), -ENOENT);
	assert_int_equal(fs_remove_all(&fs_system, top), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_varint_round_trip),
		cmocka_unit_test(test_cursor_refuses),
		cmocka_unit_test(test_budget_is_a_tree),
		cmocka_unit_test(test_growth_in_a_budget),
		cmocka_unit_test(test_arena_sticks_at_its_budget),
		cmocka_unit_test(test_table_against_array),
		cmocka_unit_test(test_interner_ids_are_dense),
		cmocka_unit_test(test_nth_allocation_fails),
		cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_base64),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_go_durations),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_json_text),
		cmocka_unit_test(test_json_every_byte),
		cmocka_unit_test(test_decimal),
		cmocka_unit_test(test_known_hashes),
		cmocka_unit_test(test_hash_words),
		cmocka_unit_test(test_virtual_clock),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_files_beneath),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
