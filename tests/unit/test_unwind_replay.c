/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of real programs, captured (registers, mappings, a copy of the stack) and replayed when the program is gone: the walker
 * has nothing but the copy, each in a block of its own so that the address sanitizer sees every read beyond one, and finds what
 * elfutils finds in it. SONDE_SEEDS=DIR writes the captures as seeds of fuzz_unwind_walk.
 */
#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include "tests/unit/unwind_process.h"
#include "exporter/walk/shadow_compare.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

enum { N_CAPTURES = 40, MAX_FILES = 40, MAX_COPY = 60 << 10 };

struct capture {
	struct abi_stack *stack; /* its bytes lie behind it, to the byte */
	struct shadow_chain ours;
	uint32_t n_rules;
	struct {
		uint64_t pc;
		struct unwind_rule rule;
	} steps[64];
};
static struct capture captures[N_CAPTURES];
static const struct abi_stack *replayed;

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	uint64_t at = from - replayed->regs[UNWIND_SP];

	(void)w;
	if (at > replayed->bytes || bytes > replayed->bytes - at)
		return -1;
	memcpy(to, (const uint8_t *)(replayed + 1) + at, bytes);
	return 0;
}

static void wait_stop(void)
{
	int status;

	assert_int_equal(waitpid(child_pid, &status, __WALL), child_pid);
	assert_true(WIFSTOPPED(status));
}

/* False when the program waits in the kernel. */
static bool capture(struct capture *c)
{
	_cleanup_free_ uint8_t *bytes = xcalloc(1, MAX_COPY);
	struct user_regs_struct r;
	struct iovec local = {bytes, MAX_COPY}, remote;
	ssize_t n;

	assert_int_equal(ptrace(PTRACE_GETREGS, child_pid, NULL, &r), 0);
	if ((int64_t)r.orig_rax >= 0)
		return false;
	remote = (struct iovec) {(void *)(uintptr_t)r.rsp, MAX_COPY};
	/* as far as it is mapped: a page at a time, as a fault ends the call before it */
	do
		n = process_vm_readv(child_pid, &local, 1, &remote, 1, 0);
	while (n < 0 && (remote.iov_len = local.iov_len = local.iov_len / 2) > 64);
	assert_true(n > 0);
	c->stack = xcalloc(1, sizeof(*c->stack) + ((size_t)n & ~(size_t)7));
	*c->stack = (struct abi_stack) {.bytes = (uint32_t)n & ~7U,
		.pc = r.rip,
		.regs = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10,
			r.r11, r.r12, r.r13, r.r14, r.r15}};
	memcpy(c->stack + 1, bytes, c->stack->bytes);
	return true;
}

/* ---- what elfutils says ---- */

static uint32_t open_modules(struct parser_walk_module *modules, int *files)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < n_mappings && n < MAX_FILES; i++) {
		const struct mapping *m = &mappings[i];

		/* the first of a file is enough: all have the same distance to it */
		if (!m->binary || (i && strcmp(mappings[i - 1].path, m->path) == 0))
			continue;
		files[n] = open_mapping(m);
		modules[n] = (struct parser_walk_module) {
			.file = n, .start = m->start, .file_off = m->off};
		n++;
	}
	return n;
}

static void ask_elfutils(int out, uint32_t n_captures)
{
	const struct abi_stack *stacks[N_CAPTURES];
	struct parser_walk_module modules[MAX_FILES];
	int files[MAX_FILES];
	uint32_t n = open_modules(modules, files);
	_cleanup_close_ int in = memfd_create("in", MFD_CLOEXEC);
	_cleanup_bytes_ struct bytes b;
	struct errbuf eb = {{0}};

	for (uint32_t i = 0; i < n_captures; i++)
		stacks[i] = captures[i].stack;
	bytes_init(&b, NULL, 0);
	parser_walk_put(&b, modules, n, stacks, n_captures);
	assert_int_equal(bytes_error(&b), 0);
	assert_int_equal(write(in, b.data, b.len), (ssize_t)b.len);
	if (parser_walk(in, files, n, out, &eb) < 0)
		fail_msg("%s", eb.text);
	for (uint32_t i = 0; i < n; i++)
		close(files[i]);
}

/* ---- the replay ---- */

static void replay(struct capture *c)
{
	static __u64 words[ABI_MAX_WORDS + 1];
	struct walk w;
	int ended;

	replayed = c->stack;
	walk_init(&w, 0);
	w.pc = c->stack->pc;
	for (unsigned i = 0; i < UNWIND_N_REGS; i++)
		w.regs[i] = c->stack->regs[i];
	w.known = UNWIND_ALL_REGS;
	c->ours.n = c->n_rules = 0;
	do {
		uint64_t pc = w.pc;

		assert_true(c->ours.n < PARSER_WALK_MAX_FRAMES);
		c->ours.words[c->ours.n++] = pc;
		ended = walk_turn(&w, words);
		if (c->n_rules < ARRAY_SIZE(c->steps)) {
			c->steps[c->n_rules].pc = pc;
			c->steps[c->n_rules++].rule = w.rule;
		}
	} while (!ended);
	c->ours.end = w.cut == ABI_CUT_NONE	    ? SHADOW_ENDS_AT_ROOT
		      : w.cut == ABI_CUT_READ_FAULT ? SHADOW_ENDS_OPEN
						    : SHADOW_ENDS_CUT;
}

