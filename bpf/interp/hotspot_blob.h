/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * HotSpot's heaps of machine code: which blob an address lies in, what the blob says, and the return address that a frame leads to.
 */
#pragma once
#include "bpf/interp/frame.h"
#include "bpf/interp/hotspot_code.h"

enum {
	/* Below an interpreted frame's pointer. */
	INTERP_HOTSPOT_SENDER_SP = 8,
	INTERP_HOTSPOT_METHOD =
		24, /* above it is not 0 while the method calls interpreted code: then the pointer may be a callee's caller's */
	/* Above it, of what C++ called Java by. */
	INTERP_HOTSPOT_BX = 56,
	/* Registers at the entry of an interpreted method. */
	INTERP_HOTSPOT_RAX = 0,
	INTERP_HOTSPOT_RBX = 3,		     /* the method */
	INTERP_HOTSPOT_R13 = 13,	     /* the caller's sp; later the place in the bytecode */
	INTERP_HOTSPOT_MAX_HOPS = 64,	     /* from a segment back to where its block begins */
	INTERP_HOTSPOT_MAX_LOCALS = 1 << 16, /* bytes */
	INTERP_HOTSPOT_MAX_ARGUMENTS = 4096, /* bytes, and of what aligns them */
	INTERP_HOTSPOT_MAX_WORDS = 1 << 17,  /* of a compiled frame */
	INTERP_HOTSPOT_MAX_PUSHED = 5,	     /* words */
	INTERP_HOTSPOT_MAX_SAVED = 10,	     /* likewise, by a stub */
	INTERP_HOTSPOT_MAX_PROLOGUE = 24,    /* of a stub that has a frame */
	INTERP_HOTSPOT_NEVER = 10000,	     /* CodeOffsets::frame_never_safe; -1 too */
};

UNWIND_FN bool interp_hotspot_is_code(const struct interp *in, __u64 addr)
{
	bool found = false;

	for (__u32 i = 0; i < INTERP_HOTSPOT_HEAPS; i++)
		found |= addr - in->hotspot.heaps[i].low < in->hotspot.heaps[i].bytes;
	return found;
}

/* Sets in->at, the blob that an address of a heap lies in; 0: none. Verified once, by itself. */
UNWIND_ALONE int interp_hotspot_blob(struct walk *w, struct interp *in, __u64 addr)
{
	const struct interp_hotspot *h;
	__u64 low = 0, segments = 0, segment;
	__u32 shift;

	if (!w || !in)
		return 0;
	h = &in->hotspot;
	in->at = 0;
	for (__u32 i = 0; i < INTERP_HOTSPOT_HEAPS; i++)
		if (addr - h->heaps[i].low < h->heaps[i].bytes) {
			low = h->heaps[i].low;
			segments = h->heaps[i].segments;
		}
	shift = h->segment_shift & 31;
	segment = (addr - low) >> shift;
	for (__u32 i = 0; segments && i < INTERP_HOTSPOT_MAX_HOPS; i++) {
		__u8 back;

		in->scratch[0] = 0;
		if (unwind_read_user(w, in->scratch, 1, segments + segment))
			return 0;
		back = (__u8)in->scratch[0];
		if (!back) {
			in->at = low + (segment << shift) + h->block_bytes;
			return 0;
		}
		if (back == 0xff || back > segment)
			return 0;
		segment -= back;
	}
	return 0;
}

/* Where the caller is: the return address lies at `at`, the frame pointer at fp_at (0: it is still in the register). False: it is none. */
UNWIND_FN bool interp_hotspot_found(struct walk *w, struct interp *in, __u64 at, __u64 fp_at)
{
	if (unwind_read_stack(w, &in->caller_pc, 1, at))
		return false;
	in->caller_sp = at + sizeof(in->caller_pc);
	in->caller_fp_at = fp_at;
	return !w->exact || interp_hotspot_is_code(in, in->caller_pc);
}

/* An s32 or s16 of the blob that was read. */
UNWIND_FN __s32 interp_hotspot_number(const struct interp *in, __u32 off, __u32 bytes)
{
	__u64 word = interp_field(in, off);

	return bytes == 2 ? (__s16)word : (__s32)word;
}

/* The address that a field of it gives. */
UNWIND_FN __u64 interp_hotspot_address(const struct interp *in, __u32 off, __u32 is_offset)
{
	return is_offset ? in->at + (__s64)interp_hotspot_number(in, off, 4)
			 : interp_field(in, off);
}
