/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding of block tables into plain arrays, which the page cache keeps. For part_block*.c only. -EBADMSG and -ENOMEM, with a text;
 * ret->data is the caller's to free after an error too.
 */
#pragma once
#include "scraper/store/block/block.h"

/* What a page of strings, functions and locations decodes to. */
struct text_page {
	uint32_t n;
	struct prof_str strings[]; /* then the bytes */
};
struct location_page {
	uint32_t n;
	struct part_location locations[]; /* then the lines */
};
struct profile_page {
	uint32_t n, n_columns;
	int64_t *time_ns, *duration_ns, *period;
	int64_t *begin_ns, *last_ns; /* of rollups, else NULL */
	uint64_t *first_row;
	int64_t *total[STORE_MAX_COLUMNS];
	uint32_t *n_profiles, *n_rows;
	uint8_t *resolution;
};
struct label_table {
	uint32_t n_pairs;
	struct part_label *pairs;
	uint32_t first[];
};
struct stream_table {
	uint64_t *first_profile;
	struct part_stream streams[];
};
struct node_table {
	uint32_t n;
	uint32_t arrays[]; /* n parents, n locations */
};

/* A heap object and its size, for cache_add. */
struct decoded {
	void *data;
	size_t bytes;
};

/* One page. */
int block_decode_strings(const struct page *p, struct decoded *ret, struct errbuf *eb) _must_check_;
int block_decode_functions(const struct part_info *info, const struct page *p, struct decoded *ret,
	struct errbuf *eb) _must_check_;
int block_decode_locations(const struct part_info *info, const struct page *p, struct decoded *ret,
	struct errbuf *eb) _must_check_;
int block_decode_profiles(const struct page *p, enum part_resolution resolution,
	struct decoded *ret, struct errbuf *eb) _must_check_;
/* The same with part_totals' arrays alone, of a raw page: the others are NULL. The page needs no more columns than block_totals_columns. */
int block_decode_totals(
	const struct page *p, uint32_t column, struct decoded *ret, struct errbuf *eb) _must_check_;
uint32_t block_totals_columns(uint32_t column);

/* Whole tables, page by page: `begin` makes room for all rows, `page` decodes number `i` whose first row is `first`. */
struct block_table {
	int (*begin)(const struct part_info *info, uint64_t n_rows, struct decoded *ret,
		struct errbuf *eb);
	int (*page)(const struct part_info *info, const struct page *p, uint32_t first,
		struct decoded *d, struct errbuf *eb);
	int (*end)(const struct part_info *info, struct decoded *d,
		struct errbuf *eb); /* may be NULL */
};
extern const struct block_table block_schemas, block_streams, block_label_sets, block_mappings,
	block_nodes, block_keys;

/* The streams as they were written, deletions not applied. */
int block_streams_written(struct part_reader *r, const struct part_stream **ret) _must_check_;
int block_profiles_written(struct part_reader *r, uint32_t stream, int64_t from, int64_t to,
	struct part_profiles *ret) _must_check_;

/* block_deleted.c: the same without what tombstones cover; `*ret` goes in as written. */
int block_streams_left(struct part_reader *r, const struct part_stream **ret) _must_check_;
int block_profiles_left(
	struct part_reader *r, uint32_t stream, struct part_profiles *ret) _must_check_;
void block_deletions_free(struct part_reader *r);
