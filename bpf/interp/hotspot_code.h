/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What HotSpot's machine code says of its frame, at an instruction of x86-64: compiled code has none before its prologue has ended, and none
 * behind the first instructions of its epilogue (hotspot/cpu/x86: MachPrologNode, MachEpilogNode, C1's build_frame and remove_frame).
 */
#pragma once
#include "bpf/unwind/code.h"

/* Where the return address is, in words above sp, and whether the caller's frame pointer lies below it. */
enum interp_hotspot_part {
	INTERP_HOTSPOT_WHOLE,  /* as the blob says */
	INTERP_HOTSPOT_NO_FP,  /* so, but the frame pointer is still in the register */
	INTERP_HOTSPOT_PUSHED, /* the frame pointer lies at sp */
	INTERP_HOTSPOT_BARE,   /* the return address lies at sp */
	INTERP_HOTSPOT_LOWER,  /* as the blob says, but one word more lies below it */
};

/* sub $n, %rsp, whose bytes from `n` on are `next`. C2 makes small frames by it alone, and stores the frame pointer behind it. */
UNWIND_FN enum interp_hotspot_part interp_hotspot_sub(__u32 next)
{
	bool stores = next == 0x246c8948 || next == 0x24ac8948; /* mov %rbp, n(%rsp) */

	return stores ? INTERP_HOTSPOT_BARE : INTERP_HOTSPOT_PUSHED;
}

/* An instruction before the frame is said to be complete. may_be_whole: what is none of a prologue's is behind it. Verified
 * once, by itself. */
UNWIND_ALONE int interp_hotspot_begins(struct walk *w, __u32 may_be_whole)
{
	__u64 lo, hi;

	if (!w)
		return INTERP_HOTSPOT_WHOLE;
	lo = w->code[0];
	hi = w->code[1];
	if ((lo & 0xffffff) == 0xec8348)
		return interp_hotspot_sub((__u32)(lo >> 32));
	if ((lo & 0xffffff) == 0xec8148)
		return interp_hotspot_sub((__u32)(lo >> 56 | hi << 8));
	if ((__u32)lo == 0x246c8948 || (__u32)lo == 0x24ac8948)
		return INTERP_HOTSPOT_NO_FP;
	/* mov %rsp, %rbp in its two encodings */
	if ((lo & 0xffffff) == 0xec8b48 || (lo & 0xffffff) == 0xe58948)
		return INTERP_HOTSPOT_PUSHED;
	/* The barrier of a collector comes last: [nop;] cmpl $n, m(%r15); jne, or je over a call. Before it other code compares and jumps, too. */
	if ((__u8)lo == 0x90)
		lo >>= 8;
	if ((lo & 0xffffff) == 0x7f8141 || (lo & 0xffffff) == 0xbf8141 || (__u8)lo == 0xe8)
		return INTERP_HOTSPOT_WHOLE;
	if (((__u8)lo == 0x75 || (__u8)lo == 0x74 || (__u16)lo == 0x850f || (__u16)lo == 0x840f) &&
		!unwind_read_user(w, w->code, sizeof(w->code[0]), w->pc - sizeof(w->code[0])) &&
		(w->code[0] & 0xffffff) == 0x7f8141)
		return INTERP_HOTSPOT_WHOLE;
	return may_be_whole ? INTERP_HOTSPOT_WHOLE : INTERP_HOTSPOT_BARE;
}

/*
 * Behind that, the end of a function: pop %rbp; a safepoint's check; ret. The check is test %eax, n(%rip) (8); mov n(%r15), %r10; test %eax,
 * (%r10) (9 to 15); cmp n(%r15), %rsp; ja (from 16). A native method's looks for an exception there: cmpq $0, n(%r15); jne.
 */
UNWIND_FN bool interp_hotspot_returns(__u64 lo, __u64 hi)
{
	__u32 three = lo & 0xffffff;

	if ((__u8)lo == 0xc3 || (__u8)lo == 0xc2 || (__u32)lo == 0xc3028541)
		return true;
	if ((__u16)lo == 0x0585 || (__u16)lo == 0x870f || (__u16)lo == 0x850f)
		return (__u8)(lo >> 48) == 0xc3;
	if (three == 0x978b4d)
		return lo >> 56 == 0x41 && (hi & 0xffffff) == 0xc30285;
	if (three == 0xa73b49)
		return lo >> 56 == 0x0f && (__u8)hi == 0x87;
	if (three == 0x673b49)
		return (__u16)(lo >> 32) == 0x870f;
	if (three == 0x7f8349)
		return (__u16)(lo >> 40) == 0x850f && (__u32)hi >> 24 == 0xc3;
	if (three == 0x7f8149)
		return (__u16)hi == 0x850f && (__u8)(hi >> 48) == 0xc3;
	return false;
}

/* By w->code: enum interp_hotspot_part. Verified once, by itself. */
UNWIND_ALONE int interp_hotspot_ends(struct walk *w)
{
	__u64 lo, hi;

	if (!w)
		return INTERP_HOTSPOT_WHOLE;
	lo = w->code[0];
	hi = w->code[1];
	if ((__u8)lo == 0x5d)
		return INTERP_HOTSPOT_PUSHED;
	/* pop n(%rsp): of a pair that moves a word of the stack */
	if ((lo & 0xffffff) == 0x048f48 || (lo & 0xffffff) == 0x448f48)
		return INTERP_HOTSPOT_LOWER;
	/* pop %rbp; jmp to code that goes on for it */
	if ((__u8)lo == 0xe9 &&
		!unwind_read_user(w, w->code, sizeof(w->code[0]), w->pc - sizeof(w->code[0])))
		return w->code[0] >> 56 == 0x5d ? INTERP_HOTSPOT_BARE : INTERP_HOTSPOT_WHOLE;
	return interp_hotspot_returns(lo, hi) ? INTERP_HOTSPOT_BARE : INTERP_HOTSPOT_WHOLE;
}

/* The same of code that makes its frame by hand, with a frame pointer: stubs. WHOLE: by the frame pointer, or it has none at all. */
UNWIND_FN enum interp_hotspot_part interp_hotspot_stub_part(__u64 lo)
{
	if ((__u8)lo == 0x55 || (__u8)lo == 0xc3)
		return INTERP_HOTSPOT_BARE;
	if ((__u8)lo == 0x5d || (lo & 0xffffff) == 0xec8b48 || (lo & 0xffffff) == 0xe58948)
		return INTERP_HOTSPOT_PUSHED;
	return INTERP_HOTSPOT_WHOLE;
}
