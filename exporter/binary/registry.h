/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry's inside, shared by its files. One lock guards all of it; functions ending in _locked want it held.
 *
 * identity (how a mapping names a file) → entry (dense id) → content (what the file holds) →
 * symbol file.
 *
 * Invariants:
 *  1. an entry's alias, when set, is the id of an entry without alias;
 *  2. a content that is mapped has an entry; the entry of a content has no alias;
 *  3. an entry is READY exactly when its content's symbol file is mapped.
 */
#pragma once
#include "exporter/binary/binary.h"
#include "exporter/binary/fetch.h"
#include "exporter/symfile/runtime.h"
#include "exporter/symfile/symbol_file.h"
#include "lib/base/lock.h"
#include "lib/base/table.h"
#include <sys/stat.h>

/* Between tries to open a file whose process went away. */
#define BINARY_RETRY_OPEN_NS (2 * NS_PER_S)
/* A file that did not parse is left alone. */
#define BINARY_SKIP_FAILED_NS (600 * NS_PER_S)
/* After the last process that had it. */
#define BINARY_KEEP_ROOT_NS (30 * NS_PER_S)
/* Unused for so long: no response that is being made has its id. */
#define BINARY_RELEASE_NS (60 * NS_PER_S)
/* Unused for so long: the kernel half is not to find it by its file any more, and some time later no sample on its way has. */
#define BINARY_FORGET_FILE_NS (50 * NS_PER_S)
#define BINARY_UNTOLD_NS (5 * NS_PER_S)
/* Of parser CPU that each new binary has free of pacing. */
#define BINARY_BURST_NS (250 * NS_PER_MS)
/* What takes this long may never end: the next one begins beside it. */
#define BINARY_FRESH_PATIENCE_NS NS_PER_S
#define BINARY_PACED_PATIENCE_NS (10 * NS_PER_S)
enum {
	BINARY_MAX_ENTRIES = 1 << 16, /* at 350 bytes: 23 MB */
	BINARY_MAX_OPENS = 5,
	BINARY_MAX_HUNG = 32,
	BINARY_MAX_ROOTS = 256, /* two descriptors each */
	BINARY_MAX_FAILED = 4096,
	BINARY_PARSE_TIMEOUT_MS = 30000,
	BINARY_SLOW_BYTES = 4 << 20,		 /* a file from which names take a while */
	BINARY_MAX_INPUTS = 64,			 /* files kept open for their names */
	BINARY_MAX_AT_WORK = BINARY_THREADS / 2, /* of one queue */
	BINARY_MAX_CODE = 8,			 /* executable segments of a file with a runtime */
	BINARY_MAX_MISSED = 256, /* objects of split units that are not there, when none was */
};

enum binary_state { BINARY_ABSENT, BINARY_QUEUED, BINARY_WORKING, BINARY_READY };

struct content {
	uint8_t id[SYMBOL_CONTENT_ID_LEN];
	uint32_t entry; /* 0: only on disk */
	bool on_disk;
	uint64_t bytes;	   /* of the symbol file, as the cap counts them: whole disk blocks */
	uint64_t last_use; /* order of use: higher is later */
	struct symbol_file symbols; /* .data NULL: not mapped */
};

/* What a symbol file is made from. */
struct binary_inputs {
	int fd, debug_fd; /* -1: none */
	char *debug_path;
	struct stat st;
	struct parser_description file;
	uint64_t cpu_ns; /* spent on its rows */
};

/* The runtime that a file holds, and where the kernel maps its code (symbol_load_pages). */
struct entry_runtime {
	struct runtime_record record;
	uint32_t n_code;
	struct code_pages {
		uint64_t vaddr, bytes, file_off;
	} code[BINARY_MAX_CODE];
};

