/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and lines of CPython's code objects. Against live interpreters: a script (tests/data/python/truth.py) prints what its interpreter
 * says of each code object of many modules, and stops in a stack whose frames it prints too; all of it is read out of its memory. Against
 * a memory laid here: what is malformed, gone, or changes while it is read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include "exporter/interp/python.h"
#include "exporter/symfile/python.h"
#include "tests/unit/python_objects.h"
#include "tests/unit/pythons.h"
#include "tests/unit/runtime_find.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#define SCRIPT "tests/data/python/truth.py"
enum { MAX_WAIT_MS = 60000 };

/* A stopped interpreter. */
struct python {
	pid_t pid;
	int mem;
	FILE *out;
	struct runtime_record r;
	struct interp_memory m;
};

static int read_mem(void *arg, uint64_t addr, void *to, size_t bytes)
{
	const struct python *p = arg;

	return pread(p->mem, to, bytes, (off_t)addr) == (ssize_t)bytes ? 0 : -EFAULT;
}

/* Both ends of its pipes; the script comes by standard input, since it may be in another root. */
static void spawn(struct python *p, const char *program)
{
	const char *in_root = strstr(program, "/./");
	int in = open(SCRIPT, O_RDONLY | O_CLOEXEC), out[2];

	assert_true(in >= 0 && pipe2(out, O_CLOEXEC) == 0);
	p->pid = fork();
	if (p->pid == 0) {
		char root[PATH_MAX];

		snprintf(root, sizeof(root), "%.*s", in_root ? (int)(in_root - program) : 0,
			program);
		if (dup2(in, STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0 ||
			(in_root && (chroot(root) < 0 || chdir("/") < 0)))
			_exit(126);
		program = in_root ? in_root + 2 : program;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("PYTHONIOENCODING", "utf-8", 1);
		execl(program, program, "-c",
			"import sys; exec(compile(sys.stdin.read(), 'truth.py', 'exec'))",
			(char *)NULL);
		_exit(127);
	}
	close(in);
	close(out[1]);
	p->out = fdopen(out[0], "r");
}

static void stop(struct python *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->mem);
	fclose(p->out);
}

/* A line "KEY number number … text", in hexadecimal where it is text. */
static bool next_line(FILE *f, char **line, size_t *cap)
{
	return getline(line, cap, f) > 0;
}

static void check_hex(const char *hex, const char *text)
{
	size_t n = strspn(hex, "0123456789abcdef") / 2;

	if (strlen(text) != n)
		fail_msg("%s has %zu bytes, expected %zu (%.*s)", text, strlen(text), n,
			(int)(2 * n), hex);
	for (size_t i = 0; i < n; i++) {
		unsigned byte = 0;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		assert_int_equal((uint8_t)text[i], byte);
	}
}

struct counts {
	unsigned n_codes, n_lines, n_frames, n_gone;
};

/* "C object first-line name file", then "L from to line" for its instructions, in units. */
static void check_code(
	struct python *p, const char *line, struct interp_code *code, struct counts *n)
{
	const struct interp_runtime *python = interp_runtime_of(RUNTIME_PYTHON);
	unsigned long object;
	unsigned first_line;
	int name_at = 0, file_at = 0, r;

	assert_int_equal(
		sscanf(line, "C %lx %u %n%*s %n", &object, &first_line, &name_at, &file_at), 2);
	interp_code_done(code);
	r = python->read_code(&p->m, &p->r, object, 0, code);
	if (r < 0)
		fail_msg("code object at %lx: %s: %s", object, strerror(-r), line);
	check_hex(line + name_at + 1, code->name);
	check_hex(line + file_at + 1, code->file);
	assert_int_equal(code->first_line, first_line);
	assert_int_equal(python->line(code, ABI_INTERP_AT_START), first_line);
	assert_int_equal(python->line(code, ABI_INTERP_BEYOND), 0);
	n->n_codes++;
}

