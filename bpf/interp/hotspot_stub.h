/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * HotSpot's code that does not say how large its frame is: stubs, and what leads from compiled code to interpreted. And what compiled code pushes
 * below its frame.
 */
#pragma once
#include "bpf/interp/hotspot_blob.h"

enum interp_hotspot_called {
	INTERP_HOTSPOT_NOT_CALLED,
	INTERP_HOTSPOT_CALLED,
	INTERP_HOTSPOT_CALLED_THIS
};

/* What the return address that was found follows: no call, one of something, or one of this blob. Verified once, by itself. */
UNWIND_ALONE int interp_hotspot_called(struct walk *w, struct interp *in)
{
	__u64 to;

	if (!w || !in ||
		unwind_read_user(w, in->scratch, sizeof(in->scratch[0]),
			in->caller_pc - sizeof(in->scratch[0])))
		return INTERP_HOTSPOT_NOT_CALLED;
	to = in->caller_pc + (__u64)(__s64)(__s32)(in->scratch[0] >> 32);
	/* C++ that calls a stub jumps to it at times: then its own call is of something else. */
	if ((__u8)(in->scratch[0] >> 24) == 0xe8 && interp_hotspot_is_code(in, in->caller_pc))
		return to - in->at < (__u32)interp_hotspot_number(in, in->hotspot.size, 4)
			       ? INTERP_HOTSPOT_CALLED_THIS
			       : INTERP_HOTSPOT_NOT_CALLED;
	return walk_ends_in_call(in->scratch[0]) ? INTERP_HOTSPOT_CALLED
						 : INTERP_HOTSPOT_NOT_CALLED;
}

/* The same of a leaf's return address at `at`, which must be one of the heaps'. Verified once, by itself. */
UNWIND_ALONE int interp_hotspot_try(struct walk *w, struct interp *in, __u64 at, __u64 fp_at)
{
	if (!w || !in)
		return INTERP_HOTSPOT_NOT_CALLED;
	in->caller_pc = 0;
	return interp_hotspot_found(w, in, at, fp_at) ? interp_hotspot_called(w, in)
						      : INTERP_HOTSPOT_NOT_CALLED;
}

/* The interpreter pushes return addresses that follow no call. */
UNWIND_FN bool interp_hotspot_is_interpreted(const struct interp *in)
{
	return in->caller_pc - in->hotspot.interpreter < in->hotspot.interpreter_bytes;
}

/*
 * What leads from compiled code to interpreted code and back takes the return address into a register and moves the arguments. The caller's
 * sp is in another one meanwhile.
 */
UNWIND_FN bool interp_hotspot_adapts(struct walk *w, struct interp *in)
{
	__u64 sender = w->regs[INTERP_HOTSPOT_R13];

	if (sender - w->regs[UNWIND_SP] > INTERP_HOTSPOT_MAX_ARGUMENTS)
		return false;
	/* Compiled code that is called by interpreted one: the return address lies at sp again, and still where it lay. */
	if (interp_hotspot_found(w, in, w->regs[UNWIND_SP], 0) &&
		!unwind_read_stack(w, in->scratch, 1, sender - sizeof(sender)) &&
		in->scratch[0] == in->caller_pc) {
		in->caller_sp = sender;
		return true;
	}
	in->caller_pc = w->regs[INTERP_HOTSPOT_RAX];
	in->caller_sp = sender;
	in->caller_fp_at = 0;
	return interp_hotspot_is_code(in, in->caller_pc);
}

/* By the frame pointer. What C++ calls returns to a file. */
UNWIND_FN bool interp_hotspot_by_fp(struct walk *w, struct interp *in)
{
	__u64 fp;

	if (walk_need(w, UNWIND_FP) != UNWIND_MORE)
		return false;
	fp = w->regs[UNWIND_FP];
	if (fp & 7 || fp - w->regs[UNWIND_SP] >= UNWIND_MAX_FRAME_BYTES)
		return false;
	in->caller_pc = 0;
	interp_hotspot_found(w, in, fp + sizeof(fp), fp);
	return in->caller_pc;
}

