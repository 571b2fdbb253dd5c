/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process images run a language's runtime, by the files that they map.
 */
#include "exporter/proc/table.h"

bool proc_runtime(const struct process *p, struct proc_runtime *ret)
{
	if (p->interp.is_published)
		*ret = p->interp.runtime;
	return p->interp.is_published;
}
