/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of JavaScript among native ones, on live Node.js processes: a program that knows its stacks (tests/data/node/truth.js) is stopped at
 * random and walked as the kernel half does it, through C++ and back. Names and lines are read by the words of the walk, and by what it tells
 * of machine code. Each stack must be one that the program has printed. SONDE_STOPS is the number of stops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include "exporter/interp/rows.h"
#include "tests/unit/node_truth.h"
#include "tests/unit/nodes.h"
#include "tests/unit/unwind_process.h"
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <sys/ptrace.h>
#include <sys/user.h>

enum { MAX_FRAMES = 4096, MAX_FILES = 64, MAX_PRINTED = 8, N_STEPS = 20 };

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	return read_child(to, bytes, from);
}

struct file {
	char path[256];
	uint32_t binary;
};

struct node {
	struct runtime_record r;
	struct interp_memory m;
	struct v8_scripts scripts;
	struct interp_layout layout;
	struct interp_process row;
	struct file files[MAX_FILES];
	size_t n_files;
	struct host_machine told[MAX_FRAMES];
};

static int read_memory(void *arg, uint64_t addr, void *to, size_t bytes)
{
	(void)arg;
	return read_child(to, bytes, addr) < 0 ? -EFAULT : 0;
}

/* ---- the process ---- */

static void set_row(struct node *p, const char *program)
{
	int fd = open(program, O_RDONLY | O_CLOEXEC);
	uint64_t start, end;
	char real[PATH_MAX] = "";
	struct elf_file f;

	assert_int_equal(elf_file_open(fd, &f, NULL), 0);
	assert_true(runtime_read(&f, &p->r));
	assert_int_equal(p->r.kind, RUNTIME_V8);
	if (p->r.refusal)
		fail_msg("%s: %s", program, runtime_refusal_text(p->r.refusal));
	assert_true(interp_layout_of(&p->r, &p->layout));
	assert_true(interp_eval_of(&p->r, &start, &end));
	assert_non_null(realpath(program, real));
	for (size_t i = 0; i < f.n_loads; i++)
		if (start >= f.loads[i].vaddr && start - f.loads[i].vaddr < f.loads[i].file_bytes)
			p->row.eval_off = start - f.loads[i].vaddr + f.loads[i].file_off;
	p->row.eval_bytes = (uint32_t)(end - start);
	for (unsigned i = 0; i < n_mappings; i++)
		if (strcmp(mappings[i].path, real) == 0 && !p->row.eval_binary) {
			p->row.eval_binary = mappings[i].binary;
			for (size_t k = 0; k < f.n_loads; k++)
				if (f.loads[k].flags & PF_X)
					p->m.bias = mappings[i].start - mappings[i].off -
						    (f.loads[k].vaddr - f.loads[k].file_off);
		}
	assert_true(p->row.eval_binary && p->row.eval_off);
	p->m.read = read_memory;
	p->m.scripts = &p->scripts;
	elf_file_done(&f);
	close(fd);
}

/* The files stay, what V8 compiles comes and goes. */
static void keep_files(struct node *p)
{
	for (unsigned i = 0; i < n_mappings; i++)
		if (mappings[i].binary && p->n_files < MAX_FILES) {
			struct file *f = &p->files[p->n_files++];

			memcpy(f->path, mappings[i].path, sizeof(f->path));
			f->binary = mappings[i].binary;
		}
}

static void read_mappings_again(const struct node *p)
{
	char path[64], line[512];
	FILE *f;

	n_mappings = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", child_pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		struct mapping *m = &mappings[n_mappings];
		char perms[8];

		*m = (struct mapping) {0};
		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %255s", &m->start, &m->end, perms,
			    &m->off, m->path) < 4 ||
			perms[2] != 'x')
			continue;
		assert_true(n_mappings < MAX_MAPPINGS - 1);
		n_mappings++;
		for (size_t i = 0; m->path[0] && i < p->n_files; i++)
			if (strcmp(p->files[i].path, m->path) == 0)
				m->binary = p->files[i].binary;
	}
	fclose(f);
}

