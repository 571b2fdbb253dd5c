/* SPDX-License-Identifier: Apache-2.0
 *
 * Ruby's code objects in a memory laid here, as each version from 2.5 to 4.0 lays it; then what is malformed, gone, or changes while it is
 * read. Against live interpreters: test_interp_ruby.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "exporter/interp/ruby.h"
#include "exporter/interp/ruby_objects.h"
#include "exporter/parser/runtime/ruby_layouts.h"
#include "lib/base/alloc.h"
#include <errno.h>
#include <string.h>

#define BASE 0x7f0000000000ULL
#define BIAS 0x550000000000ULL
/* Where things lie from BASE on. */
enum {
	BLOCK = 0x000,
	BLOCK_BODY = 0x040,
	METHOD = 0x140,
	METHOD_BODY = 0x180,
	BLOCK_LABEL = 0x280,
	LABEL = 0x2c0,
	PATHS = 0x300,
	PATH = 0x340,
	REAL_PATH = 0x380,
	ENTRY = 0x3c0, /* of the method */
	DEFINITION = 0x400,
	CLASS = 0x440,
	CLASS_NAME = 0x500,
	SINGLETON = 0x540,
	SVAR = 0x600,
	SYMBOLS = 0x640,
	LISTS = 0x680,
	LIST = 0x6c0,
	ID_TEXT = 0x700,
	PATH_TEXT = 0x740,
	PLACE = 0x780, /* that the method's text stands in */
	AROUND = 0x7c0,
	LINES = 0x800,
	INDEX = 0x2800,
	LIST_DATA = 0x4000,
	MEMORY_BYTES = 0x8000,
	/* Addresses that are not read. */
	CODE_AT = 0x9000,
	SYMBOLS_VADDR = 0x12340,
};
/* Instructions: an entry of lines begins at each seventh word. */
enum {
	N_WORDS = 1200,
	WORDS_PER_LINE = 7,
	N_LINES = (N_WORDS + WORDS_PER_LINE - 1) / WORDS_PER_LINE
};
enum { FIRST_LINE = 40, ID_SERIAL = 700, ID = ID_SERIAL << 4 | 1 };
enum { FROZEN = 1 << 11, ELSEWHERE = 1 << 13, IS_SINGLETON = 1 << 13 };
enum { OF_BLOCK = 1 << 17, OF_OBJECT = 1 << 19 };

struct fake {
	uint8_t bytes[MEMORY_BYTES];
	unsigned n_reads, fails_at, changes_at; /* which read, from 1 on; 0: none */
	struct runtime_record r;
	struct interp_memory m;
};

static void put(struct fake *k, uint32_t at, uint64_t v, unsigned n)
{
	assert_true(at + n <= sizeof(k->bytes));
	for (unsigned i = 0; i < n; i++)
		k->bytes[at + i] = (uint8_t)(v >> (8 * i));
}

static uint16_t off(const struct fake *k, enum ruby_offset what)
{
	return k->r.offsets[what];
}

static int read_fake(void *arg, uint64_t addr, void *to, size_t bytes)
{
	struct fake *k = arg;

	k->n_reads++;
	if (k->n_reads == k->changes_at) /* another sequence has that address */
		put(k, BLOCK + off(k, RUBY_CODE_BODY), BASE + METHOD_BODY, 8);
	if (addr >= SYMBOLS_VADDR + BIAS && addr < SYMBOLS_VADDR + BIAS + 0x40)
		addr = addr - SYMBOLS_VADDR - BIAS + BASE + SYMBOLS;
	if (k->n_reads == k->fails_at || addr < BASE || addr - BASE > sizeof(k->bytes) ||
		bytes > sizeof(k->bytes) - (addr - BASE))
		return -EFAULT;
	memcpy(to, k->bytes + (addr - BASE), bytes);
	return 0;
}

/* Text in the object itself, as long as that fits. */
static void put_text(struct fake *k, uint32_t at, const char *text)
{
	uint64_t flags = RUBY_T_STRING | FROZEN, n = strlen(text);

	if (off(k, RUBY_STR_EMBEDDED) == 16)
		flags |= n << 14;
	else
		put(k, at + 16, n, 8);
	put(k, at, flags, 8);
	memcpy(k->bytes + at + off(k, RUBY_STR_EMBEDDED), text, n);
}

