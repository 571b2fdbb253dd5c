"""sonde flamegraph, top, query and push: text of other tools, pictures, a scraper's store and back, errors."""
import gzip
import os
import shutil
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

from sonde_e2e import scraper, sonde
from test_cli_merge import address_of, encode

BESIDE_OTHERS = True
PERF = '''# captured on: Mon
prog 10/11 [003] 12.500000:  10101010 cpu-clock:pppH:
\t    5581 inner+0x12 (/bin/prog)
\t    5590 main+0x1 (/bin/prog)

prog 10/11 [003] 13.000000:  10101010 cpu-clock:pppH:
\t    7f00 [unknown] (/lib/libc.so.6)

'''
CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'


class WithFiles(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix='sonde-cli.')
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)

    def file(self, name, data):
        path = f'{self.top}/{name}'
        with open(path, 'wb') as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return path

    @staticmethod
    def text(path):
        with open(path) as f:
            return f.read()

    def run_sonde(self, *args, status=0, **kw):
        p = sonde(*args, **kw)
        self.assertEqual(p.returncode, status, p.stderr)
        return p


class Stacks(WithFiles):
    def test_flamegraph(self):
        folded = self.file('a.folded', 'main;work;<leaf> 30\nmain;rest 10\n')
        for args in ([], ['--inverted', '--title', 'a & b']):
            out = f'{self.top}/out.svg'
            self.run_sonde('flamegraph', *args, '-o', out, folded)
            root = xml.etree.ElementTree.parse(out).getroot()
            titles = [t.text for t in root.iter('{http://www.w3.org/2000/svg}title')]
            self.assertTrue(any('<leaf>' in t and '75' in t for t in titles), titles)
            ys = {}
            for g in root.iter():
                title, rect = g.find('{http://www.w3.org/2000/svg}title'), g.find('{http://www.w3.org/2000/svg}rect')
                if title is not None and rect is not None and rect.get('y'):
                    ys[title.text.split('\n')[0]] = float(rect.get('y'))
            self.assertEqual(ys['main'] < ys['work'], bool(args), ys)
        self.assertIn('a &amp; b', self.text(out))
        page = f'{self.top}/out.html'
        self.run_sonde('flamegraph', '-o', page, folded, folded)
        self.assertIn('<!DOCTYPE html>', self.text(page))
        self.assertIn('&lt;leaf&gt;', self.text(page))

    def test_perf_script(self):
        path = self.file('perf.txt', PERF)
        self.assertEqual(self.run_sonde('fold', '--root-label', 'comm', path).stdout, 'prog;main;inner 10101010\nprog;libc.so.6+0x7f00 10101010\n')
        for flag in ('--sample-index', '--sample-type'):
            self.assertEqual(self.run_sonde('fold', flag, 'samples', '-', input=PERF).stdout, 'main;inner 1\nlibc.so.6+0x7f00 1\n')

    def test_threads_and_addresses(self):
        path = self.file('x.pb', encode([(['leaf', 'main'], (1, 5), {'comm': 'db', 'thread_name': 'io'}), (['main'], (1, 7), {'comm': 'db'})]))
        self.assertEqual(self.run_sonde('fold', '--threads', path).stdout, 'db;main 7\ndb;io;main;leaf 5\n')
        self.assertEqual(self.run_sonde('fold', '--addr', path).stdout, f'main 0x{address_of("main"):x} 7\nmain 0x{address_of("main"):x};leaf 0x{address_of("leaf"):x} 5\n')

    def test_perf_record(self):
        if not shutil.which('perf'):
            self.skipTest('no perf')
        data = f'{self.top}/perf.data'
        p = subprocess.run(['perf', 'record', '-q', '-e', 'cpu-clock', '-g', '-o', data, '--', 'python3', '-c', 'sum(i * i for i in range(3000000))'],
                           capture_output=True, text=True)
        if p.returncode:
            self.skipTest(f'perf record: {p.stderr[-200:]}')
        text = subprocess.run(['perf', 'script', '-i', data], capture_output=True, text=True, check=True).stdout
        top = self.run_sonde('top', '--sample-index', 'samples', '--by', 'comm', '-n', '0', '-', input=text).stdout
        self.assertIn('python3', top)
        samples = text.count('cpu-clock')
        self.assertIn(f'Total: {samples}', top)

        def fold(*args):
            p = subprocess.run(['perf', 'script', '-i', data, *args], capture_output=True, text=True)
            if p.returncode or not p.stdout:
                return None
            lines = self.run_sonde('fold', '--sample-index', 'samples', '-', input=p.stdout).stdout.splitlines()
            return sorted(line for line in lines if '0x' not in line), sum(int(line.rsplit(' ', 1)[1]) for line in lines)
        # whatever fields -F chooses, the stacks are the same
        whole = fold('-F', 'comm,pid,tid,time,event,ip,sym')
        for fields in ('comm,tid,ip,sym', 'comm,pid,tid,ip,sym', 'comm,ip,sym', 'ip,sym', 'tid,ip,sym,symoff,dso', 'pid,tid,ip,sym', 'time,ip,sym', 'event,ip,sym,dso', 'period,ip,sym',
                       'comm,tid,period,event,ip,sym', 'comm,tid,misc,time,event,ip,sym,symoff,dso'):
            with self.subTest(fields):
                self.assertEqual(fold('-F', fields), whole)
        alone = fold('-G')  # no call chains: the leaves
        self.assertEqual(alone[1], samples)
        for fields in ('comm,tid,time,event,ip,sym', 'comm,tid,ip,sym', 'comm,ip,sym', 'ip,sym'):
            with self.subTest(fields):
                self.assertEqual(fold('-G', '-F', fields), alone)
        p = subprocess.run(['perf', 'script', '-i', data, '-F', 'comm,tid,time,event'], capture_output=True, text=True, check=True)
        self.assertIn('-F +ip,sym', self.run_sonde('fold', '-', input=p.stdout, status=1).stderr)

    def test_top(self):
        rows = [(['leaf', 'mid', 'main'], (1, 700), {'pod': 'a'}), (['mid', 'main'], (1, 200), {'pod': 'b'}), (['main'], (1, 100), {})]
        path = self.file('x.pb', encode(rows))
        out = self.run_sonde('top', path).stdout
        self.assertRegex(out, r'700ns 70\.00% 70\.00%\s+700ns 70\.00%\s+leaf')
        out = self.run_sonde('top', '--by', 'label:pod', path).stdout
        self.assertEqual([line.split()[-1] for line in out.splitlines()[2:]], ['a', 'b', '(none)'])
        out = self.run_sonde('top', '--by', 'file', '-n', '1', path).stdout
        self.assertRegex(out, r'1.00us 100\.00% +1.00us 100\.00%  app\.c')
        for args in ([], ['--server', 'http://x', path], ['--by', 'bogus', path], ['--exporter', 'http://x', '--seconds', '1500ms']):
            self.run_sonde('top', *args, status=2)

    def test_errors_name_file_and_line(self):
        bad = self.file('bad.txt', 'a;b 1\nbroken\nbroken too\n')
        self.assertIn(f'{bad}: line 2: expected folded stacks', self.run_sonde('flamegraph', bad, status=1).stderr)
        two = self.file('two.txt', 'a;b 1 2\n')
        self.assertIn('two numbers', self.run_sonde('flamegraph', two, status=1).stderr)
        head = 'prog 10/11 [003] 12.5:  1 cpu-clock:\n'
        for name, data, text in (('binary', bytes(range(256)) * 64, 'neither a whole pprof profile nor text'), ('cut.gz', gzip.compress(os.urandom(9999))[:999], 'gzip: truncated after 999 bytes'),
                                 ('cut.pb', encode([(['leaf'] * 99, (1, 2), {})])[:200], 'neither a whole pprof profile nor text'), ('long', 'x' * (17 << 20), 'line 1 has 17825792 bytes'),
                                 ('deep', 'f;' * (1 << 18) + 'g 1\n', 'line 1: a stack of more than 262144 frames'), ('tall.txt', head + '\t 1 f\n' * ((1 << 18) + 2), 'a stack of more than 262144 frames'),
                                 ('frame.txt', head + '\t zz f (/x)\n', 'line 2: expected a sample of perf script'), ('comments', '# nothing\n\n', 'neither a pprof profile nor stacks')):
            path = self.file(name, data)
            for command in ('fold', 'flamegraph', 'top'):
                error = self.run_sonde(command, path, status=1).stderr
                self.assertTrue(error.startswith(f'sonde: {path}: ') and text in error, error)
            self.assertIn(f'{path}: ', self.run_sonde('diff', path, path, status=2).stderr)
        self.assertIn('/no/such/file', self.run_sonde('top', '/no/such/file', status=1).stderr)
        self.run_sonde('flamegraph', status=2)


