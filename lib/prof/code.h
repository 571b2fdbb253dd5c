/* SPDX-License-Identifier: Apache-2.0
 *
 * What the name of a mapping says of its code: pprof has no other field for it. tests/data/mappings.txt has a case of each name;
 * ui/src/mappings.ts is the same for the web interface.
 */
#pragma once
#include <stddef.h>

/* The numbers are in the store's files. */
enum prof_code { PROF_CODE_NATIVE, PROF_CODE_KERNEL, PROF_CODE_JIT, PROF_CODE_INTERPRETER };

/* Of frames in a program's own language, which its runtime runs. */
enum prof_language {
	PROF_LANGUAGE_NONE,
	PROF_LANGUAGE_PYTHON,
	PROF_LANGUAGE_JAVA,
	PROF_LANGUAGE_JAVASCRIPT,
	PROF_LANGUAGE_RUBY,
	PROF_LANGUAGE_PHP,
	PROF_LANGUAGE_PERL,
	PROF_LANGUAGE_LUA,
	PROF_LANGUAGE_ERLANG,
	PROF_LANGUAGE_DOTNET,
	PROF_N_LANGUAGES
};

/*
 * "[python3.13]", "[ruby]", "[interpreter]" are interpreters; "[jvm]", "[node]", "[jit]", "*.map" and names of anonymous memory
 * ("//anon", "[heap]") are code made at run time; "[kernel.kallsyms]", "[ext4]" for a module, and "*.ko" are the kernel's; others
 * are native.
 */
enum prof_code prof_code_of_mapping(const char *name, size_t n);
enum prof_language prof_language_of_mapping(const char *name, size_t n);
