/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of Java among native ones, on live JVMs: a program whose names say who calls whom (tests/data/java/Truth.java) is stopped at random,
 * then goes on instruction by instruction, and each time is walked as the kernel half does it, through C++ and back. Names are read by the
 * words of the walk, and by what it tells of machine code. SONDE_STOPS is the number of stops, SONDE_JAVAS lists more JVMs, with `:` between.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include "exporter/interp/hotspot.h"
#include "exporter/interp/hotspot_rows.h"
#include "tests/unit/runtime_find.h"
#include "tests/unit/unwind_process.h"
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { MAX_FRAMES = 4096, MAX_JAVAS = 16, MAX_PRINTED = 6, N_STEPS = 20, DEFAULT_STOPS = 20 };
enum { WARM_US = 1000000, BETWEEN_US = 3000 };

static int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	return read_child(to, bytes, from);
}

static int read_memory(void *arg, uint64_t addr, void *to, size_t bytes)
{
	(void)arg;
	return read_child(to, bytes, addr) < 0 ? -EFAULT : 0;
}

struct vm {
	struct runtime_record record;
	struct interp_memory memory;
	struct hotspot_vm vm;
	struct interp_layout layout;
	struct interp_hotspot hotspot;
	struct host_machine told[MAX_FRAMES];
	pid_t tid;
};

/* ---- the process ---- */

/* The thread of that name; 0: there is none yet. */
static pid_t find_thread(pid_t pid, const char *wanted)
{
	char path[320], name[32] = "";
	pid_t ret = 0;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir)) && !ret) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", pid, d->d_name);
		f = fopen(path, "re");
		if (f && fgets(name, sizeof(name), f) && strncmp(name, wanted, strlen(wanted)) == 0)
			ret = (pid_t)strtol(d->d_name, NULL, 10);
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return ret;
}

static pid_t spawn(const char *java, const char *mode, const char *classes)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(java, java, mode, "-Xmx128m", "-cp", classes, "Truth", NULL);
		_exit(127);
	}
	return pid;
}

static void stop(pid_t tid)
{
	assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	assert_int_equal(waitpid(tid, NULL, __WALL), tid);
}

static void begin(struct vm *v, const char *java, const char *mode, const char *classes)
{
	*v = (struct vm) {.memory = {.read = read_memory}};
	child_pid = spawn(java, mode, classes);
	for (int i = 0; i < 500 && !v->tid; i++, usleep(20000))
		v->tid = find_thread(child_pid, "truth");
	if (!v->tid)
		fail_msg("%s %s: the program does not begin", java, mode);
	usleep(WARM_US);
	runtime_find(child_pid, RUNTIME_HOTSPOT, &v->record, &v->memory.bias);
	assert_int_equal(hotspot_vm_read(&v->memory, &v->record, &v->vm), 0);
	assert_true(hotspot_rows_of(&v->vm, &v->layout, &v->hotspot));
	v->memory.hotspot = &v->vm;
	assert_int_equal(ptrace(PTRACE_SEIZE, v->tid, NULL, NULL), 0);
}

/* ---- names ---- */

/* The number of a method of the program, 0 for the thread's own; -1: it is none. ret_callers: what stands behind "From". */
static int number_of(const char *name, const char **ret_callers)
{
	const char *method = strrchr(name, '.');
	bool is_lambda;

	*ret_callers = "";
	if (strncmp(name, "Truth", 5) != 0 || !method)
		return -1;
	method++;
	if (strcmp(method, "run") == 0)
		return 0;
	is_lambda = strncmp(method, "lambda$", 7) == 0;
	method += is_lambda ? 7 : 0;
	if (method[0] != 'n' || !strstr(method, "From"))
		return -1;
	*ret_callers = is_lambda ? method + 1 : strstr(method, "From") + 4;
	return (int)strtol(method + 1, NULL, 10);
}

static bool may_call(int caller, const char *callers)
{
	for (const char *s = callers; *s >= '0' && *s <= '9';) {
		char *end;

		if (strtol(s, &end, 10) == caller)
			return true;
		s = *end == '_' ? end + 1 : end;
	}
	return false;
}