class Server(WithFiles):
    def test_push_and_query(self):
        now = int(time.time())
        rows = [(['leaf', 'main'], (1, 3 * 10**9), {'comm': 'a'}), (['main'], (1, 10**9), {'comm': 'b'})]
        path = self.file('x.pb', encode(rows, time_ns=(now - 60) * 10**9))
        with scraper('scrape_configs: []\n') as s:
            push = ('push', '--server', s.url, '--label', 'job=nightly', '--label', 'commit=4 f&1', path)
            self.assertEqual(self.run_sonde(*push).stdout, f'{path}: 1 profiles stored, 0 there already\n')
            self.assertEqual(self.run_sonde(*push).stdout, f'{path}: 0 profiles stored, 1 there already\n')
            selector = CPU + '{job="nightly", commit="4 f&1"}'
            query = ('query', '--server', s.url)
            self.assertRegex(self.run_sonde(*query, selector).stdout, r'3.00s 75\.00%.*leaf')
            self.assertEqual(self.run_sonde(*query, '--format', 'folded', selector).stdout, 'main 1000000000\nmain;leaf 3000000000\n')
            for name, start in (('o.svg', b'<svg'), ('o.html', b'<!DOCTYPE'), ('o.json', b'{"status"'), ('o.dot', b'digraph'), ('o.csv', b'function,'),
                                ('o.pb.gz', b'\x1f\x8b'), ('o.speedscope.json', b'{'), ('o.txt', b'')):
                out = f'{self.top}/{name}'
                self.run_sonde(*query, '-o', out, selector)
                with open(out, 'rb') as f:
                    self.assertTrue(f.read().startswith(start), name)
            self.assertEqual(self.run_sonde('fold', f'{self.top}/o.pb.gz').stdout, 'main 1000000000\nmain;leaf 3000000000\n')
            out = self.run_sonde(*query, '--step', '60s', '--group-by', 'comm', selector).stdout
            self.assertEqual(len(out.splitlines()) > 2, True, out)
            self.assertEqual(self.run_sonde(*query, '--focus', 'leaf', '--format', 'folded', '--start', 'now-2h', '--end', 'now', selector).stdout, 'main;leaf 3000000000\n')
            out = self.run_sonde('top', '--server', s.url, '--query', selector, '--by', 'label:comm').stdout
            self.assertIn('a', out.splitlines()[2])
            # a type that is not stored, beside labels that nothing has
            for args in (query, ('top', '--server', s.url, '--query')):
                p = self.run_sonde(*args, 'proces_cpu:cpu:nanoseconds:cpu:nanoseconds{}', status=1)
                self.assertEqual(p.stdout, '')
                self.assertIn(f'{s.url} has no proces_cpu:cpu:nanoseconds:cpu:nanoseconds; it has {CPU}', p.stderr)
                self.run_sonde(*args, CPU + '{job="none"}')
                self.run_sonde(*args, CPU + ':delta{}')
            self.assertIn('has no cpu; it has', self.run_sonde(*query, '--step', '15s', 'cpu', status=1).stderr)
            # what is wrong, and who says so
            p = self.run_sonde(*query, 'bogus{', status=1)
            self.assertIn(f'{s.url} answered with status 400', p.stderr)
            self.assertIn('--step gives csv or json', self.run_sonde(*query, '--step', '15s', '--format', 'svg', selector, status=2).stderr)
            self.run_sonde(*query, status=2)
            self.assertIn('has no time', self.run_sonde('push', '--server', s.url, self.file('t.folded', 'a 1\n'), status=1).stderr)
            old = self.file('old.pb', encode(rows, time_ns=10**9))
            self.assertIn('answered with status 422', self.run_sonde('push', '--server', s.url, old, status=1).stderr)
            self.assertFalse(os.path.exists(f'{self.top}/none.svg'))


if __name__ == '__main__':
    unittest.main()
