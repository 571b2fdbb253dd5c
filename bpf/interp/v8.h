/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * V8: a frame of JavaScript is a frame of native code, which says in its slots whose it is. V8's own code, the interpreter and the built-in
 * functions, lies in the program's file; what V8 compiles lies in memory without a file. Both keep a frame pointer but in their first and
 * last instructions, and some built-in functions have no frame at all. A frame of the interpreter becomes a word of the language. One of
 * machine code keeps its native word, and user space hears whose function it is. Whatever cannot be read, or is none of a function, stays
 * the native frame that it is.
 *
 *	found = interp_v8(w, in, place);         // of the frame that the walk has reached
 *	if (found == INTERP_V8_LOOK)
 *		while (… && !interp_v8_look(w, in, i++))
 *			;                        // at most INTERP_V8_LOOKS turns
 *	if (found)
 *		interp_v8_step(w, in);           // to its caller; w->word, in->machine
 *
 * x86-64 alone: first and last instructions are told by their bytes.
 */
#pragma once
#include "bpf/interp/v8_code.h"
#include "bpf/interp/v8_function.h"

enum {
	/* Below the frame pointer. Above the function lies a context, which is odd; or the kind of a frame without one, which is even. */
	INTERP_V8_FUNCTION = 16,
	INTERP_V8_BX = 56, /* C++'s, where it entered JavaScript */
	/* Kinds, as they lie there. */
	INTERP_V8_ENTRY = 1 << 1,
	INTERP_V8_CONSTRUCT_ENTRY = 2 << 1,
	INTERP_V8_RDI = 5,    /* the function that is called */
	INTERP_V8_LOOKS = 33, /* at words above sp, for a caller, and at the frame's end */
};

/* What the walk does with a frame. */
enum interp_v8_found {
	INTERP_V8_NONE, /* it is none of V8's, or its frame pointer is none */
	INTERP_V8_STEP, /* w->rule leads to its caller */
	INTERP_V8_LOOK, /* so it does, unless interp_v8_look finds a nearer one */
};

/*
 * Where a frame of the interpreter is in the bytecode of in->function, of which `code` is the word that leads to it. Other code may have the
 * frame: what optimised functions call without a frame, and what takes them apart. So bytecode must be in the interpreter's slot.
 */
UNWIND_FN __u32 interp_v8_position(struct walk *w, struct interp *in, __u64 fp, __u64 code)
{
	const struct interp_layout *l = &in->layout;
	__u64 *pair = in->scratch, bytecode;
	__u32 position;

	if (unwind_read_stack(w, &pair[0], 1, fp - l->frame_code))
		return ABI_INTERP_BEYOND;
	bytecode = pair[0];
	/* The function may have other code beside it, which leads to it. */
	if (bytecode != code && ((bytecode & INTERP_V8_TAG_MASK) != INTERP_V8_TAG ||
					!interp_v8_is(w, in, bytecode - INTERP_V8_TAG,
						l->frame_owner, l->frame_owner)))
		return ABI_INTERP_BEYOND;
	/* A number, from the array's address as words have it. */
	if (unwind_read_stack(w, &pair[0], 1, fp - l->frame_position) || (__u32)pair[0])
		return ABI_INTERP_BEYOND;
	position = (__u32)(pair[0] >> 32) - (l->code_start - INTERP_V8_TAG);
	return position < ABI_INTERP_AT_START ? position : ABI_INTERP_BEYOND;
}

/* The word of a frame of built-in code that has in->function: enum interp_v8_found. */
UNWIND_FN int interp_v8_word(struct walk *w, struct interp *in, __u64 fp, bool is_begun)
{
	__u32 position = ABI_INTERP_BEYOND;
	bool has_bytecode;

	if (unwind_read_user(
		    w, in->scratch, sizeof(in->scratch[0]), in->function + in->layout.code_name)) {
		in->is_lost = 1;
		return INTERP_V8_STEP;
	}
	/* A built-in function has a number there, and a frame of its own, whose slots hold what was there before. */
	has_bytecode = in->scratch[0] & 1;
	if (has_bytecode)
		position = is_begun ? interp_v8_position(w, in, fp, in->scratch[0])
				    : ABI_INTERP_AT_START;
	w->word = in->word = ABI_INTERP(in->function >> ABI_INTERP_ADDRESS_SHIFT, position);
	if (!has_bytecode || !w->exact)
		return INTERP_V8_STEP;
	w->word |= ABI_INTERP_BEYOND; /* until all of its frame was looked through */
	return INTERP_V8_LOOK;
}

