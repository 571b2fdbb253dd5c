/* SPDX-License-Identifier: Apache-2.0
 *
 * meta.json of a block (docs/formats/block.md, "meta.json").
 */
#pragma once
#include "lib/base/fs.h"
#include "lib/base/ulid.h"
#include "scraper/store/block/frame.h"
#include "scraper/store/block/tombstone.h"

enum { META_VERSION = 1, META_MAX_BYTES = 1 << 20, META_MAX_ULIDS = 4096 };

struct meta_ulids {
	uint8_t (*items)[ULID_BYTES];
	size_t n;
};

struct meta_names {
	char **items;
	size_t n;
};

struct meta_stats {
	uint64_t label_strings, strings, functions, mappings, locations, label_sets, nodes, schemas,
		streams, profiles, rows, row_pages;
};

enum { META_N_RESOLUTIONS = 3 }; /* as enum part_resolution */

struct meta_rollup {
	uint64_t streams, profiles, rows, row_pages; /* all 0: there is none */
};

struct meta {
	uint8_t ulid[ULID_BYTES];
	uint32_t level;
	struct meta_ulids generations, replaces;
	int64_t min_time_ns, max_time_ns, max_duration_ns;
	struct meta_stats stats;
	struct {
		uint64_t size;
		uint32_t table_crc;
	} files[FRAME_N]; /* size 0: the block has no such file */
	struct meta_rollup rollups[META_N_RESOLUTIONS];
	struct meta_names rollup_without; /* label names that rows of rollups do not have */
	struct tombstones tombstones;
};

void meta_done(struct meta *m);
/* Copies a list of names. */
void meta_names_set(struct meta_names *to, const char *const *names, size_t n);
/* Appends the text with its checksum line. Errors of `out`. */
int meta_write(const struct meta *m, struct bytes *out) _must_check_;
/* -EBADMSG (damaged), -ENOTSUP (version or feature that is not known; the text names it), -ENOMEM; *ret is empty then. */
int meta_read(const void *p, size_t n, struct meta *ret, struct errbuf *eb) _must_check_;
/* A member that is a list of ULIDs. Reading: -EBADMSG (missing, above META_MAX_ULIDS, or something else), -ENOMEM; `ret->items` is the
 * caller's to free() in any case. */
void meta_ulids_write(struct json *j, const char *key, const struct meta_ulids *u);
int meta_ulids_read(const struct json_value *object, const char *key, struct meta_ulids *ret,
	struct errbuf *eb) _must_check_;
/* The last line of a file of JSON, `crc32c xxxxxxxx` of the bytes before it (from `start` on); reading gives the length without it, or
 * -EBADMSG. */
int meta_sum_write(struct bytes *out, size_t start) _must_check_;
int meta_sum_check(
	const void *p, size_t n, const char *name, size_t *ret_n, struct errbuf *eb) _must_check_;
/* Bytes of the block's files, and 4 KiB for the directory and meta.json. */
uint64_t meta_bytes(const struct meta *m);
bool meta_has_generation(const struct meta *m, const uint8_t generation[ULID_BYTES]);