static void check_lines(const char *line, const struct interp_code *code, struct counts *n)
{
	const struct interp_runtime *python = interp_runtime_of(RUNTIME_PYTHON);
	unsigned from, to, expected;

	assert_int_equal(sscanf(line, "L %u %u %u", &from, &to, &expected), 3);
	for (unsigned i = from; i < to && i < ABI_INTERP_AT_START; i++, n->n_lines++)
		if (python->line(code, i) != expected)
			fail_msg("%s:%s+%u: line %u, expected %u", code->file, code->name, i,
				python->line(code, i), expected);
}

static uint64_t word_at(struct python *p, uint64_t addr, enum python_offset off)
{
	uint64_t v = 0;

	assert_int_not_equal(p->r.offsets[off], RUNTIME_NO_FIELD);
	assert_int_equal(read_mem(p, addr + p->r.offsets[off], &v, sizeof(v)), 0);
	return v;
}

static uint64_t raw_at(struct python *p, uint64_t addr)
{
	uint64_t v = 0;

	assert_int_equal(read_mem(p, addr, &v, sizeof(v)), 0);
	return v;
}

#ifdef __x86_64__
/* It has written all and is where it stays. */
static void await_pause(const struct python *p)
{
	char path[64], text[16] = "";

	snprintf(path, sizeof(path), "/proc/%d/syscall", p->pid);
	for (unsigned i = 0; atoi(text) != SYS_pause; i++) {
		FILE *f = fopen(path, "re");

		if (!f || i > MAX_WAIT_MS)
			fail_msg("process %d does not come to its pause", p->pid);
		usleep(1000);
		if (!fgets(text, sizeof(text), f))
			text[0] = 0;
		fclose(f);
	}
}

/* The thread pointer of its only thread, which is stopped for that. */
static uint64_t thread_pointer(const struct python *p)
{
	struct user_regs_struct regs;

	assert_int_equal(ptrace(PTRACE_SEIZE, p->pid, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, p->pid, NULL, NULL), 0);
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
	assert_int_equal(ptrace(PTRACE_GETREGS, p->pid, NULL, &regs), 0);
	assert_int_equal(ptrace(PTRACE_DETACH, p->pid, NULL, NULL), 0);
	return regs.fs_base;
}

/* glibc's places of thread-local blocks and of the values of the first 32 pthread keys. */
enum { DTV_AT = 8, DTV_ENTRY_BYTES = 16, KEY_VALUES_AT = 0x310, KEY_BYTES = 16 };

static uint64_t thread_state_by(struct python *p, uint64_t tp, const struct runtime_state *s)
{
	uint64_t at = s->at + p->m.bias;

	switch ((enum runtime_state_by)s->by) {
	case RUNTIME_BY_TP: return raw_at(p, tp + s->at);
	case RUNTIME_BY_GOT: return raw_at(p, tp + raw_at(p, at));
	case RUNTIME_BY_GOT_PAIR:
		return raw_at(
			p, raw_at(p, raw_at(p, tp + DTV_AT) + DTV_ENTRY_BYTES * raw_at(p, at)) +
				   raw_at(p, at + 8));
	case RUNTIME_BY_KEY:
		return raw_at(p, tp + KEY_VALUES_AT + KEY_BYTES * (uint32_t)raw_at(p, at) + 8);
	case RUNTIME_BY_ADDRESS: return raw_at(p, at);
	case RUNTIME_BY_NOTHING:
	case N_RUNTIME_STATES_BY: break;
	}
	return 0;
}

/* It waits without the interpreter's lock, so that from 3.12 on the first way leads to nothing. */
static uint64_t thread_state(struct python *p, uint64_t tp)
{
	uint64_t first = thread_state_by(p, tp, &p->r.states[0]);

	assert_int_equal(!first, RUNTIME_MINOR(p->r.version) >= 12);
	return first ? first : thread_state_by(p, tp, &p->r.states[1]);
}

