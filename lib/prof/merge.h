/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds profiles up, one at a time: memory is that of the result and of the one profile in hand. What is equal and how
 * headers combine is google/pprof's rule (profile/merge.go):
 *  - sample types and period type must be equal in all;
 *  - samples of equal stack and labels are summed; samples of only zeros vanish, with what only they used;
 *  - mappings are equal when their sizes (rounded to pages), file offsets and build ids (file names where there is none) are:
 *    address randomisation falls away, locations move to the first one's addresses;
 *  - time is the earliest, duration the sum, period the largest, drop_frames and keep_frames are the first profile's,
 *    default_sample_type and doc_url the first that is set, comments all different ones;
 *  - the first mapping of the first profile that has one stays first (pprof takes it for the main binary).
 * Rows are in the order of first use, so equal inputs in equal order give equal bytes.
 */
#pragma once
#include "lib/prof/profile.h"

struct prof_merge;

/* The sum is charged to `budget` (NULL: none); beside it there are 4 bytes for each row of the profile in hand. */
struct prof_merge *prof_merge_new(struct budget *budget);
void prof_merge_freep(struct prof_merge **m);
#define _cleanup_prof_merge_ _cleanup_(prof_merge_freep)

/*
 * The values of these labels become the outermost frames, the first key outermost, as `go tool pprof -tagroot` does.
 * A number is shown as key=number. Before the first add; the texts must outlive the merge.
 */
void prof_merge_root_labels(struct prof_merge *m, const char *const *keys, size_t n);

/*
 * Adds a profile; nothing of it is kept. `name` is for error texts (a file name); the first one is copied. -EINVAL
 * when it does not fit the first one, -ENOMEM; after an error only freep.
 */
int prof_merge_add(struct prof_merge *m, const struct profile *p, const char *name,
	struct errbuf *eb) _must_check_;

/* The sum into `ret`, which must not be initialised and then is the caller's. -EINVAL when nothing was added; -ENOMEM.
 * Afterwards only freep. */
int prof_merge_finish(struct prof_merge *m, struct profile *ret, struct errbuf *eb) _must_check_;
