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

/* Why elfutils found no caller. */
enum shadow_unknown {
	SHADOW_NO_ANSWER,   /* the parser's child failed or took too long */
	SHADOW_UNMAPPED,    /* where the code's file was mapped is not known any more */
	SHADOW_JIT,	    /* the code lies in no file */
	SHADOW_NO_FILE,	    /* there is no way to the code's file any more */
	SHADOW_NO_ROWS,	    /* the file has none that cover the code */
	SHADOW_COPY,	    /* the stack could not be copied as far */
	SHADOW_OTHER_STACK, /* Go's runtime is about to go on on another stack */
	SHADOW_ASTRAY,	    /* what it took for the return address leads to no code */
	SHADOW_FAILED,	    /* it gave up */
	SHADOW_N_UNKNOWNS,
};

enum shadow_end {
	SHADOW_ENDS_AT_ROOT,
	SHADOW_ENDS_CUT,
	SHADOW_ENDS_OPEN, /* not known further: elided frames, or what elfutils could not walk */
};

/* A stack, leaf first: native, JIT or raw words as a record has them. */
struct shadow_chain {
	uint32_t n,
		n_by_rows; /* the latter: of elfutils', those before the first that was found by frame pointer */
	enum shadow_end end;
	uint64_t words[PARSER_WALK_MAX_FRAMES];
};

/* The user words of a record, with repeats written out, up to where frames are elided. */
void shadow_expand(const uint64_t *words, uint32_t n, struct shadow_chain *ret);
/* *ret_at: the first frame that differs, or how many are the same. The leaf is where both began. */
enum shadow_result shadow_judge(
	const struct shadow_chain *ours, struct shadow_chain *theirs, uint32_t *ret_at);
