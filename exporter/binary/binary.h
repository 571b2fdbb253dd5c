/* SPDX-License-Identifier: Apache-2.0
 *
 * Binaries: one per content, whatever number of paths, inodes and containers it appears in. A
 * binary gets a dense id (22 bits) when first seen and a symbol file once the parser has
 * compiled it. Files are opened through the keeper, compiled by the parser and closed again;
 * symbol files live in a cache directory. Thread-safe; one lock; see the lock order.
 */
#pragma once
#include "exporter/fetcher/fetcher.h"
#include "exporter/keeper/keeper.h"
#include "exporter/parser/parser.h"
#include "lib/base/budget.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include <stdbool.h>
#include <stdint.h>

struct binary_registry;
struct runtime_record; /* exporter/symfile/runtime.h */
struct symbol_file;    /* exporter/symfile/symbol_file.h: the validated, mapped reader */

/* An inode, and what changes when it is written to. */
struct binary_file {
	uint64_t ino, size_bytes;
	int64_t mtime_ns;
	uint32_t dev_major, dev_minor;
};

struct binary_options {
	struct keeper *keeper;
	struct fs *fs;
	struct clock *clock;
	int parser_fd;
	int fetcher_fd;		/* 0 or less: nothing is fetched */
	const char *cache_path; /* --symbols.cache-path; "" keeps them in memory only */
	uint64_t cache_bytes;	/* --symbols.cache-bytes */
	double max_cpu;		/* --symbols.max-cpu, share of one CPU */
	struct budget *budget;
	void *hook_ctx;
	/* A file was made, found or given up; on the thread of binary_work, without the lock. `unreadable`: it is no ELF file, or there
	 * was no way to it BINARY_MAX_OPENS times. May be NULL. */
	void (*settled)(void *ctx, uint32_t binary, bool unreadable);
	/* Where a symbol file takes long its unwind rows come first: called by binary_work, without the lock, with a symbol file of
	 * nothing else that is gone afterwards, unless has_rows says that this content's rows are known (it may note the id).
	 * Both NULL: everything comes at once. */
	bool (*has_rows)(
		void *ctx, uint32_t binary, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN]);
	void (*rows)(void *ctx, uint32_t binary, const struct symbol_file *rows);
	/* The file that the id stands for, as it was found on disk; NULL: it may stand for another one soon. The lock is held.
	 * May be NULL. */
	void (*found)(void *ctx, uint32_t binary, const struct binary_file *file);
	/* The id is free for another file; the lock is held. May be NULL. */
	void (*released)(void *ctx, uint32_t binary);
};

/* How a mapping names its file. */
struct binary_identity {
	const uint8_t *build_id; /* NULL when the record had none */
	uint32_t build_id_len;
	uint32_t dev_major, dev_minor;
	uint64_t ino, ino_generation;
	/* size and mtime tell a reused inode from its predecessor; 0 unknown */
	uint64_t size_bytes;
	int64_t mtime_ns;
	const char *path; /* as the process sees it; "[vdso]" */
};

/* Where the file can be opened, best first: the process's map_files entry, then its root. */
struct binary_source {
	uint32_t pid;
	uint64_t start_ns;
	uint64_t map_start, map_end;
	uint64_t root; /* of binary_root_open, 0 unknown */
};

/* Never NULL. When the cache path cannot be used, `eb` says why and symbol files are kept in
 * memory only. */
struct binary_registry *binary_registry_new(const struct binary_options *o, struct errbuf *eb);
void binary_registry_freep(struct binary_registry **r);

/* The id of a binary, new or known; the same id for the same content as soon as that is known. 0
 * when the table is full (counted). Does no I/O. */
uint32_t binary_get(struct binary_registry *r, const struct binary_identity *id);
/* Asks for its symbol file (no-op when present, failed lately or under way). Called at the first
 * sample that falls into it. */
void binary_want(struct binary_registry *r, uint32_t binary, const struct binary_source *src);
/* True when binary_want would do something: worth finding out a good source. */
bool binary_is_missing(struct binary_registry *r, uint32_t binary);
/* True while its symbol file is being made or waits for that. */
bool binary_is_coming(struct binary_registry *r, uint32_t binary);
/* Opens and compiles what is wanted, paced; called by the symbol threads until shutdown. Waits at most timeout_ns for work. One thread
 * does it all, but a file that takes long does not hold up the others where more than one calls this, BINARY_THREADS at most. */
enum { BINARY_THREADS = 4 };
void binary_work(struct binary_registry *r, int64_t timeout_ns);
/* Ends all waiting for work, now and from now on. */
void binary_stop(struct binary_registry *r);

/* Asks debuginfod for what binaries lack; called by the fetch thread until shutdown, when there is a
 * fetcher. Waits at most timeout_ns for work, and then for the fetcher's answer. */
void binary_fetch_work(struct binary_registry *r, int64_t timeout_ns);

/*
 * Root directories, so that the file of a process that is gone can still be opened: one per mount
 * namespace, and one more for each chroot in it. The first call for a root opens it and its
 * namespace through the keeper; both are kept until 30 s after the last reference went.
 */
/* The process's root as a number, referenced; 0 and the keeper's error when it is not known. Asks the keeper once, and
 * again for the namespace of a root that is new: blocks. */
uint64_t binary_root_open(
	struct binary_registry *r, uint32_t pid, uint64_t start_ns, int *ret_error);
