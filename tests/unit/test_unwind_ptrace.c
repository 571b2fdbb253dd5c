/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker against elfutils on a live program: Python with hashlib (libcrypto), json, re and sorting is stopped at random and
 * stepped instruction by instruction, so that each prologue and epilogue on the way is met; at every instruction both walk the
 * stack.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include "tests/unit/unwind_process.h"
#include <elfutils/libdwfl.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_DEPTH = 2048, BURST = 300, MAX_CAUSES = 32 };

/* SONDE_STACKS asks for more. */
static unsigned n_stacks = 12000;

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	return read_child(to, bytes, from);
}

struct stack {
	uint64_t pcs[MAX_DEPTH];
	unsigned n;
	bool failed; /* elfutils went no further */
};

static void walk_ours(const struct user_regs_struct *r, struct stack *ret, struct walk *w)
{
	static __u64 words[ABI_MAX_WORDS + 1];
	const uint64_t regs[UNWIND_N_REGS] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
		r->rbp, r->rsp, r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};

	walk_init(w, 0);
	w->pc = r->rip;
	for (unsigned i = 0; i < UNWIND_N_REGS; i++)
		w->regs[i] = regs[i];
	w->known = UNWIND_ALL_REGS;
	ret->n = 0;
	do
		if (ret->n < MAX_DEPTH)
			ret->pcs[ret->n++] = w->pc;
	while (!walk_turn(w, words));
}

static int add_frame(Dwfl_Frame *frame, void *arg)
{
	struct stack *s = arg;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, NULL))
		return DWARF_CB_ABORT;
	if (s->n < MAX_DEPTH)
		s->pcs[s->n++] = pc;
	return DWARF_CB_OK;
}

static void walk_theirs(Dwfl *dwfl, struct stack *ret)
{
	ret->n = 0;
	ret->failed = dwfl_getthread_frames(dwfl, child_pid, add_frame, ret) != 0;
	if (ret->n && !ret->pcs[ret->n - 1])
		ret->n--; /* a return address of 0 is the root */
}

/* What differs, counted. */
static struct cause {
	char text[160];
	unsigned n;
} causes[MAX_CAUSES];

static const char *place_of(uint64_t pc)
{
	for (unsigned i = 0; i < n_mappings; i++)
		if (pc >= mappings[i].start && pc < mappings[i].end)
			return mappings[i].path;
	return "nowhere";
}

static void count_cause(
	const struct stack *ours, const struct stack *theirs, const struct walk *w, unsigned at)
{
	char text[160];
	uint64_t pc = at ? ours->pcs[at - 1] : ours->pcs[0];

	snprintf(text, sizeof(text), "%s, frame %s, %s%s, cut %u", place_of(pc),
		at <= 1 ? "0" : "n",
		at >= ours->n	  ? "ours ends"
		: at >= theirs->n ? "theirs ends"
				  : "other caller",
		theirs->failed ? " (elfutils failed)" : "", w->cut);
	for (unsigned i = 0; i < MAX_CAUSES; i++) {
		if (!causes[i].n)
			snprintf(causes[i].text, sizeof(causes[i].text), "%s", text);
		if (strcmp(causes[i].text, text) != 0)
			continue;
		if (!causes[i].n++)
			print_message(
				"first of its kind: %s pc %#lx (%s)\n", text, pc, place_of(pc));
		return;
	}
}

struct totals {
	unsigned n, equal, complete, unknown;
	uint64_t frames;
};

static void compare(Dwfl *dwfl, struct totals *totals)
{
	static struct stack ours, theirs;
	static struct walk w;
	struct user_regs_struct regs;
	unsigned at = 0, n;

	assert_int_equal(ptrace(PTRACE_GETREGS, child_pid, NULL, &regs), 0);
	for (unsigned i = 0; i < n_mappings; i++)
		mappings[i].n_leaves += regs.rip >= mappings[i].start && regs.rip < mappings[i].end;
	walk_ours(&regs, &ours, &w);
	walk_theirs(dwfl, &theirs);
	totals->n++;
	totals->complete += w.cut == ABI_CUT_NONE;
	if (theirs.n <= 1 && ours.n > 1) {
		totals->unknown++; /* elfutils found nothing at all */
		return;
	}
	n = ours.n < theirs.n ? ours.n : theirs.n;
	while (at < n && ours.pcs[at] == theirs.pcs[at])
		at++;
	totals->frames += at;
	if ((at == ours.n && at == theirs.n) || (at == theirs.n && theirs.failed))
		totals->equal++;
	else
		count_cause(&ours, &theirs, &w, at);
}

static const char program[] = "import hashlib, json, re, zlib, sys\n"
			      "data = [{'k%d' % i: [i * 1.5, str(i), None]} for i in range(20)]\n"
			      "rx = re.compile(r'(a+)+b|[0-9]{2,}x?')\n"
			      "print('ready', flush=True)\n"
			      "while True:\n"
			      "    t = json.dumps(data)\n"
			      "    json.loads(t)\n"
			      "    for h in 'sha256', 'md5', 'sha1', 'sha512', 'blake2b', "
			      "'sha3_256': hashlib.new(h, t.encode()).hexdigest()\n"
			      "    hashlib.pbkdf2_hmac('sha256', b'p', b's', 20)\n"
			      "    sorted(t, key=lambda c: -ord(c))\n"
			      "    rx.sub('-', t)\n"
			      "    zlib.decompress(zlib.compress(t.encode()))\n"
			      "    '%.17g %r' % (1 / 3, 2.5e300)\n"
			      "    int('9' * 400) * int('7' * 300) % 1234567891011\n";

