/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind tables in the memory that the kernel half reads while it walks. One table per content, whatever number of binary ids
 * it has; equal rules of all tables are one. The least recently used tables make room for new ones.
 * docs/formats/unwind-tables.md has the layout, and says why no writer waits for a walk under way.
 *
 * Thread-safe, one mutex; does no I/O. The memory is mmapable maps in production and plain arrays in tests.
 */
#pragma once
#include "bpf/unwind/tables.h"
#include "exporter/symfile/symbol_unwind.h"

struct unwind_tables;

/* All zero at first; outlives the tables. */
struct unwind_memory {
	uint32_t *slabs; /* UNWIND_SLAB_WORDS each; slab 0 is of no use */
	uint32_t n_slabs;
	struct unwind_rule *rules;
	uint32_t n_rules;
	struct unwind_binary *binaries; /* by binary id */
	uint32_t n_binaries;
	struct unwind_answer *cache;
	uint32_t n_cache;
};

/* Looked up within this time, a table is not evicted: making room for one in use by another one in use would go on for ever. */
#define UNWIND_KEEP_NS (2 * 1000000000LL)

struct unwind_tables *unwind_tables_new(const struct unwind_memory *memory);
void unwind_tables_freep(struct unwind_tables **t);
#define _cleanup_unwind_tables_ _cleanup_(unwind_tables_freep)

/*
 * Lays the rows of that content out for a binary id, evicting others as needed. 0 also when the id has them already. -ENOSPC:
 * what would have to go is in use, or the table is larger than all slabs; -ERANGE: the id is beyond the kernel half's array.
 * Both are counted. -ENOMEM.
 */
int unwind_tables_load(struct unwind_tables *t, uint32_t binary,
	const uint8_t content_id[SYMBOL_CONTENT_ID_LEN], const struct symbol_unwind *u,
	int64_t now_ns) _must_check_;
/* The same when the content's table is there already; false when it is not. */
bool unwind_tables_share(
	struct unwind_tables *t, uint32_t binary, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN]);
/* Nothing is known of this binary, and nothing will be: code in it is walked as code without rows. An id that has a table keeps it. */
void unwind_tables_set_rowless(struct unwind_tables *t, uint32_t binary);
/* The id is free for another binary. */
void unwind_tables_drop(struct unwind_tables *t, uint32_t binary);

/* Notes which tables of ids below n_ids were looked up since the last call; about once a second. Returns how many ids, at most
 * `max`, were looked up that have no table. */
size_t unwind_tables_scan(
	struct unwind_tables *t, uint32_t n_ids, int64_t now_ns, uint32_t *ret_wanted, size_t max);

/* Counters for /metrics. */
struct unwind_tables_stats {
	uint64_t bytes, capacity_bytes;		/* of slabs: in use, in all */
	uint64_t tables, binaries, rows, rules; /* now */
	uint64_t loaded, shared, evicted;
	uint64_t refused_in_use, refused_too_large, refused_id; /* loads */
	uint64_t
		rules_refused; /* rules for which the array had no room: their rows cut stacks as bad_rule */
	uint64_t cache_wipes;
};
void unwind_tables_stats(struct unwind_tables *t, struct unwind_tables_stats *ret);
