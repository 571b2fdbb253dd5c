/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Frames of a language runtime among the native ones, each where it belongs. A runtime chains the frames of its language, and leaves a mark
 * on the C stack where C code entered its interpreter: the frames since that entry, a run, lie leafward of the native frame whose part
 * of the stack holds the mark. So a run is read ahead until its mark is known, and handed out when the native walk comes there.
 *
 *	interp_begin(w, in);            // in->process, in->layout and in->tp are set; sets w->has_interp
 *	…                               // for each native frame, behind its step (hook unwind_interp):
 *	if (interp_is_here(w, in))
 *		while (!interp_turn(w, in, words))
 *			;               // at most INTERP_MAX_TURNS
 *	…                               // behind the last turn of the walk:
 *	interp_begin_rest(w, in);
 *	while (!interp_turn(w, in, words))
 *		;
 *	interp_end(w, in);
 *
 * Frames that are native ones (WALK_HAS_FRAMES, bpf/interp/v8.h and hotspot.h) need none of that.
 * A stack is whole when both chains reached their ends, and each mark lay in a native frame on the way. What is left goes to the root's end.
 */
#pragma once
#include "bpf/interp/hotspot.h"
#include "bpf/interp/python.h"
#include "bpf/interp/ruby.h"
#include "bpf/interp/v8.h"

/* One step along the chain, by the runtime: in->at → next, word, entry. 0, or enum abi_cut. */
UNWIND_FN int interp_step(struct walk *w, struct interp *in)
{
	switch (in->layout.kind) {
	case INTERP_PYTHON_EVALS:
	case INTERP_PYTHON_CFRAMES:
	case INTERP_PYTHON_SHIMS: return interp_python(w, in);
	case INTERP_RUBY: return interp_ruby(w, in);
	default: return ABI_CUT_INTERP_LOST;
	}
}

/* glibc's thread-local blocks: the thread has an array of {block, to be freed}, whose size lies before it. */
#define INTERP_DTV_AT (UNWIND_ARM64 ? 0 : 8)
#define INTERP_DTV_NOT_MADE (~0ULL)

/* Where the word lies that leads to the runtime's state of this thread; 0: the thread has no such block. Negative: it cannot be read. */
UNWIND_FN int interp_state_at(struct walk *w, struct interp *in, __u32 i, __u64 *ret)
{
	__u32 by = in->process.states[i].by, module = in->process.states[i].module;
	__u64 *pair = in->scratch, dtv;

	*ret = 0;
	if (by == INTERP_BY_TP)
		*ret = in->tp + (__u64)in->process.states[i].off;
	if (by == INTERP_BY_ADDRESS)
		*ret = (__u64)in->process.states[i].off;
	if (by != INTERP_BY_DTV)
		return 0;
	if (unwind_read_user(w, pair, sizeof(pair[0]), in->tp + INTERP_DTV_AT))
		return -1;
	dtv = pair[0];
	if (unwind_read_user(w, pair, sizeof(pair[0]), dtv - sizeof(in->scratch)))
		return -1;
	if (module > pair[0])
		return 0;
	if (unwind_read_user(w, pair, sizeof(pair[0]), dtv + module * sizeof(in->scratch)))
		return -1;
	if (pair[0] && pair[0] != INTERP_DTV_NOT_MADE)
		*ret = pair[0] + (__u64)in->process.states[i].off;
	return 0;
}

/* The runtime's state of this thread into in->thread, 0: none. Negative: it cannot be read. */
UNWIND_FN int interp_state(struct walk *w, struct interp *in)
{
	__u64 at;
	int r = 0;

	in->thread = 0;
	for (__u32 i = 0; i < INTERP_N_STATES && !in->thread; i++) {
		if (interp_state_at(w, in, i, &at) < 0)
			r = -1;
		else if (at && unwind_read_user(w, &in->thread, sizeof(in->thread), at))
			r = -1;
	}
	return in->thread ? 0 : r;
}

/* What ends the language's part before its end: enum abi_cut. Verified once, by itself. */
UNWIND_ALONE int interp_fail(struct interp *in, __u32 why)
{
	if (!in)
		return 1;
	/* What was read of this run is not where the chain says that it is. */
	if (why == ABI_CUT_INTERP_MISMATCH)
		in->n = in->again = 0;
	if (in->state != INTERP_AHEAD)
		in->again = 0;
	if (!in->cut)
		in->cut = why;
	in->ahead = 0;
	in->state = INTERP_DONE;
	return 1;
}

/* A thread that the runtime does not know has no frames of its language. Verified once, by itself. */
UNWIND_ALONE int interp_begin(struct walk *w, struct interp *in)
{
	int r;

	if (!w || !in)
		return 0;
	in->generation = in->first = in->last = in->ahead = in->again = in->chain = in->mark = 0;
	in->n = in->n_out = in->n_ahead = in->n_again = in->n_frames = 0;
	in->cut = ABI_CUT_NONE;
	in->low = in->high = w->regs[UNWIND_SP];
	in->n_told = in->n_untold = in->is_lost = in->is_met = 0;
	in->state = INTERP_AHEAD;
	w->has_interp = in->layout.kind >= INTERP_V8 ? WALK_HAS_FRAMES : WALK_HAS_RUNS;
	if (w->has_interp == WALK_HAS_FRAMES)
		return 0;
	r = interp_state(w, in);
	if (r < 0)
		interp_fail(in, ABI_CUT_INTERP_LOST);
	else if (!in->thread)
		w->has_interp = WALK_HAS_NONE;
	else if ((r = in->layout.kind == INTERP_RUBY ? interp_ruby_begin(w, in)
						     : interp_python_begin(w, in)) != ABI_CUT_NONE)
		interp_fail(in, (__u32)r);
	return 0;
}

