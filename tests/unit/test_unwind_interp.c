/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of a language among native ones, in a program that is laid here: native frames by frame pointer, a thread, and chains of frames as
 * each kind of CPython has them, whole and broken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "lib/base/cleanup.h"
#include "tests/unit/unwind_host.h"

/*
 * The stack has native frame i at STACK + i * NATIVE_BYTES, its frame pointer at the end. Code objects are numbers: frame k of the language
 * has CODES + k * CODE_BYTES.
 */
enum {
	N_NATIVE = 6,
	NATIVE_BYTES = 0x100,
	CODE_BYTES = 0x100,
	FRAME_BYTES = 0x100,
	MAX_PYTHON = 4096,
	CODE_START = 0xc0,
};
#define STACK_AT 0x7fff00000000ULL
#define FRAMES_AT 0x7f0000000000ULL
#define CODES_AT 0x7e0000000000ULL
#define TP 0x7d0000000000ULL
#define THREAD_AT 0x7c0000000000ULL
#define NATIVE_AT 0x400000ULL
#define DTV_AT 0x7b0000001000ULL
#define BLOCK_AT 0x7a0000000000ULL

static struct memory {
	uint8_t stack[N_NATIVE * NATIVE_BYTES + 64];
	uint8_t frames[MAX_PYTHON * FRAME_BYTES];
	uint8_t thread[0x1000], tp[0x1000], dtv[0x2000], block[0x100];
	uint64_t
		endless; /* frames from this address on are each the caller of the one before; 0: none */
	unsigned n_reads;
} memory;

static const struct region {
	uint64_t at;
	uint8_t *bytes;
	size_t n;
} regions[] = {
	{STACK_AT, memory.stack, sizeof(memory.stack)},
	{FRAMES_AT, memory.frames, sizeof(memory.frames)},
	{THREAD_AT, memory.thread, sizeof(memory.thread)},
	{TP, memory.tp, sizeof(memory.tp)},
	{DTV_AT - 0x1000, memory.dtv, sizeof(memory.dtv)},
	{BLOCK_AT, memory.block, sizeof(memory.block)},
};

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	memory.n_reads++;
	for (size_t i = 0; i < ARRAY_SIZE(regions); i++) {
		const struct region *r = &regions[i];

		if (from >= r->at && from - r->at <= r->n && bytes <= r->n - (from - r->at)) {
			memcpy(to, r->bytes + (from - r->at), bytes);
			return 0;
		}
	}
	if (memory.endless && from >= memory.endless && from < memory.endless + (1ULL << 32)) {
		uint64_t frame[32] = {CODES_AT + (from & 0xfffff0), from + FRAME_BYTES};

		frame[7] = frame[0] + CODE_START;
		memcpy(to, frame, bytes);
		return 0;
	}
	return -1;
}

/* All code keeps frame pointers. */
static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	w->binary = 1;
	w->off = addr;
	return UNWIND_NEVER_KNOWN;
}

static void put(uint64_t at, uint64_t v)
{
	for (size_t i = 0; i < ARRAY_SIZE(regions); i++)
		if (at >= regions[i].at && at - regions[i].at < regions[i].n) {
			memcpy(regions[i].bytes + (at - regions[i].at), &v, sizeof(v));
			return;
		}
	fail_msg("no memory at %#lx", at);
}

static const struct interp_layout shims = {
	.kind = INTERP_PYTHON_SHIMS,
	.thread_from = 72,
	.thread_bytes = 88,
	.thread_frame = 72,
	.thread_cframe = INTERP_NO_FIELD,
	.thread_id = 152,
	.thread_base_frame = INTERP_NO_FIELD,
	.cframe_frame = INTERP_NO_FIELD,
	.cframe_back = INTERP_NO_FIELD,
	.frame_code = 0,
	.frame_back = 8,
	.frame_position = 56,
	.frame_owner = 74,
	.frame_is_entry = INTERP_NO_FIELD,
	.code_start = CODE_START,
	.tag_mask = 7,
	.position_bytes = 2,
};

/* Native frames: each one's frame pointer is at its end, below its return address. */
static void lay_native(void)
{
	memory = (struct memory) {0};
	for (unsigned i = 0; i < N_NATIVE; i++) {
		uint64_t fp = STACK_AT + (i + 1) * NATIVE_BYTES - 16;

		put(fp, i + 1 < N_NATIVE ? fp + NATIVE_BYTES : 0);
		put(fp + 8, i + 1 < N_NATIVE ? NATIVE_AT + 0x10 * (i + 1) : 0);
	}
	put(THREAD_AT + 152, TP);
	put(TP + 0x100, THREAD_AT);
}

