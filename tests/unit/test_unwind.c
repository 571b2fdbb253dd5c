/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker of the kernel half, compiled for the host: frames kept within a record (repeat, elision), and the frame-pointer
 * step over a stack in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "bpf/unwind/walker.h"
#include "lib/base/cleanup.h"
#include <stdbool.h>

/* The stack of the walked program: words from STACK_BASE up. */
#define STACK_BASE 0x7fff00000000ULL
enum { STACK_WORDS = 40000 };
static uint64_t stack_words[STACK_WORDS];
#define CALL_IN_FRONT (0xe8ULL << 24) /* a word that ends in a call */

static unsigned n_reads;

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	n_reads++;
	if (from - STACK_BASE > sizeof(stack_words) - bytes)
		return -1;
	memcpy(to, (const uint8_t *)stack_words + (from - STACK_BASE), bytes);
	return 0;
}

/* One file, whose table is not there or has no rows: then every step is by frame pointer. */
static bool has_table = true;
static struct unwind_binary rowless = {.seq = 2, .slab = UNWIND_SLAB_ROWLESS};
static inline struct unwind_binary *unwind_binary_at(struct walk *w, __u32 binary)
{
	(void)w, (void)binary;
	return has_table ? &rowless : NULL;
}

static inline const __u32 *unwind_slab_at(struct walk *w, __u32 slab)
{
	(void)w, (void)slab;
	return NULL;
}

static inline const struct unwind_rule *unwind_rule_at(struct walk *w, __u32 rule)
{
	(void)w, (void)rule;
	return NULL;
}

static inline int unwind_interp(struct walk *w, __u64 *words)
{
	return (void)w, (void)words, 0;
}

static inline int unwind_own_step(struct walk *w, enum unwind_place place)
{
	return (void)w, (void)place, 0;
}

static inline struct unwind_near *unwind_near_at(struct walk *w)
{
	(void)w;
	return NULL;
}

static inline struct unwind_answer *unwind_cache_at(struct walk *w, __u32 i)
{
	(void)w, (void)i;
	return NULL;
}

/* Of all code but that in IN_FILE, which is in a file. */
enum { CODE = 20000, IN_FILE = 30000, IN_FILE_WORDS = 64 };
#define CODE_AT(word) (STACK_BASE + (word)*8ULL)
static enum unwind_place code_place = UNWIND_IN_FILE;

static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	w->binary = 1;
	w->off = addr;
	return addr - CODE_AT(IN_FILE) < IN_FILE_WORDS * 8ULL ? UNWIND_IN_FILE : code_place;
}

static __u64 words[ABI_MAX_WORDS + 1], spare[ABI_USER_TAIL_WORDS];

/* Ends the stack as the program does; returns the number of user words. */
static uint32_t finish(struct frames *f, uint32_t cut)
{
	return frames_end(f, words, spare, cut);
}

/* What the words stand for: frames, with ELIDED as that many zeros. */
static size_t expand(const __u64 *w, uint32_t n, uint64_t *out, size_t cap)
{
	size_t k = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t v = ABI_FRAME_VALUE(w[i]);
		uint32_t period = (uint32_t)(v >> 32), count = (uint32_t)v;

		switch (ABI_FRAME_KIND(w[i])) {
		case ABI_FRAME_REPEAT:
			assert_in_range(period, 1, ABI_MAX_REPEAT_PERIOD);
			assert_true(k >= period && k + (size_t)period * count <= cap);
			for (uint32_t j = 0; j < period;
				j++) /* the cycle itself must be there, not elided */
				assert_int_not_equal(out[k - period + j], 0);
			for (size_t j = 0; j < (size_t)period * count; j++, k++)
				out[k] = out[k - period];
			break;
		case ABI_FRAME_ELIDED:
			assert_true(k + v <= cap);
			memset(out + k, 0, v * sizeof(*out));
			k += v;
			break;
		case ABI_FRAME_TRUNCATED: assert_int_equal(i, n - 1); break;
		default: out[k++] = w[i];
		}
	}
	return k;
}

/* Puts n frames through and checks that what comes out stands for them. Returns the number of words. */
static uint32_t check_frames(const uint64_t *frames, size_t n, uint32_t n_kernel)
{
	static uint64_t out[100000];
	struct frames f;
	uint32_t n_words;
	size_t k;

	memset(words, 0xee, sizeof(words));
	frames_init(&f, n_kernel);
	for (size_t i = 0; i < n; i++)
		frames_add(&f, words, frames[i]);
	n_words = finish(&f, ABI_CUT_NONE);
	assert_true(n_words <= ABI_MAX_USER_WORDS);
	k = expand(words + n_kernel, n_words, out, ARRAY_SIZE(out));
	assert_int_equal(k, n);
	for (size_t i = 0; i < n; i++)
		if (out[i] && out[i] != frames[i])
			fail_msg("frame %zu of %zu differs", i, n);
	assert_int_equal(out[0], frames[0]);
	assert_int_equal(out[n - 1], frames[n - 1]);
	return n_words;
}

