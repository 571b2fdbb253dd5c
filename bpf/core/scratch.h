/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Scratch: what a program works in, a walk and one record under construction, too large for its stack. Each CPU has a few slots,
 * claimed by exchange of `busy`, so that a program never works in the memory of one that it came between.
 *
 * Programs of two kinds come between each other on a CPU in two ways, and have slots of their own:
 *
 *   atomic       perf events, most tracepoints: nothing but an interrupt comes between, and that program ends before this one goes on.
 *   preemptible  uprobes, iterators: other tasks run on the CPU while this program holds its slot, and may hit probes too. As many slots as
 *                hold most of that; what finds none is counted. They never take the slots of the others, so a probe that is hit
 *                often costs no tick. They come into being only where such a program is loaded (bpf/core/slots.h).
 */
#pragma once
#include "bpf/core/regs.h" /* first: the kernel types */
#include "bpf/core/slots.h"
#include "bpf/core/vma.h"
#include "bpf/core/walker_tables.h"
#include "bpf/process/recent.h"

struct scratch {
	__u32 busy;
	__u32 near; /* key in near_cpu and kernel_cpus, or SCRATCH_NO_NEAR */
	struct walk walk;
	struct interp interp;
	struct process_place place;
	struct process_recent recent[PROCESS_RECENT_IMAGES];
	__u64 image; /* of this process */
	struct vma_place vma;
	__u32 flags;	/* enum process_flags */
	__u32 is_first; /* sample of an image: user space wants to hear of it now */
	struct perf_event_regs regs;
	struct abi_code code; /* being told: no room for it on the stack */
	__u64 record[sizeof(struct abi_record) /
		     sizeof(__u64)]; /* struct abi_record, its frames follow */
	__u64 words[ABI_MAX_WORDS + 1];
	__u64 spare[ABI_USER_TAIL_WORDS]; /* last: nearly all stacks leave it alone */
};
_Static_assert(sizeof(struct scratch) <= 32 * 1024, "limit of per-CPU map values");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCH_ATOMIC_SLOTS); /* set at load */
	__type(key, __u32);
	__type(value, struct scratch);
} scratch_cpu SEC(".maps") __weak;

/* A slot of that kind, or NULL. The first of each kind has what makes walks faster, which has one user at a time. */
static __always_inline struct scratch *scratch_claim(enum scratch_kind kind)
{
	const __u32 first = kind == SCRATCH_ATOMIC ? 0 : SCRATCH_ATOMIC_SLOTS;
	const __u32 end = kind == SCRATCH_ATOMIC ? SCRATCH_ATOMIC_SLOTS : SCRATCH_SLOTS;

	for (__u32 i = first; i < end; i++) {
		__u32 key = i;
		struct scratch *s = bpf_map_lookup_elem(&scratch_cpu, &key);

		if (USUAL(s && __sync_lock_test_and_set(&s->busy, 1) == 0)) {
			s->near = i == first ? kind : SCRATCH_NO_NEAR;
			return s;
		}
	}
	return NULL;
}

static __always_inline void scratch_release(struct scratch *s)
{
	*(volatile __u32 *)&s->busy = 0;
}

static __always_inline struct abi_record *record_of(struct scratch *s)
{
	return (struct abi_record *)s->record;
}
