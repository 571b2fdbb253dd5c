/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of JavaScript in a process that is laid here, whole and broken. Each test says the frames as text, leaf first: i is one of the
 * interpreter, f a built-in function that the language knows, m machine code, s a stub, e what C++ enters by. What comes of them is text too:
 * i and f are words of the language, b is a native word of the built-in functions, m one of machine code that is told of with its function, j
 * one without; !1 is the reason of a cut, which the C++ behind the last frame has, since there are no tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "lib/base/cleanup.h"
#include "tests/unit/unwind_host.h"

enum {
	MAX_FRAMES = 8,
	FRAME_BYTES = 0x100,
	FP = 0x80, /* of a frame's part of the stack, where its frame pointer is */
	OBJECT_BYTES = 0x100,
	SHARED = 0x80, /* behind the function */
	BYTECODE = 32,
	POSITION = 40,
	CODE_START = 40,
	TYPE = 1060,
	BYTECODE_TYPE = 154,
	CODE_BYTES = 0x1000,
	BUILTINS_OFF = 0x5000,
	RDI = 5,
	R10 = 10,
};
#define STACK_AT 0x7fff00000000ULL
#define HEAP_AT 0x7e0000000000ULL
#define MAP_AT 0x7d0000000000ULL
#define BUILTINS_AT 0x400000ULL
#define MACHINE_AT 0x7c0000000000ULL
#define NATIVE_AT 0x600000ULL
#define CALL (0xe8ULL << 24) /* in the eight bytes before a return address */

/* What memory without a file is, to the walk. */
static enum unwind_place machine_place = UNWIND_IN_JIT;

static struct memory {
	uint8_t stack[(MAX_FRAMES + 1) * FRAME_BYTES], heap[MAX_FRAMES * OBJECT_BYTES], map[32],
		builtins[CODE_BYTES], machine[CODE_BYTES], native[16];
} memory;

static const struct region {
	uint64_t at;
	uint8_t *bytes;
	size_t n;
} regions[] = {
	{STACK_AT, memory.stack, sizeof(memory.stack)},
	{HEAP_AT, memory.heap, sizeof(memory.heap)},
	{MAP_AT, memory.map, sizeof(memory.map)},
	{BUILTINS_AT, memory.builtins, sizeof(memory.builtins)},
	{MACHINE_AT, memory.machine, sizeof(memory.machine)},
	{NATIVE_AT - 8, memory.native, sizeof(memory.native)},
};

static uint8_t *at_of(uint64_t at, size_t bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(regions); i++) {
		const struct region *r = &regions[i];

		if (at >= r->at && at - r->at <= r->n && bytes <= r->n - (at - r->at))
			return r->bytes + (at - r->at);
	}
	return NULL;
}

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	const uint8_t *at = at_of(from, bytes);

	(void)w;
	if (at)
		memcpy(to, at, bytes);
	return at ? 0 : -1;
}

static enum unwind_place unwind_locate(struct walk *w, __u64 addr)
{
	if (addr - MACHINE_AT < CODE_BYTES)
		return machine_place;
	w->binary = addr - BUILTINS_AT < CODE_BYTES ? 1 : 2;
	w->off = addr - BUILTINS_AT + BUILTINS_OFF;
	return addr - BUILTINS_AT < CODE_BYTES || addr == NATIVE_AT - 1 ? UNWIND_IN_FILE
									: UNWIND_IN_DATA;
}

static void put(uint64_t at, uint64_t v)
{
	uint8_t *to = at_of(at, sizeof(v));

	if (!to)
		fail_msg("no memory at %#lx", at);
	memcpy(to, &v, sizeof(v));
}

static const struct interp_layout layout = {
	.kind = INTERP_V8,
	.frame_code = BYTECODE,
	.frame_owner = BYTECODE_TYPE,
	.frame_position = POSITION,
	.code_start = CODE_START,
	.code_check = 32,
	.code_check_bytes = 8,
	.name_check = 52,
	.name_check_bytes = 4,
	.code_name = 8,
	.function_shared = 24,
	.function_type = TYPE,
	.function_last = TYPE + 3,
	.interp_generation = INTERP_NO_FIELD,
};

static uint64_t fp_of(unsigned k)
{
	return STACK_AT + k * FRAME_BYTES + FP;
}

static uint64_t function_of(unsigned k)
{
	return HEAP_AT + k * OBJECT_BYTES;
}

