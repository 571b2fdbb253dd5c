"""sonde bench: equal work in half the time is −50 %, runs in turns, hooks, a failing command, an exporter that ends with it."""
import collections
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import sonde_e2e as e2e
from test_ui import drive, missing

PROGRAM = r'''
#include <stdlib.h>
__attribute__((noinline)) static unsigned long work(unsigned long n) { volatile unsigned long x = 1; for (unsigned long i = 0; i < n; i++) x = x * 31 + i; return x; }
int main(int argc, char **argv) { return argc < 2 || work(strtoul(argv[1], 0, 10) * 1000000) == 42; }
'''


@e2e.needs_kernel
class Bench(e2e.WithExporter):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dir = tempfile.TemporaryDirectory()
        cls.prog = e2e.compile_c(PROGRAM, '-O2', '-g')

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()
        super().tearDownClass()

    def bench(self, *args, status=0):
        p = subprocess.run([e2e.program('sonde'), 'bench', *args], cwd=self.dir.name, capture_output=True, text=True, errors='replace', timeout=240)
        self.assertEqual(p.returncode, status, p.stderr)
        return p

    def test_half_the_time(self):
        out = self.bench('-n', '2', '--warmup', '0', '--frequency', '499', '--prepare', 'echo $SONDE_BENCH_SIDE $SONDE_BENCH_RUN >>order', '-o', 'bench.json',
                         'slow=1200', 'fast=600', '--', self.prog, '{bin}')
        with open(f'{self.dir.name}/bench.json') as f:
            d = json.load(f)
        work = {r['function']: r for r in d['rows']}['work']
        self.assertAlmostEqual(work['self_effect'], -0.5, delta=0.15)
        self.assertEqual(work['self_verdict'], '-')
        self.assertAlmostEqual(d['b']['median'] / d['a']['median'], 0.5, delta=0.15)
        with open(f'{self.dir.name}/order') as f:
            self.assertEqual(f.read().split('\n')[:-1], ['slow 1', 'fast 1', 'fast 2', 'slow 2'], out.stderr)
        self.assertEqual(sorted(os.listdir(f'{self.dir.name}/runs')), [f'fast-{i}.pb.gz' for i in (1, 2)] + ['metrics.csv', 'metrics.om', 'series.csv'] + [f'slow-{i}.pb.gz' for i in (1, 2)])
        with open(f'{self.dir.name}/runs/metrics.csv') as f:
            header, *rows = [line.strip().split(',') for line in f]
        user = {tuple(r[:2]): float(r[header.index('user_cpu')]) for r in rows}
        self.assertAlmostEqual(user['fast', '2'] / user['slow', '2'], 0.5, delta=0.2)

    def test_charts_of_a_page(self):
        why = missing()
        if why:
            self.skipTest(why)
        script = f'for i in 1 2 3 4; do echo "block $i"; {self.prog} {{bin}}; done'
        self.bench('-n', '2', '--warmup', '0', '--interval', '100ms', '--progress', r'block (\d+)', '--exporter', self.daemon.url, '-o', 'bench.html', 'slow=400', 'fast=50', '--', '/bin/sh', '-c', script)
        got = drive({'page_charts': {'url': f'file://{self.dir.name}/bench.html'}}, self.dir.name)['page_charts']
        self.assertNotIn('error', got, got.get('error'))

    def test_over_time(self):
        """Points of every run add up to what the kernel counted of the whole; progress comes from the output, which passes through."""
        script = f'for i in 1 2 3 4; do echo "block $i of {{bin}}"; {self.prog} 100; done'
        out = self.bench('-n', '2', '--warmup', '0', '--interval', '200ms', '--progress', r'block (\d+)', '--exporter', self.daemon.url, '--directory', 'over', '--per', 'metric:progress',
                         '-o', 'over.json', 'a=x', 'b=y', '--', 'sh', '-c', script)
        self.assertIn('block 4 of y\n', out.stderr)
        with open(f'{self.dir.name}/over.json') as f:
            d = json.load(f)
        self.assertEqual(d['per'], 'metric:progress')
        over = d['over_time']
        names = [m['name'] for m in over['metrics']]
        with open(f'{self.dir.name}/over/metrics.csv') as f:
            whole = {r['side'] + r['run']: r for r in csv.DictReader(f)}
        for side in 'ab':
            self.assertEqual(len(over[side]), 2)
            for i, run in enumerate(over[side]):
                m = whole[f'{side}{i + 1}']
                self.assertEqual(float(m['progress']), 4)
                self.assertEqual(run['progress'][-1], 4)
                spans = [t - before for before, t in zip([0] + run['seconds'], run['seconds'])]
                self.assertGreater(min(spans), 0)

                def total(name):
                    return sum(v * span for v, span in zip(run['values'][names.index(name)], spans) if v is not None)
                self.assertAlmostEqual(total('cpu') / (float(m['user_cpu']) + float(m['system_cpu'])), 1, delta=0.15)
                self.assertAlmostEqual(total('minor_faults') / float(m['minor_faults']), 1, delta=0.15)
                self.assertGreater(max(v or 0 for v in run['values'][names.index('rss')]), 1 << 16)
        with open(f'{self.dir.name}/over/series.csv') as f:
            rows = list(csv.DictReader(f))
        self.assertEqual(len(rows), sum(len(run['seconds']) for side in 'ab' for run in over[side]))
        self.check_openmetrics(whole, rows)

    def check_openmetrics(self, whole, rows):
        """What Prometheus makes of metrics.om is what the other two files say."""
        promtool = shutil.which('promtool')
        if not promtool:
            return
        os.makedirs(f'{self.dir.name}/blocks/wal')  # without one it dumps nothing
        subprocess.run([promtool, 'tsdb', 'create-blocks-from', 'openmetrics', 'over/metrics.om', 'blocks'], cwd=self.dir.name, capture_output=True, check=True)
        out = subprocess.run([promtool, 'tsdb', 'dump', 'blocks'], cwd=self.dir.name, capture_output=True, text=True, check=True).stdout
        stored = collections.defaultdict(list)
        for line in out.splitlines():
            labels, value, ms = re.fullmatch(r'\{(.*)\} (\S+) (\d+)', line).groups()
            labels = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            self.assertLess(abs(int(ms) / 1000 - time.time()), 600)
            stored[labels['__name__'].removeprefix('sonde_bench_'), labels['side'] + labels['run']].append((int(ms), float(value)))
        for run, m in whole.items():
            for name, column in (('run_wall_time_seconds', 'wall_time'), ('run_max_rss_bytes', 'max_rss'), ('run_minor_faults', 'minor_faults'), ('run_progress', 'progress')):
                self.assertEqual([v for _, v in stored[name, run]], [float(m[column])])
            for name, column in (('cpu_cores', 'cpu'), ('context_switches_per_second', 'context_switches_per_second'), ('progress', 'progress')):
                values = {float(r[column]) for r in rows if r['side'] + r['run'] == run and r[column]}
                self.assertEqual({v for _, v in stored[name, run]}, values, name)

    def test_one_side_after_the_other(self):
        """One folder that --setup fills anew for the second side."""
        hook = 'echo $SONDE_BENCH_SIDE $SONDE_BENCH_RUN'
        self.bench('-n', '2', '--warmup', '1', '--no-interleave', '--exporter', self.daemon.url, '--directory', 'sides', '--setup', f'{hook} setup >>sides.order',
                   '--cleanup', f'{hook} cleanup >>sides.order', 'a=x', 'b=y', '--md', '--', 'sh', '-c', f'{hook} run {{bin}} >>sides.order; {self.prog} 100')
        with open(f'{self.dir.name}/sides.order') as f:
            self.assertEqual(f.read().splitlines(), ['a 0 setup', 'a 0 run x', 'a 1 run x', 'a 2 run x', 'b 0 setup', 'b 0 run y', 'b 1 run y', 'b 2 run y', 'a 0 cleanup', 'b 0 cleanup'])

    def test_killed(self):
        """With -9 too, neither the exporter nor what it holds stays."""
        p = subprocess.Popen([e2e.program('sonde'), 'bench', 'a=touch killed; exec sleep 5', 'b=true'], cwd=self.dir.name, stderr=subprocess.DEVNULL)
        e2e.wait_for('the first run', lambda: os.path.exists(f'{self.dir.name}/killed'))
        children = subprocess.run(['pgrep', '-P', str(p.pid)], capture_output=True, text=True).stdout.split()
        grandchildren = subprocess.run(['pgrep', '-P', ','.join(children)], capture_output=True, text=True).stdout.split()
        p.kill()
        p.wait()
        e2e.wait_for('the end of all', lambda: not [c for c in children + grandchildren if os.path.exists(f'/proc/{c}')])

    def test_failures(self):
        for args, text in ((('a=false', 'b=true'), 'run 0 of a: exit status 1'), (('a=/nowhere/x', 'b=true', '--', '{bin}'), '/nowhere/x: No such file'),
                           (('--prepare', 'exit 3', 'a=true', 'b=true'), '--prepare failed'), (('a=true',), 'expected two commands'),
                           (('a=true', 'a=true'), 'both sides are called a'), (('a=true', 'b=true', '--', 'ls'), 'no {bin}'), (('true', 'b=true'), 'NAME=COMMAND'), ((b'a\xff=true', 'b=true'), 'NAME is UTF-8'),
                           (('--fail-on', 'x', 'a=true', 'b=true'), '--fail-on'), (('--progress', '(', 'a=true', 'b=true'), '--progress "("')):
            self.assertIn(text, self.bench('--exporter', self.daemon.url, *args, status=2).stderr)

    def test_no_exporter(self):
        self.assertIn('http://127.0.0.1:1: ', self.bench('--exporter', 'http://127.0.0.1:1', 'a=true', 'b=true', status=2).stderr)

    def test_interrupt(self):
        """The command is told, and no exporter stays behind."""
        p = subprocess.Popen([e2e.program('sonde'), 'bench', 'a=touch started; exec sleep 600', 'b=true'], cwd=self.dir.name, stderr=subprocess.PIPE, text=True)
        e2e.wait_for('the first run', lambda: os.path.exists(f'{self.dir.name}/started'))
        children = subprocess.run(['pgrep', '-P', str(p.pid)], capture_output=True, text=True).stdout.split()
        self.assertEqual(len(children), 2)
        p.send_signal(signal.SIGTERM)
        self.assertIn('ended by signal 15', p.communicate(timeout=60)[1])
        self.assertEqual(p.returncode, 2)
        self.assertEqual([c for c in children if os.path.exists(f'/proc/{c}')], [])

    def test_interrupt_of_a_hook(self):
        """It is told, nothing is run, and what cleans up does so."""
        p = subprocess.Popen([e2e.program('sonde'), 'bench', '--exporter', self.daemon.url, '--setup', 'echo $$ >hook.new; mv hook.new hook; exec sleep 600', '--cleanup', 'echo $SONDE_BENCH_SIDE >>cleaned',
                              'a=touch hook.ran', 'b=true'], cwd=self.dir.name, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        e2e.wait_for('the hook', lambda: os.path.exists(f'{self.dir.name}/hook'))
        with open(f'{self.dir.name}/hook') as f:
            hook = f.read().strip()
        p.send_signal(signal.SIGINT)
        self.assertIn('ended by signal 2 in --setup', p.communicate(timeout=60)[1])
        self.assertEqual(p.returncode, 2)
        self.assertFalse(os.path.exists(f'/proc/{hook}'))
        self.assertFalse(os.path.exists(f'{self.dir.name}/hook.ran'))
        with open(f'{self.dir.name}/cleaned') as f:
            self.assertEqual(f.read().split(), ['a', 'b'])


if __name__ == '__main__':
    unittest.main()