/* Is this native frame one of the function that interprets? */
UNWIND_FN bool interp_is_eval(const struct walk *w, const struct interp *in)
{
	return (in->layout.kind == INTERP_PYTHON_EVALS || in->layout.kind == INTERP_RUBY) &&
	       w->place == UNWIND_IN_FILE && w->binary == in->process.eval_binary &&
	       w->off - in->process.eval_off < in->process.eval_bytes;
}

/* The run that was read ahead belongs to the native frame that is left: now it is handed out. */
UNWIND_FN bool interp_is_due(struct interp *in)
{
	bool is_due = in->is_eval || (in->mark >= in->low && in->mark < in->high);

	in->is_eval = 0;
	if (is_due)
		in->state = INTERP_FLUSH;
	return is_due;
}

/* Behind the step over a native frame: is there something to do with the language's before it is recorded? */
UNWIND_FN bool interp_is_here(struct walk *w, struct interp *in)
{
	in->is_eval = interp_is_eval(w, in);
	in->low = in->high;
	if (w->result == UNWIND_MORE && WALK_KNOWS(w, UNWIND_SP)) {
		in->high = w->regs[UNWIND_SP];
		/* Between a handler and the code that its signal interrupted there is no frame, nor between two stacks. */
		if (w->method == UNWIND_BY_SIGNAL || in->high - in->low > UNWIND_MAX_FRAME_BYTES)
			in->low = in->high;
	}
	if (in->state == INTERP_DONE && in->is_eval && !in->cut)
		in->cut = ABI_CUT_INTERP_MISMATCH; /* it has no frame of the language */
	return in->state == INTERP_AHEAD || (in->state == INTERP_WAIT && interp_is_due(in));
}

/* The frame that the step found, read for the first time. 1: there is nothing to do until a native frame is left. */
UNWIND_FN int interp_keep(struct interp *in)
{
	in->ahead = in->next;
	if (in->word && in->n < INTERP_BUFFER)
		in->buffer[in->n++ & (INTERP_BUFFER - 1)] = in->word;
	else if (in->word && !in->again)
		in->again = in->at;
	in->word = 0;
	if (!in->entry)
		return 0;
	if (in->entry == INTERP_RUBY_NO_ENTRY) {
		in->state = INTERP_DONE;
		if (in->is_eval && !in->cut)
			in->cut = ABI_CUT_INTERP_MISMATCH;
		return 1;
	}
	in->mark = in->entry;
	in->state = INTERP_WAIT;
	return !interp_is_due(in);
}

/* Reads one frame: in->word is to be handed out, if it is one. 1: there is nothing to do until a native frame is left. */
UNWIND_FN int interp_read(struct walk *w, struct interp *in)
{
	int cut;

	in->word = 0;
	if (in->state == INTERP_FLUSH && !in->again) {
		in->n = in->n_out = 0;
		in->state = INTERP_AHEAD;
	}
	in->is_again = in->again && in->state != INTERP_AHEAD;
	in->at = in->is_again ? in->again : in->ahead;
	if (!in->at) {
		/* Nobody entered it, or the native frame has none. */
		if (in->state == INTERP_AHEAD && (in->n || in->is_eval))
			return interp_fail(in, ABI_CUT_INTERP_MISMATCH);
		in->state = INTERP_DONE;
		return 1;
	}
	if (in->state == INTERP_AHEAD ? in->n_ahead++ >= INTERP_MAX_FRAMES
				      : in->n_again++ >= INTERP_MAX_FRAMES)
		return interp_fail(in, ABI_CUT_DEPTH);
	cut = interp_step(w, in);
	if (cut != ABI_CUT_NONE)
		return interp_fail(in, (__u32)cut);
	if (in->state == INTERP_AHEAD)
		return interp_keep(in);
	if (in->is_again)
		in->again = in->entry ? 0 : in->next;
	else
		in->ahead = in->next;
	return 0;
}

/* One turn: reads one frame of the language, or hands one out. 1: there is nothing to do until the walk has left a native frame. */
UNWIND_FN int interp_turn(struct walk *w, struct interp *in, __u64 *words)
{
	if (in->state != INTERP_AHEAD && in->n_out < in->n)
		in->word = in->buffer[in->n_out++ & (INTERP_BUFFER - 1)];
	else if (interp_read(w, in))
		return 1;
	if (in->word) {
		frames_add(&w->frames, words, in->word);
		in->n_frames++;
	}
	return 0;
}

/* The native frames are at their end. */
UNWIND_FN void interp_begin_rest(const struct walk *w, struct interp *in)
{
	bool is_left = in->ahead || in->state == INTERP_WAIT;

	if (is_left && w->cut == ABI_CUT_NONE && !in->cut)
		in->cut = ABI_CUT_INTERP_MISMATCH;
	in->state = INTERP_REST;
}

UNWIND_FN void interp_end(struct walk *w, const struct interp *in)
{
	if (w->cut == ABI_CUT_NONE)
		w->cut = in->cut;
}
