/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of language runtimes through the symbolizer: functions, files and lines as the runtime has them.
 */
#include "exporter/interp/python_lines.h"
#include "exporter/symbolize/symbolize.h"
#include "tests/unit/proc_fixture.h"

static struct symbol symbol_of_code(struct symbolizer *symbolizer, const struct symbol_code *code,
	uint32_t position, enum symbolize_mode mode, struct arena *arena,
	struct symbol_mapping *ret)
{
	const struct symbol_frame frame = {.frame = ABI_INTERP(9, position), .code = code};
	struct symbol_mapping *mappings;
	struct symbol s;
	uint32_t n;

	assert_int_equal(symbolize(symbolizer, &frame, 1, mode, 0, arena, &s, &mappings, &n), 0);
	*ret = mappings[s.mapping];
	return s;
}

/* As the runtime has it: what looks like a mangled name is none. */
static void test_code_objects(void **state)
{
	static uint8_t lines[] = {0x80 | 11 << 3 | 0, 0x00, 0x00}; /* a unit of the next line */
	static char name[] = "_ZN1A1fEv", raw[] = "f\xff", file[] = "/srv/a.py";
	const struct symbol_code code = {.kind = RUNTIME_PYTHON,
		.version = RUNTIME_VERSION(3, 13, 7),
		.is_named = true,
		.code = {.name = name,
			.raw = raw,
			.file = file,
			.first_line = 40,
			.lines = lines,
			.lines_bytes = sizeof(lines),
			.lines_format = PYTHON_LINES_LOCATIONS}};
	_cleanup_arena_ struct arena arena;
	struct symbol_mapping mapping;
	static const struct symbol_code unnamed = {
		.kind = RUNTIME_PYTHON, .version = RUNTIME_VERSION(3, 13, 7)};
	struct symbolizer *symbolizer;
	struct fixture f;
	struct symbol s;

	(void)state;
	setup(&f);
	symbolizer = symbolizer_new(&(struct symbolizer_options) {.binaries = f.registry,
					    .keeper = &f.keeper.keeper,
					    .clock = &f.clock.clock,
					    .parser_fd = -1},
		NULL);
	arena_init(&arena, NULL);
	/* Whatever is asked of addresses, which can be named later. */
	for (enum symbolize_mode mode = SYMBOLIZE_NONE; mode <= SYMBOLIZE_LINES; mode++) {
		s = symbol_of_code(symbolizer, &code, 0, mode, &arena, &mapping);
		assert_true(s.named);
		assert_int_equal(s.n_lines, 1);
		assert_string_equal(s.lines[0].function, "_ZN1A1fEv");
		assert_string_equal(s.lines[0].system_name, "f?");
		assert_string_equal(s.lines[0].file, "/srv/a.py");
		assert_int_equal(s.lines[0].line, 41);
		assert_int_equal(s.lines[0].start_line, 40);
		assert_string_equal(mapping.filename, "[python3.13]");
		assert_true(mapping.has_lines);
		assert_int_equal(s.address, 0);
	}
	s = symbol_of_code(
		symbolizer, &code, ABI_INTERP_AT_START, SYMBOLIZE_LINES, &arena, &mapping);
	assert_int_equal(s.lines[0].line, 40);
	s = symbol_of_code(symbolizer, &code, 9, SYMBOLIZE_LINES, &arena, &mapping);
	assert_int_equal(s.lines[0].line, 0);
	/* Its object is known, not its name. */
	s = symbol_of_code(symbolizer, &unnamed, 4, SYMBOLIZE_LINES, &arena, &mapping);
	assert_string_equal(s.lines[0].function, "[python]");
	assert_string_equal(mapping.filename, "[python3.13]");
	assert_false(s.named);
	symbolizer_freep(&symbolizer);
	teardown(&f);
}

/* One location, with the functions that are inlined in the last. V8's version is no part of the mapping. */
static void test_machine_code(void **state)
{
	static const struct interp_frame frames[] = {
		{"inner\xff", "inner", "/srv/a.js", 12, 10}, {"outer", "outer", "/srv/b.js", 0, 7}};
	const struct symbol_code code = {.kind = RUNTIME_V8,
					 .version = RUNTIME_VERSION(12, 4, 0),
					 .is_named = true,
					 .frames = frames,
					 .n_frames = 2},
				 unnamed = {
					 .kind = RUNTIME_V8, .version = RUNTIME_VERSION(12, 4, 0)};
	_cleanup_arena_ struct arena arena;
	struct symbol_mapping mapping;
	struct symbolizer *symbolizer;
	struct fixture f;
	struct symbol s;

	(void)state;
	setup(&f);
	symbolizer = symbolizer_new(&(struct symbolizer_options) {.binaries = f.registry,
					    .keeper = &f.keeper.keeper,
					    .clock = &f.clock.clock,
					    .parser_fd = -1},
		NULL);
	arena_init(&arena, NULL);
	for (enum symbolize_mode mode = SYMBOLIZE_NONE; mode <= SYMBOLIZE_LINES; mode++) {
		s = symbol_of_code(symbolizer, &code, ABI_INTERP_BEYOND, mode, &arena, &mapping);
		assert_true(s.named);
		assert_int_equal(s.n_lines, 2);
		assert_string_equal(s.lines[0].function, "inner?");
		assert_string_equal(s.lines[0].system_name, "inner");
		assert_string_equal(s.lines[0].file, "/srv/a.js");
		assert_int_equal(s.lines[0].line, 12);
		assert_int_equal(s.lines[0].start_line, 10);
		assert_string_equal(s.lines[1].function, "outer");
		assert_string_equal(s.lines[1].file, "/srv/b.js");
		assert_int_equal(s.lines[1].line, 0);
		assert_int_equal(s.lines[1].start_line, 7);
		assert_string_equal(mapping.filename, "[v8]");
		assert_true(mapping.has_lines);
		assert_int_equal(s.address, 0);
	}
	s = symbol_of_code(
		symbolizer, &unnamed, ABI_INTERP_BEYOND, SYMBOLIZE_LINES, &arena, &mapping);
	assert_int_equal(s.n_lines, 1);
	assert_string_equal(s.lines[0].function, "[v8]");
	assert_string_equal(mapping.filename, "[v8]");
	assert_false(s.named);
	symbolizer_freep(&symbolizer);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_code_objects),
		cmocka_unit_test(test_machine_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
