/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Results of the last walks on a CPU: places in code and the rules that hold there, in the order of the walk. A
 * stack mostly repeats the ones before it, so the answer for the next frame lies behind the one for this frame: a walk reads
 * along lines that lie side by side. In the cache of answers and the table of rules (bpf/unwind/lookup.h) each frame has two
 * lines of its own, on pages of their own, and between two ticks other programs have taken them out of the CPU's caches; to
 * get them back is most of what a frame costs. Each answer names the one that followed it last time, so that the line of the
 * next is known, and on its way, before the next frame is.
 *
 * One owner: the program that walks on that CPU. Compiled for BPF and for the host.
 *
 * Invariants:
 *  1. steps[i] is one answer or all zero; no key is 0;
 *  2. an index entry may be of a step that was overwritten since, or have been overwritten itself: the key in the step decides.
 */
#pragma once
#include "bpf/unwind/frames.h"
#include "bpf/unwind/tables.h"
#ifndef __bpf__
#include <stdbool.h>
#endif

#define UNWIND_LINE 64U /* bytes of a line of the CPU's caches */
#define UNWIND_NEAR_STEPS 1024U
#define UNWIND_NEAR_LEAVES 64U
#define UNWIND_NEAR_INDEX 2048U /* pairs of entries that one hash leads to */

struct unwind_near_step {
	__u64 key; /* unwind_key() */
	__u64 plain; /* unwind_plain(), what of the generation is not in the key, and the step that followed last time */
};

struct unwind_near {
	struct unwind_near_step steps[UNWIND_NEAR_STEPS];
	struct unwind_near_step
		leaves[UNWIND_NEAR_LEAVES]; /* by hash; they come back in loops only */
	__u16 index[UNWIND_NEAR_INDEX];
	__u32 next; /* step to be overwritten, modulo UNWIND_NEAR_STEPS */
	__u32 pad;
};

/*
 * A rule of the usual kind in one word: the CFA is stack or frame pointer + off, what was saved lies at fixed places from it.
 * 0: the rule is of another kind, or a number is too large. Offsets count words.
 */
#define UNWIND_PLAIN 1ULL
#define UNWIND_PLAIN_BY_FP 2ULL
#define UNWIND_PLAIN_FP 4ULL /* the frame pointer was saved */
#define UNWIND_PLAIN_BX 8ULL
#define UNWIND_PLAIN_BITS 44

UNWIND_FN bool unwind_fits(__s32 off, __u32 bits)
{
	return !(off & 7) && off >> 3 >= -(1 << (bits - 1)) && off >> 3 < 1 << (bits - 1);
}

/* A number of that many words in `bits` bits, `at` bits up; and back, in bytes. */
#define UNWIND_PLAIN_PUT(off, at, bits) (((__u64)((off) >> 3) & ((1ULL << (bits)) - 1)) << (at))
#define UNWIND_PLAIN_GET(plain, at, bits) \
	(((__s64)((plain) << (64 - (at) - (bits))) >> (64 - (bits))) * 8)
#define UNWIND_PLAIN_OFF(plain) UNWIND_PLAIN_GET(plain, 4, 16)
#define UNWIND_PLAIN_RA_OFF(plain) UNWIND_PLAIN_GET(plain, 20, 8) /* 0: there is no caller */
#define UNWIND_PLAIN_FP_OFF(plain) UNWIND_PLAIN_GET(plain, 28, 8)
#define UNWIND_PLAIN_BX_OFF(plain) UNWIND_PLAIN_GET(plain, 36, 8)

UNWIND_FN __u64 unwind_plain(const struct unwind_rule *r)
{
	if (r->cfa != UNWIND_CFA_REG)
		return 0;
	if (r->ra == UNWIND_GONE)
		return UNWIND_PLAIN; /* of a root nothing else counts; tables leave reg 0 */
	if (r->reg != UNWIND_SP && r->reg != UNWIND_FP)
		return 0;
	if (r->ra != UNWIND_AT_CFA || !r->ra_off || r->fp > UNWIND_AT_CFA || r->bx > UNWIND_AT_CFA)
		return 0;
	if (!unwind_fits(r->off, 16) || !unwind_fits(r->ra_off, 8) || !unwind_fits(r->fp_off, 8) ||
		!unwind_fits(r->bx_off, 8))
		return 0;
	return UNWIND_PLAIN | (r->reg == UNWIND_FP ? UNWIND_PLAIN_BY_FP : 0) |
	       (r->fp == UNWIND_AT_CFA ? UNWIND_PLAIN_FP : 0) |
	       (r->bx == UNWIND_AT_CFA ? UNWIND_PLAIN_BX : 0) | UNWIND_PLAIN_PUT(r->off, 4, 16) |
	       UNWIND_PLAIN_PUT(r->ra_off, 20, 8) | UNWIND_PLAIN_PUT(r->fp_off, 28, 8) |
	       UNWIND_PLAIN_PUT(r->bx_off, 36, 8);
}

