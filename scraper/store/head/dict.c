/* SPDX-License-Identifier: Apache-2.0
 *
 * Interning into the dictionaries of a generation. Content is found by a hash over ids, so text is
 * hashed once per string.
 */
#include "scraper/store/head/dict.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <string.h>

static int init_arrays(struct dict *d, uint32_t max_nodes)
{
	size_t small = (size_t)max_nodes / 2 + 64;
	int r = varr_init(&d->strings, sizeof(struct prof_str), small, d->budget);

	r = r ? r : varr_init(&d->functions, sizeof(struct part_function), small, d->budget);
	r = r ? r : varr_init(&d->mappings, sizeof(struct part_mapping), small, d->budget);
	r = r ? r : varr_init(&d->locations, sizeof(struct dict_location), small, d->budget);
	r = r ? r : varr_init(&d->lines, sizeof(struct part_line), small * 4, d->budget);
	r = r ? r : varr_init(&d->keys, sizeof(uint64_t), small, d->budget);
	r = r ? r : varr_init(&d->label_first, sizeof(uint32_t), small, d->budget);
	r = r ? r : varr_init(&d->label_pairs, sizeof(struct part_label), small * 16, d->budget);
	r = r ? r : varr_init(&d->parents, sizeof(uint32_t), max_nodes, d->budget);
	r = r ? r : varr_init(&d->node_locations, sizeof(uint32_t), max_nodes, d->budget);
	r = r ? r : varr_init(&d->schemas, sizeof(struct part_schema), PART_MAX_SCHEMAS, d->budget);
	return r ? r : varr_init(&d->streams, sizeof(struct dict_stream), small, d->budget);
}

static int add_zeroth(struct dict *d)
{
	int error = 0;

	if (dict_string(d, "", 0) < 0 || !varr_room(&d->label_first, 2, &error) ||
		!varr_room(&d->parents, 1, &error) || !varr_room(&d->node_locations, 1, &error))
		return -ENOMEM;
	d->label_first.n = 2; /* both 0: the empty set */
	d->parents.n = d->node_locations.n = 1;
	return 0;
}

int dict_init(struct dict *d, uint32_t max_nodes, struct budget *budget)
{
	int r;

	*d = (struct dict) {.budget = budget};
	arena_init(&d->text, budget);
	table_init(&d->by_string, budget);
	table_init(&d->by_function, budget);
	table_init(&d->by_mapping, budget);
	table_init(&d->by_location, budget);
	table_init(&d->by_label_set, budget);
	table_init(&d->by_stream, budget);
	table_init(&d->holes, budget);
	r = init_arrays(d, max_nodes);
	if (!r)
		r = add_zeroth(d);
	if (r)
		dict_done(d);
	return r;
}

void dict_done(struct dict *d)
{
	struct varr *arrays[] = {&d->strings, &d->functions, &d->mappings, &d->locations, &d->lines,
		&d->keys, &d->label_first, &d->label_pairs, &d->parents, &d->node_locations,
		&d->schemas, &d->streams};
	struct table *tables[] = {&d->by_string, &d->by_function, &d->by_mapping, &d->by_location,
		&d->by_label_set, &d->by_stream, &d->holes};

	for (size_t i = 0; i < ARRAY_SIZE(arrays); i++)
		varr_done(arrays[i]);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		table_done(tables[i]);
	arena_done(&d->text);
	bytes_done(&d->scratch);
	if (d->budget && d->n_node_slots)
		budget_release(d->budget, d->n_node_slots * sizeof(*d->node_slots));
	free(d->node_slots);
	d->node_slots = NULL;
	d->n_node_slots = 0;
}

size_t dict_n(const struct dict *d, enum dict_kind kind)
{
	switch (kind) {
	case DICT_STRINGS: return d->strings.n;
	case DICT_FUNCTIONS: return d->functions.n;
	case DICT_MAPPINGS: return d->mappings.n;
	case DICT_LOCATIONS: return d->locations.n;
	case DICT_LABEL_SETS: return d->label_first.n - 1;
	case DICT_NODES: return d->parents.n;
	case DICT_SCHEMAS: return d->schemas.n;
	default: return d->streams.n;
	}
}