static uint64_t raw(uint64_t i)
{
	return ABI_FRAME(ABI_FRAME_RAW, 0x400000 + i);
}

/* head frames, then `copies` of a cycle, then tail frames */
static void recursion(void **state)
{
	static const struct {
		unsigned head, period, copies, tail, want_words;
	} cases[] = {
		{1, 0, 0, 0, 1},
		{20, 0, 0, 3, 23},
		{2, 1, 2, 2, 6}, /* two in a row stay as they are */
		{2, 1, 3, 2, 6}, /* A REPEAT(2) */
		{2, 1, 100000 - 4, 2, 6},
		{0, 1, 5000, 0, 2},
		{3, 2, 3000, 1, 3 + 3 + 1},
		{3, 3, 3000, 1, 3 + 4 + 1},
		{3, 4, 3000, 1, 3 + 5 + 1},
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		static uint64_t frames[100000];
		size_t n = 0;

		for (unsigned i = 0; i < cases[c].head; i++)
			frames[n++] = raw(1000 + i);
		for (unsigned i = 0; i < cases[c].copies; i++)
			for (unsigned j = 0; j < cases[c].period; j++)
				frames[n++] = raw(j);
		for (unsigned i = 0; i < cases[c].tail; i++)
			frames[n++] = raw(2000 + i);
		if (check_frames(frames, n, (unsigned)c) != cases[c].want_words)
			fail_msg("case %zu", c);
	}
}

static void elision(void **state)
{
	static uint64_t frames[100000];

	(void)state;
	for (size_t n = 1020; n < 1030; n++) {
		for (size_t i = 0; i < n; i++)
			frames[i] = raw(i * 16);
		assert_int_equal(check_frames(frames, n, 127), n <= 1024 ? n : 1025);
	}
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
		frames[i] = raw(i * 16);
	assert_int_equal(check_frames(frames, ARRAY_SIZE(frames), 0), 1025);
	/* the first and the last 512 are kept */
	assert_int_equal(words[511], frames[511]);
	assert_int_equal(ABI_FRAME_KIND(words[512]), ABI_FRAME_ELIDED);
	assert_int_equal(ABI_FRAME_VALUE(words[512]), ARRAY_SIZE(frames) - 1024);
	assert_int_equal(words[513], frames[ARRAY_SIZE(frames) - 512]);
}

/* A long stack of many short recursions: REPEAT words fall on both ends of what is elided. */
static void elided_recursion(void **state)
{
	static uint64_t frames[60000];
	uint64_t seed = 88172645463325252ULL;

	(void)state;
	for (int round = 0; round < 400; round++) {
		size_t n = 0, target = 1 + (size_t)(seed % 30000);

		while (n < target) {
			unsigned period, copies;
			uint64_t base;

			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			period = 1 + seed % 5;
			copies = 1 + (seed >> 8) % 6 * ((seed >> 16) % 3);
			base = (seed >> 24) % 50;
			for (unsigned i = 0; i < copies * period; i++)
				frames[n++] = raw(base + i % period);
		}
		check_frames(frames, n, (uint32_t)(seed % 128));
	}
}

struct stack_case {
	const char *name;
	uint64_t fp; /* word index, ~0: the value in fp_value */
	uint64_t fp_value;
	unsigned n_frames; /* frames of two words laid out from word 10, 4 words apart */
	uint64_t last_fp;  /* saved rbp of the outermost frame */
	uint64_t last_ra;  /* its return address */
	uint32_t want_cut, want_frames; /* callers */
};

static uint32_t walk(struct walk *w, uint64_t fp)
{
	memset(words, 0, sizeof(words));
	walk_init(w, 0);
	w->pc = 0x401000;
	w->regs[UNWIND_SP] = STACK_BASE + 8;
	w->regs[UNWIND_FP] = fp;
	w->known = 1U << UNWIND_SP | 1U << UNWIND_FP;
	for (int i = 0; i <= ABI_MAX_STEPS; i++)
		if (walk_turn(w, words))
			break;
	return finish(&w->frames, w->cut);
}

