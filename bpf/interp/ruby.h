/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Ruby: control frames, which lie side by side in a stack of their own. A flag says that the interpreter's function was entered from C for a
 * frame: with it the run ends that the native frame of that function has. Nothing that is read is trusted.
 */
#pragma once
#include "bpf/interp/frame.h"

enum {
	INTERP_RUBY_FRAME_BYTES = 40, /* of a frame are read, up to where its environment lies … */
	INTERP_RUBY_ENV = 64,	      /* … and behind them {method, outer environment, flags} */
	INTERP_RUBY_ENV_BYTES = 24,
	INTERP_RUBY_METHOD = INTERP_RUBY_ENV,
	INTERP_RUBY_FLAGS = INTERP_RUBY_ENV + 16,
	INTERP_RUBY_KIND_SHIFT = 16,
	INTERP_RUBY_KIND_MASK = 0x7fff,
	INTERP_RUBY_C =
		0x5555, /* the frame is of a method in C: that is its object, the frame has no code */
	INTERP_RUBY_FINISH = 0x20,
	INTERP_RUBY_LOCAL = 0x2,	 /* the environment is none of a block … */
	INTERP_RUBY_BLOCK_METHOD = 0x40, /* … or of one that is a method */
	INTERP_RUBY_ENV_TAG = 3,
	/* Marks that are no place on a stack: the native frame's code tells; the run goes to the root's end. */
	INTERP_RUBY_ENTRY = 1,
	INTERP_RUBY_NO_ENTRY = 2,
	INTERP_RUBY_MAX_WORDS = 1 << 24, /* of a stack; 2^17 as it comes */
	INTERP_RUBY_WORD_BYTES = 8,
	INTERP_RUBY_MAX_LOOKS =
		2 * ABI_MAX_STEPS, /* for methods, a stack: at its frames, and around them */
};

/* Up to 2.7 the state is that of whichever thread runs: of this one? Negative: it cannot be read. */
UNWIND_FN int interp_ruby_is_ours(struct walk *w, struct interp *in)
{
	const struct interp_layout *l = &in->layout;
	__u64 *pair = in->scratch;

	if (l->thread_id == INTERP_NO_FIELD)
		return 1;
	if (unwind_read_user(w, &pair[0], sizeof(pair[0]), in->thread + l->thread_interp) ||
		unwind_read_user(w, &pair[1], sizeof(pair[1]), pair[0] + l->thread_id))
		return -1;
	return pair[1] == in->tp;
}

/* Sets where the frames begin and end, by the state of the thread. 0, or enum abi_cut. Verified once, by itself. */
UNWIND_ALONE int interp_ruby_begin(struct walk *w, struct interp *in)
{
	const struct interp_layout *l;
	__u64 stack, words, size;
	__u32 n;
	int r;

	if (!w || !in)
		return ABI_CUT_INTERP_LOST;
	l = &in->layout;
	n = l->thread_bytes;
	UNWIND_FORGET(n);
	if (n > INTERP_THREAD_BYTES ||
		unwind_read_user(w, in->bytes, n, in->thread + l->thread_from))
		return ABI_CUT_INTERP_LOST;
	r = interp_ruby_is_ours(w, in);
	if (r <= 0) {
		if (!r) /* another's frames say nothing of this stack */
			w->has_interp = WALK_HAS_NONE;
		return r < 0 ? ABI_CUT_INTERP_LOST : ABI_CUT_NONE;
	}
	stack = interp_field(in, l->thread_stack);
	words = interp_field(in, l->thread_stack_words);
	in->ahead = interp_field(in, l->thread_frame);
	if (!stack && !in->ahead) /* of a thread that begins or has ended */
		return ABI_CUT_NONE;
	size = l->frame_bytes;
	if (!size || words > INTERP_RUBY_MAX_WORDS)
		return ABI_CUT_INTERP_LOST;
	in->last = stack + words * INTERP_RUBY_WORD_BYTES - size; /* one that Ruby makes first */
	if (in->ahead < stack || in->ahead > in->last || (in->last - in->ahead) % size)
		return ABI_CUT_INTERP_LOST;
	if (in->ahead == in->last)
		in->ahead = 0;
	in->first = in->ahead;
	return ABI_CUT_NONE;
}