uint64_t dict_bytes(const struct dict *d)
{
	const struct varr *arrays[] = {&d->strings, &d->functions, &d->mappings, &d->locations,
		&d->lines, &d->keys, &d->label_first, &d->label_pairs, &d->parents,
		&d->node_locations, &d->schemas, &d->streams};
	uint64_t bytes = d->text.total_bytes + d->n_node_slots * sizeof(*d->node_slots);

	for (size_t i = 0; i < ARRAY_SIZE(arrays); i++)
		bytes += arrays[i]->charged_bytes;
	return bytes +
	       (d->by_string.n_slots + d->by_function.n_slots + d->by_mapping.n_slots +
		       d->by_location.n_slots + d->by_label_set.n_slots + d->by_stream.n_slots) *
		       (sizeof(struct table_slot) + 1);
}

/* Adds `id` under `hash` or the first free hash after it. */
static int remember(struct table *t, uint64_t hash, uint32_t id)
{
	bool is_new;

	for (;; hash++) {
		uint64_t *v = table_insert(t, hash, &is_new);

		if (!v)
			return -ENOMEM;
		if (is_new) {
			*v = id;
			return 0;
		}
	}
}

/* for (each id under `hash`): ends where a hash is free. */
#define FOR_EACH_CANDIDATE(t, hash, v) \
	for (uint64_t h_ = (hash), *v = table_find(t, h_); v; v = table_find(t, ++h_))

/* Makes `*entry` number v->n; a failure of the table leaves the array as it was. */
static int64_t add(struct varr *v, struct table *t, uint64_t hash, const void *entry)
{
	int r = 0;
	void *to = varr_room(v, 1, &r);

	if (!to)
		return r;
	r = remember(t, hash, (uint32_t)v->n);
	if (r < 0)
		return r;
	memcpy(to, entry, v->elem);
	return (int64_t)v->n++;
}

static size_t cut_at_character(const char *p, size_t len)
{
	if (len <= STORE_MAX_STRING)
		return len;
	len = STORE_MAX_STRING;
	while (len && ((uint8_t)p[len] & 0xc0) == 0x80)
		len--;
	return len;
}

int64_t dict_string(struct dict *d, const char *p, size_t len)
{
	struct prof_str s;
	uint64_t hash;

	len = cut_at_character(p, len);
	hash = hash_xxh3(p, len);
	FOR_EACH_CANDIDATE(&d->by_string, hash, v)
	{
		const struct prof_str *have = &dict_strings(d)[*v];

		if (have->len == len && (!len || !memcmp(have->p, p, len)))
			return (int64_t)*v;
	}
	if (d->strings.n == d->strings.cap)
		return -ENOSPC;
	s = (struct prof_str) {.p = arena_strndup(&d->text, p, len), .len = (uint32_t)len};
	if (!s.p) {
		d->text.error = 0; /* the budget may have room later */
		return -ENOMEM;
	}
	return add(&d->strings, &d->by_string, hash, &s);
}

/* Invariant 1: what an entry refers to is there. */
static bool has(const struct dict *d, enum dict_kind kind, uint32_t id)
{
	return id < dict_n(d, kind);
}

int64_t dict_function(struct dict *d, const struct part_function *f)
{
	struct part_function key;
	uint64_t hash;

	ASSERT(has(d, DICT_STRINGS, f->name) && has(d, DICT_STRINGS, f->system_name) &&
		has(d, DICT_STRINGS, f->filename));
	memset(&key, 0, sizeof(key));
	key.name = f->name;
	key.system_name = f->system_name;
	key.filename = f->filename;
	key.start_line = f->start_line;
	hash = hash_xxh3(&key, sizeof(key));
	FOR_EACH_CANDIDATE(&d->by_function, hash, v)
	{
		if (!memcmp(&dict_functions(d)[*v], &key, sizeof(key)))
			return (int64_t)*v;
	}
	return add(&d->functions, &d->by_function, hash, &key);
}

