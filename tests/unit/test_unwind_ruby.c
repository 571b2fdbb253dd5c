/* SPDX-License-Identifier: Apache-2.0
 *
 * Ruby's frames among native ones, in a process that is laid here: control frames and their environments, whole and broken, and native
 * frames of which only their places are known. Each test says both as text, leaf first, and what comes of them: x is a native frame of the
 * interpreter's function, n another one. b is a frame of a sequence, c one of a method in C, d one of neither; capital where the interpreter
 * was entered for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include "lib/base/cleanup.h"
#include "tests/unit/unwind_host.h"
#include "bpf/interp/check.h"

enum {
	MAX_FRAMES = 400,
	FRAME_BYTES = 56,
	ENV_BYTES = 24,
	OBJECT_BYTES = 0x40,
	BODY_BYTES = 144,
	EXEC_OFF = 0x5000,
	EXEC_BYTES = 0x400,
};
#define TP 0x7d0000000000ULL
#define STATE_AT 0x7c0000000000ULL
#define STACK_AT 0x7f0000000000ULL
#define ENVS_AT 0x7e0000000000ULL
#define OBJECTS_AT 0x7b0000000000ULL
#define BODY_AT 0x7a0000000000ULL

static struct memory {
	uint8_t tp[0x100], state[0x200], stack[(MAX_FRAMES + 1) * FRAME_BYTES],
		envs[(MAX_FRAMES + 1) * ENV_BYTES], objects[(MAX_FRAMES + 1) * OBJECT_BYTES],
		body[BODY_BYTES];
	unsigned n_reads;
} memory;

static const struct region {
	uint64_t at;
	uint8_t *bytes;
	size_t n;
} regions[] = {
	{TP, memory.tp, sizeof(memory.tp)},
	{STATE_AT, memory.state, sizeof(memory.state)},
	{STACK_AT, memory.stack, sizeof(memory.stack)},
	{ENVS_AT, memory.envs, sizeof(memory.envs)},
	{OBJECTS_AT, memory.objects, sizeof(memory.objects)},
	{BODY_AT, memory.body, sizeof(memory.body)},
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
	return -1;
}

static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	w->binary = 1;
	w->off = addr;
	return UNWIND_IN_FILE;
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

static const struct interp_layout layout_33 = {
	.kind = INTERP_RUBY,
	.thread_bytes = 24,
	.thread_stack = 0,
	.thread_stack_words = 8,
	.thread_frame = 16,
	.thread_id = INTERP_NO_FIELD,
	.thread_interp = 48,
	.frame_bytes = FRAME_BYTES,
	.frame_position = 0,
	.frame_code = 16,
	.frame_env = 32,
	.code_check = 16,
	.code_check_bytes = 8,
	.code_name = 16,
	.name_check = 8,
	.name_check_bytes = 112,
	.has_context = 1,
	.interp_generation = INTERP_NO_FIELD,
};

static const struct interp_process process = {.states = {{.by = INTERP_BY_TP, .off = 0x10}},
	.eval_binary = 1,
	.eval_off = EXEC_OFF,
	.eval_bytes = EXEC_BYTES};

static uint64_t object_at(unsigned k)
{
	return OBJECTS_AT + k * OBJECT_BYTES;
}

static uint64_t frame_at(unsigned k)
{
	return STACK_AT + k * FRAME_BYTES;
}

/* Where the flags of frame k lie. */
static uint64_t env_at(unsigned k)
{
	return ENVS_AT + k * ENV_BYTES + 16;
}

/* Frame k has object k, as its sequence or its method, and position k. */
static void lay_frame(unsigned k, char letter)
{
	uint64_t kind = tolower(letter) == 'c' ? INTERP_RUBY_C : 0x1111, flags = kind << 16;

	if (isupper(letter))
		flags |= INTERP_RUBY_FINISH;
	put(env_at(k), flags | INTERP_RUBY_LOCAL);
	put(env_at(k) - 8, 0);
	put(env_at(k) - 16, object_at(k));
	put(frame_at(k) + 32, env_at(k));
	if (tolower(letter) != 'b')
		return;
	put(frame_at(k), (uint64_t)k * 8);
	put(frame_at(k) + 16, object_at(k));
	if (!k)
		put(frame_at(k), 8ULL * ABI_INTERP_AT_START); /* 0 in those units, but an address */
}

