/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the table of known files (bpf/unwind/files.h): which binary an inode is. Pure; the caller holds the registry's lock.
 */
#pragma once
#include "bpf/unwind/files.h"
#include <stdint.h>

struct files;

/* `buckets`: n of them, a power of two, zeroed. Both must outlive it. */
struct files *files_new(struct file_bucket *buckets, uint32_t n_buckets);
void files_freep(struct files **f);

/* That file is that binary from now on. Where its bucket is full another one is forgotten. */
void files_set(struct files *f, const struct file_key *key, uint32_t binary);
/* The files of that binary are not known any more. */
void files_drop(struct files *f, uint32_t binary);

struct files_stats {
	uint64_t known, forgotten; /* now; for want of room */
};
/* Needs no lock. */
void files_stats(const struct files *f, struct files_stats *ret);
