/* SPDX-License-Identifier: Apache-2.0
 *
 * Each table is read once per part for what is needed of it: locations, then their functions and mappings, then strings.
 */
#include "scraper/query/import.h"
#include "lib/base/alloc.h"
#include <string.h>

struct import {
	struct scan_part *part;
	struct tree_symbols *symbols;
	struct arena *arena;
	struct errbuf *eb;
	struct part_location *locations;
	size_t n;
	const struct part_mapping *mappings;
	uint32_t *function_ids; /* of the part */
	struct part_function *functions;
	size_t n_functions;
	uint32_t *function_at; /* per function of the part: index in functions + 1 */
	uint32_t *string_map;  /* per string of the part: id in symbols, TREE_NONE not asked for */
	struct tree_line *lines;
	size_t cap_lines;
};

static int bad(const struct import *im, const char *what)
{
	return err_set(im->eb, -EBADMSG, "part %s: %s", im->part->info->ulid, what);
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
			if (im->function_at[f])
				continue;
			im->function_ids[im->n_functions] = f;
			im->function_at[f] = (uint32_t)++im->n_functions;
		}
	im->functions = arena_alloc_array(im->arena, im->n_functions + 1, sizeof(*im->functions));
	r = arena_error(im->arena, im->eb);
	if (r)
		return r;
	r = part_functions(im->part->reader, im->function_ids, im->n_functions, im->functions);
	return r ? scan_failed(im->part, r, im->eb) : 0;
}

/* Marks a string as needed; appends it to `ids` when it is new. */
static int want(struct import *im, uint32_t id, uint32_t *ids, size_t *n)
{
	if (id >= im->part->info->n_strings)
		return bad(im, "a name refers to no string");
	if (im->string_map[id] == TREE_NONE) {
		im->string_map[id] = 0;
		ids[(*n)++] = id;
	}
	return 0;
}

static int want_all(struct import *im, uint32_t *ids, size_t *n)
{
	int r = 0;

	for (size_t i = 0; !r && i < im->n_functions; i++) {
		r = want(im, im->functions[i].name, ids, n);
		if (!r)
			r = want(im, im->functions[i].system_name, ids, n);
		if (!r)
			r = want(im, im->functions[i].filename, ids, n);
	}
	for (size_t i = 0; !r && i < im->n; i++) {
		uint32_t m = im->locations[i].mapping;

		if (m == STORE_NONE)
			continue;
		if (m >= im->part->info->n_mappings)
			return bad(im, "a location refers to no mapping");
		r = want(im, im->mappings[m].filename, ids, n);
		if (!r)
			r = want(im, im->mappings[m].build_id, ids, n);
	}
	return r;
}

static int read_strings(struct import *im)
{
	size_t n_strings = im->part->info->n_strings, n = 0;
	uint32_t *ids = arena_alloc_array(im->arena, n_strings + 1, sizeof(*ids));
	struct prof_str *texts;
	int r;

	im->string_map = arena_alloc_array(im->arena, n_strings + 1, sizeof(*im->string_map));
	r = arena_error(im->arena, im->eb);
	if (r)
		return r;
	memset(im->string_map, 0xff, (n_strings + 1) * sizeof(*im->string_map));
	r = want_all(im, ids, &n);
	texts = arena_alloc_array(im->arena, n + 1, sizeof(*texts));
	if (!r)
		r = arena_error(im->arena, im->eb);
	if (r)
		return r;
	r = part_strings(im->part->reader, ids, n, texts);
	if (r)
		return scan_failed(im->part, r, im->eb);
	for (size_t i = 0; i < n; i++)
		im->string_map[ids[i]] = tree_symbols_string(
			im->symbols, texts[i].p ? texts[i].p : "", texts[i].len);
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
	from = &im->mappings[mapping];
	m.file = im->string_map[from->filename];
	m.build_id = im->string_map[from->build_id];
	m.kind = from->kind < ARRAY_SIZE(kinds) ? kinds[from->kind] : TREE_NATIVE;
	return tree_symbols_mapping(im->symbols, &m);
}

static uint32_t import_function(struct import *im, uint32_t function)
{
	const struct part_function *from;
	struct tree_function f = {};

	if (function == STORE_NONE)
		return TREE_NONE;
	from = &im->functions[im->function_at[function] - 1];
	f.name = im->string_map[from->name];
	f.system_name = im->string_map[from->system_name];
	f.file = im->string_map[from->filename];
	f.start_line = from->start_line;
	return tree_symbols_function(im->symbols, &f);
}

/* What stands for frames that were cut off has no lines of its own, but a name. */
static uint32_t truncated_function(struct import *im)
{
	static const char name[] = "[truncated]";
	struct tree_function f = {.name = tree_symbols_string(im->symbols, name, sizeof(name) - 1)};

	f.system_name = f.name;
	return tree_symbols_function(im->symbols, &f);
}

static int import_location(struct import *im, const struct part_location *l, uint32_t *ret)
{
	size_t n = l->n_lines;
	int r = alloc_grow(&im->lines, &im->cap_lines, n + 1, sizeof(*im->lines));

	if (r)
		return r;
	for (size_t k = 0; k < n; k++)
		im->lines[k] =
			(struct tree_line) {.function = import_function(im, l->lines[k].function),
				.line = l->lines[k].line};
	if (!n && (l->flags & PART_LOCATION_TRUNCATED))
		im->lines[n++] = (struct tree_line) {.function = truncated_function(im)};
	*ret = tree_symbols_location(
		im->symbols, l->address, import_mapping(im, l->mapping), im->lines, n);
	return 0;
}

static int run(struct import *im, const uint32_t *ids, uint32_t *ret_map)
{
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
	r = read_functions(im);
	if (!r)
		r = read_strings(im);
	for (size_t i = 0; !r && i < im->n; i++)
		r = import_location(im, &im->locations[i], &ret_map[ids[i]]);
	return r ? r : tree_symbols_error(im->symbols, im->eb);
}

int import_locations(struct scan_part *p, const uint32_t *ids, size_t n,
	struct tree_symbols *symbols, struct arena *arena, uint32_t *ret_map, struct errbuf *eb)
{
	struct import im = {.part = p, .symbols = symbols, .arena = arena, .eb = eb, .n = n};
	int r = run(&im, ids, ret_map);

	free(im.lines);
	return r;
}
