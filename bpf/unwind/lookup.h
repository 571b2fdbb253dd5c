/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Place in a file → unwind rule. Compiled for BPF and for the host.
 */
#pragma once
#include "bpf/unwind/cache.h"
#ifndef __bpf__
#include <stdbool.h>
#include <stddef.h>
#endif

/*
 * clang leaves out or widens a check by what a comparison before it said, of which the verifier of older kernels (6.1) knows nothing
 * once the value was on the stack, or where both sides were variables. So what clang knows of a value is forgotten before such a check.
 */
#ifdef __bpf__
#define UNWIND_FORGET(x) __asm__ volatile("" : "+r"(x))
#else
#define UNWIND_FORGET(x) ((void)(x))
#endif

/* i & mask. */
UNWIND_FN __u32 unwind_within(__u32 i, __u32 mask)
{
	UNWIND_FORGET(i);
	return i & mask;
}

enum unwind_found {
	UNWIND_FOUND,	 /* *rule is what holds there */
	UNWIND_NO_ROW,	 /* the binary has a table and it covers the place with nothing */
	UNWIND_NO_TABLE, /* the binary has none, or it changed under the look-up */
};

/* The last of rows [0, hi] that begins at or before `low`; row 0 always does. */
struct unwind_search {
	const __u32 *slab;
	__u32 first; /* word of row 0 */
	__u32 lo, hi;
	__u32 low;
};

UNWIND_FN long unwind_search_turn(__u32 i, struct unwind_search *s)
{
	__u32 mid = (s->lo + s->hi + 1) / 2;

	(void)i;
	if (s->lo >= s->hi)
		return 1;
	if (UNWIND_ROW_OFF(s->slab[(s->first + mid) & UNWIND_SLAB_MASK]) <= s->low)
		s->lo = mid;
	else
		s->hi = mid - 1;
	return 0;
}

#ifdef __bpf__
static long unwind_search_callback(__u32 i, struct unwind_search *s)
{
	return unwind_search_turn(i, s);
}
#endif

UNWIND_FN void unwind_search(struct unwind_search *s)
{
#ifdef __bpf__
	bpf_loop(UNWIND_SLAB_SHIFT + 1, unwind_search_callback, s, 0);
#else
	/* as many as there: a table that changes meanwhile may hold any number */
	for (__u32 i = 0; i <= UNWIND_SLAB_SHIFT && !unwind_search_turn(i, s); i++)
		;
#endif
}

enum { UNWIND_ROWS_PER_LINE = 16 };

/* Rows of one page → rule id. The carry row, the count and the rows lie in one slab. */
UNWIND_FN __u32 unwind_find_in_page(const __u32 *slab, __u32 entry, __u32 off)
{
	__u32 carry = UNWIND_PAGE_WORD(entry) & UNWIND_SLAB_MASK;
	struct unwind_search s = {.slab = slab, .first = carry, .low = off & 0xffff};

	s.hi = UNWIND_PAGE_N(entry);
	if (s.hi == UNWIND_PAGE_MANY) {
		s.first = carry + 1;
		s.hi = slab[s.first & UNWIND_SLAB_MASK];
	}
	if (s.hi) {
		/* Most pages have fewer rows than four lines; the search would wait for one after the other. */
		for (__u32 i = 0; i < 4; i++)
			(void)UNWIND_ONCE(
				slab[(s.first + i * UNWIND_ROWS_PER_LINE) & UNWIND_SLAB_MASK]);
		unwind_search(&s);
	}
	return UNWIND_ROW_RULE(slab[(s.lo ? s.first + s.lo : carry) & UNWIND_SLAB_MASK]);
}

/* Page of a binary → its entry, 0 when nothing covers it. */
UNWIND_FN __u32 unwind_page_entry(struct walk *w, const struct unwind_binary *b, __u32 page)
{
	const __u32 *words;
	__u32 slab = b->slab;

	if (page >= b->n_pages)
		return 0;
	words = unwind_slab_at(w, slab);
	if (words && b->is_listed) {
		slab = words[unwind_within(page >> UNWIND_SLAB_SHIFT, UNWIND_SLAB_MASK)];
		words = unwind_slab_at(w, slab);
	}
	return words ? words[unwind_within(page, UNWIND_SLAB_MASK)] : 0;
}

