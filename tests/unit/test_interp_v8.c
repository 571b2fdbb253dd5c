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

#define SCRIPT "tests/data/node/truth.js"
enum { DEFAULT_STOPS = 300, BETWEEN_US = 2000, MAX_STACKS = 1024, MAX_LINE = 4096 };

/* What the program prints. */
struct truth {
	struct js_stack *stacks;
	size_t n;
	unsigned *n_seen; /* by stack */
};

static pid_t spawn(const char *program, const char *how, int out)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(out, STDOUT_FILENO) < 0)
			_exit(126);
		execl(program, program, SCRIPT, how, (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

static void read_truth(const char *program, struct truth *t)
{
	char line[MAX_LINE];
	int pipe_of[2];
	FILE *in;
	pid_t pid;
	bool is_whole = false;

	assert_int_equal(pipe2(pipe_of, O_CLOEXEC), 0);
	pid = spawn(program, "stacks", pipe_of[1]);
	close(pipe_of[1]);
	in = fdopen(pipe_of[0], "r");
	t->stacks = calloc(MAX_STACKS, sizeof(*t->stacks));
	t->n_seen = calloc(MAX_STACKS, sizeof(*t->n_seen));
	while (fgets(line, sizeof(line), in)) {
		struct js_stack *s = &t->stacks[t->n ? t->n - 1 : 0];
		struct v8_place place;
		int name_at = 0;
		char *name, *file;

		line[strcspn(line, "\n")] = 0;
		if (line[0] == 'S') {
			assert_true(t->n < MAX_STACKS);
			t->n++;
		} else if (sscanf(line, "F %u %u %n", &place.line, &place.column, &name_at) == 2) {
			name = line + name_at;
			file = strrchr(name, ' '); /* names have spaces, files have none */
			assert_non_null(file);
			*file++ = 0;
			if (s->n < MAX_SHOWN)
				s->frames[s->n++] = (struct shown) {
					.name = xstrdup(
						strcmp(name, "-") == 0 ? "(anonymous)" : name),
					.file = xstrdup(strcmp(file, "-") == 0 ? "" : file),
					.place = place};
		}
		is_whole |= line[0] == '.';
	}
	fclose(in);
	waitpid(pid, NULL, 0);
	if (!is_whole || t->n < 20)
		fail_msg("%s: %zu stacks", program, t->n);
}

/* Another run of it, which goes on. */
static pid_t spawn_ready(const char *program)
{
	char line[MAX_LINE] = "";
	int pipe_of[2];
	pid_t pid;
	FILE *in;

	assert_int_equal(pipe2(pipe_of, O_CLOEXEC), 0);
	pid = spawn(program, "spin", pipe_of[1]);
	close(pipe_of[1]);
	in = fdopen(pipe_of[0], "r");
	if (!fgets(line, sizeof(line), in) || strcmp(line, "ready\n") != 0)
		fail_msg("%s: %s", program, line);
	fclose(in);
	return pid;
}

static void truth_done(struct truth *t)
{
	for (size_t i = 0; i < t->n; i++)
		js_stack_done(&t->stacks[i]);
	free(t->stacks);
	free(t->n_seen);
}

/* What a function that has no name in the source is called comes from its property `name`, which V8 makes for each closure. */
static bool same_name(const char *got, const char *truth)
{
	return strcmp(got, truth) == 0 ||
	       (strcmp(got, "(anonymous)") == 0 &&
		       (truth[0] == '[' || strcmp(truth, "eval") == 0 ||
			       strncmp(truth, "get ", 4) == 0 || strncmp(truth, "set ", 4) == 0));
}

static bool same_frame(const struct shown *a, const struct shown *b)
{
	return same_name(a->name, b->name) && strcmp(a->file, b->file) == 0 &&
	       a->place.line == b->place.line && a->place.column == b->place.column;
}

/* Optimised code has no frames of the builtins that it inlines, and one that C++ implements has none here: the truth may have more. */
static bool same_rest(const struct js_stack *got, size_t i, const struct js_stack *truth, size_t k)
{
	for (;; i++, k++) {
		while (i < got->n && !got->frames[i].file[0])
			i++;
		while (k < truth->n && !truth->frames[k].file[0])
			k++;
		if (i == got->n || k == truth->n)
			return i == got->n && k == truth->n;
		if (!same_frame(&got->frames[i], &truth->frames[k]))
			return false;
	}
}

/* Is this one of the stacks, or the outer part of one that is on its way to work()? */
static bool is_true(const struct js_stack *got, struct truth *t, bool has_leaf)
{
	const struct shown *leaf = &got->frames[0];

	for (size_t i = 0; i < t->n; i++) {
		const struct js_stack *s = &t->stacks[i];

		if (strcmp(leaf->name, "work") == 0 && same_rest(got, 1, s, 0)) {
			t->n_seen[i]++;
			return true;
		}
		for (size_t k = 0; k < s->n; k++)
			if (!has_leaf && same_rest(got, 0, s, k))
				return true;
			else if (same_name(leaf->name, s->frames[k].name) &&
				 same_rest(got, 1, s, k + 1))
				return true;
	}
	return false;
}

static void print_stack(const struct js_stack *s)
{
	static const char *const kinds[N_SHOWN_KINDS] = {
		[SHOWN_BUILTIN] = "builtin",
		[SHOWN_INTERPRETED] = "interpreted",
		[SHOWN_BASELINE] = "baseline",
		[SHOWN_OPTIMIZED] = "optimised",
		[SHOWN_INLINED] = "inlined",
	};

	for (size_t i = 0; i < s->n; i++)
		print_message("  %-12s %s %s:%u:%u at %#llx of %#llx\n", kinds[s->frames[i].kind],
			s->frames[i].name, s->frames[i].file, s->frames[i].place.line,
			s->frames[i].place.column, (unsigned long long)s->frames[i].pc,
			(unsigned long long)s->frames[i].start);
}

struct counts {
	unsigned n_stops, n_native, n_builtin, n_elsewhere, n_true, n_wrong, n_errors, n_unclear;
	unsigned n_frames[N_SHOWN_KINDS];
};

/* Of the script, not of what Node.js has of its own. */
static bool is_of_program(const struct shown *frame)
{
	return frame->file[0] == '/' || strcmp(frame->file, "ctx.js") == 0 ||
	       strcmp(frame->file, "[eval]") == 0;
}

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
	p->pid = spawn_ready(program);
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
