/* SPDX-License-Identifier: Apache-2.0
 *
 * --debug.capture: everything that came into the exporter from outside, in one file that replays without root: drains,
 * records, side-band records, the keeper's answers with file contents. Format: docs/formats/bundle.md.
 */
#pragma once
#include "exporter/keeper/keeper.h"
#include "lib/base/err.h"
#include "lib/base/bytes.h"
#include "lib/base/fs.h"
#include <stddef.h>
#include <stdint.h>

enum capture_kind {
	CAPTURE_DRAIN =
		1, /* u64 monotonic, s64 boottime − monotonic, u64 realtime; ends a drain: what came before it was read */
	CAPTURE_SAMPLE = 2,   /* abi_record */
	CAPTURE_SIDEBAND = 3, /* perf record */
	CAPTURE_OPEN = 4,     /* request and answer of an OPEN or OPEN_AT */
	CAPTURE_BLOB = 5,     /* SHA-256, bytes: contents of a descriptor */
};

enum {
	CAPTURE_VERSION = 2, /* 1: side-band records have build ids */
	CAPTURE_MAX_BLOB = 64 << 20,
	CAPTURE_HEADER_BYTES = 16, /* magic u64, version u32, abi version u32 */
	CAPTURE_ENTRY_BYTES = 8,   /* kind u32, length u32 */
};
#define CAPTURE_MAGIC 0x656c646e75626e73ULL /* "snbundle" */

/* A CAPTURE_OPEN entry, before its path. */
struct capture_answer {
	uint16_t op;   /* CAPTURE_OP_* */
	uint16_t what; /* enum keeper_what */
	uint32_t pid;
	uint64_t start_ns, start, end;
	uint64_t root_dev, root_ino; /* OPEN_AT: of the directory */
	int32_t result;
	uint32_t has_blob;
	uint64_t dev, ino; /* of what was opened */
	uint8_t digest[32];
};
enum { CAPTURE_OP_OPEN = 1, CAPTURE_OP_OPEN_AT = 2 };
void capture_put_answer(struct bytes *b, const struct capture_answer *o, const char *path);

struct capture;

/* Creates the file (mode 0600). It stops growing at max_bytes (0: 1 GiB), which is logged once. */
struct capture *capture_open(
	struct fs *fs, const char *path, uint64_t max_bytes, struct errbuf *eb);
/* Writes what is buffered and closes. */
void capture_freep(struct capture **c);

void capture_record(struct capture *c, enum capture_kind kind, const void *rec, size_t len);
void capture_drain(
	struct capture *c, uint64_t monotonic_ns, int64_t boot_offset_ns, uint64_t realtime_ns);

/* A keeper that passes everything on to `k` and writes down what OPEN and OPEN_AT answered. It has no COPY. Does not own k. */
struct keeper *capture_keeper(struct capture *c, struct keeper *k);
