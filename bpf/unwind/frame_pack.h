/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Frame words as they travel in a ring (docs/formats/abi.md): most have the upper 33 bits of the one before them, kind, binary and
 * the higher part of the offset, and take four bytes. Compiled for BPF and for the host; exporter/sample/unpack.h is the way back.
 *
 * Invariant: what is written never overtakes what is read: a word takes eight bytes at most.
 */
#pragma once
#include "bpf/unwind/frames.h"

#define FRAME_PACK_LOW 31 /* bits */
#define FRAME_PACK_SAME (1U << FRAME_PACK_LOW)
/* Stacks of more words stay as they are: the verifier goes through the loop as often as the largest one does. */
#define FRAME_PACK_MAX 64U
_Static_assert(ABI_FRAME_TRUNCATED == 8, "no other kind has the top bit; this one travels as 0");

typedef __u32 __attribute__((may_alias)) frame_pack_u32;

/* From here on the compiler knows nothing of a value: it would make branches of it, and the verifier follow each. */
#define FRAME_PACK_FORGET(x) __asm__("" : "+r"(x))

/* Packs n words in place, n ≤ FRAME_PACK_MAX; returns how many u32 they take. A loop with nothing called: the code is cold at each tick. */
UNWIND_FN __u32 frame_pack(__u64 *words, __u32 n)
{
	frame_pack_u32 *to = (frame_pack_u32 *)(void *)words;
	__u64 before = 0, out = n;

	FRAME_PACK_FORGET(out);
	out -= n; /* 0, but the verifier must not know: it would see another number in each turn, and follow each */

	for (__u32 i = 0; i < FRAME_PACK_MAX && i < n; i++) {
		__u64 word = words[i], differs = (word ^ before) >> FRAME_PACK_LOW;

		differs = -differs; /* 33 bits: negative unless 0 */
		FRAME_PACK_FORGET(differs);
		differs >>= 63;

		out &= 2 * FRAME_PACK_MAX - 1; /* as it is; for the verifier */
		to[out] = (__u32)(word >> 32) & ~FRAME_PACK_SAME;
		to[out + differs] = (__u32)(word | (differs ^ 1) << FRAME_PACK_LOW);
		out += differs + 1;
		before = word;
	}
	return (__u32)out;
}