static void put_array(struct fake *k, uint32_t at, uint64_t first, uint64_t second)
{
	put(k, at, RUBY_T_ARRAY | 1 << 13 | 2 << 15, 8);
	put(k, at + off(k, RUBY_ARRAY_EMBEDDED), first, 8);
	put(k, at + off(k, RUBY_ARRAY_EMBEDDED) + 8U, second, 8);
}

static void put_long_array(struct fake *k, uint32_t at, uint64_t n, uint64_t data)
{
	put(k, at, RUBY_T_ARRAY, 8);
	put(k, at + 16, n, 8);
	put(k, at + off(k, RUBY_ARRAY_POINTER), data, 8);
}

/* iseq.c: the numbers of the first 54 words in 7 bits each, then a bit for each word. */
static void put_index(struct fake *k)
{
	uint32_t n = 0;

	for (uint32_t word = 0; word < N_WORDS; word++) {
		bool begins = word % WORDS_PER_LINE == 0;
		uint32_t block = (word - 54) / 512, in_block = (word - 54) % 512;

		n += begins;
		if (word < 54) {
			uint32_t at = INDEX + word / 9 * 8;

			for (uint32_t bit = 0; bit < 7; bit++)
				if (n >> bit & 1) {
					uint32_t i = word % 9 * 7 + bit;

					k->bytes[at + i / 8] |= (uint8_t)(1 << i % 8);
				}
		} else if (begins) {
			k->bytes[INDEX + 48 + block * 80 + 16 + in_block / 8] |=
				(uint8_t)(1 << in_block % 8);
		}
	}
}

static void put_lines(struct fake *k)
{
	for (uint32_t i = 0; i < N_LINES; i++) {
		uint32_t at = LINES + i * off(k, RUBY_LINE_BYTES);

		if (off(k, RUBY_LINE_POSITION) != RUNTIME_NO_FIELD)
			put(k, at + off(k, RUBY_LINE_POSITION), i * WORDS_PER_LINE, 4);
		put(k, at + off(k, RUBY_LINE_NUMBER), FIRST_LINE + i, 4);
	}
	if (off(k, RUBY_LINE_POSITION) == RUNTIME_NO_FIELD)
		put_index(k);
}

static void put_sequence(
	struct fake *k, uint32_t at, uint32_t body, uint32_t type, uint32_t label, uint64_t parent)
{
	bool is_int = k->r.version >= RUNTIME_VERSION(3, 3, 0);

	put(k, at, RUBY_T_CODE, 8);
	put(k, at + off(k, RUBY_CODE_BODY), BASE + body, 8);
	put(k, body + off(k, RUBY_BODY_TYPE), type, 4);
	put(k, body + off(k, RUBY_BODY_WORDS), N_WORDS, 4);
	put(k, body + off(k, RUBY_BODY_START), BASE + CODE_AT, 8);
	put(k, body + off(k, RUBY_BODY_FILE), BASE + PATHS, 8);
	put(k, body + off(k, RUBY_BODY_NAME), BASE + label, 8);
	put(k, body + off(k, RUBY_BODY_FIRST_LINE), is_int ? FIRST_LINE : FIRST_LINE << 1 | 1, 8);
	put(k, body + off(k, RUBY_BODY_PARENT), parent, 8);
	put(k, body + off(k, RUBY_BODY_LINES), BASE + LINES, 8);
	put(k, body + off(k, RUBY_BODY_N_LINES), N_LINES, 4);
	if (off(k, RUBY_BODY_LINE_INDEX) != RUNTIME_NO_FIELD)
		put(k, body + off(k, RUBY_BODY_LINE_INDEX), BASE + INDEX, 8);
}

/* The class that code stands in. */
static void put_place(struct fake *k, uint32_t at, uint64_t flags, uint64_t class, uint64_t next)
{
	put(k, at, RUBY_T_CREF | flags, 8);
	put(k, at + 16, class, 8);
	put(k, at + 24, next, 8);
}

