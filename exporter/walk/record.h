/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of a record as the stack tree wants them: root first, addresses resolved against
 * the process's mappings at the record's time, return addresses one byte lower, inside the call.
 */
#pragma once
#include "exporter/proc/proc.h"

struct record_buffer {
	uint32_t n_user; /* words of the user stack, which come first */
	uint64_t words[ABI_MAX_KERNEL_FRAMES + ABI_MAX_USER_FRAMES + 64];
};

/* Returns the number of words written. The lock of the process table is held. */
uint32_t record_frames(const struct abi_record *r, struct proc_table *procs,
	struct process *process, struct record_buffer *ret);
