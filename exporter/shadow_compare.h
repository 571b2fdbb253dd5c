/* SPDX-License-Identifier: Apache-2.0
 *
 * Two walks of one stack, frame by frame. Pure.
 */
#pragma once
#include "exporter/parser/walk.h"

enum shadow_result {
	SHADOW_MATCH,	 /* the same return addresses up to where elfutils or the copy stops */
	SHADOW_MISMATCH, /* other ones */
	SHADOW_UNKNOWN,	 /* elfutils found no caller: files missing, no rows, an empty copy */
	SHADOW_CUT, /* the same as far as our stack goes, which says of itself that it was cut */
	SHADOW_N_RESULTS,
};

enum shadow_end {
	SHADOW_ENDS_AT_ROOT,
	SHADOW_ENDS_CUT,
	SHADOW_ENDS_OPEN, /* not known further: elided frames, or what elfutils could not walk */
};

/* A stack, leaf first: native, JIT or raw words as a record has them. */
struct shadow_chain {
	uint32_t n;
	enum shadow_end end;
	uint64_t words[PARSER_WALK_MAX_FRAMES];
};

/* The user words of a record, with repeats written out, up to where frames are elided. */
void shadow_expand(const uint64_t *words, uint32_t n, struct shadow_chain *ret);
/* *ret_at: the first frame that differs, or how many are the same. The leaf is where both began. */
enum shadow_result shadow_judge(
	const struct shadow_chain *ours, const struct shadow_chain *theirs, uint32_t *ret_at);