/*
 * Code that says no size: stubs. A leaf may be without a frame, and then the frame pointer is another's; or it has one, and what lies at sp may
 * be left over from calls before. The call tells.
 */
UNWIND_ALONE int interp_hotspot_stub(struct walk *w, struct interp *in)
{
	int by_sp, by_fp;
	__u64 sp;

	if (!w || !in)
		return 0;
	sp = w->regs[UNWIND_SP];
	in->is_entry = !w->exact && w->pc == in->hotspot.entry;
	/* Some have thrown their caller's frame away, and have none. */
	if (!w->exact)
		return interp_hotspot_by_fp(w, in) && interp_hotspot_called(w, in);
	if (interp_hotspot_stub_part(w->code[0]) == INTERP_HOTSPOT_PUSHED)
		return interp_hotspot_found(w, in, sp + sizeof(sp), sp);
	if (interp_hotspot_adapts(w, in))
		return 1;
	/* A call of this blob says which word is the return address. Some push registers. */
	by_fp = interp_hotspot_by_fp(w, in) ? interp_hotspot_called(w, in) : 0;
	if (by_fp == INTERP_HOTSPOT_CALLED_THIS)
		return 1;
	for (__u32 i = 0; i < INTERP_HOTSPOT_MAX_SAVED; i++)
		if (interp_hotspot_try(w, in, sp + i * sizeof(sp), 0) == INTERP_HOTSPOT_CALLED_THIS)
			return 1;
	by_sp = interp_hotspot_try(w, in, sp, 0);
	if (by_sp || interp_hotspot_stub_part(w->code[0]) == INTERP_HOTSPOT_BARE)
		return in->caller_pc != 0;
	return by_fp && interp_hotspot_by_fp(w, in);
}

/* pop %reg of which there are so many side by side, from the lowest byte on; of %rbp it is the epilogue's. At most 4. */
UNWIND_FN __u32 interp_hotspot_pops(__u64 code)
{
	__u32 n = 0;

	for (__u32 i = 0; i < 4; i++, code >>= 8) {
		if ((code & 0xf8) != 0x58 || (__u8)code == 0x5d)
			break;
		n++;
	}
	return n;
}

/* What lies above sp beside its frame: arguments for the call, which it takes back behind it by pop %reg or add $n, %rsp. The epilogue, which adds to
 * sp too, takes all. */
UNWIND_FN __u64 interp_hotspot_arguments(__u64 lo, __u32 frame_bytes)
{
	__u64 n = lo >> 24 & 0xff;

	if ((lo & 0xffffff) == 0xc48348)
		return n <= 64 && n % 8 == 0 && n + 16 != frame_bytes ? n : 0;
	if ((lo & 0xf8ff) == 0x5841) /* %r8 to %r15 */
		return 8;
	return 8 * (__u64)interp_hotspot_pops(lo);
}

/*
 * A leaf whose frame is not where its blob says: it has pushed arguments for a call, or is behind leave or pop %rbp. Only if a call led to
 * it. `at`: of the return address if nothing was pushed. Verified once, by itself.
 */
UNWIND_ALONE int interp_hotspot_between(struct walk *w, struct interp *in, __u64 at)
{
	__u64 sp, before;
	__u32 n;

	if (!w || !in || unwind_read_user(w, in->scratch, sizeof(before), w->pc - sizeof(before)))
		return 0;
	before = in->scratch[0];
	sp = w->regs[UNWIND_SP];
	/* A native method's asks for a safepoint there: testb $n, m(%r15). */
	if (before >> 56 == 0xc9 || before >> 56 == 0x5d ||
		(before >> 16 & 0xffffffff) == 0x47f641c9) {
		if (interp_hotspot_try(w, in, sp, 0))
			return 1;
	}
	/* C1 keeps a few words on the stack over code that looks for a class among others. */
	for (n = 1; n <= INTERP_HOTSPOT_MAX_PUSHED; n++)
		if (interp_hotspot_try(w, in, at + n * sizeof(at), at + (n - 1) * sizeof(at)) ||
			interp_hotspot_is_interpreted(in))
			return 1;
	return 0;
}