struct stack {
	char names[MAX_FRAMES][160]; /* of the language, leaf first; "?": not known */
	unsigned n, n_unnamed, n_interpreted, n_compiled, n_inlined;
	char stubs[256]; /* names of other code of the VM's, one behind the other */
};

static void add(struct stack *s, const char *name)
{
	if (s->n < MAX_FRAMES)
		snprintf(s->names[s->n++], sizeof(s->names[0]), "%s", name);
	s->n_unnamed += name[0] == '?';
}

static void add_interpreted(struct vm *v, struct stack *s, __u64 word)
{
	static struct walk w;
	uint64_t object = ABI_INTERP_OBJECT(word) << ABI_INTERP_ADDRESS_SHIFT;
	_cleanup_interp_code_ struct interp_code c = {0};

	s->n_interpreted++;
	if (hotspot_read_code(&v->memory, &v->record, object, 0, &c) < 0) {
		add(s, "?");
		return;
	}
	assert_int_equal(interp_check(&w, &host_interp, word), 0);
	assert_int_equal(host_interp.check, c.kernel_check);
	add(s, c.name);
}

static void add_compiled(struct vm *v, struct stack *s, __u64 word, bool is_leaf)
{
	struct interp_frame frames[INTERP_MAX_MACHINE_FRAMES];
	struct interp_machine m = {0};
	const struct host_machine *told = NULL;
	uint64_t pc;
	size_t n;

	for (unsigned i = 0; i < host_n_machines && !told; i++)
		if (v->told[i].is_exact == is_leaf &&
			v->told[i].address == ABI_FRAME_VALUE(word) + is_leaf)
			told = &v->told[i];
	if (!told) /* the interpreter's own code, or what could not be walked */
		return;
	pc = told->address - told->is_exact;
	if (hotspot_machine.read(&v->memory, &v->record, pc, told->function, &m) < 0) {
		add(s, "?");
		return;
	}
	n = hotspot_machine.frames(&m, pc, !told->is_exact, frames, INTERP_MAX_MACHINE_FRAMES);
	for (size_t i = 0; i < MIN(n, (size_t)INTERP_MAX_MACHINE_FRAMES); i++)
		if (frames[i].name[0] == '[') {
			strncat(s->stubs, frames[i].name, sizeof(s->stubs) - strlen(s->stubs) - 1);
		} else {
			add(s, frames[i].name);
			s->n_compiled += i + 1 == n;
			s->n_inlined += i + 1 < n;
		}
	hotspot_machine.done(&m);
}

/* ---- a stack ---- */

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

static unsigned walk_stopped(
	struct vm *v, const struct user_regs_struct *r, __u64 *words, struct walk *w)
{
	static __u64 spare[ABI_USER_TAIL_WORDS];
	const uint64_t regs[UNWIND_N_REGS] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
		r->rbp, r->rsp, r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};

	walk_init(w, 0);
	w->pc = r->rip;
	memcpy(w->regs, regs, sizeof(regs));
	w->known = UNWIND_ALL_REGS;
	host_interp.layout = v->layout;
	host_interp.hotspot = v->hotspot;
	host_machines = v->told;
	host_n_machines = 0;
	host_max_machines = MAX_FRAMES;
	interp_begin(w, &host_interp);
	assert_int_equal(w->has_interp, WALK_HAS_FRAMES);
	while (!walk_turn(w, words))
		;
	return frames_end(&w->frames, words, spare, w->cut);
}

struct counts {
	unsigned n, n_true, n_wrong, n_cut[ABI_N_CUTS], n_printed;
	unsigned n_interpreted, n_compiled, n_inlined, n_unnamed, n_native_leaves;
};

/* What is wrong with it; NULL: nothing. */
static const char *fault_of(const struct stack *s)
{
	const char *callers = "", *more;
	int callee = -1;

	if (!s->n || s->n_unnamed)
		return NULL; /* the thread waits in C++ for the VM, or begins */
	if (strncmp(s->names[s->n - 1], "java.lang.Thread.run", 20) != 0)
		return "the root is another one";
	for (unsigned i = 0; i < s->n; i++) {
		int number = number_of(s->names[i], &more);

		if (number < 0)
			continue;
		if (callee > 0 && !may_call(number, callers))
			return s->names[i];
		callee = number;
		callers = more;
	}
	return callee ? "its outermost function is not run" : NULL;
}

