/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of symbol files: a file laid out by hand byte by byte as
 * docs/formats/symbol-file.md says, then every way to break it.
 */
#include "exporter/symfile/symbol_runtime.h"
#include "exporter/symfile/symbol_lines.h"
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

/* A mapping begins and ends at pages, wherever its segment does. */
static void test_pages_of_segments(void **state)
{
	static const struct {
		const char *what;
		struct symbol_load load;
		uint64_t start, limit, file_off;
	} cases[] = {
		{"GNU ld", {0x1000, 0x1000, 0x1b5, 0x1b5, PF_X}, 0x1000, 0x2000, 0x1000},
		{"lld", {0x201570, 0x570, 0x189, 0x189, PF_X}, 0x201000, 0x202000, 0},
		{"to the last byte", {0x1640, 0x640, 0x9c0, 0x9c0, PF_X}, 0x1000, 0x2000, 0},
		{"one more", {0x1640, 0x640, 0x9c1, 0x9c1, PF_X}, 0x1000, 0x3000, 0},
		{"no kernel's", {0x1640, 0x650, 0x10, 0x10, PF_X}, 0x1640, 0x2000, 0x650},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t start, limit, file_off;

		symbol_load_pages(&cases[i].load, &start, &limit, &file_off);
		if (start != cases[i].start || limit != cases[i].limit ||
			file_off != cases[i].file_off)
			fail_msg("%s: %#llx to %#llx at %#llx", cases[i].what,
				(unsigned long long)start, (unsigned long long)limit,
				(unsigned long long)file_off);
	}
}

/* Bytes of the file beside a segment that come with its pages. */
static void test_beside_a_segment(void **state)
{
	_cleanup_bytes_ struct bytes b = {0};
	struct symbol_file s = {.n_loads = 3};
	uint64_t vaddr;

	(void)state;
	put_load(&b, 0, 0, 0x540, PF_R);
	put_load(&b, 0x1640, 0x640, 0x100, PF_R | PF_X);
	put_load(&b, 0x27e0, 0x7e0, 0x10, PF_R | PF_W);
	s.loads = (struct symbol_range) {b.data, b.len};
	assert_true(symbol_file_vaddr(&s, 0x640, &vaddr) && vaddr == 0x1640);
	assert_true(symbol_file_vaddr(&s, 0x600, &vaddr) && vaddr == 0x1600);
	assert_true(symbol_file_vaddr(&s, 0xfff, &vaddr) && vaddr == 0x1fff);
	assert_true(symbol_file_vaddr(&s, 0x500, &vaddr) && vaddr == 0x500);
	assert_true(symbol_file_vaddr(&s, 0x7e8, &vaddr) && vaddr == 0x27e8);
	assert_false(symbol_file_vaddr(&s, 0x1000, &vaddr));
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

/* A file of a runtime alone, with one of its numbers changed. */
static int parse_runtime(size_t off, uint16_t value, size_t bytes, struct runtime_record *ret)
{
	const struct runtime_record r = {.kind = RUNTIME_PYTHON,
		.version = RUNTIME_VERSION(3, 13, 1),
		.states = {{RUNTIME_BY_TP, (uint64_t)-24}, {RUNTIME_BY_KEY, 0x1234}},
		.addresses = {1, 2},
		.offsets = {[0] = 72, [47] = RUNTIME_NO_FIELD}};
	_cleanup_bytes_ struct bytes b;
	uint64_t size = 128 + 24 + bytes;
	struct symbol_file s;
	int error;

	bytes_init(&b, NULL, 0);
	bytes_put(&b, "SONDESYM", 8);
	bytes_put_u32(&b, SYMBOL_VERSION);
	bytes_put_u32(&b, 1);
	bytes_put_u64(&b, size);
	while (b.len < 128)
		bytes_put_u8(&b, 0);
	put_section(&b, SYMBOL_RUNTIME, SYMBOL_RUNTIME_BYTES, 128 + 24, bytes);
	while (b.len < size)
		symbol_runtime_put(&r, &b);
	if (bytes)
		memcpy(b.data + 128 + 24 + off, &value, sizeof(value));
	seal(&b);
	error = symbol_file_parse(b.data, b.len, &s, NULL);
	if (error == 0)
		assert_int_equal(symbol_runtime_of(&s, ret), bytes > 0);
	return error;
}

static void test_runtime(void **state)
{
	static const struct {
		size_t off;
		uint16_t value;
		int error;
	} cases[] = {
		{0, RUNTIME_PYTHON, 0},
		{0, RUNTIME_NONE, -EBADMSG},
		{0, N_RUNTIMES, -EBADMSG},
		{2, RUNTIME_NO_STATE, 0},
		{2, N_RUNTIME_REFUSALS, -EBADMSG},
		{8, RUNTIME_BY_GOT, 0},
		{8, N_RUNTIME_STATES_BY, -EBADMSG},
		{24, N_RUNTIME_STATES_BY, -EBADMSG},
		{198, 7, 0},
	};
	struct runtime_record r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(
			parse_runtime(cases[i].off, cases[i].value, SYMBOL_RUNTIME_BYTES, &r),
			cases[i].error);
		if (cases[i].error < 0)
			continue;
		assert_int_equal(r.kind, RUNTIME_PYTHON);
		assert_int_equal(r.version, RUNTIME_VERSION(3, 13, 1));
		assert_true(r.states[0].at == (uint64_t)-24 && r.states[1].at == 0x1234);
		assert_int_equal(r.addresses[1], 2);
		assert_int_equal(r.offsets[0], 72);
		assert_int_equal(r.offsets[47], cases[i].off == 198 ? 7 : RUNTIME_NO_FIELD);
	}
	assert_int_equal(parse_runtime(0, 1, 2 * SYMBOL_RUNTIME_BYTES, &r), -EBADMSG);
	assert_int_equal(parse_runtime(0, 1, 0, &r), 0);
	assert_int_equal(r.kind, RUNTIME_NONE);
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
		{8, SYMBOL_VERSION + 1, -ENOTSUP, "this program reads"},
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

/* One index entry of each kind and what they lead to; debug base 0x1000. */
struct debug_lie {
	struct bytes index, lines, scope_index, ranges, scopes, functions, strings;
};

static void put_number(struct bytes *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		bytes_put_u8(b, (uint8_t)(v | 0x80));
	bytes_put_u8(b, (uint8_t)v);
}

static void lie_init(struct debug_lie *l)
{
	*l = (struct debug_lie) {0};
	bytes_put(&l->strings, "\0root\0inner", 12);
	for (uint32_t i = 0; i < 2; i++) { /* 0: root, 1: inner */
		bytes_put_u32(&l->functions, i ? 6 : 1);
		bytes_put_u32(&l->functions, 0);
		bytes_put_u32(&l->functions, 0);
		bytes_put_u32(&l->functions, 0);
	}
}

static void lie_done(struct debug_lie *l)
{
	struct bytes *all = &l->index;

	for (size_t i = 0; i < sizeof(*l) / sizeof(*all); i++)
		bytes_done(&all[i]);
}

static void put_block(struct bytes *index, uint32_t start, uint32_t off)
{
	bytes_put_u32(index, start);
	bytes_put_u32(index, off);
}

/* Rows at addresses 0, 1, 2 …, of lines 1, 2, 3 … */
static void put_rows(struct bytes *lines, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		put_number(lines, (i ? 1 : 0) << 2);
		put_number(lines, 2); /* zigzag: one more */
		put_number(lines, 0);
	}
}