static void frame_pointers(void **state)
{
	static const struct stack_case cases[] = {
		{"root by saved rbp 0", 10, 0, 5, 0, 0x400005, ABI_CUT_NONE, 5},
		{"root by return address 0", 10, 0, 5, STACK_BASE + 8000, 0, ABI_CUT_NONE, 4},
		{"rbp 0 at the leaf", ~0ULL, 0, 0, 0, 0, ABI_CUT_NO_TABLE, 0},
		{"rbp below the stack pointer", ~0ULL, STACK_BASE, 0, 0, 0, ABI_CUT_NO_TABLE, 0},
		{"rbp odd", ~0ULL, STACK_BASE + 81, 0, 0, 0, ABI_CUT_NO_TABLE, 0},
		{"rbp far away", ~0ULL, STACK_BASE + (2ULL << 20), 0, 0, 0, ABI_CUT_NO_TABLE, 0},
		{"rbp on no page", ~0ULL, STACK_BASE + sizeof(stack_words) + 64, 0, 0, 0,
			ABI_CUT_READ_FAULT, 0},
		{"saved rbp goes down", 10, 0, 3, STACK_BASE + 16, 0x400003, ABI_CUT_NO_TABLE, 3},
		{"saved rbp stays", 10, 0, 3, STACK_BASE + (10 + 2 * 4) * 8, 0x400003,
			ABI_CUT_NO_TABLE, 3},
		{"return address is data", 10, 0, 3, 0, 0x123, ABI_CUT_BAD_PC, 2},
		{"return address is no user address", 10, 0, 3, 0, 0xffffffff81000000ULL,
			ABI_CUT_BAD_PC, 2},
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		const struct stack_case *t = &cases[c];
		struct walk w;
		uint32_t n, want = 1 + t->want_frames + (t->want_cut != ABI_CUT_NONE);

		memset(stack_words, 0, sizeof(stack_words));
		for (unsigned i = 0; i < t->n_frames; i++) {
			uint64_t *pair = &stack_words[10 + 4 * i];

			pair[0] = i + 1 < t->n_frames ? STACK_BASE + (10 + 4 * (i + 1)) * 8
						      : t->last_fp;
			pair[1] = i + 1 < t->n_frames ? 0x400000 + i * 16 : t->last_ra;
		}
		n = walk(&w, t->fp == ~0ULL ? t->fp_value : STACK_BASE + t->fp * 8);
		if (n != want || w.cut != t->want_cut)
			fail_msg("%s: %u words, cut %u", t->name, n, w.cut);
		if (t->want_cut != ABI_CUT_NONE)
			assert_int_equal(words[n - 1], ABI_FRAME(ABI_FRAME_TRUNCATED, t->want_cut));
	}
}

/* A recursion that has just returned stands where its callers return to. Of these readers look one byte lower, of the leaf they do not. */
static void the_leaf_is_in_no_cycle(void **state)
{
	enum { DEPTH = 20 };
	const uint64_t frame = ABI_NATIVE(1, 0x401000);
	struct walk w;

	(void)state;
	memset(stack_words, 0, sizeof(stack_words));
	for (unsigned i = 0; i < DEPTH; i++) {
		stack_words[10 + 4 * i] = i + 1 < DEPTH ? STACK_BASE + (10 + 4 * (i + 1)) * 8 : 0;
		stack_words[11 + 4 * i] = 0x401000;
	}
	assert_int_equal(walk(&w, STACK_BASE + 80), 3);
	assert_int_equal(words[0], frame);
	assert_int_equal(words[1], frame);
	assert_int_equal(words[2], ABI_FRAME(ABI_FRAME_REPEAT, 1ULL << 32 | (DEPTH - 1)));
}

/*
 * Behind a call a result is passed on to the next one: musl's last frame looks like this, and so does much code without rows
 * that has callers and keeps frame pointers.
 */