static uint64_t first_frame(struct python *p, uint64_t state)
{
	if (p->r.offsets[PYTHON_THREAD_FRAME] != RUNTIME_NO_FIELD)
		return word_at(p, state, PYTHON_THREAD_FRAME);
	return word_at(p, word_at(p, state, PYTHON_THREAD_CFRAME), PYTHON_CFRAME_FRAME);
}

/* In instructions from the start of its code. */
static uint32_t position_of(struct python *p, uint64_t frame, uint64_t code)
{
	uint64_t at = word_at(p, frame, PYTHON_FRAME_POSITION);

	if (RUNTIME_MINOR(p->r.version) < 10)
		return (uint32_t)at / 2;
	if (RUNTIME_MINOR(p->r.version) == 10)
		return (uint32_t)at;
	return (uint32_t)((at - code - p->r.offsets[PYTHON_CODE_START]) / 2);
}

/* From the thread pointer over the state to all frames: "F line name", leaf first. */
static void check_frames(struct python *p, struct counts *n)
{
	const struct interp_runtime *python = interp_runtime_of(RUNTIME_PYTHON);
	_cleanup_free_ char *line = NULL;
	uint64_t tp, state, frame;
	size_t cap = 0;

	await_pause(p);
	tp = thread_pointer(p);
	state = thread_state(p, tp);
	frame = first_frame(p, state);
	assert_int_equal(word_at(p, state, PYTHON_THREAD_ID), tp);
	if (p->r.offsets[PYTHON_THREAD_NATIVE_ID] != RUNTIME_NO_FIELD)
		assert_int_equal(word_at(p, state, PYTHON_THREAD_NATIVE_ID), p->pid);
	while (next_line(p->out, &line, &cap) && line[0] == 'F') {
		_cleanup_interp_code_ struct interp_code c = {0};
		unsigned expected;
		uint64_t code = 0;
		int name_at = 0;

		assert_int_equal(sscanf(line, "F %u %n", &expected, &name_at), 1);
		/* Entries from C have a frame without a code object of the program. */
		for (; frame; frame = word_at(p, frame, PYTHON_FRAME_BACK)) {
			code = word_at(p, frame, PYTHON_FRAME_CODE) & ~7ULL;
			if (p->r.offsets[PYTHON_FRAME_OWNER] == RUNTIME_NO_FIELD ||
				(uint8_t)word_at(p, frame, PYTHON_FRAME_OWNER) < 3)
				break;
		}
		assert_int_not_equal(frame, 0);
		assert_int_equal(python->read_code(&p->m, &p->r, code, 0, &c), 0);
		check_hex(line + name_at + 1, c.name);
		assert_int_equal(python->line(&c, position_of(p, frame, code)), expected);
		frame = word_at(p, frame, PYTHON_FRAME_BACK);
		n->n_frames++;
	}
	assert_true(n->n_frames >= 4);
}
#endif

static void check_program(const char *program)
{
	_cleanup_interp_code_ struct interp_code code = {0};
	_cleanup_free_ char *line = NULL;
	struct python p = {.mem = -1};
	struct counts n = {0};
	char path[64];
	size_t cap = 0;

	spawn(&p, program);
	/* All of it comes at once, when the interpreter is where it stays. */
	assert_true(next_line(p.out, &line, &cap));
	if (strcmp(line, "ready\n") != 0)
		fail_msg("%s: %s", program, line);
	snprintf(path, sizeof(path), "/proc/%d/mem", p.pid);
	p.mem = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(p.mem >= 0);
	p.m.read = read_mem;
	p.m.arg = &p;
	runtime_find(p.pid, RUNTIME_PYTHON, &p.r, &p.m.bias);
	while (next_line(p.out, &line, &cap) && line[0] != '.') {
		unsigned long object;

		if (line[0] == 'C')
			check_code(&p, line, &code, &n);
		else if (line[0] == 'L')
			check_lines(line, &code, &n);
		else if (sscanf(line, "G %lx", &object) == 1) {
			struct interp_code gone;

			assert_true(interp_runtime_of(RUNTIME_PYTHON)
					    ->read_code(&p.m, &p.r, object, 0, &gone) < 0);
			n.n_gone++;
		}
	}
#ifdef __x86_64__
	check_frames(&p, &n);
#endif
	print_message("%s: %u.%u, %u code objects, %u instructions, %u frames, %u gone\n", program,
		RUNTIME_MAJOR(p.r.version), RUNTIME_MINOR(p.r.version), n.n_codes, n.n_lines,
		n.n_frames, n.n_gone);
	assert_true(n.n_codes > 500 && n.n_lines > 10000 && n.n_gone >= 100);
	stop(&p);
}