static void lay_lie(const struct debug_lie *l, struct bytes *b)
{
	static const uint32_t kinds[] = {SYMBOL_LINE_INDEX, SYMBOL_LINES, SYMBOL_SCOPE_INDEX,
		SYMBOL_SCOPE_RANGES, SYMBOL_SCOPES, SYMBOL_DEBUG_FUNCTIONS, SYMBOL_DEBUG_STRINGS};
	static const uint32_t items[] = {
		SYMBOL_BLOCK_BYTES, 1, SYMBOL_BLOCK_BYTES, 1, 1, SYMBOL_DEBUG_FUNCTION_BYTES, 1};
	const struct bytes *all = &l->index;
	uint64_t at = 128 + ARRAY_SIZE(kinds) * 24, base = 0x1000;

	bytes_init(b, NULL, 0);
	bytes_put(b, "SONDESYM", 8);
	bytes_put_u32(b, SYMBOL_VERSION);
	bytes_put_u32(b, ARRAY_SIZE(kinds));
	while (b->len < 128)
		bytes_put_u8(b, 0);
	memcpy(b->data + SYMBOL_OFF_DEBUG_BASE, &base, 8);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		put_section(b, kinds[i], items[i], at, all[i].len);
		at += (all[i].len + 7) / 8 * 8;
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		bytes_put(b, all[i].data, all[i].len);
		while (b->len % 8)
			bytes_put_u8(b, 0);
	}
	memcpy(b->data + SYMBOL_OFF_FILE_BYTES, &at, 8);
	seal(b);
}

