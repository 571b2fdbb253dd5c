"""What does not answer costs names, not samples: a file system that hangs, a keeper that is stopped."""
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from sonde_e2e import Workload, compile_c, exporter, is_sanitized, mounts_on, needs_kernel, wait_for
from test_jit import MAKER_C
from test_roles import children, roles, status

STOPPED_S = 60  # longer than all waits of main
MAX_METRICS_S = 0.5 if is_sanitized() else 0.1
MAX_PROFILE_S = 10 if is_sanitized() else 5  # beyond the window

# Keeps itself in memory, stops the server of the file system that it lies on, goes on.
PROGRAM = r'''
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
volatile unsigned long n;
__attribute__((noinline)) unsigned long burn(unsigned long k) { for (int i = 0; i < 20000; i++) k = k * 31 + 7; return k; }
__attribute__((noinline)) void middle(void) { for (int i = 0; i < 1000; i++) n += burn(n); }
__attribute__((noinline)) void outer(void) { for (;;) { middle(); n++; } }
int main(int argc, char **argv)
{
	mlockall(MCL_CURRENT);
	if (argc > 1)
		kill(atoi(argv[1]), SIGSTOP);
	outer();
	return 0;
}
'''


def state(pid):
    with open(f'/proc/{pid}/stat') as f:
        return f.read().rsplit(')', 1)[1].split()[0]


class Stopped:
    """The keeper and its openers do not run."""

    def __init__(self, daemon):
        self.pids = [daemon.p.pid, *(p for p in children(daemon.p.pid) if status(p)['Name'] == 'sonde-opener')]

    def __enter__(self):
        self.began = time.monotonic()
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
        return self

    def __exit__(self, *exc):
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)


class HangingFileSystem:
    """A program on a FUSE file system whose server stops answering once the program runs."""

    def __enter__(self):
        self.point = tempfile.mkdtemp(prefix='sonde-hanging.')
        self.program = self.server = None
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def begin(self):
        program = compile_c(PROGRAM, '-O2', '-g', name='hang')
        self.server = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), 'hanging_fs.py'), self.point, program],
                                       stdout=subprocess.DEVNULL)
        wait_for('the file system', lambda: mounts_on(self.point))
        self.program = subprocess.Popen([f'{self.point}/program', str(self.server.pid)])
        wait_for('its server to stop', lambda: state(self.server.pid) == 'T')

    def go_on(self):
        self.server.send_signal(signal.SIGCONT)

    def __exit__(self, *exc):
        # Without its server all that waits for the file system fails, the program's end included.
        for p in filter(None, (self.server, self.program)):
            p.kill()
            p.wait()
        if mounts_on(self.point):
            subprocess.run(['umount', '-l', self.point], check=True)
        os.rmdir(self.point)


