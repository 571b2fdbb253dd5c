/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The cache of answers: results of look-ups in tables (bpf/unwind/lookup.h), by place, for all CPUs. A look-up in a table reads four lines, one after
 * the other; this reads one. Compiled for BPF and for the host.
 */
#pragma once
#include "bpf/unwind/hooks.h"
#include "bpf/unwind/near.h"

/* Loads keep their order around it, and stores theirs. */
#if defined(__bpf__) && UNWIND_ARM64
#define unwind_barrier(word) ((void)__sync_fetch_and_add(word, 0))
#elif defined(__bpf__)
#define unwind_barrier(word) ((void)(word), ({ __asm__ volatile("" ::: "memory"); }))
#else
#define unwind_barrier(word) ((void)(word), __atomic_thread_fence(__ATOMIC_ACQ_REL))
#endif

/* What an answer is kept under, never 0: the binary, its generation, the place in it. */
UNWIND_FN __u64 unwind_key(__u32 binary, __u32 seq, __u32 rel)
{
	return (__u64)binary << 42 | (__u64)(seq >> 1 & (UNWIND_GENERATIONS - 1)) << 30 | rel;
}
#define UNWIND_CACHE_HASH(key) ((key)*0x9e3779b97f4a7c15ULL)
#define UNWIND_CACHE_INDEX(hash) ((__u32)((hash) >> (64 - UNWIND_CACHE_SHIFT)))
#define UNWIND_CACHE_WORD(hash, rule) ((hash) << UNWIND_CACHE_SHIFT | (rule))
/* The bits of the hash next to those of the place: all of the key goes into them. */
#define UNWIND_CACHE_PLAIN(hash, plain) \
	((hash) << UNWIND_CACHE_SHIFT >> UNWIND_PLAIN_BITS << UNWIND_PLAIN_BITS | (plain))

/*
 * The rule of a key if it was asked for before: nearly always. In *ret_plain when it is of the usual kind; else that is 0 and the rule
 * is in *ret. Like unwind_lookup, which is for what this says false to.
 */
UNWIND_FN bool unwind_recall(struct walk *w, __u32 binary, __u64 key, __u32 seq,
	struct unwind_rule *ret, __u64 *ret_plain, __u32 *scratch)
{
	__u64 hash = UNWIND_CACHE_HASH(key), hit, plain;
	const struct unwind_answer *cached = unwind_cache_at(w, UNWIND_CACHE_INDEX(hash));
	const struct unwind_binary *b;
	const struct unwind_rule *rule;

	if (RARE(!cached))
		return false;
	hit = UNWIND_ONCE(cached->word);
	if ((hit ^ UNWIND_CACHE_WORD(hash, 0)) >> UNWIND_CACHE_SHIFT)
		return false;
	unwind_barrier(scratch);
	plain = UNWIND_ONCE(cached->plain) ^ UNWIND_CACHE_PLAIN(hash, 0);
	*ret_plain = plain >> UNWIND_PLAIN_BITS ? 0 : plain;
	if (USUAL(*ret_plain))
		return true;
	b = unwind_binary_at(w, binary);
	rule = unwind_rule_at(w, (__u16)hit);
	if (RARE(!b || !rule || (__u16)hit == UNWIND_RULE_NONE))
		return false;
	*ret = *rule;
	unwind_barrier(scratch);
	return UNWIND_ONCE(b->seq) == seq;
}

/* Keeps the answer for a key: rule number `id`, which is *rule. */
UNWIND_FN void unwind_remember(
	struct walk *w, __u64 key, __u32 id, const struct unwind_rule *rule, __u32 *scratch)
{
	__u64 hash = UNWIND_CACHE_HASH(key);
	struct unwind_answer *cached = unwind_cache_at(w, UNWIND_CACHE_INDEX(hash));

	(void)w, (void)hash, (void)id, (void)rule,
		(void)scratch; /* user space has no cache of answers */
	if (!cached)
		return;
	*(volatile __u64 *)&cached->plain = UNWIND_CACHE_PLAIN(hash, unwind_plain(rule));
	unwind_barrier(scratch);
	*(volatile __u64 *)&cached->word = UNWIND_CACHE_WORD(hash, id);
}
