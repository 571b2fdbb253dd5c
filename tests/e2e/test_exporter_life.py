"""An exporter's start and end: flags, listeners, signals, clients that leave, kill -9; and a captured bundle replays."""
import concurrent.futures
import glob
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import sonde_e2e as e2e
from test_exporter import C_SOURCE, FRAME_POINTERS
from test_roles import roles

BESIDE_OTHERS = True


def programs_of(pid):
    """Ids of the BPF programs that a process holds."""
    ids = set()
    for path in glob.glob(f'/proc/{pid}/fdinfo/*'):
        with open(path) as f:
            ids |= {int(i) for i in re.findall(r'(?m)^prog_id:\t(\d+)', f.read())}
    return ids


def session_of(leader):
    """Pids of the processes in the session that `leader` began."""
    pids = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if os.getsid(int(pid)) == leader:
                pids.append(int(pid))
        except ProcessLookupError:
            pass  # has ended
    return pids


def loaded_programs():
    out = subprocess.run(['/usr/sbin/bpftool', '-j', 'prog', 'show'], capture_output=True, text=True, check=True).stdout
    return {p['id'] for p in json.loads(out)}


@e2e.needs_kernel
class Life(unittest.TestCase):
    def test_port_in_use_is_said(self):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            s.listen()
            port = s.getsockname()[1]
            r = subprocess.run([e2e.program('sonde-exporter'), f'--web.listen-address=127.0.0.1:{port}'],
                               capture_output=True, text=True, timeout=120)
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn(f'127.0.0.1:{port}', r.stderr)
        self.assertRegex(r.stderr, 'in use')

    def test_wrong_flags(self):
        for flag, text in (('--profile.frequency=0', 'expected a number from 1'),
                           ('--profile.frequency=1001', 'above --profile.max-frequency=999'),
                           ('--profile.window=1500ms', 'whole seconds'),
                           ('--profile.window=10m', 'longer than --profile.retention'),
                           ('--external-label=node=x', 'use --node.name'),
                           ('--external-label=pid=1', 'samples have a label of this name'),
                           ('--log.level=loud', 'expected one of debug|info|warn|error'),
                           ('--profile.frequencies=1', 'did you mean --profile.frequency?')):
            r = subprocess.run([e2e.program('sonde-exporter'), flag], capture_output=True, text=True, timeout=60)
            self.assertEqual((flag, r.returncode), (flag, 2))
            self.assertIn(text, r.stderr)

    def test_help_and_docs_name_every_flag(self):
        r = subprocess.run([e2e.program('sonde-exporter'), '--help'], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0)
        flags = set(re.findall(r'(?m)^ +--(?:\[no-\])?([a-z.-]+)', r.stdout))
        self.assertIn('profile.frequency', flags)
        with open(f'{e2e.TOP}/docs/exporter.md') as f:
            documented = set(re.findall(r'`--(?:\[no-\])?([a-z.-]+)', f.read()))
        self.assertEqual(flags - documented - {'version', 'help'}, set())

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as dir:
            os.chmod(dir, 0o777)
            path = f'{dir}/sonde.sock'
            with e2e.exporter(f'--web.listen-address=unix:{path}'):
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(path)
                    s.sendall(b'GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
                    self.assertIn(b' 200 ', s.makefile('rb').readline())
            self.assertFalse(os.path.exists(path))

    def test_a_cache_that_cannot_be_used_is_said(self):
        """As a tmpfs over the cache's directory of a container image: its parent is another user's."""
        with tempfile.TemporaryDirectory() as dir:  # 0700
            with e2e.exporter(f'--symbols.cache-path={dir}/symbols') as x:
                self.assertRegex(x.output(), f'level=warn msg="no symbol cache" error="--symbols.cache-path={dir}/symbols: Permission denied: symbol files are kept in memory only"')
                self.assertEqual(x.metrics()['sonde_symbol_cache_events_total{event="write_failed"}'], 1)

    def test_sigterm_ends_waiting_requests(self):
        with e2e.exporter() as x, concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = [pool.submit(x.get, '/debug/pprof/profile?seconds=60') for _ in range(3)]
            e2e.wait_for('requests parked', lambda: x.metrics()['sonde_http_parked_requests'] >= 3)
            t = time.time()
            self.assertEqual(x.stop(), 0, x.output())
            self.assertLess(time.time() - t, 30)
            for w in waiting:
                r = w.result(60)
                self.assertEqual(r.status, 503)
                self.assertIn('shutting down', r.text)

    def test_a_client_that_leaves_costs_nothing(self):
        with e2e.exporter('--profile.max-overhead=0') as x:
            with socket.create_connection(('127.0.0.1', x.port)) as s:
                s.sendall(b'GET /debug/pprof/profile?seconds=60&hz=499 HTTP/1.1\r\nHost: localhost\r\n\r\n')
                e2e.wait_for('the rate is raised', lambda: x.metrics()['sonde_profile_frequency_hz{event="cpu"}'] == 499)
            e2e.wait_for('the rate is back', lambda: x.metrics()['sonde_profile_frequency_hz{event="cpu"}'] == 19)
            self.assertEqual(x.metrics()['sonde_profile_frequency_requests{event="cpu"}'], 0)

    def test_kill_9_leaves_nothing_behind(self):
        for victim in 'keeper', 'main', 'parser':
            with e2e.exporter() as x:
                programs = programs_of(x.p.pid)
                self.assertTrue(programs)
                os.kill(roles(x)[victim], signal.SIGKILL)
                # openers, of which there are none or several, included
                e2e.wait_for('all roles end', lambda: not [p for p in session_of(x.p.pid) if p != x.p.pid])
                x.p.wait(60)
            e2e.wait_for('its BPF programs to go', lambda: not programs & loaded_programs())

    def test_a_captured_bundle_replays(self):
        burn = e2e.compile_c(C_SOURCE, *FRAME_POINTERS, name='burnb')
        with tempfile.TemporaryDirectory() as dir:
            os.chmod(dir, 0o777)
            # The workload starts later: what /proc said of older processes is not in a bundle.
            with e2e.exporter(f'--debug.capture={dir}/bundle', '--symbols.cache-path=', '--symbols.max-cpu=1') as x, e2e.Workload(burn):
                e2e.wait_for('its names', lambda: re.search(r'main;middle_work;leaf_work \d+', x.get('/debug/pprof/profile?seconds=1&comm=burnb&format=folded').text))
                samples = x.metrics()['sonde_sample_log_samples_total']
                x.stop()
            r = subprocess.run([f'{e2e.build_dir()}/tests/unit/test_intake'], capture_output=True, text=True, timeout=300, cwd=e2e.TOP,
                               env=dict(os.environ, SONDE_BUNDLE=f'{dir}/bundle'))
            self.assertEqual(r.returncode, 0, r.stdout[-2000:] + r.stderr[-2000:])
            self.assertGreaterEqual(int(re.search(r'(?m)^samples (\d+)$', r.stdout).group(1)), samples)
            self.assertRegex(r.stdout, r'main;middle_work;leaf_work \d+')


if __name__ == '__main__':
    unittest.main()