/* ---- a stack ---- */

static unsigned walk_stopped(
	struct node *p, const struct user_regs_struct *r, __u64 *words, struct walk *w)
{
	static __u64 spare[ABI_USER_TAIL_WORDS];
	const uint64_t regs[UNWIND_N_REGS] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
		r->rbp, r->rsp, r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};

	walk_init(w, 0);
	w->pc = r->rip;
	memcpy(w->regs, regs, sizeof(regs));
	w->known = UNWIND_ALL_REGS;
	host_interp.process = p->row;
	host_interp.layout = p->layout;
	host_machines = p->told;
	host_n_machines = 0;
	host_max_machines = MAX_FRAMES;
	interp_begin(w, &host_interp);
	assert_int_equal(w->has_interp, WALK_HAS_FRAMES);
	while (!walk_turn(w, words))
		;
	return frames_end(&w->frames, words, spare, w->cut);
}

static unsigned expand(const __u64 *words, unsigned n, __u64 *ret)
{
	unsigned n_ret = 0;

	for (unsigned i = 0; i < n; i++) {
		uint32_t period = (uint32_t)(ABI_FRAME_VALUE(words[i]) >> 32),
			 count = (uint32_t)ABI_FRAME_VALUE(words[i]);

		if (ABI_FRAME_KIND(words[i]) != ABI_FRAME_REPEAT) {
			assert_true(n_ret < MAX_FRAMES);
			ret[n_ret++] = words[i];
			continue;
		}
		assert_true(n_ret + period * count <= MAX_FRAMES);
		for (unsigned k = 0; k < period * count; k++, n_ret++)
			ret[n_ret] = ret[n_ret - period];
	}
	return n_ret;
}

/* What the walk told of the machine code at a word; NULL: nothing. */
static const struct host_machine *told_of(const struct node *p, __u64 word, bool is_leaf)
{
	for (unsigned i = 0; i < host_n_machines; i++)
		if (p->told[i].is_exact == is_leaf &&
			p->told[i].address == ABI_FRAME_VALUE(word) + is_leaf)
			return &p->told[i];
	return NULL;
}

static void show_interpreted(struct node *p, struct js_stack *s, __u64 word)
{
	static struct walk w;
	uint64_t object = ABI_INTERP_OBJECT(word) << ABI_INTERP_ADDRESS_SHIFT;
	_cleanup_interp_code_ struct interp_code c = {0};
	int error = v8_read_code(&p->m, &p->r, object, 0, &c);

	show_error(s, error, object);
	if (error < 0)
		return;
	assert_int_equal(interp_check(&w, &host_interp, word), 0);
	assert_int_equal(host_interp.check, c.kernel_check);
	show(s, &c, v8_place(&c, ABI_INTERP_POSITION(word)),
		c.file[0] ? SHOWN_INTERPRETED : SHOWN_BUILTIN, object, 0);
}

/* Its function is known by the check that it was told with. */
static void check_told(struct node *p, const struct host_machine *told)
{
	_cleanup_interp_code_ struct interp_code c = {0};

	if (told->function && v8_read_code(&p->m, &p->r, told->function, 0, &c) == 0)
		assert_int_equal(told->check, c.kernel_check);
}

static void show_machine(struct node *p, struct js_stack *s, __u64 word, bool is_leaf)
{
	const struct host_machine *told = told_of(p, word, is_leaf);
	_cleanup_v8_code_ struct v8_code c = {0};
	struct v8_frame frames[V8_MAX_DEPTH];
	uint64_t pc;
	size_t n;
	int error;

	if (!told)
		return; /* a stub, a regular expression */
	check_told(p, told);
	pc = told->address - told->is_exact;
	error = v8_read_machine_code(&p->m, &p->r, pc, told->function, &c);
	show_error(s, error, pc);
	n = error < 0 ? 0 : v8_code_frames(&c, pc, !told->is_exact, frames, V8_MAX_DEPTH);
	for (size_t i = 0; i < n; i++)
		show(s, frames[i].function, frames[i].place,
			c.is_baseline ? SHOWN_BASELINE
			: i + 1 < n   ? SHOWN_INLINED
				      : SHOWN_OPTIMIZED,
			pc, c.start);
}

