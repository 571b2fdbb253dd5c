/* SPDX-License-Identifier: Apache-2.0
 *
 * A sealed head becomes a block.
 */
#pragma once
#include "scraper/store/block/block.h"
#include "scraper/store/head/head.h"

/*
 * Writes the files of the block under DIR/ULID.tmp, complete and durable; block_commit() names it. -ENODATA: the head holds no profile,
 * nothing was written. A failure leaves nothing: -ENOMEM and errors of the disk, with a text. The block names the head's generation. Memory beyond the head: 16 bytes per node and a
 * batch of rows.
 */
int flush_files(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES], struct head *h,
	struct errbuf *eb) _must_check_;
/* The same, and the name. */
int flush_head(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES], struct head *h,
	struct errbuf *eb) _must_check_;