static void passes_a_result_on(void **state)
{
	enum { NEXT = 18 };
	const uint64_t code = CODE_AT(CODE);
	static const struct {
		const char *name;
		uint64_t instructions, fp, ra; /* of that frame, its caller */
		uint32_t want_cut, want_frames;
		enum unwind_place place;
	} cases[] = {
		{"caller", 0xe8c78948, STACK_BASE + NEXT * 8, 0x400005, ABI_CUT_NONE, 2,
			UNWIND_IN_FILE},
		{"caller, 32 bits", 0xe8c789, STACK_BASE + NEXT * 8, 0x400005, ABI_CUT_NONE, 2,
			UNWIND_IN_FILE},
		{"rbp 0", 0xe8c78948, 0, 0, ABI_CUT_NONE, 1, UNWIND_IN_FILE},
		{"rbp below the stack pointer", 0xe8c78948, STACK_BASE + 8, 0, ABI_CUT_NONE, 1,
			UNWIND_IN_FILE},
		{"rbp odd", 0xe8c789, STACK_BASE + NEXT * 8 + 1, 0, ABI_CUT_NONE, 1,
			UNWIND_IN_FILE},
		{"rbp leads to data", 0xe8c78948, STACK_BASE + NEXT * 8, 0x123, ABI_CUT_NONE, 1,
			UNWIND_IN_FILE},
		{"other code", 0xc78948, STACK_BASE + NEXT * 8, 0x123, ABI_CUT_BAD_PC, 1,
			UNWIND_IN_FILE},
		{"JIT code's caller", 0xe8c78948, STACK_BASE + NEXT * 8, CODE_AT(CODE + 1),
			ABI_CUT_FP_INSANE, 2, UNWIND_IN_JIT},
		{"JIT code always has one", 0xe8c78948, STACK_BASE + NEXT * 8 + 1, 0,
			ABI_CUT_FP_INSANE, 1, UNWIND_IN_JIT},
		{"JIT code, 32 bits", 0xe8c789, STACK_BASE + NEXT * 8, 0x123, ABI_CUT_BAD_PC, 1,
			UNWIND_IN_JIT},
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		struct walk w;
		uint32_t n, want = 1 + cases[c].want_frames + (cases[c].want_cut != ABI_CUT_NONE);

		memset(stack_words, 0, sizeof(stack_words));
		stack_words[10] = cases[c].fp;
		stack_words[11] = code;
		stack_words[CODE - 1] = CALL_IN_FRONT;
		stack_words[CODE] = cases[c].instructions;
		stack_words[NEXT + 1] = cases[c].ra;
		code_place = cases[c].place;
		n = walk(&w, STACK_BASE + 10 * 8);
		code_place = UNWIND_IN_FILE;
		if (n != want || w.cut != cases[c].want_cut)
			fail_msg("%s: %u words, cut %u", cases[c].name, n, w.cut);
	}
}

/* Behind the system call of clone the new thread has no caller. JIT code has such instructions too. */
static void the_end_of_clone(void **state)
{
	static const enum unwind_place places[] = {UNWIND_IN_FILE, UNWIND_IN_JIT};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct walk w;

		memset(words, 0, sizeof(words));
		memset(stack_words, 0, sizeof(stack_words));
		stack_words[CODE] = 0x7cc08548; /* test %rax, %rax; jl */
		stack_words[10] = STACK_BASE + 14 * 8;
		stack_words[CODE + 10] = CALL_IN_FRONT;
		stack_words[11] = stack_words[15] = CODE_AT(CODE + 11);
		code_place = places[i];
		walk_init(&w, 0);
		w.pc = STACK_BASE + CODE * 8;
		w.regs[0] = 0;
		w.regs[UNWIND_SP] = STACK_BASE + 8;
		w.regs[UNWIND_FP] = STACK_BASE + 10 * 8;
		w.known = 1U << UNWIND_SP | 1U << UNWIND_FP;
		for (int step = 0; step < 4 && !walk_turn(&w, words); step++)
			;
		code_place = UNWIND_IN_FILE;
		assert_int_equal(
			w.cut, places[i] == UNWIND_IN_FILE ? ABI_CUT_NONE : ABI_CUT_FP_INSANE);
		assert_int_equal(w.n_steps, places[i] == UNWIND_IN_FILE ? 0 : 2);
	}
}

/* What JIT code's frame pointer leads to counts when a call left it there, and a 0 is no end but in a frame made by hand. */
static void jit_frames(void **state)
{
	enum { A = 10, B = 14, C = 18 }; /* frames */
	const uint64_t called = CODE_AT(CODE + 1), called_too = CODE_AT(CODE + 3),
		       written = CODE_AT(CODE + 5), in_file = CODE_AT(IN_FILE + 1),
		       in_file_written = CODE_AT(IN_FILE + 5);
	const struct {
		const char *name;
		uint64_t fp[3], ra[3]; /* saved in A, B and C */
		enum unwind_place place;
		uint32_t want_cut, want_callers;
	} cases[] = {
		{"an outermost frame made by hand", {CODE_AT(B), CODE_AT(C), 0},
			{called, called_too, written}, UNWIND_IN_JIT, ABI_CUT_NONE, 3},
		{"0 in a register", {CODE_AT(B), CODE_AT(C), 0}, {called, called_too, called},
			UNWIND_IN_JIT, ABI_CUT_FP_INSANE, 3},
		{"no return address", {CODE_AT(B), CODE_AT(C), 0}, {called, called_too, 0},
			UNWIND_IN_JIT, ABI_CUT_FP_INSANE, 2},
		{"not behind a call", {CODE_AT(B), CODE_AT(C), 0}, {called, written, written},
			UNWIND_IN_JIT, ABI_CUT_FP_INSANE, 1},
		{"into a file", {CODE_AT(B), CODE_AT(C), 0}, {called, called_too, in_file},
			UNWIND_IN_JIT, ABI_CUT_NONE, 3},
		{"any place in a file", {CODE_AT(B), CODE_AT(C), 0},
			{called, called_too, in_file_written}, UNWIND_IN_JIT, ABI_CUT_FP_INSANE, 2},
		{"code that cannot be read", {CODE_AT(B), CODE_AT(C), 0},
			{called, 0x400000, called}, UNWIND_IN_JIT, ABI_CUT_FP_INSANE, 1},
		{"down the stack", {CODE_AT(C), 0, CODE_AT(B)}, {called, called, called_too},
			UNWIND_IN_JIT, ABI_CUT_FP_INSANE, 2},
		{"told to keep them", {CODE_AT(B), CODE_AT(C), 0}, {written, written, in_file},
			UNWIND_IN_JIT_FP, ABI_CUT_NONE, 3},
		{"told to keep them, 0", {CODE_AT(B), CODE_AT(C), 0}, {written, called, written},
			UNWIND_IN_JIT_FP, ABI_CUT_FP_INSANE, 3},
		{"keeps none", {CODE_AT(B), CODE_AT(C), 0}, {called, called_too, in_file},
			UNWIND_IN_JIT_NO_FP, ABI_CUT_NO_TABLE, 0},
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		static const unsigned frames[] = {A, B, C};
		struct walk w;
		uint32_t n, want = 1 + cases[c].want_callers + (cases[c].want_cut != ABI_CUT_NONE);

		memset(stack_words, 0, sizeof(stack_words));
		stack_words[CODE] = stack_words[CODE + 2] = CALL_IN_FRONT;
		stack_words[IN_FILE] = CALL_IN_FRONT;
		for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
			stack_words[frames[i]] = cases[c].fp[i];
			stack_words[frames[i] + 1] = cases[c].ra[i];
		}
		code_place = cases[c].place;
		n = walk(&w, CODE_AT(A));
		code_place = UNWIND_IN_FILE;
		if (n != want || w.cut != cases[c].want_cut)
			fail_msg("%s: %u words, cut %u", cases[c].name, n, w.cut);
	}
}

