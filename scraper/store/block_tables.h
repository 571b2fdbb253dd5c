/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing the files of a block from a head and its new order. For block_write.c only.
 */
#pragma once
#include "scraper/store/block_order.h"
#include "scraper/store/frame.h"
#include "scraper/store/meta.h"

/* Each writes one or two files into `dir` and notes size and checksum in `m`. */
int block_write_symbols(struct fs *fs, const char *dir, const struct head *h,
	const struct block_order *o, struct meta *m, struct errbuf *eb) _must_check_;
int block_write_stacks(struct fs *fs, const char *dir, const struct head *h,
	const struct block_order *o, struct meta *m, struct errbuf *eb) _must_check_;
/* Profiles and rows; fills the statistics and times of `m`. */
int block_write_profiles(struct fs *fs, const char *dir, struct head *h,
	const struct block_order *o, struct meta *m, struct errbuf *eb) _must_check_;
int block_write_index(struct fs *fs, const char *dir, const struct head *h,
	const struct block_order *o, struct meta *m, struct errbuf *eb) _must_check_;

/* Finishes the file and notes it. */
int block_finish_file(
	struct frame_writer *w, enum frame_file f, struct meta *m, struct errbuf *eb) _must_check_;
