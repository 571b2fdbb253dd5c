/* SPDX-License-Identifier: Apache-2.0
 *
 * The receiving end of the drain: side-band records → process table; samples → process, frames, stack, row of the log. All
 * that it fills is behind one lock, which responses take while they aggregate.
 */
#pragma once
#include "exporter/intake/collect.h"
#include "exporter/walk/deferred.h"
#include "exporter/walk/record.h"
#include "exporter/sample/drain.h"
#include "exporter/walk/shadow.h"
#include "exporter/symbolize/kernel_code.h"
#include "lib/base/lock.h"

struct intake {
	struct lock lock; /* what follows */
	struct proc_table *procs;
	struct stacks *stacks;
	struct sample_log *const *logs; /* by event; NULL: it is off */
	struct collector collector;
	struct record_buffer frames;
	struct outcomes *outcomes; /* owned */
	struct kernel_code *
		kernel_code; /* gets records of code that the kernel makes; NULL: nobody. Not owned */
	struct deferred *deferred; /* NULL: no sample waits. Owned */
	struct abi_code *codes;	   /* of a sample whose process is not known yet; owned */
	size_t n_codes, cap_codes;
	struct shadow *shadow; /* takes what is to be compared; NULL: nobody. Not owned */
	uint64_t covered_ns;   /* up to which the logs have all samples */
};

/* `logs`: ABI_N_EVENTS of them, not owned. Owns the lock, `outcomes` and `deferred`. */
void intake_init(struct intake *in, struct proc_table *procs, struct stacks *stacks,
	struct sample_log *const *logs, struct binary_registry *binaries);
/* From now on samples wait for the tables that their stacks need. Before the first record. */
void intake_defer(struct intake *in, const struct deferred_tables *tables, struct budget *budget);
void intake_done(struct intake *in);
/* After the last record: what waits goes on as it is. */
void intake_flush(struct intake *in);
/* What the drain, or a replayed bundle, calls; on one thread. */
struct sample_sink intake_sink(struct intake *in);