static uint64_t shared_of(unsigned k)
{
	return function_of(k) + SHARED;
}

/* Where frame k goes on: behind a call. */
static uint64_t pc_of(const char *frames, unsigned k)
{
	return (frames[k] == 'm' ? MACHINE_AT : BUILTINS_AT) + 0x20 * (k + 1);
}

static uint64_t bytecode_of(unsigned k)
{
	return function_of(k) + SHARED / 2;
}

static uint64_t smi(uint32_t v)
{
	return (uint64_t)v << 32;
}

/* Frame k has function k, and position k. */
static void lay(const char *frames)
{
	unsigned n = (unsigned)strlen(frames);

	memset(&memory, 0, sizeof(memory));
	memset(memory.builtins, 0x90, CODE_BYTES);
	memset(memory.machine, 0x90, CODE_BYTES);
	put(MAP_AT + 8, (uint64_t)(TYPE + 1) << 32);
	put(MAP_AT + 24, (uint64_t)BYTECODE_TYPE << 32);
	put(NATIVE_AT - 8, CALL);
	for (unsigned k = 0; k < n; k++) {
		bool has_function = strchr("ifm", frames[k]) != NULL;

		put(fp_of(k), k + 1 < n ? fp_of(k + 1) : 0x1234); /* C++'s is any number */
		put(fp_of(k) + 8, k + 1 < n ? pc_of(frames, k + 1) : NATIVE_AT);
		put(fp_of(k) - 8, has_function ? HEAP_AT + 1 : frames[k] == 'e' ? 2 : 0x20);
		put(fp_of(k) - 16, function_of(k) + 1);
		put(fp_of(k) - POSITION, smi(CODE_START - 1 + k));
		put(fp_of(k) - BYTECODE, bytecode_of(k) + 1);
		put(fp_of(k) - 56, 0xb0 + k);
		put(function_of(k), MAP_AT + 1);
		put(function_of(k) + 24, shared_of(k) + 1);
		/* Every other function has machine code too, which leads to its bytecode. */
		put(shared_of(k) + 8,
			frames[k] == 'f' ? smi(77) : (k % 2 ? HEAP_AT : bytecode_of(k)) + 1);
		put(bytecode_of(k), MAP_AT + 17);
		put(shared_of(k) + 32, HEAP_AT + 1);
		put(pc_of(frames, k) - 8, CALL);
	}
}

struct stack {
	__u64 words[ABI_MAX_WORDS + 1], spare[ABI_USER_TAIL_WORDS];
	unsigned n;
	struct walk w;
	struct host_machine told[MAX_FRAMES];
};

static void begin(struct stack *s, const char *frames, bool is_exact)
{
	memset(s, 0, sizeof(*s));
	host_memory_init(1, 1, 4);
	walk_init(&s->w, 0);
	s->w.pc = pc_of(frames, 0);
	s->w.regs[UNWIND_SP] = STACK_AT;
	s->w.regs[UNWIND_FP] = fp_of(0);
	s->w.known = UNWIND_ALL_REGS;
	s->w.exact = is_exact;
	host_interp.layout = layout;
	host_interp.process = (struct interp_process) {
		.eval_binary = 1, .eval_off = BUILTINS_OFF, .eval_bytes = CODE_BYTES};
	host_machines = s->told;
	host_n_machines = 0;
	host_max_machines = MAX_FRAMES;
	interp_begin(&s->w, &host_interp);
}

static void walk(struct stack *s)
{
	while (!walk_turn(&s->w, s->words))
		;
	s->n = frames_end(&s->w.frames, s->words, s->spare, s->w.cut);
	host_memory_done();
}

static char letter_of(const struct stack *s, __u64 word, bool is_leaf)
{
	uint64_t function = 0;
	unsigned k;

	if (ABI_FRAME_KIND(word) == ABI_FRAME_NATIVE)
		return ABI_NATIVE_BINARY(word) == 1 ? 'b' : 'n';
	if (ABI_FRAME_KIND(word) == ABI_FRAME_JIT) {
		for (unsigned i = 0; i < host_n_machines; i++)
			if (s->told[i].address ==
				ABI_FRAME_VALUE(word) + (is_leaf && s->told[i].is_exact))
				function = s->told[i].function;
		return function ? 'm' : 'j';
	}
	assert_int_equal(ABI_FRAME_KIND(word), ABI_FRAME_INTERP);
	k = (unsigned)(((ABI_INTERP_OBJECT(word) << 3) - HEAP_AT) / OBJECT_BYTES);
	assert_int_equal(ABI_INTERP_OBJECT(word) << 3, shared_of(k));
	switch (ABI_INTERP_POSITION(word)) {
	case ABI_INTERP_BEYOND: return 'f';
	case ABI_INTERP_AT_START: return 'a';
	default: assert_int_equal(ABI_INTERP_POSITION(word), k); return 'i';
	}
}

