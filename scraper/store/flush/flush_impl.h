/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a block, from a head and its new order; flush.c calls them in turn.
 */
#pragma once
#include "scraper/store/block/frame.h"
#include "scraper/store/block/meta.h"
#include "scraper/store/flush/flush_order.h"

/* Each writes one or two files into `dir` and notes size and checksum in `m`. */
int flush_symbols(struct fs *fs, const char *dir, const struct head *h, const struct flush_order *o,
	struct meta *m, struct errbuf *eb) _must_check_;
int flush_stacks(struct fs *fs, const char *dir, const struct head *h, const struct flush_order *o,
	struct meta *m, struct errbuf *eb) _must_check_;
/* Profiles and rows; fills the statistics and times of `m`. */
int flush_profiles(struct fs *fs, const char *dir, struct head *h, const struct flush_order *o,
	struct meta *m, struct errbuf *eb) _must_check_;
int flush_index(struct fs *fs, const char *dir, const struct head *h, const struct flush_order *o,
	struct meta *m, struct errbuf *eb) _must_check_;
