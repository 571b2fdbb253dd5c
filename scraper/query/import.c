/* SPDX-License-Identifier: Apache-2.0
 *
 * Each table is read once per part for what is needed of it: locations, then their functions and mappings, then strings.
 */
#include "scraper/query/import.h"
#include <string.h>

struct import {
	struct scan_part *part;
	struct tree_symbols *symbols;
	struct arena *arena;
	struct errbuf *eb;
	bool is_new; /* functions and locations are not in the symbols yet */
	struct part_location *locations;
	size_t n;
	const struct part_mapping *mappings;
	uint32_t *mapping_map;	/* per mapping: id in symbols, TREE_NONE not made yet */
	uint32_t *function_ids; /* of the part, ascending */
	struct part_function *functions;
	uint32_t *function_map; /* per entry of functions: as mapping_map */
	size_t n_functions;
	uint32_t *function_at;	 /* per function of the part: index in functions + 1 */
	uint32_t *string_map;	 /* per string of the part: as mapping_map */
	struct tree_line *lines; /* room for those of any location */
};

static int bad(const struct import *im, const char *what)
{
	return scan_contradicts(im->part, im->part->reader, what, im->eb);
}

static uint32_t *new_map(struct import *im, size_t n)
{
	uint32_t *map = arena_alloc_array(im->arena, n + 1, sizeof(*map));

	if (map)
		memset(map, 0xff, (n + 1) * sizeof(*map));
	return map;
}

static int read_functions(struct import *im)
{
	const struct part_info *in = im->part->info;
	size_t n_lines = 0;
	int r;

	for (size_t i = 0; i < im->n; i++)
		n_lines += im->locations[i].n_lines;
	im->function_at = arena_zalloc(im->arena, (in->n_functions + 1UL) * 4);
	im->function_ids =
		arena_alloc_array(im->arena, MIN(n_lines, (size_t)in->n_functions) + 1, 4);
	r = arena_error(im->arena, im->eb);
	if (r)
		return r;
	for (size_t i = 0; i < im->n; i++)
		for (uint32_t k = 0; k < im->locations[i].n_lines; k++) {
			uint32_t f = im->locations[i].lines[k].function;

			if (f == STORE_NONE)
				continue;
			if (f >= in->n_functions)
				return bad(im, "a line refers to no function");
			im->function_at[f] = 1;
		}
	for (uint32_t f = 0; f < in->n_functions; f++)
		if (im->function_at[f]) {
			im->function_ids[im->n_functions] = f;
			im->function_at[f] = (uint32_t)++im->n_functions;
		}
	im->functions = arena_alloc_array(im->arena, im->n_functions + 1, sizeof(*im->functions));
	im->function_map = new_map(im, im->n_functions);
	r = arena_error(im->arena, im->eb);
	if (r)
		return r;
	r = part_functions(im->part->reader, im->function_ids, im->n_functions, im->functions);
	return r ? scan_failed(im->part, r, im->eb) : 0;
}

/* Marks a string as needed. */
static int want(struct import *im, uint32_t id)
{
	if (id >= im->part->info->n_strings)
		return bad(im, "a name refers to no string");
	im->string_map[id] = 0;
	return 0;
}

static int want_all(struct import *im)
{
	int r = 0;

	for (size_t i = 0; !r && i < im->n_functions; i++) {
		r = want(im, im->functions[i].name);
		if (!r)
			r = want(im, im->functions[i].system_name);
		if (!r)
			r = want(im, im->functions[i].filename);
	}
	for (size_t i = 0; !r && i < im->n; i++) {
		uint32_t m = im->locations[i].mapping;

		if (m == STORE_NONE)
			continue;
		if (m >= im->part->info->n_mappings)
			return bad(im, "a location refers to no mapping");
		r = want(im, im->mappings[m].filename);
		if (!r)
			r = want(im, im->mappings[m].build_id);
	}
	return r;
}

static int read_strings(struct import *im)
{
	size_t n_strings = im->part->info->n_strings, n = 0;
	uint32_t *ids = arena_alloc_array(im->arena, n_strings + 1, sizeof(*ids)), *at;
	struct prof_str *texts;
	int r;

	im->string_map = new_map(im, n_strings);
	r = arena_error(im->arena, im->eb);
	if (r)
		return r;
	r = want_all(im);
	for (uint32_t i = 0; i < n_strings; i++)
		if (!im->string_map[i])
			ids[n++] = i;
	texts = arena_alloc_array(im->arena, n + 1, sizeof(*texts));
	if (!r)
		r = arena_error(im->arena, im->eb);
	if (r)
		return r;
	r = part_strings(im->part->reader, ids, n, texts);
	if (r)
		return scan_failed(im->part, r, im->eb);
	at = arena_alloc_array(im->arena, n + 1, sizeof(*at));
	r = arena_error(im->arena, im->eb);
	if (r)
		return r;
	tree_symbols_strings(im->symbols, texts, n, at);
	for (size_t i = 0; i < n; i++)
		im->string_map[ids[i]] = at[i];
	return 0;
}

