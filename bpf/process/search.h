/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The search in a run of mappings (bpf/process/heads.h). Whoever searches defines process_word_at behind this header.
 */
#pragma once
#include "bpf/process/heads.h"

/* Word i of all runs, or NULL. */
PROCESS_FN const __u64 *process_word_at(__u32 i);

/* One turn of the search for the last mapping that starts at or below p->addr: 1 ends it. */
PROCESS_FN int process_search_turn(struct process_place *p)
{
	__u32 mid = (p->lo + p->hi) / 2;
	const __u64 *start;

	if (p->hi - p->lo <= 1)
		return 1;
	start = process_word_at(p->first + mid);
	if (!start)
		return 1;
	if (*start <= p->addr)
		p->lo = mid;
	else
		p->hi = mid;
	return 0;
}

/* Takes the mapping at p->lo over; 0 when it does not hold p->addr. */
PROCESS_FN int process_take(struct process_place *p)
{
	const __u64 *start = process_word_at(p->first + p->lo);
	const __u64 *end = process_word_at(p->first + p->n + 2 * p->lo);
	const __u64 *base = process_word_at(p->first + p->n + 2 * p->lo + 1);

	if (!start || !end || !base || p->addr < *start || p->addr >= *end)
		return 0;
	p->start = *start;
	p->end = *end;
	p->base = *base;
	return 1;
}
