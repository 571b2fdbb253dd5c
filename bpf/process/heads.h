/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The process images whose mappings the walker knows: a hash of heads by pid, and the words that their runs of mappings lie
 * in. Both are mmapable arrays. User space writes runs and sets heads; the kernel half makes heads at a process's first sample
 * and copies them at fork. Compiled for BPF and for the host. docs/formats/abi.md describes it.
 *
 * Invariants:
 *  1. a head belongs to one process image: (pid, image); a head of another image of its pid says nothing;
 *  2. a run that a head names does not change while the head names it, nor for PROCESS_GRACE_NS after;
 *  3. `pid` is taken by compare-and-exchange and is 0 in a free head; `image` changes only while `run` is 0.
 */
#pragma once
#include "bpf/abi.h"
#ifdef __bpf__
#define PROCESS_FN static __always_inline
#else
#define PROCESS_FN static inline
#endif

enum {
	PROCESS_HEADS_PER_BUCKET = 4,
	PROCESS_WORDS_PER_MAPPING = 3,
	PROCESS_MAX_MAPPINGS = 16384, /* of one run */
	PROCESS_SEARCH_STEPS = 15,    /* log2 of that, and one */
};
#define PROCESS_GRACE_NS 1000000000ULL

struct process_head {
	__u64 image;   /* process_image() */
	__u64 run;     /* of its mappings (PROCESS_RUN), tagged with the image; 0: not published */
	__u64 copy_ns; /* when the next stack copy of this process is due (process_may_copy) */
	__u32 pid;     /* thread group; 0: free */
	__u32 flags;   /* enum process_flags; PROCESS_SERIAL_SHIFT */
};

enum process_flags {
	PROCESS_JIT_NO_FP = 1 << 0, /* its JIT code does not keep frame pointers */
	PROCESS_JIT_FP = 1 << 1,    /* started with frame pointers enabled */
	PROCESS_JIT_CHAIN = 1 << 2, /* and so it always does: 0 is where a stack ends */
	PROCESS_INTERP = 1 << 3,    /* it has a row in interp_processes (bpf/interp/rows.h) */
};
/* From this bit of the flags up: the number of the publication, which no other of late has. */
#define PROCESS_SERIAL_SHIFT 8

struct process_bucket {
	struct process_head heads[PROCESS_HEADS_PER_BUCKET];
};

/*
 * A run of n mappings, sorted: n start addresses; then for each mapping its end and its base, which is the frame word of the
 * start address: the word of an address is base + (address - start).
 */
#define PROCESS_RUN(first, n) ((__u64)(first) << 32 | (__u32)(n))
#define PROCESS_RUN_FIRST(run) ((__u32)((run) >> 32))
#define PROCESS_RUN_N(run) ((__u32)(run)&0x7fff)
/* In a head 17 bits of the image are between: they detect a run that lost a race with the head's next image. */
#define PROCESS_RUN_TAG(image) ((image) >> 47 << 15)

PROCESS_FN __u64 process_image(__u64 start_ns, __u32 exec_id)
{
	__u64 image = (start_ns + ((__u64)exec_id << 48)) * 0x9e3779b97f4a7c15ULL;

	return image ? image : 1;
}

/* The start time of an image whose exec count is known. */
PROCESS_FN __u64 process_image_start(__u64 image, __u32 exec_id)
{
	return image * 0xf1de83e19937733dULL - ((__u64)exec_id << 48); /* the inverse modulo 2^64 */
}

/* Index of the pid's head in its bucket, or PROCESS_HEADS_PER_BUCKET. */
PROCESS_FN __u32 process_find(const struct process_bucket *b, __u32 pid)
{
	const volatile struct process_head *h = b->heads;

	_Static_assert(PROCESS_HEADS_PER_BUCKET == 4, "written out");
	return h[0].pid == pid	 ? 0
	       : h[1].pid == pid ? 1
	       : h[2].pid == pid ? 2
	       : h[3].pid == pid ? 3
				 : 4;
}

/* The same, taking a free head when the pid has none. */
PROCESS_FN __u32 process_claim(struct process_bucket *b, __u32 pid)
{
	__u32 i = process_find(b, pid);

	if (i < PROCESS_HEADS_PER_BUCKET)
		return i;
	for (i = 0; i < PROCESS_HEADS_PER_BUCKET; i++)
		if (!b->heads[i].pid && __sync_val_compare_and_swap(&b->heads[i].pid, 0, pid) == 0)
			break;
	return i;
}

/* Makes a head that is ours (claimed) the given image's, not published. */
PROCESS_FN void process_begin(struct process_head *h, __u64 image)
{
	volatile struct process_head *v = h;

	v->run = 0;
	v->image = image;
	v->copy_ns = 0;
	v->flags = 0;
}

#define PROCESS_RUN_TAG_MASK (0x1ffffULL << 15)

PROCESS_FN void process_set_run(struct process_head *h, __u64 image, __u64 run)
{
	*(volatile __u64 *)&h->run =
		run ? (run & ~PROCESS_RUN_TAG_MASK) | PROCESS_RUN_TAG(image) : 0;
}

/* The run of that image, 0 when there is none. */
PROCESS_FN __u64 process_run(const struct process_head *h, __u64 image)
{
	const volatile struct process_head *v = h;
	__u64 run = v->run;

	if (v->image != image || (run & PROCESS_RUN_TAG_MASK) != PROCESS_RUN_TAG(image))
		return 0;
	return run;
}

/*
 * A token bucket in one word: the time at which it is full again. One token a `each_ns`, `burst` of them at once. A lost race
 * costs a token too few.
 */
PROCESS_FN int process_may_copy(__u64 *full_ns, __u64 now, __u64 each_ns, __u64 burst)
{
	volatile __u64 *v = full_ns;
	__u64 full = *v < now ? now : *v;

	if (full + each_ns > now + burst * each_ns)
		return 0;
	*v = full + each_ns;
	return 1;
}

/* A run and the mapping in it that was found last: neighbouring frames mostly lie in one file. */
struct process_place {
	__u64 start, end, base;
	__u32 first, n; /* of the run */
	__u32 lo, hi;	/* while searching: the mapping sought is in [lo, hi) */
	__u64 addr;
};

PROCESS_FN void process_place_init(struct process_place *p, __u64 run)
{
	p->start = p->end = p->base = 0;
	p->first = PROCESS_RUN_FIRST(run);
	p->n = PROCESS_RUN_N(run);
}

/* The word of an address in the mapping that was found; return addresses may be its end. */
PROCESS_FN __u64 process_word(const struct process_place *p, __u64 addr)
{
	return p->base + (addr - p->start);
}