/* The place of the mark of the interpreter's entry in native frame i. */
static uint64_t mark_in(unsigned native)
{
	return STACK_AT + native * NATIVE_BYTES + 0x40;
}

static uint64_t frame_at(unsigned k)
{
	return FRAMES_AT + k * FRAME_BYTES;
}

static void lay_frame(unsigned k, uint64_t back)
{
	uint64_t code = CODES_AT + k * CODE_BYTES;

	put(frame_at(k), code);
	put(frame_at(k) + 8, back);
	put(frame_at(k) + 56, code + CODE_START + 2 * k);
	put(frame_at(k) + 72, 0);
}

static void lay_shim(uint64_t at, uint64_t back)
{
	put(at, 0x7000001);
	put(at + 8, back);
	put(at + 72, 3ULL << 16);
}

struct stack {
	__u64 words[ABI_MAX_WORDS + 1], spare[ABI_USER_TAIL_WORDS];
	unsigned n;
	struct walk w;
};

static struct interp_process tls = {.states = {{.by = INTERP_BY_TP, .off = 0x100}}};

static void walk(struct stack *s, const struct interp_layout *l, const struct interp_process *p)
{
	walk_init(&s->w, 0);
	s->w.pc = NATIVE_AT;
	s->w.regs[UNWIND_SP] = STACK_AT;
	s->w.regs[UNWIND_FP] = STACK_AT + NATIVE_BYTES - 16;
	s->w.known = UNWIND_ALL_REGS;
	host_interp.layout = *l;
	host_interp.process = *p;
	host_interp.tp = TP;
	interp_begin(&s->w, &host_interp);
	while (!walk_turn(&s->w, s->words))
		;
	host_interp_rest(&s->w, s->words);
	s->n = frames_end(&s->w.frames, s->words, s->spare, s->w.cut);
}

/* "n0 p0 p1 n1 …": native frames and those of the language by number, "cut=reason". REPEAT words are not expected. */
static void check(const struct stack *s, const char *expected)
{
	char text[8192] = "";
	size_t at = 0;

	for (unsigned i = 0; i < s->n; i++) {
		__u64 f = s->words[i], v = ABI_FRAME_VALUE(f);

		if (ABI_FRAME_KIND(f) == ABI_FRAME_INTERP) {
			uint64_t k = ((ABI_INTERP_OBJECT(f) << 3) - CODES_AT) / CODE_BYTES;

			assert_int_equal(ABI_INTERP_POSITION(f), k);
			at += (size_t)snprintf(text + at, sizeof(text) - at, "p%lu ", k);
		} else if (ABI_FRAME_KIND(f) == ABI_FRAME_RAW) {
			at += (size_t)snprintf(text + at, sizeof(text) - at, "n%llu%s ",
				(v - NATIVE_AT) / 16, (v & 15) ? "+" : "");
		} else {
			assert_int_equal(ABI_FRAME_KIND(f), ABI_FRAME_TRUNCATED);
			at += (size_t)snprintf(text + at, sizeof(text) - at, "cut=%llu ", v);
		}
	}
	if (at)
		text[at - 1] = 0;
	assert_string_equal(text, expected);
}

static const char lost[] = "n0 n1 n2 n3 n4 n5 cut=11";

/* Two entries: frames 0 and 1, called from C in native frame 1; frames 2 and 3 from native frame 4. */
static void lay_two_runs(void)
{
	lay_native();
	put(THREAD_AT + 72, frame_at(0));
	lay_frame(0, frame_at(1));
	lay_frame(1, mark_in(1));
	lay_shim(mark_in(1), frame_at(2));
	lay_frame(2, frame_at(3));
	lay_frame(3, mark_in(4));
	lay_shim(mark_in(4), 0);
}