static void test_live(void **state)
{
	struct pythons found;

	(void)state;
	pythons_find(&found);
	assert_true(found.n > 0);
	for (size_t i = 0; i < found.n; i++)
		check_program(found.programs[i]);
	pythons_done(&found);
}

static int read_fake_code(struct fake *k, struct interp_code *ret)
{
	return interp_runtime_of(RUNTIME_PYTHON)
		->read_code(&k->m, &python_record, BASE + CODE, 0, ret);
}

static void test_whole(void **state)
{
	static const uint32_t expected[] = {
		10, 10, 11, 0, 0, 0, 0, 9, 58, 58, 58, 58, 58, 58, 58, 58, 0};
	_cleanup_interp_code_ struct interp_code c = {0};
	struct fake k;

	(void)state;
	fake_init(&k);
	assert_int_equal(read_fake_code(&k, &c), 0);
	assert_string_equal(c.name, "Class.method");
	assert_string_equal(c.file, "/srv/app.py");
	for (uint32_t i = 0; i < ARRAY_SIZE(expected); i++)
		assert_int_equal(interp_runtime_of(RUNTIME_PYTHON)->line(&c, i), expected[i]);
}

/* One field that is wrong, and what comes of it. */
static void test_malformed(void **state)
{
	static const struct {
		uint32_t at;
		uint64_t v;
		unsigned n;
		int error;
	} cases[] = {
		{CODE, 0, 8, -ENOENT},			 /* no references */
		{CODE, BASE + 0x10, 8, -ENOENT},	 /* the next free block */
		{CODE + 8, STR_TYPE + BIAS, 8, -ENOENT}, /* another type */
		{CODE + 8, CODE_TYPE, 8, -ENOENT},
		{CODE + 128, 0, 8, -EAGAIN},	    /* no name */
		{CODE + 128, BASE + 3, 8, -EAGAIN}, /* not aligned */
		{CODE + 128, BASE + FILE_NAME * 16, 8, -EFAULT},
		{CODE + 128, 1ULL << 60, 8, -EAGAIN},
		{CODE + 128, BASE + LINES, 8, -EAGAIN}, /* bytes in place of text */
		{CODE + 136, BASE + NAME, 8, -EAGAIN},	/* text in place of bytes */
		{NAME, 0, 8, -EAGAIN},
		{NAME + 16, UINT64_MAX, 8, -EBADMSG}, /* lengths */
		{NAME + 16, 1 << 20, 8, 0},	      /* longer than what is read */
		{LINES + 16, UINT64_MAX, 8, -EBADMSG},
		{LINES + 16, 0x2000, 8, -EFAULT},
		{LINES + 16, 1 << 20, 8, 0}, /* too large: no lines */
		{LINES + 16, 0, 8, 0},
		{NAME + 32, 1 << 6 | 1 << 2, 4, -EBADMSG},	    /* not compact */
		{NAME + 32, 1 << 5 | 3 << 2, 4, -EBADMSG},	    /* 3 bytes a character */
		{NAME + 32, 1 << 6 | 1 << 5 | 2 << 2, 4, -EBADMSG}, /* ASCII of 2 */
		{NAME + 32, 0xffffffff, 4, -EBADMSG},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_interp_code_ struct interp_code c = {0};
		struct fake k;
		int r;

		fake_init(&k);
		put(&k, cases[i].at, cases[i].v, cases[i].n);
		r = read_fake_code(&k, &c);
		if (r != cases[i].error)
			fail_msg("case %zu: %d, expected %d", i, r, cases[i].error);
		assert_int_equal(c.name != NULL, r == 0);
		assert_true(!c.name || strlen(c.name) < INTERP_MAX_TEXT_BYTES);
	}
}

