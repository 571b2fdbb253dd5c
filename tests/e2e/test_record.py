"""sonde record: a command, a process, a control group, windows and marks; what is lost, ended and refused; sonde top of an exporter."""
import http.server
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

import sonde_e2e as e2e
from test_cgroups import hierarchies
from test_cli_merge import encode
from test_exporter_clients import cpu_ns

BESIDE_OTHERS = True

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


def work_on(what, w):
    """Waits until the workload has run long enough to be sampled, however little of the machine it gets."""
    until = cpu_ns(w.pid) + 10**9
    e2e.wait_for(what, lambda: cpu_ns(w.pid) > until, timeout=180)


def cmdline(pid):
    try:
        with open(f'/proc/{pid}/cmdline') as f:
            return f.read()
    except OSError:
        return ''


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

    def serve(self, handler):
        """The URL of a server for the rest of the test."""
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        return f'http://127.0.0.1:{server.server_port}'

    def record(self, *args, status=0):
        p = e2e.sonde('record', '-o', self.out, *args)
        self.assertEqual(p.returncode, status, p.stderr)
        return p

    def test_command_with_an_exporter_of_its_own(self):
        p = self.record('-F', '199', '--', self.work, '1.5', '7', 'fork', status=7)
        self.assertRegex(p.stderr, r'\d+ samples \(\d+ with a cut stack\), \d+ lost, [0-9.]+ s at 199 Hz \(--profile.frequency\)')
        prof = self.profile()
        self.assertEqual(set(prof.by_label('comm')), {'recwork'})
        # the child did the work: CPU time as its own clock has it
        self.assertGreater(prof.functions()['record_work'], 1e9)
        self.assertLess(prof.total(), 2.2e9)
        self.assertIn('record_work', e2e.sonde('top', '-n', '3', self.out).stdout)

    def test_with_an_exporter_that_runs(self):
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', '--profile.frequency=99') as d, \
                e2e.Workload(self.work, '-1') as w, e2e.Workload(self.work, '-1') as other:
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

    def test_killed(self):
        """Nothing outlives a recorder that is killed: neither its exporter nor the command that it still holds."""
        p = self.start('-a')
        mine = f'{e2e.build_dir()}/sonde-exporter'

        def of_session():
            """Processes that the recorder began, by their parents' chain."""
            parents, out = {}, [p.pid]
            for pid in filter(str.isdigit, os.listdir('/proc')):
                try:
                    with open(f'/proc/{pid}/stat') as f:
                        parents[int(pid)] = int(f.read().rsplit(') ', 1)[1].split()[1])
                except OSError:
                    pass
            for pid in out:
                out += [c for c, parent in parents.items() if parent == pid]
            return out[1:]

        def exporters():
            return [pid for pid in of_session() if cmdline(pid).startswith(mine)]
        e2e.wait_for('the roles of the exporter', lambda: len(exporters()) >= 3)
        children = of_session()
        p.kill()
        p.wait()
        e2e.wait_for('the end of them all', lambda: not [c for c in children if os.path.exists(f'/proc/{c}')])

    def test_started_and_stopped_by_signals(self):
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', '--profile.frequency=99') as d, e2e.Workload(self.work, '-1') as w:
            def ready(p):
                """The signals are blocked: it waits for them."""
                with open(f'/proc/{p.pid}/status') as f:
                    blocked = int(re.search(r'SigBlk:\s*(\w+)', f.read())[1], 16)
                return blocked >> (signal.SIGUSR1 - 1) & 1
            p = self.start('--exporter', d.url, '-p', str(w.pid), '--start-on', 'USR1', '--stop-on', 'USR2')
            e2e.wait_for('the recorder', lambda: ready(p))
            work_on('work before', w)
            begun = time.time()
            p.send_signal(signal.SIGUSR1)
            work_on('work between', w)
            p.send_signal(signal.SIGUSR2)
            ended = time.time()
            work_on('work after', w)
            p.send_signal(signal.SIGINT)
            _, err = p.communicate(timeout=300)
            self.assertEqual(p.returncode, 0, err)
            prof = self.profile()
            self.assertGreater(prof.total(), 0)
            # windows are whole seconds of the exporter
            self.assertGreater(prof.time_nanos / 1e9, begun - 2)
            self.assertLess((prof.time_nanos + prof.duration_nanos) / 1e9, ended + 3)

    def test_control_group(self):
        """A group is recorded with those below it, and nothing beside it."""
        found = hierarchies()
        mounts = [found[kind] for kind in ('v2', 'memory', 'pids', 'systemd') if kind in found][:1]
        if not mounts:
            self.skipTest('no control group can be made here')
        name = f'sonde-record-{os.getpid()}.slice'

        def clean():
            for path in [f'{m}/{name}{below}' for m in mounts for below in ('/a.scope', '')]:
                e2e.wait_for(f'rmdir {path}', lambda path=path: not os.path.exists(path) or not subprocess.run(['rmdir', path], capture_output=True).returncode)
        self.addCleanup(clean)
        for m in mounts:
            os.makedirs(f'{m}/{name}/a.scope')

        def enter(below):
            def run():
                for m in mounts:
                    with open(f'{m}/{name}{below}/cgroup.procs', 'w') as f:
                        f.write(str(os.getpid()))
            return run
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', '--profile.frequency=99') as d, e2e.Workload(self.work, '-1') as outside:
            inside = [subprocess.Popen([self.work, '-1'], preexec_fn=enter(below)) for below in ('', '/a.scope')]
            try:
                pids = [str(p.pid) for p in inside]
                self.record('--exporter', d.url, '--cgroup', f'/{name}', '-d', '4s')
                self.assertEqual(set(self.profile().by_label('pid')), set(pids))
                self.record('--exporter', d.url, '--cgroup', f'{name}/a.scope/', '--comm', 'recwork', '-d', '4s')
                self.assertEqual(set(self.profile().by_label('pid')), {pids[1]})
                self.assertNotIn(str(outside.pid), pids)
            finally:
                for p in inside:
                    p.kill()
                    p.wait()

    @staticmethod
    def status(pid):
        with open(f'/proc/{pid}/status') as f:
            return f.read()

    def test_interrupted_before_the_command_begins(self):
        """A signal that comes while the exporter starts ends a command that has not even been looked for."""
        # Where it is ignored, as in jobs that a shell runs in the background, it ends nothing.
        p = subprocess.Popen([e2e.program('sonde'), 'record', '-o', self.out, '--', '/no/such/command'], stderr=subprocess.PIPE, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        # Then they wait for it. A sanitizer's start blocks all of them for a moment.
        blocked = sum(1 << s - 1 for s in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD))
        while p.poll() is None and f'SigBlk:\t{blocked:016x}' not in self.status(p.pid):
            time.sleep(0.001)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=300)
        self.assertEqual(p.returncode, 128 + signal.SIGINT, err)
        self.assertNotIn('/no/such/command', err)

    def test_threshold_for_failure(self):
        """A profile that lost more than --max-lost is written, and the status says so."""
        lost = {'n': 0}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                metrics = self.path == '/metrics'
                now = time.time_ns() // 10**9 * 10**9
                body = f'# TYPE\nsonde_samples_dropped_total{{event="cpu",reason="ring_full"}} {lost["n"]}\n'.encode() if metrics else encode([(['f'], (10, 10**8), {})], time_ns=now)
                if not metrics:
                    lost['n'] += 3
                self.send_response(200)
                self.send_header('Content-Length', str(len(body)))
                self.send_header('Sonde-Cursor', '1.1')
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass
        url = self.serve(Handler)
        self.assertIn('above --max-lost', self.record('-a', '-d', '1s', '--exporter', url, status=1).stderr)
        self.assertGreater(self.profile().total(), 0)
        self.record('-a', '-d', '1s', '--exporter', url, '--max-lost', '1')
        self.assertRegex(e2e.go_pprof('-comments', self.out).stdout, r'^lost \d+ samples since \d+\n$')
        self.assertIn('above --max-lost', e2e.sonde('diff', '--sample-index', 'samples', self.out, self.out).stderr)
        os.unlink(self.out)
        self.assertRegex(self.record('-a', '-d', '1s', '--exporter', url, '--max-lost', '1', '--min-samples', '9999', status=1).stderr, r'sonde: \d+ samples were taken, below --min-samples')
        self.assertGreater(self.profile().total(), 0)
        self.record('-a', '-d', '1s', '--exporter', url, '--max-lost', '1', '--min-samples', '10')

    def test_window_by_the_clock_of_the_server(self):
        """All seconds from the begin to the end and no others, of an exporter on a machine whose clock is wrong, which closes seconds late and answers late."""
        behind, late, slow = 100, 2.4, 0.3
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def date_time_string(self, timestamp=None):
                return super().date_time_string(time.time() - behind)

            def do_GET(self):
                time.sleep(slow)  # answers late
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
                closed = int(time.time() - behind - late)  # seconds before this one are
                first = int(query['since'].split('.')[1]) + 1 if query.get('since') else closed - 1
                seconds = list(range(first, min(closed, first + int(query.get('span', 1)))))
                rows = [([f'second_{n}'], (1, 10**8), {}) for n in seconds]
                body = encode(rows, time_ns=first * 10**9, duration_ns=len(seconds) * 10**9) if self.path != '/metrics' else b''
                asked.append(self.path.strip('/'))
                self.send_response(200)
                self.send_header('Content-Length', str(len(body)))
                self.send_header('Sonde-Cursor', f'1.{(seconds or [first - 1])[-1]}')
                self.send_header('Sonde-Behind-Seconds', str(max(closed - 1 - (seconds or [first - 1])[-1], 0)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass
        url = self.serve(Handler)
        fifo = f'{self.top}/window'
        p = self.start('--exporter', url, '-a', '--window', f'fifo:{fifo}')
        e2e.wait_for('the recorder', lambda: 'metrics' in asked)
        begun = time.time() - behind
        e2e.sonde('mark', '--window', f'fifo:{fifo}', '--start')
        e2e.wait_for('seconds', lambda: time.time() - behind > begun + 2)
        ended = time.time() - behind
        e2e.sonde('mark', '--window', f'fifo:{fifo}', '--end')
        _, err = p.communicate(timeout=300)
        self.assertEqual(p.returncode, 0, err)
        seconds = sorted(int(f.split('_')[1]) for f in self.profile().functions())
        self.assertEqual(seconds, list(range(seconds[0], seconds[-1] + 1)))
        # by how much its clock is wrong is known to the second
        self.assertGreaterEqual(seconds[0], int(begun) - 1)
        self.assertGreaterEqual(seconds[-1], int(ended) - 1)

    def test_windows_marks_and_signals(self):
        fifo = f'{self.top}/window'
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', '--profile.frequency=99') as d, e2e.Workload(self.work, '-1') as w:
            p = self.start('--exporter', d.url, '-p', str(w.pid), '--window', f'fifo:{fifo}')
            e2e.wait_for('the pipe', lambda: os.path.exists(fifo))

            def say(*lines):
                with open(fifo, 'w') as f:
                    f.write(''.join(line + '\n' for line in lines))
            work_on('work outside of a window', w)
            self.assertEqual(e2e.sonde('mark', '--window', f'fifo:{fifo}', '--start', 'warm up').returncode, 0)
            work_on('work', w)
            say('what?', 'stop', 'end')
            _, err = p.communicate(timeout=300)
            self.assertEqual(p.returncode, 0, err)
            self.assertIn('"what?": expected start, stop, mark NAME or end', err)
            self.assertFalse(os.path.exists(fifo))
            prof = self.profile()
            self.assertTrue(prof.samples)
            self.assertIn('marker warm up at', e2e.go_pprof('-comments', self.out).stdout)
            # a command finds the pipe by itself, from another folder too; what it does after the end is no part of the recording
            mark = f'{e2e.program("sonde")} mark'
            p = self.start('--exporter', d.url, '--window', f'fifo:{os.path.relpath(fifo)}', '--',
                           'sh', '-c', f'cd /; {self.work} 2; {mark} --start one; {self.work} 1; {mark} --stop two; {mark} --end; exit 4')
            _, err = p.communicate(timeout=300)
            self.assertEqual(p.returncode, 4, err)
            prof = self.profile()
            self.assertGreater(prof.functions()['record_work'], 0.2e9)  # a machine with much else to do loses ticks
            self.assertLess(prof.functions()['record_work'], 2.2e9)  # windows are whole seconds
            self.assertEqual([c.split(' at ')[0] for c in e2e.go_pprof('-comments', self.out).stdout.splitlines()], ['rate: 99 Hz (--profile.frequency)', 'marker one', 'marker two'])
            # a signal ends a recording, and what is there is written
            os.unlink(self.out)
            p = self.start('--exporter', d.url, '-a')
            work_on('work', w)
            p.send_signal(signal.SIGTERM)
            _, err = p.communicate(timeout=300)
            self.assertEqual(p.returncode, 0, err)
            self.assertTrue(self.profile().samples)


class Refusals(unittest.TestCase):
    def test_command_lines(self):
        for args, text in (([], 'of what?'), (['-p', 'x'], '-p x: expected a process id'), (['-p', '2147483646'], '-p 2147483646: there is no such process'),
                           (['-p', str(os.getpid()), '--', 'true'], 'expected one of them'), (['-a', '--window', 'x'], '--window: "x": expected fifo:PATH'),
                           (['-a', '--window', 'fifo:'], 'expected fifo:PATH'), (['--comm', '('], '--comm "(": position 1')):
            p = e2e.sonde('record', *args)
            self.assertEqual((args, p.returncode), (args, 2))
            self.assertIn(text, p.stderr)

    def test_what_cannot_be_written_is_not_recorded(self):
        for path, text in (('/no/such/x.pb.gz', 'cannot be written: /no/such/: No such file'), ('/tmp', 'is a directory')):
            with tempfile.TemporaryDirectory() as top:
                for args in (('record', '-o', path, '--', 'touch', f'{top}/ran'), ('bench', '-o', path, f'a=touch {top}/ran', 'b=true')):
                    p = e2e.sonde(*args)
                    self.assertEqual(p.returncode, 1 if args[0] == 'record' else 2)
                    self.assertIn(f'{path}', p.stderr)
                    self.assertIn(text, p.stderr)
                    self.assertEqual(os.listdir(top), [])

    def test_interrupted_while_the_exporter_starts(self):
        """One that never listens: the signal ends both at once, what was to be measured never begins."""
        with tempfile.TemporaryDirectory() as top:
            tool = shutil.copy(e2e.program('sonde'), f'{top}/sonde')
            with open(f'{top}/sonde-exporter', 'w') as f:
                f.write(f'#!/bin/sh\necho $$ >{top}/pid.new; mv {top}/pid.new {top}/pid; exec sleep 600\n')
            os.chmod(f'{top}/sonde-exporter', 0o755)
            hooks = [f'--{hook}=touch {top}/ran' for hook in ('setup', 'prepare', 'conclude', 'cleanup')]
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                for args, status in ((('bench', *hooks, f'a=touch {top}/ran', 'b=true'), 2), (('record', '-o', 'x', '--', 'touch', f'{top}/ran'), 128 + number), (('record', '-o', 'x', '-a'), 1)):
                    p = subprocess.Popen([tool, *args], cwd=top, stderr=subprocess.PIPE, text=True, preexec_fn=lambda n=number: signal.signal(n, signal.SIG_DFL))
                    e2e.wait_for('the exporter', lambda: os.path.exists(f'{top}/pid'), interval=0.02)
                    with open(f'{top}/pid') as f:
                        pid = f.read().strip()
                    os.unlink(f'{top}/pid')
                    began = time.monotonic()
                    p.send_signal(number)
                    err = p.communicate(timeout=120)[1]
                    self.assertLess(time.monotonic() - began, 30, args)
                    self.assertEqual(p.returncode, status, err)
                    self.assertIn(f'ended by signal {number} before the exporter had started', err)
                    self.assertFalse(os.path.exists(f'/proc/{pid}'))
                    self.assertFalse(os.path.exists(f'{top}/ran'))
                    self.assertFalse(os.path.exists(f'{top}/x'))

    def test_marks_that_nobody_reads(self):
        with tempfile.TemporaryDirectory() as top:
            os.mkfifo(f'{top}/pipe')
            with open(f'{top}/file', 'w') as f:
                f.write('x')
            for args, status, text in ((['x'], 2, 'which recording?'), (['--window', 'x', 'x'], 2, 'expected fifo:PATH'), (['--window', f'fifo:{top}/pipe'], 2, 'expected a NAME'),
                                       (['--window', f'fifo:{top}/pipe', '--start', '--end'], 2, 'expected one of'), (['--window', f'fifo:{top}/pipe', 'a\nend'], 2, 'on one line'),
                                       (['--window', f'fifo:{top}/pipe', 'x' * 2000], 2, 'of 1 to 1018 bytes'), (['--window', f'fifo:{top}/pipe', 'x'], 1, 'no recording reads it'),
                                       (['--window', f'fifo:{top}/file', 'x'], 1, 'expected a pipe'), (['--window', f'fifo:{top}/none', 'x'], 1, 'No such file')):
                p = e2e.sonde('mark', *args)
                self.assertEqual((args, p.returncode), (args, status), p.stderr)
                self.assertIn(text, p.stderr)
            with open(f'{top}/file') as f:
                self.assertEqual(f.read(), 'x')

    def test_server_that_is_none(self):
        p = e2e.sonde('record', '-a', '-d', '1s', '--exporter', 'http://127.0.0.1:1', '-o', '/dev/null')
        self.assertEqual(p.returncode, 1)
        self.assertIn('http://127.0.0.1:1', p.stderr)


if __name__ == '__main__':
    unittest.main()
