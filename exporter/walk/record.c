/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame words of a record → frame words of the tree.
 */
#include "exporter/walk/record.h"
#include "lib/base/cleanup.h"

/* 0: no code is there. */
static uint64_t user_word(struct proc_table *procs, struct process *process, uint64_t word,
	bool is_return, uint64_t time_ns)
{
	switch (ABI_FRAME_KIND(word)) {
	case ABI_FRAME_RAW:
	case ABI_FRAME_JIT:
		return is_return ? proc_resolve_return(
					   procs, process, ABI_FRAME_VALUE(word) - 1, time_ns)
				 : proc_resolve(procs, process, ABI_FRAME_VALUE(word), time_ns);
	case ABI_FRAME_NATIVE:
		word -= is_return && ABI_NATIVE_OFF(word);
		proc_note_native(procs, process, word);
		return word;
	default: return word;
	}
}

/* Leaf first, up to the first return address that is none: what lies above it was found by
 * chance. */
static uint32_t user_frames(const struct abi_record *r, const uint64_t *user, uint32_t n_user,
	struct proc_table *procs, struct process *process, uint64_t *ret)
{
	for (uint32_t i = 0; i < n_user; i++) {
		/* The leaf is where the program was interrupted, unless it waits in a system
		 * call. */
		bool is_return = i > 0 || (r->flags & ABI_FLAG_FIRST_IS_RETURN);

		ret[i] = user_word(procs, process, user[i], is_return, r->time_ns);
		if (!ret[i]) {
			ret[i] = ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_BAD_PC);
			return i + 1;
		}
	}
	return n_user;
}

static void reverse(uint64_t *words, uint32_t n)
{
	for (uint32_t i = 0; i < n / 2; i++) {
		uint64_t swap = words[i];

		words[i] = words[n - 1 - i];
		words[n - 1 - i] = swap;
	}
}

uint32_t record_frames(const struct abi_record *r, struct proc_table *procs,
	struct process *process, struct record_buffer *ret)
{
	const uint64_t *kernel = (const uint64_t *)r->frames, *user = kernel + r->n_kernel;
	uint32_t n_user = MIN(r->n_user, ARRAY_SIZE(ret->words) - ABI_MAX_KERNEL_FRAMES);
	uint32_t n = user_frames(r, user, n_user, procs, process, ret->words);

	reverse(ret->words, n);
	ret->n_user = n;
	for (uint32_t i = MIN(r->n_kernel, ABI_MAX_KERNEL_FRAMES); i > 0; i--)
		ret->words[n++] = kernel[i - 1] - (i > 1 && ABI_FRAME_VALUE(kernel[i - 1]));
	return n;
}
