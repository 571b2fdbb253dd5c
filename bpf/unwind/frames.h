/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The frames that a walker finds, leaf first. Keeps a stack within ABI_MAX_USER_WORDS however deep it is: cycles of a
 * recursion become one REPEAT word, and when that is not enough the leaf-most and the root-most words stay and the middle
 * becomes one ELIDED word. Compiled for BPF and for the host (tests/unit/test_unwind.c).
 *
 * Invariants:
 *  1. words [0, head) are in place; logical word i ≥ head is in the tail ring at i mod ABI_USER_TAIL_WORDS, for tail_lo ≤ i < n;
 *  2. elided = frames that the words dropped from the ring stood for;
 *  3. a REPEAT word of period p comes directly after p plain frames; only dropping from the ring can break this, and
 *     frames_finish mends it.
 */
#pragma once
#include "bpf/abi.h"
#include "bpf/unwind/both.h"

/* Word i of a stack's user part. The masks tell the verifier what holds anyway. */
#define UNWIND_BASE_MASK 127
#define UNWIND_TAIL_MASK (ABI_USER_TAIL_WORDS - 1)
_Static_assert(ABI_MAX_KERNEL_FRAMES <= UNWIND_BASE_MASK, "base mask");
_Static_assert((ABI_USER_TAIL_WORDS & UNWIND_TAIL_MASK) == 0 &&
		       ABI_USER_HEAD_WORDS % ABI_USER_TAIL_WORDS == 0,
	"tail mask");
_Static_assert(ABI_MAX_REPEAT_PERIOD == 4, "hist and cycle are written out");

struct frames {
	__u64 elided;
	__u64 hist
		[ABI_MAX_REPEAT_PERIOD]; /* the last plain frames, newest first; 0 where there is none */
	__u64 cycle[ABI_MAX_REPEAT_PERIOD]; /* of the running REPEAT, in order */
	__u32 base;	 /* index of the first user word: after the kernel frames */
	__u32 n;	 /* logical words written */
	__u32 tail_lo;	 /* lowest logical word still in the tail ring */
	__u32 candidate; /* period that the last `run` frames follow, 0: none */
	__u32 run;
	__u32 period;	  /* of the running REPEAT, 0: none */
	__u32 pos, count; /* within the cycle; whole cycles so far */
};

UNWIND_FN void frames_init(struct frames *f, __u32 base)
{
	f->elided = 0;
	f->hist[0] = f->hist[1] = f->hist[2] = f->hist[3] = 0;
	f->base = base;
	f->n = 0;
	f->tail_lo = ABI_USER_HEAD_WORDS;
	f->candidate = f->run = 0;
	f->period = f->pos = f->count = 0;
}

/* How many frames a word stands for. */
UNWIND_FN __u64 frames_of_word(__u64 word)
{
	__u64 v = ABI_FRAME_VALUE(word);

	return ABI_FRAME_KIND(word) == ABI_FRAME_REPEAT ? (v >> 32) * (__u32)v : 1;
}

UNWIND_FN void frames_put(struct frames *f, __u64 *words, __u64 word)
{
	__u32 i = f->n;

	if (RARE(i >= ABI_USER_HEAD_WORDS)) {
		if (i - f->tail_lo == ABI_USER_TAIL_WORDS) {
			__u32 lo = ABI_USER_HEAD_WORDS + (f->tail_lo & UNWIND_TAIL_MASK);

			f->elided += frames_of_word(words[(f->base & UNWIND_BASE_MASK) + lo]);
			f->tail_lo++;
		}
		i = ABI_USER_HEAD_WORDS + (i & UNWIND_TAIL_MASK);
	}
	words[(f->base & UNWIND_BASE_MASK) + (i & (ABI_MAX_USER_FRAMES - 1))] = word;
	f->n++;
}

/* No cycle begins before the next frame. */
UNWIND_FN void frames_forget(struct frames *f)
{
	f->hist[0] = f->hist[1] = f->hist[2] = f->hist[3] = 0;
	f->candidate = f->run = 0;
}

UNWIND_FN void frames_end_repeat(struct frames *f, __u64 *words)
{
	__u32 pos = f->pos;

	if (USUAL(!f->period))
		return;
	frames_put(f, words, ABI_FRAME(ABI_FRAME_REPEAT, (__u64)f->period << 32 | f->count));
	if (pos > 0)
		frames_put(f, words, f->cycle[0]);
	if (pos > 1)
		frames_put(f, words, f->cycle[1]);
	if (pos > 2)
		frames_put(f, words, f->cycle[2]);
	frames_forget(f);
	f->period = f->pos = f->count = 0;
}

UNWIND_FN void frames_begin_repeat(struct frames *f)
{
	__u32 p = f->candidate;

	f->n -= f->run;
	f->period = p;
	f->count = ABI_REPEAT_AFTER - 1;
	f->pos = 0;
	f->cycle[0] = f->hist[(p - 1) & 3];
	f->cycle[1] = f->hist[(p - 2) & 3];
	f->cycle[2] = f->hist[(p - 3) & 3];
	f->cycle[3] = f->hist[(p - 4) & 3];
}

