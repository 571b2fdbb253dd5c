"""sonde record: a command, a process, a control group, windows and marks; what is lost, ended and refused; sonde top of an exporter."""
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import sonde_e2e as e2e

WORK = r'''
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>
__attribute__((noinline)) uint64_t record_work(uint64_t x) { for (int i = 0; i < 1000000; i++) x = x * 6364136223846793005ULL + 1; return x; }
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int c, char **v) {
	volatile uint64_t x = 1;
	double seconds = atof(v[1]);
	if (c > 3 && fork() > 0) { int s; wait(&s); return WEXITSTATUS(s); }
	while (seconds < 0 || cpu() < seconds) x = record_work(x);
	return c > 2 ? atoi(v[2]) : 0;
}
'''


@e2e.needs_kernel
class Record(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = e2e.compile_c(WORK, '-O1', '-fno-omit-frame-pointer', name='recwork')

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix='sonde-record.')
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        self.out = f'{self.top}/out.pb.gz'

    def profile(self):
        with open(self.out, 'rb') as f:
            return e2e.Pprof(f.read())

    def record(self, *args, status=0):
        p = e2e.sonde('record', '-o', self.out, *args)
        self.assertEqual(p.returncode, status, p.stderr)
        return p

    def test_command_with_an_exporter_of_its_own(self):
        p = self.record('-F', '199', '--', self.work, '1.5', '7', 'fork', status=7)
        self.assertRegex(p.stderr, r'\d+ samples \(\d+ with a cut stack\), \d+ lost')
        prof = self.profile()
        self.assertEqual(set(prof.by_label('comm')), {'recwork'})
        # the child did the work: CPU time as its own clock has it
        self.assertGreater(prof.functions()['record_work'], 1e9)
        self.assertLess(prof.total(), 2.2e9)
        self.assertIn('record_work', e2e.sonde('top', '-n', '3', self.out).stdout)

    def test_with_an_exporter_that_runs(self):
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0') as d, e2e.Workload(self.work, '-1') as w, e2e.Workload(self.work, '-1') as other:
            server = ('--exporter', d.url)
            with self.subTest('process and time'):
                self.record(*server, '-p', str(w.pid), '-d', '3s')
                self.assertEqual(set(self.profile().by_label('pid')), {str(w.pid)})
            with self.subTest('name'):
                self.record(*server, '--comm', 'recw.*', '-d', '2s', '--lines')
                self.assertEqual(set(self.profile().by_label('pid')), {str(w.pid), str(other.pid)})
            with self.subTest('machine'):
                self.record(*server, '-a', '-d', '2s')
                self.assertLessEqual({str(w.pid), str(other.pid)}, set(self.profile().by_label('pid')))
            with self.subTest('control group that is not there'):
                self.record(*server, '--cgroup', '/no/such.group', '-d', '1s')
                self.assertEqual(self.profile().samples, [])
            with self.subTest('top'):
                r = e2e.sonde('top', '--exporter', d.url, '--seconds', '2s', '--by', 'comm', '-n', '0')
                self.assertRegex(r.stdout, r'%  recwork\n')
            with self.subTest('status of a command that is killed'):
                self.record(*server, '--', 'sh', '-c', 'kill -9 $$', status=137)
            with self.subTest('no such command'):
                self.assertIn('no-such-command: No such file', self.record(*server, '--', 'no-such-command', status=127).stderr)

    def start(self, *args):
        p = subprocess.Popen([e2e.program('sonde'), 'record', '-o', self.out, *args], stderr=subprocess.PIPE, text=True, start_new_session=True)

        def stop():
            if p.poll() is None:
                p.kill()
            p.communicate()
        self.addCleanup(stop)
        return p

    def test_windows_marks_and_signals(self):
        fifo = f'{self.top}/window'
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0') as d, e2e.Workload(self.work, '-1') as w:
            p = self.start('--exporter', d.url, '-p', str(w.pid), '--window', f'fifo:{fifo}')
            e2e.wait_for('the pipe', lambda: os.path.exists(fifo))

            def say(*lines):
                with open(fifo, 'w') as f:
                    f.write(''.join(line + '\n' for line in lines))
            before = e2e.cpu_samples(d.metrics())
            e2e.wait_for('samples outside of a window', lambda: e2e.cpu_samples(d.metrics()) > before + 60)
            say('start', 'mark warm up')
            before = e2e.cpu_samples(d.metrics())
            e2e.wait_for('samples', lambda: e2e.cpu_samples(d.metrics()) > before + 60)
            say('what?', 'stop', 'end')
            _, err = p.communicate(timeout=60)
            self.assertEqual(p.returncode, 0, err)
            self.assertIn('"what?": expected start, stop, mark NAME or end', err)
            self.assertFalse(os.path.exists(fifo))
            prof = self.profile()
            self.assertTrue(prof.samples)
            self.assertIn('marker warm up at', e2e.go_pprof('-comments', self.out).stdout)
            # a signal ends a recording, and what is there is written
            os.unlink(self.out)
            p = self.start('--exporter', d.url, '-a')
            before = e2e.cpu_samples(d.metrics())
            e2e.wait_for('samples', lambda: e2e.cpu_samples(d.metrics()) > before + 60)
            p.send_signal(signal.SIGTERM)
            _, err = p.communicate(timeout=60)
            self.assertEqual(p.returncode, 0, err)
            self.assertTrue(self.profile().samples)


class Refusals(unittest.TestCase):
    def test_command_lines(self):
        for args, text in (([], 'of what?'), (['-p', 'x'], 'expected a process id'), (['-p', '2147483646'], 'no such process'),
                           (['-p', str(os.getpid()), '--', 'true'], 'expected one of them'), (['-a', '--window', 'x'], 'expected fifo:PATH')):
            p = e2e.sonde('record', *args)
            self.assertEqual((args, p.returncode), (args, 2))
            self.assertIn(text, p.stderr)

    def test_server_that_is_none(self):
        p = e2e.sonde('record', '-a', '-d', '1s', '--exporter', 'http://127.0.0.1:1', '-o', '/dev/null')
        self.assertEqual(p.returncode, 1)
        self.assertIn('http://127.0.0.1:1', p.stderr)


if __name__ == '__main__':
    unittest.main()
