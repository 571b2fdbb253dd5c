/* SPDX-License-Identifier: Apache-2.0
 *
 * What a BPF program costs, when only some of its runs are measured. Pure; the caller locks.
 */
#pragma once
#include <stdint.h>

/* Zero at start. */
struct run_cost {
	uint64_t runs, measured_runs, measured_ns; /* sums that are accounted for */
	uint64_t ns;				   /* cost of all runs accounted for; never falls */
};

/*
 * Takes the sums since start. The runs since the last call cost what those of them took that were measured. When none was
 * measured they wait for the next call.
 */
void run_cost_update(
	struct run_cost *c, uint64_t runs, uint64_t measured_runs, uint64_t measured_ns);