struct entry {
	bool used;
	enum binary_state state;
	uint32_t alias;
	uint32_t next; /* in the queue; in the list of equal hashes' chain */
	uint32_t next_same_hash;
	uint64_t hash;
	struct content *content;
	struct binary_source source;
	bool has_source;
	struct binary_inputs *inputs; /* in the paced queue */
	bool again;		      /* to be made anew once it is not at work and not read */
	uint8_t n_hooks;	      /* threads that tell a hook of it without the lock */
	uint8_t n_open_failed;	      /* in a row */
	int64_t not_before_ns;	      /* no new try earlier */
	int64_t unused_since_ns;      /* when binary_retain first found it unused; 0: it is used */
	uint64_t unnamed;
	struct binary_file file;      /* where it was found last */
	bool has_file, file_reported; /* file_reported: by the hook */
	int64_t withdrawn_ns;
	struct toolchain toolchain;    /* of its symbol file, also when that is evicted */
	struct entry_runtime *runtime; /* likewise; NULL: none is known */
	/* identity */
	uint8_t build_id[SYMBOL_BUILD_ID_MAX];
	uint32_t build_id_len, dev_major, dev_minor;
	uint64_t ino, ino_generation, size_bytes;
	int64_t mtime_ns;
	char *path;
};

/* A root directory of processes. The mount (of one namespace only) and the directory in it tell
 * one from another. */
struct mount_root {
	uint64_t id; /* never used again */
	uint64_t mount_id, dev, ino;
	uint64_t ns_ino;
	int root_fd, ns_fd; /* without the namespace its bind mounts vanish */
	uint32_t n_refs;
	int64_t idle_since_ns; /* when n_refs is 0 */
};

/* A device on which a file could not be opened in time: no other file there is tried until one of the requests that hang has
 * come back. */
struct hung_device {
	uint32_t dev_major, dev_minor;
	uint64_t returned; /* of keeper_stats, when that was noticed */
};

/* Entries by .next. */
struct binary_queue {
	uint32_t head, tail;
	uint32_t n_at_work; /* taken from it */
	int64_t begun_ns;   /* the last of them */
	int64_t patience_ns;
};

struct binary_registry {
	struct binary_options o;
	struct fetch fetches;
	struct lock disk_lock; /* files in the cache directory; taken before `lock` */
	struct lock lock;      /* all that follows */
	bool stopping;
	pthread_cond_t queued, settled; /* work came; an entry left the queue */
	struct entry **entries;		/* by id; [0] unused */
	size_t cap_entries;
	uint32_t n_ids, free_list;	  /* ids below n_ids; chain of free ones by .next */
	struct table by_identity;	  /* hash → id, then next_same_hash */
	struct binary_queue fresh, paced; /* wanted; unwind rows made, names to come */
	uint32_t n_inputs;		  /* in the paced queue */
	struct table by_content;	  /* first 8 bytes of the id → struct content * */
	uint64_t use_clock;
	uint64_t content_bytes;			  /* of all contents, on disk or in memory */
	uint8_t (*doomed)[SYMBOL_CONTENT_ID_LEN]; /* evicted, their files not removed yet */
	size_t n_doomed, cap_doomed;
	/* hash of dev, ino, mtime, size → monotonic ns until which it is skipped */
	struct table failed;
	struct mount_root roots[BINARY_MAX_ROOTS];
	uint32_t n_roots;
	uint64_t last_root; /* the newest id */
	struct hung_device hung[BINARY_MAX_HUNG];
	uint32_t n_hung;
	/* parser CPU beyond the bursts, and when it was last paid off */
	int64_t debt_ns, debt_at_ns;
	int64_t failed_at_ns; /* when a file last cost parser CPU for nothing */
	struct binary_stats stats;
};

/* entry.c: tells the hook of the entry's file, or that it is not known any more. */
void binary_report_file_locked(struct binary_registry *r, uint32_t id, bool known);

static inline struct entry *entry_locked(struct binary_registry *r, uint32_t id)
{
	struct entry *e = id && id < r->n_ids ? r->entries[id] : NULL;

	ASSERT_HELD(&r->lock);
	if (!e || !e->used)
		return NULL;
	return e->alias ? r->entries[e->alias] : e;
}

