/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of symbol files: a file laid out by hand byte by byte as
 * docs/formats/symbol-file.md says, then every way to break it.
 */
#include "exporter/symfile/symbol_file.h"
#include "lib/base/bytes.h"
#include "lib/base/hash.h"
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

enum { N_SECTIONS = 7, DATA_OFF = 128 + N_SECTIONS * 24 };

static void put_section(struct bytes *b, uint32_t kind, uint32_t item, uint64_t off, uint64_t len)
{
	bytes_put_u32(b, kind);
	bytes_put_u32(b, item);
	bytes_put_u64(b, off);
	bytes_put_u64(b, len);
}

static void put_load(struct bytes *b, uint64_t vaddr, uint64_t off, uint64_t bytes, uint32_t flags)
{
	bytes_put_u64(b, vaddr);
	bytes_put_u64(b, off);
	bytes_put_u64(b, bytes);
	bytes_put_u64(b, bytes);
	bytes_put_u32(b, flags);
	bytes_put_u32(b, 0);
}

static void seal(struct bytes *b)
{
	uint64_t sum = hash_xxh3_seed(b->data + 128, b->len - 128, hash_xxh3(b->data, 120));

	memcpy(b->data + 120, &sum, 8);
}

/* Three functions: [0x1000, 0x1010) alpha, [0x1020, 0x1040) beta, [0x1040, 0x1041) gamma. */
static void lay(struct bytes *b)
{
	static const uint32_t starts[] = {0, 0x20, 0x40, 0}, sizes[] = {0x10, 0x20, 1, 0},
			      names[] = {1, 7, 12, 0};
	static const char strings[] = "\0alpha\0beta\0gamma";
	uint64_t at = DATA_OFF;

	bytes_init(b, NULL, 0);
	bytes_put(b, "SONDESYM", 8);
	bytes_put_u32(b, SYMBOL_VERSION);
	bytes_put_u32(b, N_SECTIONS);
	bytes_put_u64(b, DATA_OFF + 80 + 16 * 3 + 24 + 8);
	bytes_put_u64(b, 0x1000);
	bytes_put_u16(b, ET_DYN);
	bytes_put_u16(b, EM_X86_64);
	bytes_put_u32(b, SYMBOL_HAS_SYMTAB);
	bytes_put_u32(b, 3);
	bytes_put_u32(b, 0);
	bytes_put(b, "0123456789abcdef", 16);
	bytes_put_u32(b, 4);
	bytes_put_u32(b, 0);
	bytes_put(b, "\xde\xad\xbe\xef", 4);
	while (b->len < 128)
		bytes_put_u8(b, 0);
	put_section(b, SYMBOL_LOADS, 40, at, 80);
	put_section(b, SYMBOL_FUNC_STARTS, 4, at + 80, 12);
	put_section(b, SYMBOL_FUNC_SIZES, 4, at + 96, 12);
	put_section(b, SYMBOL_FUNC_NAMES, 4, at + 112, 12);
	put_section(b, SYMBOL_STRINGS, 1, at + 128, sizeof(strings));
	put_section(b, SYMBOL_GO_BUILD_ID, 1, at + 152, 3);
	put_section(b, 999, 7, at, 8); /* of a later version: skipped */
	put_load(b, 0, 0, 0x2000, PF_R);
	put_load(b, 0x1000, 0x1000, 0x1000, PF_R | PF_X);
	bytes_put(b, starts, 16);
	bytes_put(b, sizes, 16);
	bytes_put(b, names, 16);
	bytes_put(b, strings, sizeof(strings));
	while (b->len < DATA_OFF + 152)
		bytes_put_u8(b, 0);
	bytes_put(b, "go!\0\0\0\0\0", 8);
	seal(b);
}

static const char *name_at(const struct symbol_file *s, uint64_t vaddr)
{
	struct symbol_function f;

	return symbol_file_find(s, vaddr, &f) ? f.name : "";
}

