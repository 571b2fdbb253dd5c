/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of Java VMs (bpf/interp/rows.h), one for each process that has one; a forked child shares its parent's.
 */
#pragma once
#include "exporter/proc/interp.h"

struct interp_hotspots {
	struct interp_hotspot *rows; /* INTERP_HOTSPOTS; NULL: none */
	uint32_t next;		     /* to be looked at */
	bool is_again;		     /* all were in use at some time */
};

/* The number of a row that no live process has, filled; -ENOSPC: all are in use. Wants the table's lock held. */
int interp_hotspots_take(
	struct interp_hotspots *h, const struct proc_table *t, const struct interp_hotspot *row);
