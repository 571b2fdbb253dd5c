/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over anything: tables, rules, mappings, registers and the stack are the input's. Whatever they hold, a walk ends after at most
 * ABI_MAX_STEPS steps, stays within its memory and gives a stack that stands for as many frames as it found. Seeds are stacks of real
 * programs (tests/unit/test_unwind_replay.c with SONDE_SEEDS writes them).
 */
#include "tests/unit/unwind_host.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STACK_BASE 0x7fff00000000ULL
static const uint8_t *input; /* the stack */
static size_t n_input;

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	if (from < STACK_BASE || from - STACK_BASE > n_input ||
		bytes > n_input - (from - STACK_BASE))
		return -1;
	memcpy(to, input + (from - STACK_BASE), bytes);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_SLABS = 4, N_RULES = 64, N_BINARIES = 4 };

/* Code lies in 16 stretches of 64 KiB: files, JIT code, nothing. */
static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	static const enum unwind_place places[] = {UNWIND_IN_FILE, UNWIND_IN_FILE, UNWIND_IN_JIT,
		UNWIND_IN_DATA, UNWIND_IN_FILE, UNWIND_SOMEWHERE, UNWIND_IN_FILE,
		UNWIND_IN_JIT_CHAIN};

	w->binary = addr >> 16 & (N_BINARIES - 1);
	w->off = addr & 0xfffff;
	return addr >= 0x400000 && addr < 0x500000 ? places[addr >> 16 & 7]
	       : addr >> 40			   ? UNWIND_IN_JIT
						   : UNWIND_IN_DATA;
}

static size_t fill(void *to, size_t n, const uint8_t *data, size_t size)
{
	n = n < size ? n : size;
	memcpy(to, data, n);
	return n;
}

/* What the kernel half may meet while a table changes is any bytes at all; only the sizes of the arrays are sure. */
static void fill_memory(const uint8_t *data, size_t size)
{
	size_t n =
		fill(host_memory.binaries, N_BINARIES * sizeof(struct unwind_binary), data, size);

	n += fill(host_memory.rules, N_RULES * sizeof(struct unwind_rule), data + n, size - n);
	fill(host_memory.slabs, (size_t)N_SLABS * UNWIND_SLAB_WORDS * 4, data + n, size - n);
}

static void check_stack(struct walk *w, __u64 *words, uint32_t n_turns)
{
	static __u64 spare[ABI_USER_TAIL_WORDS];
	uint32_t n = frames_end(&w->frames, words, spare, w->cut);
	uint64_t n_frames = 0;

	if (n > ABI_MAX_USER_WORDS)
		abort();
	for (uint32_t i = 0; i < n; i++) {
		uint64_t v = ABI_FRAME_VALUE(words[i]);

		switch (ABI_FRAME_KIND(words[i])) {
		case ABI_FRAME_REPEAT: n_frames += (v >> 32) * (uint32_t)v; break;
		case ABI_FRAME_ELIDED: n_frames += v; break;
		case ABI_FRAME_TRUNCATED:
			if (i != n - 1 || v != w->cut)
				abort();
			break;
		default: n_frames++;
		}
	}
	if (n_frames != n_turns)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static __u64 words[ABI_MAX_WORDS + 1];
	static struct walk w;
	uint64_t head[UNWIND_N_REGS + 2] = {0};
	uint32_t n_turns = 0;
	size_t n = fill(head, sizeof(head), data, size);
	size_t stack_off;
	bool ended = false;

	if (!host_memory.n_slabs)
		host_memory_init(N_SLABS, N_RULES, N_BINARIES);
	memset(host_memory.cache, 0, UNWIND_CACHE_ANSWERS * sizeof(*host_memory.cache));
	memset(host_memory.slabs, 0, (size_t)N_SLABS * UNWIND_SLAB_WORDS * 4);
	fill_memory(data + n, size - n);
	/* The stack may begin behind the tables, or be made of them. */
	stack_off = n + (size_t)(head[UNWIND_N_REGS + 1] >> 40);
	stack_off = stack_off < size ? stack_off : n;
	input = data + stack_off;
	n_input = size - stack_off;
	walk_init(&w, 0);
	w.pc = head[0];
	memcpy(w.regs, head + 1, sizeof(w.regs));
	/* Most inputs should have a stack pointer into the stack. */
	if (head[UNWIND_N_REGS + 1] & 1)
		w.regs[UNWIND_SP] = STACK_BASE + (w.regs[UNWIND_SP] & 0xfff8);
	if (head[UNWIND_N_REGS + 1] & 2)
		w.regs[UNWIND_FP] = STACK_BASE + (w.regs[UNWIND_FP] & 0xfff8);
	w.known = (uint32_t)(head[UNWIND_N_REGS + 1] >> 8);
	w.exact = head[UNWIND_N_REGS + 1] >> 2 & 1;
	while (!ended && n_turns <= ABI_MAX_STEPS) {
		enum unwind_place place = unwind_locate(&w, w.pc - !w.exact);
		bool recorded = !(place == UNWIND_IN_DATA && w.n_steps) && walk_holds(&w, place);

		ended = walk_turn(&w, words);
		n_turns += recorded;
	}
	if (!ended || w.n_steps > ABI_MAX_STEPS)
		abort();
	check_stack(&w, words, n_turns);
	return 0;
}
