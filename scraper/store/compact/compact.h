/* SPDX-License-Identifier: Apache-2.0
 *
 * Compaction: several blocks become one, with one set of symbols, without what was deleted, and with rollups. It changes no answer.
 *
 * Everything in a block is in an order that does not depend on the block, so all tables merge front to back. What is in memory: the
 * symbols' tables (not the text of names), one bit per node, one page per table and input, and the rows of one bucket of one series. All
 * of it is charged to a budget.
 */
#pragma once
#include "scraper/store/block/block.h"

struct compact_options {
	struct fs *fs;
	const char *dir; /* of blocks */
	uint8_t ulid[ULID_BYTES];
	struct block *const *inputs;
	size_t n_inputs;
	uint32_t level;
	bool rollups, keep_all;	    /* keep_all: those that save little too; for tests */
	const char *const *without; /* label names that rows of rollups lose */
	size_t n_without;
	struct budget *budget; /* may be NULL */
	/* Called every few thousand rows; negative ends the work with that error. May be NULL. */
	int (*tick)(void *arg);
	void *arg;
};
/*
 * Writes DIR/ULID.tmp, complete and durable; block_commit() names it. -ENODATA: nothing is left of the inputs, nothing was written.
 * -EBADMSG: an input is damaged, which is remembered for the quarantine. A failure leaves nothing. Errors of the disk, -ENOMEM, which
 * names the budget.
 */
int compact_write(const struct compact_options *o, struct errbuf *eb) _must_check_;