static enum shadow_result judge(struct capture *c, struct cursor *answer, uint32_t *ret_at)
{
	static struct shadow_chain theirs;
	struct parser_walk walk;

	assert_int_equal(parser_walk_next(answer, &walk), 0);
	theirs.n = walk.n;
	theirs.n_by_rows = walk.n_by_rows;
	theirs.end = walk.end == PARSER_WALK_ROOT ? SHADOW_ENDS_AT_ROOT : SHADOW_ENDS_OPEN;
	for (uint32_t i = 0; i < walk.n; i++)
		theirs.words[i] = cursor_u64(&walk.frames) & ~PARSER_WALK_ACTIVATION;
	return shadow_judge(&c->ours, &theirs, ret_at);
}

/* ---- seeds: the layout of fuzz_unwind_walk's input ---- */

enum {
	SEED_BINARIES = 4,
	SEED_RULES = 64,
	SEED_PAGES =
		32, /* of the 64 KiB of code that the fuzzer maps at 4 MiB, one for each rule */
	SEED_STACK = 4096,
};
#define SEED_CODE 0x400000ULL
#define SEED_STACK_BASE 0x7fff00000000ULL

/* Where the step's code is put: a page for each of the stack's different rules. SEED_PAGES when there are too many. */
static uint32_t page_of(const struct capture *c, uint32_t step)
{
	uint32_t page = 0;

	for (uint32_t i = 0; i < step; i++) {
		uint32_t k = 0;

		while (memcmp(&c->steps[k].rule, &c->steps[i].rule, sizeof(c->steps[k].rule)) != 0)
			k++;
		if (memcmp(&c->steps[i].rule, &c->steps[step].rule, sizeof(c->steps[i].rule)) == 0)
			return page_of(c, i);
		page += k == i;
	}
	return page;
}

static uint64_t moved(const struct capture *c, uint64_t value)
{
	uint64_t sp = c->stack->regs[UNWIND_SP];

	if (value - sp < c->stack->bytes)
		return SEED_STACK_BASE + (value - sp);
	for (uint32_t i = 0; i < c->n_rules; i++)
		if (value == c->steps[i].pc)
			return SEED_CODE + page_of(c, i) * UNWIND_PAGE_BYTES + 1 + i;
	return value;
}

static void put_tables(struct bytes *b, const struct capture *c)
{
	struct unwind_binary binaries[SEED_BINARIES] = {
		{.seq = 2, .slab = 1, .n_pages = SEED_PAGES}};
	struct unwind_rule rules[SEED_RULES] = {{0}};
	uint32_t words[UNWIND_SLAB_WORDS + 2 * SEED_PAGES] = {0};

	for (uint32_t i = 0; i < c->n_rules; i++) {
		uint32_t page = page_of(c, i), *slab = words + UNWIND_SLAB_WORDS;

		rules[1 + page] = c->steps[i].rule;
		slab[page] = UNWIND_PAGE(UNWIND_SLAB_WORDS + SEED_PAGES + page, 0);
		slab[SEED_PAGES + page] = UNWIND_ROW(page * UNWIND_PAGE_BYTES, 1 + page);
	}
	bytes_put(b, binaries, sizeof(binaries));
	bytes_put(b, rules, sizeof(rules));
	bytes_put(b, words, sizeof(words));
}

static void write_seed(const char *dir, const struct capture *c, const char *name)
{
	_cleanup_bytes_ struct bytes b;
	_cleanup_close_ int fd = -1;
	size_t head = (UNWIND_N_REGS + 2) * sizeof(uint64_t);
	uint64_t stack_off;
	char path[512];

	for (uint32_t i = 0; i < c->n_rules; i++)
		if (page_of(c, i) >= SEED_PAGES)
			return;
	bytes_init(&b, NULL, 0);
	bytes_put_u64(&b, moved(c, c->stack->pc));
	for (uint32_t i = 0; i < UNWIND_N_REGS; i++)
		bytes_put_u64(&b, moved(c, c->stack->regs[i]));
	bytes_put_u64(&b, 0);
	put_tables(&b, c);
	stack_off = b.len - head;
	for (uint32_t i = 0; i < MIN(c->stack->bytes, SEED_STACK) / sizeof(uint64_t); i++)
		bytes_put_u64(&b, moved(c, ((const uint64_t *)(const void *)(c->stack + 1))[i]));
	assert_int_equal(bytes_error(&b), 0);
	/* exact, all registers known, and where the stack begins */
	stack_off = 4 | (uint64_t)UNWIND_ALL_REGS << 8 | stack_off << 40;
	memcpy(b.data + head - sizeof(stack_off), &stack_off, sizeof(stack_off));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, b.data, b.len), (ssize_t)b.len);
}