UNWIND_FN __u32 frames_find_period(const struct frames *f, __u64 frame)
{
	return frame == f->hist[0]   ? 1
	       : frame == f->hist[1] ? 2
	       : frame == f->hist[2] ? 3
	       : frame == f->hist[3] ? 4
				     : 0;
}

/* One more frame. `words` is the array of a record: kernel words first, then the user words. */
UNWIND_FN void frames_add(struct frames *f, __u64 *words, __u64 frame)
{
	if (RARE(f->period)) {
		if (frame == f->cycle[f->pos & 3]) {
			if (++f->pos == f->period) {
				f->pos = 0;
				f->count++;
			}
			return;
		}
		frames_end_repeat(f, words);
	}
	frames_put(f, words, frame);
	if (RARE(f->candidate && frame == f->hist[(f->candidate - 1) & 3])) {
		f->run++;
	} else {
		f->candidate = frames_find_period(f, frame);
		f->run = 1;
	}
	f->hist[3] = f->hist[2];
	f->hist[2] = f->hist[1];
	f->hist[1] = f->hist[0];
	f->hist[0] = frame;
	if (RARE(f->candidate && f->run == f->candidate * (ABI_REPEAT_AFTER - 1)))
		frames_begin_repeat(f);
}

/* Drops the leading words of the tail up to a REPEAT whose cycle is gone. */
UNWIND_FN void frames_mend_tail(struct frames *f, const __u64 *words)
{
	__u32 drop = 0;

	for (__u32 i = 0; i < ABI_MAX_REPEAT_PERIOD; i++) {
		__u32 at = ABI_USER_HEAD_WORDS + ((f->tail_lo + i) & UNWIND_TAIL_MASK);
		__u64 word = words[(f->base & UNWIND_BASE_MASK) + at];

		if (ABI_FRAME_KIND(word) == ABI_FRAME_REPEAT && (ABI_FRAME_VALUE(word) >> 32) > i) {
			f->elided += frames_of_word(word) + i;
			drop = i + 1;
			break;
		}
	}
	f->tail_lo += drop;
}

/* What frames_copy_word works on, once the walk is over. */
struct frames_copy {
	__u64 *words;
	__u64 *spare; /* ABI_USER_TAIL_WORDS */
	__u32 base, lo;
};

/* Step i of bringing the tail ring into order: first out of the ring, then back behind the ELIDED word. */
UNWIND_FN void frames_copy_word(struct frames_copy *c, __u32 i)
{
	__u32 k = i & UNWIND_TAIL_MASK;
	__u32 base = c->base & UNWIND_BASE_MASK;

	if (i < ABI_USER_TAIL_WORDS)
		c->spare[k] =
			c->words[base + ABI_USER_HEAD_WORDS + ((c->lo + k) & UNWIND_TAIL_MASK)];
	else
		c->words[base + ABI_USER_HEAD_WORDS + 1 + k] = c->spare[k];
}

/* Ends the running REPEAT; returns how many frames_copy_word steps the caller must take before frames_close. */
UNWIND_FN __u32 frames_finish(
	struct frames *f, __u64 *words, __u64 *spare, struct frames_copy *ret_copy)
{
	frames_end_repeat(f, words);
	ret_copy->words = words;
	ret_copy->spare = spare;
	ret_copy->base = f->base;
	if (USUAL(!f->elided))
		return 0;
	frames_mend_tail(f, words);
	ret_copy->lo = f->tail_lo;
	return 2 * ABI_USER_TAIL_WORDS;
}

/* Writes ELIDED and TRUNCATED where they belong; returns the number of user words. */
UNWIND_FN __u32 frames_close(struct frames *f, __u64 *words, __u32 cut)
{
	__u32 base = f->base & UNWIND_BASE_MASK;
	__u32 n = f->n;

	if (RARE(f->elided)) {
		words[base + ABI_USER_HEAD_WORDS] = ABI_FRAME(ABI_FRAME_ELIDED, f->elided);
		n = ABI_USER_HEAD_WORDS + 1 + (f->n - f->tail_lo);
	}
	if (n > ABI_MAX_USER_WORDS - 1)
		n = ABI_MAX_USER_WORDS - 1;
	if (RARE(cut != ABI_CUT_NONE))
		words[base + n++] = ABI_FRAME(ABI_FRAME_TRUNCATED, cut);
	return n;
}

#ifndef __bpf__
/* The same three in one, where loops need no bpf_loop: ends the stack and returns the number of user words. */
static inline __u32 frames_end(struct frames *f, __u64 *words, __u64 *spare, __u32 cut)
{
	struct frames_copy copy;
	__u32 steps = frames_finish(f, words, spare, &copy);

	for (__u32 i = 0; i < steps; i++)
		frames_copy_word(&copy, i);
	return frames_close(f, words, cut);
}
#endif
