/* SPDX-License-Identifier: Apache-2.0
 *
 * Rollups: the profiles of one series in one bucket of time, summed. Buckets are (T − width, T] with T a multiple of the width since
 * the epoch; a profile of a rollup has the time T. Totals and values are sums for all kinds of columns, n_profiles says of how many, so
 * that whatever is asked of whole buckets has the answer that the raw profiles give. Fed in order of (stream, time).
 */
#pragma once
#include "lib/base/table.h"
#include "scraper/store/block/row_writer.h"

struct rollup {
	struct row_writer out;
	int64_t width_ns;
	struct part_stream *streams; /* what it wrote */
	size_t n_streams, cap_streams;
	uint32_t source; /* stream of the raw data that it is in, or STORE_NONE */
	uint32_t n_values;

	/* The bucket in hand; n_profiles 0: none. */
	struct row_writer_profile bucket;
	bool mixed_period;
	int64_t totals[STORE_MAX_COLUMNS];
	struct table by_key; /* label set << 32 | node → row */
	struct rollup_row {
		uint64_t key;
		uint32_t at; /* first of its values */
	} * rows;
	int64_t *values;
	size_t n_rows, cap_rows, cap_values;
	struct budget *budget;
	struct rollup *coarser; /* gets each bucket when it is complete; may be NULL */
};

/* -ENOMEM and errors of open(2); rollup_done is due either way. */
int rollup_open(struct rollup *u, struct budget *budget, struct fs *fs, const char *dir,
	enum part_resolution resolution, struct rollup *coarser) _must_check_;
void rollup_done(struct rollup *u);
/* A profile of raw stream `source`, whose result in rollups has this schema and label set; then its rows. -ENOMEM. */
int rollup_profile(struct rollup *u, uint32_t source, const struct part_stream *stream,
	uint32_t n_values, const struct row_writer_profile *p) _must_check_;
int rollup_row(
	struct rollup *u, uint32_t label_set, uint32_t node, const int64_t *values) _must_check_;
/* Writes the last buckets, of the coarser one too. */
int rollup_flush(struct rollup *u) _must_check_;
