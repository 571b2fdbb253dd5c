/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Mappings that the last walks on a CPU found, a few for each of a few processes. A search in a run (bpf/process/search.h) reads
 * lines all over it, and those are cold: other programs have taken them out of the CPU's caches since the last tick. Compiled for
 * BPF and for the host.
 *
 * Invariant: a kept mapping belongs to the publication that the head names (run and serial number), so it holds while that does not
 * change; the time is for serial numbers that came round.
 */
#pragma once
#include "bpf/process/heads.h"

#define PROCESS_RECENT 6
/* Of so many processes a CPU keeps them, those of an image always in the same place. */
#define PROCESS_RECENT_IMAGES 8
#define PROCESS_RECENT_OF(image) ((__u32)((image) >> 61))
_Static_assert(PROCESS_RECENT_IMAGES == 1 << (64 - 61), "what an image is cut to");

struct process_recent {
	__u64 image, run;
	__u64 at_ns; /* of the last walk */
	__u32 flags; /* of the head */
	__u32 next;  /* place to be overwritten; PROCESS_RECENT: 0 */
	struct {
		__u64 start, end, base;
	} places[PROCESS_RECENT];
};

/* A walk in that run of that head begins. */
PROCESS_FN void process_recent_begin(
	struct process_recent *r, __u64 image, __u64 run, __u32 flags, __u64 now_ns)
{
	_Static_assert(PROCESS_RECENT == 6, "written out");
	if (r->run != run || r->image != image || r->flags != flags ||
		now_ns - r->at_ns >= PROCESS_GRACE_NS) {
		r->image = image;
		r->run = run;
		r->flags = flags;
		r->next = 0;
		r->places[0].end = r->places[1].end = r->places[2].end = 0;
		r->places[3].end = r->places[4].end = r->places[5].end = 0;
	}
	r->at_ns = now_ns;
}

#define PROCESS_RECENT_HAS(r, i, addr) \
	((addr) >= (r)->places[i].start && (addr) < (r)->places[i].end)

/* Makes p the kept mapping that holds p->addr; 0: none does. */
PROCESS_FN int process_recall(const struct process_recent *r, struct process_place *p)
{
	__u64 addr = p->addr;
	__u32 i = PROCESS_RECENT_HAS(r, 0, addr)   ? 0
		  : PROCESS_RECENT_HAS(r, 1, addr) ? 1
		  : PROCESS_RECENT_HAS(r, 2, addr) ? 2
		  : PROCESS_RECENT_HAS(r, 3, addr) ? 3
		  : PROCESS_RECENT_HAS(r, 4, addr) ? 4
		  : PROCESS_RECENT_HAS(r, 5, addr) ? 5
						   : PROCESS_RECENT;

	if (i >= PROCESS_RECENT)
		return 0;
	p->start = r->places[i].start;
	p->end = r->places[i].end;
	p->base = r->places[i].base;
	return 1;
}

/* Keeps the mapping that the search found. */
PROCESS_FN void process_remember(struct process_recent *r, const struct process_place *p)
{
	__u32 i = r->next < PROCESS_RECENT ? r->next : 0;

	r->next = i + 1;
	r->places[i].start = p->start;
	r->places[i].end = p->end;
	r->places[i].base = p->base;
}
