/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Copies of stacks that could not be walked here, because the process or one of its binaries is new: user space walks them when
 * it knows more. Rationed per process and per node.
 */
#pragma once
#include "bpf/core/user_frames.h"

enum {
	STACK_PAGE = 4096,
	STACK_MAX_PAGES = ABI_MAX_STACK_BYTES / STACK_PAGE + 1,
	STACK_ROOM_ABOVE_START = 64, /* of the main thread's first frame */
};
#define STACK_COPY_EACH_NS 250000000ULL /* a process may have four a second … */
#define STACK_COPY_BURST 64		/* … and so many at once */
#define STACK_COPY_NODE_EACH_NS 2000000ULL
#define STACK_COPY_NODE_BURST 200

struct stack_copy {
	struct abi_stack head;
	__u8 stack[ABI_MAX_STACK_BYTES];
	__u32 busy, limit;
};
_Static_assert(
	__builtin_offsetof(struct stack_copy, stack) == sizeof(struct abi_stack), "one record");

/* One for each CPU; values of per-CPU maps must not be larger than 32 KiB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set at load */
	__type(key, __u32);
	__type(value, struct stack_copy);
} stack_copies SEC(".maps") __weak;

/* When the node's own bucket is full again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} copy_budget SEC(".maps") __weak;

/* A copy has no frames of languages: a stack that has some stays as it was walked here. */
static __always_inline bool stack_copy_is_wanted(const struct scratch *s)
{
	return RARE((s->walk.lacks || s->walk.cut == ABI_CUT_BAD_PC) & !s->walk.has_interp);
}

/*
 * Chance picks, so that no rhythm of a program decides which of its stacks are checked. Code that a runtime describes itself (bpf/interp/v8.h)
 * is left out: who walks the copy knows nothing of it.
 */
static __always_inline bool stack_copy_is_shadow(struct scratch *s)
{
	return RARE(config.shadow) && s->walk.has_interp != WALK_HAS_FRAMES &&
	       !(record_of(s)->flags & ABI_FLAG_COMPAT32) && regs_pc(&s->regs) &&
	       bpf_get_prandom_u32() % config.shadow == 0;
}

static __always_inline bool stack_copy_is_allowed(struct scratch *s)
{
	const struct abi_record *r = record_of(s);
	struct process_head *h = head_of(r->pid, config.bucket_mask, false);
	__u32 zero = 0;
	__u64 *node = bpf_map_lookup_elem(&copy_budget, &zero), now = r->time_ns;

	if (h && !process_may_copy(&h->copy_ns, now, STACK_COPY_EACH_NS, STACK_COPY_BURST))
		return false;
	return node && process_may_copy(node, now, STACK_COPY_NODE_EACH_NS, STACK_COPY_NODE_BURST);
}

struct stack_copying {
	struct stack_copy *copy;
};

/* One page more, as far as it is mapped and in memory. */
static long stack_copy_page(__u32 i, struct stack_copying *k)
{
	struct stack_copy *c = k->copy;
	__u32 at = c->head.bytes;
	__u64 from = c->head.regs[UNWIND_SP] + at;
	__u32 n = STACK_PAGE - (from & (STACK_PAGE - 1));

	(void)i;
	if (at >= c->limit || at > ABI_MAX_STACK_BYTES - STACK_PAGE)
		return 1;
	if (n > c->limit - at)
		n = c->limit - at;
	UNWIND_FORGET(n);
	if (n > STACK_PAGE || bpf_probe_read_user(c->stack + at, n, (void *)from))
		return 1;
	c->head.bytes = at + n;
	return 0;
}

static __always_inline void stack_copy_fill(
	struct stack_copy *c, const struct scratch *s, struct task_struct *task)
{
	const struct abi_record *r = (const void *)s->record;
	__u64 start = task->mm->start_stack, sp = regs_sp(&s->regs);
	struct stack_copying copying = {.copy = c};

	c->head = (struct abi_stack) {.type = ABI_RECORD_STACK,
		.event = r->event,
		.time_ns = r->time_ns,
		.pid = r->pid,
		.tid = r->tid,
		.cpu = r->cpu,
		.pc = regs_pc(&s->regs)};
	regs_by_number(c->head.regs, &s->regs);
	c->limit = ABI_MAX_STACK_BYTES;
	/* The main thread's stack ends below its arguments and environment. */
	start = (start & ~7ULL) + STACK_ROOM_ABOVE_START;
	if (start > sp && start - sp < ABI_MAX_STACK_BYTES)
		c->limit = start - sp;
	bpf_loop(STACK_MAX_PAGES, stack_copy_page, &copying, 0);
}

/* The copy of the stack that was just walked, ready to be sent, or NULL: another program on this CPU has the buffer. Given back with stack_copy_release. */
static __always_inline struct stack_copy *stack_copy_take(
	struct scratch *s, struct task_struct *task)
{
	__u32 cpu = record_of(s)->cpu;
	struct stack_copy *c;

	c = bpf_map_lookup_elem(&stack_copies, &cpu);
	if (!c || __sync_lock_test_and_set(&c->busy, 1))
		return NULL;
	stack_copy_fill(c, s, task);
	return c;
}

static __always_inline void stack_copy_release(struct stack_copy *c)
{
	*(volatile __u32 *)&c->busy = 0;
}
