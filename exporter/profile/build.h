/* SPDX-License-Identifier: Apache-2.0
 *
 * From a snapshot to a profile: names, mappings, pseudo frames, labels.
 */
#pragma once
#include "exporter/event/event.h"
#include "exporter/profile/fold.h"
#include "exporter/profile/snapshot.h"
#include "exporter/symbolize/symbolize.h"
#include "lib/prof/labels.h"
#include "lib/prof/profile.h"

struct profile_build_options {
	const struct event_source *type;
	const struct labels *constants; /* node and external labels: on every sample */
	struct symbolizer *symbolizer;
	struct binary_registry *binaries; /* NULL: labels are what the snapshot has */
	enum symbolize_mode mode;
	enum fold_frames fold; /* needs names: nothing is folded without */
	int64_t deadline_ns;   /* monotonic: how long to wait for symbol files under way */
	uint64_t period;       /* when the snapshot has no samples */
	const char *comment;   /* of the profile; NULL: none */
};

/*
 * Fills `ret` (profile_init'ed by the caller). Mapping 0 is the executable with the most weight, so that reports are
 * headed by it; a cut stack has "[truncated: reason]" as its root and the label stack="truncated:reason". Works in `arena`.
 * Uses up the snapshot. Needs no lock. -ENOMEM.
 */
int profile_build(struct profile_snapshot *s, const struct profile_build_options *o,
	struct arena *arena, struct profile *ret, struct errbuf *eb) _must_check_;

/* "complete", or "truncated:read_fault": the value of the label `stack`. */
void profile_stack_label(uint32_t cut, char ret[48]);