/* One more reference: a child shares its parent's. 0 is fine. */
uint64_t binary_root_ref(struct binary_registry *r, uint64_t root);
void binary_root_put(struct binary_registry *r, uint64_t root);

/* A file at a path as the process sees it, or saw it while its root is kept: only that it is a
 * regular one is known of it. flags: enum keeper_open_at. -errno when there is none. */
int binary_open_below(
	struct binary_registry *r, const struct binary_source *src, const char *path, int flags);

/* The file itself, opened by any of the ways to it, or another one of the same content; -errno when there is none. What is opened by path may be another build:
 * *ret_build_id is what it should be ({0} bytes long: the inode was checked). */
struct binary_build_id {
	uint8_t bytes[SYMBOL_BUILD_ID_MAX];
	uint32_t len;
};
int binary_open(struct binary_registry *r, uint32_t binary, const struct binary_source *src,
	struct binary_build_id *ret_build_id);

/* A counted reference to the symbol file, waiting at most until deadline (monotonic ns; 0: do
 * not wait) when one is being built. NULL when there is none. */
const struct symbol_file *binary_symbols_get(
	struct binary_registry *r, uint32_t binary, int64_t deadline_ns);
void binary_symbols_put(struct binary_registry *r, const struct symbol_file *s);

/* The id under which equal contents meet: two ids of one content have the same canonical id. */
uint32_t binary_canonical(struct binary_registry *r, uint32_t binary);

struct binary_info {
	char path[512];
	char build_id[2 * SYMBOL_BUILD_ID_MAX + 1]; /* hex, "" when none */
};
void binary_info(struct binary_registry *r, uint32_t binary, struct binary_info *ret);

/* What is known of the file that labels want; names are constants. */
struct binary_labels {
	const char *compiler, *language; /* "" until there was a symbol file, and when not known */
	char build_id[2 * SYMBOL_BUILD_ID_MAX + 1]; /* with_build_id: hex, "" when none */
};
void binary_labels(
	struct binary_registry *r, uint32_t binary, bool with_build_id, struct binary_labels *ret);

/* The runtime of a language that the file holds, refused or not; false: it holds none, or its symbol file was never made. */
bool binary_runtime(struct binary_registry *r, uint32_t binary, struct runtime_record *ret);
/* Of such a file: the ELF virtual address of a file offset in its executable mappings; false where none has it. */
bool binary_runtime_vaddr(
	struct binary_registry *r, uint32_t binary, uint64_t file_off, uint64_t *ret);
/* The other way. */
bool binary_runtime_offset(
	struct binary_registry *r, uint32_t binary, uint64_t vaddr, uint64_t *ret);

/* Ids above 0 and below this are in use or free. The bitmap has a bit for each id below n_ids, which is what
 * binary_n_ids said before it was made; ids from there on are kept. Those without a bit may be given to new binaries once they have been unused for a minute, since a response that is being made may
 * still have them. Called when the stack tree was rebuilt, with the ids of its frames and of all
 * mappings (proc_table_mark_binaries). */
uint32_t binary_n_ids(struct binary_registry *r);
void binary_retain(struct binary_registry *r, const uint64_t *used_bitmap, uint32_t n_ids);

/* Frames of this binary that a response could not name. */
void binary_count_unnamed(struct binary_registry *r, uint32_t binary, uint64_t n);
struct binary_unnamed {
	char path[512];
	uint64_t frames;
};
/* The `max` binaries with the most unnamed frames, most first; returns how many. */
size_t binary_top_unnamed(struct binary_registry *r, struct binary_unnamed *ret, size_t max);

/* What became of files with debug information that were found. */
enum binary_debug {
	BINARY_DEBUG_USED,
	BINARY_DEBUG_MISMATCH,
	BINARY_DEBUG_LINKED,  /* named by another one: given to the parser */
	BINARY_DEBUG_LACKING, /* named, but not found, or none of those found was the one named */
	BINARY_N_DEBUG
};

/* Counters for /metrics. */
struct binary_stats {
	uint64_t binaries, contents;		/* now */
	uint64_t table_full;			/* binary_get gave 0 */
	uint64_t compiled, shared, cache_hits;	/* built, found by content, found on disk */
	uint64_t rows_first;			/* of those built: whose unwind rows came first */
	uint64_t open_failed;			/* no way to the file any more */
	uint64_t open_hung;			/* its file system does not answer */
	uint64_t skipped;			/* wanted again within ten minutes of a failure */
	uint64_t parse_failed[PARSER_N_STATUS]; /* by enum parser_status */
	uint64_t invalid;			/* a symbol file from the parser did not validate */
	uint64_t debug_files[BINARY_N_DEBUG];
	/* of compiled symbol files: parts of debug information that were malformed; files whose
	 * lines were too much for the parser */
	uint64_t debug_left_out, debug_failed;
	uint64_t fetched[FETCHER_N_STATUS];	  /* asked of debuginfod, by how it ended */
	uint64_t fetch_skipped, fetch_queue_full; /* not asked: asked lately; too many wait */
	uint64_t cache_corrupt, cache_evicted, cache_write_failed;
	uint64_t
		cache_no_room; /* files kept in memory only: larger than the cap, or all others in use */
	uint64_t symbol_bytes, cache_bytes; /* mapped symbol files; those on disk; now */
	uint64_t roots;			    /* root directories kept open, now */
	uint64_t cpu_ns;		    /* spent by parser children */
	uint64_t queued;		    /* now */
};
void binary_stats(struct binary_registry *r, struct binary_stats *ret);
