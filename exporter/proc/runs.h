/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings as the kernel half reads them (bpf/process/heads.h): runs in one array of words, heads of processes in another. The
 * memory is given by the caller, a mapping of BPF maps or plain memory; nothing here calls the kernel. Used with the lock of the
 * process table held, by whichever thread has it.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "bpf/process/heads.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct runs;

struct runs_memory {
	struct process_bucket *buckets;
	uint32_t n_buckets; /* a power of two */
	uint64_t *words;
	uint32_t n_words;
	struct interp_bucket *rows; /* of runtimes, as many as buckets; NULL: none are published */
};

/* Heads and words must be zero. */
struct runs *runs_new(const struct runs_memory *m);
void runs_freep(struct runs **r);

/* Room for a run of n mappings: its number (never 0) and where its 3n words go; 0 when there is none (counted). */
uint64_t runs_alloc(struct runs *r, uint32_t n, uint64_t **ret_words);
/* Its words may be used again once walks that have begun by now are over. */
void runs_release(struct runs *r, uint64_t run);
/* The time is now_ns: gives back what was released long enough ago. */
void runs_expire(struct runs *r, uint64_t now_ns);

/* The image's head names this run from now on (0: none), and has this row of its runtime (NULL: none; the image in it does not count);
 * false when the bucket of the pid is full (counted). */
bool runs_set(struct runs *r, uint32_t pid, uint64_t image, uint64_t run, uint32_t flags,
	const struct interp_process *row);
/* The image of the pid's head, which may have been made in the kernel; 0 when it has none. */
uint64_t runs_image(const struct runs *r, uint32_t pid);
/* The head of that image goes, if there is one. */
void runs_clear(struct runs *r, uint32_t pid, uint64_t image);

struct runs_stats {
	uint64_t runs, words, n_words; /* now; n_words: in all */
	uint64_t no_words, no_head;    /* refused */
};
void runs_stats(const struct runs *r, struct runs_stats *ret);