static void print_stack(const struct stack *s, const __u64 *frames, unsigned n)
{
	for (unsigned i = 0; i < s->n && i < 40; i++)
		print_message("    %s\n", s->names[i]);
	for (unsigned i = 0; i < n && i < 40; i++)
		print_message("    %#llx %s\n", frames[i],
			ABI_FRAME_KIND(frames[i]) == ABI_FRAME_NATIVE &&
					ABI_NATIVE_BINARY(frames[i]) - 1 < n_mappings
				? mappings[ABI_NATIVE_BINARY(frames[i]) - 1].path
				: "");
}

static void print_code(uint64_t pc)
{
	uint8_t code[48] = {0};

	if (read_child(code, sizeof(code), pc - 24) < 0)
		return;
	print_message("  %#llx:", (unsigned long long)pc);
	for (size_t i = 0; i < sizeof(code); i++)
		print_message("%s%02x", i == 24 ? " | " : " ", code[i]);
	print_message("\n");
}

static void one_stack(struct vm *v, struct counts *c)
{
	static __u64 words[ABI_MAX_WORDS + 1], frames[MAX_FRAMES];
	static struct walk w;
	static struct stack s;
	struct user_regs_struct regs;
	const char *fault;
	unsigned n;

	s.stubs[0] = '\0';
	s.n = s.n_unnamed = s.n_interpreted = s.n_compiled = s.n_inlined = 0;
	assert_int_equal(ptrace(PTRACE_GETREGS, v->tid, NULL, &regs), 0);
	n = expand(words, walk_stopped(v, &regs, words, &w), frames);
	for (unsigned i = 0; i < n; i++)
		if (ABI_FRAME_KIND(frames[i]) == ABI_FRAME_INTERP)
			add_interpreted(v, &s, frames[i]);
		else if (ABI_FRAME_KIND(frames[i]) == ABI_FRAME_JIT)
			add_compiled(v, &s, frames[i], i == 0);
	c->n++;
	c->n_cut[w.cut]++;
	c->n_native_leaves += ABI_FRAME_KIND(frames[0]) == ABI_FRAME_NATIVE;
	c->n_interpreted += s.n_interpreted;
	c->n_compiled += s.n_compiled;
	c->n_inlined += s.n_inlined;
	c->n_unnamed += s.n_unnamed;
	fault = w.cut == ABI_CUT_NONE ? fault_of(&s) : NULL;
	c->n_true += w.cut == ABI_CUT_NONE && !fault;
	c->n_wrong += fault != NULL;
	if ((fault || w.cut != ABI_CUT_NONE) && c->n_printed++ < MAX_PRINTED) {
		print_message("cut %u, %u unnamed, %s: %s\n", w.cut, s.n_unnamed, s.stubs,
			fault ? fault : "");
		print_message("  rsp %#llx rbp %#llx rax %#llx r13 %#llx\n", regs.rsp, regs.rbp,
			regs.rax, regs.r13);
		print_code(regs.rip);
		for (unsigned i = 1; i < n && i < 3; i++)
			if (ABI_FRAME_KIND(frames[i]) == ABI_FRAME_JIT)
				print_code(ABI_FRAME_VALUE(frames[i]));
		print_stack(&s, frames, n);
	}
}

static void one_stop(struct vm *v, struct counts *c)
{
	stop(v->tid);
	one_stack(v, c);
	for (unsigned i = 0; i < N_STEPS; i++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, v->tid, NULL, NULL), 0);
		assert_int_equal(waitpid(v->tid, NULL, __WALL), v->tid);
		one_stack(v, c);
	}
	assert_int_equal(ptrace(PTRACE_CONT, v->tid, NULL, NULL), 0);
}

