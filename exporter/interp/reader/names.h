/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of code objects that samples met, read from the memory of their processes as soon as the samples are in: a program may not live
 * long. What is read counts only where it is the object that the kernel half saw.
 */
#pragma once
#include "exporter/keeper/keeper.h"
#include "exporter/proc/code_objects.h"
#include "exporter/symfile/runtime.h"
#include "lib/base/bell.h"

struct interp_names_options {
	struct proc_table *procs;
	struct lock *procs_lock;
	struct binary_registry *binaries;
	struct keeper *keeper;
	struct clock *clock;
	struct bell *bell; /* wakes the thread that does rounds; NULL: nobody asks for one */
};

enum interp_name_result {
	INTERP_NAME_OK,
	INTERP_NAME_FUNCTION, /* of machine code the function alone: the code is another one's, or not to be read */
	INTERP_NAME_REUSED,	/* another object, or none, lay there when it was read */
	INTERP_NAME_UNREADABLE, /* its memory, or what it says, cannot be read */
	INTERP_NAME_GONE,	/* its process had ended */
	INTERP_NAME_NO_ROOM,	/* --interp.max-bytes is used up */
	INTERP_N_NAME_RESULTS
};
/* As in metrics. */
const char *interp_name_result_text(enum interp_name_result r);

struct interp_names;
struct interp_names *interp_names_new(const struct interp_names_options *o);
void interp_names_freep(struct interp_names **n);

/* Reads what waits, newest first. One thread; blocks for processes whose memory does not answer, for a second each and one request more. */
void interp_names_round(struct interp_names *n);
/* If anything waits for its name, asks for a round and waits for it until then (CLOCK_MONOTONIC) at most. Any thread, without procs_lock. */
void interp_names_await_round(struct interp_names *n, int64_t until_ns);

struct interp_names_stats {
	uint64_t results[N_RUNTIMES][INTERP_N_NAME_RESULTS]; /* RUNTIME_NONE: of no known runtime */
	uint64_t copies, copied_bytes;			     /* asked of processes */
	uint64_t
		frames_elided; /* of machine code, above INTERP_MAX_MACHINE_FRAMES of one address */
};
void interp_names_stats(struct interp_names *n, struct interp_names_stats *ret);
