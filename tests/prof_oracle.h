/* SPDX-License-Identifier: Apache-2.0
 *
 * Random profiles, their comparison, and the same profile as a protobuf-c tree: the oracle of the pprof codec's tests
 * and its peer in the benchmark.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/prof/profile.h"
#include "proto/profile.pb-c.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline uint64_t oracle_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static inline uint32_t oracle_below(uint64_t *state, uint64_t n)
{
	return n ? (uint32_t)(oracle_random(state) % n) : 0;
}

/* Any number of bits is as likely as any other, so that varints of all lengths occur. */
static inline uint64_t oracle_number(uint64_t *state)
{
	return oracle_random(state) >> (oracle_random(state) & 63);
}

static inline void *oracle_column(struct profile *p, size_t n, size_t elem)
{
	void *column = arena_zalloc(&p->arena, (n + 1) * elem);

	ASSERT(column);
	return column;
}

static inline void oracle_random_tables(struct profile *p, uint64_t *rnd)
{
	for (size_t i = 0; i < p->n_strings; i++) {
		char *s = arena_printf(&p->arena, "%.*s%u", (int)oracle_below(rnd, 150),
			"a string of some length, to have lengths that take two bytes, that is to "
			"say "
			"more than one hundred and twenty-seven of them, and so this text goes on "
			"\xc3\xa9",
			oracle_below(rnd, 1000));

		p->strings[i] =
			(struct prof_str) {.p = i ? s : "", .len = i ? (uint32_t)strlen(s) : 0};
	}
	for (size_t i = 0; i < p->n_types; i++)
		p->types[i] = (struct prof_value_type) {
			oracle_below(rnd, p->n_strings), oracle_below(rnd, p->n_strings)};
	for (size_t i = 0; i < p->n_mappings; i++)
		p->mappings[i] = (struct prof_mapping) {.start = oracle_number(rnd),
			.limit = oracle_number(rnd),
			.file_off = oracle_number(rnd),
			.filename = oracle_below(rnd, p->n_strings),
			.build_id = oracle_below(rnd, p->n_strings),
			.has_functions = oracle_below(rnd, 2),
			.has_filenames = oracle_below(rnd, 2),
			.has_line_numbers = oracle_below(rnd, 2),
			.has_inline_frames = oracle_below(rnd, 2)};
	for (size_t i = 0; i < p->n_functions; i++)
		p->functions[i] = (struct prof_function) {.name = oracle_below(rnd, p->n_strings),
			.system_name = oracle_below(rnd, p->n_strings),
			.filename = oracle_below(rnd, p->n_strings),
			.start_line = (int64_t)oracle_number(rnd)};
}

static inline void oracle_random_locations(struct profile *p, uint64_t *rnd)
{
	p->n_lines = 0;
	for (size_t i = 0; i < p->n_locations; i++) {
		struct prof_location *l = &p->locations[i];

		*l = (struct prof_location) {.address = oracle_number(rnd),
			.mapping = p->n_mappings && oracle_below(rnd, 4)
					   ? oracle_below(rnd, p->n_mappings)
					   : PROF_NONE,
			.first_line = (uint32_t)p->n_lines,
			.n_lines = p->n_functions ? oracle_below(rnd, 4) : 0,
			.is_folded = oracle_below(rnd, 8) == 0};
		for (uint32_t k = 0; k < l->n_lines; k++)
			p->lines[p->n_lines++] = (struct prof_line) {
				.function = oracle_below(rnd, p->n_functions),
				.line = (int64_t)oracle_number(rnd),
				.column = oracle_below(rnd, 2) ? (int64_t)oracle_number(rnd) : 0};
	}
}

static inline void oracle_random_samples(struct profile *p, uint64_t *rnd)
{
	p->n_stack_words = p->n_labels = 0;
	for (size_t i = 0; i < p->n_samples; i++) {
		size_t depth = p->n_locations ? oracle_below(rnd, 60) : 0,
		       n_labels = oracle_below(rnd, 4);

		p->stack_first[i] = p->n_stack_words;
		p->label_first[i] = p->n_labels;
		for (size_t k = 0; k < depth; k++)
			p->stacks[p->n_stack_words++] = oracle_below(rnd, p->n_locations);
		for (size_t k = 0; k < p->n_types; k++)
			p->values[i * p->n_types + k] =
				oracle_below(rnd, 9) ? (int64_t)oracle_number(rnd) : -1;
		for (size_t k = 0; k < n_labels; k++) {
			struct prof_label l = {.key = oracle_below(rnd, p->n_strings)};

			/* In the decoder's normal form: a string, or a number that says something. */
			if (p->n_strings > 1 && oracle_below(rnd, 2))
				l.str = 1 + oracle_below(rnd, p->n_strings - 1);
			else
				l.num = 1 + (int64_t)oracle_below(rnd, 1000);
			if (l.num)
				l.num_unit = oracle_below(rnd, p->n_strings);
			p->labels[p->n_labels++] = l;
		}
	}
	p->stack_first[p->n_samples] = p->n_stack_words;
	p->label_first[p->n_samples] = p->n_labels;
}

