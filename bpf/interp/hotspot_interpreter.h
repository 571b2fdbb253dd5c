/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Frames of HotSpot's interpreter: the method and the place in its bytecode lie below the frame pointer. A method that is being entered or left
 * has no frame of its own, and its caller's is there instead.
 */
#pragma once
#include "bpf/interp/hotspot_blob.h"

/* The word of a method at a place in its bytecode, an address; 0: at its start. False: there is no method. */
UNWIND_FN bool interp_hotspot_word(struct walk *w, struct interp *in, __u64 method, __u64 place)
{
	__u32 position = ABI_INTERP_AT_START;

	if (method & 7 || method < UNWIND_USER_MIN || method >= UNWIND_USER_MAX)
		return false;
	if (unwind_read_user(
		    w, in->scratch, sizeof(in->scratch[0]), method + in->layout.code_check))
		return false;
	if (in->scratch[0] & 7 || in->scratch[0] < UNWIND_USER_MIN)
		return false;
	place -= place ? in->scratch[0] + in->hotspot.bytecodes : 0;
	if (place)
		position = place < ABI_INTERP_AT_START ? (__u32)place : ABI_INTERP_BEYOND;
	w->word = ABI_INTERP(method >> ABI_INTERP_ADDRESS_SHIFT, position);
	return true;
}

/* mov -16(%rbp), %rsp; movq $0, -16(%rbp): behind a call, before the frame says that it has returned. */
UNWIND_FN bool interp_hotspot_has_returned(__u64 lo)
{
	return (__u32)lo == 0xf0658b48 || lo == 0xf045c748ULL;
}

/*
 * A method that has been entered has no frame of its own yet, or none any more: is the return address at sp, or in a register? w->code is at
 * pc.
 */
UNWIND_FN bool interp_hotspot_enters(struct walk *w, struct interp *in)
{
	__u64 sp = w->regs[UNWIND_SP], sender = w->regs[INTERP_HOTSPOT_R13],
	      method = w->regs[INTERP_HOTSPOT_RBX], lo = w->code[0];
	/* mov %rbx, %rsp; jmp *%r13 */
	bool leaves = (lo & 0xffffff) == 0xe38b48 || (lo & 0xffffff) == 0xe5ff41;

	if (!interp_hotspot_found(w, in, sp, 0)) {
		if (leaves && interp_hotspot_is_code(in, sender))
			in->caller_pc = sender;
		else if (interp_hotspot_is_code(in, w->regs[INTERP_HOTSPOT_RAX]))
			in->caller_pc = w->regs[INTERP_HOTSPOT_RAX];
		else
			return false;
		in->caller_sp = sp;
	}
	/* On the way out it holds an address of the stack. */
	if (method - sp >= UNWIND_MAX_FRAME_BYTES)
		interp_hotspot_word(w, in, method, 0);
	if (sender > sp && sender - sp < INTERP_HOTSPOT_MAX_LOCALS)
		in->caller_sp = sender;
	return true;
}

/* False: there is no such frame. Verified once, by itself. */
UNWIND_ALONE int interp_hotspot_interpreted(struct walk *w, struct interp *in)
{
	__u64 fp, sp, above, place, sender;
	bool is_built = true;

	if (!w || !in || !WALK_KNOWS(w, UNWIND_SP) || walk_need(w, UNWIND_FP) != UNWIND_MORE)
		return 0;
	if (w->exact && unwind_read_user(w, w->code, sizeof(w->code), w->pc))
		return 0;
	fp = w->regs[UNWIND_FP];
	sp = w->regs[UNWIND_SP];
	above = fp - sp;
	if (fp & 7 || above >= UNWIND_MAX_FRAME_BYTES)
		return w->exact && interp_hotspot_enters(w, in);
	if (w->exact && above < in->hotspot.position) {
		is_built = false;
		place = 0;
		/* It is stored first, and its register is used for the place then. */
		sender = w->regs[INTERP_HOTSPOT_R13];
		if (above >= INTERP_HOTSPOT_SENDER_SP) {
			if (unwind_read_stack(w, in->scratch, 1, fp - INTERP_HOTSPOT_SENDER_SP))
				return 0;
			sender = in->scratch[0];
		}
		in->scratch[0] = w->regs[INTERP_HOTSPOT_RBX];
	} else {
		/* The lowest first: the window on the stack has the others then. */
		if (unwind_read_stack(w, in->scratch, 1, fp - in->hotspot.position))
			return 0;
		place = in->scratch[0];
		if (unwind_read_stack(w, in->scratch, 1, fp - INTERP_HOTSPOT_SENDER_SP))
			return 0;
		sender = in->scratch[0];
		if (unwind_read_stack(w, in->scratch, 2, fp - INTERP_HOTSPOT_METHOD))
			return 0;
		if (w->exact && in->scratch[1] && !interp_hotspot_has_returned(w->code[0]) &&
			interp_hotspot_enters(w, in))
			return 1;
	}
	if (!interp_hotspot_word(w, in, in->scratch[0], place))
		return w->exact && interp_hotspot_enters(w, in);
	/* The place is stored before calls only; until then a register has it. */
	if (w->exact && is_built) {
		place = w->regs[INTERP_HOTSPOT_R13] - (in->scratch[0] + in->hotspot.bytecodes);
		if (place < ABI_INTERP_AT_START)
			w->word = ABI_INTERP(ABI_INTERP_OBJECT(w->word), (__u32)place);
	}
	if (!interp_hotspot_found(w, in, fp + sizeof(fp), fp))
		return 0;
	if (sender > fp && sender - fp < INTERP_HOTSPOT_MAX_LOCALS)
		in->caller_sp = sender;
	return 1;
}
