/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing profiles and their rows in final order: (stream, time), within a profile (label set, node). One writer makes the two files of
 * one resolution: for flush_rows.c (raw, from a head) and compact_rows.c (raw and rollups).
 */
#pragma once
#include "scraper/store/block/frame.h"
#include "scraper/store/block/meta.h"
#include "scraper/store/part/part.h"

struct row_writer_page;
struct row_writer_profiles;

struct row_writer {
	enum part_resolution resolution;
	struct frame_writer rows_file, profiles_file;
	struct row_writer_page *rows;
	struct row_writer_profiles *profiles;
	uint32_t n_values; /* of the pages being filled */
	/* What was written so far. */
	uint64_t n_profiles, n_rows, n_row_pages;
	int64_t min_time_ns, max_time_ns, max_duration_ns;
};
/* One profile; begin and last are looked at in rollups only. */
struct row_writer_profile {
	int64_t time_ns, duration_ns, period, begin_ns, last_ns;
	uint32_t n_profiles, n_rows;
	const int64_t *totals;
};

/* Makes the files in `dir`; level: how hard zstd tries. row_writer_done is due either way. -ENOMEM, errors
 * of open(2). Later errors stick until row_writer_finish. */
int row_writer_open(struct row_writer *w, struct fs *fs, const char *dir,
	enum part_resolution resolution, int level) _must_check_;
/* What follows has this many value columns: pages hold streams of one schema. -ENOMEM. */
int row_writer_schema(struct row_writer *w, uint32_t n_values) _must_check_;
/* The profile, then its rows. */
void row_writer_profile(struct row_writer *w, uint32_t stream, const struct row_writer_profile *p);
void row_writer_row(struct row_writer *w, uint32_t stream, int64_t time_ns, uint32_t label_set,
	uint32_t node, const int64_t *values);
/* Ends the files and notes them in `m`: sizes, checksums, counts. Rollups have a table of streams of their own. */
int row_writer_finish(struct row_writer *w, const struct part_stream *streams, uint32_t n_streams,
	struct meta *m, struct errbuf *eb) _must_check_;
void row_writer_done(struct row_writer *w);