static void check(const char *java, const char *mode, const char *classes)
{
	const char *stops = getenv("SONDE_STOPS");
	unsigned n_stops = stops ? (unsigned)strtoul(stops, NULL, 10) : DEFAULT_STOPS;
	struct vm *v = calloc(1, sizeof(*v));
	struct unwind_tables *tables;
	struct counts c = {0};

	begin(v, java, mode, classes);
	stop(v->tid);
	host_memory_init(8192, 65536, MAX_MAPPINGS);
	tables = unwind_tables_new(&host_memory);
	read_mappings(tables);
	assert_int_equal(ptrace(PTRACE_CONT, v->tid, NULL, NULL), 0);
	for (unsigned i = 0; i < n_stops; i++, usleep(BETWEEN_US))
		one_stop(v, &c);
	kill(child_pid, SIGKILL);
	waitpid(v->tid, NULL, __WALL);
	waitpid(child_pid, NULL, __WALL);
	print_message("%s %s: JDK %u: %u stops, %u true, %u wrong; leaves: %u native; frames: %u "
		      "interpreted, %u compiled, %u inlined, %u unnamed; cut:",
		java, mode, v->vm.major, c.n, c.n_true, c.n_wrong, c.n_native_leaves,
		c.n_interpreted, c.n_compiled, c.n_inlined, c.n_unnamed);
	for (unsigned i = 0; i < ABI_N_CUTS; i++)
		if (c.n_cut[i])
			print_message(" %u: %u", i, c.n_cut[i]);
	print_message("\n");
	unwind_tables_freep(&tables);
	host_memory_done();
	free(v);
	assert_int_equal(c.n_wrong, 0);
	/* A stub that cannot be left is met as often as there are steps. Whole stacks are counted by tests/e2e/test_unwind_java.py. */
	assert_true(c.n - c.n_cut[ABI_CUT_NONE] <= c.n / 10);
	assert_true(c.n_unnamed <= (c.n_interpreted + c.n_compiled) / 200);
}

/* ---- JVMs ---- */

static unsigned find_javas(char javas[][256])
{
	const char *more = getenv("SONDE_JAVAS");
	char *list = strdup(more ? more : ""), *rest = list, *one;
	unsigned n = 0;
	glob_t g;

	while ((one = strsep(&rest, ":")) && n < MAX_JAVAS)
		if (*one)
			snprintf(javas[n++], sizeof(javas[0]), "%s", one);
	if (glob("/usr/lib/jvm/*/bin/java", 0, NULL, &g) == 0) {
		for (size_t i = 0; i < g.gl_pathc && n < MAX_JAVAS; i++) {
			struct stat st;
			char *dir = strdup(g.gl_pathv[i]);

			dir[strlen(dir) - strlen("/bin/java")] = '\0';
			if (lstat(dir, &st) == 0 && !S_ISLNK(st.st_mode))
				snprintf(javas[n++], sizeof(javas[0]), "%s", g.gl_pathv[i]);
			free(dir);
		}
		globfree(&g);
	}
	free(list);
	return n;
}

static void check_all(const char *mode)
{
	char javas[MAX_JAVAS][256], classes[] = "/tmp/sonde-truth-XXXXXX", command[512];
	unsigned n = find_javas(javas);

	if (!n)
		skip();
#ifdef __SANITIZE_ADDRESS__
	n = 1; /* the same again, which takes its time */
#endif
	assert_non_null(mkdtemp(classes));
	snprintf(command, sizeof(command),
		"javac -nowarn --release 8 -d %s tests/data/java/Truth.java 2>/dev/null", classes);
	if (system(command) != 0) {
		rmdir(classes);
		skip();
	}
	for (unsigned i = 0; i < n; i++)
		check(javas[i], mode, classes);
	snprintf(command, sizeof(command), "rm -r %s", classes);
	assert_int_equal(system(command), 0);
}

static void test_tiered(void **state)
{
	(void)state;
	check_all("-XX:+TieredCompilation");
}

static void test_interpreted(void **state)
{
	(void)state;
	check_all("-Xint");
}

static void test_c1(void **state)
{
	(void)state;
	check_all("-XX:TieredStopAtLevel=1");
}

static void test_c2(void **state)
{
	(void)state;
	check_all("-XX:-TieredCompilation");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_tiered),
		cmocka_unit_test(test_interpreted),
		cmocka_unit_test(test_c1),
		cmocka_unit_test(test_c2),
#endif
	};

	return cmocka_run_group_tests_name("unwind_hotspot", tests, NULL, NULL);
}
