/* SPDX-License-Identifier: Apache-2.0
 *
 * Ruby in ELF files: every Ruby of this machine, and what is refused when a file is not as its version has it. Whether offsets are right
 * show test_interp_ruby.c, in live processes, and tests/e2e/test_ruby_layouts.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "exporter/parser/runtime/ruby_code.h"
#include "exporter/symfile/ruby.h"
#include "tests/unit/rubies.h"
#include "tests/unit/runtime_find.h"
#include "tests/unit/runtime_copy.h"

static const char VERSION[] = "ruby_version", GETTER[] = "rb_profile_frames", EXEC[] = "rb_vm_exec";

/* Takes its name from a symbol; false: the file has none of that name. */
static bool hide(struct copy *c, const char *name)
{
	char text[64];
	size_t n = (size_t)snprintf(text, sizeof(text), "%c%s", 0, name) + 1;
	const uint8_t *at = memmem(c->image.data, c->image.bytes, text, n);

	if (!at)
		return false;
	assert_int_equal(pwrite(c->fd, "_", 1, at + 1 - c->image.data), 1);
	return true;
}

static void read_again(const struct copy *c, struct runtime_record *ret)
{
	struct elf_file f;

	assert_int_equal(elf_file_open(c->fd, &f, NULL), 0);
	assert_true(runtime_read(&f, ret));
	elf_file_done(&f);
}

/* Where the symbol of the interpreter's function is there, the same is found without it. */
static void check_without_symbol(const char *path, const struct runtime_record *expected)
{
	struct runtime_record r;
	struct copy c;

	copy_open(&c, path);
	if (hide(&c, EXEC)) {
		read_again(&c, &r);
		assert_int_equal(r.refusal, RUNTIME_NOT_REFUSED);
		assert_memory_equal(r.addresses, expected->addresses, sizeof(r.addresses));
	}
	copy_close(&c);
}

static unsigned check_files(const char *pattern)
{
	glob_t found = {0};
	unsigned n = 0;

	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			const char *path = found.gl_pathv[i];
			unsigned major = 0, minor = 0, patch = 0;
			struct runtime_record r;

			if (!runtime_of_file(path, &r, NULL) || r.kind != RUNTIME_RUBY)
				continue; /* a program that links to the library */
			print_message("%s: %s %u.%u.%u, %s, state %u %#llx, interpreter %#llx, "
				      "symbols %#llx\n",
				path, runtime_name(r.kind), RUNTIME_MAJOR(r.version),
				RUNTIME_MINOR(r.version), RUNTIME_PATCH(r.version),
				r.refusal ? runtime_refusal_text(r.refusal) : "known",
				r.states[0].by, (unsigned long long)r.states[0].at,
				(unsigned long long)r.addresses[RUBY_EXEC],
				(unsigned long long)r.addresses[RUBY_SYMBOLS]);
			if (sscanf(strrchr(path, '/'), "/libruby%*[-0-9.]so.%u.%u.%u", &major,
				    &minor, &patch) == 3)
				assert_int_equal(r.version, RUNTIME_VERSION(major, minor, patch));
			assert_int_equal(r.refusal, RUNTIME_NOT_REFUSED);
			assert_int_equal(r.states[0].by == RUNTIME_BY_ADDRESS,
				r.version < RUNTIME_VERSION(3, 0, 0));
			assert_int_not_equal(r.states[0].at, 0);
			for (size_t k = 0; k < N_RUBY_ADDRESSES; k++)
				assert_int_not_equal(r.addresses[k], 0);
			check_without_symbol(path, &r);
			n++;
		}
	globfree(&found);
	return n;
}

static void test_rubies(void **state)
{
	struct rubies found;
	unsigned n = 0;

	(void)state;
	rubies_find(&found);
	for (size_t i = 0; i < found.n; i++) {
		const char *program = found.programs[i], *in_root = strstr(program, "/./");
		char pattern[512];

		n += check_files(program);
		snprintf(pattern, sizeof(pattern), "%.*s/usr/lib/*/libruby-[2-9].[0-9].so.*.*.*",
			in_root ? (int)(in_root - program) : 0, program);
		n += check_files(pattern);
	}
	if (!found.n) {
		print_message("no /usr/bin/ruby, and none in SONDE_RUBIES\n");
		skip();
	}
	rubies_done(&found);
	assert_true(n > 0);
}

