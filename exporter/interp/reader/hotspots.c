/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that were never used come first, so that one is used again as late as can be: a walk that has begun may still read it.
 */
#include "exporter/interp/reader/hotspots.h"
#include <errno.h>

int interp_hotspots_take(
	struct interp_hotspots *h, const struct proc_table *t, const struct interp_hotspot *row)
{
	bool is_used[INTERP_HOTSPOTS] = {false};
	uint32_t i = h->next, n = 0;

	if (!h->rows)
		return -ENOSPC;
	if (h->is_again)
		proc_interp_hotspots(t, is_used);
	for (; is_used[i] && n < INTERP_HOTSPOTS; n++)
		i = (i + 1) % INTERP_HOTSPOTS;
	if (n == INTERP_HOTSPOTS)
		return -ENOSPC;
	h->next = (i + 1) % INTERP_HOTSPOTS;
	h->is_again |= h->next == 0;
	h->rows[i] = *row;
	return (int)i;
}
