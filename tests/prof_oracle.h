/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile as a protobuf-c tree: the oracle of the pprof codec's tests and its peer in the benchmark.
 */
#pragma once
#include "proto/profile.pb-c.h"
#include "tests/prof_random.h"

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
