"""Stacks taken in signal handlers, whole down to what the signal interrupted: C libraries with tables and without, Go, other stacks."""
import collections
import subprocess
import time
import unittest

import sonde_e2e as e2e

# Half of the time is spent in a handler of the profiling timer.
TIMER_C = '''
#include <signal.h>
#include <sys/time.h>
volatile unsigned long n;
__attribute__((noinline)) void in_handler(void) { for (int i = 0; i < 3000000; i++) n += i; }
static void handler(int s) { in_handler(); n += s; }
__attribute__((noinline)) unsigned long burn(unsigned long k) { for (int i = 0; i < 20000; i++) k = k * 31 + 7; return k; }
__attribute__((noinline)) void outer(void) { for (;;) n += burn(n); }
int main(int argc, char **argv) {
	static char alternate[65536];
	stack_t ss = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	struct sigaction sa = {.sa_handler = handler, .sa_flags = argc > 1 ? SA_ONSTACK : 0};
	struct itimerval each = {{0, 1000}, {0, 1000}};
	(void)argv;
	if (argc > 1) sigaltstack(&ss, 0);
	sigaction(SIGPROF, &sa, 0);
	setitimer(ITIMER_PROF, &each, 0);
	outer();
	return 0;
}
'''
GO_STORM = '''package main
import ("os/signal"; "os"; "runtime"; "syscall")
func main() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	go func() { for range c {} }()
	runtime.LockOSThread()
	for { syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGUSR1)) }
}
'''
LEAST_SAMPLES = 100  # in handlers, of each


@e2e.needs_kernel
class Handlers(e2e.SampledPrograms):
    """All programs at once, a few seconds of them."""

    hz = 499

    @classmethod
    def start(cls):
        start = e2e.Window(cls.exporter)
        for name, cmd in cls.commands.items():
            cls.loads[name] = e2e.Workload(*cmd)
        start.wait_for('a whole stack of each', lambda samples: all(cls.count(samples, name, whole=True) for name in cls.loads))
        cls.wait_for_tables()
        cls.window = e2e.Window(cls.exporter)
        e2e.wait_for('handlers', lambda: cls.window.read() or all(cls.count(cls.window.samples, name) >= LEAST_SAMPLES for name in cls.loads),
                     interval=3)  # seldom: reading takes the CPU from the programs

    @classmethod
    def build(cls):
        cls.commands = {}
        timer, storm = cls.write('timer.c', TIMER_C), cls.write('gostorm.go', GO_STORM)
        for name, cc, *flags in (('timer', 'gcc'), ('timer-static', 'gcc', '-static'), ('timer-musl', 'musl-gcc', '-static')):
            prog = f'{cls.dir}/{name}'
            subprocess.run([cc, '-O2', '-fomit-frame-pointer', '-o', prog, timer, *flags], check=True)
            cls.commands[name] = [prog]
            cls.commands[f'{name}, another stack'] = [prog, 'on-another-stack']
        subprocess.run(['go', 'build', '-ldflags=-s -w', '-o', f'{cls.dir}/gostorm', storm], check=True, env=e2e.go_env())
        cls.commands['go'] = [f'{cls.dir}/gostorm']

    @classmethod
    def stacks(cls, samples, name):
        """(stack, whether it is whole, how often) of those taken in a handler."""
        handler = 'runtime.sigtramp' if name == 'go' else 'in_handler'
        return [(stack[stack.index(handler):], labels['stack'] == 'complete', values[0]) for stack, values, labels in samples
                if labels.get('pid') == str(cls.loads[name].pid) and handler in stack]

    @classmethod
    def count(cls, samples, name, whole=False):
        return sum(n for _, is_whole, n in cls.stacks(samples, name) if is_whole or not whole)

    def assert_walked_through(self, name, interrupted):
        all_of_it = self.stacks(self.window.samples, name)
        bad = collections.Counter()
        for stack, whole, n in all_of_it:
            if not whole or interrupted not in stack:
                bad[(whole, tuple(stack))] += n
        self.assertLessEqual(sum(bad.values()), 0.005 * sum(n for _, _, n in all_of_it), f'{name}: {bad.most_common(3)}')

    def test_timers(self):
        for name in self.loads:
            if name != 'go':
                self.assert_walked_through(name, 'main')

    def test_stripped_go(self):
        self.assert_walked_through('go', 'main.main')


if __name__ == '__main__':
    unittest.main()