static void put_method(struct fake *k)
{
	put(k, ENTRY, RUBY_T_METHOD, 8);
	put(k, ENTRY + off(k, RUBY_METHOD_DEFINITION), BASE + DEFINITION, 8);
	put(k, ENTRY + off(k, RUBY_METHOD_OWNER), BASE + CLASS, 8);
	put(k, DEFINITION + off(k, RUBY_DEFINITION_ID), ID, 8);
	put(k, DEFINITION + 8, BASE + METHOD, 8);
	put(k, DEFINITION + 16, BASE + PLACE, 8);
	put_place(k, PLACE, 0, BASE + CLASS, BASE + AROUND);
	put_place(k, AROUND, 0, BASE + PATH, 0);
	put(k, SVAR, RUBY_T_SVAR, 8);
	put(k, SVAR + 8, BASE + ENTRY, 8);
	put(k, SYMBOLS + 16, BASE + LISTS, 8);
	put_array(k, LISTS, 8, BASE + LIST);
	put_long_array(k, LIST, 1024, BASE + LIST_DATA);
	put(k, LIST_DATA + ID_SERIAL % 512 * 16, BASE + ID_TEXT, 8);
	put_text(k, ID_TEXT, "each");
	if (off(k, RUBY_CLASS_PATH) == RUNTIME_NO_FIELD)
		return;
	put(k, CLASS, RUBY_T_CLASS, 8);
	put(k, CLASS + off(k, RUBY_CLASS_PATH), BASE + CLASS_NAME, 8);
	put(k, CLASS + off(k, RUBY_CLASS_IS_NAMED), 1, 1);
	put_text(k, CLASS_NAME, "A::B");
	put(k, SINGLETON, RUBY_T_CLASS | IS_SINGLETON, 8);
	put(k, SINGLETON + off(k, RUBY_CLASS_ATTACHED), BASE + CLASS, 8);
}

/* A block in a method, which a method in C calls. */
static void fake_init(struct fake *k, uint32_t major, uint32_t minor)
{
	static const char path[] = "/srv/a program with a long name.rb";
	const struct ruby_layout *layout = ruby_layout_of(major, minor);

	*k = (struct fake) {.m = {.read = read_fake, .bias = BIAS},
		.r = {.kind = RUNTIME_RUBY,
			.version = RUNTIME_VERSION(major, minor, 3),
			.addresses = {[RUBY_SYMBOLS] = SYMBOLS_VADDR}}};
	k->m.arg = k;
	assert_non_null(layout);
	memcpy(k->r.offsets, layout->offsets, sizeof(layout->offsets));
	put_sequence(k, BLOCK, BLOCK_BODY, 2, BLOCK_LABEL, BASE + METHOD);
	put_sequence(k, METHOD, METHOD_BODY, 1, LABEL, 0);
	put_text(k, BLOCK_LABEL, "block in run");
	put_text(k, LABEL, "run");
	put_array(k, PATHS, BASE + PATH, BASE + REAL_PATH);
	put(k, PATH, RUBY_T_STRING | ELSEWHERE, 8);
	put(k, PATH + 16, strlen(path), 8);
	put(k, PATH + off(k, RUBY_STR_POINTER), BASE + PATH_TEXT, 8);
	memcpy(k->bytes + PATH_TEXT, path, strlen(path));
	put_text(k, REAL_PATH, "/real.rb");
	put_lines(k);
	put_method(k);
}

static int read_block(struct fake *k, struct interp_code *ret)
{
	return ruby_read_code(&k->m, &k->r, BASE + BLOCK, BASE + ENTRY, ret);
}

static const uint8_t versions[][2] = {
	{2, 5}, {2, 6}, {2, 7}, {3, 0}, {3, 1}, {3, 2}, {3, 3}, {3, 4}, {4, 0}};

/* As the kernel half makes it of what the object leads to. */
static uint64_t check_of(const struct fake *k, uint32_t at, uint32_t bytes)
{
	uint64_t check = interp_check_add(0, BASE + at), word;

	for (uint32_t i = 0; i < bytes; i += sizeof(word)) {
		memcpy(&word, k->bytes + at + 8 + i, sizeof(word));
		check = interp_check_add(check, word);
	}
	return check;
}

