/* SPDX-License-Identifier: Apache-2.0
 *
 * Garbage: stacks, tasks, interned addresses and binary ids that no sample in the log refers to any more.
 */
#pragma once
#include "exporter/proc/proc.h"
#include "exporter/sample/log.h"
#include "exporter/sample/outcomes.h"

struct collector {
	struct sample_log *const *logs; /* ABI_N_EVENTS of them; NULL: that event is off */
	struct stacks *stacks;
	struct proc_table *procs;
	struct binary_registry *binaries;
	struct outcomes *outcomes;
	uint32_t next_nodes, next_tasks; /* sizes at which to look again */
	uint64_t runs;			 /* times that the tree was rebuilt */
};

/* Looks when the tree or the task table has doubled since the last look, rebuilds the tree when half of it is garbage.
 * Linear in the logs. The pipeline's lock is held. */
void collect_garbage(struct collector *c);