int64_t dict_mapping(struct dict *d, const struct part_mapping *m)
{
	struct part_mapping key;
	uint64_t hash;

	ASSERT(has(d, DICT_STRINGS, m->filename) && has(d, DICT_STRINGS, m->build_id));
	memset(&key, 0, sizeof(key));
	key.filename = m->filename;
	key.build_id = m->build_id;
	key.kind = m->kind;
	hash = hash_xxh3(&key, sizeof(key));
	FOR_EACH_CANDIDATE(&d->by_mapping, hash, v)
	{
		if (!memcmp(&dict_mappings(d)[*v], &key, sizeof(key)))
			return (int64_t)*v;
	}
	return add(&d->mappings, &d->by_mapping, hash, &key);
}

static void put_text(struct bytes *b, const struct dict *d, uint32_t string)
{
	const struct prof_str *s = &dict_strings(d)[string];

	bytes_put_varint(b, s->len);
	bytes_put(b, s->p, s->len);
}

uint64_t dict_location_key(struct dict *d, const struct part_location *l)
{
	struct bytes *b = &d->scratch;

	bytes_reset(b);
	bytes_put_u8(b, l->flags);
	if (l->mapping != STORE_NONE) {
		const struct part_mapping *m = &dict_mappings(d)[l->mapping];

		bytes_put_u8(b, m->kind);
		put_text(b, d, m->filename);
		put_text(b, d, m->build_id);
	} else {
		bytes_put_u8(b, 255);
		bytes_put_varint(b, 0);
		bytes_put_varint(b, 0);
	}
	bytes_put_u64(b, l->flags & PART_LOCATION_HAS_ADDRESS ? l->address : 0);
	bytes_put_varint(b, l->n_lines);
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct part_function *f = &dict_functions(d)[l->lines[i].function];

		put_text(b, d, f->name);
		put_text(b, d, f->system_name);
		put_text(b, d, f->filename);
		bytes_put_svarint(b, f->start_line);
		bytes_put_svarint(b, l->lines[i].line);
		bytes_put_svarint(b, l->lines[i].column);
	}
	return hash_xxh3(b->data, b->len);
}

static uint64_t lines_hash(const struct part_location *l)
{
	uint64_t h =
		hash_mix(l->address ^ ((uint64_t)l->mapping << 24) ^ ((uint64_t)l->flags << 56));

	for (uint32_t i = 0; i < l->n_lines; i++) {
		h = hash_mix(h ^ l->lines[i].function);
		h = hash_mix(h ^ ((uint64_t)l->lines[i].line << 20) ^ (uint64_t)l->lines[i].column);
	}
	return h;
}

static bool location_equal(
	const struct dict *d, const struct dict_location *have, const struct part_location *l)
{
	const struct part_line *a = dict_lines(d) + have->first_line;

	if (have->mapping != l->mapping || have->address != l->address || have->flags != l->flags ||
		have->n_lines != l->n_lines)
		return false;
	for (uint32_t i = 0; i < l->n_lines; i++)
		if (a[i].function != l->lines[i].function || a[i].line != l->lines[i].line ||
			a[i].column != l->lines[i].column)
			return false;
	return true;
}

int64_t dict_location(struct dict *d, const struct part_location *l)
{
	uint64_t hash = lines_hash(l), *key;
	struct dict_location entry;
	struct part_line *lines;
	int64_t id;
	int r = 0;

	FOR_EACH_CANDIDATE(&d->by_location, hash, v)
	{
		if (location_equal(d, &dict_locations(d)[*v], l))
			return (int64_t)*v;
	}
	ASSERT(l->n_lines <= PART_MAX_LINES);
	ASSERT(l->mapping == STORE_NONE || has(d, DICT_MAPPINGS, l->mapping));
	for (uint32_t i = 0; i < l->n_lines; i++)
		ASSERT(has(d, DICT_FUNCTIONS, l->lines[i].function));
	lines = varr_room(&d->lines, l->n_lines, &r);
	key = lines ? varr_room(&d->keys, 1, &r) : NULL;
	if (!key)
		return r;
	memset(&entry, 0, sizeof(entry));
	entry.mapping = l->mapping;
	entry.flags = l->flags;
	entry.address = l->address;
	entry.n_lines = (uint16_t)l->n_lines;
	entry.first_line = (uint32_t)d->lines.n;
	*key = dict_location_key(d, l);
	if (d->scratch.error)
		return -ENOMEM;
	if (l->n_lines)
		memcpy(lines, l->lines, l->n_lines * sizeof(*lines));
	id = add(&d->locations, &d->by_location, hash, &entry);
	if (id < 0)
		return id;
	d->lines.n += l->n_lines;
	d->keys.n++;
	return id;
}

