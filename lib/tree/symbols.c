/* SPDX-License-Identifier: Apache-2.0
 *
 * Interning of what trees refer to. Ids of what a key refers to stand for it, so that keys are a few numbers.
 */
#include "lib/tree/symbols.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/prof/code.h"
#include "lib/prof/profile.h"
#include <string.h>

enum { MAX_LINES = 4096 };

void tree_symbols_init(struct tree_symbols *s, struct budget *budget)
{
	*s = (struct tree_symbols) {.budget = budget, .seed = prof_index_seed()};
	arena_init(&s->texts, budget);
	tree_symbols_string(s, "", 0);
}

void tree_symbols_done(struct tree_symbols *s)
{
	prof_index_done(&s->by_string, s->budget);
	prof_index_done(&s->by_mapping, s->budget);
	prof_index_done(&s->by_function, s->budget);
	prof_index_done(&s->by_location, s->budget);
	prof_index_done(&s->by_frame, s->budget);
	prof_index_done(&s->by_source, s->budget);
	prof_index_done(&s->by_build, s->budget);
	arena_done(&s->texts);
	free(s->strings);
	free(s->mappings);
	free(s->functions);
	free(s->lines);
	free(s->locations);
	free(s->frames);
	free(s->builds);
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
	if (!r && need >= TREE_NONE)
		r = -ENOMEM;
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

/* Lets `x` find the row that is made next, for which there is room. */
static bool add(struct tree_symbols *s, struct prof_index *x, uint64_t hash, size_t row)
{
	s->error = prof_index_add(x, hash, (uint32_t)row, s->budget, NULL);
	return !s->error;
}

void tree_symbols_reserve(struct tree_symbols *s, size_t n_functions, size_t n_locations)
{
	if (grow(s, &s->functions, &s->cap_functions, s->n_functions + n_functions,
		    sizeof(*s->functions)))
		grow(s, &s->locations, &s->cap_locations, s->n_locations + n_locations,
			sizeof(*s->locations));
}

void tree_symbols_reserve_frames(struct tree_symbols *s, size_t n)
{
	if (grow(s, &s->frames, &s->cap_frames, s->n_frames + n, sizeof(*s->frames)))
		s->error = prof_index_reserve(&s->by_frame, s->n_frames + n, s->budget, NULL);
}

/* ---- strings ---- */

static bool index_strings(struct tree_symbols *s)
{
	while (!s->error && s->n_by_string < s->n_strings) {
		const struct tree_string *str = &s->strings[s->n_by_string];

		if (add(s, &s->by_string, hash_xxh3_seed(str->text, str->len, s->seed),
			    s->n_by_string))
			s->n_by_string++;
	}
	return !s->error;
}

uint32_t tree_symbols_string(struct tree_symbols *s, const char *text, size_t n)
{
	uint64_t hash = hash_xxh3_seed(text, n, s->seed);
	const char *copy;
	uint32_t i;

	if (!index_strings(s))
		return 0;
	for (uint64_t pos = hash; (i = prof_index_next(&s->by_string, hash, &pos)) != PROF_NONE;)
		if (s->strings[i].len == n && !memcmp(s->strings[i].text, text, n))
			return i;
	copy = n < UINT32_MAX ? arena_strndup(&s->texts, text, n) : NULL;
	if (!copy)
		s->error = -ENOMEM;
	if (!grow(s, &s->strings, &s->cap_strings, s->n_strings + 1, sizeof(*s->strings)) ||
		!add(s, &s->by_string, hash, s->n_strings))
		return 0;
	s->strings[s->n_strings++] = (struct tree_string) {copy, (uint32_t)n};
	s->n_by_string = s->n_strings;
	return (uint32_t)s->n_strings - 1;
}

/* Strings none of which is there, but for "". */
static void append_strings(
	struct tree_symbols *s, const struct prof_str *texts, size_t n, uint32_t *ret_ids)
{
	size_t bytes = 0;
	char *to;

	for (size_t i = 0; i < n; i++)
		bytes += texts[i].len + 1UL;
	to = arena_alloc(&s->texts, bytes);
	if (!to)
		s->error = -ENOMEM;
	if (!grow(s, &s->strings, &s->cap_strings, s->n_strings + n, sizeof(*s->strings)))
		return;
	for (size_t i = 0; i < n; i++) {
		const size_t len = texts[i].len;

		ret_ids[i] = 0;
		if (!len)
			continue;
		memcpy(to, texts[i].p, len);
		to[len] = 0;
		ret_ids[i] = (uint32_t)s->n_strings;
		s->strings[s->n_strings++] = (struct tree_string) {to, (uint32_t)len};
		to += len + 1;
	}
}

void tree_symbols_strings(
	struct tree_symbols *s, const struct prof_str *texts, size_t n, uint32_t *ret_ids)
{
	memset(ret_ids, 0, n * sizeof(*ret_ids));
	if (s->n_strings <= 1) {
		append_strings(s, texts, n, ret_ids);
		return;
	}
	for (size_t i = 0; i < n; i++)
		ret_ids[i] = tree_symbols_string(s, texts[i].p ? texts[i].p : "", texts[i].len);
}

/* ---- what refers to them ---- */

uint32_t tree_symbols_mapping(struct tree_symbols *s, const struct tree_mapping *m)
{
	uint64_t key[] = {(uint64_t)m->file << 32 | m->build_id, m->kind};
	uint64_t hash = hash_words(key, ARRAY_SIZE(key), s->seed);
	uint32_t i;

	for (uint64_t pos = hash; (i = prof_index_next(&s->by_mapping, hash, &pos)) != PROF_NONE;)
		if (s->mappings[i].file == m->file && s->mappings[i].build_id == m->build_id &&
			s->mappings[i].kind == m->kind)
			return i;
	if (!grow(s, &s->mappings, &s->cap_mappings, s->n_mappings + 1, sizeof(*m)) ||
		!add(s, &s->by_mapping, hash, s->n_mappings))
		return 0;
	s->mappings[s->n_mappings] = *m;
	return (uint32_t)s->n_mappings++;
}

static bool functions_equal(const struct tree_function *a, const struct tree_function *b)
{
	return a->name == b->name && a->system_name == b->system_name && a->file == b->file &&
	       a->start_line == b->start_line;
}

static uint64_t hash_function(const struct tree_symbols *s, const struct tree_function *f)
{
	uint64_t key[] = {
		(uint64_t)f->name << 32 | f->system_name, f->file, (uint64_t)f->start_line};

	return hash_words(key, ARRAY_SIZE(key), s->seed);
}

static bool index_functions(struct tree_symbols *s)
{
	for (; s->n_by_function < s->n_functions; s->n_by_function++)
		if (!add(s, &s->by_function, hash_function(s, &s->functions[s->n_by_function]),
			    s->n_by_function))
			return false;
	return true;
}

uint32_t tree_symbols_new_function(struct tree_symbols *s, const struct tree_function *f)
{
	if (!grow(s, &s->functions, &s->cap_functions, s->n_functions + 1, sizeof(*f)))
		return 0;
	s->functions[s->n_functions] = *f;
	return (uint32_t)s->n_functions++;
}

uint32_t tree_symbols_function(struct tree_symbols *s, const struct tree_function *f)
{
	const uint64_t hash = hash_function(s, f);
	uint32_t i;

	if (!index_functions(s))
		return 0;
	for (uint64_t pos = hash; (i = prof_index_next(&s->by_function, hash, &pos)) != PROF_NONE;)
		if (functions_equal(&s->functions[i], f))
			return i;
	i = tree_symbols_new_function(s, f);
	return index_functions(s) ? i : 0;
}

static uint64_t hash_lines(const struct tree_line *lines, size_t n, uint64_t hash)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t key[] = {(uint64_t)lines[i].function << 32 | lines[i].column,
			(uint64_t)lines[i].line};

		hash = hash_words(key, ARRAY_SIZE(key), hash);
	}
	return hash;
}

