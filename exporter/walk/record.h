/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of a record as the stack tree wants them: root first, addresses resolved against
 * the process's mappings at the record's time, return addresses one byte lower, inside the call. Which of a record's words are
 * return addresses is decided here alone.
 */
#pragma once
#include "exporter/proc/proc.h"

/*
 * A frame of a record. A caller's word is its return address, which may be the first byte of another function: the walker
 * (walk_frame in bpf/unwind/walker.h) records every caller so, one byte above the code that it was found by.
 */
struct record_frame {
	uint64_t word;	 /* as the record has it */
	uint64_t lookup; /* the same kind of word, for the code that the frame is in */
};

/* The record's i-th user frame, leaf first. */
struct record_frame record_user_frame(const struct abi_record *r, uint32_t i);
/* The frame whose code is at `lookup`, a word: the leaf, where the program was interrupted, or a caller. */
static inline struct record_frame record_frame_at(uint64_t lookup, bool is_return)
{
	return (struct record_frame) {.word = lookup + is_return, .lookup = lookup};
}

struct record_buffer {
	uint32_t n_user; /* words of the user stack, which come first */
	uint64_t words[ABI_MAX_KERNEL_FRAMES + ABI_MAX_USER_FRAMES + 64];
};

/* Returns the number of words written. The lock of the process table is held. */
uint32_t record_frames(const struct abi_record *r, struct proc_table *procs,
	struct process *process, struct record_buffer *ret);
