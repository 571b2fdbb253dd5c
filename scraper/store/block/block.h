/* SPDX-License-Identifier: Apache-2.0
 *
 * A block: an immutable directory of files, as a part.
 */
#pragma once
#include "lib/base/fs.h"
#include "lib/base/lock.h"
#include "scraper/store/block/meta.h"
#include "scraper/store/part/part_impl.h"

/* Blocks without readers whose directories the upkeep has to remove: a query must not wait for the disk because it read one last. */
struct block_graves {
	struct lock lock;
	struct block *first;
};

struct block {
	struct part part;
	struct fs *fs;
	struct cache *cache;
	char *dir;
	struct meta meta;
	struct frame frames[FRAME_N];
	_Atomic bool damaged;	     /* a reader met a bad checksum: to be quarantined */
	_Atomic bool doomed;	     /* the directory goes after the last reference */
	struct block_graves *graves; /* where to, set before it is doomed; NULL: removed at once */
	struct block *next_grave;
	bool warmed;		  /* store_warm looked at it; the upkeep's */
	int64_t compact_retry_ns; /* monotonic: a compaction with it failed; the upkeep's */
	char damage[256];	  /* what the reader met; written before `damaged` */
	struct lock lock;	  /* of `damage` */
};

/* Checks meta.json, the sizes and the section tables. *ret has one reference (part_put). -EBADMSG, -ENOTSUP: to be quarantined; -ENOMEM and
 * errors of the disk. */
int block_open(struct fs *fs, struct cache *cache, const char *dir, uint32_t part_id,
	struct block **ret, struct errbuf *eb) _must_check_;
/* Checks every checksum of every file. -EBADMSG: one is wrong; errors of the disk. */
int block_verify(struct block *b, struct errbuf *eb) _must_check_;
/* Remembers that a reader met damage (part_block.c). The first text stays. Any thread. */
void block_report_damage(struct block *b, const char *text);
/* Removes the directories of what lies there. The upkeep. */
void block_graves_clear(struct block_graves *g);
extern const struct part_ops block_part_ops; /* part_block.c */
void block_free(struct part *p);

/*
 * Writing, for flush/ and compact/: files under DIR/ULID.tmp, complete and durable, then the name. What was not committed is discarded.
 */
/* DIR/ULID and the suffix. free() */
char *block_path(const char *dir, const uint8_t ulid[ULID_BYTES], const char *suffix);
/* Finishes the file and notes its size and checksum in `m`. The writer's first error. */
int block_finish_file(
	struct frame_writer *w, enum frame_file f, struct meta *m, struct errbuf *eb) _must_check_;
/* DIR/meta.json, durable. */
int block_write_meta(
	struct fs *fs, const char *dir, const struct meta *m, struct errbuf *eb) _must_check_;
/* DIR/ULID.tmp becomes DIR/ULID, durably; a failure leaves neither. */
int block_commit(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES],
	struct errbuf *eb) _must_check_;
void block_discard(struct fs *fs, const char *dir, const uint8_t ulid[ULID_BYTES]);
