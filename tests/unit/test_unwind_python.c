/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of CPython among native ones, on live interpreters: a program (tests/data/python/calls.py) is stopped at random and walked as the
 * kernel half does it. Each frame must be one that may have called the one before it, with native frames between them where the call
 * goes through C, and none where it does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include "exporter/interp/interp.h"
#include "exporter/interp/rows.h"
#include "tests/unit/interp_rows.h"
#include "tests/unit/pythons.h"
#include "tests/unit/runtime_find.h"
#include "tests/unit/unwind_process.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#define SCRIPT "tests/data/python/calls.py"
enum { N_STEPS = 4, MAX_FRAMES = 4096, MAX_CODES = 256, MAX_TIDS = 8 };

/* SONDE_STACKS asks for more, of each interpreter. */
static unsigned n_stops = 1000;

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	return read_child(to, bytes, from);
}

/* Who may have called whom, and what is between the two. */
enum between { EITHER, NATIVE, NOTHING };
static const struct call {
	const char *callee, *caller; /* NULL: nobody */
	enum between between;	     /* from 3.11 on; before it a native frame is between any two */
} calls[] = {
	{"leaf", "key", NOTHING},
	{"leaf", "mapped", NOTHING},
	{"leaf", "gen", NOTHING},
	{"leaf", "init_work", NOTHING},
	{"leaf", "deep", NOTHING},
	{"leaf", "nested", NOTHING},
	{"key", "by_sort", NATIVE},
	{"mapped", "by_map", NATIVE},
	{"gen", "by_sum", EITHER}, /* where it is made, it is a plain call */
	{"gen", "by_for", EITHER},
	{"init_work", "__init__", NOTHING},
	{"__init__", "by_new", EITHER},
	{"__init__", INTERP_OWN_FRAME, NOTHING}, /* from 3.12 on, for what it returns */
	{INTERP_OWN_FRAME, "by_new", EITHER},
	{"deep", "deep", NOTHING},
	{"deep", "by_deep", NOTHING},
	{"nested", "lower", NATIVE},
	{"lower", "nested", NATIVE},
	{"lower", "by_nested", NOTHING},
	{"by_sort", "loop", NOTHING},
	{"by_map", "loop", NOTHING},
	{"by_sum", "loop", NOTHING},
	{"by_for", "loop", NOTHING},
	{"by_new", "loop", NOTHING},
	{"by_deep", "loop", NOTHING},
	{"by_nested", "loop", NOTHING},
	{"by_zlib", "loop", NOTHING},
	{"loop", "work", NOTHING},
	{"loop", "<module>", NOTHING},
	{"work", "run", EITHER}, /* by its arguments as a tuple: from 3.12 on without C */
	{"run", "_bootstrap_inner", EITHER}, /* from 3.14 on by way of a context */
	{"_bootstrap_inner", "_bootstrap", NOTHING},
	{"_bootstrap", NULL, NATIVE},
	{"<module>", "<module>", NATIVE}, /* exec */
	{"<module>", NULL, NATIVE},
};

struct python {
	struct runtime_record r;
	struct interp_memory m;
	struct interp_layout layout;
	struct interp_process row;
	uint32_t minor;
	struct {
		uint64_t object;
		char name[32];
	} codes[MAX_CODES];
	unsigned n_codes;
	unsigned n, n_complete, n_frames, n_cut[ABI_N_CUTS];
};

static int read_memory(void *arg, uint64_t addr, void *to, size_t bytes)
{
	(void)arg;
	return read_child(to, bytes, addr) < 0 ? -EFAULT : 0;
}

static uint64_t read_word(void *arg, uint64_t vaddr)
{
	const struct python *p = arg;
	uint64_t v = 0;

	assert_int_equal(read_child(&v, sizeof(v), vaddr + p->m.bias), 0);
	return v;
}

static const char *name_of(struct python *p, uint64_t object)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	int r;

	for (unsigned i = 0; i < p->n_codes; i++)
		if (p->codes[i].object == object)
			return p->codes[i].name;
	r = interp_runtime_of(RUNTIME_PYTHON)
		    ->read_code(&p->m, &p->r, object << ABI_INTERP_ADDRESS_SHIFT, 0, &c);
	if (r < 0)
		return "(not a code object)";
	assert_true(p->n_codes < MAX_CODES);
	p->codes[p->n_codes].object = object;
	snprintf(p->codes[p->n_codes].name, sizeof(p->codes[0].name), "%s",
		strrchr(c.name, '.') ? strrchr(c.name, '.') + 1 : c.name);
	return p->codes[p->n_codes++].name;
}

