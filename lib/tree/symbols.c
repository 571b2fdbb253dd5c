/* SPDX-License-Identifier: Apache-2.0
 *
 * Interning of what trees refer to: fixed-size keys go through struct interner as bytes.
 */
#include "lib/tree/symbols.h"
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include <string.h>

enum { MAX_LINES = 4096 };

void tree_symbols_init(struct tree_symbols *s, struct budget *budget)
{
	*s = (struct tree_symbols) {.budget = budget};
	interner_init(&s->strings, budget);
	interner_init(&s->mapping_keys, budget);
	interner_init(&s->function_keys, budget);
	interner_init(&s->location_keys, budget);
	interner_init(&s->frame_keys, budget);
	tree_symbols_string(s, "", 0);
}

void tree_symbols_done(struct tree_symbols *s)
{
	interner_done(&s->strings);
	interner_done(&s->mapping_keys);
	interner_done(&s->function_keys);
	interner_done(&s->location_keys);
	interner_done(&s->frame_keys);
	free(s->mappings);
	free(s->functions);
	free(s->lines);
	free(s->locations);
	free(s->frames);
	if (s->budget)
		budget_release(s->budget, s->charged_bytes);
	*s = (struct tree_symbols) {};
}

int tree_symbols_error(const struct tree_symbols *s, struct errbuf *eb)
{
	if (!s->error)
		return 0;
	return err_set(
		eb, s->error, "not enough memory for the names of %zu locations", s->n_locations);
}

/* Room for `need` items in `*array`, charged to the budget. */
static bool grow(struct tree_symbols *s, void *array, size_t *cap, size_t need, size_t elem)
{
	size_t old = *cap;
	int r;

	if (need <= old)
		return !s->error;
	r = s->error;
	if (!r)
		r = alloc_grow(array, cap, need, elem);
	if (!r && s->budget) {
		uint64_t bytes = (*cap - old) * elem;

		r = budget_charge(s->budget, bytes, NULL);
		if (!r)
			s->charged_bytes += bytes;
	}
	s->error = r;
	return !r;
}

/* The id of `key`; *ret_new says that the caller must fill the entry. 0 after an error. */
static uint32_t intern(
	struct tree_symbols *s, struct interner *t, const void *key, size_t n, bool *ret_new)
{
	uint32_t id;

	*ret_new = false;
	if (s->error)
		return 0;
	id = interner_add(t, key, n, ret_new);
	if (id != INTERNER_NONE)
		return id;
	s->error = -ENOMEM;
	*ret_new = false;
	return 0;
}

void tree_symbols_reserve(
	struct tree_symbols *s, size_t n_strings, size_t n_functions, size_t n_locations)
{
	if (interner_reserve(&s->strings, n_strings) ||
		interner_reserve(&s->function_keys, n_functions) ||
		interner_reserve(&s->location_keys, n_locations))
		s->error = -ENOMEM;
}

uint32_t tree_symbols_string(struct tree_symbols *s, const char *text, size_t n)
{
	bool is_new;

	return intern(s, &s->strings, text, n, &is_new);
}

uint32_t tree_symbols_mapping(struct tree_symbols *s, const struct tree_mapping *m)
{
	uint32_t id;
	bool is_new;

	id = intern(s, &s->mapping_keys, m, sizeof(*m), &is_new);
	if (is_new && grow(s, &s->mappings, &s->cap_mappings, id + 1, sizeof(*m))) {
		s->mappings[id] = *m;
		s->n_mappings = id + 1;
	}
	return id;
}

uint32_t tree_symbols_function(struct tree_symbols *s, const struct tree_function *f)
{
	struct tree_function key = *f;
	uint32_t id;
	bool is_new;

	key.pad = 0;
	id = intern(s, &s->function_keys, &key, sizeof(key), &is_new);
	if (is_new && grow(s, &s->functions, &s->cap_functions, id + 1, sizeof(key))) {
		s->functions[id] = key;
		s->n_functions = id + 1;
	}
	return id;
}