static uint32_t import_mapping(struct import *im, uint32_t mapping)
{
	static const enum tree_kind kinds[] = {[PART_MAPPING_NATIVE] = TREE_NATIVE,
		[PART_MAPPING_KERNEL] = TREE_KERNEL,
		[PART_MAPPING_JIT] = TREE_JIT,
		[PART_MAPPING_INTERPRETER] = TREE_INTERPRETER};
	const struct part_mapping *from;
	struct tree_mapping m = {};

	if (mapping == STORE_NONE)
		return TREE_NONE;
	if (im->mapping_map[mapping] != TREE_NONE)
		return im->mapping_map[mapping];
	from = &im->mappings[mapping];
	m.file = im->string_map[from->filename];
	m.build_id = im->string_map[from->build_id];
	m.kind = from->kind < ARRAY_SIZE(kinds) ? kinds[from->kind] : TREE_NATIVE;
	im->mapping_map[mapping] = tree_symbols_mapping(im->symbols, &m);
	return im->mapping_map[mapping];
}

static uint32_t import_function(struct import *im, uint32_t function)
{
	const struct part_function *from;
	struct tree_function f = {};
	uint32_t at;

	if (function == STORE_NONE)
		return TREE_NONE;
	at = im->function_at[function] - 1;
	if (im->function_map[at] != TREE_NONE)
		return im->function_map[at];
	from = &im->functions[at];
	f.name = im->string_map[from->name];
	f.system_name = im->string_map[from->system_name];
	f.file = im->string_map[from->filename];
	f.start_line = from->start_line;
	im->function_map[at] = im->is_new ? tree_symbols_new_function(im->symbols, &f)
					  : tree_symbols_function(im->symbols, &f);
	return im->function_map[at];
}

void import_alone(struct import *im)
{
	im->is_new = !im->symbols->n_functions && !im->symbols->n_locations;
}

/* What stands for frames that were cut off has no lines of its own, but a name. */
static uint32_t truncated_function(struct import *im)
{
	static const char name[] = "[truncated]";
	struct tree_function f = {.name = tree_symbols_string(im->symbols, name, sizeof(name) - 1)};

	f.system_name = f.name;
	return tree_symbols_function(im->symbols, &f);
}

uint32_t import_location(struct import *im, size_t i)
{
	const struct part_location *l = &im->locations[i];
	uint32_t mapping;
	size_t n;

	ASSERT(i < im->n);
	mapping = import_mapping(im, l->mapping);
	n = l->n_lines;
	for (size_t k = 0; k < n; k++)
		im->lines[k] =
			(struct tree_line) {.function = import_function(im, l->lines[k].function),
				.column = tree_column(l->lines[k].column),
				.line = l->lines[k].line};
	if (!n && (l->flags & PART_LOCATION_TRUNCATED))
		im->lines[n++] = (struct tree_line) {.function = truncated_function(im)};
	return im->is_new
		       ? tree_symbols_new_location(im->symbols, l->address, mapping, im->lines, n)
		       : tree_symbols_location(im->symbols, l->address, mapping, im->lines, n);
}

static int read_tables(struct import *im, const uint32_t *ids)
{
	size_t n_lines = 1;
	int r;

	im->locations = arena_alloc_array(im->arena, im->n + 1, sizeof(*im->locations));
	r = arena_error(im->arena, im->eb);
	if (r)
		return r;
	r = part_locations(im->part->reader, ids, im->n, im->locations);
	if (!r)
		r = part_mappings(im->part->reader, &im->mappings);
	if (r)
		return scan_failed(im->part, r, im->eb);
	for (size_t i = 0; i < im->n; i++)
		n_lines = MAX(n_lines, (size_t)im->locations[i].n_lines);
	im->lines = arena_alloc_array(im->arena, n_lines, sizeof(*im->lines));
	im->mapping_map = new_map(im, im->part->info->n_mappings);
	r = arena_error(im->arena, im->eb);
	if (!r)
		r = read_functions(im);
	return r ? r : read_strings(im);
}

int import_open(struct scan_part *p, const uint32_t *ids, size_t n, struct tree_symbols *symbols,
	struct arena *arena, struct import **ret, struct errbuf *eb)
{
	struct import *im = arena_zalloc(arena, sizeof(*im));
	int r = arena_error(arena, eb);

	if (r)
		return r;
	*im = (struct import) {.part = p, .symbols = symbols, .arena = arena, .eb = eb, .n = n};
	r = read_tables(im, ids);
	if (!r)
		tree_symbols_reserve(symbols, im->n_functions, n);
	if (!r)
		*ret = im;
	return r;
}
