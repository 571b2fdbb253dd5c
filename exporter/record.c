/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame words of a record → frame words of the tree.
 */
#include "exporter/record.h"
#include "lib/base/cleanup.h"

static uint64_t user_word(struct proc_table *procs, struct process *process, uint64_t word,
	bool is_return, uint64_t time_ns)
{
	switch (ABI_FRAME_KIND(word)) {
	case ABI_FRAME_RAW:
	case ABI_FRAME_JIT:
		return proc_resolve(procs, process, ABI_FRAME_VALUE(word) - is_return, time_ns);
	case ABI_FRAME_NATIVE: return word - (is_return && ABI_NATIVE_OFF(word));
	default: return word;
	}
}

uint32_t record_frames(const struct abi_record *r, struct proc_table *procs,
	struct process *process, struct record_buffer *ret)
{
	const uint64_t *kernel = (const uint64_t *)r->frames, *user = kernel + r->n_kernel;
	uint32_t n = 0, n_user = MIN(r->n_user, ARRAY_SIZE(ret->words) - ABI_MAX_KERNEL_FRAMES);

	for (uint32_t i = n_user; i > 0; i--) {
		/* The leaf is where the program was interrupted, unless it waits in a system call. */
		bool is_return = i > 1 || (r->flags & ABI_FLAG_FIRST_IS_RETURN);

		ret->words[n++] = user_word(procs, process, user[i - 1], is_return, r->time_ns);
	}
	for (uint32_t i = MIN(r->n_kernel, ABI_MAX_KERNEL_FRAMES); i > 0; i--)
		ret->words[n++] = kernel[i - 1] - (i > 1 && ABI_FRAME_VALUE(kernel[i - 1]));
	return n;
}
