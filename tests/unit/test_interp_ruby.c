/* SPDX-License-Identifier: Apache-2.0
 *
 * Ruby's stacks, names and lines, against live interpreters: a script (tests/data/ruby/truth.rb) stops in stacks made from chance, of whose
 * frames it prints what Ruby says; all of it is read out of its memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include "tests/unit/ruby_rows.h"

#define SCRIPT "tests/data/ruby/truth.rb"
#define BUSY "tests/data/ruby/busy.rb"

struct counts {
	unsigned n_stops, n_frames, n_c, n_lines, n_exec, n_deepest;
};

/* Methods of truth.rb whose text is that of many classes' methods: they are shown without one. */
static void take_class_of(char *name)
{
	static const char *const many[] = {
		"in_struct", "in_anonymous", "in_block", "of_each", "make"};
	char *dot = strrchr(name, '.'), *hash = strrchr(name, '#'), *in = strstr(name, " in "),
	     *method = MAX(dot, hash), *class = in ? in + strlen(" in ") : name;

	for (size_t i = 0; method && i < ARRAY_SIZE(many); i++)
		if (strcmp(method + 1, many[i]) == 0)
			memmove(class, method + 1, strlen(method + 1) + 1);
}

static void check_hex(const char *hex, const char *text, const char *what)
{
	size_t n = strspn(hex, "0123456789abcdef") / 2;
	char expected[8192];

	assert_true(n < sizeof(expected));
	for (size_t i = 0; i < n; i++) {
		unsigned byte = 0;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		expected[i] = (char)byte;
	}
	expected[n] = 0;
	take_class_of(expected);
	if (strcmp(expected, text) != 0)
		fail_msg("%s is \"%s\", Ruby says \"%s\"", what, text, expected);
}

/* What /proc has of a thread's system call: is it to read standard input, or to wait for that? */
static bool waits_for_input(struct ruby *p, const char *text)
{
	unsigned long number, first, second;
	int fd = -1;

	if (sscanf(text, "%lu %lx %lx", &number, &first, &second) != 3)
		return false;
	if (number == SYS_ppoll && second)
		return ruby_read_mem(p, first, &fd, sizeof(fd)) == 0 && fd == STDIN_FILENO;
	return number == SYS_read && first == STDIN_FILENO;
}

static pid_t find_waiting(struct ruby *p)
{
	char path[320], text[128];

	for (unsigned i = 0; i < MAX_WAIT_MS; i++, usleep(1000)) {
		struct dirent *e;
		DIR *d;

		snprintf(path, sizeof(path), "/proc/%d/task", p->pid);
		d = opendir(path);
		assert_non_null(d);
		while ((e = readdir(d))) {
			pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
			FILE *f;
			bool waits;

			snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", p->pid, tid);
			f = tid > 0 ? fopen(path, "re") : NULL;
			waits = f && fgets(text, sizeof(text), f) && waits_for_input(p, text);
			if (f)
				fclose(f);
			if (waits) {
				closedir(d);
				return tid;
			}
		}
		closedir(d);
	}
	fail_msg("process %d does not come to its stop", p->pid);
	return 0;
}

/* From 3.4 on Ruby shows methods of its own that are written in Ruby as if they were in C. */
static bool is_hidden(const struct ruby *p, const char *file)
{
	return p->r.version >= RUNTIME_VERSION(3, 4, 0) && strncmp(file, "<internal:", 10) == 0;
}

/* What the kernel half sends of an object, behind a walk, is what the reader says that it takes, and gives the name of its frame. */
static void check_told(struct ruby *p, const struct ruby_frame *f, const struct interp_code *c)
{
	_cleanup_interp_code_ struct interp_code told = {0};
	static struct walk w;
	__u64 context = 0;

	ruby_layout(p, &host_interp.layout);
	assert_int_equal(interp_check(&w, &host_interp,
				 ABI_INTERP(f->object >> ABI_INTERP_ADDRESS_SHIFT, f->position)),
		0);
	assert_int_equal(host_interp.check, c->kernel_check);
	if (f->is_c)
		return;
	interp_ruby_look_begin(&host_interp);
	interp_ruby_look(&host_interp);
	while (!interp_ruby_look_turn(&w, &host_interp, f->object, &context))
		;
	assert_int_equal(ruby_read_code(&p->m, &p->r, f->object, context, &told), 0);
	assert_string_equal(told.name, c->name);
}

/* "F line =label =path" */
static void check_frame(
	struct ruby *p, const struct ruby_frame *f, const char *line, struct counts *n)
{
	_cleanup_interp_code_ struct interp_code c = {0};
	int label_at = 0, path_at = 0, r;
	unsigned expected;

