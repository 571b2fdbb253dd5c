/* SPDX-License-Identifier: Apache-2.0
 *
 * Random profiles, and what differs between two.
 */
#pragma once
#include "lib/base/bytes.h"
#include "lib/prof/profile.h"
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
