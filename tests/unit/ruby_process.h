/* SPDX-License-Identifier: Apache-2.0
 *
 * A Ruby that runs a script of tests/data/ruby, and the walk over a thread of it that is stopped: the chain of Ruby's frames, as the walker in
 * the kernel reads it, and the native frames.
 */
#pragma once
#include "exporter/interp/ruby.h"
#include "exporter/symfile/ruby.h"
#include "tests/unit/rubies.h"
#include "tests/unit/runtime_find.h"
#include "tests/unit/unwind_process.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

/* Flags of a frame, in the last word of its environment. */
enum {
	FRAME_KIND_SHIFT = 16,
	FRAME_KIND_MASK = 0x7fff,
	FRAME_KIND_C = 0x5555,
	FRAME_IS_LOCAL = 0x2,	      /* no block: nothing lies around it */
	FRAME_IS_FINISH = 0x20,	      /* the interpreter was entered from C for it */
	FRAME_IS_METHOD_BLOCK = 0x40, /* a block that is a method */
};
enum { ENV_METHOD_AT = -16, ENV_OUTER_AT = -8, MAX_ENVS = 64 };
/* Two frames without a caller lie at the end of each stack. */
enum {
	OUTERMOST_FRAMES = 1,
	MAX_RUBY_FRAMES = 4096,
	MAX_NATIVE_FRAMES = 4096,
	MAX_WAIT_MS = 60000
};

/* glibc's places of thread-local blocks. */
enum { DTV_AT = 8, DTV_ENTRY_BYTES = 16 };

struct ruby {
	pid_t pid;
	int in, mem;
	FILE *out;
	struct runtime_record r;
	struct interp_memory m;
};

struct ruby_frame {
	uint64_t object; /* instruction sequence, or method in C */
	uint64_t method; /* as for ruby_read_code */
	uint32_t position;
	bool is_c, is_finish;
	bool is_last; /* no entry of the interpreter lies behind it */
};

struct ruby_stack {
	struct ruby_frame frames[MAX_RUBY_FRAMES];
	unsigned n, n_finish;
	uint64_t pcs[MAX_NATIVE_FRAMES];
	unsigned n_native, n_exec; /* all, and those of the interpreter's function */
	uint32_t cut;
};

static inline int unwind_read_user(struct walk *w, void *to, __u64 bytes, __u64 from)
{
	(void)w;
	return read_child(to, bytes, from);
}

static inline int ruby_read_mem(void *arg, uint64_t addr, void *to, size_t bytes)
{
	const struct ruby *p = (const struct ruby *)arg;

	return pread(p->mem, to, bytes, (off_t)addr) == (ssize_t)bytes ? 0 : -EFAULT;
}

static inline uint64_t ruby_word(struct ruby *p, uint64_t addr)
{
	uint64_t v = 0;

	if (ruby_read_mem(p, addr, &v, sizeof(v)) < 0)
		fail_msg("cannot read %#lx", addr);
	return v;
}

static inline char *ruby_script(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t cap = 0;

	assert_non_null(f);
	assert_true(getdelim(&text, &cap, 0, f) > 0);
	fclose(f);
	return text;
}

/* In a child: becomes a Ruby, in its root when it has one of its own. */
static inline void ruby_exec(const char *program, char **argv)
{
	const char *in_root = strstr(program, "/./");
	char root[PATH_MAX];

	snprintf(root, sizeof(root), "%.*s", in_root ? (int)(in_root - program) : 0, program);
	if (in_root && (chroot(root) < 0 || chdir("/") < 0))
		_exit(126);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv(in_root ? in_root + 2 : program, argv);
	_exit(127);
}