/* Reads the frame at in->at, and sets next, word and entry. 0, or enum abi_cut. Verified once, by itself. */
UNWIND_ALONE int interp_ruby(struct walk *w, struct interp *in)
{
	const struct interp_layout *l;
	__u64 env, flags, pc, object;
	__u32 position;

	if (!w || !in)
		return ABI_CUT_INTERP_LOST;
	l = &in->layout;
	in->word = in->entry = 0;
	in->next = in->at + l->frame_bytes;
	if (in->next == in->last)
		in->next = 0;
	if (unwind_read_user(w, in->bytes, INTERP_RUBY_FRAME_BYTES, in->at))
		return ABI_CUT_INTERP_LOST;
	env = interp_field(in, l->frame_env) & ~7ULL;
	if (unwind_read_user(w, in->bytes + INTERP_RUBY_ENV / sizeof(in->bytes[0]),
		    INTERP_RUBY_ENV_BYTES, env - (INTERP_RUBY_ENV_BYTES - sizeof(in->bytes[0]))))
		return ABI_CUT_INTERP_LOST;
	flags = interp_field(in, INTERP_RUBY_FLAGS);
	pc = interp_field(in, l->frame_position);
	object = interp_field(in, l->frame_code);
	position = (__u32)(pc / INTERP_RUBY_WORD_BYTES % ABI_INTERP_AT_START);
	/* A fiber may begin with a block in C, so that its outermost methods are in C alone. */
	if (flags & INTERP_RUBY_FINISH)
		in->entry = INTERP_RUBY_ENTRY;
	else if (!in->next)
		in->entry = INTERP_RUBY_NO_ENTRY;
	if ((flags >> INTERP_RUBY_KIND_SHIFT & INTERP_RUBY_KIND_MASK) == INTERP_RUBY_C) {
		object = interp_field(in, INTERP_RUBY_METHOD);
		position = ABI_INTERP_BEYOND;
	} else if (!pc || !object) { /* a block in C, or what a fiber begins with */
		return ABI_CUT_NONE;
	}
	if (object & 7 || object < UNWIND_USER_MIN || object >> 44 >> ABI_INTERP_ADDRESS_SHIFT)
		return ABI_CUT_INTERP_LOST;
	in->word = ABI_INTERP(object >> ABI_INTERP_ADDRESS_SHIFT, position);
	return ABI_CUT_NONE;
}

/*
 * Methods are looked for by turns, in the order of the stack's words: the frame of the object, from where the one before was found; then the
 * environments around its own.
 */
UNWIND_FN void interp_ruby_look_begin(struct interp *in)
{
	in->at = in->first;
	in->n_looked = 0;
}

UNWIND_FN void interp_ruby_look(struct interp *in)
{
	in->next = 0; /* the environment, once the frame is found */
}

/* Behind the last turn: was there no room for more? Then it is not known whether there is a method. */
UNWIND_FN bool interp_ruby_looked_all(const struct interp *in)
{
	return in->n_looked > INTERP_RUBY_MAX_LOOKS;
}

/* 1: that was the last turn. *ret is written when there is a method. */
UNWIND_FN int interp_ruby_look_turn(struct walk *w, struct interp *in, __u64 object, __u64 *ret)
{
	const struct interp_layout *l = &in->layout;

	if (in->n_looked++ >= INTERP_RUBY_MAX_LOOKS)
		return 1;
	if (!in->next) {
		if (!in->at || in->at >= in->last ||
			unwind_read_user(w, in->bytes, INTERP_RUBY_FRAME_BYTES, in->at))
			return 1;
		in->at += l->frame_bytes;
		if (interp_field(in, l->frame_code) == object)
			in->next = interp_field(in, l->frame_env) & ~7ULL;
		return 0;
	}
	if (unwind_read_user(w, in->bytes, INTERP_RUBY_ENV_BYTES,
		    in->next - (INTERP_RUBY_ENV_BYTES - sizeof(in->bytes[0]))))
		return 1;
	if (in->bytes[2] & (INTERP_RUBY_LOCAL | INTERP_RUBY_BLOCK_METHOD)) {
		*ret = in->bytes[0];
		return 1;
	}
	in->next = in->bytes[1] & ~(__u64)INTERP_RUBY_ENV_TAG;
	return !in->next;
}