#define UNWIND_NEAR_PAIR(key) ((__u32)((key)*0x9e3779b97f4a7c15ULL >> 53) & (UNWIND_NEAR_INDEX - 2))
#define UNWIND_NEAR_STEP(i) ((i) & (UNWIND_NEAR_STEPS - 1))
/* Above the rule: bits of the generation of a key's table that the key has no room for, and the next step. */
#define UNWIND_NEAR_GENERATION(seq) ((__u64)((seq) >> 13 & 1023) << UNWIND_PLAIN_BITS)
#define UNWIND_NEAR_NEXT_SHIFT 54
#define UNWIND_NEAR_NEXT(plain) UNWIND_NEAR_STEP((plain) >> UNWIND_NEAR_NEXT_SHIFT)
#define UNWIND_NEAR_BELOW_NEXT ((1ULL << UNWIND_NEAR_NEXT_SHIFT) - 1)
_Static_assert(UNWIND_NEAR_STEPS == 1U << (64 - UNWIND_NEAR_NEXT_SHIFT), "room for the next step");

/*
 * Asks for all of it, without waiting. Of these lines a walk needs a few dozen, one after the other, and other programs have taken
 * them out of the CPU's caches since the last tick: loads that nothing waits for come side by side.
 */
UNWIND_FN void unwind_near_ask(const struct unwind_near *n)
{
	/* The verifier follows each turn. */
#ifdef __clang__
#pragma clang loop unroll_count(8)
#endif
	for (__u32 i = 0; i < UNWIND_NEAR_STEPS; i += UNWIND_LINE / sizeof(n->steps[0]))
		(void)UNWIND_ONCE(n->steps[i].key);
#ifdef __clang__
#pragma clang loop unroll_count(8)
#endif
	for (__u32 i = 0; i < UNWIND_NEAR_INDEX; i += UNWIND_LINE / sizeof(n->index[0]))
		(void)UNWIND_ONCE(n->index[i]);
}

/* From now on step i is looked at first behind step `at`. */
UNWIND_FN void unwind_near_link(struct unwind_near *n, __u32 at, __u32 i)
{
	struct unwind_near_step *s = &n->steps[UNWIND_NEAR_STEP(at)];

	s->plain = (s->plain & UNWIND_NEAR_BELOW_NEXT) | (__u64)i << UNWIND_NEAR_NEXT_SHIFT;
}

/* The plain rule of that key; 0: not here. *at: the step of the frame before it, then the one of this. */
UNWIND_FN __u64 unwind_near_find(struct unwind_near *n, __u32 *at, __u64 key, __u32 seq)
{
	__u32 i = UNWIND_NEAR_NEXT(n->steps[UNWIND_NEAR_STEP(*at)].plain), pair;
	__u64 plain;

	if (RARE(n->steps[i].key != key)) {
		pair = UNWIND_NEAR_PAIR(key);
		i = UNWIND_NEAR_STEP(n->index[pair]);
		if (RARE(n->steps[i].key != key)) {
			i = UNWIND_NEAR_STEP(n->index[pair + 1]);
			if (n->steps[i].key != key)
				return 0;
		}
		unwind_near_link(n, *at, i);
	}
	*at = i;
	/* So that it is on its way. */
	(void)UNWIND_ONCE(n->steps[UNWIND_NEAR_NEXT(n->steps[i].plain)].key);
	plain = (n->steps[i].plain & UNWIND_NEAR_BELOW_NEXT) ^ UNWIND_NEAR_GENERATION(seq);
	return plain >> UNWIND_PLAIN_BITS ? 0 : plain;
}

/* Keeps an answer; of the two index entries for it the one of the older step goes. */
UNWIND_FN void unwind_near_add(struct unwind_near *n, __u32 *at, __u64 key, __u64 plain, __u32 seq)
{
	__u32 i = UNWIND_NEAR_STEP(n->next), pair = UNWIND_NEAR_PAIR(key);
	__u32 age = UNWIND_NEAR_STEP(i - n->index[pair] - 1U),
	      other = UNWIND_NEAR_STEP(i - n->index[pair + 1] - 1U);

	n->steps[i].key = key;
	n->steps[i].plain = plain | UNWIND_NEAR_GENERATION(seq) |
			    (__u64)UNWIND_NEAR_STEP(i + 1) << UNWIND_NEAR_NEXT_SHIFT;
	n->index[pair + (age < other)] = (__u16)i;
	n->next = i + 1;
	unwind_near_link(n, *at, i);
	*at = i;
}

#define UNWIND_NEAR_LEAF(key) ((__u32)((key)*0x9e3779b97f4a7c15ULL >> 58))
_Static_assert(UNWIND_NEAR_LEAVES == 1U << (64 - 58), "what a leaf's hash is cut to");

/* The same of a leaf, where an address seldom is the one of before: these do not take the place of the others. */
UNWIND_FN __u64 unwind_near_find_leaf(const struct unwind_near *n, __u64 key, __u32 seq)
{
	const struct unwind_near_step *s = &n->leaves[UNWIND_NEAR_LEAF(key)];
	__u64 plain = s->plain ^ UNWIND_NEAR_GENERATION(seq);

	return s->key != key || plain >> UNWIND_PLAIN_BITS ? 0 : plain;
}

UNWIND_FN void unwind_near_add_leaf(struct unwind_near *n, __u64 key, __u64 plain, __u32 seq)
{
	struct unwind_near_step *s = &n->leaves[UNWIND_NEAR_LEAF(key)];

	s->key = key;
	s->plain = plain | UNWIND_NEAR_GENERATION(seq);
}
