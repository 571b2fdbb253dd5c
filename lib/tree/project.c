/* SPDX-License-Identifier: Apache-2.0
 *
 * Location trees to function trees, and profiles to location trees.
 */
#include "lib/base/alloc.h"
#include "lib/base/str.h"
#include "lib/prof/profile.h"
#include "lib/tree/canon.h"
#include "lib/tree/tree_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The modules of a mapping, each TREE_NONE until asked for. */
struct modules {
	uint32_t of_names, of_offsets;
};

/* "libfoo.so+0x1234" of libfoo.so: a producer's own way to say that there is no name. */
static bool is_unnamed(const char *text, const char *module, size_t n)
{
	return n && !strncmp(text, module, n) && !strncmp(text + n, "+0x", 3);
}

/* "[truncated: no_table]" of our exporter, "[truncated]" of an import. */
static bool is_truncated(const char *name)
{
	return str_starts_with(name, "[truncated");
}

/* What a node of a location becomes: one or more nodes, each below the one before. */
struct step {
	uint32_t frame;
	bool has_next;
	int64_t line; /* of struct tree */
};

/* The steps of each location, outermost first, made when first met. */
struct projection {
	struct tree_identity id;
	struct tree_symbols *symbols;
	struct modules *modules; /* per mapping of a location */
	uint32_t *first;	 /* per location: start of its steps, or TREE_NONE */
	struct step *steps;
	size_t n, cap;
	uint32_t mapping; /* whose base name `module` is */
	const char *module;
	size_t module_len;
};

static void projection_done(struct projection *p)
{
	free(p->first);
	free(p->steps);
	free(p->modules);
}

/* The mapping that stands for the module: for all builds of it, or for one at whatever path. */
static uint32_t module_of(struct projection *p, uint32_t mapping, bool is_named)
{
	struct tree_symbols *s = p->symbols;
	struct tree_mapping m;
	const char *base;
	uint32_t *known;

	if (mapping == TREE_NONE || p->id.by_build)
		return mapping;
	known = is_named ? &p->modules[mapping].of_names : &p->modules[mapping].of_offsets;
	if (*known != TREE_NONE)
		return *known;
	m = s->mappings[mapping];
	base = tree_symbols_base_name(s, m.file);
	m.file = tree_symbols_string(s, base, strlen(base));
	m.build_id = is_named ? 0 : m.build_id;
	return *known = tree_symbols_mapping(s, &m);
}

/* The frame, whose mapping is the location's. */
static uint32_t frame_of(struct projection *p, struct tree_frame f)
{
	uint32_t build_id = f.mapping == TREE_NONE ? 0 : p->symbols->mappings[f.mapping].build_id;
	uint32_t frame;

	f.mapping = module_of(p, f.mapping, f.kind != TREE_UNKNOWN);
	frame = p->id.by_build ? tree_symbols_frame(p->symbols, &f)
			       : tree_symbols_frame_anywhere(p->symbols, &f);
	if (build_id)
		tree_symbols_build(p->symbols, frame, build_id);
	return frame;
}

/* The frame of a location without lines: "libfoo.so+0x1234", or the bare address. */
static uint32_t unnamed_frame(struct projection *p, const struct tree_location *l)
{
	struct tree_symbols *s = p->symbols;
	char text[320];
	int n;
	struct tree_frame f = {.mapping = l->mapping, .kind = TREE_UNKNOWN};

	if (l->mapping != TREE_NONE && s->mappings[l->mapping].file)
		n = snprintf(text, sizeof(text), "%.255s+0x%" PRIx64,
			tree_symbols_base_name(s, s->mappings[l->mapping].file), l->address);
	else
		n = snprintf(text, sizeof(text), "0x%" PRIx64, l->address);
	f.name = tree_symbols_string(s, text, (size_t)n);
	return frame_of(p, f);
}

static uint32_t canonical(struct tree_symbols *s, uint32_t name, unsigned what)
{
	char buf[TREE_CANON_MAX];
	size_t len, n;
	const char *text = tree_symbols_text(s, name, &len);

	n = tree_canonical_name(text, len, what, buf);
	return n ? tree_symbols_string(s, buf, n) : name;
}

static enum tree_kind kind_of(struct projection *p, const char *name, uint32_t mapping)
{
	const struct tree_symbols *s = p->symbols;

