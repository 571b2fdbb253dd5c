/* SPDX-License-Identifier: Apache-2.0
 *
 * Two walks of one stack: what counts as equal; elfutils over a copy of this program's own stack, in-process; answers that are
 * not what they should be.
 */
#include "exporter/walk/shadow_compare.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <cmocka.h>

#define W(x) ABI_NATIVE(1, x)
#define REPEAT(period, count) ABI_FRAME(ABI_FRAME_REPEAT, (uint64_t)(period) << 32 | (count))
#define INTERP ABI_INTERP(9, 1)
#define CUT ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_READ_FAULT)
#define ELIDED ABI_FRAME(ABI_FRAME_ELIDED, 7)

static struct shadow_chain chain_of(const uint64_t *words, uint32_t n, enum shadow_end end)
{
	struct shadow_chain c = {.n = n, .n_by_rows = n, .end = end};

	memcpy(c.words, words, n * sizeof(*words));
	return c;
}

static void assert_verdict(size_t row, const uint64_t *words, uint32_t n,
	struct shadow_chain *theirs, enum shadow_result want, uint32_t want_at)
{
	static struct shadow_chain ours;
	enum shadow_result got;
	uint32_t at;

	shadow_expand(words, n, &ours);
	got = shadow_judge(&ours, theirs, &at);
	if (got != want || at != want_at)
		fail_msg("row %zu: %d at %u", row, got, at);
}