/* A profile with random columns of at most `size` rows each; equal seeds give equal profiles. */
static inline void oracle_random_profile(struct profile *p, uint64_t seed, uint32_t size)
{
	uint64_t rnd = seed;

	p->n_strings = 1 + oracle_below(&rnd, size);
	p->n_types = 1 + oracle_below(&rnd, 4);
	p->n_mappings = oracle_below(&rnd, size);
	p->n_functions = oracle_below(&rnd, size);
	p->n_locations = oracle_below(&rnd, size);
	p->n_samples = oracle_below(&rnd, size);
	p->n_comments = oracle_below(&rnd, 3);
	p->strings = oracle_column(p, p->n_strings, sizeof(*p->strings));
	p->types = oracle_column(p, p->n_types, sizeof(*p->types));
	p->mappings = oracle_column(p, p->n_mappings, sizeof(*p->mappings));
	p->functions = oracle_column(p, p->n_functions, sizeof(*p->functions));
	p->locations = oracle_column(p, p->n_locations, sizeof(*p->locations));
	p->lines = oracle_column(p, p->n_locations * 3, sizeof(*p->lines));
	p->stacks = oracle_column(p, p->n_samples * 60, sizeof(*p->stacks));
	p->labels = oracle_column(p, p->n_samples * 4, sizeof(*p->labels));
	p->values = oracle_column(p, p->n_samples * p->n_types, sizeof(*p->values));
	p->stack_first = oracle_column(p, p->n_samples, sizeof(*p->stack_first));
	p->label_first = oracle_column(p, p->n_samples, sizeof(*p->label_first));
	p->comments = oracle_column(p, p->n_comments, sizeof(*p->comments));
	oracle_random_tables(p, &rnd);
	oracle_random_locations(p, &rnd);
	oracle_random_samples(p, &rnd);
	for (size_t i = 0; i < p->n_comments; i++)
		p->comments[i] = oracle_below(&rnd, p->n_strings);
	p->period_type = p->types[0];
	p->period = (int64_t)oracle_number(&rnd);
	p->time_ns = (int64_t)oracle_number(&rnd);
	p->duration_ns = (int64_t)oracle_number(&rnd);
	p->default_sample_type = oracle_below(&rnd, p->n_strings);
	p->drop_frames = oracle_below(&rnd, p->n_strings);
	p->keep_frames = oracle_below(&rnd, p->n_strings);
	p->doc_url = oracle_below(&rnd, p->n_strings);
}

/* The first difference between two profiles as text, NULL when there is none. */
static inline const char *oracle_difference(const struct profile *a, const struct profile *b)
{
#define SAME(x)           \
	if (a->x != b->x) \
	return #x
#define EACH(n, x)                        \
	for (size_t i = 0; i < a->n; i++) \
	SAME(x)
	SAME(n_strings);
	SAME(n_types);
	SAME(n_mappings);
	SAME(n_functions);
	SAME(n_lines);
	SAME(n_locations);
	SAME(n_stack_words);
	SAME(n_labels);
	SAME(n_samples);
	SAME(n_comments);
	SAME(period_type.type);
	SAME(period_type.unit);
	SAME(period);
	SAME(time_ns);
	SAME(duration_ns);
	SAME(default_sample_type);
	SAME(drop_frames);
	SAME(keep_frames);
	SAME(doc_url);
	EACH(n_strings, strings[i].len);
	for (size_t i = 0; i < a->n_strings; i++)
		if (memcmp(a->strings[i].p, b->strings[i].p, a->strings[i].len) != 0)
			return "strings[i].p";
	EACH(n_types, types[i].type);
	EACH(n_types, types[i].unit);
	EACH(n_mappings, mappings[i].start);
	EACH(n_mappings, mappings[i].limit);
	EACH(n_mappings, mappings[i].file_off);
	EACH(n_mappings, mappings[i].filename);
	EACH(n_mappings, mappings[i].build_id);
	EACH(n_mappings, mappings[i].has_functions);
	EACH(n_mappings, mappings[i].has_filenames);
	EACH(n_mappings, mappings[i].has_line_numbers);
	EACH(n_mappings, mappings[i].has_inline_frames);
	EACH(n_functions, functions[i].name);
	EACH(n_functions, functions[i].system_name);
	EACH(n_functions, functions[i].filename);
	EACH(n_functions, functions[i].start_line);
	EACH(n_lines, lines[i].function);
	EACH(n_lines, lines[i].line);
	EACH(n_lines, lines[i].column);
	EACH(n_locations, locations[i].address);
	EACH(n_locations, locations[i].mapping);
	EACH(n_locations, locations[i].first_line);
	EACH(n_locations, locations[i].n_lines);
	EACH(n_locations, locations[i].is_folded);
	EACH(n_stack_words, stacks[i]);
	EACH(n_labels, labels[i].key);
	EACH(n_labels, labels[i].str);
	EACH(n_labels, labels[i].num);
	EACH(n_labels, labels[i].num_unit);
	EACH(n_samples, stack_first[i + 1]);
	EACH(n_samples, label_first[i + 1]);
	EACH(n_samples * a->n_types, values[i]);
	EACH(n_comments, comments[i]);
	return NULL;
#undef EACH
#undef SAME
}

