/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What the walker (bpf/unwind/walker.h) asks of its surroundings: nine functions that the file which compiles it defines, all of
 * them, static and behind its includes. They are declared here so that they can be read in one place; the compiler complains of one
 * that is missing. In the kernel half they read maps (bpf/core/user_frames.h), on the host plain memory (exporter/walk/deferred.c).
 *
 * `w` is the walk that asks. Who needs more than it holds embeds it in a struct of its own and goes from the one to the other.
 */
#pragma once
#include "bpf/unwind/frames.h"
#include "bpf/unwind/tables.h"

struct walk;
struct unwind_near;

/* What an address lies in. */
enum unwind_place {
	UNWIND_IN_FILE,	     /* executable mapping of a file, or the vdso: w->binary, w->off */
	UNWIND_IN_JIT,	     /* executable memory without a file */
	UNWIND_IN_JIT_NO_FP, /* the same, by a compiler that uses the frame pointer for other things */
	UNWIND_IN_JIT_FP, /* the same, by one that keeps frame pointers because it was started so */
	UNWIND_IN_JIT_CHAIN, /* the same, by one that always does: 0 is where a stack ends (BEAM) */
	UNWIND_IN_DATA,	     /* mappings are known and this is no code */
	UNWIND_SOMEWHERE,    /* the mappings are not known yet */
	UNWIND_NEVER_KNOWN,  /* mappings are never known here (captures): frame pointers only */
};

/* The program that is walked: its memory and its mappings. */

/* Reads memory at `from` in the program: 0, or negative when it is not there. `bytes` is at most a window (bpf/unwind/walk.h). */
UNWIND_FN int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from);
/* What an address lies in; for UNWIND_IN_FILE it sets w->binary and w->off, the offset in the file. */
UNWIND_FN enum unwind_place unwind_locate(struct walk *w, __u64 addr);

/* The unwind tables (bpf/unwind/tables.h). Each gives a pointer, or NULL when there is no such thing. */

UNWIND_FN struct unwind_binary *unwind_binary_at(struct walk *w, __u32 binary);
/* UNWIND_SLAB_WORDS words. */
UNWIND_FN const __u32 *unwind_slab_at(struct walk *w, __u32 slab);
UNWIND_FN const struct unwind_rule *unwind_rule_at(struct walk *w, __u32 rule);

/* What makes the next walk faster. NULL: this walker does without. */

/* The cache of answers, one for all CPUs (bpf/unwind/cache.h). */
UNWIND_FN struct unwind_answer *unwind_cache_at(struct walk *w, __u32 i);
/* What the last walks on this CPU found (bpf/unwind/near.h); nobody else uses it during the walk. */
UNWIND_FN struct unwind_near *unwind_near_at(struct walk *w);

/*
 * Frames of a language runtime (bpf/interp), which only a walk with w->has_interp of WALK_HAS_RUNS may have. The walk has made its step from a native frame
 * that is not recorded yet (w->result); what lies leafward of it goes to `words` now. Returns how far the native frame's word is to be raised:
 * by one if it is an exact leaf (w->is_exact_leaf) and is the first word no more.
 */
UNWIND_FN int unwind_interp(struct walk *w, __u64 *words);
/*
 * The same where frames of the language are native frames, w->has_interp is WALK_HAS_FRAMES (else 0). Is the located frame, which the walk has not left yet, of the
 * runtime? Then it has been left: w->result is as of any step, and w->word is the frame's word, 0: the native one.
 */
UNWIND_FN int unwind_own_step(struct walk *w, enum unwind_place place);
