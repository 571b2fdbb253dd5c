/* SPDX-License-Identifier: Apache-2.0
 *
 * What counts as equal.
 */
#include "exporter/walk/shadow_compare.h"

static bool put(struct shadow_chain *c, uint64_t word)
{
	if (c->n == ARRAY_SIZE(c->words)) {
		c->end = SHADOW_ENDS_OPEN;
		return false;
	}
	c->words[c->n++] = word;
	return true;
}

static bool put_repeat(struct shadow_chain *c, uint64_t word)
{
	uint64_t period = ABI_FRAME_VALUE(word) >> 32, count = (uint32_t)ABI_FRAME_VALUE(word);

	if (!period || period > c->n) {
		c->end = SHADOW_ENDS_OPEN;
		return false;
	}
	for (uint64_t i = 0; i < period * count; i++)
		if (!put(c, c->words[c->n - period]))
			return false;
	return true;
}

/* elfutils sees machine code only. After repeats: their words are counted with those that go. */
static void leave_out_interpreters(struct shadow_chain *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n; i++)
		if (ABI_FRAME_KIND(c->words[i]) != ABI_FRAME_INTERP)
			c->words[n++] = c->words[i];
	c->n = n;
}

void shadow_expand(const uint64_t *words, uint32_t n, struct shadow_chain *ret)
{
	bool more = true;

	ret->n = 0;
	ret->end = SHADOW_ENDS_AT_ROOT;
	for (uint32_t i = 0; more && i < n; i++) {
		switch (ABI_FRAME_KIND(words[i])) {
		case ABI_FRAME_REPEAT: more = put_repeat(ret, words[i]); break;
		case ABI_FRAME_ELIDED: ret->end = SHADOW_ENDS_OPEN, more = false; break;
		case ABI_FRAME_TRUNCATED: ret->end = SHADOW_ENDS_CUT, more = false; break;
		case ABI_FRAME_NATIVE:
		case ABI_FRAME_KERNEL:
		case ABI_FRAME_RAW:
		case ABI_FRAME_JIT:
		case ABI_FRAME_INTERP: more = put(ret, words[i]); break;
		}
	}
	leave_out_interpreters(ret);
}

/* The last that elfutils found before it lost its way: a signal trampoline without rows (musl's) is one to us, whose pc is what
 * runs next, and a caller to it, looked up a byte lower. */
static bool is_lost_trampoline(
	const struct shadow_chain *ours, const struct shadow_chain *theirs, uint32_t at)
{
	return theirs->end != SHADOW_ENDS_AT_ROOT && at == theirs->n - 1 && at + 1 < ours->n &&
	       ours->words[at] == theirs->words[at] + 1;
}

/* Ours was cut at one before it was known to be one. */
static bool is_cut_trampoline(
	const struct shadow_chain *ours, const struct shadow_chain *theirs, uint32_t at)
{
	return ours->end == SHADOW_ENDS_CUT && at == ours->n - 1 &&
	       theirs->words[at] == ours->words[at] + 1;
}

/* A leaf that keeps no frame, or has not set it up yet: by frame pointer its caller is left out, and nothing else is. */
static bool skips_leafs_caller(const struct shadow_chain *ours, const struct shadow_chain *theirs)
{
	if (theirs->n_by_rows != 1 || ours->n != theirs->n + 1 || theirs->n < 2 ||
		ours->end != SHADOW_ENDS_AT_ROOT)
		return false;
	for (uint32_t i = 1; i < theirs->n; i++)
		if (ours->words[i + 1] != theirs->words[i])
			return false;
	return true;
}

/* Are all of theirs from `at` on among ours, in that order? By frame pointer no more is to be had where functions keep none. */
static bool only_skips(
	const struct shadow_chain *ours, const struct shadow_chain *theirs, uint32_t at)
{
	uint32_t i = at;

	for (uint32_t k = at; k < ours->n && i < theirs->n; k++)
		i += ours->words[k] == theirs->words[i];
	return i == theirs->n || ours->end != SHADOW_ENDS_AT_ROOT;
}

static enum shadow_result judge(
	const struct shadow_chain *ours, const struct shadow_chain *theirs, uint32_t *ret_at)
{
	uint32_t n = MIN(ours->n, theirs->n), at = MIN(n, 1U);

	while (at < n && ours->words[at] == theirs->words[at])
		at++;
	at += at < n &&
	      (is_lost_trampoline(ours, theirs, at) || is_cut_trampoline(ours, theirs, at));
	*ret_at = at;
	/* Of a stack that was cut at its leaf nothing is claimed. */
	if (ours->end == SHADOW_ENDS_CUT && ours->n <= 1)
		return SHADOW_CUT;
	if ((theirs->end != SHADOW_ENDS_AT_ROOT && theirs->n <= 1) ||
		(ours->end == SHADOW_ENDS_OPEN && ours->n <= 1))
		return SHADOW_UNKNOWN;
	if (at < n)
		return SHADOW_MISMATCH;
	if (ours->n > n)
		return theirs->end == SHADOW_ENDS_AT_ROOT ? SHADOW_MISMATCH : SHADOW_MATCH;
	if (ours->end == SHADOW_ENDS_CUT)
		return theirs->n > n || theirs->end == SHADOW_ENDS_AT_ROOT ? SHADOW_CUT
									   : SHADOW_MATCH;
	return theirs->n > n && ours->end == SHADOW_ENDS_AT_ROOT ? SHADOW_MISMATCH : SHADOW_MATCH;
}

enum shadow_result shadow_judge(
	const struct shadow_chain *ours, struct shadow_chain *theirs, uint32_t *ret_at)
{
	enum shadow_result result;
	bool by_fp = theirs->n_by_rows < theirs->n;

	/* What was found by frame pointer counts when it leads to the root. */
	if (!by_fp || theirs->end == SHADOW_ENDS_AT_ROOT) {
		result = judge(ours, theirs, ret_at);
		if (!by_fp || result != SHADOW_MISMATCH || *ret_at < theirs->n_by_rows ||
			!only_skips(ours, theirs, *ret_at))
			return result;
		if (skips_leafs_caller(ours, theirs)) {
			*ret_at = theirs->n;
			return SHADOW_MATCH;
		}
	}
	theirs->n = theirs->n_by_rows;
	theirs->end = SHADOW_ENDS_OPEN;
	return judge(ours, theirs, ret_at);
}
