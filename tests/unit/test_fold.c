/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of a Python program as a person sees them. A stack is a text, leaf first, a letter a frame: l and m are of the language (in
 * two mappings), p is a part of its caller, i and j internals, x an extension or library, k the kernel, e frames left out, t the end of a cut stack. In what
 * comes out, L and M are an [interpreter] frame in either mapping.
 */
#include "exporter/profile/fold.h"
#include "lib/base/cleanup.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char letters[] = "lmijxketp";
enum { N_FRAMES = sizeof(letters) - 1, N_MAPPINGS = 2 };
static const struct fold_frame frames[N_FRAMES] = {{FOLD_LANGUAGE, 0}, {FOLD_LANGUAGE, 1},
	{FOLD_INTERNAL, 0}, {FOLD_INTERNAL, 0}, {FOLD_OTHER, 0}, {FOLD_OTHER, 0}, {FOLD_MARK, 0},
	{FOLD_MARK, 0}, {FOLD_PART, 0}};

static void check(enum fold_frames how, const char *in, const char *expected)
{
	static const char folded[N_MAPPINGS] = "LM";
	uint32_t stack[64], n = (uint32_t)strlen(in), n_out;
	char got[65] = "";

	for (uint32_t i = 0; i < n; i++)
		stack[i] = (uint32_t)(strchr(letters, in[i]) - letters);
	n_out = fold_stack(frames, N_FRAMES, how, n && in[n - 1] != 't', stack, n);
	assert_true(n_out <= n);
	for (uint32_t i = 0; i < n_out; i++) {
		if (stack[i] >= N_FRAMES + N_MAPPINGS)
			fail_msg("%s %s: frame %u is %u", fold_names[how], in, i, stack[i]);
		got[i] = stack[i] < N_FRAMES ? letters[stack[i]] : folded[stack[i] - N_FRAMES];
	}
	if (strcmp(got, expected) != 0)
		fail_msg("%s %s: %s, expected %s", fold_names[how], in, got, expected);
}

static void test_fold(void **state)
{
	static const struct {
		const char *what, *in, *fold, *only;
	} cases[] = {
		{"nothing", "", "", ""},
		{"no language: a native program, or one that starts", "ijxij", "ijxij", "ijxij"},
		{"the language is at the leaf", "llijix", "llLx", "ll"},
		{"internals at the leaf", "ijijllijix", "LllLx", "ll"},
		{"one internal is folded too: its name is no more telling", "il", "Ll", "l"},
		{"a static build: _start stays, main and what it calls fold", "lijxi", "lLxi", "l"},
		{"the same when only internals are below the language", "lij", "lLj", "l"},
		{"_start alone", "li", "li", "l"},
		{"a callback: sorted() calls a key", "lijilliijx", "lLllLx", "lll"},
		{"an extension in between calls back", "lijxxijlijx", "lLxxLlLx", "ll"},
		{"an extension at the leaf that allocates", "xijxjil", "xLxLl", "l"},
		{"libc below zlib", "xxxijlx", "xxxLlx", "l"},
		{"a system call", "kkxijlijx", "kkxLlLx", "l"},
		{"kernel right below the language, a page fault", "klix", "klLx", "l"},
		{"an embedding program: only internals of the library", "lijxx", "lLxx", "l"},
		{"recursion", "lililix", "lLlLlLx", "lll"},
		{"elided in the middle", "lijeijlix", "lLeLlLx", "lel"},
		{"elided between internals", "ieil", "LeLl", "el"},
		{"cut below the language: internals before it fold", "lijxt", "lLxt", "lt"},
		{"cut in the internals", "lijt", "lLt", "lt"},
		{"cut before any language", "ijt", "ijt", "ijt"},
		{"two versions: an internal belongs to the caller's", "limijx", "lMmMx", "lm"},
		{"before the first frame to the nearest there is", "ilimx", "LlMmx", "lm"},
		{"nothing towards the root", "lixjm", "lMxMm", "lm"},
		{"a part stands for its function too", "lpllijx", "lplLx", "lpl"},
		{"a part at the leaf, of an outermost function", "iplx", "Lpx", "p"},
		{"a part of a part", "lppll", "lpl", "lpl"},
		{"whose part it is was left out", "lpel", "lpel", "lpel"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		check(FOLD_INTERNALS, cases[i].in, cases[i].fold);
		check(FOLD_NOTHING, cases[i].in, cases[i].in);
		check(FOLD_TO_LANGUAGE, cases[i].in, cases[i].only);
	}
}

static void test_whose_code(void **state)
{
	static const struct {
		const char *path, *function;
		bool is_internal;
	} cases[] = {
		{"/usr/bin/python3.13", "main", true},
		{"/usr/bin/python3.13", "", true},
		{"/usr/bin/python3.11 (deleted)", "", true},
		{"/usr/lib/libpython3.13.so.1.0", "cfunction_vectorcall", true},
		{"/opt/blender/blender", "_PyEval_EvalFrameDefault", true},
		{"/opt/blender/blender", "PyObject_Call", true},
		{"/opt/blender/blender", "main", false},
		{"/opt/blender/blender", "", false},
		{"/opt/blender/blender", "WM_main", false},
		{"/usr/bin/pythonic", "main", false},
		{"/usr/bin/python_server", "main", false},
		{"[unknown]", "", false},
	};
	static const struct {
		const char *path, *function;
		bool is_internal;
	} of_ruby[] = {
		{"/usr/lib/libruby-3.1.so.3.1.2", "vm_exec", true},
		{"/usr/bin/ruby3.4", "", true},
		{"/usr/bin/editor", "rb_funcallv", true},
		{"/usr/bin/editor", "ruby_run_node", true},
		{"/usr/bin/editor", "main", false},
	};

	static const struct {
		const char *path, *function;
		bool is_internal;
	} of_v8[] = {
		{"/usr/bin/node", "Builtins_InterpreterEntryTrampoline", true},
		{"/usr/lib/libnode.so.115", "Builtins_ArrayPrototypeSort", true},
		{"/usr/lib/libv8.so", "v8::internal::Runtime_GetProperty(int, unsigned long*)",
			false},
		{"/usr/bin/node", "node::Start(int, char**)", false},
		{"/usr/bin/node", "", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(of_v8); i++)
		assert_int_equal(fold_is_internal(RUNTIME_V8, of_v8[i].path, of_v8[i].function),
			of_v8[i].is_internal);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (fold_is_internal(RUNTIME_PYTHON, cases[i].path, cases[i].function) !=
			cases[i].is_internal)
			fail_msg("%s in %s", cases[i].function, cases[i].path);
		assert_false(fold_is_internal(RUNTIME_NONE, cases[i].path, cases[i].function));
		assert_false(fold_is_internal(N_RUNTIMES, cases[i].path, cases[i].function));
	}
	assert_true(fold_is_trampoline("py::burn:/srv/app.py"));
	assert_false(fold_is_trampoline("pybind11::call"));
	for (size_t i = 0; i < ARRAY_SIZE(of_ruby); i++)
		assert_int_equal(
			fold_is_internal(RUNTIME_RUBY, of_ruby[i].path, of_ruby[i].function),
			of_ruby[i].is_internal);
}

static void test_names(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FOLD_N_WAYS; i++)
		assert_int_equal(fold_of_name(fold_names[i]), i);
	assert_int_equal(fold_of_name(NULL), FOLD_INTERNALS);
	assert_int_equal(fold_of_name("all"), FOLD_INTERNALS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fold),
		cmocka_unit_test(test_whose_code),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