/* Code without rows that keeps no frame pointer: where it gives back its frame and returns, behind a call or not, that says it all. */
static void frames_given_back(void **state)
{
	enum { PLACE = 8, FRAME = 20 };
	static const struct {
		const char *name;
		uint64_t code; /* at pc */
		bool exact;
		uint32_t above; /* words between sp and the return address; UINT32_MAX: not known */
		bool pops;
	} cases[] = {
		{"behind a call", 0x9090c308c48348, false, 1, false},
		{"behind a call, a large frame", 0xc300000020c48148, false, 4, false},
		{"behind a call, with its frame pointer", 0xc35d10c48348, false, 3, true},
		{"its frame pointer alone", 0xc35d, false, 1, true},
		{"leaf", 0xc308c48348, true, 1, false},
		{"Python's trampoline, first", 0x8348d1ff08ec8348, true, 0, false},
		{"its call", 0xc308c48348d1ff, true, 1, false},
		{"a call of something else", 0x9008c48348d1ff, true, UINT32_MAX, false},
		{"no return", 0x9008c48348, false, UINT32_MAX, false},
		{"a frame that grows", 0xc3f8c48348, false, UINT32_MAX, false},
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		const bool is_known = cases[c].above != UINT32_MAX;
		struct walk w;

		memset(stack_words, 0, sizeof(stack_words));
		stack_words[PLACE] = cases[c].code;
		stack_words[CODE] = CALL_IN_FRONT;
		for (uint32_t i = 0; is_known && i < cases[c].above; i++)
			stack_words[FRAME + i] = 0x1111 * (i + 1);
		stack_words[FRAME + (is_known ? cases[c].above : 0)] = CODE_AT(CODE + 1);
		walk_init(&w, 0);
		w.regs[UNWIND_SP] = CODE_AT(FRAME);
		w.regs[UNWIND_FP] = 0x4711;
		w.known = 1U << UNWIND_SP | 1U << UNWIND_FP;
		w.pc = CODE_AT(PLACE);
		w.exact = cases[c].exact;
		code_place = UNWIND_IN_JIT;
		(void)walk_turn(&w, words);
		code_place = UNWIND_IN_FILE;
		if ((w.n_steps == 1 && w.pc == CODE_AT(CODE + 1)) != is_known)
			fail_msg("%s: %u steps to %#llx, cut %u", cases[c].name, w.n_steps,
				(unsigned long long)w.pc, w.cut);
		if (!is_known)
			continue;
		assert_int_equal(walk_need(&w, UNWIND_FP), UNWIND_MORE);
		assert_int_equal(w.regs[UNWIND_SP], CODE_AT(FRAME + cases[c].above + 1));
		assert_int_equal(w.regs[UNWIND_FP],
			cases[c].pops ? 0x1111 * cases[c].above : (uint64_t)0x4711);
	}
}

/*
 * BEAM's code with frame pointers, leaf and below C: a 0 in the register is the end; a return address need not follow a call,
 * but lies in JIT code. Where a function has no frame of its own the return address is at the stack pointer.
 */
