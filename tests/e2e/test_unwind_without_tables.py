"""Stacks through code that has neither call frame information nor frame pointers: musl's C library, assembly without directives."""
import collections
import subprocess
import unittest

import sonde_e2e as e2e

# Much of a C library, from leaves and from functions that call back.
LIBRARY_C = '''
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static volatile double sink;
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline, noipa)) void work(int i)
{
	char text[4096];
	int numbers[2000];
	void *rooms[100];
	struct tm tm;
	time_t t = i * 86400L;
	regex_t r;

	for (int k = 0; k < 2000; k++)
		numbers[k] = rand();
	qsort(numbers, 2000, sizeof(int), compare);
	for (int k = 0; k < 200; k++) {
		snprintf(text, sizeof(text), "%d %s %f %g %lx", k, "hello world", k * 1.5, k / 3.0, (long)k * k);
		sink += strtod(text, NULL) + strlen(text);
	}
	memset(text, 'x', sizeof(text) - 1);
	text[4095] = 0;
	sink += strchr(text, 'y') != NULL;
	sink += strstr(text, "xxxxy") != NULL;
	if (regcomp(&r, "(a|b)*c[0-9]+", REG_EXTENDED) == 0) {
		regexec(&r, "ababababc123", 0, NULL, 0);
		regfree(&r);
	}
	for (int k = 0; k < 100; k++)
		rooms[k] = malloc(k * 37 + 8);
	for (int k = 0; k < 100; k++)
		free(rooms[k]);
	for (int k = 0; k < 300; k++)
		sink += sin(k) * exp(k * .01) + pow(k, 1.3);
	gmtime_r(&t, &tm);
	strftime(text, 100, "%c", &tm);
	for (int k = 0; k < 50; k++)
		lseek(0, 0, SEEK_CUR), getppid();
}
int main(void)
{
	for (int i = 0;; i++)
		work(i);
}
'''
# As codecs have it: what is saved, a frame pointer used for other things, a stack that is aligned to it, no directive.
ASSEMBLY_S = '''
	.text
	.globl filter
	.type filter, @function
	.balign 16
filter:	push %rbx
	push %rbp
	push %r12
	sub $64, %rsp
	mov %rdi, %rbp
	mov $200000, %ebx
1:	movq %rbp, %xmm0
	paddq %xmm0, %xmm0
	movdqu %xmm0, 16(%rsp)
	call filter_step
	dec %ebx
	jnz 1b
	add $64, %rsp
	pop %r12
	pop %rbp
	pop %rbx
	ret
	.size filter, . - filter
	.type filter_step, @function
	.balign 16
filter_step:
	push %rbp
	mov %rdi, %rbp
	imul %rbp, %rbp
	lea 1(%rbp), %rax
	pop %rbp
	ret
	.size filter_step, . - filter_step
	.section .note.GNU-stack, "", @progbits
'''
CALLER_C = '''
extern void filter(void *);
__attribute__((noinline, noipa)) void work(void) { for (;;) filter("x"); }
int main(void) { work(); return 0; }
'''


@e2e.needs_kernel
class WithoutTables(e2e.SampledPrograms):
    hz = 299

    @classmethod
    def build(cls):
        source = cls.write('library.c', LIBRARY_C)
        for name, *flags in (('musl', '-O2'), ('musl-static', '-O2', '-static'), ('musl-frames', '-O2', '-fno-omit-frame-pointer')):
            subprocess.run(['musl-gcc', '-o', f'{cls.dir}/{name}', source, *flags], check=True)
        subprocess.run(['gcc', '-O2', '-o', f'{cls.dir}/assembly', cls.write('caller.c', CALLER_C), cls.write('filter.s', ASSEMBLY_S)], check=True)

    @classmethod
    def start(cls):
        start = e2e.Window(cls.exporter)
        for name in ('musl', 'musl-static', 'musl-frames', 'assembly'):
            cls.loads[name] = e2e.Workload(f'{cls.dir}/{name}')
        start.wait_for('samples of each', lambda samples: all(cls.count(samples, name) for name in cls.loads))
        cls.wait_for_tables()
        cls.window = e2e.Window(cls.exporter)
        cls.window.wait_for('samples of each', lambda samples: all(cls.count(samples, name) >= 300 for name in cls.loads))

    @classmethod
    def of(cls, samples, name):
        """(stack, whether it is whole, how often)"""
        return [(stack, labels['stack'] == 'complete', values[0]) for stack, values, labels in samples if labels.get('comm') == name]

    @classmethod
    def count(cls, samples, name):
        return sum(n for _, _, n in cls.of(samples, name))

    def check(self, name):
        samples = self.of(self.window.samples, name)
        whole = [(stack, n) for stack, is_whole, n in samples if is_whole]
        n_whole = sum(n for _, n in whole)
        cut = collections.Counter()
        for stack, is_whole, n in samples:
            cut[tuple(stack[:3] + stack[-1:])] += 0 if is_whole else n
        self.assertGreaterEqual(n_whole, 0.99 * self.count(self.window.samples, name), cut.most_common(5))
        # Nothing is left out between the library and main; while the program starts, main has not called yet.
        with_main = [(stack, n) for stack, n in whole if 'main' in stack]
        self.assertGreater(sum(n for _, n in with_main), 0.99 * n_whole)
        self.assertEqual([stack for stack, _ in with_main if stack.index('main') and stack[stack.index('main') - 1] != 'work'], [])

    def test_musl(self):
        self.check('musl')

    def test_musl_linked_statically(self):
        self.check('musl-static')

    def test_musl_below_code_with_frame_pointers(self):
        self.check('musl-frames')

    def test_assembly(self):
        self.check('assembly')
        callers = {stack[1] for stack, _, _ in self.of(self.window.samples, 'assembly') if stack[0] == 'filter_step'}
        self.assertEqual(callers, {'filter'})


if __name__ == '__main__':
    unittest.main()
