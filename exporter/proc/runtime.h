/* SPDX-License-Identifier: Apache-2.0
 *
 * Language runtimes in processes, as those see them that only want to know.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct process;

/* The runtime of a language whose frames the kernel half walks in the process: its row is published. False: there is none. */
struct proc_runtime {
	uint32_t binary;  /* the file that holds it */
	uint16_t kind;	  /* enum runtime_kind (exporter/symfile/runtime.h) */
	uint32_t version; /* RUNTIME_VERSION */
	uint64_t bias;	  /* of that file in the process: address less ELF virtual address */
};
bool proc_runtime(const struct process *p, struct proc_runtime *ret);
/* What became of runtimes in processes (interp.h). */
enum proc_interp_state {
	PROC_INTERP_NONE,
	PROC_INTERP_WAITING, /* its state is being looked for, or not there yet */
	PROC_INTERP_WALKED,
	PROC_INTERP_REFUSED,
	PROC_N_INTERP_STATES
};
struct proc_interp_binary {
	uint32_t binary, version;
	uint16_t kind,
		refusal; /* enum interp_refusal: why n[PROC_INTERP_REFUSED] have no frames of it */
	uint32_t n[PROC_N_INTERP_STATES]; /* live processes */
};
