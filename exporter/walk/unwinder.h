/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings the unwind rows of symbol files to the kernel half: when a file is ready, when a table that was evicted is looked up
 * again, when an id goes. Called by the symbol threads; the registry's lock is not held but in unwinder_release.
 */
#pragma once
#include "exporter/binary/binary.h"
#include "exporter/walk/deferred.h"
#include "exporter/keeper/keeper.h"
#include "exporter/unwind/tables.h"

struct unwinder;

/* `memory`: the mapped arrays by enum keeper_map; all NULL in a replay, which has plain memory of table_bytes instead. */
struct unwinder *unwinder_new(
	const struct keeper_setup *s, void *const *memory, uint64_t table_bytes);
void unwinder_freep(struct unwinder **u);

struct deferred_tables unwinder_tables(const struct unwinder *u);

/* A symbol file was made for that id, or could not be; unreadable: none can be made of that file. */
void unwinder_settled(struct unwinder *u, struct binary_registry *r, uint32_t binary,
	bool unreadable, int64_t now_ns);
/* The rows of that id's file, before there is a symbol file. */
void unwinder_rows(
	struct unwinder *u, uint32_t binary, const struct symbol_file *s, int64_t now_ns);
/* True when there is a table of that content: it is the id's too from now on. */
bool unwinder_has_rows(
	struct unwinder *u, uint32_t binary, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN]);
/* Tables that are wanted again; about once a second, whoever calls it. */
void unwinder_round(struct unwinder *u, struct binary_registry *r, int64_t now_ns);
/* Where the file of that id lies; NULL: it is to be forgotten. The registry's lock is held. */
void unwinder_found(struct unwinder *u, uint32_t binary, const struct binary_file *file);
/* The id will be another file's. The registry's lock is held. */
void unwinder_release(struct unwinder *u, uint32_t binary);

void unwinder_stats(struct unwinder *u, struct unwind_tables_stats *ret);
