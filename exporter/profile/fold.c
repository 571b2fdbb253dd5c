/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over a stack.
 */
#include "exporter/profile/fold.h"
#include "lib/base/cleanup.h"
#include "lib/base/str.h"
#include <string.h>

const char *const fold_names[FOLD_N_WAYS] = {"fold", "keep", "only"};

enum fold_frames fold_of_name(const char *name)
{
	for (unsigned i = 0; name && i < FOLD_N_WAYS; i++)
		if (!strcmp(name, fold_names[i]))
			return (enum fold_frames)i;
	return FOLD_INTERNALS;
}

/* "python" of "python3.13" and of "libpython3.13.so.1.0", but not of "pythonic". */
static bool is_called(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	char next;

	base += str_starts_with(base, "lib") ? strlen("lib") : 0;
	if (!str_starts_with(base, name))
		return false;
	next = base[strlen(name)];
	return !((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || next == '_');
}

bool fold_is_internal(uint32_t runtime, const char *path, const char *function)
{
	/* By enum runtime_kind. */
	static const char *const prefixes[N_RUNTIMES][2] = {[RUNTIME_PYTHON] = {"Py", "_Py"},
		[RUNTIME_RUBY] = {"rb_", "ruby_"},
		[RUNTIME_V8] = {"Builtins_"}};

	if (runtime == RUNTIME_NONE || runtime >= N_RUNTIMES)
		return false;
	/* V8's library holds what scripts call too: functions in C++, and all that the runtime does for them. */
	if (runtime != RUNTIME_V8 && is_called(path, runtime_name(runtime)))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes[runtime]); i++)
		if (prefixes[runtime][i] && str_starts_with(function, prefixes[runtime][i]))
			return true;
	return false;
}

bool fold_is_trampoline(const char *function)
{
	return str_starts_with(function, "py::");
}

static bool is_language(const struct fold_frame *f)
{
	return f->class == FOLD_LANGUAGE || f->class == FOLD_PART;
}

static bool has_language(const struct fold_frame *frames, const uint32_t *stack, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (is_language(&frames[stack[i]]))
			return true;
	return false;
}

/* Parts lie in one another. Where frames were left out it is not known whose part one is. */
static uint32_t join_parts(const struct fold_frame *frames, uint32_t *stack, uint32_t n)
{
	uint32_t out = 0;
	bool is_part = false;

	for (uint32_t i = 0; i < n; i++) {
		const struct fold_frame *f = &frames[stack[i]];
		bool is_joined = is_part && is_language(f);

		if (is_language(f) || f->class == FOLD_MARK)
			is_part = f->class == FOLD_PART;
		if (!is_joined)
			stack[out++] = stack[i];
	}
	return out;
}

static uint32_t keep_language(const struct fold_frame *frames, uint32_t *stack, uint32_t n)
{
	uint32_t out = 0;

	for (uint32_t i = 0; i < n; i++)
		if (is_language(&frames[stack[i]]) || frames[stack[i]].class == FOLD_MARK)
			stack[out++] = stack[i];
	return out;
}

/* Those of a run wait for the language's frame that they are next to; `last` is that nearer to the leaf. */
static uint32_t fold_internals(
	const struct fold_frame *frames, uint32_t n_frames, uint32_t *stack, uint32_t n)
{
	uint32_t out = 0, first_waiting = 0, last = 0;
	bool is_run = false;

	for (uint32_t i = 0; i < n; i++) {
		const struct fold_frame *f = &frames[stack[i]];

		if (f->class == FOLD_INTERNAL) {
			if (!is_run)
				stack[out++] = UINT32_MAX; /* found below */
			is_run = true;
			continue;
		}
		is_run = false;
		stack[out++] = stack[i];
		if (!is_language(f))
			continue;
		last = f->mapping;
		for (; first_waiting < out; first_waiting++)
			if (stack[first_waiting] == UINT32_MAX)
				stack[first_waiting] = n_frames + last;
	}
	for (; first_waiting < out; first_waiting++)
		if (stack[first_waiting] == UINT32_MAX)
			stack[first_waiting] = n_frames + last;
	return out;
}

uint32_t fold_stack(const struct fold_frame *frames, uint32_t n_frames, enum fold_frames how,
	bool is_whole, uint32_t *stack, uint32_t n)
{
	uint32_t start, folded;

	if (how == FOLD_NOTHING || !has_language(frames, stack, n))
		return n;
	n = join_parts(frames, stack, n);
	if (how == FOLD_TO_LANGUAGE)
		return keep_language(frames, stack, n);
	start = stack[n - 1];
	if (!is_whole || frames[start].class != FOLD_INTERNAL)
		return fold_internals(frames, n_frames, stack, n);
	folded = fold_internals(frames, n_frames, stack, n - 1);
	stack[folded] = start;
	return folded + 1;
}
