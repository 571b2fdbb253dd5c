/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * HotSpot: a frame of Java is a frame of native code, interpreted or compiled. All of that code lies in a few heaps, in blobs. Compiled code
 * keeps no frame pointer, but its blob says how large its frame is. Interpreted code has its frame pointer, with the method and the place in its
 * bytecode below. A frame of the interpreter becomes a word of the language. One of compiled code keeps its native word, and user space
 * hears of the address. What cannot be read stays the native frame that it is, and ends the stack.
 *
 *	if (interp_hotspot(w, in, place)) {      // of the frame that the walk has reached
 *		…                                // in->machine: compiled code that user space is to know of
 *		interp_hotspot_step(w, in);
 *	}
 *
 * What a leaf's registers and bytes say is taken only if the return address that it leads to is one of the heaps'.
 * x86-64 alone.
 */
#pragma once
#include "bpf/interp/hotspot_interpreter.h"
#include "bpf/interp/hotspot_stub.h"

/* The method of compiled code, and what tells the code from others of the method there; of a blob of another kind, any number. */
UNWIND_FN void interp_hotspot_check(struct walk *w, struct interp *in)
{
	__u32 off = in->hotspot.compile_id;

	in->scratch[0] = 0;
	if (off < INTERP_HOTSPOT_BLOB_BYTES)
		in->scratch[0] = interp_field(in, off);
	else if (unwind_read_user(w, in->scratch, sizeof(__u32), in->at + off))
		in->scratch[0] = 0;
	in->function = interp_field(in, in->hotspot.method) << INTERP_HOTSPOT_ID_BITS |
		       (__u16)in->scratch[0];
}

/* A frame that is to be taken apart has another return address than its own, which lies in the frame: the one that names it. */
UNWIND_FN void interp_hotspot_deopt(struct walk *w, struct interp *in)
{
	const struct interp_hotspot *h = &in->hotspot;

	if (interp_hotspot_address(in, h->deopt, h->deopt_is_offset) != w->pc)
		return;
	in->scratch[0] = 0;
	if (h->frame_pc < INTERP_HOTSPOT_BLOB_BYTES)
		in->scratch[0] = interp_field(in, h->frame_pc);
	else if (unwind_read_user(w, in->scratch, sizeof(__u32), in->at + h->frame_pc))
		return;
	if (unwind_read_stack(
		    w, in->scratch, 1, w->regs[UNWIND_SP] + (__u64)(__s64)(__s32)in->scratch[0]) ||
		!interp_hotspot_is_code(in, in->scratch[0]))
		return;
	in->machine = in->scratch[0];
	w->word = ABI_FRAME(ABI_FRAME_JIT, in->machine);
}

/* Where a leaf's frame is, by w->code: enum interp_hotspot_part. */
UNWIND_FN int interp_hotspot_leaf_part(struct walk *w, struct interp *in)
{
	const struct interp_hotspot *h = &in->hotspot;
	__s32 complete = interp_hotspot_number(in, h->frame_complete, h->frame_complete_bytes);
	__s64 off = (__s64)(w->pc - interp_hotspot_address(in, h->code, h->code_is_offset));
	/* Stubs that have a frame do not say when it is complete. */
	bool is_stub = complete <= 0 || complete >= INTERP_HOTSPOT_NEVER;

	if (off < (is_stub ? INTERP_HOTSPOT_MAX_PROLOGUE : complete))
		return interp_hotspot_begins(w, is_stub && off);
	return interp_hotspot_ends(w);
}

