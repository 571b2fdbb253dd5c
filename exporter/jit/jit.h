/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of JIT code, from the files in which runtimes describe it: /tmp/perf-PID.map inside the
 * process's own root (PID as it sees itself) and the jitdump that it maps. Addresses wait in the
 * process table; a round asks for them, reads on in the files of their processes and gives the
 * names back. A file counts when the process's user (or root) owns it and no link led to it.
 * One thread does the rounds, which can block, without a lock; others ask for one.
 */
#pragma once
#include "exporter/binary/binary.h"
#include "exporter/keeper/attach.h"
#include "exporter/proc/proc.h"
#include "lib/base/bell.h"
#include "lib/base/budget.h"
#include "lib/base/clock.h"
#include "lib/base/lock.h"

struct jit;
struct jit_options {
	struct proc_table *procs;
	struct lock *procs_lock; /* the pipeline's */
	struct binary_registry *binaries;
	struct clock *clock;
	struct budget *budget; /* --jit.max-bytes */
	int attacher_fd;       /* JVMs are asked for their perf maps through it; 0 or less: not */
	struct bell
		*bell; /* wakes the thread of the rounds; NULL: jit_await_round returns at once */
};
struct jit *jit_new(const struct jit_options *o);
void jit_freep(struct jit **j);

/* One round, on the only thread that does them: once a second, when slots have closed, and when somebody asks. Blocks. */
void jit_round(struct jit *j);
/* Asks for a round, before a profile is made, and waits for its end until `until_ns` (CLOCK_MONOTONIC) at most. Any thread. */
void jit_await_round(struct jit *j, int64_t until_ns);

enum jit_refusal {
	JIT_REFUSED_OWNER,     /* another user's file */
	JIT_REFUSED_MALFORMED, /* a jitdump that is none */
	JIT_REFUSED_SIZE,      /* larger than 4 GiB */
	JIT_REFUSED_MEMORY,    /* --jit.max-bytes */
	JIT_REFUSED_READ,
	JIT_N_REFUSED,
};
struct jit_stats {
	uint64_t processes, codes, waiting; /* now */
	uint64_t map_reads, dump_reads;	    /* that had news */
	uint64_t named, retired;
	uint64_t bad_lines; /* lines and records that say nothing */
	uint64_t dropped;   /* pieces of code above the cap of a process */
	uint64_t evicted;   /* processes whose code was forgotten for another's */
	uint64_t refused[JIT_N_REFUSED];
	uint64_t attached[ATTACH_N_STATUS],
		attach_busy; /* JVMs asked, by how it ended; not asked: too many wait */
};
/* As of the last whole round; does not wait for one. */
void jit_stats(struct jit *j, struct jit_stats *ret);
