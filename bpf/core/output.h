/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * A record and, where user space is to walk it, its stack, to the ring of the CPU's group.
 */
#pragma once
#include "bpf/core/sampling.h"
#include "bpf/core/stack_copy.h"
#include "bpf/unwind/frame_pack.h"

/* A copy of the stack goes before the sample that it belongs to; `flags` say what it is for. */
static __always_inline void output_copy(struct sampling *g, void *ring, __u32 flags)
{
	struct stack_copy *c;
	__u64 bytes;

	/* What is left of the ring is for samples. */
	if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >
		bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 2) {
		sampling_count_event(g, ABI_EVENT_COUNT_COPIES_RING_FULL, 1);
		return;
	}
	c = stack_copy_take(g->s, g->task);
	if (!c) {
		sampling_count_event(g, ABI_EVENT_COUNT_COPIES_BUSY, 1);
		return;
	}
	bytes = sizeof(c->head) + c->head.bytes;
	if (bytes > sizeof(c->head) + ABI_MAX_STACK_BYTES)
		bytes = sizeof(c->head) + ABI_MAX_STACK_BYTES;
	if (bpf_ringbuf_output(ring, &c->head, bytes, BPF_RB_NO_WAKEUP) == 0) {
		record_of(g->s)->flags |= flags;
		sampling_count_event(g, ABI_EVENT_COUNT_COPIES, !!(flags & ABI_FLAG_COPIED));
		sampling_count(g, ABI_COUNT_SHADOWS, !!(flags & ABI_FLAG_SHADOW));
	} else {
		sampling_count_event(g, ABI_EVENT_COUNT_COPIES_RING_FULL, 1);
	}
	stack_copy_release(c);
}

static __always_inline __u32 copy_flags(struct scratch *s)
{
	__u32 flags = 0;

	if (RARE(regs_sp(&s->regs) & 7))
		return 0;
	if (stack_copy_is_wanted(s) && stack_copy_is_allowed(s))
		flags |= ABI_FLAG_COPIED;
	if (stack_copy_is_shadow(s))
		flags |= ABI_FLAG_SHADOW;
	return flags;
}

/* Packs the record's words if they are few; returns its bytes then. */
static __always_inline __u64 pack(struct scratch *s)
{
	struct abi_record *r = record_of(s);
	__u32 n = (__u32)r->n_kernel + r->n_user;

	if (RARE(n > FRAME_PACK_MAX))
		return sizeof(*r) + n * (__u64)sizeof(__u64);
	r->type = ABI_RECORD_PACKED_SAMPLE;
	return sizeof(*r) + frame_pack(s->words, n) * (__u64)sizeof(__u32);
}

/*
 * User space sleeps for up to a second while all is calm. It is woken for what it has to look at while that is there: a process that
 * was never sampled, and a stack that could not be walked here.
 */
static __always_inline __u64 output_flags(struct scratch *s)
{
	if (USUAL(!s->is_first && !(record_of(s)->flags & ABI_FLAG_COPIED)))
		return BPF_RB_NO_WAKEUP;
	s->is_first = 0;
	return BPF_RB_FORCE_WAKEUP;
}

/* The record, whole, to its ring, and the stack before it where user space is to walk it. */
static __always_inline void sampling_output(struct sampling *g)
{
	struct abi_record *r = record_of(g->s);
	__u32 group = g->cpu / ABI_CPUS_PER_RING;
	__u64 bytes;
	void *ring = bpf_map_lookup_elem(&rings, &group);
	__u32 copy = ring && r->n_user ? copy_flags(g->s) : 0;

	if (RARE(copy))
		output_copy(g, ring, copy);

	bytes = pack(g->s);
	if (RARE(bytes > ABI_MAX_RECORD_BYTES))
		bytes = ABI_MAX_RECORD_BYTES;
	if (USUAL(ring && bpf_ringbuf_output(ring, r, bytes, output_flags(g->s)) == 0))
		sampling_count_event(g, ABI_EVENT_COUNT_SAMPLES, 1);
	else
		sampling_count_event(g, ABI_EVENT_COUNT_RING_FULL, 1);
}
