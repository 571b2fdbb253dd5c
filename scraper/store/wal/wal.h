/* SPDX-License-Identifier: Apache-2.0
 *
 * The write-ahead log (docs/formats/wal.md): segments, records, replay.
 *
 * Invariants:
 *  1. one thread reserves and writes; one at a time syncs; descriptors are closed by the syncing side only;
 *  2. a record is not acknowledged by its presence: synced_sequence says what a power cut cannot take;
 *  3. the first record of a generation is written after everything before it was synced.
 */
#pragma once
#include "lib/base/fs.h"
#include "lib/base/lock.h"
#include "lib/base/ulid.h"

enum {
	WAL_MAGIC = 0x4c415753,
	WAL_RECORD_MAGIC = 0x44524353,
	WAL_VERSION = 1,
	WAL_HEADER = 64, /* written twice, back to back */
	WAL_FIRST = 2 * WAL_HEADER,
	WAL_RECORD_HEADER = 24,
};

struct wal_segment {
	uint64_t number, first_sequence, bytes; /* bytes: as allocated */
	uint8_t generation[ULID_BYTES];
	bool unreadable; /* the disk does not give back some of it: it is set aside, not removed */
};

struct wal {
	struct fs *fs;
	char *dir;
	uint64_t segment_bytes;
	struct lock lock; /* of everything below; never held over a write or sync */
	struct wal_segment *segments;
	size_t n_segments, cap_segments;
	int fd;			   /* of the last segment, or -1: the next record begins one */
	uint64_t offset, capacity; /* in the current segment; its size */
	uint64_t next_number, next_sequence;
	_Atomic uint64_t written_sequence, synced_sequence;
	uint8_t generation[ULID_BYTES];
	uint32_t seed; /* CRC32C of the generation */
	int *sealed_fds;
	size_t n_sealed, cap_sealed;
	_Atomic bool sync_failed; /* until wal_begin_generation */
	uint64_t n_syncs, n_sync_failures, n_write_failures;
	bool names_unsynced;   /* a segment was removed, and the power could still bring it back */
	struct lock sync_lock; /* one sync at a time; before `lock` */
};

void wal_init(struct wal *w, struct fs *fs, const char *dir, uint64_t segment_bytes);
/* Closes; what was not synced stays so. */
void wal_done(struct wal *w);

/* The next record begins a segment of this generation. */
void wal_begin_generation(struct wal *w, const uint8_t generation[ULID_BYTES]);
/* Room for a record with a body of `len`, in this segment or a new one; `small`: a new one just large enough where there is no space for a
 * whole segment. -EFBIG: larger than a segment; -ENOSPC, other errors of the disk. */
int wal_reserve(struct wal *w, size_t len, bool small, struct errbuf *eb) _must_check_;
/*
 * Writes the record whose body stands in `record` after WAL_RECORD_HEADER free bytes (filled in
 * here); wal_reserve'd before. On failure, an error of the disk or of `record`, no reader sees a record.
 */
int wal_write(struct wal *w, struct bytes *record, uint64_t *ret_sequence,
	struct errbuf *eb) _must_check_;
/* Makes all written records durable. Any thread. After a failure -EIO until wal_begin_generation, since a later success says nothing about
 * what the kernel dropped (fsync(2), "errors"). */
int wal_sync(struct wal *w) _must_check_;
/* Removes the segments of a generation, oldest first, and syncs the directory. */
int wal_remove_generation(struct wal *w, const uint8_t generation[ULID_BYTES]) _must_check_;
/* Segments that the disk does not give back whole: wal_remove_generation must not find any. */
void wal_mark_unreadable(struct wal *w, uint64_t number, bool unreadable);
bool wal_next_unreadable(
	struct wal *w, const uint8_t generation[ULID_BYTES], uint64_t *ret_number) _must_check_;
/* Bytes that the log occupies. */
uint64_t wal_bytes(struct wal *w);

/* Reading. Which segments there are, by number; both headers damaged: `damaged` and the generation
 * of the one before. */
struct wal_file {
	struct wal_segment segment;
	uint64_t size;
	bool damaged, unusable; /* unusable: nothing is known to read it with */
};
struct wal_files {
	struct wal_file *items;
	size_t n, cap;
};
void wal_files_done(struct wal_files *f);
/* -ENOTSUP when a segment needs a feature or version that is not known. Files of other names are
 * ignored. */
int wal_list(struct fs *fs, const char *dir, struct wal_files *ret, struct errbuf *eb) _must_check_;

struct wal_replay {
	/* Called per record in order; a negative return counts it as damaged and goes on, except
	 * -ENOMEM, which ends the replay. */
	int (*record)(
		void *arg, const void *body, size_t len, uint64_t sequence, struct errbuf *eb);
	void *arg;
	bool last_generation; /* the torn tail may end it */
	/* out */
	uint64_t n_records, damaged_records, last_sequence, truncated_bytes;
	size_t end_file; /* where the log ends: index in files, offset */
	uint64_t end_offset;
};
/* Replays files[first .. end), which are one generation. Those that the disk does not give back whole are marked, and then nothing ends the log but
 * its last valid record. */
int wal_replay_generation(struct fs *fs, const char *dir, struct wal_files *files, size_t first,
	size_t end, struct wal_replay *w, struct errbuf *eb) _must_check_;