static void what_is_equal(void **state)
{
	static const struct {
		uint64_t ours[6], theirs[6];
		uint32_t n_ours, n_theirs;
		enum shadow_end end; /* of theirs */
		enum shadow_result want;
		uint32_t at;
	} rows[] = {
		{{W(1), W(2), W(3)}, {W(1), W(2), W(3)}, 3, 3, SHADOW_ENDS_AT_ROOT, SHADOW_MATCH,
			3},
		{{W(1), W(2), W(3)}, {W(1), W(2)}, 3, 2, SHADOW_ENDS_OPEN, SHADOW_MATCH, 2},
		/* the leaf is given */
		{{W(1), W(2)}, {W(9), W(2)}, 2, 2, SHADOW_ENDS_AT_ROOT, SHADOW_MATCH, 2},
		{{W(1)}, {W(1)}, 1, 1, SHADOW_ENDS_AT_ROOT, SHADOW_MATCH, 1},
		{{W(1), W(2), W(3)}, {W(1), W(4), W(3)}, 3, 3, SHADOW_ENDS_AT_ROOT, SHADOW_MISMATCH,
			1},
		{{W(1), W(2), W(3)}, {W(1), W(2), W(4)}, 3, 3, SHADOW_ENDS_OPEN, SHADOW_MISMATCH,
			2},
		/* an interpreter's frames are no business of elfutils, among repeated ones neither */
		{{W(1), INTERP, W(2), INTERP, W(3)}, {W(1), W(2), W(3)}, 5, 3, SHADOW_ENDS_AT_ROOT,
			SHADOW_MATCH, 3},
		{{W(1), W(2), INTERP, REPEAT(2, 2), W(3)}, {W(1), W(2), W(2), W(2), W(3)}, 5, 5,
			SHADOW_ENDS_AT_ROOT, SHADOW_MATCH, 5},
		{{W(1), INTERP, W(4)}, {W(1), W(2)}, 3, 2, SHADOW_ENDS_AT_ROOT, SHADOW_MISMATCH, 1},
		/* a frame left out, one invented, an end too early */
		{{W(1), W(3)}, {W(1), W(2), W(3)}, 2, 3, SHADOW_ENDS_AT_ROOT, SHADOW_MISMATCH, 1},
		{{W(1), W(2), W(3)}, {W(1), W(2)}, 3, 2, SHADOW_ENDS_AT_ROOT, SHADOW_MISMATCH, 2},
		{{W(1), W(2)}, {W(1), W(2), W(3)}, 2, 3, SHADOW_ENDS_OPEN, SHADOW_MISMATCH, 2},
		{{W(1), W(2)}, {W(1)}, 2, 1, SHADOW_ENDS_OPEN, SHADOW_UNKNOWN, 1},
		{{W(1), W(2)}, {0}, 2, 0, SHADOW_ENDS_OPEN, SHADOW_UNKNOWN, 0},
		/* ours says that it is cut */
		{{W(1), W(2), CUT}, {W(1), W(2), W(3)}, 3, 3, SHADOW_ENDS_OPEN, SHADOW_CUT, 2},
		{{W(1), W(2), CUT}, {W(1), W(2)}, 3, 2, SHADOW_ENDS_AT_ROOT, SHADOW_CUT, 2},
		{{W(1), W(2), CUT}, {W(1), W(2)}, 3, 2, SHADOW_ENDS_OPEN, SHADOW_MATCH, 2},
		{{W(1), W(2), CUT}, {W(1), W(9)}, 3, 2, SHADOW_ENDS_OPEN, SHADOW_MISMATCH, 1},
		/* not known further */
		{{W(1), W(2), ELIDED, W(8)}, {W(1), W(2), W(3), W(4)}, 4, 4, SHADOW_ENDS_OPEN,
			SHADOW_MATCH, 2},
		{{W(1), W(2), REPEAT(1, 2), W(3)}, {W(1), W(2), W(2), W(2), W(3)}, 4, 5,
			SHADOW_ENDS_AT_ROOT, SHADOW_MATCH, 5},
		{{W(1), W(2), REPEAT(2, 1), W(3)}, {W(1), W(2), W(1), W(2), W(3)}, 4, 5,
			SHADOW_ENDS_AT_ROOT, SHADOW_MATCH, 5},
		/* a signal trampoline that elfutils takes for a caller, and gets no further */
		{{W(1), W(3), W(7)}, {W(1), W(2)}, 3, 2, SHADOW_ENDS_OPEN, SHADOW_MATCH, 2},
		{{W(1), W(3)}, {W(1), W(2)}, 2, 2, SHADOW_ENDS_OPEN, SHADOW_MISMATCH, 1},
		{{W(1), W(3), W(7)}, {W(1), W(2)}, 3, 2, SHADOW_ENDS_AT_ROOT, SHADOW_MISMATCH, 1},
		/* a repeat of nothing is not followed */
		{{W(1), REPEAT(4, 1)}, {W(1), W(2)}, 2, 2, SHADOW_ENDS_OPEN, SHADOW_UNKNOWN, 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		static struct shadow_chain theirs;

		theirs = chain_of(rows[i].theirs, rows[i].n_theirs, rows[i].end);
		assert_verdict(i, rows[i].ours, rows[i].n_ours, &theirs, rows[i].want, rows[i].at);
	}
}

/* What elfutils found by frame pointer counts when it leads to the root; that it leaves callers out proves nothing. */
static void frame_pointers_count_at_the_root(void **state)
{
	static const struct {
		uint64_t ours[6], theirs[6];
		uint32_t n_ours, n_theirs, n_by_rows;
		enum shadow_end end; /* of theirs */
		enum shadow_result want;
		uint32_t at;
	} rows[] = {
		{{W(1), W(2), W(3)}, {W(1), W(2), W(3)}, 3, 3, 1, SHADOW_ENDS_AT_ROOT, SHADOW_MATCH,
			3},
		{{W(1), W(2), W(3)}, {W(1), W(2), W(3)}, 3, 3, 1, SHADOW_ENDS_OPEN, SHADOW_UNKNOWN,
			1},
		{{W(1), W(2), W(3)}, {W(1), W(2), W(4)}, 3, 3, 2, SHADOW_ENDS_OPEN, SHADOW_MATCH,
			2},
		/* the leaf has not set up its frame: its caller, and nothing else, is left out */
		{{W(1), W(9), W(2), W(3)}, {W(1), W(2), W(3)}, 4, 3, 1, SHADOW_ENDS_AT_ROOT,
			SHADOW_MATCH, 3},
		{{W(1), W(9), W(8), W(2)}, {W(1), W(2)}, 4, 2, 1, SHADOW_ENDS_AT_ROOT,
			SHADOW_UNKNOWN, 1},
		{{W(1), W(2), W(3), W(4)}, {W(1), W(2), W(4)}, 4, 3, 2, SHADOW_ENDS_AT_ROOT,
			SHADOW_MATCH, 2},
		/* a caller that is not among ours */
		{{W(1), W(2), W(4)}, {W(1), W(2), W(3), W(4)}, 3, 4, 2, SHADOW_ENDS_AT_ROOT,
			SHADOW_MISMATCH, 2},
		{{W(1), W(2)}, {W(1), W(2), W(3)}, 2, 3, 1, SHADOW_ENDS_AT_ROOT, SHADOW_MISMATCH,
			2},
		{{W(1), W(2), CUT}, {W(1), W(9)}, 3, 2, 1, SHADOW_ENDS_AT_ROOT, SHADOW_UNKNOWN, 1},
		/* of a stack cut at its leaf nothing is claimed */
		{{W(1), CUT}, {W(1)}, 2, 1, 1, SHADOW_ENDS_OPEN, SHADOW_CUT, 1},
		/* cut at a trampoline before it was known to be one */
		{{W(1), W(2), CUT}, {W(1), W(3), W(4)}, 3, 3, 3, SHADOW_ENDS_OPEN, SHADOW_CUT, 2},
		/* where the leaf's file was mapped is not known any more */
		{{ELIDED}, {W(1), W(2)}, 1, 2, 2, SHADOW_ENDS_OPEN, SHADOW_UNKNOWN, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		static struct shadow_chain theirs;

		theirs = chain_of(rows[i].theirs, rows[i].n_theirs, rows[i].end);
		theirs.n_by_rows = rows[i].n_by_rows;
		assert_verdict(i, rows[i].ours, rows[i].n_ours, &theirs, rows[i].want, rows[i].at);
	}
}

static void a_long_recursion_is_open(void **state)
{
	const uint64_t words[] = {W(1), REPEAT(1, 1 << 20)};
	static struct shadow_chain c;

	(void)state;
	shadow_expand(words, 2, &c);
	assert_int_equal(c.n, PARSER_WALK_MAX_FRAMES);
	assert_int_equal(c.end, SHADOW_ENDS_OPEN);
}

/* The executable mapping that holds an address. */
static struct parser_walk_module module_at(uint64_t addr, char path[256])
{
	struct parser_walk_module m = {0};
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "re");
	uint64_t start, end, off;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %255s", &start, &end, &off, path) == 4 &&
			addr >= start && addr < end) {
			m.start = start;
			m.file_off = off;
			return m;
		}
	fail_msg("no mapping");
	return m;
}