/* False: nothing says where its caller is. Verified once, by itself. */
UNWIND_ALONE int interp_hotspot_compiled(struct walk *w, struct interp *in)
{
	__s32 words, part;
	__u64 sp, at, fp_at;

	if (!w || !in || !in->at || !WALK_KNOWS(w, UNWIND_SP))
		return 0;
	if (unwind_read_user(w, in->bytes, INTERP_HOTSPOT_BLOB_BYTES, in->at)) {
		in->is_lost = 1;
		return 0;
	}
	if (w->exact && unwind_read_user(w, w->code, sizeof(w->code), w->pc))
		return 0;
	interp_hotspot_check(w, in);
	in->machine = w->pc + w->exact;
	words = interp_hotspot_number(in, in->hotspot.frame_size, 4);
	if (words <= 0)
		return interp_hotspot_stub(w, in);
	if (words > INTERP_HOTSPOT_MAX_WORDS)
		return 0;
	sp = w->regs[UNWIND_SP];
	at = sp + (__u64)words * sizeof(at) - sizeof(at);
	if (!w->exact) {
		interp_hotspot_deopt(w, in);
		if (interp_hotspot_found(w, in, at, at - sizeof(at)) &&
			interp_hotspot_is_code(in, in->caller_pc))
			return 1;
		if (!unwind_read_user(w, w->code, sizeof(w->code), w->pc))
			at += interp_hotspot_arguments(w->code[0], (__u32)words * sizeof(at));
		return interp_hotspot_found(w, in, at, at - sizeof(at));
	}
	part = interp_hotspot_leaf_part(w, in);
	fp_at = at - sizeof(at);
	if (part == INTERP_HOTSPOT_PUSHED || part == INTERP_HOTSPOT_BARE) {
		fp_at = part == INTERP_HOTSPOT_PUSHED ? sp : 0;
		at = fp_at ? sp + sizeof(sp) : sp;
	} else if (part == INTERP_HOTSPOT_NO_FP) {
		fp_at = 0;
	} else if (part == INTERP_HOTSPOT_LOWER) {
		fp_at = at;
		at += sizeof(at);
	}
	return interp_hotspot_found(w, in, at, fp_at) ||
	       (part == INTERP_HOTSPOT_WHOLE && interp_hotspot_between(w, in, at));
}

/* Is the frame that the walk has reached HotSpot's, and is its caller known? Verified once, by itself. */
UNWIND_ALONE int interp_hotspot(struct walk *w, struct interp *in, __u32 place)
{
	__u64 addr, fp_at;
	int found;

	if (!w || !in)
		return 0;
	addr = w->pc - !w->exact;
	if (place < UNWIND_IN_JIT || place > UNWIND_IN_JIT_FP || !interp_hotspot_is_code(in, addr))
		return 0;
	w->word = in->machine = in->function = in->caller_pc = 0;
	in->is_entry = 0;
	fp_at = w->fp_at;
	if (addr - in->hotspot.interpreter < in->hotspot.interpreter_bytes) {
		found = interp_hotspot_interpreted(w, in);
	} else {
		interp_hotspot_blob(w, in, addr);
		found = interp_hotspot_compiled(w, in);
	}
	if (found)
		return 1;
	/* As it was: the native step says why there is no caller. */
	w->word = 0;
	if (w->fp_at != fp_at && w->cut == ABI_CUT_READ_FAULT)
		w->fp_at = fp_at;
	w->cut = ABI_CUT_NONE;
	return 0;
}

/* To its caller: w->result. Verified once, by itself. */
UNWIND_ALONE int interp_hotspot_step(struct walk *w, struct interp *in)
{
	if (!w || !in)
		return 0;
	in->is_met = 1;
	w->fp_cut = ABI_CUT_NONE;
	w->rule.cfa = UNWIND_CFA_REG;
	/* Its caller's return address needs no proof. */
	w->place = UNWIND_IN_FILE;
	w->known &= 1U << UNWIND_FP;
	w->known |= 1U << UNWIND_SP;
	if (in->is_entry) {
		w->bx_at = w->regs[UNWIND_FP] - INTERP_HOTSPOT_BX;
		w->known |= 1U << UNWIND_BX;
	}
	if (in->caller_fp_at) {
		w->fp_at = in->caller_fp_at;
		w->known |= 1U << UNWIND_FP;
	}
	w->exact = 0;
	w->result = walk_arrive(w, in->caller_pc, in->caller_sp, UNWIND_BY_CFI);
	if (w->result == UNWIND_ROOT)
		w->result = walk_cut(w, ABI_CUT_BAD_PC);
	in->n_frames += w->word != 0;
	return 0;
}
