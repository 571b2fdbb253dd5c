/* SPDX-License-Identifier: Apache-2.0
 *
 * --kubernetes in the main role: takes the pods from the fetcher and hands them to the process table. What was known last
 * stays while nothing new comes.
 */
#pragma once
#include "exporter/fetcher/fetcher.h"
#include "exporter/proc/proc.h"
#include "lib/base/lock.h"

struct pods_options {
	int fetcher_fd;
	struct proc_table *procs;
	struct lock *procs_lock;
	struct clock *clock;
	struct budget *budget;
	uint64_t max_bytes;
	uint32_t n_values;
};

struct pods;
struct pods *pods_new(const struct pods_options *o);
void pods_freep(struct pods **p);
/* Waits for the next update, timeout_ms at most, and takes it. Its own thread. */
void pods_round(struct pods *p, int timeout_ms);

struct pods_stats {
	uint64_t pods, containers, left_out;
	uint64_t updates, failures[FETCHER_N_PODS_STATUS];
	int64_t updated_ns; /* wall time of the last update; 0: none yet */
	bool works;	    /* the last that came was no failure */
};
void pods_stats(struct pods *p, struct pods_stats *ret);
