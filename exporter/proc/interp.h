/* SPDX-License-Identifier: Apache-2.0
 *
 * Runtimes of languages in processes, for whoever reads their state (exporter/interp/reader): the table notes which image maps a file
 * with a runtime, a reader finds where its threads have their state, and the answer becomes the row that the kernel half reads. At most
 * one runtime an image. All of it wants the table's lock held.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/interp/refusals.h"
#include "exporter/proc/proc.h"

struct proc_interp_request {
	struct process *of; /* referenced until the answer */
	uint32_t pid;
	uint64_t start_ns;
	struct proc_runtime runtime;
	uint32_t tries; /* before this one */
};
/* The oldest whose time has come; each is to be answered once. False: there is none; *ret_due_ns: when there may be one by itself. */
bool proc_interp_next(
	struct proc_table *t, int64_t now_ns, struct proc_interp_request *ret, int64_t *ret_due_ns);
/* Is there any, now, or a refusal to be said? */
bool proc_interp_is_asking(const struct proc_table *t, int64_t now_ns);

/* One of four. What says nothing of the process that was asked about is dropped. */
/* Its row, which is published at once; the image in it does not count. */
void proc_interp_walked(struct proc_table *t, const struct proc_interp_request *r,
	const struct interp_process *row);
/* enum interp_refusal */
void proc_interp_refused(
	struct proc_table *t, const struct proc_interp_request *r, uint32_t refusal);
/* It has not come so far: to be asked again then. */
void proc_interp_later(struct proc_table *t, const struct proc_interp_request *r, int64_t due_ns);
/* It has ended. */
void proc_interp_gone(struct proc_table *t, const struct proc_interp_request *r);

/* Sets those that rows of live processes lead to, of INTERP_HOTSPOTS. */
void proc_interp_hotspots(const struct proc_table *t, bool *ret_is_used);

/* The runtime of that binary is known from now on, if it has one: images that map it are asked about. */
void proc_interp_settled(struct proc_table *t, uint32_t binary);

/* Files that were refused for the first time, for the log; false: no more. */
bool proc_interp_next_refused(struct proc_table *t, struct proc_interp_binary *ret);
/* Files with a runtime that live processes map, a row for each and for each reason; at most `max`. Returns how many. */
size_t proc_interp_binaries(const struct proc_table *t, struct proc_interp_binary *ret, size_t max);
