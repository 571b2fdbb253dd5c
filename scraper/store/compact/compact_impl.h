/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of compaction, shared by compact*.c. Errors are those of compact_write, with a text in c->eb or `eb` or none; whatever was
 * opened is closed by its _close or _done in any case. One thread.
 */
#pragma once
#include "lib/base/bitmap.h"
#include "scraper/store/block/block_read.h"
#include "scraper/store/block/deletions.h"
#include "scraper/store/block/stream_order.h"
#include "scraper/store/compact/compact.h"

enum {
	COMPACT_MAX_INPUTS = 16,
	COMPACT_TICK_ROWS = 1 << 16,
	/* Charged once: pages in hand, buffers of the files written and their compressors; and an input's. */
	COMPACT_FIXED_BYTES = 16 << 20,
	COMPACT_INPUT_BYTES = 2 << 20
};

/* Pages of one table of one block, front to back, past the page cache. */
struct compact_pages {
	struct block *b;
	enum frame_table table;
	char *path;
	struct frame_pages *pages;
	uint32_t next; /* page */
};
int compact_pages_open(struct compact_pages *c, struct block *b, enum frame_table t,
	struct errbuf *eb) _must_check_;
/* 1 and the next page (freed with free()), 0 at the end. */
int compact_pages_next(struct compact_pages *c, struct page **ret, struct errbuf *eb) _must_check_;
/* The page with this number, which is also made the one before the next. */
int compact_pages_load(struct compact_pages *c, uint32_t number, struct page **ret,
	struct errbuf *eb) _must_check_;
void compact_pages_close(struct compact_pages *c);
#define _cleanup_compact_pages_ _cleanup_(compact_pages_close)

/* Ids of one input: which are used by what is left, and what they become. */
struct compact_input {
	struct block *b;
	struct part_reader *r;
	const struct part_info *info;
	const struct part_schema *schemas;
	const struct part_stream *streams; /* as written, deletions not applied */
	struct part_label_sets sets;
	const struct part_mapping *mappings;
	struct deletions deleted;
	uint64_t *first_profile;  /* per stream */
	uint32_t *order, n_order; /* streams that are left, as the result has them */

	struct bitmap has_streams, has_schemas, has_sets, has_row_sets, has_nodes, has_locations,
		has_functions, has_mappings;
	struct bitmap label_strings, other_strings;

	uint32_t *strings, *functions, *mapping_ids, *locations, *set_ids, *schema_ids, *stream_ids;
	struct bitmap placed; /* nodes of the result that this input has */
};

/* Where a stream of the result comes from. */
struct compact_stream {
	uint32_t schema, label_set; /* of the result */
	uint32_t input, stream;
	uint32_t leads[STREAM_LEADS];
};

struct compaction {
	const struct compact_options *o;
	char *tmp; /* directory */
	struct compact_input inputs[COMPACT_MAX_INPUTS];
	size_t n;
	struct meta meta;
	struct errbuf *eb;
	struct budget *budget; /* of the options */
	struct arena arena;    /* maps of the inputs, symbols of the result */

	struct prof_str *label_texts; /* of label strings, by id */
	uint32_t n_label_strings;
	struct part_schema *schemas;
	struct compact_stream
		*streams; /* sorted; entries of equal (schema, label set) follow each other */
	size_t n_streams_used, n_streams_in; /* of all inputs; gathered so far */
	uint32_t n_streams;		     /* distinct ones */
	uint32_t *reduced_set; /* per label set of the result: the one that rows of rollups carry */
	uint64_t rows_since_tick, fixed_bytes;
};

/* compact_input.c */
int compact_input_open(
	struct compaction *c, struct compact_input *in, struct block *b) _must_check_;
void compact_input_close(struct compact_input *in);
/* Marks what the profiles that are left use. */
int compact_input_mark(struct compaction *c, struct compact_input *in) _must_check_;
int compact_tick(struct compaction *c, uint64_t n_rows) _must_check_;
/* n ids, all STORE_NONE, that last as long as the compaction. */
int compact_map(struct compaction *c, uint32_t **ret, size_t n) _must_check_;

/* compact_symbols.c: symbols and index, and the maps of all inputs. */
int compact_symbols(struct compaction *c) _must_check_;
int compact_index(struct compaction *c, const struct part_stream *streams) _must_check_;
/* compact_labels.c: label sets, schemas and streams of the result; before the symbols are written. */
int compact_labels_sets(struct compaction *c, struct frame_writer *w) _must_check_;
int compact_labels_streams(struct compaction *c) _must_check_;
/* compact_nodes.c */
int compact_nodes(struct compaction *c) _must_check_;
/* compact_rows.c: fills `streams` (c->n_streams of them) with counts and times. */
int compact_rows(struct compaction *c, struct part_stream *streams) _must_check_;

/* Nodes of one input in preorder. */
struct compact_node_pages {
	struct compact_input *in;
	struct compact_pages pages;
	uint32_t *up, *places;
	uint32_t n, at, next; /* rows of the page, the row to come; the id to come */
	/* The node in hand; path[depth] is itself. */
	uint32_t id, depth, location;
	uint32_t path[STORE_MAX_DEPTH + 4];
};
int compact_nodes_open(
	struct compact_node_pages *n, struct compact_input *in, struct errbuf *eb) _must_check_;
/* 1 and a node, 0 at the end. */
int compact_nodes_next(struct compact_node_pages *n, struct errbuf *eb) _must_check_;
void compact_nodes_close(struct compact_node_pages *n);

/* Profiles of one input, stream by stream: as written, or in the order of the result. */
struct compact_profiles {
	struct compact_input *in;
	struct compact_pages pages;
	struct profile_page *page;
	uint32_t number, at;   /* of the page; in it */
	uint32_t stream, left; /* the one in hand, and how many it still has, this one included */
	uint32_t next;	       /* place in the order of the stream to come */
	bool in_order, done;
};
int compact_profiles_open(struct compact_profiles *p, struct compact_input *in, bool in_order,
	struct errbuf *eb) _must_check_;
/* Moves to the next profile that is not deleted (the first one at first); p->done at the end. */
int compact_profiles_next(struct compact_profiles *p, struct errbuf *eb) _must_check_;
void compact_profiles_close(struct compact_profiles *p);

/* Rows of one input, a page at a time. */
struct compact_row_pages {
	struct compact_pages pages;
	uint32_t number; /* of the page decoded, or STORE_NONE */
	uint32_t n_values, cap_values;
	uint32_t *label_set, *node;
	int64_t *value; /* column by column, PAGE_MAX_ROWS apart */
};
int compact_row_pages_open(
	struct compact_row_pages *p, struct compact_input *in, struct errbuf *eb) _must_check_;
/* Makes the page with `row` the decoded one; *ret_at: the row's place in it, *ret_n: how many follow, it included. */
int compact_row_pages_seek(struct compact_row_pages *p, const struct compact_input *in,
	uint32_t n_values, uint64_t row, uint32_t *ret_at, uint32_t *ret_n,
	struct errbuf *eb) _must_check_;
void compact_row_pages_close(struct compact_row_pages *p);

int compact_open_file(struct compaction *c, struct frame_writer *w, enum frame_file f) _must_check_;