	assert_int_equal(sscanf(line, "F %u %n%*s %n", &expected, &label_at, &path_at), 1);
	r = ruby_read_code(&p->m, &p->r, f->object, f->method, &c);
	if (r < 0)
		fail_msg("object at %#lx: %s: %s", f->object, strerror(-r), line);
	check_told(p, f, &c);
	check_hex(line + label_at + 1, c.name, "name");
	n->n_frames++;
	n->n_c += f->is_c;
	if (f->is_c || is_hidden(p, c.file))
		return;
	check_hex(line + path_at + 1, c.file, c.name);
	if (ruby_line(&c, f->position) != expected)
		fail_msg("%s of %s: line %u, Ruby says %u", c.name, c.file,
			ruby_line(&c, f->position), expected);
	n->n_lines++;
}

static void print_stack(struct ruby *p, const struct ruby_stack *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		_cleanup_interp_code_ struct interp_code c = {0};
		int r = ruby_read_code(&p->m, &p->r, s->frames[i].object, s->frames[i].method, &c);

		print_message("%s%s %s:%u %s\n", s->frames[i].is_c ? "C " : "  ",
			r < 0 ? strerror(-r) : c.name, r < 0 ? "" : c.file,
			r < 0 ? 0 : ruby_line(&c, s->frames[i].position),
			s->frames[i].is_finish ? "FINISH" : "");
	}
}

/* Takes out the frames whose functions an inner one is part of. */
static void fold(struct ruby *p, struct ruby_stack *s)
{
	unsigned n = 0;
	bool is_part = false;

	for (unsigned i = 0; i < s->n; i++) {
		_cleanup_interp_code_ struct interp_code c = {0};

		if (!is_part)
			s->frames[n++] = s->frames[i];
		is_part =
			ruby_read_code(&p->m, &p->r, s->frames[i].object, 0, &c) == 0 && c.is_part;
	}
	s->n = n;
}

/*
 * NULL: both kinds of frames lie where they belong: Ruby's as in the chain, each run of them leafward of its native frame. Methods in C that
 * nobody entered the interpreter for, as a fiber may begin with, are the last of all.
 */
static const char *check_mixed(const struct ruby_stack *s, const uint64_t *words, unsigned n)
{
	bool is_finish = false, is_last = false;
	unsigned k = 0;

	for (unsigned i = 0; i < n; i++) {
		if (ABI_FRAME_KIND(words[i]) != ABI_FRAME_INTERP) {
			if (is_last)
				return "a native frame behind the last methods in C";
			if (is_finish != ruby_is_exec(words[i]))
				return is_finish ? "a run without its native frame"
						 : "an entry without a run";
			is_finish = false;
			continue;
		}
		if (k == s->n ||
			ABI_INTERP_OBJECT(words[i]) !=
				s->frames[k].object >> ABI_INTERP_ADDRESS_SHIFT ||
			ABI_INTERP_POSITION(words[i]) != s->frames[k].position)
			return "another frame than the chain has";
		if (is_finish)
			return "a run without its native frame";
		is_finish = s->frames[k].is_finish;
		is_last = s->frames[k].is_last;
		k++;
	}
	return k == s->n ? NULL : "fewer frames than the chain has";
}

static void check_stop(struct ruby *p, struct unwind_tables *t, struct counts *n)
{
	static struct ruby_stack s;
	static uint64_t mixed[MAX_MIXED_FRAMES];
	const char *wrong;
	uint32_t cut;
	_cleanup_free_ char *line = NULL;
	char *lines[MAX_RUBY_FRAMES];
	struct user_regs_struct regs;
	unsigned n_lines = 0;
	size_t cap = 0;
	uint64_t ec;
	pid_t tid;

	while (getline(&line, &cap, p->out) > 0 && line[0] == 'F')
		lines[n_lines++] = xstrdup(line);
	assert_string_equal(line, ".\n");
	tid = find_waiting(p);
	assert_true(ruby_thread_stop(tid, &regs));
	ec = ruby_state(p, regs.fs_base);
	assert_int_not_equal(ec, 0);
	assert_true(ruby_walk(p, ec, &s));
	ruby_walk_native(p, &regs, &s);
	if (s.cut) { /* a library that came since */
		read_mappings(t);
		ruby_walk_native(p, &regs, &s);
	}
	wrong = check_mixed(&s, mixed, ruby_walk_mixed(p, &regs, mixed, &cut));
	if (wrong || cut)
		fail_msg("stop %u: %s, cut %u", n->n_stops, wrong ? wrong : "", cut);
	fold(p, &s);
	if (s.n != n_lines + 1 || s.n_exec != s.n_finish) {
		print_stack(p, &s);
		fail_msg("stop %u: %u frames, Ruby says %u; %u FINISH, %u of the interpreter's "
			 "function in %u native ones, cut %u",
			n->n_stops, s.n, n_lines + 1, s.n_finish, s.n_exec, s.n_native, s.cut);
	}
	assert_true(s.frames[0].is_c); /* the method that reads */
	for (unsigned i = 0; i < n_lines; i++) {
		check_frame(p, &s.frames[i + 1], lines[i], n);
		free(lines[i]);
	}
	n->n_exec += s.n_exec;
	n->n_deepest = MAX(n->n_deepest, s.n);
	n->n_stops++;
	ruby_thread_go_on(tid);
	assert_int_equal(write(p->in, "\n", 1), 1);
}