/* Code with its frame, at w->regs[UNWIND_FP]: enum interp_v8_found. */
UNWIND_FN int interp_v8_frame(struct walk *w, struct interp *in, bool is_builtin)
{
	__u64 fp, fp_at = w->fp_at, above, kind;

	if (!WALK_KNOWS(w, UNWIND_SP))
		return INTERP_V8_NONE;
	if (walk_need(w, UNWIND_FP) != UNWIND_MORE) {
		/* As it was: the native step says why there is no caller. */
		w->fp_at = fp_at;
		w->cut = ABI_CUT_NONE;
		return INTERP_V8_NONE;
	}
	fp = w->regs[UNWIND_FP];
	above = fp - w->regs[UNWIND_SP];
	if (fp & 7 || fp >= UNWIND_USER_MAX || above > UNWIND_MAX_FRAME_BYTES)
		return INTERP_V8_NONE;
	if (w->exact && above < INTERP_V8_FUNCTION) {
		/* Its slots are not written yet, or given back: pop %rbp. */
		if (!is_builtin && (__u8)w->code[0] == 0x5d)
			in->machine = w->pc + 1;
		else if (!is_builtin)
			interp_v8_function(w, in, w->regs[INTERP_V8_RDI], 0);
		walk_set_rule(w, UNWIND_CFA_FP, 0);
		return INTERP_V8_STEP;
	}
	/* The lowest slot first: the window on the stack has the others then. */
	if (is_builtin && unwind_read_stack(w, in->scratch, 1, fp - in->layout.frame_position))
		return INTERP_V8_NONE;
	if (unwind_read_stack(w, in->scratch, 2, fp - INTERP_V8_FUNCTION))
		return INTERP_V8_NONE;
	walk_set_rule(w, UNWIND_CFA_FP, 0);
	kind = in->scratch[1];
	if (!(kind & 1)) {
		in->is_entry = is_builtin && (!w->exact || above >= INTERP_V8_BX) &&
			       (kind == INTERP_V8_ENTRY || kind == INTERP_V8_CONSTRUCT_ENTRY);
		return INTERP_V8_STEP;
	}
	/* A caller's frame of a built-in function has one; a leaf may have another's frame, and memory without a file other runtimes' code. */
	if (!interp_v8_function(w, in, in->scratch[0], is_builtin && !w->exact) || !is_builtin)
		return INTERP_V8_STEP;
	return interp_v8_word(w, in, fp, !w->exact || above >= in->layout.frame_position);
}

/* enum interp_v8_found, for the frame that the walk has reached. Verified once, by itself. */
UNWIND_ALONE int interp_v8(struct walk *w, struct interp *in, __u32 place)
{
	enum interp_v8_part part = INTERP_V8_WITHIN;
	bool is_builtin, is_sure = false;
	int found;

	if (!w || !in)
		return INTERP_V8_NONE;
	is_builtin = place == UNWIND_IN_FILE && w->binary == in->process.eval_binary &&
		     w->off - in->process.eval_off < in->process.eval_bytes;
	if (!is_builtin && place != UNWIND_IN_JIT && place != UNWIND_IN_JIT_FP)
		return INTERP_V8_NONE;
	w->word = in->machine = in->function = 0;
	in->is_entry = 0;
	w->fp_cut = ABI_CUT_FP_INSANE;
	if (w->exact)
		part = interp_v8_part(w, is_builtin);
	if (part == INTERP_V8_WITHIN) {
		found = interp_v8_frame(w, in, is_builtin);
		if (found == INTERP_V8_NONE)
			return found;
		/* Its caller's return address needs no proof. */
		is_sure = is_builtin || in->function;
	} else {
		found = INTERP_V8_STEP;
		if (!is_builtin && part == INTERP_V8_BEGINS)
			interp_v8_function(w, in, w->regs[INTERP_V8_RDI], 0);
	}
	w->place = is_sure ? UNWIND_IN_FILE : is_builtin ? UNWIND_IN_JIT : place;
	/* Of code that has given back its frame only its bytes say that it is a function's. */
	if (!is_builtin && (in->function || part == INTERP_V8_ENDS))
		in->machine = w->pc + w->exact;
	return found;
}

/*
 * A built-in function without a frame was called by machine code, whose frame the frame pointer is, or is part of the interpreter: is
 * the word i above sp a return address in machine code? 1: it is, or there is none. Only a frame that was looked through to its end is
 * the interpreter's for certain, with the position that it has: w->word.
 */
UNWIND_FN int interp_v8_look(struct walk *w, struct interp *in, __u32 i)
{
	__u32 place;
	__u64 at, word;

	at = w->regs[UNWIND_SP] + i * sizeof(word);
	if (at >= w->regs[UNWIND_FP]) {
		w->word = in->word;
		return 1;
	}
	if (unwind_read_stack(w, in->scratch, 1, at))
		return 1;
	word = in->scratch[0];
	if (!(__u32)word || word < UNWIND_USER_MIN || word >= UNWIND_USER_MAX) /* a number */
		return 0;
	/* Where it lies is asked last: of an object's address too much would be, and it may be odd as a return address may. */
	if (unwind_read_user(w, w->code, sizeof(w->code[0]), word - sizeof(w->code[0])) ||
		!walk_ends_in_call(w->code[0]))
		return 0;
	place = unwind_locate(w, word - 1);
	if (place != UNWIND_IN_JIT && place != UNWIND_IN_JIT_FP)
		return 0;
	walk_set_rule(w, UNWIND_CFA_REG, (__s32)(i * sizeof(word)));
	w->rule.fp = UNWIND_SAME;
	w->word = in->function = 0;
	return 1;
}

/* To the caller, by w->rule: w->result. Verified once, by itself. */
UNWIND_ALONE int interp_v8_step(struct walk *w, struct interp *in)
{
	__u64 fp;

	if (!w || !in)
		return 0;
	fp = w->regs[UNWIND_FP];
	in->is_met = 1;
	w->result = unwind_apply(w);
	/* V8's code always has a caller. */
	if (w->result == UNWIND_ROOT)
		w->result = walk_cut(w, ABI_CUT_FP_INSANE);
	if (in->is_entry && w->result == UNWIND_MORE) {
		w->bx_at = fp - INTERP_V8_BX;
		w->known |= 1U << UNWIND_BX;
	}
	in->n_frames += w->word != 0;
	return 0;
}
