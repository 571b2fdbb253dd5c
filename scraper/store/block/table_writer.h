/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing the dictionary tables of a block, entry by entry in their final order and with their final ids: for flush_tables.c (a head
 * becomes a block) and compact_*.c (blocks become one). Errors of writing stick in the frame_writer.
 */
#pragma once
#include "scraper/store/block/frame.h"
#include "scraper/store/part/part.h"

enum { TABLE_PAGE = 4096, TEXT_PAGE = 64 << 10, TABLE_MAX_COLUMNS = 7, TABLE_MAX_ITEM_COLUMNS = 3 };

/* One page of a dictionary while it is built: columns with a value per row and columns with a value per item of a row. */
struct table_writer {
	struct frame_writer *w;
	int64_t *row[TABLE_MAX_COLUMNS], *item[TABLE_MAX_ITEM_COLUMNS];
	size_t n_rows, n_items, cap_items;
	unsigned n_row_columns, n_item_columns;
};

/* Begins the table. -ENOMEM; table_writer_done is due either way. */
int table_writer_begin(
	struct table_writer *b, struct frame_writer *w, enum frame_table t) _must_check_;
void table_writer_function(struct table_writer *b, const struct part_function *f);
void table_writer_mapping(struct table_writer *b, const struct part_mapping *m);
void table_writer_location(struct table_writer *b, const struct part_location *l);
void table_writer_label_set(struct table_writer *b, const struct part_label *pairs, size_t n);
void table_writer_schema(struct table_writer *b, const struct part_schema *s);
void table_writer_stream(struct table_writer *b, const struct part_stream *s);
/* Writes what is left and ends the table. */
void table_writer_end(struct table_writer *b);
void table_writer_done(struct table_writer *b);

/* Location keys: a table without columns of small numbers. */
void table_writer_keys(struct frame_writer *w, const uint64_t *keys, size_t n);

/* Strings, in pages of TEXT_PAGE bytes. */
struct string_writer {
	struct frame_writer *w;
	uint32_t *lengths, n;
	struct bytes text;
};
/* -ENOMEM; table_writer_strings_done is due either way. */
int table_writer_strings_begin(struct string_writer *s, struct frame_writer *w) _must_check_;
void table_writer_string(struct string_writer *s, const struct prof_str *text);
int table_writer_strings_end(struct string_writer *s) _must_check_;
void table_writer_strings_done(struct string_writer *s);

/* Nodes in preorder, each with its depth (the root: 0); ids follow from the order. */
struct node_writer {
	struct frame_writer *w;
	uint32_t up[TABLE_PAGE], location[TABLE_PAGE], n, next;
	uint32_t path_node[STORE_MAX_DEPTH + 4], path_location[STORE_MAX_DEPTH + 4], n_path;
	/* Path of the last node, itself included. */
	uint32_t node_at[STORE_MAX_DEPTH + 4], location_at[STORE_MAX_DEPTH + 4], depth;
};
void table_writer_nodes_begin(struct node_writer *p, struct frame_writer *w);
/* -EBADMSG: deeper than any stack that is taken in, or than its parent can be. */
int table_writer_node(struct node_writer *p, uint32_t depth, uint32_t location) _must_check_;
void table_writer_nodes_end(struct node_writer *p);