static bool lines_equal(const struct tree_line *a, const struct tree_line *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].function != b[i].function || a[i].column != b[i].column ||
			a[i].line != b[i].line)
			return false;
	return true;
}

static uint64_t hash_location(const struct tree_symbols *s, uint64_t address, uint32_t mapping,
	const struct tree_line *lines, size_t n)
{
	uint64_t key[] = {address, (uint64_t)mapping << 32 | n};

	return hash_lines(lines, n, hash_words(key, ARRAY_SIZE(key), s->seed));
}

static bool index_locations(struct tree_symbols *s)
{
	for (; s->n_by_location < s->n_locations; s->n_by_location++) {
		const struct tree_location *l = &s->locations[s->n_by_location];
		uint64_t hash = hash_location(
			s, l->address, l->mapping, s->lines + l->first_line, l->n_lines);

		if (!add(s, &s->by_location, hash, s->n_by_location))
			return false;
	}
	return true;
}

uint32_t tree_symbols_new_location(struct tree_symbols *s, uint64_t address, uint32_t mapping,
	const struct tree_line *lines, size_t n_lines)
{
	const size_t n = MIN(n_lines, (size_t)MAX_LINES), first = s->n_lines;

	if (!grow(s, &s->lines, &s->cap_lines, first + n, sizeof(*s->lines)) ||
		!grow(s, &s->locations, &s->cap_locations, s->n_locations + 1,
			sizeof(*s->locations)))
		return 0;
	if (n)
		memcpy(s->lines + first, lines, n * sizeof(*lines));
	s->n_lines = first + n;
	s->locations[s->n_locations] =
		(struct tree_location) {address, mapping, (uint32_t)first, (uint32_t)n};
	return (uint32_t)s->n_locations++;
}

