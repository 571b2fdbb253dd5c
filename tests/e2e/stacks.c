/* SPDX-License-Identifier: Apache-2.0
 *
 * A workload whose stacks are known: built with frame pointers, and below a stub that ends the chain as the ABI says
 * (rbp = 0), so that complete stacks can be expected.
 *
 * usage: stacks chain|recurse DEPTH|mutual DEPTH|scatter DEPTH|kernel|threads, runs until it is killed
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, used))

static volatile unsigned long sink;
static volatile int stop;
static unsigned max_depth;
void (*volatile body)(void);

NOINLINE void leaf_work(void)
{
	sink = (unsigned long)__builtin_frame_address(0); /* a leaf would get no frame otherwise */
	while (!stop)
		sink++;
}

NOINLINE void chain_c(void)
{
	leaf_work();
	sink++;
}

NOINLINE void chain_b(void)
{
	chain_c();
	sink++;
}

NOINLINE void chain_a(void)
{
	chain_b();
	sink++;
}

NOINLINE void recurse(unsigned depth)
{
	if (depth == max_depth)
		leaf_work();
	recurse(depth + 1);
	sink++;
}

NOINLINE void start_recurse(void)
{
	recurse(1);
	sink++;
}

void mutual_b(unsigned depth);

NOINLINE void mutual_a(unsigned depth)
{
	if (depth >= max_depth)
		leaf_work();
	mutual_b(depth + 1);
	sink++;
}

NOINLINE void mutual_b(unsigned depth)
{
	mutual_a(depth + 1);
	sink++;
}

NOINLINE void start_mutual(void)
{
	mutual_a(1);
	sink++;
}

/* Calls itself from one of eight places, so that no cycle is short enough to be folded. */
NOINLINE void scatter(unsigned depth, unsigned random)
{
	random = random * 1664525 + 1013904223;
	if (depth == max_depth)
		leaf_work();
#define PLACE(n)                            \
	case n:                             \
		scatter(depth + 1, random); \
		sink += n;                  \
		break
	switch (random >> 29) {
		PLACE(0);
		PLACE(1);
		PLACE(2);
		PLACE(3);
		PLACE(4);
		PLACE(5);
		PLACE(6);
		PLACE(7);
	}
	sink++;
}

NOINLINE void start_scatter(void)
{
	scatter(1, 42);
	sink++;
}

/* Most of its time is spent in the kernel. */
NOINLINE void kernel_work(void)
{
	static char buf[1 << 20];
	int fd = open("/dev/zero", O_RDONLY);

	while (!stop)
		sink += (unsigned long)read(fd, buf, sizeof(buf));
}

NOINLINE void call_body(void)
{
	body();
	sink++;
}

/* The outermost frame. */
void stack_root(void);
__asm__(".text\n.globl stack_root\n.type stack_root, @function\nstack_root:\n\txor %ebp, "
	"%ebp\n\tsub $8, %rsp\n\tcall call_body\n\tud2\n"
	".size stack_root, . - stack_root\n");

static void *thread_main(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "second-thread");
	stack_root();
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*body)(void);
	} modes[] = {{"chain", chain_a}, {"recurse", start_recurse}, {"mutual", start_mutual},
		{"scatter", start_scatter}, {"kernel", kernel_work}, {"threads", chain_a}};

	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(argv[1], modes[i].name) == 0)
			body = modes[i].body;
	max_depth = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	if (!body)
		return 2;
	if (strcmp(argv[1], "threads") == 0) {
		pthread_t t;

		pthread_create(&t, NULL, thread_main, NULL);
		pthread_join(t, NULL);
	}
	stack_root();
	return 0;
}