class Frozen:
    """One thread of a process does not run, held by ptrace."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, pid, name):
        self.tid = next(int(t) for t in os.listdir(f'/proc/{pid}/task') if status(f'{pid}/task/{t}')['Name'] == name)
        self.is_held = False

    def ptrace(self, request):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(ctypes.c_long(request), ctypes.c_long(self.tid), None, None):
            raise OSError(ctypes.get_errno(), f'ptrace {request:#x}')

    def reap(self):
        """True once the thread has ended: as long as its tracer does not look, it holds its process back."""
        return os.waitpid(self.tid, self.WALL | os.WNOHANG)[0] == self.tid

    def __enter__(self):
        self.ptrace(self.SEIZE)
        self.ptrace(self.INTERRUPT)
        os.waitpid(self.tid, self.WALL)
        self.is_held = True
        return self

    def __exit__(self, *exc):
        if self.is_held:
            self.ptrace(self.DETACH)


@needs_kernel
class Hanging(unittest.TestCase):
    def metrics_seconds(self, d):
        began = time.monotonic()
        self.assertEqual(d.get('/metrics').status, 200)
        return time.monotonic() - began

    def answers(self, d):
        """All that the exporter serves, in time; samples go on meanwhile."""
        before = d.metrics()['sonde_drain_samples_total']
        # What hangs does so all the time, while other load on the machine comes and goes.
        wait_for(f'/metrics within {MAX_METRICS_S} s', lambda: max(self.metrics_seconds(d) for _ in range(11)) < MAX_METRICS_S)
        for path in '/-/healthy', '/-/ready', '/targets', '/debug/pprof/profile?seconds=1&symbolize=none', '/debug/pprof/profile?since=':
            self.assertEqual(d.get(path, timeout=20).status, 200, path)
        self.assertGreater(d.metrics()['sonde_drain_samples_total'], before + 10)

    def named(self, d, comm):
        """Whether a profile names a program's functions, and names come in time, whatever hangs."""
        began = time.monotonic()
        text = d.get(f'/debug/pprof/profile?seconds=2&format=folded&comm={comm}').text
        self.assertLess(time.monotonic() - began, 2 + MAX_PROFILE_S)
        return 'outer;middle;burn' in text

    def ends(self, d):
        began = time.monotonic()
        self.assertEqual(d.stop(), 0, d.output())
        self.assertLess(time.monotonic() - began, 10)

    def test_a_file_system_that_hangs(self):
        with exporter('--symbols.cache-path=') as d, HangingFileSystem() as fs:
            wait_for('the hang', lambda: d.metrics()['sonde_keeper_hanging'] > 0)
            self.answers(d)
            self.assertIn('do not answer', d.get('/unwind').text)
            wait_for('the count of what could not be read', lambda: d.metrics()['sonde_symbol_file_failures_total{reason="hangs"}'] > 0)
            # other programs have their names
            with Workload(compile_c(PROGRAM, '-O2', '-g', name='other')):
                wait_for('names of another program', lambda: self.named(d, 'other'))
            fs.go_on()
            wait_for('all that hung to come back', lambda: d.metrics()['sonde_keeper_hanging'] == 0)
            wait_for('names of the program', lambda: self.named(d, 'program'))

    def test_it_hangs_before_the_start(self):
        with HangingFileSystem(), exporter('--symbols.cache-path=') as d:
            wait_for('the hang', lambda: d.metrics()['sonde_keeper_hanging'] > 0)
            self.answers(d)
            self.ends(d)

    def test_a_keeper_that_is_stopped(self):
        known, new, jit = (compile_c(source, '-O2', '-g', name=name)
                           for source, name in ((PROGRAM, 'known'), (PROGRAM, 'new'), (MAKER_C, 'made')))
        kernel = ['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=64M']
        with exporter('--symbols.cache-path=') as d, Workload(known), Workload(*kernel):
            wait_for('names of a program', lambda: self.named(d, 'known'))
            with Stopped(d) as stopped, Workload(new), Workload(jit):
                self.assertTrue(self.named(d, 'known'))
                wait_for('a request that got no answer', lambda: d.metrics()['sonde_keeper_requests_total{result="timeout"}'] > 0)
                wait_for('the truth', lambda: 'goes on without its keeper' in d.get('/-/healthy').text)
                while time.monotonic() < stopped.began + STOPPED_S:
                    self.answers(d)
                    # What is known has its names, those of code of the kernel and of JIT code, which are looked for, included.
                    self.assertTrue(self.named(d, 'known'))
                    self.assertIn('read_zero', d.get('/debug/pprof/profile?seconds=1&format=folded&comm=dd').text)
                    self.assertFalse(self.named(d, 'new'))
                self.assertGreater(d.metrics()['sonde_keeper_silent_seconds'], STOPPED_S / 2)
                self.assertGreater(d.metrics()['sonde_keeper_requests_total{result="silent"}'], 0)
                stopped.__exit__()
                wait_for('the keeper to answer', lambda: d.metrics()['sonde_keeper_silent_seconds'] == 0)
                self.assertEqual(d.get('/-/healthy').text.strip(), 'Sonde exporter is Healthy.')
                wait_for('names of the new program', lambda: self.named(d, 'new'))

    def test_a_thread_that_is_stuck(self):
        with exporter('--symbols.cache-path=') as d:
            self.assertEqual(d.get('/-/healthy').text.strip(), 'Sonde exporter is Healthy.')
            with Frozen(roles(d)['main'], 'drain'):
                wait_for('the truth', lambda: d.get('/-/healthy').status == 503)
                self.assertIn('"drain"', d.get('/-/healthy').text)
            wait_for('health', lambda: d.get('/-/healthy').status == 200)
            with Frozen(roles(d)['main'], 'drain') as drain:
                began = time.monotonic()
                d.p.send_signal(signal.SIGTERM)
                wait_for('the end of the thread', drain.reap)
                drain.is_held = False
                self.assertEqual(d.p.wait(60), 0, d.output())
                self.assertLess(time.monotonic() - began, 12)
                self.assertIn('the thread \\"drain\\" does not end', d.output())


if __name__ == '__main__':
    unittest.main()