/* Can it make machine code (YJIT)? */
static inline bool ruby_has_jit(const char *program)
{
	static char name[] = "ruby", option[] = "--yjit", quiet[] = "-W0", e[] = "-e",
		    text[] = "exit(defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled? || false)";
	char *argv[] = {name, quiet, option, e, text, NULL};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		ruby_exec(program, argv);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The script comes as an argument, since it may be in another root. */
static inline void ruby_spawn(struct ruby *p, const char *program, const char *script,
	bool with_jit, const char *arg_1, const char *arg_2)
{
	static char name[] = "ruby", jit[] = "--yjit", quiet[] = "-W0", utf8[] = "-Ku", e[] = "-e",
		    end[] = "--";
	_cleanup_free_ char *text = ruby_script(script), *first = xstrdup(arg_1),
			    *second = xstrdup(arg_2);
	char *argv[] = {
		name, quiet, utf8, with_jit ? jit : quiet, e, text, end, first, second, NULL};
	int in[2], out[2];

	*p = (struct ruby) {.mem = -1};
	assert_true(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	p->pid = fork();
	if (p->pid == 0) {
		if (dup2(in[0], STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0)
			_exit(126);
		ruby_exec(program, argv);
	}
	close(in[0]);
	close(out[1]);
	p->in = in[1];
	p->out = fdopen(out[0], "r");
	child_pid = p->pid;
}

/* The file of its mappings that has a Ruby, and where it lies. The program has written something before, so that it is mapped. */
static inline void ruby_attach(struct ruby *p)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", p->pid);
	p->mem = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(p->mem >= 0);
	p->m.read = ruby_read_mem;
	p->m.arg = p;
	runtime_find(p->pid, RUNTIME_RUBY, &p->r, &p->m.bias);
}

static inline void ruby_stop(struct ruby *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->mem);
	close(p->in);
	fclose(p->out);
}

/* Stops a thread; false: it is gone. */
static inline bool ruby_thread_stop(pid_t tid, struct user_regs_struct *ret)
{
	int status;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return false;
	assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	assert_int_equal(waitpid(tid, &status, __WALL), tid);
	/* A fatal signal may come between. */
	return WIFSTOPPED(status) && ptrace(PTRACE_GETREGS, tid, NULL, ret) == 0;
}

static inline void ruby_thread_go_on(pid_t tid)
{
	assert_int_equal(ptrace(PTRACE_DETACH, tid, NULL, NULL), 0);
}

/* The state of the thread with that thread pointer; 0: it has none. A thread that has ended has one without a stack. */
static inline uint64_t ruby_state(struct ruby *p, uint64_t tp)
{
	const struct runtime_state *s = &p->r.states[0];
	uint64_t at = s->at + p->m.bias, block, ec, thread;

	switch ((enum runtime_state_by)s->by) {
	case RUNTIME_BY_TP: return ruby_word(p, tp + s->at);
	case RUNTIME_BY_GOT: return ruby_word(p, tp + ruby_word(p, at));
	case RUNTIME_BY_GOT_PAIR:
		block = ruby_word(
			p, ruby_word(p, tp + DTV_AT) + DTV_ENTRY_BYTES * ruby_word(p, at));
		return block == UINT64_MAX ? 0 : ruby_word(p, block + ruby_word(p, at + 8));
	case RUNTIME_BY_ADDRESS:
		ec = ruby_word(p, at);
		thread = ec ? ruby_word(p, ec + p->r.offsets[RUBY_EC_THREAD]) : 0;
		return thread && ruby_word(p, thread + p->r.offsets[RUBY_THREAD_ID]) == tp ? ec : 0;
	case RUNTIME_BY_KEY:
	case RUNTIME_BY_NOTHING:
	case N_RUNTIME_STATES_BY: break;
	}
	return 0;
}

/* What the frame's method is: that of the outermost block, or of the first one that is a method. */
static inline uint64_t ruby_method_of(struct ruby *p, uint64_t env)
{
	for (unsigned i = 0; i < MAX_ENVS; i++) {
		uint64_t flags = ruby_word(p, env);

		if (flags & (FRAME_IS_LOCAL | FRAME_IS_METHOD_BLOCK))
			return ruby_word(p, env + (uint64_t)ENV_METHOD_AT);
		env = ruby_word(p, env + (uint64_t)ENV_OUTER_AT) & ~3ULL;
	}
	return 0;
}

/* Fills in frames, leaf first. False: the chain is not whole. */
static inline bool ruby_walk(struct ruby *p, uint64_t ec, struct ruby_stack *s)
{
	const uint16_t *offsets = p->r.offsets;
	uint64_t frame = ruby_word(p, ec + offsets[RUBY_EC_FRAME]),
		 stack = ruby_word(p, ec + offsets[RUBY_EC_STACK]),
		 end = stack + 8 * ruby_word(p, ec + offsets[RUBY_EC_STACK_WORDS]);

	s->n = s->n_finish = 0;
	end -= OUTERMOST_FRAMES * (uint64_t)offsets[RUBY_FRAME_BYTES];
	if (!stack || frame < stack || frame > end || (end - frame) % offsets[RUBY_FRAME_BYTES])
		return false;
	for (; frame < end && s->n < MAX_RUBY_FRAMES; frame += offsets[RUBY_FRAME_BYTES]) {
		struct ruby_frame *f = &s->frames[s->n];
		uint64_t pc = ruby_word(p, frame + offsets[RUBY_FRAME_POSITION]),
			 env = ruby_word(p, frame + offsets[RUBY_FRAME_ENV]),
			 flags = ruby_word(p, env);

		*f = (struct ruby_frame) {
			.object = ruby_word(p, frame + offsets[RUBY_FRAME_CODE]),
			.is_finish = flags & FRAME_IS_FINISH,
			.is_c = (flags >> FRAME_KIND_SHIFT & FRAME_KIND_MASK) == FRAME_KIND_C,
			.position = (uint32_t)(pc / RUBY_WORD_BYTES % RUBY_POSITIONS),
			.method = ruby_method_of(p, env),
		};
		if (f->is_c) {
			f->object = f->method;
			f->position = ABI_INTERP_BEYOND;
		}
		s->n_finish += f->is_finish;
		/* Frames of neither kind are C blocks, which Ruby does not show; they count when the interpreter was entered for one. */
		if (f->is_c || (f->object && pc))
			s->n++;
	}
	for (unsigned i = s->n; i-- > 0 && !s->frames[i].is_finish;)
		s->frames[i].is_last = true;
	return true;
}

/*
 * Code that Ruby made (YJIT) has no unwind rows, and pushes no frame pointer. The interpreter's two functions call it, and it calls no code of
 * its kind by a native call: so the next frame is the first one on the stack that returns into one of them.
 */
enum { JIT_WORDS = 64 };

/* Is it a return address in [range[0], range[1])? */
static inline bool is_between(uint64_t addr, const uint64_t range[2])
{
	return addr > range[0] && addr <= range[1];
}

/* Does a call end there? */
static inline bool ruby_is_called(struct ruby *p, uint64_t addr)
{
	uint8_t code[8] = {0};

	if (ruby_read_mem(p, addr - 7, code, 7) < 0)
		return false;
	return code[2] == 0xe8 || (code[5] == 0xff && (code[6] & 0x38) == 0x10) ||
	       (code[4] == 0xff && (code[5] & 0x38) == 0x10) ||
	       (code[1] == 0xff && (code[2] & 0x38) == 0x10);
}

static inline bool ruby_leave_jit(struct ruby *p, struct walk *w)
{
	uint64_t sp = w->regs[UNWIND_SP], v = 0;

	if (unwind_locate(w, w->pc) != UNWIND_IN_JIT)
		return false;
	for (unsigned i = 0; i < JIT_WORDS; i++, sp += sizeof(v)) {
		if (ruby_read_mem(p, sp, &v, sizeof(v)) < 0)
			return false;
		v -= p->m.bias;
		if ((!is_between(v, &p->r.addresses[RUBY_EXEC]) &&
			    !is_between(v, &p->r.addresses[RUBY_CORE])) ||
			!ruby_is_called(p, v + p->m.bias))
			continue;
		w->pc = v + p->m.bias;
		w->regs[UNWIND_SP] = sp + sizeof(v);
		w->exact = 0;
		return true;
	}
	return false;
}

/* Fills in the native frames of a stopped thread. */
static inline void ruby_walk_native(
	struct ruby *p, const struct user_regs_struct *r, struct ruby_stack *s)
{
	static __u64 words[ABI_MAX_WORDS + 1];
	static struct walk w;
	const uint64_t regs[UNWIND_N_REGS] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
		r->rbp, r->rsp, r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};

	walk_init(&w, 0);
	w.pc = r->rip;
	for (unsigned i = 0; i < UNWIND_N_REGS; i++)
		w.regs[i] = regs[i];
	w.known = UNWIND_ALL_REGS;
	s->n_native = s->n_exec = 0;
	do {
		uint64_t pc = w.pc - p->m.bias - (s->n_native != 0);

		s->n_exec += pc >= p->r.addresses[RUBY_EXEC] && pc < p->r.addresses[RUBY_EXEC_END];
		if (s->n_native < MAX_NATIVE_FRAMES)
			s->pcs[s->n_native++] = w.pc;
	} while (ruby_leave_jit(p, &w) || !walk_turn(&w, words));
	s->cut = w.cut;
}