int64_t dict_label_set(struct dict *d, const struct part_label *pairs, size_t n)
{
	uint64_t hash = hash_xxh3(pairs, n * sizeof(*pairs));
	struct part_label *to;
	uint32_t end, *end_to;
	int64_t id;
	int r = 0;

	if (!n)
		return 0;
	FOR_EACH_CANDIDATE(&d->by_label_set, hash, v)
	{
		const uint32_t *first = dict_label_first(d) + *v;

		if (first[1] - first[0] == n &&
			!memcmp(dict_label_pairs(d) + first[0], pairs, n * sizeof(*pairs)))
			return (int64_t)*v;
	}
	for (size_t i = 0; i < n; i++)
		ASSERT(has(d, DICT_STRINGS, pairs[i].name) && has(d, DICT_STRINGS, pairs[i].value));
	to = varr_room(&d->label_pairs, n, &r);
	end_to = to ? varr_room(&d->label_first, 1, &r) : NULL;
	if (!end_to)
		return r;
	id = (int64_t)d->label_first.n - 1;
	r = remember(&d->by_label_set, hash, (uint32_t)id);
	if (r < 0)
		return r;
	memcpy(to, pairs, n * sizeof(*pairs));
	d->label_pairs.n += n;
	end = (uint32_t)d->label_pairs.n;
	*end_to = end;
	d->label_first.n++;
	return id;
}

static size_t node_slot(const struct dict *d, uint32_t parent, uint32_t location)
{
	size_t mask = d->n_node_slots - 1;
	size_t at = hash_mix((uint64_t)parent << 32 | location) & mask;
	const uint32_t *parents = dict_parents(d), *locations = dict_node_locations(d);

	for (uint32_t id; (id = d->node_slots[at]) != 0; at = (at + 1) & mask)
		if (parents[id] == parent && locations[id] == location)
			break;
	return at;
}

static int grow_node_slots(struct dict *d)
{
	size_t n = d->n_node_slots ? d->n_node_slots * 2 : 1024, before = d->n_node_slots;
	uint32_t *slots, *old = d->node_slots;

	if (d->budget && budget_charge(d->budget, (n - before) * sizeof(*slots), NULL) < 0)
		return -ENOMEM;
	slots = try_realloc(NULL, n, sizeof(*slots));
	if (!slots) {
		if (d->budget)
			budget_release(d->budget, (n - before) * sizeof(*slots));
		return -ENOMEM;
	}
	memset(slots, 0, n * sizeof(*slots));
	d->node_slots = slots;
	d->n_node_slots = n;
	for (size_t i = 0; i < before; i++)
		if (old[i])
			slots[node_slot(d, dict_parents(d)[old[i]],
				dict_node_locations(d)[old[i]])] = old[i];
	free(old);
	return 0;
}

int64_t dict_node(struct dict *d, uint32_t parent, uint32_t location)
{
	uint32_t *to_parent, *to_location;
	size_t at;
	int r = 0;

	ASSERT(has(d, DICT_NODES, parent) && has(d, DICT_LOCATIONS, location));
	if (d->parents.n * 2 >= d->n_node_slots && grow_node_slots(d) < 0)
		return -ENOMEM;
	at = node_slot(d, parent, location);
	if (d->node_slots[at])
		return d->node_slots[at];
	to_parent = varr_room(&d->parents, 1, &r);
	to_location = to_parent ? varr_room(&d->node_locations, 1, &r) : NULL;
	if (!to_location)
		return r;
	*to_parent = parent;
	*to_location = location;
	d->node_slots[at] = (uint32_t)d->parents.n++;
	d->node_locations.n++;
	return d->node_slots[at];
}