/* ---- programs ---- */

/* Until the program is past its beginning, however slow the machine is. */
static void wait_at_work(void)
{
	const int64_t enough_ns = 100 * NS_PER_MS;
	clockid_t clock;
	struct timespec used = {0};

	assert_int_equal(clock_getcpuclockid(child_pid, &clock), 0);
	while (used.tv_sec * NS_PER_S + used.tv_nsec < enough_ns) {
		nanosleep(&(struct timespec) {.tv_nsec = NS_PER_MS}, NULL);
		assert_int_equal(clock_gettime(clock, &used), 0);
	}
}

static void start(const char *const *argv)
{
	child_pid = fork();
	if (child_pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		dup2(null, 1);
		dup2(null, 2);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	wait_at_work();
	assert_int_equal(ptrace(PTRACE_SEIZE, child_pid, NULL, PTRACE_O_EXITKILL), 0);
}

static uint32_t capture_some(struct unwind_tables *t)
{
	uint32_t n = 0;

	for (int tries = 0; n < N_CAPTURES && tries < 50 * N_CAPTURES; tries++) {
		assert_int_equal(ptrace(PTRACE_INTERRUPT, child_pid, NULL, NULL), 0);
		wait_stop();
		n += capture(&captures[n]);
		/* what it has loaded by now stays */
		if (n == N_CAPTURES)
			read_mappings(t);
		assert_int_equal(ptrace(PTRACE_CONT, child_pid, NULL, NULL), 0);
		/* to another place */
		nanosleep(&(struct timespec) {.tv_nsec = 100000 + rand() % 3000000}, NULL);
	}
	assert_int_equal(n, N_CAPTURES);
	return n;
}

static void check(const char *const *argv)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	_cleanup_close_ int out = memfd_create("out", MFD_CLOEXEC);
	_cleanup_free_ uint8_t *answer = NULL;
	uint32_t n, n_by[SHADOW_N_RESULTS] = {0}, n_frames = 0, at;
	const char *seeds = getenv("SONDE_SEEDS");
	struct cursor c;
	off_t bytes;

	if (access(argv[0], X_OK) < 0) {
		print_message("no %s\n", argv[0]);
		return;
	}
	host_memory_init(4096, 16384, MAX_MAPPINGS + 1);
	t = unwind_tables_new(&host_memory);
	start(argv);
	n = capture_some(t);
	ptrace(PTRACE_INTERRUPT, child_pid, NULL, NULL);
	wait_stop();
	ask_elfutils(out, n);
	kill(child_pid, SIGKILL);
	waitpid(child_pid, NULL, __WALL);
	bytes = lseek(out, 0, SEEK_END);
	answer = xcalloc(1, (size_t)bytes);
	assert_int_equal(pread(out, answer, (size_t)bytes, 0), bytes);
	c = cursor_of(answer, (size_t)bytes);
	for (uint32_t i = 0; i < n; i++) {
		replay(&captures[i]);
		n_by[judge(&captures[i], &c, &at)]++;
		n_frames += at;
		if (seeds && i % 10 == 0) {
			char name[64];

			snprintf(name, sizeof(name), "%s-%u", strrchr(argv[0], '/') + 1, i / 10);
			write_seed(seeds, &captures[i], name);
		}
		free(TAKE(captures[i].stack));
	}
	print_message("%s: %u the same, %u different, %u unknown, %u cut; %u frames\n", argv[0],
		n_by[SHADOW_MATCH], n_by[SHADOW_MISMATCH], n_by[SHADOW_UNKNOWN], n_by[SHADOW_CUT],
		n_frames);
	assert_int_equal(n_by[SHADOW_MISMATCH], 0);
	assert_true(n_by[SHADOW_MATCH] * 10 >= n * 9);
	assert_true(n_frames >= 3 * n);
	unwind_tables_freep(&t);
	host_memory_done();
}

static void real_programs(void **state)
{
	static const char *const commands[][6] = {
		{"/usr/bin/python3.11", "-S", "-E", "-c",
			"import re, json\nwhile True: json.loads(json.dumps([re.sub('a+', str(i), "
			"'baab') for i in range(50)]))"},
		{"/usr/bin/perl", "-e",
			"sub f { my $n = shift; $n ? f($n - 1) . 'x' : join ',', sort map { $_ * 7 "
			"% 13 } 1 .. 99 } f(9) while 1"},
		{"/usr/bin/openssl", "speed", "-seconds", "60", "rsa2048"},
		{"/bin/bash", "-c",
			"f() { (( $1 )) && f $(( $1 - 1 )); x=${x//a/bb}; x=${x:0:99}a; }; while "
			":; do f 9; done"},
	};

	(void)state;
	if (ABI_ARM64)
		skip();
	srand(20261122);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		check(commands[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