	if (is_truncated(name))
		return TREE_TRUNCATED;
	if (mapping == TREE_NONE)
		return TREE_NATIVE;
	if (mapping != p->mapping) { /* most of the time it is that of the last one */
		p->mapping = mapping;
		p->module = tree_symbols_base_name(s, s->mappings[mapping].file);
		p->module_len = strlen(p->module);
	}
	return is_unnamed(name, p->module, p->module_len) ? TREE_UNKNOWN
							  : s->mappings[mapping].kind;
}

static uint32_t line_frame(
	struct projection *p, const struct tree_location *l, const struct tree_line *line)
{
	struct tree_symbols *s = p->symbols;
	struct tree_frame f = {.mapping = l->mapping};

	if (line->function == TREE_NONE)
		return unnamed_frame(p, l);
	f.name = s->functions[line->function].name;
	if (!f.name)
		f.name = s->functions[line->function].system_name;
	if (!f.name)
		return unnamed_frame(p, l);
	f.file = s->functions[line->function].file;
	f.kind = kind_of(p, tree_symbols_text(s, f.name, NULL), l->mapping);
	if (p->id.canon && f.kind != TREE_UNKNOWN)
		f.name = canonical(s, f.name, p->id.canon);
	return frame_of(p, f);
}

static int project_location(struct projection *p, uint32_t loc)
{
	struct tree_symbols *s = p->symbols;
	const struct tree_location l = s->locations[loc];
	int r = alloc_grow(&p->steps, &p->cap, p->n + l.n_lines + 1, sizeof(*p->steps));

	if (r)
		return r;
	p->first[loc] = (uint32_t)p->n;
	if (!l.n_lines)
		p->steps[p->n++] = (struct step) {.frame = unnamed_frame(p, &l)};
	for (uint32_t i = l.n_lines; i-- > 0;) {
		const struct tree_line line = s->lines[l.first_line + i];

		p->steps[p->n++] = (struct step) {.frame = line_frame(p, &l, &line),
			.has_next = i > 0,
			.line = tree_line_of(line.line, i + 1 < l.n_lines)};
	}
	return 0;
}

static int project_node(
	struct projection *p, struct tree_builder *b, uint32_t parent, uint32_t loc, uint32_t *ret)
{
	const struct step *step;
	uint32_t node = parent;
	int r = p->first[loc] == TREE_NONE ? project_location(p, loc) : 0;

	if (r)
		return r;
	step = &p->steps[p->first[loc]];
	do
		node = tree_builder_append(b, node, step->frame, step->line);
	while (step++->has_next);
	*ret = node;
	return 0;
}

int tree_project_stacks(const struct tree *in, const struct tree_identity *id,
	struct tree_symbols *symbols, struct tree_builder *b, uint32_t *ret_to, struct errbuf *eb)
{
	_cleanup_(projection_done)
	struct projection p = {.symbols = symbols, .mapping = TREE_NONE};
	size_t n = MAX(symbols->n_locations, (size_t)1);
	size_t n_mappings = MAX(symbols->n_mappings, (size_t)1);
	int r = 0;

	if (id)
		p.id = *id;
	p.first = try_realloc(NULL, n, sizeof(*p.first));
	p.modules = try_realloc(NULL, n_mappings, sizeof(*p.modules));
	if (!p.first || !p.modules)
		return err_set(eb, -ENOMEM, "out of memory for %zu locations", n);
	memset(p.first, 0xff, n * sizeof(*p.first)); /* TREE_NONE */
	memset(p.modules, 0xff, n_mappings * sizeof(*p.modules));
	tree_symbols_reserve_frames(symbols, MIN(in->n, symbols->n_functions));
	ret_to[0] = 0;
	for (size_t i = 1; !r && i < in->n; i++)
		r = project_node(&p, b, ret_to[in->parent[i]], in->frame[i], &ret_to[i]);
	if (r)
		return err_set(eb, r, "out of memory for %zu locations", n);
	return tree_symbols_error(symbols, eb);
}

int tree_project(const struct tree *in, const struct tree_identity *id,
	struct tree_symbols *symbols, struct tree *ret, struct errbuf *eb)
{
	_cleanup_tree_builder_ struct tree_builder b = {};
	_cleanup_free_ uint32_t *to = try_realloc(NULL, MAX(in->n, (size_t)1), sizeof(*to));
	int r;