/* ids of the tree: row + 1 when `sparse` is 0, else spread over 64 bits by this odd factor */
static inline uint64_t oracle_id(uint32_t row, uint64_t sparse)
{
	return row == PROF_NONE ? 0 : sparse ? (row + 1) * sparse : row + 1U;
}

#define ORACLE_NEW(a, n, type) ((type *)arena_zalloc(a, ((n) + 1) * sizeof(type)))

static inline void oracle_tree_samples(
	const struct profile *p, Pprof__Profile *t, struct arena *a, uint64_t sparse)
{
	Pprof__Sample *rows = ORACLE_NEW(a, p->n_samples, Pprof__Sample);
	Pprof__Label *labels = ORACLE_NEW(a, p->n_labels, Pprof__Label);
	Pprof__Label **label_ptrs = ORACLE_NEW(a, p->n_labels, Pprof__Label *);
	uint64_t *ids = ORACLE_NEW(a, p->n_stack_words, uint64_t);

	t->sample = ORACLE_NEW(a, p->n_samples, Pprof__Sample *);
	t->n_sample = p->n_samples;
	for (size_t i = 0; i < p->n_stack_words; i++)
		ids[i] = oracle_id(p->stacks[i], sparse);
	for (size_t i = 0; i < p->n_labels; i++) {
		pprof__label__init(&labels[i]);
		labels[i].key = p->labels[i].key;
		labels[i].str = p->labels[i].str;
		labels[i].num = p->labels[i].num;
		labels[i].num_unit = p->labels[i].num_unit;
		label_ptrs[i] = &labels[i];
	}
	for (size_t i = 0; i < p->n_samples; i++) {
		pprof__sample__init(&rows[i]);
		rows[i].location_id = ids + p->stack_first[i];
		rows[i].n_location_id = (size_t)(p->stack_first[i + 1] - p->stack_first[i]);
		rows[i].value = p->values + i * p->n_types;
		rows[i].n_value = p->n_types;
		rows[i].label = label_ptrs + p->label_first[i];
		rows[i].n_label = (size_t)(p->label_first[i + 1] - p->label_first[i]);
		t->sample[i] = &rows[i];
	}
}

static inline void oracle_tree_locations(
	const struct profile *p, Pprof__Profile *t, struct arena *a, uint64_t sparse)
{
	Pprof__Location *rows = ORACLE_NEW(a, p->n_locations, Pprof__Location);
	Pprof__Line *lines = ORACLE_NEW(a, p->n_lines, Pprof__Line);
	Pprof__Line **line_ptrs = ORACLE_NEW(a, p->n_lines, Pprof__Line *);

	t->location = ORACLE_NEW(a, p->n_locations, Pprof__Location *);
	t->n_location = p->n_locations;
	for (size_t i = 0; i < p->n_lines; i++) {
		pprof__line__init(&lines[i]);
		lines[i].function_id = oracle_id(p->lines[i].function, sparse);
		lines[i].line = p->lines[i].line;
		lines[i].column = p->lines[i].column;
		line_ptrs[i] = &lines[i];
	}
	for (size_t i = 0; i < p->n_locations; i++) {
		pprof__location__init(&rows[i]);
		rows[i].id = oracle_id((uint32_t)i, sparse);
		rows[i].mapping_id = oracle_id(p->locations[i].mapping, sparse);
		rows[i].address = p->locations[i].address;
		rows[i].line = line_ptrs + p->locations[i].first_line;
		rows[i].n_line = p->locations[i].n_lines;
		rows[i].is_folded = p->locations[i].is_folded;
		t->location[i] = &rows[i];
	}
}