/* SONDE_STACKS asks for more. */
static unsigned stacks_wanted(unsigned usual)
{
	const char *more = getenv("SONDE_STACKS");

	return more ? (unsigned)strtoul(more, NULL, 10) : usual;
}

/* SONDE_SEED asks for other stacks. */
static void check_program(const char *program, unsigned n_stops)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	const char *seed = getenv("SONDE_SEED");
	struct counts n = {0};
	struct ruby p;
	char text[16];
	int c;

	host_memory_init(8192, 16384, 512);
	t = unwind_tables_new(&host_memory);
	snprintf(text, sizeof(text), "%u", n_stops);
	ruby_spawn(&p, program, SCRIPT, false, text, seed ? seed : "1");
	while ((c = fgetc(p.out)) == 'F' || c == '.') {
		ungetc(c, p.out);
		if (!p.r.kind) {
			ruby_attach(&p);
			read_mappings(t);
		}
		check_stop(&p, t, &n);
	}
	assert_int_equal(c, 'e');
	print_message("%s: %u.%u.%u, %u stops, %u frames, %u of them in C, %u lines, %u entries of "
		      "the interpreter, the deepest stack %u\n",
		program, RUNTIME_MAJOR(p.r.version), RUNTIME_MINOR(p.r.version),
		RUNTIME_PATCH(p.r.version), n.n_stops, n.n_frames, n.n_c, n.n_lines, n.n_exec,
		n.n_deepest);
	assert_true(n.n_stops >= n_stops);
	ruby_stop(&p);
	host_memory_done();
}

static void test_live(void **state)
{
	struct rubies found;

	(void)state;
	rubies_find(&found);
	if (!found.n) {
		print_message("no /usr/bin/ruby, and none in SONDE_RUBIES\n");
		skip();
	}
	for (size_t i = 0; i < found.n; i++)
		check_program(found.programs[i], stacks_wanted(150));
	rubies_done(&found);
}

struct busy_counts {
	unsigned n, n_frames, n_jit, n_idle;
	unsigned n_equal, n_near,
		n_other;  /* entries of the interpreter less FINISH frames: 0, 1 or -1 */
	unsigned n_cut;	  /* native walks */
	unsigned n_whole; /* walks over both kinds of frames in which all is in its place */
};

/* The number in a name like "block in Work#l3_key"; -1: it has none. */
static int depth_of(const char *name)
{
	for (const char *at = name; (at = strchr(at, 'l')); at++)
		if ((at == name || strchr(" #.", at[-1])) && at[1] >= '0' && at[1] <= '9' &&
			at[2] == '_')
			return at[1] - '0';
	return -1;
}

/* From the root on, functions of the script have the numbers 0, 1, 2, …; blocks have that of their method once more. A fiber begins in a
 * block. */
static void check_order(struct ruby *p, const struct ruby_stack *s, struct busy_counts *n)
{
	int last = -1;

	for (unsigned i = s->n; i-- > 0;) {
		_cleanup_interp_code_ struct interp_code c = {0};
		const struct ruby_frame *f = &s->frames[i];
		int r = ruby_read_code(&p->m, &p->r, f->object, f->method, &c), depth;

		if (r < 0)
			fail_msg("object at %#lx: %s", f->object, strerror(-r));
		n->n_frames++;
		depth = depth_of(c.name);
		if (depth < 0)
			continue;
		if (depth && depth != last && depth != last + 1 && i != s->n - 1) {
			print_stack(p, s);
			fail_msg("%s is in %d", c.name, last);
		}
		last = depth;
	}
}

static bool is_jit(uint64_t pc)
{
	for (unsigned i = 0; i < n_mappings; i++)
		if (pc >= mappings[i].start && pc < mappings[i].end)
			return !mappings[i].binary;
	return false;
}

static void check_native(struct ruby *p, struct unwind_tables *t,
	const struct user_regs_struct *regs, struct ruby_stack *s, struct busy_counts *n)
{
	int more;

	ruby_walk_native(p, regs, s);
	if (s->cut) {
		read_mappings(t);
		ruby_walk_native(p, regs, s);
	}
	for (unsigned i = 0; i < s->n_native; i++)
		n->n_jit += is_jit(s->pcs[i]);
	more = (int)s->n_exec - (int)s->n_finish;
	n->n_cut += s->cut != ABI_CUT_NONE;
	n->n_equal += !s->cut && !more;
	n->n_near += !s->cut && (more == 1 || more == -1);
	n->n_other += !s->cut && (more > 1 || more < -1);
}