static void check_version(uint32_t major, uint32_t minor)
{
	_cleanup_interp_code_ struct interp_code block = {0}, c = {0}, in_c = {0}, part = {0};
	bool is_qualified = major == 4 || (major == 3 && minor >= 4);
	uint32_t start = (uint32_t)((BASE + CODE_AT) / 8 % RUBY_POSITIONS);
	struct fake k;

	fake_init(&k, major, minor);
	assert_int_equal(read_block(&k, &block), 0);
	assert_string_equal(block.name, is_qualified ? "block in A::B#run" : "block in run");
	assert_string_equal(block.file, "/srv/a program with a long name.rb");
	assert_int_equal(block.first_line, FIRST_LINE);
	assert_int_equal(block.kernel_check, check_of(&k, BLOCK_BODY, off(&k, RUBY_BODY_LINES)));
	if (is_qualified)
		assert_string_equal(block.raw, "block in run");
	else
		assert_null(block.raw);
	assert_false(block.is_part);
	assert_int_equal(ruby_line(&block, ABI_INTERP_AT_START), 0);
	assert_int_equal(ruby_line(&block, ABI_INTERP_BEYOND), 0);
	for (uint32_t i = 0; i <= N_WORDS; i++)
		assert_int_equal(ruby_line(&block, (start + i) % RUBY_POSITIONS),
			FIRST_LINE + (i ? i - 1 : 0) / WORDS_PER_LINE);
	assert_int_equal(ruby_line(&block, (start + N_WORDS + 1) % RUBY_POSITIONS), 0);
	assert_int_equal(ruby_line(&block, (start + RUBY_POSITIONS - 1) % RUBY_POSITIONS), 0);

	/* Without what it runs for. */
	assert_int_equal(ruby_read_code(&k.m, &k.r, BASE + METHOD, 0, &c), 0);
	assert_string_equal(c.name, "run");
	assert_int_not_equal(c.check, block.check);

	assert_int_equal(ruby_read_code(&k.m, &k.r, BASE + ENTRY, 0, &in_c), 0);
	assert_string_equal(in_c.name, is_qualified ? "A::B#each" : "each");
	assert_string_equal(in_c.file, "");
	assert_int_equal(in_c.kernel_check, check_of(&k, DEFINITION, 32));
	assert_int_equal(ruby_line(&in_c, start), 0);

	put(&k, BLOCK_BODY + off(&k, RUBY_BODY_TYPE), 4, 4); /* what rescues */
	assert_int_equal(read_block(&k, &part), 0);
	assert_int_equal(part.is_part, is_qualified);
	assert_string_equal(part.name, is_qualified ? "A::B#run" : "block in run");
}

static void test_versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		check_version(versions[i][0], versions[i][1]);
}

/* Which method a frame runs for says what its class is. */
static void test_classes(void **state)
{
	static const struct {
		uint32_t method, owner;
		bool is_named;
		const char *name;
	} cases[] = {
		{ENTRY, CLASS, true, "block in A::B#run"}, {SVAR, CLASS, true, "block in A::B#run"},
		{ENTRY, SINGLETON, true, "block in A::B.run"},
		{ENTRY, SINGLETON, false, "block in run"}, {ENTRY, CLASS, false, "block in run"},
		{ENTRY, PATH, true, "block in run"},  /* an object that is no class */
		{CLASS, CLASS, true, "block in run"}, /* the place of a class */
	};
	static const struct {
		uint64_t type, code;
		const char *name;
	} methods[] = {
		{0, BASE + METHOD, "block in A::B#run"}, {0, BASE + BLOCK, "block in run"},
		{4, BASE + PATH,
			"block in run"}, /* of define_method, whose block may be many methods */
		{1, BASE + METHOD, "block in run"}, /* in C */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_interp_code_ struct interp_code c = {0};
		struct fake k;

		fake_init(&k, 3, 4);
		put(&k, ENTRY + off(&k, RUBY_METHOD_OWNER), BASE + cases[i].owner, 8);
		put(&k, CLASS + off(&k, RUBY_CLASS_IS_NAMED), cases[i].is_named, 1);
		assert_int_equal(
			ruby_read_code(&k.m, &k.r, BASE + BLOCK, BASE + cases[i].method, &c), 0);
		assert_string_equal(c.name, cases[i].name);
	}
	/* Another method may have come to lie there since. */
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		_cleanup_interp_code_ struct interp_code c = {0};
		struct fake k;

		fake_init(&k, 3, 4);
		put(&k, DEFINITION, methods[i].type | 0xff0, 4);
		put(&k, DEFINITION + 8, methods[i].code, 8);
		assert_int_equal(read_block(&k, &c), 0);
		assert_string_equal(c.name, methods[i].name);
	}
}

