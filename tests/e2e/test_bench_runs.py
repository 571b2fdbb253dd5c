"""sonde bench beside other work: the order of runs and hooks, a page's charts, a failing command, an exporter that ends with it."""
import os
import signal
import subprocess
import unittest

import sonde_e2e as e2e
from test_bench import WithBench
from test_ui import drive, missing

BESIDE_OTHERS = True


@e2e.needs_kernel
class BenchRuns(WithBench):
    def test_charts_of_a_page(self):
        why = missing()
        if why:
            self.skipTest(why)
        script = f'for i in 1 2 3 4; do echo "block $i"; {self.prog} {{bin}}; done'
        self.bench('-n', '2', '--warmup', '0', '--interval', '100ms', '--progress', r'block (\d+)', '--exporter', self.daemon.url, '-o', 'bench.html', 'slow=400', 'fast=50', '--', '/bin/sh', '-c', script)
        got = drive({'page_charts': {'url': f'file://{self.dir.name}/bench.html'}}, self.dir.name)['page_charts']
        self.assertNotIn('error', got, got.get('error'))

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
        for args, text in ((('a=false', 'b=true'), 'run 0 (warm-up) of a: the command ended with exit status 1'), (('a=/nowhere/x', 'b=true', '--', '{bin}'), '/nowhere/x: No such file'),
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
