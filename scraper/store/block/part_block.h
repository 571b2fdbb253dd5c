/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that make a block a part share.
 */
#pragma once
#include "scraper/store/block/block_read.h"

/* Every failure that shows damage is remembered for the quarantine; returns `error`. */
int part_block_failed(struct part_reader *r, int error);
/* The path of the file that holds a table, on the heap. */
char *part_block_path(const struct part_reader *r, enum frame_table t);
/* Its number in the cache: tables of rollups have numbers of their own. */
uint32_t part_block_cache_table(const struct part_reader *r, enum frame_table t);
/* The page table of `t`; its rows must be as many as meta.json says. */
int part_block_pages(struct part_reader *r, enum frame_table t, uint64_t n_rows,
	const struct frame_pages **ret) _must_check_;
int part_block_streams(struct part_reader *r, const struct stream_table **ret) _must_check_;

/* Of struct part_ops. */
int part_block_schemas(struct part_reader *r, const struct part_schema **ret) _must_check_;
int part_block_profiles(struct part_reader *r, uint32_t stream, int64_t from, int64_t to,
	struct part_profiles *ret) _must_check_;
int part_block_totals(struct part_reader *r, uint32_t stream, uint32_t column, int64_t from,
	int64_t to, struct part_profiles *ret) _must_check_;
int part_block_recall(struct part_reader *r, const void *key, size_t n_key, const uint8_t **ret,
	size_t *ret_n) _must_check_;
void part_block_remember(
	struct part_reader *r, const void *key, size_t n_key, const void *data, size_t n);
int part_block_span(struct part_reader *r, uint32_t stream, uint32_t n_streams,
	struct part_span *ret) _must_check_;