static inline void oracle_tree_tables(
	const struct profile *p, Pprof__Profile *t, struct arena *a, uint64_t sparse)
{
	Pprof__Mapping *mappings = ORACLE_NEW(a, p->n_mappings, Pprof__Mapping);
	Pprof__Function *functions = ORACLE_NEW(a, p->n_functions, Pprof__Function);

	t->mapping = ORACLE_NEW(a, p->n_mappings, Pprof__Mapping *);
	t->n_mapping = p->n_mappings;
	for (size_t i = 0; i < p->n_mappings; i++) {
		const struct prof_mapping *m = &p->mappings[i];

		pprof__mapping__init(&mappings[i]);
		mappings[i].id = oracle_id((uint32_t)i, sparse);
		mappings[i].memory_start = m->start;
		mappings[i].memory_limit = m->limit;
		mappings[i].file_offset = m->file_off;
		mappings[i].filename = m->filename;
		mappings[i].build_id = m->build_id;
		mappings[i].has_functions = m->has_functions;
		mappings[i].has_filenames = m->has_filenames;
		mappings[i].has_line_numbers = m->has_line_numbers;
		mappings[i].has_inline_frames = m->has_inline_frames;
		t->mapping[i] = &mappings[i];
	}
	t->function = ORACLE_NEW(a, p->n_functions, Pprof__Function *);
	t->n_function = p->n_functions;
	for (size_t i = 0; i < p->n_functions; i++) {
		pprof__function__init(&functions[i]);
		functions[i].id = oracle_id((uint32_t)i, sparse);
		functions[i].name = p->functions[i].name;
		functions[i].system_name = p->functions[i].system_name;
		functions[i].filename = p->functions[i].filename;
		functions[i].start_line = p->functions[i].start_line;
		t->function[i] = &functions[i];
	}
}

static inline Pprof__ValueType *oracle_tree_type(
	const struct prof_value_type *from, struct arena *a)
{
	Pprof__ValueType *t = ORACLE_NEW(a, 0, Pprof__ValueType);

	pprof__value_type__init(t);
	t->type = from->type;
	t->unit = from->unit;
	return t;
}

/* The same profile as protobuf-c's structs, all in `a`. Strings must hold no NUL. */
static inline Pprof__Profile *oracle_tree(const struct profile *p, struct arena *a, uint64_t sparse)
{
	Pprof__Profile *t = ORACLE_NEW(a, 0, Pprof__Profile);

	pprof__profile__init(t);
	t->sample_type = ORACLE_NEW(a, p->n_types, Pprof__ValueType *);
	t->n_sample_type = p->n_types;
	for (size_t i = 0; i < p->n_types; i++)
		t->sample_type[i] = oracle_tree_type(&p->types[i], a);
	oracle_tree_samples(p, t, a, sparse);
	oracle_tree_locations(p, t, a, sparse);
	oracle_tree_tables(p, t, a, sparse);
	t->string_table = ORACLE_NEW(a, p->n_strings, char *);
	t->n_string_table = p->n_strings;
	for (size_t i = 0; i < p->n_strings; i++)
		t->string_table[i] = arena_strndup(a, p->strings[i].p, p->strings[i].len);
	t->drop_frames = p->drop_frames;
	t->keep_frames = p->keep_frames;
	t->time_nanos = p->time_ns;
	t->duration_nanos = p->duration_ns;
	if (p->period_type.type || p->period_type.unit)
		t->period_type = oracle_tree_type(&p->period_type, a);
	t->period = p->period;
	t->comment = ORACLE_NEW(a, p->n_comments, int64_t);
	t->n_comment = p->n_comments;
	for (size_t i = 0; i < p->n_comments; i++)
		t->comment[i] = p->comments[i];
	t->default_sample_type = p->default_sample_type;
	t->doc_url = p->doc_url;
	return t;
}

/* Packs with protobuf-c, appended to `out`. */
static inline void oracle_pack(const Pprof__Profile *t, struct bytes *out)
{
	size_t n = pprof__profile__get_packed_size(t);
	uint8_t *to = bytes_reserve(out, n);

	ASSERT(to);
	out->len += pprof__profile__pack(t, to);
}
