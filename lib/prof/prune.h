/* SPDX-License-Identifier: Apache-2.0
 *
 * drop_frames and keep_frames of a profile, applied as google/pprof does (profile/prune.go, RemoveUninteresting).
 */
#pragma once
#include "lib/prof/profile.h"

/*
 * Of each stack, drops the outermost frame below its first other frame whose function matches drop_frames as a whole and not keep_frames,
 * and all that it called: heap profiles name their allocators so. Arguments in a function's name do not count. Changes stacks
 * and locations of `p` in place. Without drop_frames nothing is done. -EBADMSG: no regular expression; `p` is as it was. -ENOMEM.
 */
int prof_prune(struct profile *p, struct errbuf *eb) _must_check_;
