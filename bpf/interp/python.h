/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * CPython: from a thread to its innermost frame, and from a frame to its caller. Nothing that is read is trusted: a frame's code object must
 * be where one can be, and what marks an entry must agree with the chain.
 */
#pragma once
#include "bpf/interp/frame.h"

enum {
	INTERP_FRAME_OBJECT_BYTES = 128, /* up to 3.10, whose fields lie further on */
	INTERP_THREAD_STATE_BYTES = 512, /* of 3.10 and 3.11, rounded up */
	INTERP_PYTHON_SHIM = 3,		 /* owners of frames from here on stand for C code … */
	INTERP_PYTHON_OWNERS = 5,	 /* … and there are no more than these */
};

/* Two interpreters of a process have numbers of their own. */
UNWIND_FN __u64 interp_python_generation(struct walk *w, struct interp *in)
{
	const struct interp_layout *l = &in->layout;
	__u64 *pair = in->scratch;

	if (l->interp_generation == INTERP_NO_FIELD ||
		unwind_read_user(w, &pair[0], sizeof(pair[0]), in->thread + l->thread_interp) ||
		unwind_read_user(w, &pair[1], sizeof(pair[1]), pair[0] + l->interp_generation))
		return 0;
	return (pair[1] ^ pair[0] << 16) + 1;
}

/* Sets where the chain begins and ends, by the state of the thread. 0, or enum abi_cut. Verified once, by itself. */
UNWIND_ALONE int interp_python_begin(struct walk *w, struct interp *in)
{
	const struct interp_layout *l;
	__u32 from, n;

	if (!w || !in)
		return ABI_CUT_INTERP_LOST;
	l = &in->layout;
	from = l->thread_from;
	n = l->thread_bytes;
	UNWIND_FORGET(n);
	if (n > INTERP_THREAD_BYTES || unwind_read_user(w, in->bytes, n, in->thread + from))
		return ABI_CUT_INTERP_LOST;
	if (l->thread_id != INTERP_NO_FIELD && interp_field(in, l->thread_id - from) != in->tp)
		return ABI_CUT_INTERP_LOST;
	if (l->thread_base_frame != INTERP_NO_FIELD)
		in->last = interp_field(in, l->thread_base_frame - from);
	if (l->thread_cframe != INTERP_NO_FIELD)
		in->chain = interp_field(in, l->thread_cframe - from);
	if (l->thread_frame != INTERP_NO_FIELD)
		in->ahead = interp_field(in, l->thread_frame - from);
	else if (unwind_read_user(w, &in->ahead, sizeof(in->ahead), in->chain + l->cframe_frame))
		return ABI_CUT_INTERP_LOST;
	if (in->ahead == in->last)
		in->ahead = 0;
	in->generation = interp_python_generation(w, in);
	return ABI_CUT_NONE;
}

/* Where in its code a frame is, as a frame word has it. */
UNWIND_FN __u32 interp_python_position(const struct interp *in, __u64 code)
{
	const struct interp_layout *l = &in->layout;
	__u64 raw = interp_field(in, l->frame_position);
	__s64 at = l->position_bytes == 2 ? (__s64)(raw - code - l->code_start) : (__s32)raw;

	if (at < 0)
		return at >= -2 ? ABI_INTERP_AT_START : ABI_INTERP_BEYOND;
	if (l->position_bytes)
		at >>= 1;
	return at < ABI_INTERP_AT_START ? (__u32)at : ABI_INTERP_BEYOND;
}

/*
 * 3.10 and 3.11: the run ends with this frame, and its mark is the C structure at in->chain. The next structure leads to the next frame in 3.11;
 * the one behind the last frame lies in the thread's state. 0, or enum abi_cut.
 */
UNWIND_FN int interp_python_cframe(struct walk *w, struct interp *in)
{
	const struct interp_layout *l = &in->layout;

	in->entry = in->chain;
	if (in->is_again)
		return ABI_CUT_NONE;
	if (unwind_read_user(w, &in->chain, sizeof(in->chain), in->chain + l->cframe_back))
		return ABI_CUT_INTERP_LOST;
	if (!in->next)
		return in->chain - in->thread < INTERP_THREAD_STATE_BYTES ? ABI_CUT_NONE
									  : ABI_CUT_INTERP_MISMATCH;
	if (l->cframe_frame == INTERP_NO_FIELD)
		return ABI_CUT_NONE;
	if (unwind_read_user(w, in->scratch, sizeof(in->scratch[0]), in->chain + l->cframe_frame))
		return ABI_CUT_INTERP_LOST;
	return in->scratch[0] == in->next ? ABI_CUT_NONE : ABI_CUT_INTERP_MISMATCH;
}

/* Reads the frame at in->at, and sets next, word and entry. 0, or enum abi_cut. Verified once, by itself. */
UNWIND_ALONE int interp_python(struct walk *w, struct interp *in)
{
	const struct interp_layout *l;
	__u64 code, owner;
	__u32 kind;

	if (!w || !in)
		return ABI_CUT_INTERP_LOST;
	l = &in->layout;
	kind = l->kind;
	in->word = in->entry = 0;
	if (l->frame_position < INTERP_FRAME_BYTES
			? unwind_read_user(w, in->bytes, INTERP_FRAME_BYTES, in->at)
			: unwind_read_user(w, in->bytes, INTERP_FRAME_OBJECT_BYTES, in->at))
		return ABI_CUT_INTERP_LOST;
	in->next = interp_field(in, l->frame_back);
	if (in->next == in->last)
		in->next = 0;
	code = interp_field(in, l->frame_code);
	if (kind == INTERP_PYTHON_SHIMS) {
		owner = (__u8)interp_field(in, l->frame_owner);
		if (owner >= INTERP_PYTHON_OWNERS)
			return ABI_CUT_INTERP_LOST;
		if (owner >= INTERP_PYTHON_SHIM) {
			in->entry = in->at;
			return ABI_CUT_NONE;
		}
		if (l->tag_mask && (code & 3) == 3) /* a number, no object */
			return ABI_CUT_INTERP_LOST;
		code &= ~(__u64)l->tag_mask;
	}
	if (code & 7 || code < UNWIND_USER_MIN || code >> 44 >> ABI_INTERP_ADDRESS_SHIFT)
		return ABI_CUT_INTERP_LOST;
	in->word = ABI_INTERP(code >> ABI_INTERP_ADDRESS_SHIFT, interp_python_position(in, code));
	if (kind == INTERP_PYTHON_EVALS)
		in->entry = in->at; /* it leaves none: the native frame's code tells */
	else if (kind == INTERP_PYTHON_CFRAMES &&
		 (l->frame_is_entry == INTERP_NO_FIELD ||
			 (__u8)interp_field(in, l->frame_is_entry)))
		return interp_python_cframe(w, in);
	return ABI_CUT_NONE;
}