/* The text of one `def` may be the method of many classes. */
static void test_only_owner(void **state)
{
	static const struct {
		const char *what, *name;
		uint32_t owner, attached, class, around;
		uint64_t flags, around_flags;
	} cases[] = {
		{"in its class", "A::B#run", CLASS, CLASS, CLASS, PATH, 0, 0},
		{"def self.run", "A::B.run", SINGLETON, CLASS, CLASS, PATH, 0, 0},
		{"class << self", "A::B.run", SINGLETON, CLASS, SINGLETON, CLASS, 0, 0},
		{"in a block of class_eval", "run", CLASS, CLASS, CLASS, PATH, OF_BLOCK, 0},
		{"def self.run there", "run", SINGLETON, CLASS, CLASS, PATH, OF_BLOCK, 0},
		{"class << self there", "run", SINGLETON, CLASS, SINGLETON, CLASS, 0, OF_BLOCK},
		{"in a block of instance_eval", "run", CLASS, CLASS, CLASS, PATH, OF_OBJECT, 0},
		{"of another class", "run", CLASS, CLASS, PATH, PATH, 0, 0},
		{"def other.run", "run", SINGLETON, CLASS, PATH, PATH, 0, 0},
		{"class << other", "run", SINGLETON, CLASS, SINGLETON, PATH, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_interp_code_ struct interp_code c = {0};
		struct fake k;

		fake_init(&k, i % 2 ? 3 : 4, i % 2 ? 4 : 0);
		put(&k, ENTRY + off(&k, RUBY_METHOD_OWNER), BASE + cases[i].owner, 8);
		put(&k, SINGLETON + off(&k, RUBY_CLASS_ATTACHED), BASE + cases[i].attached, 8);
		put_place(&k, PLACE, cases[i].flags, BASE + cases[i].class, BASE + AROUND);
		put_place(&k, AROUND, cases[i].around_flags, BASE + cases[i].around, 0);
		assert_int_equal(ruby_read_code(&k.m, &k.r, BASE + METHOD, BASE + ENTRY, &c), 0);
		if (strcmp(c.name, cases[i].name) != 0)
			fail_msg("%s: %s", cases[i].what, c.name);
	}
}

/* The block lies in as many more; a chain without end is none. */
static void test_levels(void **state)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	struct fake k;

	(void)state;
	fake_init(&k, 3, 4);
	put(&k, METHOD_BODY + off(&k, RUBY_BODY_TYPE), 2, 4);
	put_sequence(&k, INDEX, 0x2a00, 1, LABEL, 0);
	put(&k, DEFINITION + 8, BASE + INDEX, 8);
	put(&k, METHOD_BODY + off(&k, RUBY_BODY_PARENT), BASE + INDEX, 8);
	put(&k, 0x2a00 + off(&k, RUBY_BODY_N_LINES), 0, 4);
	put(&k, BLOCK_BODY + off(&k, RUBY_BODY_N_LINES), 0, 4);
	assert_int_equal(read_block(&k, &c), 0);
	assert_string_equal(c.name, "block (2 levels) in A::B#run");
	put(&k, METHOD_BODY + off(&k, RUBY_BODY_PARENT), BASE + BLOCK, 8);
	assert_int_equal(ruby_read_code(&k.m, &k.r, BASE + BLOCK, 0, &c), -EBADMSG);
}

