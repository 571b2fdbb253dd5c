/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel half reads of runtimes (bpf/interp/rows.h), made from the record of a file: the layout that processes of a version
 * share, and the row of one process. Pure: the memory of layouts is given by the caller, a mapping of a BPF map or plain memory; the
 * process is read through a function.
 */
#pragma once
#include "bpf/interp/rows.h"
#include "exporter/interp/interp.h"
#include "exporter/interp/refusals.h"
#include "exporter/symfile/python.h"
#include <stdbool.h>

/* Layouts in use; the caller's lock guards it. Equal ones are one, and each stays. */
struct interp_layouts {
	struct interp_layout *layouts; /* INTERP_LAYOUTS, zero at first */
	uint32_t n;
	uint64_t refused; /* for want of room */
};

/* Where runtimes of those kinds, a bit each, have their frames: enum abi_interp_walks. */
uint32_t interp_walks(uint32_t kinds);
/* Are frames of that runtime walked on processors like this one? */
bool interp_is_walked_here(uint32_t kind);
/* The layout of a record that is not refused. False: its version has no way of walking. */
bool interp_layout_of(const struct runtime_record *r, struct interp_layout *ret);
/* Does the kernel half tell native frames of the runtime by where its code lies? */
bool interp_needs_eval(const struct interp_layout *l);
/* That code, the function that interprets or V8's built-in functions, as addresses in the file. False: it is not known. */
bool interp_eval_of(const struct runtime_record *r, uint64_t *ret_start, uint64_t *ret_end);
/* The number of that layout, taken when it is new; -ENOSPC (counted) when all are taken. */
int interp_layouts_find(struct interp_layouts *l, const struct interp_layout *layout);

enum {
	INTERP_MAX_INTERPRETERS = 64, /* looked at in a process, */
	INTERP_MAX_THREADS = 256,     /* and threads of all of them */
	INTERP_KEYS_IN_THREAD = 32, /* of glibc: keys whose values lie in the thread's descriptor */
#if defined(__x86_64__)
	INTERP_KEYS_AT = 0x310, /* there: pairs of {number, value} */
#else
	INTERP_KEYS_AT = 0, /* not known */
#endif
};

/*
 * The states of a process's row: how its threads are found, resolved in its memory, and checked with one of its threads. 0; -EAGAIN: the
 * process has not come so far (not relocated, no interpreter yet), or, unless `is_last`, one of its ways leads to no thread, which is left out
 * then; else negative, the error of `read`; positive: enum interp_refusal.
 */
int interp_states_of(const struct interp_memory *m, const struct runtime_record *r, bool is_last,
	struct interp_process *ret);