static struct {
	struct abi_stack head;
	uint8_t stack[16 << 10];
} copy;

/* What BPF sends, of the caller as it is here. */
static void __attribute__((noinline, noclone)) capture(void)
{
	_cleanup_close_ int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ucontext_t u;
	ssize_t n;
#ifdef __x86_64__
	static const int numbers[ABI_N_REGS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI,
		REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13,
		REG_R14, REG_R15};

	getcontext(&u);
	for (size_t i = 0; i < ABI_N_REGS; i++)
		copy.head.regs[i] = (uint64_t)u.uc_mcontext.gregs[numbers[i]];
	copy.head.pc = (uint64_t)u.uc_mcontext.gregs[REG_RIP];
	/* through the kernel: the sanitizer's red zones may be read, and the stack may end earlier */
	n = pread(mem, copy.stack, sizeof(copy.stack), (off_t)copy.head.regs[7]);
	assert_true(n > 0);
	copy.head.bytes = (uint32_t)n & ~7U;
#else
	(void)u, (void)n, (void)mem;
#endif
}

static void __attribute__((noinline, noclone)) capture_deeper(volatile int *depth)
{
	if (--*depth > 0)
		capture_deeper(depth);
	else
		capture();
	++*depth;
}

/* Asks for a walk of the copy through this program's file alone. Returns the answer. */
static int walk(const struct parser_walk_module *m, const char *path)
{
	const struct abi_stack *stacks[] = {&copy.head};
	_cleanup_close_ int file = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int in = memfd_create("in", MFD_CLOEXEC);
	int out = memfd_create("out", MFD_CLOEXEC);
	_cleanup_bytes_ struct bytes b;
	struct errbuf eb = {{0}};

	bytes_init(&b, NULL, 0);
	parser_walk_put(&b, m, 1, stacks, 1);
	assert_int_equal(bytes_error(&b), 0);
	assert_int_equal(write(in, b.data, b.len), (ssize_t)b.len);
	if (parser_walk(in, &file, 1, out, &eb) < 0)
		fail_msg("%s", eb.text);
	return out;
}