static void start(const char *program)
{
	const char *in_root = strstr(program, "/./");
	int in = open(SCRIPT, O_RDONLY | O_CLOEXEC), out[2];
	char ready[7] = {0};

	assert_true(in >= 0 && pipe2(out, O_CLOEXEC) == 0);
	child_pid = fork();
	if (child_pid == 0) {
		char root[PATH_MAX];

		snprintf(root, sizeof(root), "%.*s", in_root ? (int)(in_root - program) : 0,
			program);
		if (dup2(in, STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0 ||
			(in_root && (chroot(root) < 0 || chdir("/") < 0)))
			_exit(126);
		program = in_root ? in_root + 2 : program;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, "-S", "-E", "-c",
			"import sys; exec(compile(sys.stdin.read(), 'calls.py', 'exec'))",
			(char *)NULL);
		_exit(127);
	}
	close(in);
	close(out[1]);
	for (size_t n = 0; n < 6;) {
		ssize_t r = read(out[0], ready + n, 6 - n);

		if (r <= 0)
			fail_msg("%s does not start", program);
		n += (size_t)r;
	}
	close(out[0]);
}

static void wait_stop(pid_t tid)
{
	int status;

	assert_int_equal(waitpid(tid, &status, __WALL), tid);
	assert_true(WIFSTOPPED(status));
}

static unsigned seize(pid_t *tids)
{
	char path[64];
	unsigned n = 0;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", child_pid);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)) && n < MAX_TIDS)
		if (e->d_name[0] != '.')
			tids[n++] = atoi(e->d_name);
	closedir(d);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(ptrace(PTRACE_SEIZE, tids[i], NULL, PTRACE_O_EXITKILL), 0);
	return n;
}

/* The file of its mappings that has the runtime, and where it lies. */
static void find_runtime(struct python *p)
{
	runtime_find(child_pid, RUNTIME_PYTHON, &p->r, &p->m.bias);
	p->minor = RUNTIME_MINOR(p->r.version);
	assert_true(interp_layout_of(&p->r, &p->layout));
	interp_rows_states(&p->r, read_word, p, &p->row);
}

/* Where a native frame of the interpreter's function is found: needs the mappings. */
static void place_eval(struct python *p)
{
	static struct walk w;
	uint64_t at = p->r.addresses[PYTHON_EVAL] + p->m.bias;

	if (p->layout.kind != INTERP_PYTHON_EVALS)
		return;
	assert_int_equal(unwind_locate(&w, at), UNWIND_IN_FILE);
	p->row.eval_binary = w.binary;
	p->row.eval_off = w.off;
	p->row.eval_bytes =
		(uint32_t)(p->r.addresses[PYTHON_EVAL_END] - p->r.addresses[PYTHON_EVAL]);
}

static unsigned walk_stopped(struct python *p, pid_t tid, __u64 *words, struct walk *w)
{
	static __u64 spare[ABI_USER_TAIL_WORDS];
	struct user_regs_struct r;

	assert_int_equal(ptrace(PTRACE_GETREGS, tid, NULL, &r), 0);
	walk_init(w, 0);
	w->pc = r.rip;
	const uint64_t regs[UNWIND_N_REGS] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp,
		r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15};
	memcpy(w->regs, regs, sizeof(regs));
	w->known = UNWIND_ALL_REGS;
	host_interp.process = p->row;
	host_interp.layout = p->layout;
	host_interp.tp = r.fs_base;
	interp_begin(w, &host_interp);
	while (!walk_turn(w, words))
		;
	host_interp_rest(w, words);
	return frames_end(&w->frames, words, spare, w->cut);
}

static unsigned expand(const __u64 *words, unsigned n, __u64 *ret)
{
	unsigned n_ret = 0;

	for (unsigned i = 0; i < n; i++) {
		uint32_t period = (uint32_t)(ABI_FRAME_VALUE(words[i]) >> 32),
			 count = (uint32_t)ABI_FRAME_VALUE(words[i]);

		assert_true(n_ret < MAX_FRAMES - 1);
		if (ABI_FRAME_KIND(words[i]) != ABI_FRAME_REPEAT) {
			ret[n_ret++] = words[i];
			continue;
		}
		assert_true(n_ret + period * count < MAX_FRAMES);
		for (unsigned k = 0; k < period * count; k++, n_ret++)
			ret[n_ret] = ret[n_ret - period];
	}
	return n_ret;
}

static void print_stack(struct python *p, const __u64 *frames, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (ABI_FRAME_KIND(frames[i]) == ABI_FRAME_INTERP)
			print_message("    %s +%u\n", name_of(p, ABI_INTERP_OBJECT(frames[i])),
				ABI_INTERP_POSITION(frames[i]));
		else
			print_message("    %#llx %s\n", frames[i],
				ABI_FRAME_KIND(frames[i]) == ABI_FRAME_NATIVE
					? mappings[ABI_NATIVE_BINARY(frames[i]) - 1].path
					: "");
}