static void test_runs(void **state)
{
	static struct stack s;

	(void)state;
	lay_two_runs();
	walk(&s, &shims, &tls);
	check(&s, "n0 p0 p1 n1 n2 n3 p2 p3 n4 n5");
	assert_int_equal(s.w.cut, ABI_CUT_NONE);
	assert_int_equal(host_interp.n_frames, 4);

	/* from 3.14 on low bits of a code object's address say whether it is counted */
	put(frame_at(1), CODES_AT + CODE_BYTES + 1);
	walk(&s, &shims, &tls);
	check(&s, "n0 p0 p1 n1 n2 n3 p2 p3 n4 n5");

	/* the chain ends with a frame that has an address of its own */
	struct interp_layout base = shims;

	base.thread_base_frame = 80;
	put(THREAD_AT + 80, frame_at(9));
	lay_shim(frame_at(9), 0);
	lay_shim(mark_in(4), frame_at(9));
	walk(&s, &base, &tls);
	check(&s, "n0 p0 p1 n1 n2 n3 p2 p3 n4 n5");
}

/* A leaf in the interpreter's own function: its word is no longer the first, and is read as a return address. */
static void test_leaf_is_the_interpreter(void **state)
{
	static struct stack s;

	(void)state;
	lay_two_runs();
	lay_frame(1, mark_in(0));
	lay_shim(mark_in(0), frame_at(2));
	walk(&s, &shims, &tls);
	check(&s, "p0 p1 n0+ n1 n2 n3 p2 p3 n4 n5");
}

/* C code that was called from the interpreter is left: the innermost frame of the chain is the mark. */
static void test_entry_without_frames(void **state)
{
	static struct stack s;

	(void)state;
	lay_two_runs();
	put(THREAD_AT + 72, mark_in(1));
	walk(&s, &shims, &tls);
	check(&s, "n0 n1 n2 n3 p2 p3 n4 n5");
	assert_int_equal(s.w.cut, ABI_CUT_NONE);
}

/* Several entries in one native frame, where the compiler has put one function into the other. */
static void test_two_marks_in_a_frame(void **state)
{
	static struct stack s;

	(void)state;
	lay_two_runs();
	lay_frame(3, mark_in(1) + 0x50);
	lay_shim(mark_in(1) + 0x50, 0);
	walk(&s, &shims, &tls);
	check(&s, "n0 p0 p1 p2 p3 n1 n2 n3 n4 n5");
}

static void test_no_frames(void **state)
{
	static struct stack s;

	(void)state;
	lay_two_runs();
	put(THREAD_AT + 72, 0);
	walk(&s, &shims, &tls);
	check(&s, "n0 n1 n2 n3 n4 n5");
	assert_int_equal(s.w.cut, ABI_CUT_NONE);
	/* the runtime does not know the thread */
	put(TP + 0x100, 0);
	walk(&s, &shims, &tls);
	check(&s, "n0 n1 n2 n3 n4 n5");
	assert_int_equal(s.w.cut, ABI_CUT_NONE);
	assert_int_equal(s.w.has_interp, 0);
}

static void test_long_run(void **state)
{
	enum { N = 300 };
	static struct stack s;

	(void)state;
	lay_two_runs();
	put(THREAD_AT + 72, frame_at(10));
	for (unsigned k = 10; k < 10 + N; k++)
		lay_frame(k, k + 1 < 10 + N ? frame_at(k + 1) : mark_in(1));
	walk(&s, &shims, &tls);
	assert_int_equal(s.w.cut, ABI_CUT_NONE);
	assert_int_equal(s.n, N_NATIVE + N + 2);
	for (unsigned k = 0; k < N; k++)
		assert_int_equal(ABI_INTERP_POSITION(s.words[1 + k]), 10 + k);
	assert_int_equal(ABI_FRAME_KIND(s.words[1 + N]), ABI_FRAME_RAW);
	assert_int_equal(ABI_INTERP_POSITION(s.words[1 + N + 3]), 2);
}

static void test_ways_to_the_state(void **state)
{
	static struct stack s;
	struct interp_process p = {
		.states = {{.by = INTERP_BY_TP, .off = 0x200}, {.by = INTERP_BY_TP, .off = 0x100}}};

	(void)state;
	lay_two_runs();
	walk(&s, &shims, &p); /* the first gives 0 */
	check(&s, "n0 p0 p1 n1 n2 n3 p2 p3 n4 n5");

	p.states[0].by = INTERP_BY_NOTHING;
	p.states[1].by = INTERP_BY_DTV;
	p.states[1].module = 3;
	p.states[1].off = 0x18;
	put(TP + (UNWIND_ARM64 ? 0 : 8), DTV_AT);
	put(DTV_AT - 16, 20);
	put(DTV_AT + 3 * 16, BLOCK_AT);
	put(BLOCK_AT + 0x18, THREAD_AT);
	walk(&s, &shims, &p);
	check(&s, "n0 p0 p1 n1 n2 n3 p2 p3 n4 n5");

	put(DTV_AT + 3 * 16, UINT64_MAX); /* the thread has not used the module yet */
	walk(&s, &shims, &p);
	check(&s, "n0 n1 n2 n3 n4 n5");
	put(DTV_AT + 3 * 16, BLOCK_AT);
	put(DTV_AT - 16, 2); /* it was loaded after the thread's array was made */
	walk(&s, &shims, &p);
	check(&s, "n0 n1 n2 n3 n4 n5");
	assert_int_equal(s.w.cut, ABI_CUT_NONE);
	put(TP + (UNWIND_ARM64 ? 0 : 8), 0x10);
	walk(&s, &shims, &p);
	check(&s, lost);
}

