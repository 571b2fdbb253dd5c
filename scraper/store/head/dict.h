/* SPDX-License-Identifier: Apache-2.0
 *
 * The dictionaries of one generation: strings, functions, mappings, locations, label sets, nodes,
 * schemas and streams in order of arrival. One thread adds; readers use the arrays below published
 * lengths.
 *
 * Invariants:
 *  1. an entry refers to entries of the other dictionaries, and a node to one of a lower id, that exist, or is a hole;
 *  2. entries never change; string 0 is "", label set 0 is {}, node 0 is the root;
 *  3. a hole (lost to WAL damage) has harmless content: readers need not know, nothing that survives refers to it.
 */
#pragma once
#include "lib/base/table.h"
#include "scraper/store/head/varr.h"
#include "scraper/store/part/part.h"

enum dict_kind {
	DICT_STRINGS = 1,
	DICT_FUNCTIONS,
	DICT_MAPPINGS,
	DICT_LOCATIONS,
	DICT_LABEL_SETS,
	DICT_NODES,
	DICT_SCHEMAS,
	DICT_STREAMS,
	DICT_N
};

struct dict_location {
	uint32_t mapping;
	uint32_t first_line;
	uint64_t address;
	uint16_t n_lines;
	uint8_t flags;
};

struct dict_stream {
	uint32_t schema, label_set;
};

struct dict {
	struct budget *budget;
	struct arena text;		     /* string bytes */
	struct varr strings;		     /* struct prof_str */
	struct varr functions;		     /* struct part_function */
	struct varr mappings;		     /* struct part_mapping */
	struct varr locations;		     /* struct dict_location */
	struct varr lines;		     /* struct part_line */
	struct varr keys;		     /* uint64_t per location */
	struct varr label_first;	     /* uint32_t; one more than label sets */
	struct varr label_pairs;	     /* struct part_label */
	struct varr parents, node_locations; /* uint32_t */
	struct varr schemas;		     /* struct part_schema */
	struct varr streams;		     /* struct dict_stream */

	/* The adding thread's: hash of the content → id; on equal hashes the next one is tried. */
	struct table by_string, by_function, by_mapping, by_location, by_label_set, by_stream;
	uint32_t *node_slots; /* node id, 0 free */
	size_t n_node_slots;
	struct table holes; /* kind << 32 | id */
	struct bytes scratch;
};

/* -ENOMEM, after which nothing is left to free. */
int dict_init(struct dict *d, uint32_t max_nodes, struct budget *budget) _must_check_;
void dict_done(struct dict *d);
size_t dict_n(const struct dict *d, enum dict_kind kind);
uint64_t dict_bytes(const struct dict *d);

/* Id of the content, added when new. Negative: -ENOSPC the dictionary is full, -ENOMEM budget; nothing was added then. Ids fit in 31
 * bits by the caps. Text is copied, and cut at STORE_MAX_STRING bytes, at a character. */
int64_t dict_string(struct dict *d, const char *p, size_t len);
int64_t dict_function(struct dict *d, const struct part_function *f);
int64_t dict_mapping(struct dict *d, const struct part_mapping *m);
int64_t dict_location(struct dict *d, const struct part_location *l);
/* Pairs sorted by name text. */
int64_t dict_label_set(struct dict *d, const struct part_label *pairs, size_t n);
int64_t dict_node(struct dict *d, uint32_t parent, uint32_t location);
int64_t dict_schema(struct dict *d, const struct part_schema *s);
int64_t dict_stream(struct dict *d, uint32_t schema, uint32_t label_set);

/* Replay: pads a dictionary with holes up to `n` entries (-ENOSPC, -ENOMEM); whether an entry is a hole. */
int dict_pad(struct dict *d, enum dict_kind kind, size_t n) _must_check_;
bool dict_is_hole(const struct dict *d, enum dict_kind kind, uint32_t id);

/* Canonical bytes (docs/formats/store.md, "Keys"), hashed. When memory is out d->scratch.error is set. */
uint64_t dict_location_key(struct dict *d, const struct part_location *l);

static inline const struct prof_str *dict_strings(const struct dict *d)
{
	return (const void *)d->strings.base;
}
static inline const struct part_function *dict_functions(const struct dict *d)
{
	return (const void *)d->functions.base;
}
static inline const struct part_mapping *dict_mappings(const struct dict *d)
{
	return (const void *)d->mappings.base;
}
static inline const struct dict_location *dict_locations(const struct dict *d)
{
	return (const void *)d->locations.base;
}
static inline const struct part_line *dict_lines(const struct dict *d)
{
	return (const void *)d->lines.base;
}
static inline const uint64_t *dict_keys(const struct dict *d)
{
	return (const void *)d->keys.base;
}
static inline const uint32_t *dict_label_first(const struct dict *d)
{
	return (const void *)d->label_first.base;
}
static inline const struct part_label *dict_label_pairs(const struct dict *d)
{
	return (const void *)d->label_pairs.base;
}
static inline const uint32_t *dict_parents(const struct dict *d)
{
	return (const void *)d->parents.base;
}
static inline const uint32_t *dict_node_locations(const struct dict *d)
{
	return (const void *)d->node_locations.base;
}
static inline const struct part_schema *dict_schemas(const struct dict *d)
{
	return (const void *)d->schemas.base;
}
static inline const struct dict_stream *dict_streams(const struct dict *d)
{
	return (const void *)d->streams.base;
}