/* The error of opening it, else how many places 0x1000 + at has. */
static int places_at(const struct debug_lie *l, uint64_t at, struct symbol_place *ret)
{
	_cleanup_bytes_ struct bytes b;
	struct symbol_file s;
	int r;

	lay_lie(l, &b);
	r = symbol_file_parse(b.data, b.len, &s, NULL);
	if (r < 0)
		return r;
	r = (int)symbol_file_places(&s, 0x1000 + at, ret);
	/* The names die with the bytes. */
	for (int i = 0; i < r; i++)
		ret[i].function = strcmp(ret[i].function, "root") == 0 ? "root" : "";
	return r;
}

static void test_blocks_that_are_too_long(void **state)
{
	struct symbol_place places[SYMBOL_MAX_PLACES];

	(void)state;
	for (uint32_t n = 15; n <= 18; n++) {
		struct debug_lie l;

		lie_init(&l);
		put_block(&l.index, 0, 0);
		put_rows(&l.lines, n);
		assert_int_equal(places_at(&l, 14, places), 1);
		assert_int_equal(places[0].line, 15);
		assert_int_equal(places_at(&l, 20, places), n <= SYMBOL_BLOCK_ROWS);
		lie_done(&l);
	}
}

static void test_indexes_that_lie(void **state)
{
	static const struct {
		uint32_t blocks[3][2];
		int result;
	} cases[] = {
		{{{0, 0}, {16, 48}, {32, 96}}, 1},
		{{{0, 0}, {16, 48}, {32, 97}}, -EBADMSG}, /* behind the stream */
		{{{0, 48}, {16, 0}, {32, 96}}, -EBADMSG}, /* backwards */
		{{{0, 0}, {32, 48}, {16, 96}}, -EBADMSG}, /* not in order */
		{{{0, 0}, {16, 48}, {32, 0x7fffffff}}, -EBADMSG},
	};
	struct symbol_place places[SYMBOL_MAX_PLACES];
	struct debug_lie l;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		lie_init(&l);
		for (size_t k = 0; k < 3; k++)
			put_block(&l.index, cases[i].blocks[k][0], cases[i].blocks[k][1]);
		put_rows(&l.lines, 16);
		put_rows(&l.lines, 16);
		assert_int_equal(places_at(&l, 3, places), cases[i].result);
		l.scope_index = l.index; /* the same of scopes */
		l.ranges = l.lines;
		l.index = l.lines = (struct bytes) {0};
		if (cases[i].result < 0)
			assert_int_equal(places_at(&l, 3, places), cases[i].result);
		lie_done(&l);
	}
	/* 289 bytes in one block */
	lie_init(&l);
	put_block(&l.index, 0, 0);
	for (int i = 0; i < 289; i++)
		bytes_put_u8(&l.lines, 0x80);
	assert_int_equal(places_at(&l, 0, places), -EBADMSG);
	lie_done(&l);
}

/* A root and n scopes within each other. */
static int places_in_chain(uint32_t n, struct symbol_place *ret)
{
	struct debug_lie l;
	size_t last = 0;
	int r;

	lie_init(&l);
	put_number(&l.scopes, 0);
	put_number(&l.scopes, 0);
	for (uint32_t i = 0; i < n; i++) {
		size_t at = l.scopes.len;

		put_number(&l.scopes, at - last);
		put_number(&l.scopes, 1);
		bytes_put(&l.scopes, "\0\0\0", 3);
		last = at;
	}
	put_block(&l.scope_index, 0, 0);
	put_number(&l.ranges, 0);
	put_number(&l.ranges, (last + 1) << 1);
	r = places_at(&l, 0, ret);
	lie_done(&l);
	return r;
}

static void test_chains_that_are_too_long(void **state)
{
	struct symbol_place places[SYMBOL_MAX_PLACES];

	(void)state;
	assert_int_equal(places_in_chain(3, places), 4);
	assert_string_equal(places[3].function, "root");
	assert_int_equal(places_in_chain(SYMBOL_MAX_NESTING - 1, places), SYMBOL_MAX_PLACES);
	assert_string_equal(places[SYMBOL_MAX_PLACES - 1].function, "root");
	assert_int_equal(places_in_chain(SYMBOL_MAX_NESTING, places), 0);
	assert_int_equal(places_in_chain(1000000, places), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_pages_of_segments),
		cmocka_unit_test(test_beside_a_segment),
		cmocka_unit_test(test_every_flipped_bit_and_cut),
		cmocka_unit_test(test_runtime),
		cmocka_unit_test(test_sealed_lies),
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_blocks_that_are_too_long),
		cmocka_unit_test(test_indexes_that_lie),
		cmocka_unit_test(test_chains_that_are_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