/* One field that is wrong, and what comes of it. */
static void test_malformed(void **state)
{
	static const struct {
		uint32_t at;
		enum ruby_offset more; /* N_RUBY_OFFSETS: nothing */
		uint64_t v;
		unsigned n;
		int error;
	} cases[] = {
		{BLOCK, N_RUBY_OFFSETS, 0, 8, -ENOENT}, /* freed */
		{BLOCK, N_RUBY_OFFSETS, RUBY_T_STRING, 8, -ENOENT},
		{BLOCK, N_RUBY_OFFSETS, RUBY_T_IMEMO, 8, -ENOENT},
		{BLOCK, RUBY_CODE_BODY, 0, 8, -ENOENT},
		{BLOCK, RUBY_CODE_BODY, BASE + MEMORY_BYTES, 8, -EFAULT},
		{BLOCK_BODY, RUBY_BODY_NAME, 0, 8, -EAGAIN},
		{BLOCK_BODY, RUBY_BODY_NAME, BASE + PATHS, 8, -EAGAIN},
		{BLOCK_BODY, RUBY_BODY_NAME, BASE + LABEL + 1, 8, -EAGAIN},
		{BLOCK_BODY, RUBY_BODY_NAME, 1ULL << 60, 8, -EAGAIN},
		{BLOCK_BODY, RUBY_BODY_FILE, BASE + PATH, 8, 0},
		{BLOCK_BODY, RUBY_BODY_FILE, BASE + CLASS, 8, -EAGAIN},
		{PATHS, N_RUBY_OFFSETS, RUBY_T_ARRAY | 1 << 13, 8, -EBADMSG}, /* empty */
		{PATH, N_RUBY_OFFSETS, RUBY_T_STRING, 8, 0},
		{PATH + 16, N_RUBY_OFFSETS, UINT64_MAX, 8, -EBADMSG},
		{PATH + 16, N_RUBY_OFFSETS, 1 << 20, 8, 0}, /* longer than what is read */
		{PATH, RUBY_STR_POINTER, 0, 8, -EFAULT},
		{BLOCK_BODY, RUBY_BODY_LINES, 0, 8, -EFAULT},
		{BLOCK_BODY, RUBY_BODY_N_LINES, 0, 4, 0},
		{BLOCK_BODY, RUBY_BODY_N_LINES, UINT32_MAX, 4, 0}, /* too many: no lines */
		{BLOCK_BODY, RUBY_BODY_N_LINES, 1, 4, 0},
		{BLOCK_BODY, RUBY_BODY_WORDS, UINT32_MAX, 4, 0},
		{BLOCK_BODY, RUBY_BODY_WORDS, 0, 4, 0},
	};

	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++)
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			_cleanup_interp_code_ struct interp_code c = {0};
			struct fake k;
			uint32_t at = cases[i].at;
			int r;

			fake_init(&k, versions[v][0], versions[v][1]);
			/* That is a name which is not used by versions that make it. */
			if (cases[i].more == RUBY_BODY_NAME &&
				off(&k, RUBY_CLASS_PATH) != RUNTIME_NO_FIELD)
				at = METHOD_BODY;
			at += cases[i].more == N_RUBY_OFFSETS ? 0 : off(&k, cases[i].more);
			put(&k, at, cases[i].v, cases[i].n);
			r = read_block(&k, &c);
			if (r != cases[i].error)
				fail_msg("%u.%u, case %zu: %d, expected %d", versions[v][0],
					versions[v][1], i, r, cases[i].error);
			assert_int_equal(c.name != NULL, r == 0);
			assert_true(!c.name || strlen(c.file) <= INTERP_MAX_TEXT_BYTES);
		}
}

/* Each read fails once, and the object becomes another before each. */
static void check_hostile(uint32_t major, uint32_t minor)
{
	unsigned n_reads;
	struct fake k;

	for (unsigned i = 1; i < 100; i++) {
		_cleanup_interp_code_ struct interp_code c = {0};

		fake_init(&k, major, minor);
		k.fails_at = i;
		if (read_block(&k, &c) == 0)
			break;
		assert_null(c.name);
	}
	n_reads = k.n_reads;
	assert_in_range(n_reads, 8, 26);
	for (unsigned i = 1; i <= n_reads; i++) {
		_cleanup_interp_code_ struct interp_code c = {0};
		int r;

		fake_init(&k, major, minor);
		k.changes_at = i;
		r = read_block(&k, &c);
		/* Before the first two it is the other one from the start on; behind the reading again it does not matter. */
		assert_int_equal(r, i <= 2 || i == n_reads ? 0 : -EAGAIN);
	}
}

static void test_hostile(void **state)
{
	(void)state;
	check_hostile(2, 5);
	check_hostile(3, 1);
	check_hostile(4, 0);
}

static void test_texts(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"é", "é"},
		{"a\xff\xe9z", "a\xef\xbf\xbd\xef\xbf\xbdz"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_interp_code_ struct interp_code c = {0};
		struct fake k;

		fake_init(&k, 3, 3);
		put_text(&k, BLOCK_LABEL, cases[i].text);
		assert_int_equal(read_block(&k, &c), 0);
		assert_string_equal(c.name, cases[i].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_only_owner),
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests_name("ruby_memory", tests, NULL, NULL);
}