/* open.c: a descriptor of the file, and its stat; -errno when there is no way, -EBUSY when its file system does not answer. No
 * lock; `e` is a copy. */
int binary_open_file(struct binary_registry *r, const struct entry *e, struct stat *ret_st);
/* debug.c: a file with the debug information of `file` (at `st`), where such lie by custom. -ENOENT when there is none, or the
 * file has all itself. The parser checks whether it is the right one. *ret_path (NULL before): where it was found, malloc'ed; NULL for one
 * from a server. No lock. */
int binary_open_debug(struct binary_registry *r, uint32_t binary, const struct entry *e,
	const struct parser_description *file, const struct stat *st, char **ret_path);

/* debug.c: what names further files: the binary and its debug file (-1, NULL: none). */
struct binary_link_source {
	struct binary_registry *registry;
	const struct entry *entry; /* a copy */
	const struct symbol_identity *identity;
	uint32_t binary;
	int fd, debug_fd;
	const char *debug_path; /* NULL: it has none */
	uint32_t n_found, n_objects_found, n_objects_missed;
};
/* parser_finder.find for a `struct binary_link_source`. Called without the lock. */
int binary_open_link(void *source, const struct parser_link *link, uint32_t *ret_next);
/* runtimes.c: the runtime of the entry's symbol file, if it has one. */
void binary_note_runtime_locked(
	struct binary_registry *r, uint32_t id, const struct symbol_file *symbols);
/* work.c */
void binary_inputs_freep(struct binary_inputs **in);
/* entry.c */
void binary_enqueue_locked(struct binary_registry *r, struct binary_queue *q, uint32_t id);
uint32_t binary_canonical_locked(struct binary_registry *r, uint32_t id);
/* Where the entry is to be made anew and nothing uses its symbol file, that goes and the entry is wanted again. */
void binary_renew_locked(struct binary_registry *r, uint32_t id);

/* fetch.c */
/* Asks the servers, unless that was done lately. */
void binary_fetch_want(
	struct binary_registry *r, uint32_t binary, const struct symbol_identity *id);
/* What they gave, to be used once; -ENOENT. */
int binary_fetched_open(struct binary_registry *r, const struct symbol_identity *id);
/* Puts it back, for when the symbol file is made once more. */
void binary_fetched_keep(
	struct binary_registry *r, uint32_t binary, const struct symbol_identity *id, int fd);
void binary_fetch_done(struct binary_registry *r);
/* Closes roots that have been idle for long enough. No lock: what was unmounted meanwhile goes with its last descriptor. */
void binary_expire_roots(struct binary_registry *r);
void binary_close_roots(struct binary_registry *r);

/* cache.c */
/* Learns what is on disk; turns the disk off, with a text, when the path is of no use. */
void binary_cache_load(struct binary_registry *r, struct errbuf *eb);
struct content *binary_content_find_locked(
	struct binary_registry *r, const uint8_t id[SYMBOL_CONTENT_ID_LEN]);
/* Maps the symbol file of that content from disk into *ret: 0, -ENOENT, or -EBADMSG after dropping a corrupt one. No lock. */
int binary_cache_open(struct binary_registry *r, const uint8_t id[SYMBOL_CONTENT_ID_LEN],
	struct symbol_file *ret);
/* Writes a symbol file to disk and replaces *s by a mapping of what was written; keeps *s as it is on failure. No lock. */
int binary_cache_write(struct binary_registry *r, struct symbol_file *s);
/* Removes the files of evicted contents. No lock. */
void binary_cache_sweep(struct binary_registry *r);
/* Takes a mapped symbol file in as the content of entry `id`; evicts others above the cap, whose files binary_cache_sweep
 * removes. NULL when memory is out. */
struct content *binary_content_add_locked(
	struct binary_registry *r, uint32_t id, const struct symbol_file *s, bool on_disk);
/* Forgets the mapping (the file on disk stays). */
void binary_content_unmap_locked(struct binary_registry *r, struct content *c);
void binary_contents_free(struct binary_registry *r);