static void beam_frames(void **state)
{
	enum { A = 10, B = 14, LEAF = 21000, OTHER = 21010, ENTRY = 21020 };
	static const uint64_t enter = 0xd4a8e89006eb, push = 0xe5894855, moved = 0xe58948,
			      decrease = 0xff0000008c0fceff, jump_less = 0xc3112233448c0f,
			      tail_call = 0xe024ff42, tested = 0xc3c085, other = 0x90;
	const uint64_t ra = CODE_AT(OTHER), second_ra = CODE_AT(OTHER + 1),
		       to_entry = 0xe9 | (uint64_t)(8 * (ENTRY - LEAF) - 5) << 8,
		       to_other = 0xe9 | (uint64_t)(8 * (OTHER - LEAF) - 5) << 8,
		       to_entry_short = 0xeb | (uint64_t)(8 * 3 - 2) << 8;
	const struct {
		const char *name;
		uint64_t code, code_after, fp, at_sp;
		uint64_t fp_saved[2], ra[2]; /* in A and B */
		uint32_t want_cut, want_callers;
	} cases[] = {
		{"a frame", other, 0, CODE_AT(A), 0x3b, {CODE_AT(B), 0}, {ra, ra}, 0, 2},
		{"no function runs", other, 0, 0, 0, {0, 0}, {0, 0}, 0, 0},
		{"its stack is elsewhere", other, 0, CODE_AT(A), 0, {0, 0}, {ra, 0}, 0, 1},
		{"a frame of C code", other, 0, CODE_AT(A), 0, {CODE_AT(B), 0},
			{ra, CODE_AT(IN_FILE + 1)}, ABI_CUT_FP_INSANE, 2},
		{"what was a stack", other, 0, CODE_AT(A), 0, {CODE_AT(B), 0}, {ra, 0},
			ABI_CUT_BAD_PC, 1},
		{"that is used anew", other, 0, CODE_AT(A), 0, {0, 0}, {CODE_AT(CODE + 1), 0},
			ABI_CUT_FP_INSANE, 1},
		{"without its last word", other, 0, CODE_AT(A), 0, {CODE_AT(B), 0}, {ra, 8 * 11}, 0,
			1},
		{"which is any number", other, 0, CODE_AT(A), 0, {CODE_AT(B), 0}, {ra, 8 * 12},
			ABI_CUT_BAD_PC, 1},
		{"and more", other, 0, CODE_AT(A), 0, {CODE_AT(B), CODE_AT(A)}, {ra, 8 * 11},
			ABI_CUT_BAD_PC, 1},
		{"and holds numbers", other, 0, CODE_AT(A), 0, {0x4711, 0}, {ra, 0},
			ABI_CUT_FP_INSANE, 1},
		{"begins", enter, push, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 2},
		{"pushes", push, 0, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 2},
		{"pushed", moved, 0, 1, CODE_AT(A), {0, 0}, {ra, 0}, 0, 2},
		{"left, 1", 0x49 | decrease << 8, 0, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 2},
		{"left, 2", jump_less, 0, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 2},
		{"left, 3", 0xc3, 0, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 2},
		{"left, the outermost", 0xc3, 0, 0, second_ra, {0, 0}, {0, 0}, 0, 1},
		{"left a fragment", tested, 0, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 2},
		{"calls in its place", tail_call, 0, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 2},
		{"jumps to a function", to_entry, 0, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 2},
		{"a near one", to_entry_short, 0, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 2},
		{"jumps over a call", enter, other, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 1},
		{"jumps elsewhere", to_other, 0, CODE_AT(A), second_ra, {0, 0}, {ra, 0}, 0, 1},
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		struct walk w;

		memset(stack_words, 0, sizeof(stack_words));
		stack_words[LEAF] = cases[c].code;
		stack_words[LEAF + 1] = cases[c].code_after;
		stack_words[ENTRY] = stack_words[LEAF + 3] = enter;
		stack_words[ENTRY + 1] = stack_words[LEAF + 4] = push;
		stack_words[2] = cases[c].at_sp;
		stack_words[3] = second_ra;
		stack_words[CODE] = CALL_IN_FRONT;
		stack_words[B + 2 - 11] = 8 * 11 | 3; /* a block that ends behind B */
		for (size_t i = 0; i < 2; i++) {
			stack_words[i ? B : A] = cases[c].fp_saved[i];
			stack_words[(i ? B : A) + 1] = cases[c].ra[i];
		}
		memset(words, 0, sizeof(words));
		walk_init(&w, 0);
		w.pc = CODE_AT(LEAF);
		w.regs[UNWIND_SP] = STACK_BASE + 2 * 8;
		w.regs[UNWIND_FP] = cases[c].fp;
		w.known = 1U << UNWIND_SP | 1U << UNWIND_FP;
		code_place = UNWIND_IN_JIT_CHAIN;
		for (int step = 0; step < 5 && !walk_turn(&w, words); step++)
			;
		code_place = UNWIND_IN_FILE;
		if (w.cut != cases[c].want_cut || w.n_steps != cases[c].want_callers)
			fail_msg("%s: cut %u, %u callers", cases[c].name, w.cut, w.n_steps);
		if (cases[c].at_sp == second_ra && cases[c].want_callers == 2)
			assert_int_equal(words[1], ABI_FRAME(ABI_FRAME_JIT, second_ra));
	}
}