/* The interpreter as a library, where it is installed; the program of the same name has it linked in. */
static void run_library(void)
{
	static char args[][64] = {"python3.11", "-S", "-E", "-c"};
	static char text[sizeof(program)];
	char *argv[] = {args[0], args[1], args[2], args[3], text, NULL};
	void *library = dlopen("libpython3.11.so.1.0", RTLD_NOW | RTLD_GLOBAL);
	int (*run)(int, char **) = NULL;

	memcpy(text, program, sizeof(text));
	if (library)
		*(void **)&run = dlsym(library, "Py_BytesMain");
	if (run)
		_exit(run(5, argv));
}

static void start_program(void)
{
	int out[2];
	char ready[6] = {0};

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	child_pid = fork();
	if (child_pid == 0) {
		dup2(out[1], 1);
		run_library();
		execl("/usr/bin/python3.11", "python3.11", "-S", "-E", "-c", program, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	assert_int_equal(read(out[0], ready, 5), 5);
	close(out[0]);
	assert_int_equal(ptrace(PTRACE_SEIZE, child_pid, NULL, PTRACE_O_EXITKILL), 0);
}

static void wait_stop(void)
{
	int status;

	assert_int_equal(waitpid(child_pid, &status, __WALL), child_pid);
	assert_true(WIFSTOPPED(status));
}

static Dwfl *attach_elfutils(void)
{
	static char *debug_path = NULL;
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.debuginfo_path = &debug_path,
	};
	Dwfl *dwfl = dwfl_begin(&callbacks);

	assert_int_equal(dwfl_linux_proc_report(dwfl, child_pid), 0);
	assert_int_equal(dwfl_report_end(dwfl, NULL, NULL), 0);
	assert_int_equal(dwfl_linux_proc_attach(dwfl, child_pid, true), 0);
	return dwfl;
}

/* True when enough instructions of each library were met. */
static bool covers_libraries(void)
{
	static const char *const names[] = {"libc.so", "libcrypto.so", "python3.11"};
	unsigned n[ARRAY_SIZE(names)] = {0};

	for (unsigned i = 0; i < n_mappings; i++)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			n[k] += strstr(mappings[i].path, names[k]) ? mappings[i].n_leaves : 0;
	return n[0] >= 300 && n[1] >= 300 && n[2] >= 300;
}

static void every_instruction(void **state)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	struct totals totals = {0};
	Dwfl *dwfl;

	(void)state;
	if (access("/usr/bin/python3.11", X_OK) < 0) {
		print_message("no /usr/bin/python3.11\n");
		skip();
	}
	start_program();
	assert_int_equal(ptrace(PTRACE_INTERRUPT, child_pid, NULL, NULL), 0);
	wait_stop();
	host_memory_init(2048, 8192, 256);
	t = unwind_tables_new(&host_memory);
	read_mappings(t);
	dwfl = attach_elfutils();
	srand(20261121);
	if (getenv("SONDE_STACKS"))
		n_stacks = (unsigned)strtoul(getenv("SONDE_STACKS"), NULL, 10);
	while (totals.n < n_stacks || (!covers_libraries() && totals.n < 10 * n_stacks)) {
		for (int i = 0; i < BURST; i++) {
			assert_int_equal(ptrace(PTRACE_SINGLESTEP, child_pid, NULL, NULL), 0);
			wait_stop();
			compare(dwfl, &totals);
		}
		assert_int_equal(ptrace(PTRACE_CONT, child_pid, NULL, NULL), 0);
		/* to another place */
		nanosleep(&(struct timespec) {.tv_nsec = 200000 + rand() % 2000000}, NULL);
		assert_int_equal(ptrace(PTRACE_INTERRUPT, child_pid, NULL, NULL), 0);
		wait_stop();
	}
	kill(child_pid, SIGKILL);
	dwfl_end(dwfl);
	print_message("%u stacks, %lu frames agreed on; equal %.3f %%, complete %.3f %%, unknown "
		      "to elfutils %.3f %%\n",
		totals.n, totals.frames, 100.0 * totals.equal / (totals.n - totals.unknown),
		100.0 * totals.complete / totals.n, 100.0 * totals.unknown / totals.n);
	for (unsigned i = 0; i < MAX_CAUSES && causes[i].n; i++)
		print_message("  %u: %s\n", causes[i].n, causes[i].text);
	for (unsigned i = 0; i < n_mappings; i++)
		if (mappings[i].n_leaves)
			print_message(
				"  %u leaves in %s\n", mappings[i].n_leaves, mappings[i].path);
	assert_true(covers_libraries());
	assert_true(totals.equal * 1000ULL >= (totals.n - totals.unknown) * 999ULL);
	assert_true(totals.complete * 1000ULL >= totals.n * 999ULL);
	assert_true(totals.unknown * 20ULL <= totals.n);
	unwind_tables_freep(&t);
	host_memory_done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_instruction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