/* What is read is not what it should be: no frame comes of it, and the stack says so. */
static void test_lost(void **state)
{
	static const struct {
		uint64_t at, v;
		const char *expected;
	} cases[] = {
		{THREAD_AT + 152, TP + 8, lost}, /* another thread's state */
		{TP + 0x100, 0x10, lost},
		{THREAD_AT + 72, 0x10, lost},
		{FRAMES_AT, 0x100, lost}, /* no address of an object */
		{FRAMES_AT, 3, lost},	  /* a tagged number */
		{FRAMES_AT, 0xffffffff81000000ULL, lost},
		{FRAMES_AT + 72, 9ULL << 16, lost}, /* an owner that there is not */
		{FRAMES_AT + 8, 0x10, "n0 n1 n2 n3 n4 n5 p0 cut=11"},
		{FRAMES_AT + 2 * FRAME_BYTES + 8, 0x10, "n0 p0 p1 n1 n2 n3 n4 n5 p2 cut=11"},
		/* marks that no native frame has, above and below */
		{FRAMES_AT + 3 * FRAME_BYTES + 8, FRAMES_AT + 9 * FRAME_BYTES,
			"n0 p0 p1 n1 n2 n3 n4 n5 p2 p3 cut=12"},
		/* nobody entered it */
		{FRAMES_AT + 3 * FRAME_BYTES + 8, 0, "n0 p0 p1 n1 n2 n3 n4 n5 cut=12"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct stack s;

		lay_two_runs();
		lay_shim(frame_at(9), 0);
		put(cases[i].at, cases[i].v);
		walk(&s, &shims, &tls);
		check(&s, cases[i].expected);
	}
}

/* A mark below the stack pointer is of an entry that was left. */
static void test_mark_below_the_stack(void **state)
{
	static struct stack s;

	(void)state;
	lay_two_runs();
	lay_frame(1, frame_at(9));
	lay_shim(frame_at(9), frame_at(2));
	walk(&s, &shims, &tls);
	check(&s, "n0 n1 n2 n3 n4 n5 p0 p1 p2 p3 cut=12");
}

/* Native frames that cannot be walked: what is left of the language goes before the reason. */
static void test_native_is_cut(void **state)
{
	static struct stack s;

	(void)state;
	lay_two_runs();
	put(STACK_AT + 3 * NATIVE_BYTES - 16, 0x11);
	walk(&s, &shims, &tls);
	check(&s, "n0 p0 p1 n1 n2 n3 p2 p3 cut=4");
	assert_int_equal(host_interp.cut, ABI_CUT_NONE);
}

/* Loops of frames and of entries, and a chain of a million frames, come to an end that says so. */
static void test_endless(void **state)
{
	enum { MOST_READS = 2 * INTERP_MAX_FRAMES + 100 };
	static struct stack s;

	(void)state;
	lay_two_runs();
	lay_frame(1, frame_at(0));
	walk(&s, &shims, &tls);
	assert_int_equal(s.w.cut, ABI_CUT_DEPTH);
	assert_in_range(memory.n_reads, INTERP_MAX_FRAMES, MOST_READS);

	lay_two_runs();
	lay_shim(mark_in(1), mark_in(1));
	walk(&s, &shims, &tls);
	assert_int_equal(s.w.cut, ABI_CUT_DEPTH);
	assert_in_range(memory.n_reads, INTERP_MAX_FRAMES, MOST_READS);

	lay_two_runs();
	lay_shim(mark_in(1), frame_at(0));
	walk(&s, &shims, &tls);
	assert_int_equal(s.w.cut, ABI_CUT_DEPTH);

	lay_two_runs();
	memory.endless = 0x790000000000ULL;
	put(THREAD_AT + 72, memory.endless);
	walk(&s, &shims, &tls);
	assert_int_equal(s.w.cut, ABI_CUT_DEPTH);
	assert_in_range(memory.n_reads, INTERP_MAX_FRAMES, MOST_READS);
	assert_true(s.n <= ABI_MAX_USER_WORDS);
}

/* Positions: an address of an instruction, bytes, instructions. */
static void test_positions(void **state)
{
	static const struct {
		uint16_t unit;
		uint64_t raw; /* of unit 2: from the first instruction */
		uint32_t expected;
	} cases[] = {
		{2, 0, 0},
		{2, 62, 31},
		{2, (uint64_t)-2, ABI_INTERP_AT_START}, /* 3.11, 3.12: before the first one */
		{2, 2 * 0xfffdULL, 0xfffd},
		{2, 2 * 0xfffeULL, ABI_INTERP_BEYOND},
		{2, (uint64_t)-400, ABI_INTERP_BEYOND},
		{2, 1ULL << 40, ABI_INTERP_BEYOND},
		{1, 62, 31},
		{1, 0xffffffff, ABI_INTERP_AT_START},
		{1, 0xabcd00000000003eULL, 31}, /* 32 bits of it */
		{0, 31, 31},
		{0, 0xffffffff, ABI_INTERP_AT_START},
		{0, 0xfffe, ABI_INTERP_BEYOND},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct stack s;
		struct interp_layout l = shims;

		lay_two_runs();
		l.position_bytes = cases[i].unit;
		put(frame_at(0) + 56,
			cases[i].raw + (cases[i].unit == 2 ? CODES_AT + CODE_START : 0));
		walk(&s, &l, &tls);
		assert_int_equal(ABI_INTERP_POSITION(s.words[1]), cases[i].expected);
	}
}

/* 3.10 and 3.11: the chain of C structures is the one that has the marks. */
static void lay_cframes(struct interp_layout *l)
{
	lay_two_runs();
	*l = shims;
	l->kind = INTERP_PYTHON_CFRAMES;
	l->thread_frame = INTERP_NO_FIELD;
	l->thread_cframe = 72;
	l->cframe_frame = 8;
	l->cframe_back = 16;
	l->frame_owner = INTERP_NO_FIELD;
	l->frame_is_entry = 68;
	l->tag_mask = 0;
	put(THREAD_AT + 72, mark_in(1));
	put(mark_in(1) + 8, frame_at(0));
	put(mark_in(1) + 16, mark_in(4));
	put(mark_in(4) + 8, frame_at(2));
	put(mark_in(4) + 16, THREAD_AT + 0x108);
	lay_frame(1, frame_at(2));
	put(frame_at(1) + 64, 1ULL << 32);
	lay_frame(3, 0);
	put(frame_at(3) + 64, 1ULL << 32);
}

static void test_cframes(void **state)
{
	static struct stack s;
	struct interp_layout l;

	(void)state;
	lay_cframes(&l);
	walk(&s, &l, &tls);
	check(&s, "n0 p0 p1 n1 n2 n3 p2 p3 n4 n5");
	/* the structure of an entry that has not set its frame yet */
	put(mark_in(4) + 8, frame_at(3));
	walk(&s, &l, &tls);
	check(&s, "n0 n1 n2 n3 n4 n5 cut=12");

	/* 3.10: each frame has a structure */
	lay_cframes(&l);
	l.thread_cframe = 72;
	l.thread_frame = 80;
	put(THREAD_AT + 80, frame_at(0));
	l.cframe_frame = l.frame_is_entry = INTERP_NO_FIELD;
	lay_frame(1, 0);
	walk(&s, &l, &tls);
	check(&s, "n0 p0 n1 n2 n3 p1 n4 n5");
	/* one structure more than frames: an entry that has not set its frame yet */
	lay_frame(0, 0);
	walk(&s, &l, &tls);
	check(&s, "n0 n1 n2 n3 n4 n5 cut=12");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_leaf_is_the_interpreter),
		cmocka_unit_test(test_entry_without_frames),
		cmocka_unit_test(test_two_marks_in_a_frame),
		cmocka_unit_test(test_no_frames),
		cmocka_unit_test(test_long_run),
		cmocka_unit_test(test_ways_to_the_state),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_mark_below_the_stack),
		cmocka_unit_test(test_native_is_cut),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_positions),
		cmocka_unit_test(test_cframes),
	};

	return cmocka_run_group_tests_name("unwind_interp", tests, NULL, NULL);
}
