/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, lines and inlined calls of V8's code, against live Node.js processes: a program that knows its stacks (tests/data/node/truth.js)
 * prints them in one run, and is stopped hundreds of times in another. What is read from the memory of each stop must be one of them,
 * frame by frame. SONDE_STOPS is the number of stops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include "tests/unit/node_walk.h"
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

struct counts {
	unsigned n_stops, n_native, n_builtin, n_elsewhere, n_true, n_wrong, n_errors, n_unclear;
	unsigned n_frames[N_SHOWN_KINDS];
};

/*
 * The leaf's frame is not built yet, or gone already, so that the frame pointer's is the caller's, which the code at the leaf is not of.
 * Its callers are right all the same. Code of regular expressions has no frame.
 */
static bool is_unclear(const struct js_stack *s)
{
	return s->error && !s->n_before_error &&
	       (s->error == -EAGAIN || s->error == -ENOENT || s->is_builtin_leaf);
}

static void count(const struct js_stack *s, struct truth *t, struct counts *n)
{
	bool is_ours = s->n && is_of_program(&s->frames[0]);

	n->n_stops++;
	if (s->is_native_leaf) {
		n->n_native++; /* this walker does not know frames of C++ */
	} else if (is_unclear(s) && (!is_ours || is_true(s, t, false))) {
		n->n_unclear++;
	} else if (s->error) {
		n->n_errors++;
		print_message("error %d at %llx\n", s->error, (unsigned long long)s->error_pc);
		print_stack(s);
	} else if (!is_ours || !s->is_whole) {
		n->n_elsewhere++;
	} else if (is_true(s, t, true)) {
		n->n_true++;
		n->n_builtin += s->is_builtin_leaf;
		for (size_t i = 0; i < s->n; i++)
			n->n_frames[s->frames[i].kind]++;
	} else {
		n->n_wrong++;
		print_message(
			"no such stack%s\n", s->is_builtin_leaf ? " (leaf in a builtin)" : "");
		print_stack(s);
	}
}

static void one_stop(struct node *p, const struct elf_file *f, struct truth *t, struct counts *n)
{
	struct js_stack *s = calloc(1, sizeof(*s));
	struct user_regs_struct regs;

	assert_int_equal(ptrace(PTRACE_INTERRUPT, p->pid, NULL, NULL), 0);
	assert_int_equal(waitpid(p->pid, NULL, __WALL), p->pid);
	assert_int_equal(ptrace(PTRACE_GETREGS, p->pid, NULL, &regs), 0);
	node_read_maps(p, f);
	node_walk(p, s, &regs);
	assert_int_equal(ptrace(PTRACE_CONT, p->pid, NULL, NULL), 0);
	count(s, t, n);
	js_stack_done(s);
	free(s);
}

static void check_program(const char *program)
{
	const char *stops = getenv("SONDE_STOPS");
	unsigned n_stops = stops ? (unsigned)strtoul(stops, NULL, 10) : DEFAULT_STOPS, n_seen = 0;
	struct node *p = calloc(1, sizeof(*p));
	struct counts n = {0};
	struct truth t = {0};
	struct elf_file f;
	char path[64];
	int fd = open(program, O_RDONLY | O_CLOEXEC);

	assert_int_equal(elf_file_open(fd, &f, NULL), 0);
	assert_true(runtime_read(&f, &p->r));
	assert_int_equal(p->r.kind, RUNTIME_V8);
	if (p->r.refusal)
		fail_msg("%s: %s", program, runtime_refusal_text(p->r.refusal));
	read_truth(program, &t);
	p->pid = spawn_ready(program, LONG);
	snprintf(path, sizeof(path), "/proc/%d/mem", p->pid);
	p->mem = open(path, O_RDONLY | O_CLOEXEC);
	p->m = (struct interp_memory) {.read = node_read, .arg = p, .scripts = &p->scripts};
	assert_int_equal(ptrace(PTRACE_SEIZE, p->pid, NULL, NULL), 0);
	for (unsigned i = 0; i < n_stops; i++, usleep(BETWEEN_US))
		one_stop(p, &f, &t, &n);
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, __WALL);
	for (size_t i = 0; i < t.n; i++)
		n_seen += t.n_seen[i] > 0;
	print_message("%s: V8 %u.%u: %u stops, %u in C++, %u elsewhere, %u true (%u with a leaf in "
		      "a builtin), %u without a leaf, %u wrong, "
		      "%u errors; %u of %zu stacks seen; frames: %u interpreted, %u baseline, %u "
		      "optimised, %u inlined, "
		      "%u builtin\n",
		program, RUNTIME_MAJOR(p->r.version), RUNTIME_MINOR(p->r.version), n.n_stops,
		n.n_native, n.n_elsewhere, n.n_true, n.n_builtin, n.n_unclear, n.n_wrong,
		n.n_errors, n_seen, t.n, n.n_frames[SHOWN_INTERPRETED], n.n_frames[SHOWN_BASELINE],
		n.n_frames[SHOWN_OPTIMIZED], n.n_frames[SHOWN_INLINED], n.n_frames[SHOWN_BUILTIN]);
	v8_scripts_done(&p->scripts);
	elf_file_done(&f);
	close(p->mem);
	close(fd);
	free(p);
	truth_done(&t);
	assert_true(n.n_true > n.n_stops / 2);
	assert_int_equal(n.n_wrong, 0);
	/* What is refused is not wrong; a leaf between two frames is one stop in some hundred. */
	assert_true(n.n_unclear + n.n_errors <= n.n_stops / 20);
}

static void test_live(void **state)
{
	struct nodes found;

	(void)state;
	nodes_find(&found);
	if (!found.n)
		skip();
	for (size_t i = 0; i < found.n; i++)
		check_program(found.programs[i]);
	nodes_done(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_live),
#endif
	};

	return cmocka_run_group_tests_name("interp_v8", tests, NULL, NULL);
}