static bool schema_equal(const struct part_schema *a, const struct part_schema *b)
{
	if (a->kind != b->kind || a->n_columns != b->n_columns ||
		a->period_type != b->period_type || a->period_unit != b->period_unit)
		return false;
	for (unsigned i = 0; i < a->n_columns; i++)
		if (a->columns[i].type != b->columns[i].type ||
			a->columns[i].unit != b->columns[i].unit ||
			a->columns[i].kind != b->columns[i].kind)
			return false;
	return true;
}

int64_t dict_schema(struct dict *d, const struct part_schema *s)
{
	struct part_schema *to;
	int r = 0;

	for (size_t i = 0; i < d->schemas.n; i++)
		if (schema_equal(&dict_schemas(d)[i], s) &&
			!dict_is_hole(d, DICT_SCHEMAS, (uint32_t)i))
			return (int64_t)i;
	ASSERT(s->n_columns <= STORE_MAX_COLUMNS && has(d, DICT_STRINGS, s->period_type) &&
		has(d, DICT_STRINGS, s->period_unit));
	for (unsigned i = 0; i < s->n_columns; i++)
		ASSERT(has(d, DICT_STRINGS, s->columns[i].type) &&
			has(d, DICT_STRINGS, s->columns[i].unit));
	to = varr_room(&d->schemas, 1, &r);
	if (!to)
		return r;
	*to = *s;
	return (int64_t)d->schemas.n++;
}

int64_t dict_stream(struct dict *d, uint32_t schema, uint32_t label_set)
{
	struct dict_stream s = {.schema = schema, .label_set = label_set};
	uint64_t key = (uint64_t)schema << 32 | label_set, *v = table_find(&d->by_stream, key);

	ASSERT(has(d, DICT_SCHEMAS, schema) && has(d, DICT_LABEL_SETS, label_set));
	return v ? (int64_t)*v : add(&d->streams, &d->by_stream, key, &s);
}

static struct varr *array_of(struct dict *d, enum dict_kind kind)
{
	switch (kind) {
	case DICT_STRINGS: return &d->strings;
	case DICT_FUNCTIONS: return &d->functions;
	case DICT_MAPPINGS: return &d->mappings;
	case DICT_LOCATIONS: return &d->locations;
	case DICT_NODES: return &d->parents;
	case DICT_SCHEMAS: return &d->schemas;
	default: return &d->streams;
	}
}

/* A hole that belongs to two arrays fills both. */
static int pad_second(struct dict *d, enum dict_kind kind)
{
	int r = 0;

	if (kind == DICT_LOCATIONS) {
		if (!varr_room(&d->keys, 1, &r))
			return r;
		d->keys.n++;
	} else if (kind == DICT_NODES) {
		if (!varr_room(&d->node_locations, 1, &r))
			return r;
		d->node_locations.n++;
	}
	return 0;
}

int dict_pad(struct dict *d, enum dict_kind kind, size_t n)
{
	int r = 0;

	if (n > d->parents.cap)
		return -ENOSPC;
	while (dict_n(d, kind) < n) {
		size_t id = dict_n(d, kind);

		if (!table_insert(&d->holes, (uint64_t)kind << 32 | id, NULL))
			return -ENOMEM;
		if (kind == DICT_LABEL_SETS) {
			uint32_t *end = varr_room(&d->label_first, 1, &r);

			if (!end)
				return r;
			*end = (uint32_t)d->label_pairs.n;
			d->label_first.n++;
			continue;
		}
		if (!varr_room(array_of(d, kind), 1, &r))
			return r;
		r = pad_second(d, kind);
		if (r < 0)
			return r;
		if (kind == DICT_STRINGS)
			((struct prof_str *)(void *)d->strings.base)[id].p = "";
		if (kind == DICT_LOCATIONS)
			((struct dict_location *)(void *)d->locations.base)[id].mapping =
				STORE_NONE;
		array_of(d, kind)->n++;
	}
	return 0;
}

bool dict_is_hole(const struct dict *d, enum dict_kind kind, uint32_t id)
{
	return d->holes.n_used && table_find(&d->holes, (uint64_t)kind << 32 | id);
}
