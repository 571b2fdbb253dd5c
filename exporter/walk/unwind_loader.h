/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings the unwind rows of symbol files to the kernel half: when a file is ready, when a table that was evicted is looked up
 * again, when an id goes. Called by the symbol threads; the registry's lock is not held but in unwind_loader_release.
 */
#pragma once
#include "exporter/binary/binary.h"
#include "exporter/walk/deferred.h"
#include "exporter/keeper/keeper.h"
#include "exporter/unwind/files.h"
#include "exporter/unwind/tables.h"

struct unwind_loader;

/* `memory`: the mapped arrays by enum keeper_map; all NULL in a replay, which has plain memory of table_bytes instead. */
struct unwind_loader *unwind_loader_new(
	const struct keeper_setup *s, void *const *memory, uint64_t table_bytes);
void unwind_loader_freep(struct unwind_loader **u);

struct deferred_tables unwind_loader_tables(const struct unwind_loader *u);

/* A symbol file was made for that id, or could not be; unreadable: none can be made of that file. */
void unwind_loader_settled(struct unwind_loader *u, struct binary_registry *r, uint32_t binary,
	bool unreadable, int64_t now_ns);
/* The rows of that id's file, before there is a symbol file. */
void unwind_loader_rows(
	struct unwind_loader *u, uint32_t binary, const struct symbol_file *s, int64_t now_ns);
/* True when there is a table of that content: it is the id's too from now on. */
bool unwind_loader_has_rows(
	struct unwind_loader *u, uint32_t binary, const uint8_t content_id[SYMBOL_CONTENT_ID_LEN]);
/* Tables that are wanted again; about once a second, whoever calls it. */
void unwind_loader_round(struct unwind_loader *u, struct binary_registry *r, int64_t now_ns);
/* Where the file of that id lies; NULL: it is to be forgotten. The registry's lock is held. */
void unwind_loader_found(struct unwind_loader *u, uint32_t binary, const struct binary_file *file);
/* The id will be another file's. The registry's lock is held. */
void unwind_loader_release(struct unwind_loader *u, uint32_t binary);

struct unwind_loader_stats {
	struct unwind_tables_stats tables;
	struct files_stats files;
};
void unwind_loader_stats(struct unwind_loader *u, struct unwind_loader_stats *ret);
