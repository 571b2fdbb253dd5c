/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds in processes where the threads of their runtime have their state, for rows that the kernel half reads. The process table says of
 * which (exporter/proc/interp.h); one thread reads their memory, without the table's lock.
 */
#pragma once
#include "exporter/binary/binary.h"
#include "exporter/interp/rows.h"
#include "exporter/proc/interp.h"
#include "lib/base/clock.h"
#include "lib/base/lock.h"

struct interp_processes_options {
	struct proc_table *table;
	struct lock *lock; /* the table's */
	struct binary_registry *binaries;
	struct keeper *keeper;
	struct clock *clock;
	struct interp_layout *layouts;	 /* INTERP_LAYOUTS of them, zero */
	struct interp_hotspot *hotspots; /* INTERP_HOTSPOTS of them; NULL: no Java VM is walked */
};

struct interp_processes;
struct interp_processes *interp_processes_new(const struct interp_processes_options *o);
void interp_processes_freep(struct interp_processes **s);

/* Answers all that is asked by now; blocks. Returns when there may be more without a ring: monotonic ns, INT64_MAX never. One thread. */
int64_t interp_processes_round(struct interp_processes *s);
