/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences of the three sums: a mean since start would hide what changes later.
 */
#include "exporter/sample/run_cost.h"

void run_cost_update(
	struct run_cost *c, uint64_t runs, uint64_t measured_runs, uint64_t measured_ns)
{
	uint64_t n_measured = measured_runs - c->measured_runs;
	double mean_ns;

	if (!n_measured)
		return;
	mean_ns = (double)(measured_ns - c->measured_ns) / (double)n_measured;
	c->ns += (uint64_t)((double)(runs - c->runs) * mean_ns);
	c->runs = runs;
	c->measured_runs = measured_runs;
	c->measured_ns = measured_ns;
}
