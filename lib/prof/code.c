/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of mappings as exporters, perf and Go give them.
 */
#include "lib/prof/code.h"
#include "lib/base/cleanup.h"
#include <stdbool.h>
#include <string.h>

struct name {
	const char *p;
	size_t n;
};

static bool starts_with(struct name s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.n >= n && !memcmp(s.p, prefix, n);
}

static bool ends_with(struct name s, const char *suffix)
{
	size_t n = strlen(suffix);

	return s.n >= n && !memcmp(s.p + s.n - n, suffix, n);
}

static bool starts_with_any(struct name s, const char *const *prefixes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (starts_with(s, prefixes[i]))
			return true;
	return false;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* By what stands after the bracket, whose version may follow: "[python3.13]", but not "[pythonic]". */
static const struct runtime {
	const char *name;
	enum prof_language language;
	enum prof_code code;
} runtimes[] = {
	{"[python", PROF_LANGUAGE_PYTHON, PROF_CODE_INTERPRETER},
	{"[ruby", PROF_LANGUAGE_RUBY, PROF_CODE_INTERPRETER},
	{"[php", PROF_LANGUAGE_PHP, PROF_CODE_INTERPRETER},
	{"[perl", PROF_LANGUAGE_PERL, PROF_CODE_INTERPRETER},
	{"[lua", PROF_LANGUAGE_LUA, PROF_CODE_INTERPRETER},
	{"[jvm", PROF_LANGUAGE_JAVA, PROF_CODE_JIT},
	{"[hotspot", PROF_LANGUAGE_JAVA, PROF_CODE_JIT},
	{"[java", PROF_LANGUAGE_JAVA, PROF_CODE_JIT},
	{"[node", PROF_LANGUAGE_JAVASCRIPT, PROF_CODE_JIT},
	{"[v8", PROF_LANGUAGE_JAVASCRIPT, PROF_CODE_JIT},
	{"[beam", PROF_LANGUAGE_ERLANG, PROF_CODE_JIT},
	{"[dotnet", PROF_LANGUAGE_DOTNET, PROF_CODE_JIT},
	{"[interpreter", PROF_LANGUAGE_NONE, PROF_CODE_INTERPRETER},
};

static const struct runtime *runtime_of(struct name s)
{
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
		size_t n = strlen(runtimes[i].name);

		if (starts_with(s, runtimes[i].name) && s.n > n && !is_letter(s.p[n]))
			return &runtimes[i];
	}
	return NULL;
}

/* "[ext4]", "[snd_hda-intel]" */
static bool is_module(struct name s)
{
	if (s.n < 3 || s.p[0] != '[' || s.p[s.n - 1] != ']')
		return false;
	for (size_t i = 1; i + 1 < s.n; i++)
		if (!is_letter(s.p[i]) && s.p[i] != '-' && (s.p[i] < '0' || s.p[i] > '9'))
			return false;
	return true;
}

enum prof_code prof_code_of_mapping(const char *name, size_t n)
{
	static const char *const native[] = {"[vdso]", "[vsyscall]", "[unknown]", "[uprobes]"};
	static const char *const jit[] = {
		"[jit", "[anon", "//anon", "/memfd:", "[heap]", "[stack]"};
	static const char *const kernel[] = {"[kernel", "[guest.kernel", "[vmlinux", "[bpf"};
	static const char *const modules[] = {".ko", ".ko.xz", ".ko.zst"};
	const struct name s = {name, n};
	const struct runtime *runtime = runtime_of(s);

	if (runtime)
		return runtime->code;
	if (starts_with_any(s, native, ARRAY_SIZE(native)))
		return PROF_CODE_NATIVE;
	if (starts_with_any(s, jit, ARRAY_SIZE(jit)))
		return PROF_CODE_JIT;
	if (starts_with_any(s, kernel, ARRAY_SIZE(kernel)) || is_module(s))
		return PROF_CODE_KERNEL;
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
		if (ends_with(s, modules[i]))
			return PROF_CODE_KERNEL;
	return ends_with(s, ".map") ? PROF_CODE_JIT : PROF_CODE_NATIVE;
}

enum prof_language prof_language_of_mapping(const char *name, size_t n)
{
	const struct runtime *runtime = runtime_of((struct name) {name, n});

	return runtime ? runtime->language : PROF_LANGUAGE_NONE;
}