/* A library of this machine: Debian's. */
static bool open_library(struct copy *c)
{
	glob_t found = {0};
	bool is_there = glob("/usr/lib/*/libruby-3.[0-9].so.3.[0-9].[0-9]", 0, NULL, &found) == 0;

	if (is_there)
		copy_open(c, found.gl_pathv[0]);
	globfree(&found);
	return is_there;
}

static void test_versions(void **state)
{
	static const struct {
		const char *text; /* 6 bytes, as "3.1.2" */
		uint32_t refusal;
	} cases[] = {
		{"3.1.9", RUNTIME_NOT_REFUSED}, {"4.0.1", RUNTIME_NOT_REFUSED},
		{"4.1.0", RUNTIME_UNKNOWN_VERSION}, {"5.0.0", RUNTIME_UNKNOWN_VERSION},
		{"2.4.9", RUNTIME_UNKNOWN_VERSION}, {"3.9.0", RUNTIME_UNKNOWN_VERSION},
		{"3.1.x", RUNTIME_UNKNOWN_VERSION}, {"3..12", RUNTIME_UNKNOWN_VERSION},
		{"31234", RUNTIME_UNKNOWN_VERSION}, {"", RUNTIME_UNKNOWN_VERSION},
		{"2.7.1", RUNTIME_NO_STATE}, /* whose state is one for all threads */
	};
	struct copy c;

	(void)state;
	if (!open_library(&c))
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[6] = {0};

		memcpy(text, cases[i].text, strlen(cases[i].text));
		assert_int_equal(refusal_with(&c, symbol_of(&c, VERSION), text, sizeof(text)),
			cases[i].refusal);
	}
	copy_close(&c);
}

static void test_no_state(void **state)
{
	static const uint8_t lea[] = {0x66, 0x48, 0x8d, 0x3d}, other[] = {0xcc, 0xcc, 0xcc, 0xcc};
	const uint8_t *at;
	struct cursor code;
	struct copy c;

	(void)state;
	if (!open_library(&c))
		skip();
	code = elf_image_at(&c.image, symbol_of(&c, GETTER));
	at = memmem(code.pos, 128, lea, sizeof(lea));
	if (at)
		assert_int_equal(refusal_with(&c, symbol_of(&c, GETTER) + (uint64_t)(at - code.pos),
					 other, sizeof(other)),
			RUNTIME_NO_STATE);
	/* Of another C library: threads have such variables elsewhere. */
	assert_true(hide(&c, "libc.so.6"));
	assert_int_equal(refusal_with(&c, symbol_of(&c, GETTER), other, 0),
		at ? RUNTIME_NO_STATE : RUNTIME_NOT_REFUSED);
	copy_close(&c);
}

/* Nothing calls the function of the instructions, and there is no symbol. */
static void test_no_interpreter(void **state)
{
	struct runtime_record r;
	uint8_t none[5] = {0x90, 0x90, 0x90, 0x90, 0x90};
	uint64_t vaddr;
	struct cursor code;
	struct copy c;

	(void)state;
	if (!open_library(&c))
		skip();
	read_again(&c, &r);
	if (!hide(&c, EXEC)) {
		copy_close(&c);
		skip();
	}
	vaddr = r.addresses[RUBY_EXEC];
	code = elf_image_at(&c.image, vaddr);
	for (; vaddr < r.addresses[RUBY_EXEC_END]; vaddr++, cursor_skip(&code, 1)) {
		struct cursor at = code;
		int32_t distance;

		if (cursor_u8(&at) != 0xe8)
			continue;
		distance = (int32_t)cursor_u32(&at);
		if (vaddr + 5 + (uint64_t)(int64_t)distance == r.addresses[RUBY_CORE])
			break;
	}
	assert_true(vaddr < r.addresses[RUBY_EXEC_END]);
	assert_int_equal(refusal_with(&c, vaddr, none, 0), RUNTIME_NOT_REFUSED);
	assert_int_equal(refusal_with(&c, vaddr, none, sizeof(none)), RUNTIME_NO_INTERPRETER);
	/* Nor does the function of most indirect jumps count that makes no Range, as one of a parser. */
	assert_true(hide(&c, RUBY_RANGE_NEW));
	assert_int_equal(refusal_with(&c, vaddr, none, 0), RUNTIME_NO_INTERPRETER);
	copy_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rubies),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_no_state),
		cmocka_unit_test(test_no_interpreter),
	};

	return cmocka_run_group_tests_name("runtime_ruby", tests, NULL, NULL);
}
