/* SPDX-License-Identifier: Apache-2.0
 *
 * The local time-series directory: WAL → head → block (docs/formats/store.md). The store starts no
 * threads: the scraper's pipeline calls store_append from one thread, store_sync from one,
 * store_maintain from one, and the read side from any.
 */
#pragma once
#include "lib/base/budget.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "scraper/store/block/tombstone.h"
#include "scraper/store/model/append.h"
#include "scraper/store/part/part.h"
#include <stdatomic.h>

struct store;

enum store_fsync { STORE_FSYNC_DURATION = 0, STORE_FSYNC_ALWAYS, STORE_FSYNC_NEVER };

/* Zero means the default in brackets. */
struct store_options {
	const char *path;	  /* --storage.path */
	struct fs *fs;		  /* [fs_system] */
	struct clock *clock;	  /* [clock_system] */
	struct budget *budget;	  /* parent of the store's own; may be NULL */
	uint64_t head_bytes;	  /* --storage.head-bytes [48 MiB]: a larger head becomes a block */
	uint64_t cache_bytes;	  /* --storage.cache-bytes [32 MiB] */
	uint64_t compact_bytes;	  /* --storage.compaction.max-memory [256 MiB] */
	uint64_t segment_bytes;	  /* [64 MiB]; smaller in tests */
	int64_t block_ns;	  /* [2 h]: an older head becomes a block */
	int64_t out_of_order_ns;  /* --storage.out-of-order [1 h] */
	int64_t retention_ns;	  /* --storage.retention.time [15 d]; INT64_MAX: none */
	uint64_t retention_bytes; /* --storage.retention.size; 0: none */
	enum store_fsync fsync;	  /* --storage.fsync [DURATION] */
	int64_t fsync_ns;	  /* [1 s] */
	uint32_t max_nodes; /* dictionary cap of one generation [4 Mi]; other caps follow from it */
	/* Labels that rows of rollups lose, comma-separated [pid,tid,thread_name,cpu]; --storage.rollup.without */
	const char *rollup_without;
	bool all_rollups; /* also those that save little; tests */
	bool no_compaction; /* blocks stay as they were flushed: tests, `sonde tsdb compact` says when */
	int64_t upkeep_ns; /* [0] store_maintain begins no further compaction after this long */
	uint64_t seed;	   /* randomness of ULIDs in tests; 0: from the kernel */
	bool read_only;	   /* no lock, no writes, nothing removed: `sonde tsdb` */
	/* Called while replaying, with bytes done and in all; may be NULL. */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *progress_arg;
};

/* "always", "never" or a Prometheus duration into fsync and fsync_ns. -EINVAL with a text. */
int store_parse_fsync(const char *s, struct store_options *ret, struct errbuf *eb) _must_check_;

/*
 * Takes the directory's lock (-EWOULDBLOCK, the text has the owner's pid), removes leftovers, opens
 * blocks, quarantines damaged ones, replays the WAL. Bad data never makes it fail; a directory that
 * cannot be written does.
 */
int store_open(const struct store_options *o, struct store **ret, struct errbuf *eb) _must_check_;
/* The options of the same names, changed while the store is open. Any thread. */
struct store_limits {
	int64_t retention_ns, out_of_order_ns;
	uint64_t retention_bytes;
};
void store_set_limits(struct store *s, const struct store_limits *limits);
/* Syncs and releases everything; the head stays in the WAL. No other call may be running, all parts
 * must be put. */
void store_close(struct store *s);
void store_closep(struct store **s);

/*
 * Writes one scrape. Streams that are there already at this time are left out: ret->n_duplicates with equal content, ret->n_conflicts with
 * other content, which the caller reports. 0, or nothing was stored and:
 *
 *	-ERANGE   the time is outside the accepted window: refused as `timestamp`, the text has the difference
 *	-EEXIST   every stream was already there at this time with other content
 *	-ESTALE   the stored cursor is not cursor_before: the answer overlaps what is stored; ask again from the stored one
 *	-ENOSPC   no space for the next WAL segment: ingest is stopped until there is (store_stats.stopped)
 *	-EFBIG    larger than a WAL segment, or than a cap of labels or columns; the text names it
 *	-ENOMEM   the head's budget
 *	-EINVAL   a rule of struct store_scrape is broken
 *	-EROFS    the store is open for reading only
 *	-EIO      the disk failed: ingest is stopped until it works
 *
 * With STORE_FSYNC_ALWAYS also -EIO with ret->sequence set: the scrape is stored, queries see it, but its sync failed, so that a power cut
 * would take it until store_maintain has written it as a block. Whoever sends it again meets -ESTALE or a duplicate.
 */
int store_append(struct store *s, const struct store_scrape *scrape, struct store_result *ret,
	struct errbuf *eb) _must_check_;

/*
 * Stores profiles of any time within retention, all or none, as one block of their own; durable when it returns. What is there already
 * with equal content is dropped, and coverage and gauges with it. Any thread; the appender goes on meanwhile. 0, or nothing was stored and:
 *
 *	-ERANGE   a time is older than what is kept or more than ten minutes ahead; the text has the difference
 *	-EEXIST   profiles are there at the same time with other content: ret->n_conflicts of them
 *	-ENOSPC, -EIO   no space, the disk failed; ingest is not affected
 *	-EFBIG, -ENOMEM, -EINVAL, -EROFS   as store_append
 */
int store_import(struct store *s, const struct store_scrape *scrapes, size_t n,
	struct store_result *ret, struct errbuf *eb) _must_check_;

/* Appends the stored value of a cursor to `ret`; -ENOENT when there is none. Any thread. */
int store_cursor_get(struct store *s, struct store_blob key, struct bytes *ret) _must_check_;