	if (!to)
		return err_set(eb, -ENOMEM, "out of memory for a call tree of %zu nodes", in->n);
	tree_builder_init(&b, ret->budget);
	r = tree_project_stacks(in, id, symbols, &b, to, eb);
	for (size_t i = 0; !r && i < in->n; i++)
		tree_builder_add(&b, to[i], in->self[i]);
	return r ? r : tree_builder_finish(&b, ret, eb);
}

/* Indices of a profile's tables to ids of the symbols. */
struct import {
	const struct profile *p;
	struct tree_symbols *s;
	uint32_t *locations;
	struct tree_line *lines;
	size_t cap_lines;
};

static void import_done(struct import *im)
{
	free(im->locations);
	free(im->lines);
}

static uint32_t import_string(struct import *im, uint32_t i)
{
	struct prof_str str = profile_str(im->p, i);

	return tree_symbols_string(im->s, str.p ? str.p : "", str.len);
}

static uint32_t import_mapping(struct import *im, uint32_t i)
{
	struct tree_mapping m = {};
	const struct prof_mapping *from;

	if (i == PROF_NONE)
		return TREE_NONE;
	from = &im->p->mappings[i];
	m.file = import_string(im, from->filename);
	m.build_id = import_string(im, from->build_id);
	m.kind = tree_kind_of_mapping(tree_symbols_text(im->s, m.file, NULL));
	return tree_symbols_mapping(im->s, &m);
}

static uint32_t import_function(struct import *im, uint32_t i)
{
	const struct prof_function *from;
	struct tree_function f = {};

	if (i == PROF_NONE)
		return TREE_NONE;
	from = &im->p->functions[i];
	f.name = import_string(im, from->name);
	f.system_name = import_string(im, from->system_name);
	f.file = import_string(im, from->filename);
	f.start_line = from->start_line;
	return tree_symbols_function(im->s, &f);
}

/* The offset in the file, which is the same wherever that is mapped; a bare address stays. */
static uint64_t import_address(const struct import *im, const struct prof_location *l)
{
	const struct prof_mapping *m;

	if (l->mapping == PROF_NONE)
		return l->address;
	m = &im->p->mappings[l->mapping];
	return l->address >= m->start && l->address < m->limit ? l->address - m->start + m->file_off
							       : l->address;
}

static int import_locations(struct import *im)
{
	const struct profile *p = im->p;

	im->locations = try_realloc(NULL, MAX(p->n_locations, (size_t)1), sizeof(*im->locations));
	if (!im->locations)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_locations; i++) {
		const struct prof_location *l = &p->locations[i];
		int r = alloc_grow(
			&im->lines, &im->cap_lines, l->n_lines + 1UL, sizeof(*im->lines));

		if (r)
			return r;
		for (uint32_t k = 0; k < l->n_lines; k++) {
			const struct prof_line *line = &p->lines[l->first_line + k];

			im->lines[k] =
				(struct tree_line) {.function = import_function(im, line->function),
					.column = tree_column(line->column),
					.line = line->line};
		}
		im->locations[i] = tree_symbols_location(im->s, import_address(im, l),
			import_mapping(im, l->mapping), im->lines, l->n_lines);
	}
	return 0;
}

int tree_from_profile(const struct profile *p, size_t value_index, struct tree_symbols *symbols,
	struct tree *ret, struct errbuf *eb)
{
	_cleanup_(import_done)
	struct import im = {.p = p, .s = symbols};
	_cleanup_tree_builder_ struct tree_builder b = {};
	int r;

	if (value_index >= p->n_types)
		return err_set(eb, -EINVAL,
			"the profile has %zu sample types, number %zu was asked for", p->n_types,
			value_index);
	r = import_locations(&im);
	if (r)
		return err_set(eb, r, "out of memory for %zu locations", p->n_locations);
	tree_builder_init(&b, ret->budget);
	for (size_t i = 0; i < p->n_samples; i++) {
		int64_t value = p->values[i * p->n_types + value_index];
		uint32_t node = 0;

		if (!value)
			continue;
		for (uint64_t k = p->stack_first[i + 1]; k-- > p->stack_first[i];)
			node = tree_builder_child(
				&b, node, im.locations[p->stacks[k]], TREE_LINE_NONE);
		tree_builder_add(&b, node, value);
	}
	r = tree_symbols_error(symbols, eb);
	return r ? r : tree_builder_finish(&b, ret, eb);
}