static void check(const struct stack *s, const char *expected)
{
	char text[64] = "";
	size_t at = 0;

	for (unsigned i = 0; i < s->n; i++)
		if (ABI_FRAME_KIND(s->words[i]) == ABI_FRAME_TRUNCATED)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "!%llu",
				ABI_FRAME_VALUE(s->words[i]));
		else
			text[at++] = letter_of(s, s->words[i], i == 0);
	assert_string_equal(text, expected);
}

#define NO_TABLE "n!7"

/* Return addresses alone, as behind a system call. */
static void test_frames(void **state)
{
	static const struct {
		const char *frames, *expected;
	} cases[] = {
		{"i", "i" NO_TABLE},
		{"ifime", "ifimb" NO_TABLE},
		{"smsimfe", "bmbimfb" NO_TABLE},
		{"mmmmmmmm", "mmmmmmmm" NO_TABLE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct stack s;

		lay(cases[i].frames);
		begin(&s, cases[i].frames, false);
		walk(&s);
		check(&s, cases[i].expected);
		assert_false(host_interp.is_lost);
		assert_true(host_interp.is_met);
	}
}

/* A thread of the process that runs no JavaScript: its stack may be walked again elsewhere. */
static void test_a_thread_without_any(void **state)
{
	static struct stack s;

	(void)state;
	lay("i");
	begin(&s, "i", true);
	s.w.pc = NATIVE_AT - 1;
	walk(&s);
	check(&s, NO_TABLE);
	assert_false(host_interp.is_met);
}

/* Other runtimes have code in such memory too, whose frames may have odd words and addresses where V8's have a function. */
static void test_code_of_others(void **state)
{
	static struct stack s;

	(void)state;
	lay("imi");
	put(function_of(1), MAP_AT + 17); /* another object */
	begin(&s, "imi", false);
	walk(&s);
	check(&s, "iji" NO_TABLE);
	assert_int_equal(host_n_machines, 0);
	assert_false(host_interp.is_lost);
	/* What is known of its frame pointers holds, and its caller's return address is looked at where they are not trusted. */
	memset(memory.builtins, 0x90, CODE_BYTES);
	begin(&s, "imi", false);
	walk(&s);
	check(&s, "ij!4");
	machine_place = UNWIND_IN_JIT_FP;
	begin(&s, "imi", false);
	walk(&s);
	check(&s, "iji" NO_TABLE);
	machine_place = UNWIND_IN_JIT;
	/* At a leaf, so it is with a register. */
	lay("mi");
	put(MACHINE_AT + 0x20, 0xe5894855);
	put(STACK_AT, pc_of("mi", 1));
	begin(&s, "mi", true);
	s.w.regs[UNWIND_FP] = fp_of(1);
	walk(&s);
	check(&s, "ji" NO_TABLE);
	assert_int_equal(host_n_machines, 0);
}

/* C++ finds its registers as they were when it entered. */
static void test_registers_of_an_entry(void **state)
{
	static struct stack s;

	(void)state;
	lay("ie");
	begin(&s, "ie", false);
	assert_int_equal(walk_turn(&s.w, s.words), 0);
	assert_false(WALK_KNOWS(&s.w, UNWIND_BX));
	assert_int_equal(walk_turn(&s.w, s.words), 0);
	assert_int_equal(s.w.pc, NATIVE_AT);
	assert_int_equal(s.w.regs[UNWIND_FP], 0x1234);
	assert_int_equal(walk_need(&s.w, UNWIND_BX), UNWIND_MORE);
	assert_int_equal(s.w.regs[UNWIND_BX], 0xb1);
	host_memory_done();
}

/* What is read is not what it should be: the frame is the native one that it is, and its callers are found. */
static void test_malformed(void **state)
{
	static const struct {
		const char *what;
		uint64_t at, v;
		const char *expected;
		bool is_lost;
	} cases[] = {
		{"a function that is a number", 0x100 + FP - 16, 7ULL << 32, "ibm", false},
		{"one that is weak", 0x100 + FP - 16, HEAP_AT + 3, "ibm", false},
		{"one in the first page", 0x100 + FP - 16, 17, "ibm", false},
		{"one of the kernel", 0x100 + FP - 16, 0xffffffff81000001ULL, "ibm", false},
		{"one that is not there", 0x100 + FP - 16, 0x123456789001ULL, "ibm", true},
		{"of machine code, the same", 0x200 + FP - 16, 0x123456789001ULL, "iij", false},
		{"a frame of an unknown kind", 0x100 + FP - 8, 0x7777777700ULL, "ibm", false},
		{"bytecode that is a number", 0x100 + FP - BYTECODE, 7ULL << 32, "ifm", false},
		{"another object", 0x100 + FP - BYTECODE, HEAP_AT + OBJECT_BYTES + 1, "ifm", false},
		{"one that is not there", 0x100 + FP - BYTECODE, 0x123456789001ULL, "ifm", false},
		{"a position that is none", 0x100 + FP - POSITION, HEAP_AT + 1, "ifm", false},
		{"one before the bytecode", 0x100 + FP - POSITION, 3ULL << 32, "ifm", false},
		{"one far behind", 0x100 + FP - POSITION, 70000ULL << 32, "ifm", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char expected[16];
		static struct stack s;

		lay("iim");
		put(STACK_AT + cases[i].at, cases[i].v);
		begin(&s, "iim", false);
		walk(&s);
		snprintf(expected, sizeof(expected), "%s%s", cases[i].expected, NO_TABLE);
		check(&s, expected);
		assert_int_equal(host_interp.is_lost, cases[i].is_lost);
	}
}

static void test_malformed_objects(void **state)
{
	static const uint64_t shared[] = {
		0, 7ULL << 32, HEAP_AT + 3, HEAP_AT + 5, 0xffffffff81000001ULL, 9, 1ULL << 47 | 1};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
		static struct stack s;

		lay("iim");
		put(function_of(1) + 24, shared[i]);
		begin(&s, "iim", false);
		walk(&s);
		check(&s, "ibm" NO_TABLE);
	}
	static struct stack s;

	lay("iim");
	put(function_of(1) + 24, 0x123456789001ULL); /* its bytecode cannot be read */
	begin(&s, "iim", false);
	walk(&s);
	check(&s, "ibm" NO_TABLE);
	assert_true(host_interp.is_lost);
	lay("iim");
	put(function_of(2) + 24, 0x123456789001ULL); /* nor what tells it from others */
	begin(&s, "iim", false);
	walk(&s);
	check(&s, "iim" NO_TABLE);
	assert_true(host_interp.is_lost);
}

/* Frame pointers that are none, and callers. */
static void test_lost_callers(void **state)
{
	static const struct {
		uint64_t off, v;
		const char *expected;
	} cases[] = {
		{FP, STACK_AT + 4, "ib!7"},	       /* not aligned */
		{FP, STACK_AT, "ib!7"},		       /* below sp */
		{FP, STACK_AT + (2ULL << 20), "ib!7"}, /* far from it */
		{FP, 0, "ib!7"}, {FP + 8, 0, "i!4"},   /* no return address */
		{FP + 8, 0xffffffff81000000ULL, "i!5"}, {FP + 8, HEAP_AT, "i!5"}, /* one in data */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct stack s;

		lay("iim");
		put(STACK_AT + cases[i].off, cases[i].v);
		begin(&s, "iim", false);
		walk(&s);
		check(&s, cases[i].expected);
	}
}

/* A frame pointer that C++ saved where it cannot be read: it is none, whatever the register has. */
static void test_lost_frame_pointer(void **state)
{
	static struct stack s;

	(void)state;
	lay("mm");
	begin(&s, "mm", false);
	s.w.fp_at = 0x123456789000ULL;
	walk(&s);
	check(&s, "j!3");
	lay("im");
	begin(&s, "im", false);
	s.w.fp_at = 0x123456789000ULL;
	walk(&s);
	check(&s, "b!7");
	assert_int_equal(s.w.fp_at, 0x123456789000ULL);
}

/* Instructions at which a sample may be, whose frame is not whole. */
static void test_edges(void **state)
{
	static const struct {
		const char *what;
		uint64_t code[2];
		unsigned above;	  /* words of the stack, from sp to the return address */
		bool is_function; /* rdi is the function, and it is told of with it */
	} cases[] = {
		{"push %rbp", {0xe5894855}, 0, true},
		{"mov %rsp, %rbp", {0xe58948}, 1, true},
		{"ret", {0xc3}, 0, false},
		{"ret $16", {0x0010c2}, 0, false},
		{"mov -8(%rcx), %rbx; testb $1, 0x35(%rbx)", {0x013543f6f8598b48}, 0, true},
		{"testb $1, 0x35(%rbx); jne", {0x7d32850f013543f6}, 0, true},
		{"jne; push %rbp; mov %rsp, %rbp", {0x48551fe37d32850f, 0xe589}, 0, true},
		{"je; jmp; push %rbp; mov %rsp, %rbp", {0x55fc3f6bf1e90574, 0xe58948}, 0, true},
		{"je; movabs; jmp *%r10; push %rbp",
			{0x0139498000ba490dULL << 8 | 0x74, 0x55e2ff4100000000ULL}, 0, true},
		{"cmp $1, %rcx; jg; ret $8", {0x08c2037f01f98348}, 0, false},
		{"cmp $2, %r8; jg; ret $16", {0x00038f0f02f88349}, 0, false},
		{"jg; ret $8", {0x410008c2037f}, 0, false},
		{"jg, long; ret $16", {0x10c2000000038f0f}, 0, false},
		{"pop %r10; lea (%rsp,%rcx,8), %rsp", {0x5241cc248d485a41, 0xc3}, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct stack s;

		/* The leaf runs with its caller's frame pointer, which is that of frame 1. */
		lay("mim");
		put(MACHINE_AT + 0x20, cases[i].code[0]);
		put(MACHINE_AT + 0x28, cases[i].code[1]);
		put(STACK_AT + 8ULL * cases[i].above, pc_of("mim", 1));
		if (cases[i].above)
			put(STACK_AT + 8ULL * (cases[i].above - 1), fp_of(1));
		begin(&s, "mim", true);
		s.w.regs[UNWIND_FP] = fp_of(1);
		s.w.regs[RDI] = function_of(0) + 1;
		walk(&s);
		check(&s, cases[i].is_function ? "mim" NO_TABLE : "jim" NO_TABLE);
		assert_true(s.told[0].is_exact);
		assert_int_equal(s.told[0].address, MACHINE_AT + 0x21);
	}
}

/* Behind pop %r10 the return address is there. */
static void test_popped_return_address(void **state)
{
	static const uint64_t codes[] = {0xc35241cc248d48, 0xc35241};
	static struct stack s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		lay("mim");
		put(MACHINE_AT + 0x20, codes[i]);
		begin(&s, "mim", true);
		s.w.regs[UNWIND_FP] = fp_of(1);
		s.w.regs[R10] = pc_of("mim", 1);
		walk(&s);
		check(&s, "jim" NO_TABLE);
	}
}

/* Its slots are not written yet: they are not looked at. */
static void test_slots_to_be_written(void **state)
{
	static struct stack s;

	(void)state;
	lay("mim");
	put(fp_of(0) - 16, function_of(2) + 1);
	begin(&s, "mim", true);
	s.w.regs[UNWIND_SP] = fp_of(0) - 8;
	s.w.regs[RDI] = function_of(0) + 1;
	walk(&s);
	check(&s, "mim" NO_TABLE);
	assert_int_equal(s.told[0].function, shared_of(0));
	/* pop %rbp: they were given back. */
	put(MACHINE_AT + 0x20, 0x5d);
	begin(&s, "mim", true);
	s.w.regs[UNWIND_SP] = fp_of(0);
	s.w.regs[RDI] = function_of(0) + 1;
	walk(&s);
	check(&s, "jim" NO_TABLE);
	/* The interpreter's bytecode and position come last. */
	lay("iim");
	begin(&s, "iim", true);
	s.w.regs[UNWIND_SP] = fp_of(0) - 24;
	walk(&s);
	check(&s, "aim" NO_TABLE);
}

/* Part of the interpreter, or called by machine code, which has a return address above sp. */
static void test_built_in_without_a_frame(void **state)
{
	static struct stack s;

	(void)state;
	lay("iim");
	begin(&s, "iim", true);
	walk(&s);
	check(&s, "iim" NO_TABLE);

	lay("mim");
	put(STACK_AT + 0x10, pc_of("mim", 0));
	begin(&s, "mim", true);
	s.w.pc = BUILTINS_AT + 0x800;
	walk(&s);
	check(&s, "bmim" NO_TABLE);
	assert_int_equal(s.told[0].is_exact, false);

	/* An address in machine code that is behind no call is none of that. */
	lay("iim");
	put(STACK_AT + 0x10, MACHINE_AT + 0x800);
	put(STACK_AT + 0x18, HEAP_AT + 1);
	begin(&s, "iim", true);
	walk(&s);
	check(&s, "iim" NO_TABLE);

	/* What lies in the frame of a built-in function was there before. */
	lay("fim");
	put(STACK_AT + 0x10, pc_of("fim", 2));
	begin(&s, "fim", true);
	walk(&s);
	check(&s, "fim" NO_TABLE);

	/* A frame that is too long to be looked through may be machine code's: no position. */
	lay("iim");
	for (unsigned is_long = 0; is_long < 2; is_long++) {
		begin(&s, "iim", true);
		s.w.pc = pc_of("iim", 1);
		s.w.regs[UNWIND_FP] = fp_of(1);
		s.w.regs[UNWIND_SP] = fp_of(1) - 8 * (INTERP_V8_LOOKS - 1 + is_long);
		walk(&s);
		check(&s, is_long ? "fm" NO_TABLE : "im" NO_TABLE);
	}

	/* At a leaf the slots may be anybody's: what is there must be a function. */
	lay("iim");
	put(MAP_AT + 8, (uint64_t)(TYPE + INTERP_V8_FUNCTION_TYPES - 1) << 32);
	begin(&s, "iim", true);
	walk(&s);
	check(&s, "iim" NO_TABLE);
	put(MAP_AT + 8, (uint64_t)(TYPE + INTERP_V8_FUNCTION_TYPES) << 32);
	begin(&s, "iim", true);
	walk(&s);
	check(&s, "bij" NO_TABLE);
}

static uint64_t check_of(unsigned k)
{
	static struct walk w;
	__u64 word = ABI_INTERP(shared_of(k) >> ABI_INTERP_ADDRESS_SHIFT, 0);

	return interp_check(&w, &host_interp, word) < 0 ? 0 : host_interp.check;
}

/* The script and the function's number count, and nothing between them. */
static void test_check(void **state)
{
	uint64_t was;

	(void)state;
	lay("i");
	host_interp.layout = layout;
	was = check_of(0);
	assert_int_equal(was, interp_check_add(interp_check_add(0, HEAP_AT + 1), 0));
	for (unsigned at = 0; at < 64; at++) {
		uint8_t *byte = at_of(shared_of(0) + at, 1);

		*byte ^= 0xff;
		assert_int_equal(
			check_of(0) != was, (at >= 32 && at < 40) || (at >= 52 && at < 56));
		*byte ^= 0xff;
	}
	host_interp.layout.name_check_bytes = 8;
	*at_of(shared_of(0) + 56, 1) = 1;
	assert_int_not_equal(check_of(0), was);
	assert_int_equal(check_of(MAX_FRAMES), 0);
}

/* Machine code is told of with the check of its function, as a record of that function has it. */
static void test_check_of_machine_code(void **state)
{
	static struct stack s;

	(void)state;
	lay("mmm");
	put(fp_of(1) - 8, 0x20); /* it says no function */
	put(function_of(2) + 24, 0x123456789001ULL);
	*at_of(shared_of(0) + 52, 1) = 7;
	begin(&s, "mmm", false);
	walk(&s);
	assert_int_equal(host_n_machines, 2);
	assert_int_equal(s.told[0].function, shared_of(0));
	assert_int_not_equal(s.told[0].check, 0);
	assert_int_equal(s.told[0].check, check_of(0));
	assert_int_equal(s.told[1].function, 0x123456789000ULL);
	assert_int_equal(s.told[1].check, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_a_thread_without_any),
		cmocka_unit_test(test_code_of_others),
		cmocka_unit_test(test_registers_of_an_entry),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_malformed_objects),
		cmocka_unit_test(test_lost_callers),
		cmocka_unit_test(test_lost_frame_pointer),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_popped_return_address),
		cmocka_unit_test(test_slots_to_be_written),
		cmocka_unit_test(test_built_in_without_a_frame),
		cmocka_unit_test(test_check_of_machine_code),
#endif
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests_name("unwind_v8_laid", tests, NULL, NULL);
}
