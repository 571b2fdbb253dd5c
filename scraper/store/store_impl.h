/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the store, shared by the files that implement store.h.
 *
 * Locks, in this order: import_lock (one import at a time) and maintain_lock (one round of upkeep), which no thread holds both, append_lock
 * (the appender's state, rotation), state_lock (lists of parts, counters, stop reason). The WAL, the cursors, heads and the cache have
 * leaf locks of their own.
 */
#pragma once
#include "lib/base/lock.h"
#include "scraper/store/age_clock.h"
#include "scraper/store/block/block.h"
#include "scraper/store/block/deletion_log.h"
#include "scraper/store/encode.h"
#include "scraper/store/head/head.h"
#include "scraper/store/part/cache.h"
#include "scraper/store/store.h"
#include "scraper/store/wal/cursors.h"
#include "scraper/store/wal/wal.h"

enum { CURSOR_KEEP_HOURS = 24, FUTURE_MINUTES = 10 };

/* A block in quarantine whose times are known. */
struct lost_block {
	char name[ULID_TEXT + 8]; /* there */
	int64_t min_time_ns, max_time_ns;
};

struct store {
	struct store_options o; /* defaults filled in; what follows may change */
	_Atomic int64_t retention_ns, out_of_order_ns;
	_Atomic uint64_t retention_bytes;
	struct fs *fs;
	struct clock *clock;
	struct age_clock age; /* looked at under maintain_lock */
	char *path, *wal_dir, *block_dir, *quarantine_dir;
	int lock_fd;
	struct ulid_source ulids;
	struct budget head_budget, import_budget, compact_budget;
	struct cache *cache;
	struct wal wal;
	struct cursors cursors;

	struct lock import_lock;
	struct lock append_lock;
	struct head *head; /* NULL: the next append begins a generation */
	struct encoder encoder;
	/* A segment or a generation could not be begun: until then (monotonic) the answer stays the same and nothing is tried. */
	struct {
		int64_t until_ns;
		int error;
		char text[256];
	} pause;

	struct lock state_lock;
	pthread_cond_t sync_due;
	struct head **sealed;
	size_t n_sealed, cap_sealed;
	struct block **blocks; /* by max_time */
	size_t n_blocks, cap_blocks;
	struct lost_block *lost;
	size_t n_lost, cap_lost;
	struct block_graves graves; /* a leaf lock of its own */
	/* Generations whose block is durable and whose WAL waits for the next one's cursors to be. */
	uint8_t (*obsolete)[ULID_BYTES];
	size_t n_obsolete, cap_obsolete;
	uint32_t next_part_id;
	struct store_stats stats; /* what is counted; the rest is filled in by store_stats() */
	int64_t flush_retry_ns;
	struct lock maintain_lock;    /* before append_lock: one round at a time */
	struct deletion_log deletion; /* not settled yet; under maintain_lock */
	_Atomic bool cancelled;
	char **rollup_without;
	size_t n_rollup_without;
};

/* generation.c */
void store_next_ulid(struct store *s, uint8_t ret[ULID_BYTES]);
/* Opens a block just written and reads all of it back; one that is not right is removed. */
int store_open_written(struct store *s, const uint8_t ulid[ULID_BYTES], struct block **ret,
	struct errbuf *eb) _must_check_;
/* Makes a head and a WAL generation whose first record restates the cursors. */
int store_begin_generation(struct store *s, struct errbuf *eb) _must_check_;
/* Seals the current head (synced first) and begins the next generation. Holds append_lock. */
int store_rotate(struct store *s, struct errbuf *eb) _must_check_;
/* True when the head should become a block. */
bool store_rotation_due(struct store *s);
/* Writes every sealed head as a block; the first failure ends it. Holds maintain_lock. */
int store_flush_sealed(struct store *s, struct errbuf *eb) _must_check_;
int store_remove_obsolete(struct store *s, struct errbuf *eb) _must_check_;
int store_add_obsolete(struct store *s, const uint8_t generation[ULID_BYTES]) _must_check_;
int store_add_sealed(struct store *s, struct head *h) _must_check_;

/* replay.c */
int store_replay(struct store *s, struct errbuf *eb) _must_check_;

/* blocks.c */
/* Opens what is in blocks/: leftovers removed, damaged ones quarantined, replaced ones dropped. */
int store_open_blocks(struct store *s, struct errbuf *eb) _must_check_;
int store_add_block(struct store *s, struct block *b) _must_check_;
/* Takes damaged blocks out of service. */
void store_quarantine_damaged(struct store *s);
/* Moves a path into quarantine/NAME with the reason beside it. */
int store_quarantine(
	struct store *s, const char *path, const char *name, const char *reason) _must_check_;
/* The same, but the path stays: a second name for the file, which counts once however often it is asked for. What link(2) answers where the
 * file system has no such names. */
int store_quarantine_link(
	struct store *s, const char *path, const char *name, const char *reason) _must_check_;
/* Whether link(2) failed because the file system has no second names. */
bool store_has_no_links(int error);
uint64_t store_quarantine_bytes(struct store *s);
/* What a process that died left of a snapshot (snapshot.c). */
void store_remove_unfinished_snapshots(struct store *s);
/* `b` is out of the list: its directory goes when nobody reads it any more, with the next block_graves_clear. The caller's reference is given up. */
void store_doom(struct store *s, struct block *b);
/* Retention by time and size. */
void store_retain(struct store *s);
/* 1 when a block that is right in every byte names the generation; one that is not goes to quarantine. */
int store_has_generation(
	struct store *s, const uint8_t generation[ULID_BYTES], struct errbuf *eb) _must_check_;

/* The WAL of a generation of this block is still there: the block must stay as it is. Holds state_lock. */
bool store_is_obsolete_pending(const struct store *s, const struct block *b);

/* delete.c; all hold maintain_lock, or nothing else runs. */
/* At start: a deletion that was logged is applied to the blocks just opened. */
int store_load_deletion(struct store *s, struct errbuf *eb) _must_check_;
/* Writes what is logged into the blocks' meta.json and removes the log. Until that is done no block may be written anew or linked. */
int store_settle_deletion(struct store *s, struct errbuf *eb) _must_check_;

/* lost.c; the upkeep, or nothing else runs. A block that goes to quarantine; those that stand there at start; those that have gone. */
void store_note_lost_locked(struct store *s, const struct meta *m);
void store_load_lost(struct store *s);
void store_forget_lost(struct store *s);

/* compact_plan.c; all hold maintain_lock. */
/* One compaction, if one is due: 1 when there was one. */
int store_compact_once(struct store *s, struct errbuf *eb) _must_check_;
/* The same for blocks with deletions only. */
int store_rewrite_once(struct store *s, struct errbuf *eb) _must_check_;

/* warm.c; holds maintain_lock. Decodes tables that questions about labels begin with, some a round, into a part of the page cache. */
void store_warm(struct store *s);

/* store.c; holds maintain_lock. */
int store_flush_locked(struct store *s, bool force, struct errbuf *eb) _must_check_;

/* duplicate.c */
enum store_duplicate { STORE_NEW, STORE_EQUAL, STORE_DIFFERENT };
struct duplicate_rows {
	uint32_t n;
	const uint32_t *label_set, *node;
	const int64_t *values; /* column k at values + k * stride */
	size_t stride;
	uint32_t n_values;
};
/* Whether (stream, time) is stored, and with these rows; without rows whatever is there counts as different. The stream and the rows
 * are ids of `h`, which the calling thread fills. */
int store_find_duplicate(struct store *s, struct head *h, uint32_t stream, int64_t time_ns,
	const struct duplicate_rows *rows, enum store_duplicate *ret,
	struct errbuf *eb) _must_check_;
/* The same in all parts but `h`. */
int store_find_elsewhere(struct store *s, struct head *h, uint32_t stream, int64_t time_ns,
	const struct duplicate_rows *rows, enum store_duplicate *ret,
	struct errbuf *eb) _must_check_;

/* append.c */
enum store_refusal store_refusal_of(int error);
/* Says that ingest stopped, or goes on (NULL). */
void store_set_stopped(struct store *s, const char *reason);