static void check_thread(struct ruby *p, struct unwind_tables *t, pid_t tid, struct busy_counts *n)
{
	static struct ruby_stack s;
	static uint64_t mixed[MAX_MIXED_FRAMES];
	struct user_regs_struct regs;
	uint32_t cut;
	uint64_t ec;

	if (!ruby_thread_stop(tid, &regs))
		return;
	ec = ruby_state(p, regs.fs_base);
	if (ec) {
		assert_true(ruby_walk(p, ec, &s));
		check_order(p, &s, n);
		check_native(p, t, &regs, &s, n);
		/* Ruby ends by itself now and then: "[BUG] pthread_mutex_lock" amid ractors. */
		if (ruby_is_mapped(p)) {
			n->n_whole +=
				!check_mixed(&s, mixed, ruby_walk_mixed(p, &regs, mixed, &cut)) &&
				!cut;
			n->n++;
		}
	} else {
		n->n_idle++;
	}
	ruby_thread_go_on(tid);
}

/* Ractors are an experiment of Ruby's: a program of them may end by a fault of its own. */
static bool is_running(const struct ruby *p)
{
	int status = 0;
	pid_t pid = waitpid(p->pid, &status, WNOHANG);

	/* Negative: whoever stopped its first thread has its status. */
	if (pid == 0 || (pid == p->pid && WIFSTOPPED(status)))
		return true;
	print_message("the program has ended: status %#x\n", (unsigned)status);
	return false;
}

static void judge(const struct busy_counts *n, unsigned n_stops, bool with_jit)
{
	assert_true(n->n >= n_stops / 10);
	assert_int_equal(n->n_jit != 0, with_jit);
	/* While a fiber is switched to, one chain is the other's already. */
	assert_true(with_jit || n->n_other * 100 <= n->n);
	assert_true(n->n_equal * 100 >= n->n * 85);
	if (!with_jit)
		assert_int_equal(n->n_whole, n->n_equal);
}

static void check_busy(const char *program, bool with_jit, const char *kind, unsigned n_stops)
{
	_cleanup_unwind_tables_ struct unwind_tables *t = NULL;
	struct busy_counts n = {0};
	bool has_ended = false;
	char line[16], path[64];
	struct ruby p;

	host_memory_init(8192, 16384, 512);
	t = unwind_tables_new(&host_memory);
	ruby_spawn(&p, program, BUSY, with_jit, kind, "");
	assert_non_null(fgets(line, sizeof(line), p.out));
	assert_string_equal(line, "ready\n");
	ruby_attach(&p);
	read_mappings(t);
	snprintf(path, sizeof(path), "/proc/%d/task", p.pid);
	while (n.n + n.n_idle < n_stops && !has_ended) {
		struct dirent *e;
		DIR *d = opendir(path);

		while (d && (e = readdir(d)))
			if (e->d_name[0] != '.')
				check_thread(&p, t, (pid_t)strtol(e->d_name, NULL, 10), &n);
		if (d)
			closedir(d);
		usleep(1000);
		has_ended = !is_running(&p);
	}
	print_message("%s%s, %s: %u stacks, %u frames, %u JIT frames; entries and FINISH frames "
		      "are equal in %u, differ by 1 in %u, by more in %u, are not known in %u; %u "
		      "threads without a state; %u walked whole\n",
		program, with_jit ? " --yjit" : "", kind, n.n, n.n_frames, n.n_jit, n.n_equal,
		n.n_near, n.n_other, n.n_cut, n.n_idle, n.n_whole);
	/* Its last stacks were of its own fault. */
	if (!has_ended || strcmp(kind, "ractors") != 0)
		judge(&n, n_stops, with_jit);
	ruby_stop(&p);
	host_memory_done();
}

/* Any moment: a frame may have been entered or left in one of the two stacks, not yet in the other. */
static void test_busy(void **state)
{
	struct rubies found;

	(void)state;
	rubies_find(&found);
	for (size_t i = 0; i < found.n; i++) {
		const char *program = found.programs[i];

		check_busy(program, false, "threads", stacks_wanted(200));
		if (!strstr(program, "ruby2."))
			check_busy(program, false, "ractors", stacks_wanted(100));
		if (ruby_has_jit(program))
			check_busy(program, true, "threads", stacks_wanted(200));
	}
	rubies_done(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_busy),
	};

	return cmocka_run_group_tests_name("interp_ruby", tests, NULL, NULL);
}
