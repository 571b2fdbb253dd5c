/* SPDX-License-Identifier: Apache-2.0
 *
 * --unwind.shadow: one user stack of N is walked a second time, by elfutils in a parser child (parser/walk.h), over the copy
 * that came with it, and compared with what the exporter shows. The drain thread puts stacks in, with the pipeline's lock held;
 * the shadow thread compares; anybody may ask how it went.
 */
#pragma once
#include "exporter/proc/proc.h"
#include "exporter/walk/shadow_compare.h"

enum {
	SHADOW_MAX_WAITING = 256, /* stacks; further ones are skipped, counted */
	SHADOW_N_MISMATCHES = 16, /* the last ones are kept */
	SHADOW_CHAIN_TEXT = 2048,
};

struct shadow;

struct shadow_options {
	int parser_fd;
	struct binary_registry *binaries;
	struct proc_table *procs;
	struct clock *clock;
	struct budget *budget; /* of what waits */
	double max_cpu;	       /* of the parser's children, as a share of one CPU */
};

struct shadow *shadow_new(const struct shadow_options *o);
void shadow_freep(struct shadow **s);

/* A stack as it is shown, and its copy. */
void shadow_take(struct shadow *s, const struct abi_record *r, const struct abi_stack *stack);
/* Compares what waits, of one process at a time, paced. Blocks at most timeout_ns, or until elfutils is done. */
void shadow_work(struct shadow *s, int64_t timeout_ns);

struct shadow_stats {
	uint64_t results[SHADOW_N_RESULTS];
	uint64_t unknown[SHADOW_N_UNKNOWNS]; /* of results[SHADOW_UNKNOWN] */
	uint64_t skipped;		     /* for want of room */
	uint64_t frames;		     /* return addresses that were the same */
	uint64_t waiting;		     /* now */
};
void shadow_stats(struct shadow *s, struct shadow_stats *ret);

/* A stack that came out different. */
struct shadow_mismatch {
	uint32_t pid, frame; /* the first that differs: 1 is the leaf's caller */
	uint64_t addr; /* below which it is: offset in `module`, or an address when that is "" */
	char comm[ABI_COMM_LEN];
	char module[512];
	/* "file+0xoffset" a line, from some frames below the difference to some above it */
	char ours[SHADOW_CHAIN_TEXT], theirs[SHADOW_CHAIN_TEXT];
};
/* The newest first; returns how many. */
size_t shadow_mismatches(struct shadow *s, struct shadow_mismatch ret[SHADOW_N_MISMATCHES]);