static uint32_t read_walk(int fd, struct parser_walk *ret)
{
	static uint8_t answer[64 << 10];
	ssize_t n = pread(fd, answer, sizeof(answer), 0);
	struct cursor c = cursor_of(answer, n > 0 ? (size_t)n : 0);

	assert_int_equal(parser_walk_next(&c, ret), 0);
	assert_int_equal(cursor_left(&c), 0);
	return ret->n;
}

static void elfutils_walks_a_copy(void **state)
{
	const uint64_t from = (uint64_t)(uintptr_t)capture_deeper;
	struct parser_walk_module m;
	volatile int depth = 5;
	struct parser_walk ret;
	char path[256];
	uint32_t n_deeper = 0, n;
	int fd;

	(void)state;
	if (ABI_ARM64)
		skip();
	capture_deeper(&depth);
	m = module_at(from, path);
	fd = walk(&m, path);
	n = read_walk(fd, &ret);
	close(fd);
	assert_true(n >= 6);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t pc = cursor_u64(&ret.frames);

		assert_true(!(pc & PARSER_WALK_ACTIVATION) == (i > 0));
		n_deeper += pc > from && pc < from + 200;
	}
	assert_int_equal(n_deeper, 5);
	/* the test's own caller lies in a library whose file it was not given */
	assert_int_equal(ret.end, PARSER_WALK_NO_FILE);
}

/* Another build at the same path is no file to walk by. */
static void another_build_is_left_out(void **state)
{
	struct parser_walk_module m;
	struct parser_walk ret;
	char path[256];
	int fd;

	(void)state;
	m = module_at((uint64_t)(uintptr_t)capture, path);
	capture();
	m.build_id_len = 20;
	fd = walk(&m, path);
	assert_true(read_walk(fd, &ret) <= 1);
	assert_int_not_equal(ret.end, PARSER_WALK_ROOT);
	close(fd);
}

static void bad_messages(void **state)
{
	static const struct {
		uint32_t end, n, end_of_rows, n_by_rows;
		size_t bytes;
		int want;
	} answers[] = {
		{PARSER_WALK_ROOT, 2, PARSER_WALK_NO_CFI, 1, 32, 0},
		{PARSER_WALK_ROOT, 2, PARSER_WALK_ROOT, 2, 31, -EBADMSG},
		{PARSER_WALK_ROOT, 2, PARSER_WALK_ROOT, 3, 32, -EBADMSG},
		{PARSER_WALK_N_ENDS, 0, PARSER_WALK_ROOT, 0, 16, -EBADMSG},
		{PARSER_WALK_ROOT, 0, PARSER_WALK_N_ENDS, 0, 16, -EBADMSG},
		{PARSER_WALK_ROOT, PARSER_WALK_MAX_FRAMES + 1, PARSER_WALK_ROOT, 0, 32, -EBADMSG},
		{PARSER_WALK_ROOT, 0, PARSER_WALK_ROOT, 0, 15, -EBADMSG},
	};
	static const uint32_t requests[][2] = {{1, 0}, {0, 1}, {UINT32_MAX, UINT32_MAX}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		uint32_t raw[8] = {
			answers[i].end, answers[i].n, answers[i].end_of_rows, answers[i].n_by_rows};
		struct cursor c = cursor_of(raw, answers[i].bytes);
		struct parser_walk ret;

		assert_int_equal(parser_walk_next(&c, &ret), answers[i].want);
	}
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		_cleanup_close_ int in = memfd_create("in", MFD_CLOEXEC);
		_cleanup_close_ int out = memfd_create("out", MFD_CLOEXEC);

		assert_int_equal(write(in, requests[i], 8), 8);
		assert_int_equal(parser_walk(in, NULL, 0, out, NULL), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_equal),
		cmocka_unit_test(frame_pointers_count_at_the_root),
		cmocka_unit_test(a_long_recursion_is_open),
		cmocka_unit_test(elfutils_walks_a_copy),
		cmocka_unit_test(another_build_is_left_out),
		cmocka_unit_test(bad_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
