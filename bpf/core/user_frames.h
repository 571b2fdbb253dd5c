/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The walker in the kernel: its hooks (bpf/unwind/hooks.h) that are more than a look-up, and the loop. One bpf_loop walks a stack; two
 * more inside it search a run of mappings and a page of rows. State lies in scratch, where the verifier does not follow each value.
 */
#pragma once
#include "bpf/core/interp_frames.h"
#include "bpf/process/search.h"

static __always_inline struct process_recent *recent_of(struct scratch *s)
{
	return &s->recent[PROCESS_RECENT_OF(s->image) & (PROCESS_RECENT_IMAGES - 1)];
}

static __always_inline int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	return (int)bpf_probe_read_user(to, (__u32)bytes, (const void *)from);
}

static __always_inline struct unwind_near *unwind_near_at(struct walk *w)
{
	const struct scratch *s = (void *)w - __builtin_offsetof(struct scratch, walk);
	__u32 key = s->near;

	return RARE(key == SCRATCH_NO_NEAR) ? NULL : bpf_map_lookup_elem(&near_cpu, &key);
}

/* bpf_loop wants its context on the stack. */
struct place_search {
	struct process_place *place;
};

static long search_callback(__u32 i, struct place_search *s)
{
	(void)i;
	return process_search_turn(s->place);
}

static __always_inline bool find_mapping(struct scratch *s, __u64 addr)
{
	struct process_place *p = &s->place;
	struct place_search search = {.place = p};

	p->addr = addr;
	if (USUAL(addr - p->start < p->end - p->start))
		return true;
	if (RARE(!p->n))
		return false;
	if (USUAL(process_recall(recent_of(s), p)))
		return true;
	p->lo = 0;
	p->hi = p->n;
	bpf_loop(PROCESS_SEARCH_STEPS, search_callback, &search, 0);
	if (!process_take(p))
		return false;
	process_remember(recent_of(s), p);
	return true;
}

/* The kernel's answer for an address that user space did not tell of; UNWIND_IN_FILE: s->place holds the mapping. How the JIT
 * code of a process that is not known keeps its frames is not known either. */
static __always_inline enum unwind_place ask_kernel(struct scratch *s, __u64 addr)
{
	struct process_place *p = &s->place;
	enum unwind_place otherwise = p->n ? UNWIND_IN_DATA : UNWIND_SOMEWHERE;
	int found;

	s->vma.addr = addr;
	found = vma_find(&s->vma);
	if (found == VMA_DATA)
		return UNWIND_IN_DATA;
	if (found == VMA_CODE || (found == VMA_JIT && !p->n))
		return UNWIND_SOMEWHERE;
	if (found == VMA_UNKNOWN)
		return otherwise;
	p->start = s->vma.start;
	p->end = s->vma.end;
	p->base = found == VMA_FILE ? ABI_NATIVE(s->vma.binary, s->vma.off)
				    : ABI_FRAME(ABI_FRAME_JIT, s->vma.start);
	return UNWIND_IN_FILE;
}

static __always_inline enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	struct scratch *s = (void *)w - __builtin_offsetof(struct scratch, walk);
	__u64 word;

	if (RARE(config.by_fp))
		return UNWIND_NEVER_KNOWN;
	if (RARE(!find_mapping(s, addr))) {
		enum unwind_place place = ask_kernel(s, addr);

		if (place != UNWIND_IN_FILE)
			return place;
	}
	word = process_word(&s->place, addr);
	if (RARE(ABI_FRAME_KIND(word) != ABI_FRAME_NATIVE))
		return s->flags & PROCESS_JIT_NO_FP   ? UNWIND_IN_JIT_NO_FP
		       : s->flags & PROCESS_JIT_FP    ? UNWIND_IN_JIT_FP
		       : s->flags & PROCESS_JIT_CHAIN ? UNWIND_IN_JIT_CHAIN
						      : UNWIND_IN_JIT;
	w->binary = ABI_NATIVE_BINARY(word);
	w->off = ABI_NATIVE_OFF(word);
	return UNWIND_IN_FILE;
}

/* For a walk that is to come; before there are branches, each of which the verifier would follow through it. */
static __always_inline void walker_ask(enum scratch_kind kind)
{
	__u32 key = kind;
	const struct unwind_near *near = bpf_map_lookup_elem(&near_cpu, &key);

	if (USUAL(near))
		unwind_near_ask(near);
}

/* Takes over the registers in scratch and what is known of the process, whose first sample makes a head for it. */
static __always_inline void walker_begin(struct scratch *s, struct task_struct *task)
{
	const struct abi_record *r = record_of(s);
	__u64 image = process_image(r->start_ns, r->exec_id);
	struct process_head *h = head_of(r->pid, config.bucket_mask, true);
	__u64 run;

	if (RARE(h && h->image != image)) {
		process_begin(h, image);
		s->is_first = 1;
	}
	run = h ? process_run(h, image) : 0;
	s->flags = h ? h->flags : 0;
	process_place_init(&s->place, run);
	s->image = image;
	process_recent_begin(recent_of(s), image, run, s->flags, r->time_ns);
	s->vma.mm = (__u64)task->mm;
	s->vma.file_mask = config.file_mask;
	walk_init(&s->walk, r->n_kernel);
	s->walk.pc = regs_pc(&s->regs);
	regs_by_number(s->walk.regs, &s->regs);
	s->walk.known = UNWIND_ALL_REGS;
	s->walk.exact = !(r->flags & ABI_FLAG_FIRST_IS_RETURN);
	if (config.interp && RARE(s->flags & PROCESS_INTERP)) {
		s->interp.tp = regs_thread_pointer(task);
		interp_take_over(s);
	}
}

static long walk_callback(__u32 i, struct walking *k)
{
	(void)i;
	return walk_turn(&k->s->walk, k->s->words);
}

static long tail_callback(__u32 i, struct frames_copy *c)
{
	frames_copy_word(c, i);
	return 0;
}

/* Walks; returns the number of user words. */
static __always_inline __u32 walker_run(struct scratch *s)
{
	struct walking walking = {.s = s};
	struct frames_copy copy;
	__u32 steps;

	bpf_loop(ABI_MAX_STEPS + 1, walk_callback, &walking, 0);
	if (RARE(s->walk.is_compat))
		s->walk.cut = ABI_CUT_COMPAT32;
	if (config.interp & ABI_INTERP_RUNS && RARE(s->walk.has_interp == WALK_HAS_RUNS))
		interp_rest(s);
	steps = frames_finish(&s->walk.frames, s->words, s->spare, &copy);
	if (RARE(steps))
		bpf_loop(steps, tail_callback, &copy, 0);
	return frames_close(&s->walk.frames, s->words, s->walk.cut);
}