static const struct call *call_of(const char *callee, const char *caller)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (strcmp(calls[i].callee, callee) == 0 &&
			(caller && calls[i].caller ? strcmp(calls[i].caller, caller) == 0
						   : !caller && !calls[i].caller))
			return &calls[i];
	return NULL;
}

/* NULL, or what is wrong. */
static const char *check_stack(struct python *p, const __u64 *frames, unsigned n)
{
	const char *callee = NULL;
	unsigned n_between = 0, n_frames = 0;

	for (unsigned i = 0; i <= n; i++) {
		const struct call *c;
		const char *caller = NULL;

		if (i < n && ABI_FRAME_KIND(frames[i]) != ABI_FRAME_INTERP) {
			n_between++;
			continue;
		}
		if (i < n)
			caller = name_of(p, ABI_INTERP_OBJECT(frames[i]));
		c = callee ? call_of(callee, caller) : NULL;
		if (callee && !c)
			return callee;
		if (c && c->between == NATIVE && !n_between)
			return "no native frame where one must be";
		if (c && c->between == NOTHING && p->minor >= 11 && n_between)
			return "a native frame where none can be";
		if (c && p->minor < 11 && !n_between)
			return "no native frame of the interpreter's";
		n_frames += i < n;
		callee = caller;
		n_between = 0;
	}
	p->n_frames += n_frames;
	return n_frames >= 2 ? NULL : "no frames of the program";
}

static void check_stop(struct python *p, pid_t tid)
{
	static __u64 words[ABI_MAX_WORDS + 1], frames[MAX_FRAMES];
	static struct walk w;
	unsigned n = expand(words, walk_stopped(p, tid, words, &w), frames);
	const char *wrong;

	p->n++;
	p->n_cut[w.cut]++;
	if (w.cut != ABI_CUT_NONE) {
		if (getenv("SONDE_VERBOSE")) {
			print_message("cut %u\n", w.cut);
			print_stack(p, frames, n);
		}
		return;
	}
	p->n_complete++;
	wrong = check_stack(p, frames, n);
	if (wrong) {
		print_stack(p, frames, n);
		fail_msg("stop %u of thread %d of %d: %s", p->n, tid, child_pid, wrong);
	}
}

static void check_program(const char *program)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	struct python p = {.m = {.read = read_memory}};
	pid_t tids[MAX_TIDS];
	unsigned n_tids;

	start(program);
	find_runtime(&p);
	usleep(100000); /* all that is loaded late is mapped by then */
	n_tids = seize(tids);
	assert_int_equal(n_tids, 2);
	host_memory_init(2048, 8192, 256);
	t = unwind_tables_new(&host_memory);
	read_mappings(t);
	place_eval(&p);
	while (p.n < n_stops * (1 + N_STEPS)) {
		pid_t tid = tids[rand() % (int)n_tids];

		/* to another place */
		nanosleep(&(struct timespec) {.tv_nsec = 100000 + rand() % 1000000}, NULL);
		assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
		wait_stop(tid);
		check_stop(&p, tid);
		for (int i = 0; i < N_STEPS; i++) {
			assert_int_equal(ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL), 0);
			wait_stop(tid);
			check_stop(&p, tid);
		}
		assert_int_equal(ptrace(PTRACE_CONT, tid, NULL, NULL), 0);
	}
	kill(child_pid, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
	print_message("%s: 3.%u, %u stops, %u frames, complete %.3f %%\n", program, p.minor, p.n,
		p.n_frames, 100.0 * p.n_complete / p.n);
	for (unsigned i = 1; i < ABI_N_CUTS; i++)
		if (p.n_cut[i])
			print_message("  %u cut: %u\n", p.n_cut[i], i);
	/* Else the interpreter was entering or leaving a function. Up to 3.9 it says less of that. */
	assert_true(p.n_complete * 1000ULL >= p.n * (p.minor < 10 ? 950ULL : 990ULL));
	unwind_tables_freep(&t);
	host_memory_done();
}

static void test_live(void **state)
{
	struct pythons found;

	(void)state;
#ifndef __x86_64__
	skip();
#endif
	if (getenv("SONDE_STACKS"))
		n_stops = (unsigned)strtoul(getenv("SONDE_STACKS"), NULL, 10);
	srand(20261126);
	pythons_find(&found);
	assert_true(found.n > 0);
	for (size_t i = 0; i < found.n; i++)
		check_program(found.programs[i]);
	pythons_done(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests_name("unwind_python", tests, NULL, NULL);
}
