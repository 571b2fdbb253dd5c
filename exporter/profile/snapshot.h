/* SPDX-License-Identifier: Apache-2.0
 *
 * What a response is made of, taken from log, stacks and tasks in one go under the pipeline's lock: rows aggregated by (stack,
 * task, CPU), their distinct stacks as distinct frames, label values copied. After it nothing refers to the shared tables, so
 * naming, encoding and compressing run without the lock.
 */
#pragma once
#include "exporter/profile/labels.h"
#include "exporter/sample/log.h"
#include "exporter/symbolize/symbolize.h"
#include "lib/base/arena.h"

struct deferred;
struct outcomes;
struct shadow;
struct unwind_loader;

/* The shared state of all profile types. Used with the pipeline's lock held. */
struct profile_tables {
	struct sample_log *logs[ABI_N_EVENTS]; /* by event; NULL: it is off */
	struct stacks *stacks;
	struct proc_table *procs;
	const char *const *pod_labels; /* names of labels that come from pods (proc_task_info) */
	uint32_t n_pod_labels;
	const struct outcomes *outcomes;     /* how stacks ended; NULL: not counted */
	struct unwind_loader *unwind_loader; /* unwind tables; NULL: none. Has its own lock */
	const struct deferred *deferred;     /* stacks that wait for tables; NULL: none do */
	struct shadow *shadow; /* stacks walked a second time; NULL: none are. Has its own lock */
};

enum { PROFILE_MAX_FRAMES = 4096 }; /* of one stack after repeats are expanded */

struct profile_stack {
	uint32_t first, n; /* range of refs: indices into frames, leaf first */
	uint32_t cut;	   /* enum abi_cut; ABI_CUT_NONE when complete */
};

struct profile_task {
	const char *labels[PROFILE_N_TASK_LABELS]; /* "" when absent; valid UTF-8 */
	const char **pod_values;		   /* the same, by pod_labels; NULL: none */
	uint32_t exe_binary; /* whose symbol file says compiler and language */
};

struct profile_row {
	uint32_t stack, task; /* indices */
	uint64_t count, weight, weight_2;
	uint16_t cpu; /* when asked for */
};

struct profile_snapshot {
	struct sample_range range;
	struct symbol_frame *frames; /* distinct; pseudo frames are ELIDED and TRUNCATED words */
	uint32_t *refs; /* indices into frames; profile_build makes locations of them */
	struct profile_stack *stacks;
	struct profile_task *tasks;
	const char *const *pod_labels; /* names, of profile_tables */
	uint32_t n_pod_labels;
	struct profile_row *rows;
	size_t n_frames, n_refs, n_stacks, n_tasks, n_rows;
	uint64_t count, weight; /* sums of all rows */
	uint64_t period; /* the weight that most samples have; 0: none, or each has its own */
	int with_cpu;
};

/* Aggregates the rows of `log` in `range` whose task is in `tasks` (NULL: all). All memory is in `arena`.
 * -ENOMEM with the budget's text. */
int profile_snapshot_take(const struct profile_tables *t, const struct sample_log *log,
	const struct sample_range *range, const uint64_t *tasks, int with_cpu, struct arena *arena,
	struct profile_snapshot *ret, struct errbuf *eb) _must_check_;
