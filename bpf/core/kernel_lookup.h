/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The rule for a kernel frame: kept from the last walks (bpf/unwind/near.h), else looked up in the kernel's unwind table.
 */
#pragma once
#include "bpf/core/user_frames.h"
#include "bpf/kernel/walk.h"

static __always_inline int kernel_read(void *to, __u32 bytes, __u64 from)
{
	return (int)bpf_probe_read_kernel(to, bytes, (const void *)from);
}

enum { KERNEL_WORDS = 128 };
_Static_assert(ABI_MAX_KERNEL_FRAMES < KERNEL_WORDS, "a stack fits");

/* Of whoever holds the first slot of scratch of its kind. */
struct kernel_cpu {
	struct kernel_walk walk;
	struct kernel_search search;
	__u64 rule;		   /* of the frame that the walk has reached */
	__u64 asked[KERNEL_WORDS]; /* the kernel's answer, to be compared */
	struct unwind_near near;
};
_Static_assert(sizeof(struct kernel_cpu) <= 32 * 1024, "limit of per-CPU map values");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u32);
	__type(value, struct kernel_cpu);
} kernel_cpus SEC(".maps") __weak;

/* bpf_loop wants its context on the stack. */
struct kernel_searching {
	struct kernel_search *s;
};

static long kernel_search_callback(__u32 i, struct kernel_searching *g)
{
	(void)i;
	return kernel_search_turn(g->s);
}

/* Where to begin: the kernel's own index, if it lies where it should; else all entries. */
static __always_inline void kernel_search_begin(
	struct kernel_search *s, const struct kernel_orc *orc)
{
	__u32 block = (__u32)((s->addr - orc->text) >> KERNEL_LOOKUP_SHIFT), range[2];

	s->failed = 0;
	s->lo = 0;
	s->hi = orc->n - 1;
	if (kernel_read(range, sizeof(range), orc->lookup + block * 4ULL) || range[0] > range[1] ||
		range[1] >= orc->n - 1)
		return;
	if (kernel_entry_ip(s, range[0]) <= s->addr && kernel_entry_ip(s, range[1] + 1) > s->addr) {
		s->lo = range[0];
		s->hi = range[1];
	}
}

/* Sets k->rule to that of k->search.addr by the kernel's table, 0: none, or one that is not understood. Verified once, by itself. */
UNWIND_ALONE int kernel_ask_table(struct kernel_cpu *k, struct kernel_orc *orc)
{
	struct kernel_searching searching;
	struct kernel_orc_entry e = {};
	__u64 rule;

	if (!k || !orc)
		return 0;
	k->rule = 0;
	searching.s = &k->search;
	k->search.ips = orc->ips;
	kernel_search_begin(&k->search, orc);
	bpf_loop(KERNEL_SEARCH_STEPS, kernel_search_callback, &searching, 0);
	if (!kernel_search_holds(&k->search, orc->n) ||
		kernel_read(&e, sizeof(e), orc->entries + (__u64)k->search.lo * sizeof(e)))
		return 0;
	rule = KERNEL_RULE(e.sp_offset, e.bp_offset, kernel_orc_bits(e.bits, orc->layout));
	if (kernel_rule_is_known(rule))
		k->rule = rule;
	return 0;
}

/* Does the return address stand for another? */
static __always_inline bool kernel_is_hook(const struct kernel_orc *orc, __u64 pc)
{
	return pc == orc->hooks[0] || pc == orc->hooks[1] || pc == orc->hooks[2];
}

/* Sets k->rule to what holds for this frame; 0: it cannot be walked. Verified once, by itself. */
UNWIND_ALONE int kernel_rule_here(struct kernel_cpu *k, struct kernel_orc *orc)
{
	struct kernel_walk *w;
	__u64 addr, key;
	bool is_leaf;

	if (!k || !orc)
		return 0;
	w = &k->walk;
	is_leaf = w->n == 1;
	addr = kernel_walk_addr(w);
	key = addr << 1 | (w->exact & 1);
	k->rule = 0;
	if (addr - orc->text >= orc->text_bytes || w->pc - orc->text >= orc->text_bytes)
		return 0;
	k->rule = is_leaf ? unwind_near_find_leaf(&k->near, key, 0)
			  : unwind_near_find(&k->near, &w->near, key, 0);
	if (k->rule || kernel_is_hook(orc, w->pc))
		return 0;
	k->search.addr = addr;
	kernel_ask_table(k, orc);
	if (k->rule && is_leaf)
		unwind_near_add_leaf(&k->near, key, k->rule, 0);
	else if (k->rule)
		unwind_near_add(&k->near, &w->near, key, k->rule, 0);
	return 0;
}