uint32_t tree_symbols_location(struct tree_symbols *s, uint64_t address, uint32_t mapping,
	const struct tree_line *lines, size_t n_lines)
{
	uint8_t key[32 + 16 * 16], *p = key;
	_cleanup_free_ uint8_t *large = NULL;
	uint32_t id;
	size_t n, first = s->n_lines;
	bool is_new;

	n_lines = MIN(n_lines, (size_t)MAX_LINES);
	n = 16 + n_lines * 16;
	if (n > sizeof(key)) {
		p = large = try_malloc(n);
		if (!p)
			s->error = -ENOMEM;
	}
	if (s->error)
		return 0;
	memset(p, 0, n);
	memcpy(p, &address, 8);
	memcpy(p + 8, &mapping, 4);
	for (size_t i = 0; i < n_lines; i++) {
		memcpy(p + 16 + i * 16, &lines[i].function, 4);
		memcpy(p + 16 + i * 16 + 4, &lines[i].column, 4);
		memcpy(p + 16 + i * 16 + 8, &lines[i].line, 8);
	}
	id = intern(s, &s->location_keys, p, n, &is_new);
	if (!is_new)
		return id;
	if (!grow(s, &s->locations, &s->cap_locations, id + 1, sizeof(*s->locations)) ||
		!grow(s, &s->lines, &s->cap_lines, first + n_lines, sizeof(*s->lines)))
		return 0;
	/* Read the lines back from the key: `lines` may have pointed into the array that just
	 * moved. */
	for (size_t i = 0; i < n_lines; i++) {
		s->lines[first + i] = (struct tree_line) {};
		memcpy(&s->lines[first + i].function, p + 16 + i * 16, 4);
		memcpy(&s->lines[first + i].column, p + 16 + i * 16 + 4, 4);
		memcpy(&s->lines[first + i].line, p + 16 + i * 16 + 8, 8);
	}
	s->n_lines = first + n_lines;
	s->locations[id] =
		(struct tree_location) {address, mapping, (uint32_t)first, (uint32_t)n_lines};
	s->n_locations = id + 1;
	return id;
}

uint32_t tree_symbols_frame(struct tree_symbols *s, const struct tree_frame *f)
{
	uint32_t id;
	bool is_new;

	id = intern(s, &s->frame_keys, f, sizeof(*f), &is_new);
	if (is_new && grow(s, &s->frames, &s->cap_frames, id + 1, sizeof(*f))) {
		s->frames[id] = *f;
		s->n_frames = id + 1;
	}
	return id;
}

const char *tree_symbols_text(const struct tree_symbols *s, uint32_t id, size_t *ret_len)
{
	bool known = id < s->strings.n;

	if (ret_len)
		*ret_len = known ? s->strings.items[id].len : 0;
	return known ? s->strings.items[id].bytes : "";
}

const char *tree_symbols_base_name(const struct tree_symbols *s, uint32_t id)
{
	const char *text = tree_symbols_text(s, id, NULL), *slash = strrchr(text, '/');

	return slash && slash[1] ? slash + 1 : text;
}

enum tree_kind tree_kind_of_mapping(const char *file)
{
	static const char *const kernel[] = {
		"[kernel", "[guest.kernel", "[vmlinux", "[module]", "[bpf"};
	static const char *const jit[] = {
		"[jit", "//anon", "[anon", "/memfd:", "[heap]", "[stack]"};
	static const char *const interpreter[] = {"[python", "[ruby", "[perl", "[php", "[lua",
		"[node", "[java", "[beam", "[interpreter"};

	for (size_t i = 0; i < ARRAY_SIZE(kernel); i++)
		if (str_starts_with(file, kernel[i]))
			return TREE_KERNEL;
	for (size_t i = 0; i < ARRAY_SIZE(jit); i++)
		if (str_starts_with(file, jit[i]))
			return TREE_JIT;
	for (size_t i = 0; i < ARRAY_SIZE(interpreter); i++)
		if (str_starts_with(file, interpreter[i]))
			return TREE_INTERPRETER;
	if (str_ends_with(file, ".ko") || str_ends_with(file, ".ko.xz") ||
		str_ends_with(file, ".ko.zst"))
		return TREE_KERNEL;
	return str_ends_with(file, ".map") ? TREE_JIT : TREE_NATIVE;
}

const char *tree_kind_name(enum tree_kind kind)
{
	static const char *const names[TREE_N_KINDS] = {"root", "native", "kernel", "jit",
		"interpreter", "unknown", "label", "cut", "inlined", "truncated"};

	return kind < TREE_N_KINDS ? names[kind] : "unknown";
}