/* Group commit: makes everything appended so far durable. 0 or negative errno (the generation is
 * then rewritten as a block by store_maintain). */
int store_sync(struct store *s) _must_check_;
/* Waits until a sync is due by the policy or `timeout_ns` passed (real time); true when due. */
bool store_sync_wait(struct store *s, int64_t timeout_ns);

/* One round of upkeep: ends a full or old generation, writes its block, removes its WAL,
 * quarantines, retains. Call about once a second. */
int store_maintain(struct store *s, struct errbuf *eb) _must_check_;
/* From here to store_snapshot: any thread, each waits for the round of upkeep under way; -EROFS when open for reading only; errors of the
 * disk, -ENOMEM.
 *
 * Ends the current generation and writes everything out as blocks. */
int store_flush(struct store *s, struct errbuf *eb) _must_check_;

/* Compacts until there is nothing left to do. -ECANCELED: store_cancel. */
int store_compact(struct store *s, struct errbuf *eb) _must_check_;
/* From now on nothing is compacted or written anew; what another thread has under way ends soon with -ECANCELED. For stopping. */
void store_cancel(struct store *s);

/*
 * Deletes the profiles of all streams that match, with a time in [min, max], as far as they are stored when it is called. What is in
 * memory becomes a block first. It is durable when it returns; the space comes back when the upkeep has written the blocks anew.
 * *ret_n: blocks that had some. -EINVAL: no matcher, or an expression that does not compile; -EFBIG: more deletions than a block takes.
 */
int store_delete(struct store *s, const struct store_matcher *m, size_t n, int64_t min_ns,
	int64_t max_ns, uint64_t *ret_n, struct errbuf *eb) _must_check_;
/* Writes every block anew that has deletions. */
int store_clean_tombstones(struct store *s, struct errbuf *eb) _must_check_;
/* Links every block into PATH/snapshots/NAME, which is a directory like --storage.path; with_head: what is in memory becomes a block first.
 * The name (at most STORE_SNAPSHOT_NAME bytes) is given back. */
enum { STORE_SNAPSHOT_NAME = 40 };
int store_snapshot(struct store *s, bool with_head, char ret_name[STORE_SNAPSHOT_NAME],
	struct errbuf *eb) _must_check_;

/* The parts whose profiles may have a time in [from, to], oldest first; each is counted. Any thread. -ENOMEM. */
struct store_parts {
	struct part **items;
	size_t n;
};
int store_parts_get(
	struct store *s, int64_t from_ns, int64_t to_ns, struct store_parts *ret) _must_check_;
void store_parts_put(struct store *s, struct store_parts *parts);

/* Counters and sizes, for /metrics (docs/operations.md) and /status. */
enum store_refusal {
	STORE_REFUSED_TIMESTAMP,
	STORE_REFUSED_CONFLICT,
	STORE_REFUSED_CURSOR,
	STORE_REFUSED_SPACE,
	STORE_REFUSED_SIZE,
	STORE_REFUSED_MEMORY,
	STORE_REFUSED_INVALID,
	STORE_REFUSED_IO,
	STORE_N_REFUSALS
};
extern const char *const store_refusal_names[STORE_N_REFUSALS];

struct store_stats {
	bool stopped; /* ingest is stopped: stop_reason says why */
	char stop_reason[256];
	uint64_t appended_records, appended_profiles, appended_rows, appended_bytes, duplicates,
		refused[STORE_N_REFUSALS];
	uint64_t imports, imported_profiles, imported_rows;
	uint64_t wal_syncs, wal_sync_failures, wal_write_failures, wal_segments, wal_bytes;
	uint64_t written_sequence, synced_sequence;
	uint64_t replayed_records, replay_damaged_records, replay_dropped_rows,
		replay_truncated_bytes;
	int64_t replay_ns;
	uint64_t head_bytes, head_rows, head_pages, head_streams, head_nodes, heads;
	uint64_t flushes, flush_failures, blocks, block_bytes, blocks_quarantined, quarantine_bytes,
		blocks_deleted, clock_steps;
	uint64_t compactions, compaction_failures, compacted_blocks, tombstones;
	uint64_t compaction_bytes, compaction_peak_bytes;
	uint64_t cache_bytes, cache_hits, cache_misses;
	int64_t min_time_ns, max_time_ns; /* of everything; min > max when empty */
	uint64_t cursors;
};
/* Any thread. */
void store_stats(struct store *s, struct store_stats *ret);

/* A block in service, for pages. The text is the callback's only while it runs. */
struct store_block_info {
	const char *ulid;
	uint32_t level; /* 1 as flushed, more after compaction */
	int64_t min_time_ns, max_time_ns;
	uint64_t bytes, streams, profiles, rows;
	bool has_rollups;
	size_t n_deletions; /* not yet off the disk */
};
/* Blocks by their newest profile, oldest first. fn runs under a lock of the store and must not call it. */
void store_each_block(
	struct store *s, void (*fn)(void *arg, const struct store_block_info *b), void *arg);

/*
 * Blocks that are damaged, in service or in quarantine/, with profiles in [from, to]: what answers lack. fn runs under a lock of the store
 * and must not call it. Any thread.
 */
void store_each_lost(struct store *s, int64_t from_ns, int64_t to_ns,
	void (*fn)(void *arg, const char *name, int64_t min_ns, int64_t max_ns), void *arg);
/* What stands in quarantine/: name and reason, for pages. Negative when the directory cannot be read. */
int store_each_quarantined(struct store *s,
	void (*fn)(void *arg, const char *name, const char *reason), void *arg) _must_check_;
/* The same as one JSON array, appended to `out`. */
int store_quarantine_json(struct store *s, struct bytes *out) _must_check_;