static void lay(const char *frames)
{
	unsigned n = (unsigned)strlen(frames);

	memory = (struct memory) {0};
	put(TP + 0x10, STATE_AT);
	put(STATE_AT, STACK_AT);
	put(STATE_AT + 8, (n + 1) * FRAME_BYTES / 8);
	put(STATE_AT + 16, STACK_AT);
	for (unsigned k = 0; k < n; k++)
		lay_frame(k, frames[k]);
}

struct stack {
	__u64 words[ABI_MAX_WORDS + 1], spare[ABI_USER_TAIL_WORDS];
	unsigned n;
	struct walk w;
};

/* A walk whose native frames are those of the text, each with 256 bytes of stack. */
static void walk(struct stack *s, const struct interp_layout *l, const char *natives)
{
	walk_init(&s->w, 0);
	s->w.regs[UNWIND_SP] = 0x7fff00000000ULL;
	s->w.known = UNWIND_ALL_REGS;
	host_interp.layout = *l;
	host_interp.process = process;
	host_interp.tp = TP;
	interp_begin(&s->w, &host_interp);
	for (; *natives; natives++) {
		bool is_exec = *natives == 'x';

		s->w.place = UNWIND_IN_FILE;
		s->w.binary = 1;
		s->w.off = is_exec ? EXEC_OFF + EXEC_BYTES - 1 : EXEC_OFF + EXEC_BYTES;
		s->w.result = natives[1] ? UNWIND_MORE : UNWIND_ROOT;
		s->w.regs[UNWIND_SP] += 0x100;
		if (s->w.has_interp)
			unwind_interp(&s->w, s->words);
		frames_add(&s->w.frames, s->words, ABI_NATIVE(1, is_exec));
	}
	host_interp_rest(&s->w, s->words);
	s->n = frames_end(&s->w.frames, s->words, s->spare, s->w.cut);
}

/* Frames of the language as the letters that they were laid by, in their order; "!11" is the reason of a cut. */
static void check(const struct stack *s, const char *frames, const char *expected)
{
	char text[MAX_FRAMES + 64] = "";
	size_t at = 0;

	for (unsigned i = 0; i < s->n; i++) {
		__u64 f = s->words[i], v = ABI_FRAME_VALUE(f);
		uint64_t k = ((ABI_INTERP_OBJECT(f) << 3) - OBJECTS_AT) / OBJECT_BYTES;

		switch (ABI_FRAME_KIND(f)) {
		case ABI_FRAME_NATIVE: text[at++] = ABI_NATIVE_OFF(f) ? 'x' : 'n'; break;
		case ABI_FRAME_INTERP:
			assert_int_equal(ABI_INTERP_POSITION(f),
				tolower(frames[k]) == 'c' ? ABI_INTERP_BEYOND : k);
			text[at++] = frames[k];
			break;
		case ABI_FRAME_REPEAT:
			assert_int_equal(v >> 32, 1); /* of native frames */
			for (uint32_t c = 0; c < (uint32_t)v; c++, at++)
				text[at] = text[at - 1];
			break;
		default:
			assert_int_equal(ABI_FRAME_KIND(f), ABI_FRAME_TRUNCATED);
			at += (size_t)snprintf(text + at, sizeof(text) - at, "!%llu", v);
		}
	}
	assert_string_equal(text, expected);
}

