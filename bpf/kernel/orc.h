/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The place of the kernel's own unwind table, for the kernel half alone, and the answer about it for user space.
 */
#pragma once
#include "bpf/abi.h"

/* How the table's entries are laid out (bpf/kernel/rule.h). */
enum kernel_orc_layout {
	KERNEL_ORC_6_4,	       /* sp_reg: 4, bp_reg: 4, type: 3, signal: 1, from the lowest bit */
	KERNEL_ORC_6_3,	       /* type: 2, signal: 1, end: 1; types count from a call */
	KERNEL_ORC_BEFORE_6_3, /* type: 2, end: 1 */
	KERNEL_ORC_REGS_AS_INSNS, /* of 6.4, registers numbered as instructions do (seen in 7.3) */
};

/* Where the table lies and how stacks are walked by it; filled by the program kernel_tables. */
struct kernel_orc {
	__u64 text, text_bytes; /* _stext, to _etext */
	__u64 ips, entries;	/* n s32 and struct kernel_orc_entry */
	__u64 lookup; /* a u32 for each 256 bytes of text: the last entry that begins at or before them */
	__u64 hooks[3]; /* return addresses in place of others, unwind_recover_ret_addr; 0: none */
	__u32 n;
	__u32 stack_bytes; /* of a task, and of a CPU for its interrupts */
	__u32 max_frames;
	__u32 check_each; /* one stack of this many is compared */
	__u32 is_on;
	__u32 layout; /* enum kernel_orc_layout */
};

#define KERNEL_SEARCH_STEPS 24
#define KERNEL_MAX_ENTRIES (1U << KERNEL_SEARCH_STEPS)

/* How kernel stacks are walked, and why not by the table. */
enum kernel_walk_by {
	KERNEL_WALK_ORC,
	KERNEL_WALK_FLAG,     /* --unwind.kernel=kernel */
	KERNEL_WALK_NO_TABLE, /* frame pointers, arm64 */
	KERNEL_WALK_HIDDEN,   /* the kernel tells no addresses */
	KERNEL_WALK_LAYOUT,   /* entries are of none of enum kernel_orc_layout */
	KERNEL_WALK_FAILED,   /* the program could not be run */
	KERNEL_WALK_N
};

struct kernel_tables_args {
	__u32 max_frames; /* kernel.perf_event_max_stack, at most ABI_MAX_KERNEL_FRAMES */
	__u32 check_each;
};