/* Each form of a call before a return address, and what looks like one. */
static void calls(void **state)
{
	static const struct {
		uint8_t bytes[8]; /* those before the return address */
		bool is_call;
	} cases[] = {
		{{0x90, 0x90, 0x90, 0xe8, 1, 2, 3, 4}, true},  /* call rel32 */
		{{0x90, 0x90, 0x90, 0xe9, 1, 2, 3, 4}, false}, /* jmp rel32 */
		{{0, 0, 0, 0, 0, 0, 0xff, 0xd0}, true},	       /* call *%rax */
		{{0, 0, 0, 0, 0, 0x41, 0xff, 0xd3}, true},     /* call *%r11 */
		{{0, 0, 0, 0, 0, 0, 0xff, 0xe0}, false},       /* jmp *%rax */
		{{0, 0, 0, 0, 0, 0, 0xff, 0x10}, true},	       /* call *(%rax) */
		{{0, 0, 0, 0, 0, 0, 0xff, 0x14}, false},       /* needs a SIB */
		{{0, 0, 0, 0, 0, 0xff, 0x14, 0xc8}, true},     /* call *(%rax,%rcx,8) */
		{{0, 0, 0, 0, 0, 0xff, 0x50, 0x18}, true},     /* call *0x18(%rax) */
		{{0, 0, 0, 0, 0xff, 0x54, 0x24, 0x08}, true},  /* call *8(%rsp) */
		{{0, 0, 0xff, 0x90, 1, 0, 0, 0}, true},	       /* call *1(%rax), 32 bits */
		{{0, 0, 0xff, 0x15, 1, 2, 3, 4}, true},	       /* call *rel32(%rip) */
		{{0, 0xff, 0x94, 0xc8, 1, 0, 0, 0}, true},     /* call *1(%rax,%rcx,8) */
		{{0, 0xff, 0x14, 0x25, 1, 0, 0, 0}, true},     /* call *1 */
		{{0, 0, 0, 0, 0, 0, 0, 0}, false},
		{{0xe8, 0xe8, 0xe8, 0, 0xe8, 0xe8, 0xe8, 0xe8}, false},
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		uint64_t bytes;

		memcpy(&bytes, cases[c].bytes, sizeof(bytes));
		if (walk_ends_in_call(bytes) != cases[c].is_call)
			fail_msg("case %zu", c);
	}
}

/*
 * Code of a file without rows, called by code that keeps no frame pointers: a 0 in the register is any number, and the stack is
 * no whole one.
 */
static void zero_below_rows(void **state)
{
	static const struct {
		enum unwind_method method;
		uint64_t code; /* before the return address */
		uint32_t want_cut;
	} cases[] = {
		{UNWIND_BY_CFI, CALL_IN_FRONT, ABI_CUT_NO_TABLE},
		{UNWIND_BY_FP, CALL_IN_FRONT, ABI_CUT_NONE},
		{UNWIND_BY_CFI, 0x12345678e8e78948, ABI_CUT_NONE}, /* a program's entry */
		{UNWIND_BY_CFI, 0x12345678e8f0e483, ABI_CUT_NONE},
		{UNWIND_BY_CFI, 0x12345678e8ed3100, ABI_CUT_NONE},
		{UNWIND_BY_CFI, 0x12345678e8e68948, ABI_CUT_NO_TABLE},
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		struct walk w;

		memset(stack_words, 0, sizeof(stack_words));
		stack_words[CODE - 1] = cases[c].code;
		walk_init(&w, 0);
		w.regs[UNWIND_SP] = STACK_BASE;
		w.known = UNWIND_ALL_REGS;
		assert_int_equal(walk_arrive(&w, CODE_AT(CODE), STACK_BASE + 8, cases[c].method),
			UNWIND_MORE);
		w.exact = 0;
		w.regs[UNWIND_FP] = 0;
		assert_int_equal(walk_turn(&w, words), 1);
		assert_int_equal(w.cut, cases[c].want_cut);
	}
}