static void test_runs(void **state)
{
	static const struct {
		const char *what, *natives, *frames, *expected;
	} cases[] = {
		{"a block that C code calls", "nxnnxn", "BccbB", "nBxnnccbBxn"},
		{"the leaf is the interpreter's function", "xn", "bB", "bBxn"},
		{"the leaf is C code that a method calls", "nnxn", "cbB", "nncbBxn"},
		{"entered for a block in C", "nxnxn", "DbB", "nxnbBxn"},
		{"blocks in C between", "nxnnxn", "BcdcbB", "nBxnnccbBxn"},
		{"a fiber that begins with methods in C", "nxnn", "bBcc", "nbBxnncc"},
		{"one that has nothing else", "nnn", "cc", "nnncc"},
		{"one that begins with nothing that is shown", "nxn", "bBd", "nbBxn"},
		{"an entry behind the last one", "nxnxn", "bBcc", "nbBxnxncc!12"},
		{"an entry at once, with methods in C alone", "xn", "cc", "xncc!12"},
		{"a thread without frames", "nnn", "", "nnn"},
		{"an entry that has no frame yet", "nxn", "", "nxn!12"},
		{"an entry that was left", "nn", "bB", "nnbB!12"},
		{"more entries than frames", "nxnxn", "bB", "nbBxnxn!12"},
		{"fewer", "nxn", "bBcB", "nbBxncB!12"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct stack s;

		lay(cases[i].frames);
		walk(&s, &layout_33, cases[i].natives);
		check(&s, cases[i].frames, cases[i].expected);
	}
}

static void test_long_run(void **state)
{
	enum { N = 350 };
	char frames[N + 2], expected[N + 5];
	static struct stack s;

	(void)state;
	memset(frames, 'b', sizeof(frames));
	frames[N] = 'B';
	frames[N + 1] = 0;
	lay(frames);
	walk(&s, &layout_33, "nxn");
	snprintf(expected, sizeof(expected), "n%sxn", frames);
	check(&s, frames, expected);
	/* One that nobody entered is as long. */
	memset(frames, 'c', N);
	frames[N] = 0;
	lay(frames);
	walk(&s, &layout_33, "nnn");
	snprintf(expected, sizeof(expected), "nnn%s", frames);
	check(&s, frames, expected);
}

/* What is read is not what it should be: no frame comes of it, and the stack says so. */
static void test_lost(void **state)
{
	static const struct {
		const char *what;
		uint64_t at, v;
		const char *expected;
	} cases[] = {
		{"no state", TP + 0x10, 0x10, "nxnxn!11"},
		{"frames that do not divide the stack", STATE_AT + 16, STACK_AT + 8, "nxnxn!11"},
		{"a frame below the stack", STATE_AT + 16, STACK_AT - FRAME_BYTES, "nxnxn!11"},
		{"one above it", STATE_AT + 16, STACK_AT + 7 * FRAME_BYTES, "nxnxn!11"},
		{"a stack without end", STATE_AT + 8, 1ULL << 40, "nxnxn!11"},
		{"one of nothing", STATE_AT + 8, 0, "nxnxn!11"},
		{"an environment of nothing", STACK_AT + 32, 0x10, "nxnxn!11"},
		{"a sequence that is none", STACK_AT + 16, 0x1004, "nxnxn!11"},
		{"one of the kernel", STACK_AT + 16, 0xffffffff81000000ULL, "nxnxn!11"},
		{"the same further out", STACK_AT + 2 * FRAME_BYTES + 16, 0x1004, "nbBxnxn!11"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct stack s;

		lay("bBbB");
		put(cases[i].at, cases[i].v);
		walk(&s, &layout_33, "nxnxn");
		check(&s, "bBbB", cases[i].expected);
	}
}

/* A thread that begins or has ended has a state without a stack. */
static void test_no_stack(void **state)
{
	static struct stack s;

	(void)state;
	lay("");
	put(STATE_AT, 0);
	put(STATE_AT + 16, 0);
	walk(&s, &layout_33, "nn");
	check(&s, "", "nn");
}

/* Up to 2.7 the state is that of the thread which runs. */
static void test_whose_state(void **state)
{
	struct interp_layout l = layout_33;
	static struct stack s;

	(void)state;
	l.thread_id = 72;
	lay("bB");
	put(STATE_AT + 48, STATE_AT + 0x100);
	put(STATE_AT + 0x100 + 72, TP);
	walk(&s, &l, "nxn");
	check(&s, "bB", "nbBxn");
	put(STATE_AT + 0x100 + 72, TP + 0x1000);
	walk(&s, &l, "nn");
	check(&s, "bB", "nn");
	walk(&s, &l, "nxn"); /* whose frames they are is not known */
	check(&s, "bB", "nxn");
	put(STATE_AT + 48, 0x10);
	walk(&s, &l, "nn");
	check(&s, "bB", "nn!11");
}

static __u64 word_of(unsigned k, bool is_method)
{
	return ABI_INTERP(
		object_at(k) >> ABI_INTERP_ADDRESS_SHIFT, is_method ? ABI_INTERP_BEYOND : k);
}

/* The check of what object k leads to; 0: it cannot be read. */
static uint64_t check_of(unsigned k, bool is_method)
{
	static struct walk w;

	return interp_check(&w, &host_interp, word_of(k, is_method)) < 0 ? 0 : host_interp.check;
}

/* Each word of a sequence's body counts up to its table of lines, of a method's definition those up to its name. */
static void test_check(void **state)
{
	uint64_t sequence, method;

	(void)state;
	lay("");
	host_interp.layout = layout_33;
	put(object_at(1) + 16, BODY_AT);
	put(object_at(2) + 16, BODY_AT);
	sequence = check_of(1, false);
	method = check_of(1, true);
	assert_true(sequence && method && sequence != method);
	assert_int_equal(check_of(2, false), sequence);
	for (unsigned at = 0; at < BODY_BYTES; at += 8) {
		put(BODY_AT + at, at + 1);
		assert_int_equal(check_of(1, false) == sequence, at == 0 || at >= 120);
		assert_int_equal(check_of(1, true) == method, at == 0 || at >= 40);
		put(BODY_AT + at, 0);
	}
	put(object_at(1) + 16, 0x10);
	assert_int_equal(check_of(1, false), 0);
	assert_int_equal(check_of(MAX_FRAMES + 1, true), 0);
	put(object_at(1) + 16, BODY_AT);
	host_interp.layout.name_check_bytes = INTERP_CHECK_BYTES + 8;
	assert_int_equal(check_of(1, false), 0);
	host_interp.layout = layout_33;
	host_interp.layout.code_check_bytes = INTERP_CHECK_BYTES + 8;
	assert_int_equal(check_of(1, false), 0);
}

/* The word that leads to the method of frame k's object, from where the one before was found; 0: none is found. */
static uint64_t next_method_of(unsigned k)
{
	struct walk w = {0};
	__u64 found = 0;

	interp_ruby_look(&host_interp);
	while (!interp_ruby_look_turn(&w, &host_interp, object_at(k), &found))
		;
	return found;
}

static uint64_t method_of(unsigned k)
{
	interp_ruby_look_begin(&host_interp);
	return next_method_of(k);
}

static void test_methods(void **state)
{
	static struct stack s;

	(void)state;
	lay("bbBcB");
	/* the first frame's block lies in the second's, and that in the last one's method */
	put(env_at(0), 0);
	put(env_at(0) - 8, env_at(1) | 1);
	put(env_at(1), 0);
	put(env_at(1) - 8, env_at(4) | 3);
	/* the third one's block is a method by itself */
	put(env_at(2), INTERP_RUBY_FINISH | INTERP_RUBY_BLOCK_METHOD);
	put(env_at(2) - 8, env_at(4));
	walk(&s, &layout_33, "nxnxn");
	check(&s, "bbBcB", "nbbBxncBxn");
	assert_int_equal(method_of(0), object_at(4));
	assert_int_equal(method_of(1), object_at(4));
	assert_int_equal(method_of(2), object_at(2));
	assert_int_equal(method_of(4), object_at(4));
	assert_int_equal(method_of(7), 0);
	assert_false(interp_ruby_looked_all(&host_interp));
	/* environments in a ring, of nothing, and none */
	put(env_at(1) - 8, env_at(0));
	assert_int_equal(method_of(0), 0);
	assert_true(interp_ruby_looked_all(&host_interp));
	put(env_at(1) - 8, 0x10);
	assert_int_equal(method_of(0), 0);
	put(env_at(1) - 8, 0);
	assert_int_equal(method_of(0), 0);
	assert_false(interp_ruby_looked_all(&host_interp));
}

/* A stack's frames are looked at once, as many objects of it as there are; what there was no room for is not said to have no method. */
static void test_methods_of_a_stack(void **state)
{
	enum { N = 350 };
	char frames[N + 1];
	static struct stack s;

	(void)state;
	memset(frames, 'b', N);
	frames[N - 1] = 'B';
	frames[N] = 0;
	lay(frames);
	walk(&s, &layout_33, "nxn");
	interp_ruby_look_begin(&host_interp);
	for (unsigned k = 0; k < N; k += 1 + k % 3)
		assert_int_equal(next_method_of(k), object_at(k));
	assert_true(host_interp.n_looked <= 2 * N);
	interp_ruby_look_begin(&host_interp);
	host_interp.n_looked = INTERP_RUBY_MAX_LOOKS - 2;
	assert_int_equal(next_method_of(0), object_at(0));
	assert_false(interp_ruby_looked_all(&host_interp));
	assert_int_equal(next_method_of(1), 0);
	assert_true(interp_ruby_looked_all(&host_interp));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_long_run),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_no_stack),
		cmocka_unit_test(test_whose_state),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_methods_of_a_stack),
	};

	return cmocka_run_group_tests_name("unwind_ruby", tests, NULL, NULL);
}