static void show_words(struct node *p, struct js_stack *s, const __u64 *frames, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (ABI_FRAME_KIND(frames[i]) == ABI_FRAME_INTERP)
			show_interpreted(p, s, frames[i]);
		else if (ABI_FRAME_KIND(frames[i]) == ABI_FRAME_JIT)
			show_machine(p, s, frames[i], i == 0);
}

/* ---- counting ---- */

struct counts {
	unsigned n, n_elsewhere, n_true, n_wrong, n_errors, n_unclear, n_cut[ABI_N_CUTS], n_printed;
	unsigned leaves[ABI_FRAME_TRUNCATED + 1], n_frames[N_SHOWN_KINDS];
};

static void print_words(const struct js_stack *s, const __u64 *frames, unsigned n, uint32_t cut)
{
	print_stack(s);
	for (unsigned i = 0; i < n && i < 60; i++)
		print_message("    %#llx %s\n", frames[i],
			ABI_FRAME_KIND(frames[i]) == ABI_FRAME_NATIVE &&
					ABI_NATIVE_BINARY(frames[i]) - 1 < n_mappings
				? mappings[ABI_NATIVE_BINARY(frames[i]) - 1].path
				: "");
	print_message("    cut %u\n", cut);
}

/* The leaf's code is another function's than its frame, which it has not built yet or given back: its callers are right. */
static bool is_unclear(const struct js_stack *s)
{
	return s->error && !s->n_before_error && (s->error == -EAGAIN || s->error == -ENOENT);
}

static void count(const struct js_stack *s, struct truth *t, const __u64 *frames, unsigned n,
	uint32_t cut, struct counts *c)
{
	bool is_ours = s->n && is_of_program(&s->frames[0]), is_bad = false;

	c->n++;
	c->n_cut[cut]++;
	if (is_unclear(s) && (!is_ours || is_true(s, t, false))) {
		c->n_unclear++;
	} else if (s->error) {
		c->n_errors++;
		is_bad = true;
		print_message("error %d at %#llx\n", s->error, (unsigned long long)s->error_pc);
	} else if (!is_ours || cut != ABI_CUT_NONE) {
		c->n_elsewhere++;
	} else if (is_true(s, t, true)) {
		c->n_true++;
		c->leaves[ABI_FRAME_KIND(frames[0])]++;
		for (size_t i = 0; i < s->n; i++)
			c->n_frames[s->frames[i].kind]++;
	} else {
		c->n_wrong++;
		is_bad = true;
		print_message("no such stack\n");
	}
	is_bad |= cut != ABI_CUT_NONE;
	if (is_bad && c->n_printed++ < MAX_PRINTED)
		print_words(s, frames, n, cut);
}

static void one_stack(struct node *p, struct truth *t, struct counts *c)
{
	static __u64 words[ABI_MAX_WORDS + 1], frames[MAX_FRAMES];
	static struct walk w;
	static struct js_stack s;
	struct user_regs_struct regs;
	unsigned n;

	s = (struct js_stack) {0};
	assert_int_equal(ptrace(PTRACE_GETREGS, child_pid, NULL, &regs), 0);
	read_mappings_again(p);
	n = expand(words, walk_stopped(p, &regs, words, &w), frames);
	show_words(p, &s, frames, n);
	count(&s, t, frames, n, w.cut, c);
	js_stack_done(&s);
}

static void one_stop(struct node *p, struct truth *t, unsigned n_steps, struct counts *c)
{
	assert_int_equal(ptrace(PTRACE_INTERRUPT, child_pid, NULL, NULL), 0);
	assert_int_equal(waitpid(child_pid, NULL, __WALL), child_pid);
	one_stack(p, t, c);
	for (unsigned i = 0; i < n_steps; i++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, child_pid, NULL, NULL), 0);
		assert_int_equal(waitpid(child_pid, NULL, __WALL), child_pid);
		one_stack(p, t, c);
	}
	assert_int_equal(ptrace(PTRACE_CONT, child_pid, NULL, NULL), 0);
}