/* A fiber of Boost.Context returns to code that ends the program: that is its first frame. */
static void root_of_a_fiber(void **state)
{
	struct walk w;

	(void)state;
	for (int is_root = 0; is_root < 2; is_root++) {
		memset(stack_words, 0, sizeof(stack_words));
		stack_words[CODE] = 0x12345678e8ff3148; /* xor %rdi, %rdi; call */
		stack_words[CODE + 1] = is_root ? 0xf4 : 0x90;
		walk_init(&w, 0);
		w.regs[UNWIND_SP] = STACK_BASE;
		w.known = UNWIND_ALL_REGS;
		assert_int_equal(
			walk_arrive(&w, CODE_AT(CODE), STACK_BASE + 8, UNWIND_BY_CFI), UNWIND_MORE);
		w.exact = 0;
		w.regs[UNWIND_FP] = 0x4711;
		assert_int_equal(walk_turn(&w, words), 1);
		assert_int_equal(w.cut, is_root ? ABI_CUT_NONE : ABI_CUT_NO_TABLE);
	}
}

static void step_limit(void **state)
{
	struct walk w;
	uint32_t n;

	(void)state;
	for (unsigned i = 0; i < ABI_MAX_STEPS + 100; i++) {
		stack_words[10 + 2 * i] = STACK_BASE + (10 + 2 * (i + 1)) * 8;
		stack_words[11 + 2 * i] = 0x400000 + i * 16;
	}
	n = walk(&w, STACK_BASE + 80);
	assert_int_equal(n, ABI_MAX_USER_WORDS);
	assert_int_equal(words[n - 1], ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_DEPTH));
	assert_int_equal(ABI_FRAME_VALUE(words[512]), ABI_MAX_STEPS + 1 - 1024);
}

/* Where a binary's table or the mappings are still to come, no caller is guessed by frame pointer: it may have left one out. */
static void no_guess(void **state)
{
	static const enum unwind_place places[] = {
		UNWIND_IN_FILE, UNWIND_SOMEWHERE, UNWIND_IN_DATA};
	struct walk w;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		memset(stack_words, 0, sizeof(stack_words));
		stack_words[2] = STACK_BASE + 80;
		stack_words[3] = 0x400001;
		has_table = false;
		code_place = places[i];
		assert_int_equal(walk(&w, STACK_BASE + 16), 2);
		assert_int_equal(w.cut, ABI_CUT_NO_TABLE);
		assert_true(w.lacks);
		assert_int_equal(w.n_steps, 0);
		has_table = true;
		code_place = UNWIND_IN_FILE;
		assert_true(walk(&w, STACK_BASE + 16) > 1);
		assert_false(w.lacks);
	}
}

/* What is read through the window is what is there, wherever pages and the stack end. */
static void window(void **state)
{
	static struct walk w;
	uint64_t end = STACK_BASE + sizeof(stack_words);
	__u64 got[2], want[2];

	(void)state;
	for (size_t i = 0; i < STACK_WORDS; i++)
		stack_words[i] = i * 0x9e3779b97f4a7c15ULL;
	walk_init(&w, 0);
	srand(1);
	for (int i = 0; i < 100000; i++) {
		uint64_t near = i % 3 ? (uint64_t)rand() % 8192 : sizeof(stack_words) - 64;
		uint64_t from = STACK_BASE + near + (uint64_t)rand() % 128;
		uint32_t n = 1 + (uint32_t)i % 2;

		if (i % 7)
			from &= ~7ULL;
		memset(got, 0, sizeof(got));
		memset(want, 0, sizeof(want));
		assert_int_equal(unwind_read_stack(&w, got, n, from) != 0, from + 8 * n > end);
		if (from + 8 * n > end)
			continue;
		(void)unwind_read_user(&w, want, 8 * n, from);
		assert_memory_equal(got, want, sizeof(got));
	}
	/* Frames of 64 bytes: eight by one read. */
	walk_init(&w, 0);
	n_reads = 0;
	for (uint64_t i = 0; i < 512; i++)
		assert_int_equal(unwind_read_stack(&w, got, 2, STACK_BASE + 64 * i + 48), 0);
	assert_in_range(n_reads, 1, 512 / 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window),
		cmocka_unit_test(recursion),
		cmocka_unit_test(elision),
		cmocka_unit_test(elided_recursion),
		cmocka_unit_test(frame_pointers),
		cmocka_unit_test(the_leaf_is_in_no_cycle),
		cmocka_unit_test(passes_a_result_on),
		cmocka_unit_test(the_end_of_clone),
		cmocka_unit_test(jit_frames),
		cmocka_unit_test(frames_given_back),
		cmocka_unit_test(beam_frames),
		cmocka_unit_test(calls),
		cmocka_unit_test(zero_below_rows),
		cmocka_unit_test(root_of_a_fiber),
		cmocka_unit_test(step_limit),
		cmocka_unit_test(no_guess),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