/* Each read fails once, and the object changes before each. */
static void test_hostile(void **state)
{
	unsigned n_reads;
	struct fake k;

	(void)state;
	for (unsigned i = 1; i < 100; i++) {
		_cleanup_interp_code_ struct interp_code c = {0};

		fake_init(&k);
		k.fails_at = i;
		if (read_fake_code(&k, &c) == 0)
			break;
		assert_null(c.name);
	}
	n_reads = k.n_reads;
	assert_in_range(n_reads, 5, 10);
	for (unsigned i = 1; i <= n_reads; i++) {
		_cleanup_interp_code_ struct interp_code c = {0};
		int r;

		fake_init(&k);
		k.changes_at = i;
		r = read_fake_code(&k, &c);
		assert_int_equal(r, i == 1 ? 0 : -EAGAIN);
		assert_true(r < 0 || strcmp(c.name, "method") == 0);
	}
}

/* The address is another object's by then: the check is another. */
static void test_check(void **state)
{
	_cleanup_interp_code_ struct interp_code a = {0}, b = {0}, c = {0};
	struct fake k;

	(void)state;
	fake_init(&k);
	assert_int_equal(read_fake_code(&k, &a), 0);
	assert_int_equal(read_fake_code(&k, &b), 0);
	put(&k, CODE + 68, 11, 4);
	assert_int_equal(read_fake_code(&k, &c), 0);
	assert_int_equal(a.check, b.check);
	assert_int_not_equal(a.check, c.check);
	assert_int_equal(a.kernel_check, b.kernel_check);
	assert_int_not_equal(a.kernel_check, c.kernel_check);
}

/* Before 3.12 another object may lie at each of the same addresses: then its name tells. */
static void test_check_of_name(void **state)
{
	_cleanup_interp_code_ struct interp_code a = {0}, b = {0};
	struct runtime_record r = python_record;
	struct interp_layout l;
	struct fake k;

	(void)state;
	r.version = RUNTIME_VERSION(3, 10, 0);
	r.offsets[PYTHON_CODE_QUALNAME] = RUNTIME_NO_FIELD;
	python_check_of(&r, &l);
	assert_int_equal(l.code_check, 64);
	assert_int_equal(l.code_check_bytes, 144 - 64);
	assert_int_equal(l.code_name, 120);
	fake_init(&k);
	assert_int_equal(python_read_code(&k.m, &r, BASE + CODE, 0, &a), 0);
	put(&k, OTHER_NAME + l.name_check, 77, 8);
	assert_int_equal(python_read_code(&k.m, &r, BASE + CODE, 0, &b), 0);
	assert_int_not_equal(a.kernel_check, b.kernel_check);
}

/* The frame of the interpreter that calls a constructor is none of the program's. */
static void test_shim(void **state)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	struct fake k;

	(void)state;
	fake_init(&k);
	put(&k, CODE + 112, BASE + OTHER_NAME, 8);
	assert_int_equal(read_fake_code(&k, &c), 0);
	assert_string_equal(c.name, INTERP_OWN_FRAME);
	assert_string_equal(c.file, "");
	assert_int_equal(python_line(&c, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_check_of_name),
		cmocka_unit_test(test_shim),
	};

	return cmocka_run_group_tests_name("interp_python", tests, NULL, NULL);
}
