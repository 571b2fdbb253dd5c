/* SPDX-License-Identifier: Apache-2.0
 *
 * Runtimes in ELF files: every Python of this machine, its Node.js and its Java VMs, and what is refused when a file is not as its version has it.
 * Whether offsets are right show test_interp_python.c, test_interp_v8.c and test_unwind_hotspot.c, in live processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "exporter/symfile/hotspot.h"
#include "exporter/symfile/python.h"
#include "exporter/symfile/v8.h"
#include "exporter/symfile/symbol_runtime.h"
#include "tests/unit/javas.h"
#include "tests/unit/pythons.h"
#include "tests/unit/runtime_find.h"
#include "tests/unit/runtime_copy.h"
#include <sys/mman.h>

/* 3.N from a name like libpython3.N.so.1.0 or python3.N; 0: there is none. */
static unsigned minor_of(const char *path)
{
	const char *at = strstr(strrchr(path, '/'), "python3.");
	unsigned minor = 0;

	return at && sscanf(at, "python3.%u", &minor) == 1 ? minor : 0;
}

static unsigned check_files(const char *pattern)
{
	glob_t found = {0};
	unsigned n = 0;

	if (glob(pattern, GLOB_TILDE, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			const char *path = found.gl_pathv[i];
			unsigned minor = minor_of(path);
			struct runtime_record r;

			if (!runtime_of_file(path, &r, NULL))
				continue; /* a program that links to the library */
			print_message("%s: %s %u.%u.%u, refused: %u, states %u %#llx, %u %#llx\n",
				path, runtime_name(r.kind), RUNTIME_MAJOR(r.version),
				RUNTIME_MINOR(r.version), RUNTIME_PATCH(r.version), r.refusal,
				r.states[0].by, (unsigned long long)r.states[0].at, r.states[1].by,
				(unsigned long long)r.states[1].at);
			assert_int_equal(r.kind, RUNTIME_PYTHON);
			assert_int_equal(r.refusal, RUNTIME_NOT_REFUSED);
			assert_int_equal(RUNTIME_MAJOR(r.version), 3);
			assert_int_equal(RUNTIME_MINOR(r.version), minor);
			assert_int_equal(r.states[0].by == RUNTIME_BY_KEY, minor < 12);
			assert_int_equal(r.states[1].by != RUNTIME_BY_NOTHING, minor >= 12);
			assert_int_not_equal(r.addresses[PYTHON_CODE_TYPE], 0);
			n++;
		}
	globfree(&found);
	return n;
}

static void test_pythons(void **state)
{
	struct pythons found;
	unsigned n = check_files("/usr/lib/*/libpython3.[0-9]*.so.1.0") +
		     check_files("~/.pyenv/versions/*/lib/libpython3.[0-9]*.so.1.0");

	(void)state;
	pythons_find(&found);
	for (size_t i = 0; i < found.n; i++)
		n += check_files(found.programs[i]);
	pythons_done(&found);
	assert_true(n > 0);
}

/* What a symbol file has of it, one with names and one without. */
static void check_symbol_file(const char *path, bool rows_only)
{
	int in = open(path, O_RDONLY | O_CLOEXEC), out = memfd_create("symbols", MFD_CLOEXEC);
	const struct parser_inputs inputs = {.fd = in, .debug_fd = -1};
	struct runtime_record expected, r;
	struct symbol_file s;

	assert_int_equal(rows_only ? parser_compile_rows(in, -1, out, NULL)
				   : parser_compile(&inputs, out, NULL),
		0);
	assert_int_equal(symbol_file_map(out, &s, NULL), 0);
	assert_int_equal(symbol_runtime_of(&s, &r), runtime_of_file(path, &expected, NULL));
	assert_int_equal(r.kind, expected.kind);
	assert_int_equal(r.refusal, expected.refusal);
	assert_int_equal(r.version, expected.version);
	for (size_t i = 0; i < RUNTIME_N_STATES; i++) {
		assert_int_equal(r.states[i].by, expected.states[i].by);
		assert_int_equal(r.states[i].at, expected.states[i].at);
	}
	assert_memory_equal(r.addresses, expected.addresses, sizeof(r.addresses));
	assert_memory_equal(r.offsets, expected.offsets, sizeof(r.offsets));
	symbol_file_unmap(&s);
	close(in);
	close(out);
}

static void test_in_symbol_files(void **state)
{
	(void)state;
	for (int rows_only = 0; rows_only < 2; rows_only++) {
		check_symbol_file("tests/data/fuzz/runtime/new.so", rows_only);
		check_symbol_file("tests/data/fuzz/runtime/old.so", rows_only);
		check_symbol_file("tests/data/fuzz/runtime/v8.so", rows_only);
		check_symbol_file("/bin/sh", rows_only);
	}
}

static void test_no_runtime(void **state)
{
	static const char *const paths[] = {"/proc/self/exe", "/bin/sh", "/etc/passwd"};
	struct runtime_record r = {.kind = RUNTIME_PYTHON};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_false(runtime_of_file(paths[i], &r, NULL));
	assert_int_equal(runtime_refusal_text(N_RUNTIME_REFUSALS)[0], 0);
	assert_int_equal(runtime_name(N_RUNTIMES)[0], 0);
	for (uint32_t i = 1; i < N_RUNTIME_REFUSALS; i++)
		assert_true(runtime_refusal_text(i)[0]);
}

static void test_python_2(void **state)
{
	glob_t found = {0};

	(void)state;
	if (glob("~/.pyenv/versions/2.7.*/lib/libpython2.7.so.1.0", GLOB_TILDE, NULL, &found) ==
		0) {
		struct runtime_record r;

		assert_true(runtime_of_file(found.gl_pathv[0], &r, NULL));
		assert_int_equal(r.refusal, RUNTIME_UNKNOWN_VERSION);
	}
	globfree(&found);
}

enum {
	TYPE_BASIC_SIZE_AT = 32,
	TYPE_MEMBERS_AT = 240,
	MEMBER_OFFSET_AT = 16,
	VERSION_AT = 8,
	FREE_THREADED_AT = 16
};

static void check_unlike(struct copy *c)
{
	uint64_t type = symbol_of(c, "PyCode_Type"),
		 members = elf_image_pointer(&c->image, type + TYPE_MEMBERS_AT);
	const uint64_t more = 1000, other = 8;
	const char name[] = "co_filename";

	assert_int_equal(refusal_with(c, type + TYPE_BASIC_SIZE_AT, &more, sizeof(more)),
		RUNTIME_UNLIKE_VERSION);
	for (unsigned i = 0;; i++, members += 40) {
		uint64_t at = elf_image_pointer(&c->image, members);
		size_t n;
		const char *text = at ? elf_image_string(&c->image, at, 64, &n) : NULL;

		assert_non_null(text);
		if (strcmp(text, name) != 0)
			continue;
		assert_int_equal(refusal_with(c, members + MEMBER_OFFSET_AT, &other, sizeof(other)),
			RUNTIME_UNLIKE_VERSION);
		return;
	}
}

/* Debian's, which says its version in Py_Version. */
static void test_refusals_of_tables(void **state)
{
	const uint32_t unknown = 0x036300f0, python_4 = 0x040b00f0;
	struct copy c;

	(void)state;
	if (access("/usr/bin/python3.11", R_OK) != 0)
		skip();
	copy_open(&c, "/usr/bin/python3.11");
	assert_int_equal(refusal_with(&c, symbol_of(&c, "Py_Version"), &unknown, sizeof(unknown)),
		RUNTIME_UNKNOWN_VERSION);
	assert_int_equal(refusal_with(&c, symbol_of(&c, "Py_Version"), &python_4, sizeof(python_4)),
		RUNTIME_UNKNOWN_VERSION);
	check_unlike(&c);
	copy_close(&c);
}

static void test_refusals_of_own_offsets(void **state)
{
	const uint64_t unknown = 0x031000f0, yes = 1, too_far = 1 << 20;
	const uint8_t other_code[4] = {0xcc, 0xcc, 0xcc, 0xcc};
	uint64_t runtime;
	glob_t found = {0};
	struct copy c;

	(void)state;
	if (glob("~/.pyenv/versions/3.13.*/lib/libpython3.13.so.1.0", GLOB_TILDE, NULL, &found) !=
		0)
		skip();
	copy_open(&c, found.gl_pathv[0]);
	globfree(&found);
	runtime = symbol_of(&c, "_PyRuntime");
	assert_int_equal(refusal_with(&c, runtime + VERSION_AT, &unknown, sizeof(unknown)),
		RUNTIME_UNKNOWN_VERSION);
	assert_int_equal(refusal_with(&c, runtime + FREE_THREADED_AT, &yes, sizeof(yes)),
		RUNTIME_FREE_THREADED);
	/* thread_state.current_frame */
	assert_int_equal(
		refusal_with(&c, runtime + 23 * sizeof(too_far), &too_far, sizeof(too_far)),
		RUNTIME_UNLIKE_VERSION);
	check_unlike(&c);
	/* One getter is enough: with both changed none is left. */
	assert_int_equal(refusal_with(&c, symbol_of(&c, "_PyThreadState_GetCurrent"), other_code,
				 sizeof(other_code)),
		RUNTIME_NOT_REFUSED);
	assert_int_equal(pwrite(c.fd, other_code, sizeof(other_code),
				 offset_of(&c, symbol_of(&c, "PyThreadState_GetUnchecked"))),
		sizeof(other_code));
	assert_int_equal(refusal_with(&c, symbol_of(&c, "_PyThreadState_GetCurrent"), other_code,
				 sizeof(other_code)),
		RUNTIME_NO_STATE);
	copy_close(&c);
}

/* Node.js, where this machine has it. */
static const char NODE[] = "/usr/bin/node";

static void test_node(void **state)
{
	static const enum v8_number may_lack[] = {V8_TYPE_BASELINE_DATA, V8_TYPE_STREAM,
		V8_SHARED_ID, V8_SCOPE_RECEIVER, V8_CODE_START, V8_STREAM_CODE, V8_DEOPT_EXITS,
		V8_DEOPT_FIRST, V8_EXTRA_ARGUMENTS, V8_CODE_FLAGS, V8_KIND_BASELINE};
	struct runtime_record r;

	(void)state;
	if (access(NODE, R_OK) != 0)
		skip();
	assert_true(runtime_of_file(NODE, &r, NULL));
	print_message("%s: %s %u.%u, refused: %u, builtins %#llx to %#llx\n", NODE,
		runtime_name(r.kind), RUNTIME_MAJOR(r.version), RUNTIME_MINOR(r.version), r.refusal,
		(unsigned long long)r.addresses[V8_BUILTINS],
		(unsigned long long)r.addresses[V8_BUILTINS_END]);
	assert_int_equal(r.kind, RUNTIME_V8);
	assert_int_equal(r.refusal, RUNTIME_NOT_REFUSED);
	assert_true(r.addresses[V8_BUILTINS] < r.addresses[V8_BUILTINS_END]);
	for (size_t i = 0; i < N_V8_NUMBERS; i++) {
		bool lacks = false;

		for (size_t k = 0; k < ARRAY_SIZE(may_lack); k++)
			lacks |= i == may_lack[k];
		assert_true(lacks || r.offsets[i] != RUNTIME_NO_FIELD);
	}
}

/* All names that begin so, in the table of dynamic symbols, begin otherwise. */
static void rename_symbols(struct copy *c, const char *begin)
{
	GElf_Shdr shdr;
	Elf_Scn *names;

	assert_non_null(gelf_getshdr(c->f.dynsym, &shdr));
	names = elf_getscn(c->f.elf, shdr.sh_link);
	assert_non_null(gelf_getshdr(names, &shdr));
	for (uint64_t at = shdr.sh_offset; at < shdr.sh_offset + shdr.sh_size; at++)
		if (memcmp(c->image.data + at, begin, strlen(begin)) == 0)
			assert_int_equal(pwrite(c->fd, "x", 1, (off_t)at), 1);
}

static void test_refusals_of_v8(void **state)
{
	const uint32_t other = 99, compressed = 4, none = 0;
	struct runtime_record r;
	struct elf_file f;
	struct copy c;

	(void)state;
	if (access(NODE, R_OK) != 0)
		skip();
	copy_open(&c, NODE);
	assert_int_equal(refusal_with(&c, symbol_of(&c, "_ZN2v88internal7Version6minor_E"), &other,
				 sizeof(other)),
		RUNTIME_UNKNOWN_VERSION);
	assert_int_equal(refusal_with(&c, symbol_of(&c, "v8dbg_TaggedSize"), &compressed,
				 sizeof(compressed)),
		RUNTIME_COMPRESSED);
	assert_int_equal(
		refusal_with(&c, symbol_of(&c, "v8dbg_ThinStringTag"), &other, sizeof(other)),
		RUNTIME_UNLIKE_VERSION);
	assert_int_equal(refusal_with(&c, symbol_of(&c, "v8dbg_type_Script__SCRIPT_TYPE"), &none,
				 sizeof(none)),
		RUNTIME_UNLIKE_VERSION);
	/* Electron exports V8's interface and nothing of what is behind it. */
	rename_symbols(&c, "v8dbg_");
	assert_int_equal(elf_file_open(c.fd, &f, NULL), 0);
	assert_true(runtime_read(&f, &r));
	assert_int_equal(r.kind, RUNTIME_V8);
	assert_int_equal(r.refusal, RUNTIME_NO_METADATA);
	elf_file_done(&f);
	copy_close(&c);
}

/* Where a Java VM has its code, from the path of its program; false: it is not beside it. */
static bool library_of_java(const char *java, char ret[PATH_MAX])
{
	static const char *const from_home[] = {"lib/server", "lib/amd64/server"};
	int n = (int)(strlen(java) - strlen("bin/java"));

	for (size_t i = 0; i < ARRAY_SIZE(from_home); i++) {
		snprintf(ret, PATH_MAX, "%.*s%s/libjvm.so", n, java, from_home[i]);
		if (access(ret, R_OK) == 0)
			return true;
	}
	return false;
}

/* Rows that no version lacks, or one of two. */
static const enum hotspot_row java_rows[][2] = {
	{HOTSPOT_HEAPS_LIST, HOTSPOT_HEAP_ALONE},
	{HOTSPOT_HEAP_MEMORY},
	{HOTSPOT_SPACE_LOW},
	{HOTSPOT_BLOB_NAME},
	{HOTSPOT_BLOB_FRAME_COMPLETE, HOTSPOT_BLOB_FRAME_COMPLETE_16},
	{HOTSPOT_BLOB_CODE, HOTSPOT_BLOB_CODE_OFFSET},
	{HOTSPOT_NMETHOD_DEOPT, HOTSPOT_NMETHOD_DEOPT_OFFSET},
	{HOTSPOT_NMETHOD_ORIG_PC},
	{HOTSPOT_NMETHOD_SCOPES, HOTSPOT_NMETHOD_SCOPES_OFFSET},
	{HOTSPOT_NMETHOD_PCS_OFFSET},
	{HOTSPOT_NMETHOD_METADATA_OFFSET, HOTSPOT_BLOB_MUTABLE},
	{HOTSPOT_METHOD_CONST},
	{HOTSPOT_CONST_FLAGS, HOTSPOT_CONST_FLAGS_32},
	{HOTSPOT_POOL_SOURCE, HOTSPOT_KLASS_SOURCE},
	{HOTSPOT_SYMBOL_BODY},
	{HOTSPOT_STUBS_LIMIT},
	{HOTSPOT_ENTRY},
	{HOTSPOT_MAJOR},
	{HOTSPOT_CONST_BYTES},
	{HOTSPOT_HAS_LINES},
};

static void check_library(const char *java, const char *library)
{
	unsigned major = java_major(java);
	struct runtime_record r;

	assert_true(runtime_of_file(library, &r, NULL));
	print_message("%s: %s %u (%u), refused: %u\n", library, runtime_name(r.kind),
		RUNTIME_MAJOR(r.version), major, r.refusal);
	assert_int_equal(r.kind, RUNTIME_HOTSPOT);
	assert_int_equal(r.refusal, RUNTIME_NOT_REFUSED);
	/* 8 writes it when it starts. */
	assert_int_equal(RUNTIME_MAJOR(r.version), major == 8 ? 0 : major);
	for (size_t i = 0; i < N_HOTSPOT_TABLES; i++)
		assert_int_not_equal(r.addresses[i], 0);
	for (size_t i = 0; i < ARRAY_SIZE(java_rows); i++)
		assert_true(r.offsets[java_rows[i][0]] != RUNTIME_NO_FIELD ||
			    (java_rows[i][1] && r.offsets[java_rows[i][1]] != RUNTIME_NO_FIELD));
	check_symbol_file(library, true);
}

static void test_javas(void **state)
{
	char library[PATH_MAX];
	struct javas found;
	unsigned n = 0;

	(void)state;
	javas_find(&found);
	for (size_t i = 0; i < found.n; i++)
		if (library_of_java(found.programs[i], library)) {
			check_library(found.programs[i], library);
			n++;
		}
	javas_done(&found);
	if (!n)
		skip();
}

static uint64_t row_of(const struct runtime_record *r, enum hotspot_row row)
{
	return r->addresses[HOTSPOT_STRUCTS] + (uint64_t)r->offsets[row] * HOTSPOT_STRUCT_BYTES;
}

/* Another byte at the start of the text that a pointer at `at` leads to. */
static uint32_t refusal_of_other_text(struct copy *c, uint64_t at)
{
	return refusal_with(c, elf_image_pointer(&c->image, at), "X", 1);
}

static void test_refusals_of_java(void **state)
{
	static const uint32_t unknown[] = {7, 28, 1 << 20}, later = 0, known = 12;
	char library[PATH_MAX];
	struct runtime_record r;
	struct javas found;
	uint64_t major;
	struct copy c;

	(void)state;
	javas_find(&found);
	if (!found.n || !library_of_java(found.programs[0], library))
		skip();
	javas_done(&found);
	copy_open(&c, library);
	assert_true(runtime_read(&c.f, &r));
	major = elf_image_pointer(&c.image, row_of(&r, HOTSPOT_MAJOR) + HOTSPOT_STRUCT_ADDRESS);
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		assert_int_equal(refusal_with(&c, major, &unknown[i], sizeof(unknown[i])),
			RUNTIME_UNKNOWN_VERSION);
	assert_int_equal(refusal_with(&c, major, &later, sizeof(later)), RUNTIME_NOT_REFUSED);
	assert_int_equal(refusal_with(&c, major, &known, sizeof(known)), RUNTIME_NOT_REFUSED);
	/* The name of a field that no version lacks. */
	assert_int_equal(refusal_of_other_text(&c, row_of(&r, HOTSPOT_METHOD_CONST) + 8),
		RUNTIME_NO_METADATA);
	/* Without that symbol it is none that anybody could read. */
	rename_symbols(&c, "gHotSpotVMTypes");
	assert_int_equal(refusal_with(&c, major, &known, sizeof(known)), RUNTIME_NO_METADATA);
	copy_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pythons),
		cmocka_unit_test(test_in_symbol_files),
		cmocka_unit_test(test_no_runtime),
		cmocka_unit_test(test_python_2),
		cmocka_unit_test(test_refusals_of_tables),
		cmocka_unit_test(test_refusals_of_own_offsets),
		cmocka_unit_test(test_node),
		cmocka_unit_test(test_refusals_of_v8),
		cmocka_unit_test(test_javas),
		cmocka_unit_test(test_refusals_of_java),
	};

	return cmocka_run_group_tests_name("runtime", tests, NULL, NULL);
}
