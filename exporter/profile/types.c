/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table in the design's list of profile types that are built.
 */
#include "exporter/profile/types.h"

const struct profile_type profile_type_cpu = {
	.endpoint = "profile",
	.store_name = "process_cpu",
	.description =
		"On-CPU time of all processes and of the kernel, sampled by a clock on every CPU.",
	.values = {{"samples", "count", PROFILE_COUNT}, {"cpu", "nanoseconds", PROFILE_WEIGHT}},
	.n_values = 2,
	.period_type = "cpu",
	.period_unit = "nanoseconds",
};
