"""Programs whose stacks need to be known for what they are: Python's trampolines, fibers, workers of io_uring, 32 bits."""
import glob
import os
import shutil
import subprocess
import unittest

import sonde_e2e as e2e

BURN = r"""
static volatile unsigned long n;
__attribute__((noinline)) static unsigned long burn(unsigned long k) { for (int i = 0; i < 20000; i++) k = k * 31 + 7; return k; }
"""
# Each function is called as Python calls its own with -X perf: through eleven bytes that keep no frame pointer.
TRAMPOLINES_C = BURN + r"""
#include <string.h>
#include <sys/mman.h>
static const unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3}; /* sub $8, %rsp; call *%rcx; add $8, %rsp; ret */
static void (*trampoline)(long, long, long, void (*)(void));
__attribute__((noinline)) static void middle(void) { for (int i = 0; i < 100; i++) n += burn(n); }
__attribute__((noinline)) static void outer(void) { trampoline(1, 2, 3, middle); n++; }
int main(void)
{
	void *p = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(p, code, sizeof(code));
	*(void **)&trampoline = p;
	for (;;) { trampoline(1, 2, 3, outer); n++; }
}
"""
PYTHON = """
def burn(k):
    s = 0
    for i in range(2000): s += i * k
    return s
def outer():
    n = 0
    while True: n += burn(n & 7)
outer()
"""
FIBERS_CC = BURN + r"""
#include <boost/context/fiber.hpp>
__attribute__((noinline)) static void in_fiber() { for (int i = 0; i < 120; i++) n = n + burn(n); }
__attribute__((noinline)) static void in_main() { for (int i = 0; i < 100; i++) n = n + burn(n); }
int main()
{
	namespace ctx = boost::context;
	ctx::fiber f{[](ctx::fiber &&back) { for (;;) { in_fiber(); back = std::move(back).resume(); } return std::move(back); }};

	for (;;) { f = std::move(f).resume(); in_main(); }
}
"""
# As libcoro's assembly (tarantool) does it: a fiber is made by hand, and "returns" to its first function. Above that lies what its maker wrote:
# the address of abort, 0, or no address at all. The last says nothing of a begin.
SWITCHED_C = BURN + r"""
#include <stdlib.h>
#include <sys/mman.h>
struct context { void **sp; };
void transfer(struct context *from, struct context *to);
__asm__(".text\n.globl transfer\n.type transfer, @function\ntransfer:\n"
	"push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15; mov %rsp, (%rdi); mov (%rsi), %rsp\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; pop %rcx; jmp *%rcx\n.size transfer, . - transfer\n");
static struct context main_context, fiber;
__attribute__((noinline)) void in_fiber(void) { for (int i = 0; i < 120; i++) n = n + burn(n); }
__attribute__((noinline)) void in_main(void) { for (int i = 0; i < 100; i++) n = n + burn(n); }
static void first(void) { for (;;) { in_fiber(); transfer(&fiber, &main_context); } }
int main(int argc, char **argv)
{
	char *stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	fiber.sp = (void **)(stack + 65536);
	*--fiber.sp = argc == 1 ? (void *)abort : (void *)atol(argv[1]);
	*--fiber.sp = (void *)first;
	fiber.sp -= 6;
	for (;;) { transfer(&main_context, &fiber); in_main(); }
}
"""
WORKERS_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static struct io_uring_params p;
int main(void)
{
	int ring = syscall(SYS_io_uring_setup, 8, &p), fd = open("/dev/zero", O_RDONLY);
	char *sq, *cq, *buf = malloc(16 << 20);
	struct io_uring_sqe *sqes;

	if (ring < 0)
		return 1;
	sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	sqes = mmap(0, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	for (;;) {
		unsigned *tail = (unsigned *)(sq + p.sq_off.tail), t = *tail, k = t & *(unsigned *)(sq + p.sq_off.ring_mask);

		memset(&sqes[k], 0, sizeof *sqes);
		sqes[k].opcode = IORING_OP_READ;
		sqes[k].fd = fd;
		sqes[k].addr = (unsigned long)buf;
		sqes[k].len = 16 << 20;
		sqes[k].flags = IOSQE_ASYNC;
		((unsigned *)(sq + p.sq_off.array))[k] = k;
		__atomic_store_n(tail, t + 1, __ATOMIC_RELEASE);
		syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
		__atomic_store_n((unsigned *)(cq + p.cq_off.head), *(volatile unsigned *)(cq + p.cq_off.tail), __ATOMIC_RELEASE);
	}
}
"""
BITS32_C = r"""
volatile unsigned n;
__attribute__((noinline)) unsigned burn(unsigned k) { for (int i = 0; i < 20000; i++) k = k * 31 + 7; return k; }
__attribute__((noinline)) void middle(void) { for (int i = 0; i < 1000; i++) n += burn(n); }
__attribute__((noinline)) void outer(void) { for (;;) { middle(); n++; } }
void _start(void) { outer(); }
"""

# The common shape of a server's thread: a loop that never returns, called through two more functions. Without unwind tables.
ENDLESS_C = BURN + r"""
#include <pthread.h>
#include <unistd.h>
__attribute__((noinline)) void handle(void) { for (int i = 0; i < 1000; i++) n += burn(n); }
__attribute__((noinline)) void event_loop(void) { for (;;) { handle(); n++; } }
__attribute__((noinline)) void run_worker(int *id) { n += *id; event_loop(); n += *id; }
static void *thread_main(void *arg) { int id = 3; run_worker(&id); n += id; return arg; }
int main(void) { pthread_t t; pthread_create(&t, 0, thread_main, 0); for (;;) pause(); }
"""
ENDLESS_RS = """
use std::hint::black_box;
#[inline(never)] fn burn(mut k: u64) -> u64 { for _ in 0..20000 { k = black_box(k.wrapping_mul(31).wrapping_add(7)); } k }
#[inline(never)] fn middle(n: &mut u64) { let mut v = Vec::new(); for i in 0..1000u64 { *n = n.wrapping_add(burn(*n + i)); if i % 100 == 0 { v.push(*n); } } black_box(v); }
#[inline(never)] fn outer() { let mut n = 1; loop { middle(&mut n); n += 1; } }
fn main() { let t = std::thread::spawn(|| outer()); t.join().unwrap(); }
"""


def new_pythons():
    """Those that have -X perf: from 3.12 on, so not Debian 12's."""
    names = [shutil.which(f'python3.{v}') for v in range(12, 15)] + sorted(glob.glob(os.path.expanduser('~/.pyenv/versions/3.1[2-4].*/bin/python3')))
    test = 'import sys; sys.exit(not sys.is_stack_trampoline_active())'
    return [name for name in names if name and not subprocess.run([name, '-X', 'perf', '-c', test], capture_output=True).returncode]


NEW_PYTHONS = new_pythons()


def compiles(*cmd):
    return not subprocess.run(cmd, capture_output=True, input='int x;', text=True).returncode


def follow(stack, names):
    """True when the names are in the stack, leaf first, in that order."""
    rest = iter(stack)
    return all(name in rest for name in names)


@e2e.needs_kernel
class OddPrograms(e2e.SampledPrograms):
    @classmethod
    def build(cls):
        cls.commands = {'trampolines': [e2e.compile_c(TRAMPOLINES_C, '-O2', name='trampolines')]}
        if compiles('g++', '-x', 'c++', '-include', 'boost/context/fiber.hpp', '-fsyntax-only', '-'):
            cls.commands['fibers'] = [e2e.compile_c(FIBERS_CC, '-O2', '-lboost_context', name='fibers', cc='g++')]
        if compiles('gcc', '-m32', '-x', 'c', '-fsyntax-only', '-'):
            cls.commands['bits32'] = [e2e.compile_c(BITS32_C, '-m32', '-O1', '-fno-omit-frame-pointer', '-mno-omit-leaf-frame-pointer', '-nostdlib', '-static', '-no-pie', '-fno-pic',
                                                    name='bits32')]
        cls.commands['workers'] = [e2e.compile_c(WORKERS_C, '-O2', name='workers')]
        switched = e2e.compile_c(SWITCHED_C, '-O2', name='switched')
        cls.commands.update(coro=[switched], zero=[switched, '0'], made_up=[switched, '4660'])
        cls.commands['endless'] = [e2e.compile_c(ENDLESS_C, '-O2', '-fno-asynchronous-unwind-tables', '-pthread', name='endless')]
        if shutil.which('rustc'):
            subprocess.run(['rustc', '-O', '-Cpanic=abort', '-Cdebuginfo=0', '-Cforce-unwind-tables=no', '-o', f'{cls.dir}/r', cls.write('r.rs', ENDLESS_RS)], check=True)
            cls.commands['rust'] = [f'{cls.dir}/r']
        source = cls.write('app.py', PYTHON)
        for i, python in enumerate(NEW_PYTHONS):
            cls.commands[f'python{i}'] = [python, '-X', 'perf', source]

    @classmethod
    def start(cls):
        cls.loads = {name: e2e.Workload(*command) for name, command in cls.commands.items()}
        window = e2e.Window(cls.exporter)
        window.wait_for('samples of all that run', lambda samples: {str(load.pid) for load in cls.loads.values() if load.p.poll() is None} <=
                        {s[2].get('pid') for s in samples})
        cls.wait_for_tables()

    def samples(self, name, *functions, is_whole=lambda labels: labels['stack'] == 'complete', query=''):
        """What a second of a program gives once each of its stacks is whole and one has these functions, leaf first. What is sampled while
        pages of a program are not in memory, or its mappings are read, may be cut; what stays cut fails."""
        if name not in self.loads:
            self.skipTest(f'{name}: cannot be built here')
        if self.loads[name].p.poll() is not None:
            self.skipTest(f'{name}: the kernel does not let it run')
        last = []

        def sampled():
            r = self.exporter.get(f'/debug/pprof/profile?seconds=1&hz=199&pid={self.loads[name].pid}{query}')
            last[:] = e2e.Pprof(r.body).samples
            return any(follow(stack, functions) for stack, _, _ in last) and all(is_whole(labels) for _, _, labels in last)
        e2e.wait_for(lambda: f'stacks of {name}, of {[(stack, labels["stack"]) for stack, _, labels in last][:5]}', sampled)
        return last

    def test_trampolines(self):
        self.samples('trampolines', 'burn', 'middle', 'outer', 'main')

    @unittest.skipUnless(NEW_PYTHONS, 'no Python that has -X perf')
    def test_python(self):
        for i in range(len(NEW_PYTHONS)):
            path = f'{self.dir}/app.py'
            self.samples(f'python{i}', f'py::burn:{path}', f'py::outer:{path}', f'py::<module>:{path}', 'Py_RunMain', query='&interp=keep')
            samples = self.samples(f'python{i}', 'burn', '[interpreter]', 'outer', '[interpreter]', '<module>', '_start')
            self.assertFalse([stack for stack, _, _ in samples if any(f.startswith('py::') for f in stack)])

    def test_fibers(self):
        samples = self.samples('fibers', 'in_fiber()', 'make_fcontext')
        self.assertEqual({stack[-1] for stack, _, _ in samples}, {'make_fcontext', '_start'})

    def test_fibers_made_by_hand(self):
        for name, root in (('coro', ('abort',)), ('zero', ())):
            with self.subTest(name):
                samples = self.samples(name, 'burn', 'in_fiber', 'first', *root)
                self.assertLessEqual({stack[-1] for stack, _, _ in samples}, {'_start', root[0] if root else 'first', 'transfer'})

    def test_a_fiber_that_begins_nowhere_is_not_complete(self):
        samples = self.samples('made_up', 'burn', 'in_fiber', 'first', is_whole=lambda labels: True)
        self.assertEqual({labels['stack'].partition(':')[0] for stack, _, labels in samples if 'first' in stack}, {'truncated'})
        self.assertEqual({labels['stack'] for stack, _, labels in samples if 'in_main' in stack}, {'complete'})

    def test_functions_that_never_return(self):
        self.samples('endless', 'burn', 'handle', 'event_loop', 'run_worker', 'thread_main', 'start_thread')

    def test_rust_that_aborts(self):
        # A stack may be cut, but a whole one has each caller of the function that never returns.
        samples = self.samples('rust', 'r::burn', 'r::middle', 'r::outer', is_whole=lambda labels: True)
        for stack, _, labels in samples:
            if 'r::outer' in stack and labels['stack'] == 'complete':
                self.assertRegex(stack[stack.index('r::outer') + 1], '__rust_begin_short_backtrace')
                self.assertRegex(stack[stack.index('r::outer') + 2], 'call_once')

    def test_workers_of_io_uring(self):
        samples = self.samples('workers', 'io_wq_worker')
        for stack, _, _ in samples:
            if 'io_wq_worker' in stack:
                self.assertRegex(stack[-1], '^ret_from_fork')

    def test_32_bits(self):
        # What lies above frame pointers is not known to be all.
        samples = self.samples('bits32', 'burn', 'middle', 'outer', '_start', is_whole=lambda labels: labels['stack'] == 'truncated:compat32')
        self.assertEqual({stack[-1] for stack, _, _ in samples}, {'[truncated: compat32]'})


if __name__ == '__main__':
    unittest.main()
