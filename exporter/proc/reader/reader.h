/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what the process table asks for (exporter/proc/asks.h): /proc, through the keeper where that needs privilege, and the
 * files of container runtimes. All of that can block, for ever where a file system does not answer: whatever may block takes
 * a `struct proc_reader *`, and none of it is called with a lock held. The table's lock is taken only to take a request and to
 * hand its answer back.
 *
 * PROC_READER_THREADS threads share the work, at most two of them on requests of one kind, so that what hangs in one leaves
 * the others going.
 */
#pragma once
#include "exporter/keeper/keeper.h"
#include "exporter/proc/proc.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/base/lock.h"

enum { PROC_READER_THREADS = 4 };

struct proc_reader_options {
	const char *procfs; /* --path.procfs */
	struct keeper *keeper;
	struct binary_registry *binaries;
	struct clock *clock; /* of the samples; in a replay the bundle's */
	struct fs *fs;	     /* reads below procfs; NULL: fs_system */
	struct proc_table *table;
	struct lock *lock; /* the table's */
};

struct proc_reader;
struct proc_reader *proc_reader_new(const struct proc_reader_options *o);
void proc_reader_freep(struct proc_reader **r);

/* Waits until something is asked, timeout_ns at most, and reads it. Called by its threads until shutdown. */
void proc_reader_work(struct proc_reader *r, int64_t timeout_ns);
/* Reads all that is asked now, on the calling thread; true when there was something. For replays and tests, whose keepers do
 * not block. */
bool proc_reader_settle(struct proc_reader *r);
/* Something is asked. Any thread. */
void proc_reader_wake(struct proc_reader *r);
/* Ends all waiting, now and from now on. */
void proc_reader_stop(struct proc_reader *r);

enum proc_read_result {
	PROC_READ_OK,
	PROC_READ_GONE,	   /* the process has ended, or the file is not there */
	PROC_READ_TIMEOUT, /* no answer in time; asked again */
	PROC_READ_BUSY,	   /* so many hang already that it was not tried; asked again */
	PROC_READ_ERROR,
	PROC_N_READ_RESULTS
};
struct proc_reader_stats {
	uint64_t reads[PROC_N_ASKS][PROC_N_READ_RESULTS];
	struct {
		enum proc_ask ask;
		uint32_t pid;	  /* 0: none */
		int64_t since_ns; /* 0: this thread waits for work */
	} at_work[PROC_READER_THREADS];
};
void proc_reader_stats(struct proc_reader *r, struct proc_reader_stats *ret);
const char *proc_ask_name(enum proc_ask ask);
const char *proc_read_result_name(enum proc_read_result result);
