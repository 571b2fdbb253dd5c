/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * How many slots of scratch (bpf/core/scratch.h) a CPU has. The keeper sizes the maps by it: a slot takes some 20 KiB of each CPU,
 * and those of preemptible programs are there only when such a program is.
 */
#pragma once

/* By the CONTEXT of rows in bpf/events.def. */
enum scratch_kind {
	SCRATCH_ATOMIC,	     /* the program is interrupted at most */
	SCRATCH_PREEMPTIBLE, /* other tasks may run on its CPU before it ends */
	SCRATCH_KINDS,
};

enum {
	SCRATCH_ATOMIC_SLOTS = 2,
	SCRATCH_PREEMPTIBLE_SLOTS = 6,
	SCRATCH_SLOTS = SCRATCH_ATOMIC_SLOTS + SCRATCH_PREEMPTIBLE_SLOTS,
	SCRATCH_NO_NEAR = SCRATCH_KINDS,
};
