/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes over hashes: a function is hashed as its strings' hashes and its line, a location as its functions' hashes with its own numbers.
 */
#include "scraper/store/intern/content.h"
#include <string.h>

enum { MAX_LINES = 16 };

int content_init(struct content *c, const struct profile *p, bool keep_addresses, uint64_t seed,
	struct arena *a)
{
	*c = (struct content) {.p = p,
		.keep_addresses = keep_addresses,
		.seed = seed,
		.strings = arena_zalloc(a, p->n_strings * sizeof(*c->strings)),
		.functions = arena_zalloc(a, p->n_functions * sizeof(*c->functions)),
		.mappings = arena_zalloc(a, p->n_mappings * sizeof(*c->mappings))};
	return arena_error(a, NULL);
}

uint64_t content_file_address(const struct profile *p, const struct prof_location *l)
{
	const struct prof_mapping *m = l->mapping < p->n_mappings ? &p->mappings[l->mapping] : NULL;

	return m ? l->address - m->start + m->file_off : l->address;
}

static bool is_set(const struct hash128 *h)
{
	return h->lo | h->hi;
}

static struct hash128 string_hash(struct content *c, uint32_t i)
{
	struct hash128 *h = &c->strings[i];

	if (!is_set(h))
		*h = hash_xxh3_128(c->p->strings[i].p, c->p->strings[i].len, c->seed);
	return *h;
}

static struct hash128 function_hash(struct content *c, uint32_t i)
{
	const struct prof_function *f = &c->p->functions[i];
	struct hash128 *h = &c->functions[i];
	struct {
		struct hash128 name, system_name, filename;
		int64_t start_line;
	} key;

	if (is_set(h))
		return *h;
	key.name = string_hash(c, f->name);
	key.system_name = string_hash(c, f->system_name);
	key.filename = string_hash(c, f->filename);
	key.start_line = f->start_line;
	*h = hash_xxh3_128(&key, sizeof(key), c->seed);
	return *h;
}

static struct hash128 mapping_hash(struct content *c, uint32_t i)
{
	const struct prof_mapping *m = &c->p->mappings[i];
	struct hash128 *h = &c->mappings[i], key[2];

	if (is_set(h))
		return *h;
	key[0] = string_hash(c, m->filename);
	key[1] = string_hash(c, m->build_id);
	*h = hash_xxh3_128(key, sizeof(key), c->seed);
	return *h;
}

bool content_location(struct content *c, uint32_t i, struct hash128 *ret)
{
	const struct prof_location *l = &c->p->locations[i];
	struct {
		struct hash128 mapping;
		uint64_t address,
			flags; /* 1: folded, 2: has a mapping, 4: has an address; lines above */
		struct {
			struct hash128 function;
			int64_t line, column;
		} lines[MAX_LINES];
	} key;
	bool is_named = false;
	uint64_t n = 0;

	if (l->n_lines > MAX_LINES)
		return false;
	for (uint32_t k = 0; k < l->n_lines; k++) {
		const struct prof_line *line = &c->p->lines[l->first_line + k];

		if (line->function == PROF_NONE)
			continue;
		is_named |= c->p->strings[c->p->functions[line->function].name].len != 0;
		key.lines[n].function = function_hash(c, line->function);
		key.lines[n].line = line->line;
		key.lines[n++].column = line->column;
	}
	key.flags = n << 3 | !!l->is_folded;
	key.mapping = (struct hash128) {0, 0};
	key.address = 0;
	if (l->mapping != PROF_NONE) {
		key.mapping = mapping_hash(c, l->mapping);
		key.flags |= 2;
	}
	if (!is_named || c->keep_addresses) {
		key.address = content_file_address(c->p, l);
		key.flags |= 4;
	}
	*ret = hash_xxh3_128(
		&key, offsetof(typeof(key), lines) + n * sizeof(key.lines[0]), c->seed);
	return true;
}
