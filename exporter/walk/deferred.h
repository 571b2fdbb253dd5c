/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples that wait: for what is being read of their process (labels, mappings), and, where the kernel half could not walk the
 * stack because a process or a binary was new, for the unwind tables. Those come with a copy of their stack and are walked here by
 * the same steps; what waits for too long goes on as it came.
 * Owned by the drain thread; the pipeline's lock is held.
 */
#pragma once
#include "bpf/unwind/tables.h"
#include "exporter/proc/proc.h"
#include "lib/base/budget.h"

struct deferred;

/* The tables that the walker reads (bpf/unwind/tables.h). */
struct deferred_tables {
	struct unwind_binary *binaries;
	const uint32_t *slabs;
	const struct unwind_rule *rules;
	uint32_t n_binaries, n_slabs, n_rules;
};

struct deferred_options {
	struct deferred_tables tables;
	struct proc_table *procs;
	struct binary_registry *binaries; /* knows what is being made */
	struct budget *budget;		  /* of what waits */
	uint64_t max_wait_ns;
	void *ctx;
	/* A sample that is done, and its process. */
	void (*sample)(void *ctx, const struct abi_record *r, struct process *process);
	/* The same, before that, with the copy that was sent for comparing it (ABI_FLAG_SHADOW). May be NULL. */
	void (*shadow)(void *ctx, const struct abi_record *r, const struct abi_stack *s);
};

struct deferred *deferred_new(const struct deferred_options *o);
void deferred_freep(struct deferred **d);

/* A stack copy: of the sample that comes next with its time and CPU. */
void deferred_stack(struct deferred *d, const struct abi_stack *s);
/* A sample: goes on at once, as it is or walked anew, or waits. */
void deferred_sample(struct deferred *d, const struct abi_record *r);
/* Goes over what waits. Returns the time before which nothing waits any more, at most now_ns. */
uint64_t deferred_retry(struct deferred *d, uint64_t now_ns);

struct deferred_stats {
	uint64_t waiting, waiting_bytes; /* now */
	uint64_t unread;		 /* went on before its process was read */
	uint64_t no_room;		 /* went on at once, for want of room to wait in */
	uint64_t whole, cut,
		given_up; /* walked to the root; walked, and cut; cut for want of a table */
};
void deferred_stats(const struct deferred *d, struct deferred_stats *ret);
