"""sonde bench measures: equal work in half the time is −50 %, and points of a run over time add up to the whole."""
import collections
import csv
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import sonde_e2e as e2e

PROGRAM = r'''
#include <stdlib.h>
__attribute__((noinline)) static unsigned long work(unsigned long n) { volatile unsigned long x = 1; for (unsigned long i = 0; i < n; i++) x = x * 31 + i; return x; }
int main(int argc, char **argv) { return argc < 2 || work(strtoul(argv[1], 0, 10) * 1000000) == 42; }
'''


def stolen_seconds():
    """What the host kept of this machine's CPUs: the kernel's task clock goes on in it, its accounts of processes do not."""
    with open('/proc/stat') as f:
        return int(f.readline().split()[8]) / os.sysconf('SC_CLK_TCK')


class WithBench(e2e.WithExporter):
    """Tests that share an exporter, a folder and a program that works for so many millions of rounds."""

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


@e2e.needs_kernel
class Bench(WithBench):
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

    def test_over_time(self):
        """Points of every run add up to what the kernel counted of the whole; progress comes from the output, which passes through."""
        stolen = stolen_seconds()
        script = f'for i in 1 2 3 4; do echo "block $i of {{bin}}"; {self.prog} 100; done'
        out = self.bench('-n', '2', '--warmup', '0', '--interval', '200ms', '--progress', r'block (\d+)', '--exporter', self.daemon.url, '--directory', 'over', '--per', 'metric:progress',
                         '-o', 'over.json', 'a=x', 'b=y', '--', 'sh', '-c', script)
        stolen = stolen_seconds() - stolen
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
                used = float(m['user_cpu']) + float(m['system_cpu'])
                said = f'run {side}{i + 1}, {stolen} s were stolen: {m} {run}'
                self.assertGreater(total('cpu'), 0.85 * used, said)
                self.assertLess(total('cpu'), 1.15 * used + stolen, said)
                self.assertAlmostEqual(total('minor_faults') / float(m['minor_faults']), 1, delta=0.15, msg=said)
                self.assertGreater(max(v or 0 for v in run['values'][names.index('rss')]), 1 << 16, said)
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


if __name__ == '__main__':
    unittest.main()
