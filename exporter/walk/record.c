/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame words of a record → frame words of the tree.
 */
#include "exporter/walk/record.h"
#include "exporter/proc/code_objects.h"
#include "lib/base/cleanup.h"

static struct record_frame frame_of(uint64_t word, bool is_return)
{
	bool has_code = false;

	switch (ABI_FRAME_KIND(word)) {
	case ABI_FRAME_RAW:
	case ABI_FRAME_JIT: has_code = true; break;
	case ABI_FRAME_NATIVE: has_code = ABI_NATIVE_OFF(word); break;
	case ABI_FRAME_KERNEL: has_code = ABI_FRAME_VALUE(word); break;
	case ABI_FRAME_INTERP: /* its position is that of the call */
	case ABI_FRAME_REPEAT:
	case ABI_FRAME_ELIDED:
	case ABI_FRAME_TRUNCATED: break;
	}
	return (struct record_frame) {.word = word, .lookup = word - (is_return && has_code)};
}

/* The leaf is where the program was interrupted, unless it waits in a system call. */
static bool is_return(const struct abi_record *r, uint32_t i)
{
	return i > 0 || (r->flags & ABI_FLAG_FIRST_IS_RETURN);
}

struct record_frame record_user_frame(const struct abi_record *r, uint32_t i)
{
	return frame_of(r->frames[r->n_kernel + i], is_return(r, i));
}

/* As the tree wants it; 0: no code is there. */
static uint64_t resolve(
	struct proc_table *procs, struct process *process, const struct abi_record *r, uint32_t i)
{
	struct record_frame f = record_user_frame(r, i);
	uint64_t addr = ABI_FRAME_VALUE(f.lookup), word;

	switch (ABI_FRAME_KIND(f.word)) {
	case ABI_FRAME_JIT:
	case ABI_FRAME_RAW:
		word = proc_machine_word(procs, process, addr + 1, !is_return(r, i), r->time_ns);
		if (word)
			return word;
		return is_return(r, i) ? proc_resolve_return(procs, process, addr, r->time_ns)
				       : proc_resolve(procs, process, addr, r->time_ns);
	case ABI_FRAME_NATIVE: proc_note_native(procs, process, f.lookup); break;
	case ABI_FRAME_INTERP: return proc_object_word(procs, process, f.word, r->time_ns);
	case ABI_FRAME_KERNEL:
	case ABI_FRAME_REPEAT:
	case ABI_FRAME_ELIDED:
	case ABI_FRAME_TRUNCATED: break;
	}
	return f.lookup;
}

/* Leaf first, up to the first return address that is none: what lies above it was found by
 * chance. */
static uint32_t user_frames(const struct abi_record *r, uint32_t n_user, struct proc_table *procs,
	struct process *process, uint64_t *ret)
{
	for (uint32_t i = 0; i < n_user; i++) {
		ret[i] = resolve(procs, process, r, i);
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
	uint32_t n_user = MIN(r->n_user, ARRAY_SIZE(ret->words) - ABI_MAX_KERNEL_FRAMES);
	uint32_t n = user_frames(r, n_user, procs, process, ret->words);

	reverse(ret->words, n);
	ret->n_user = n;
	for (uint32_t i = MIN(r->n_kernel, ABI_MAX_KERNEL_FRAMES); i > 0; i--)
		ret->words[n++] = frame_of(r->frames[i - 1], i > 1).lookup;
	return n;
}
