/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs whose stacks are known and that keep no frame pointers: each mode ends in spin() below functions of known names.
 * tests/e2e/test_unwind.py builds this file in several ways.
 *
 * usage: unwind_programs MODE [ARG], runs until it is killed
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef NO_THREADS
#include <pthread.h>
#include <ucontext.h>
#include <dlfcn.h>
#endif

#define NOINLINE __attribute__((noinline, noclone, noipa, used))

static volatile unsigned long sink;

NOINLINE unsigned long spin(unsigned long n)
{
	unsigned long s = n;

	for (unsigned i = 0; i < 100000; i++)
		s = s * 6364136223846793005UL + 1442695040888963407UL;
	return s;
}

NOINLINE void inner(void)
{
	char buf[200];

	memset(buf, (int)sink, sizeof(buf));
	for (;;)
		sink += spin(sink + (unsigned char)buf[sink % sizeof(buf)]);
}

NOINLINE void middle(unsigned n)
{
	/* rbp is a general register here, or the base of an array of unknown size */
	char *p = __builtin_alloca(n);

	p[n - 1] = (char)n;
	sink += (unsigned long)p[n - 1];
	inner();
	sink++;
}

NOINLINE void outer(void)
{
	middle(100 + (unsigned)sink % 7);
	sink++;
}

NOINLINE void recurse(unsigned depth)
{
	if (depth <= 1)
		outer();
	recurse(depth - 1);
	sink++;
}

static void on_signal(int number)
{
	outer();
	sink += (unsigned)number;
}

NOINLINE void interrupted(void)
{
	for (;;)
		sink += spin(sink);
}

static void mode_signal(void)
{
	static char stack[65536];
	stack_t ss = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	sigaltstack(&ss, NULL);
	sigaction(SIGALRM, &sa, NULL);
	alarm(1);
	interrupted();
}

#ifdef __x86_64__
/* Saves rbx, keeps the CFA in it, and moves rsp about: only its CFI tells where the caller is. */
__asm__(".text\n.globl by_hand\n.type by_hand, @function\nby_hand:\n.cfi_startproc\n"
	"push %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset rbx, -16\n"
	"mov %rsp, %rbx\n.cfi_def_cfa rbx, 16\n"
	"sub $4096, %rsp\nand $-256, %rsp\nxor %ebp, %ebp\n"
	"call outer\nmov %rbx, %rsp\npop %rbx\n.cfi_def_cfa rsp, 8\nret\n.cfi_endproc\n"
	".size by_hand, . - by_hand\n");
void by_hand(void);
#endif

#ifndef NO_THREADS
static void *thread_main(void *arg)
{
	(void)arg;
	outer();
	return NULL;
}

static void mode_thread(void)
{
	pthread_t t;

	pthread_create(&t, NULL, thread_main, NULL);
	pthread_join(t, NULL);
}

static void mode_context(void)
{
	static ucontext_t there, back;
	static char stack[65536];

	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &back;
	makecontext(&there, outer, 0);
	swapcontext(&back, &there);
}

/* Loads, runs and unloads the first library, then stays in the second, which mostly lands where the first one was. */
static void mode_library(const char *names)
{
	char *copy = strdup(names), *second = strchr(copy, ',');
	void *handle;

	*second++ = 0;
	handle = dlopen(copy, RTLD_NOW);
	((void (*)(int))dlsym(handle, "first_run"))(200);
	dlclose(handle);
	handle = dlopen(second, RTLD_NOW);
	((void (*)(void))dlsym(handle, "second_run"))();
}
#endif

NOINLINE void mode_vfork(void)
{
	if (vfork() == 0) {
		outer();
		_exit(0);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (strcmp(mode, "plain") == 0)
		outer();
	else if (strcmp(mode, "recurse") == 0)
		recurse((unsigned)strtoul(argv[2], NULL, 10));
	else if (strcmp(mode, "signal") == 0)
		mode_signal();
	else if (strcmp(mode, "vfork") == 0)
		mode_vfork();
#ifdef __x86_64__
	else if (strcmp(mode, "asm") == 0)
		by_hand();
#endif
#ifndef NO_THREADS
	else if (strcmp(mode, "thread") == 0)
		mode_thread();
	else if (strcmp(mode, "context") == 0)
		mode_context();
	else if (strcmp(mode, "library") == 0)
		mode_library(argv[2]);
#endif
	return 2;
}