/* Asks for what unwind_recall and unwind_find_rule read first, without waiting for it. */
UNWIND_FN void unwind_ask_for(struct walk *w, const struct unwind_binary *b, __u32 rel, __u64 key)
{
	const struct unwind_answer *cached =
		unwind_cache_at(w, UNWIND_CACHE_INDEX(UNWIND_CACHE_HASH(key)));
	const __u32 *words = unwind_slab_at(w, b->slab);
	__u32 page = rel >> UNWIND_PAGE_SHIFT;

	(void)key; /* user space has no cache of answers */
	if (cached)
		(void)UNWIND_ONCE(cached->word);
	if (b->is_listed)
		page >>= UNWIND_SLAB_SHIFT;
	if (words)
		(void)UNWIND_ONCE(words[unwind_within(page, UNWIND_SLAB_MASK)]);
}

/* `rel`: offset from the binary's first page on; `off`: in the file. */
UNWIND_FN __u32 unwind_find_rule(
	struct walk *w, const struct unwind_binary *b, __u32 rel, __u64 off)
{
	__u32 entry = unwind_page_entry(w, b, rel >> UNWIND_PAGE_SHIFT);
	const __u32 *slab;

	if (!entry)
		return UNWIND_RULE_NONE;
	slab = unwind_slab_at(w, UNWIND_PAGE_WORD(entry) >> UNWIND_SLAB_SHIFT);
	return slab ? unwind_find_in_page(slab, entry, (__u32)off & 0xffff) : UNWIND_RULE_NONE;
}

/* The generation of what that binary leads to; odd when there is no table or it is being changed. `scratch`: a word of the
 * walker's own. */
UNWIND_FN __u32 unwind_seq(struct unwind_binary *b, __u32 *scratch)
{
	__u32 seq;

	if (RARE(!b->used))
		b->used = 1;
	seq = UNWIND_ONCE(b->seq);
	unwind_barrier(scratch);
	return b->slab == UNWIND_SLAB_NONE ? 1 : seq;
}

#define UNWIND_MAX_REL ((__u64)UNWIND_MAX_PAGES << UNWIND_PAGE_SHIFT)

/* The place's distance from the binary's first page; UNWIND_MAX_REL and more: no table covers it. */
UNWIND_FN __u64 unwind_rel(const struct unwind_binary *b, __u64 off)
{
	return off - ((__u64)b->first_page << UNWIND_PAGE_SHIFT);
}

/* The key of offset `off` of the file of that binary, and the generation of its table; 0: no table covers it. */
UNWIND_FN __u64 unwind_key_of(
	struct walk *w, __u32 binary, __u64 off, __u32 *ret_seq, __u32 *scratch)
{
	struct unwind_binary *b = unwind_binary_at(w, binary);
	__u64 rel;

	if (RARE(!b))
		return 0;
	*ret_seq = unwind_seq(b, scratch);
	rel = unwind_rel(b, off);
	return RARE(*ret_seq & 1 || rel >= UNWIND_MAX_REL)
		       ? 0
		       : unwind_key(binary, *ret_seq, (__u32)rel);
}

/*
 * The rule of a place by the table. What is read may change meanwhile: seq tells in the end, and nothing on the way trusts a number
 * further than its mask. The answer is remembered.
 */
UNWIND_FN enum unwind_found unwind_lookup(
	struct walk *w, __u32 binary, __u64 off, struct unwind_rule *ret, __u32 *scratch)
{
	struct unwind_binary *b = unwind_binary_at(w, binary);
	const struct unwind_rule *rule;
	__u64 rel;
	__u32 seq, id;

	if (!b)
		return UNWIND_NO_TABLE;
	seq = unwind_seq(b, scratch);
	if (seq & 1)
		return UNWIND_NO_TABLE;
	rel = unwind_rel(b, off);
	id = rel < UNWIND_MAX_REL ? unwind_find_rule(w, b, (__u32)rel, off) : UNWIND_RULE_NONE;
	rule = unwind_rule_at(w, id);
	if (rule)
		*ret = *rule;
	unwind_barrier(scratch);
	if (UNWIND_ONCE(b->seq) != seq)
		return UNWIND_NO_TABLE;
	if (id == UNWIND_RULE_NONE || !rule)
		return UNWIND_NO_ROW;
	unwind_remember(w, unwind_key(binary, seq, (__u32)rel), id, ret, scratch);
	return UNWIND_FOUND;
}