static void test_read(void **state)
{
	_cleanup_bytes_ struct bytes b;
	struct symbol_function function;
	struct symbol_file s;
	struct errbuf eb = {{0}};
	uint64_t vaddr;

	(void)state;
	lay(&b);
	if (symbol_file_parse(b.data, b.len, &s, &eb) < 0)
		fail_msg("%s", eb.text);
	assert_int_equal(s.n_functions, 3);
	assert_memory_equal(s.identity.content_id, "0123456789abcdef", 16);
	assert_int_equal(s.identity.build_id_len, 4);
	assert_memory_equal(s.identity.build_id, "\xde\xad\xbe\xef", 4);
	assert_memory_equal(s.go_build_id.data, "go!", 3);
	assert_string_equal(name_at(&s, 0xfff), "");
	assert_string_equal(name_at(&s, 0x1000), "alpha");
	assert_string_equal(name_at(&s, 0x100f), "alpha");
	assert_string_equal(name_at(&s, 0x1010), "");
	assert_string_equal(name_at(&s, 0x1020), "beta");
	assert_string_equal(name_at(&s, 0x103f), "beta");
	assert_string_equal(name_at(&s, 0x1040), "gamma");
	assert_string_equal(name_at(&s, 0x1041), "");
	assert_string_equal(name_at(&s, UINT64_MAX), "");
	assert_true(symbol_file_find(&s, 0x1025, &function));
	assert_true(function.start == 0x1020 && function.size == 0x20);
	/* The executable segment is taken where two hold an offset. */
	assert_true(symbol_file_vaddr(&s, 0x1800, &vaddr) && vaddr == 0x1800);
	assert_true(symbol_file_vaddr(&s, 0x800, &vaddr) && vaddr == 0x800);
	assert_false(symbol_file_vaddr(&s, 0x2000, &vaddr));
}

static void test_every_flipped_bit_and_cut(void **state)
{
	_cleanup_bytes_ struct bytes b;
	struct symbol_file s;

	(void)state;
	lay(&b);
	for (size_t i = 0; i < b.len * 8; i++) {
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
		if (symbol_file_parse(b.data, b.len, &s, NULL) == 0)
			fail_msg("byte %zu bit %zu: taken", i / 8, i % 8);
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	for (size_t n = 0; n < b.len; n++)
		assert_true(symbol_file_parse(b.data, n, &s, NULL) < 0);
}

/* With a checksum that fits, only what is read decides. */
static void test_sealed_lies(void **state)
{
	static const struct lie {
		size_t off;
		uint32_t value;
		int error;
		const char *text;
	} lies[] = {
		{8, SYMBOL_VERSION + 1, -ENOTSUP, "version 11"},
		{12, 33, -EBADMSG, "malformed header"},
		{16, 1, -EBADMSG, "size differs"},
		{40, 2, -EBADMSG, "differ in length"},
		{40, 0x40000000, -EBADMSG, "differ in length"},
		{64, 33, -EBADMSG, "malformed header"},
		{128 + 4, 8, -EBADMSG, "item size"},
		{128 + 8, 0xfffffff8, -EBADMSG, "outside the file"},
		{128 + 8, DATA_OFF + 1, -EBADMSG, "outside the file"},
		{128 + 16, 0xffff, -EBADMSG, "outside the file"},
		{128 + 24, SYMBOL_LOADS, -EBADMSG, "item size or is there twice"},
		{DATA_OFF + 80 + 4, 0x0f, -EBADMSG, "overlap"},
		{DATA_OFF + 80 + 8, 0x20, -EBADMSG, "overlap"},
		{DATA_OFF + 96, 0, -EBADMSG, "overlap"},
		{DATA_OFF + 96 + 4, 0xffffffff, -EBADMSG, "overlap"},
		{DATA_OFF + 112, 19, -EBADMSG, "outside the strings"},
		{DATA_OFF + 128 + 15, 0x61616161, -EBADMSG, "NUL"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		_cleanup_bytes_ struct bytes b;
		struct errbuf eb = {{0}};
		struct symbol_file s;

		lay(&b);
		memcpy(b.data + lies[i].off, &lies[i].value, 4);
		seal(&b);
		assert_int_equal(symbol_file_parse(b.data, b.len, &s, &eb), lies[i].error);
		if (!strstr(eb.text, lies[i].text))
			fail_msg("lie %zu: '%s'", i, eb.text);
	}
}

static void test_map(void **state)
{
	_cleanup_close_ int fd = memfd_create("symbols", MFD_CLOEXEC);
	_cleanup_bytes_ struct bytes b;
	struct symbol_file s;

	(void)state;
	lay(&b);
	assert_true(symbol_file_map(fd, &s, NULL) < 0);
	assert_int_equal(write(fd, b.data, b.len), (ssize_t)b.len);
	assert_int_equal(symbol_file_map(fd, &s, NULL), 0);
	assert_string_equal(name_at(&s, 0x1020), "beta");
	symbol_file_unmap(&s);
	assert_null(s.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_every_flipped_bit_and_cut),
		cmocka_unit_test(test_sealed_lies),
		cmocka_unit_test(test_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