static void print_counts(const char *program, const struct node *p, const struct counts *c)
{
	print_message(
		"%s: V8 %u.%u: %u stops, %u elsewhere, %u true (leaves: %u native, %u machine "
		"code, %u interpreted), %u unclear leaves, %u wrong, %u errors; frames: %u "
		"interpreted, %u baseline, %u optimised, %u inlined, %u builtin; cut:",
		program, RUNTIME_MAJOR(p->r.version), RUNTIME_MINOR(p->r.version), c->n,
		c->n_elsewhere, c->n_true, c->leaves[ABI_FRAME_NATIVE], c->leaves[ABI_FRAME_JIT],
		c->leaves[ABI_FRAME_INTERP], c->n_unclear, c->n_wrong, c->n_errors,
		c->n_frames[SHOWN_INTERPRETED], c->n_frames[SHOWN_BASELINE],
		c->n_frames[SHOWN_OPTIMIZED], c->n_frames[SHOWN_INLINED],
		c->n_frames[SHOWN_BUILTIN]);
	for (unsigned i = 0; i < ABI_N_CUTS; i++)
		if (c->n_cut[i])
			print_message(" %u: %u", i, c->n_cut[i]);
	print_message("\n");
}

static void check_program(const char *program, const char *size, unsigned n_steps)
{
	const char *stops = getenv("SONDE_STOPS");
	unsigned n_stops = stops ? (unsigned)strtoul(stops, NULL, 10) : DEFAULT_STOPS;
	struct node *p = calloc(1, sizeof(*p));
	struct unwind_tables *tables;
	struct counts c = {0};
	struct truth t = {0};

	read_truth(program, &t);
	child_pid = spawn_ready(program, size);
	assert_int_equal(ptrace(PTRACE_SEIZE, child_pid, NULL, PTRACE_O_EXITKILL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, child_pid, NULL, NULL), 0);
	assert_int_equal(waitpid(child_pid, NULL, __WALL), child_pid);
	host_memory_init(8192, 65536, MAX_MAPPINGS);
	tables = unwind_tables_new(&host_memory);
	read_mappings(tables);
	set_row(p, program);
	keep_files(p);
	assert_int_equal(ptrace(PTRACE_CONT, child_pid, NULL, NULL), 0);
	for (unsigned i = 0; i < n_stops; i++, usleep(BETWEEN_US))
		one_stop(p, &t, n_steps, &c);
	kill(child_pid, SIGKILL);
	waitpid(child_pid, NULL, __WALL);
	print_counts(program, p, &c);
	v8_scripts_done(&p->scripts);
	unwind_tables_freep(&tables);
	host_memory_done();
	truth_done(&t);
	free(p);
	/* Short of work, the program is much in functions of Node.js itself. */
	assert_true(c.n_true > c.n / (n_steps ? 8 : 2));
	assert_int_equal(c.n_wrong, 0);
	/* What is refused is not wrong; a leaf between two frames is one stop in some hundred. */
	assert_true(c.n_unclear + c.n_errors <= c.n / 20);
	assert_true(c.n - c.n_cut[ABI_CUT_NONE] <= c.n / 50);
}

static void test_live(void **state)
{
	struct nodes found;

	(void)state;
	nodes_find(&found);
	if (!found.n)
		skip();
	for (size_t i = 0; i < found.n; i++)
		check_program(found.programs[i], LONG, 0);
	nodes_done(&found);
}

/* Mostly in calls and returns, instruction by instruction. */
static void test_steps(void **state)
{
	struct nodes found;

	(void)state;
	nodes_find(&found);
	if (!found.n)
		skip();
	for (size_t i = 0; i < found.n; i++)
		check_program(found.programs[i], SHORT, N_STEPS);
	nodes_done(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_steps),
#endif
	};

	return cmocka_run_group_tests_name("unwind_v8", tests, NULL, NULL);
}