uint32_t tree_symbols_location(struct tree_symbols *s, uint64_t address, uint32_t mapping,
	const struct tree_line *lines, size_t n_lines)
{
	const size_t n = MIN(n_lines, (size_t)MAX_LINES);
	const uint64_t hash = hash_location(s, address, mapping, lines, n);
	const struct tree_location *l = s->locations;
	uint32_t i;

	if (!index_locations(s))
		return 0;
	for (uint64_t pos = hash; (i = prof_index_next(&s->by_location, hash, &pos)) != PROF_NONE;)
		if (l[i].address == address && l[i].mapping == mapping && l[i].n_lines == n &&
			lines_equal(s->lines + l[i].first_line, lines, n))
			return i;
	i = tree_symbols_new_location(s, address, mapping, lines, n);
	return index_locations(s) ? i : 0;
}

uint32_t tree_symbols_frame(struct tree_symbols *s, const struct tree_frame *f)
{
	uint64_t key[] = {(uint64_t)f->name << 32 | f->file, (uint64_t)f->mapping << 32 | f->kind};
	uint64_t hash = hash_words(key, ARRAY_SIZE(key), s->seed);
	uint32_t i;

	for (uint64_t pos = hash; (i = prof_index_next(&s->by_frame, hash, &pos)) != PROF_NONE;)
		if (!memcmp(&s->frames[i], f, sizeof(*f)))
			return i;
	if (!grow(s, &s->frames, &s->cap_frames, s->n_frames + 1, sizeof(*f)) ||
		!add(s, &s->by_frame, hash, s->n_frames))
		return 0;
	s->frames[s->n_frames] = *f;
	return (uint32_t)s->n_frames++;
}

uint32_t tree_symbols_frame_anywhere(struct tree_symbols *s, const struct tree_frame *f)
{
	const char *base = tree_symbols_base_name(s, f->file);
	uint64_t key[] = {(uint64_t)f->name << 32 | f->kind, f->mapping};
	uint64_t hash =
		hash_words(key, ARRAY_SIZE(key), hash_xxh3_seed(base, strlen(base), s->seed));
	uint32_t i;

	for (uint64_t pos = hash; (i = prof_index_next(&s->by_source, hash, &pos)) != PROF_NONE;)
		if (s->frames[i].name == f->name && s->frames[i].mapping == f->mapping &&
			s->frames[i].kind == f->kind &&
			!strcmp(tree_symbols_base_name(s, s->frames[i].file), base))
			return i;
	i = tree_symbols_frame(s, f);
	return add(s, &s->by_source, hash, i) ? i : 0;
}

void tree_symbols_build(struct tree_symbols *s, uint32_t frame, uint32_t build_id)
{
	uint64_t key = (uint64_t)frame << 32 | build_id, hash = hash_words(&key, 1, s->seed);
	uint32_t i;

	for (uint64_t pos = hash; (i = prof_index_next(&s->by_build, hash, &pos)) != PROF_NONE;)
		if (s->builds[i].frame == frame && s->builds[i].build_id == build_id)
			return;
	if (grow(s, &s->builds, &s->cap_builds, s->n_builds + 1, sizeof(*s->builds)) &&
		add(s, &s->by_build, hash, s->n_builds))
		s->builds[s->n_builds++] = (struct tree_build) {frame, build_id};
}

const char *tree_symbols_text(const struct tree_symbols *s, uint32_t id, size_t *ret_len)
{
	bool known = id < s->n_strings;

	if (ret_len)
		*ret_len = known ? s->strings[id].len : 0;
	return known ? s->strings[id].text : "";
}

const char *tree_symbols_base_name(const struct tree_symbols *s, uint32_t id)
{
	const char *text = tree_symbols_text(s, id, NULL), *slash = strrchr(text, '/');

	return slash && slash[1] ? slash + 1 : text;
}

enum tree_kind tree_kind_of_mapping(const char *file)
{
	switch (prof_code_of_mapping(file, strlen(file))) {
	case PROF_CODE_NATIVE: break;
	case PROF_CODE_KERNEL: return TREE_KERNEL;
	case PROF_CODE_JIT: return TREE_JIT;
	case PROF_CODE_INTERPRETER: return TREE_INTERPRETER;
	}
	return TREE_NATIVE;
}

const char *tree_kind_name(enum tree_kind kind)
{
	static const char *const names[TREE_N_KINDS] = {"root", "native", "kernel", "jit",
		"interpreter", "unknown", "label", "cut", "inlined", "truncated"};

	return kind < TREE_N_KINDS ? names[kind] : "unknown";
}
