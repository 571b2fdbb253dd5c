"""/api/v1/diff and sonde diff --server with replicates: instances × stretches of time on both sides, q-values and verdicts in every form."""
import gzip
import json
import random
import subprocess
import time
import unittest
import urllib.parse

from filled import CPU, CPU_TYPES
from pprof_target import encode
from sonde_e2e import Pprof, http_get, program, scraper, sonde

BESIDE_OTHERS = True

FUNCTIONS = [f'work_{i}' for i in range(30)]
PERIOD = 10000000
INSTANCES = ['a:1', 'b:1', 'c:1']


class Replicates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scraper = scraper('scrape_configs: []\n')
        cls.middle = int(time.time()) // 300 * 300 - 1200
        rnd = random.Random(5)
        try:
            for block in range(-2, 2):
                for instance in INSTANCES:
                    cls.load(cls.middle + block * 300 + 150, instance, rnd, {'work_2': 0.5, 'work_4': 4} if block >= 0 else {})
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.scraper.__exit__(None, None, None)

    @classmethod
    def load(cls, at, instance, rnd, factor):
        samples = []
        for i, f in enumerate(FUNCTIONS):
            n = round(1000 / (i + 1) ** 0.5 * factor.get(f, 1) * rnd.gauss(1, 0.03))
            samples.append(([f, 'main'], [n, n * PERIOD], {'thread_name': 'even' if i % 2 else 'odd'}))
        body = encode(CPU_TYPES, CPU_TYPES[1], samples, (at - 10) * 10**9, 10 * 10**9, PERIOD)
        q = urllib.parse.urlencode({'name': 'process_cpu', 'label.job': 'app', 'label.instance': instance})
        r = http_get(f'{cls.scraper.url}/api/v1/import?{q}', method='POST', body=body)
        assert r.status == 200, r.text

    def ask(self, status=200, **params):
        q = {'query': CPU + '{}', 'start_a': self.middle - 600, 'end_a': self.middle - 1, 'start_b': self.middle, 'end_b': self.middle + 599,
             'replicate': 'instance,5m', **params}
        r = self.scraper.get('/api/v1/diff?' + urllib.parse.urlencode({k: v for k, v in q.items() if v is not None}))
        self.assertEqual(r.status, status, r.text)
        return r

    def test_json(self):
        d = self.ask().json['data']
        self.assertEqual([(d[s]['n_replicates'], d[s]['n_replicates_dropped'], d[s]['replicate_seconds']) for s in 'ab'], [(6, 0, 300)] * 2)
        self.assertEqual((d['statistics']['n_a'], d['statistics']['n_b'], d['statistics']['method']), (6, 6, 'ql'))
        rows = {r['function']: r for r in d['rows']}
        called = {f: r['self_verdict'] for f, r in rows.items() if r['self_verdict'] not in ('~', 'few')}
        self.assertEqual(called, {'work_2': '-', 'work_4': '+'})
        self.assertAlmostEqual(rows['work_2']['self_effect'], -0.5, delta=0.05)
        self.assertLess(rows['work_2']['self_q'], 0.001)
        self.assertGreater(rows['work_9']['self_q'], 0.05)
        names = [d['functions']['name'][f] for f in d['function']]
        nodes = {n: d['verdicts'][v] for n, v in zip(names, d['verdict'])}
        self.assertEqual((nodes['work_2'], nodes['work_4'], nodes['work_9']), ('-', '+', '~'))
        self.assertEqual(len(d['q']), len(names))

    def test_protobuf_and_csv(self):
        self.assertIn(b'moved', self.ask(format='protobuf').body)
        lines = self.ask(format='csv').text.splitlines()
        columns = lines[0].split(',')
        rows = {line.split(',')[0]: dict(zip(columns, line.split(','))) for line in lines[1:]}
        self.assertEqual((rows['work_4']['self_verdict'], rows['work_7']['self_verdict']), ('+', '~'))

    def test_relative(self):
        rows = {r['function']: r for r in self.ask(mode='relative').json['data']['rows']}
        self.assertEqual({f for f, r in rows.items() if r['self_verdict'] not in ('~', 'few')}, {'work_2', 'work_4'})

    def test_too_few(self):
        """One stretch of two instances are two replicates: no q."""
        d = self.ask(query=CPU + '{instance!="a:1"}', start_a=self.middle - 300, end_b=self.middle + 299).json['data']
        self.assertEqual((d['a']['n_replicates'], d['statistics']['method']), (2, 'none'))
        self.assertEqual({r['self_verdict'] for r in d['rows']} - {'few'}, {'untested'})
        self.assertEqual({r['self_q'] for r in d['rows']}, {None})

    def test_without(self):
        d = self.ask(replicate=None).json['data']
        self.assertNotIn('statistics', d)
        self.assertNotIn('self_q', d['rows'][0])

    def diff(self, *args, status=0):
        p = sonde('diff', '--server', self.scraper.url, *args)
        self.assertEqual(p.returncode, status, p.stderr)
        return p.stdout if status == 0 else p.stderr

    def sides(self, b='{}', selector=CPU + '{}'):
        return selector, f'@{self.middle - 1}', '599s', '--', b, f'@{self.middle + 599}', '599s'

    def test_tool(self):
        """The tool asks for the stretches itself: the same runs and findings, in all of its own forms."""
        d = json.loads(self.diff(*self.sides(), '--format', 'json'))
        self.assertEqual((d['per'], d['statistics']['n_a'], d['statistics']['n_b'], d['statistics']['method']), ('second', 6, 6, 'ql'))
        rows = {r['function']: r for r in d['rows']}
        self.assertEqual({f: r['self_verdict'] for f, r in rows.items() if r['self_verdict'] not in ('~', 'few')}, {'work_2': '-', 'work_4': '+'})
        # per second of what was watched: each replicate is one profile of 10 s
        self.assertEqual({r['seconds'] for r in d['a']['runs'] + d['b']['runs']}, {10})
        server = {r['function']: r for r in self.ask(limit=100).json['data']['rows']}
        for f, r in rows.items():
            self.assertAlmostEqual(r['self_effect'] or 0, server[f]['self_effect'] or 0, places=6)
        with self.subTest('selectors and labels'):
            d = json.loads(self.diff(*self.sides('{instance="a:1"}', CPU + '{instance=~"[bc].*"}'), '--format', 'json', '--per', 'run', '--replicate', 'job,instance,1m'))
            self.assertEqual((len(d['a']['runs']), len(d['b']['runs'])), (4, 2))
        with self.subTest('conditions'):
            self.assertIn('self>20%', self.diff(*self.sides(), '--fail-on', 'self>20%', status=1))
        with self.subTest('pprof'):
            p = subprocess.run([program('sonde'), 'diff', '--server', self.scraper.url, *self.sides(), '--format', 'pprof'], capture_output=True, check=True)
            functions = Pprof(gzip.decompress(p.stdout)).functions()
            self.assertGreater(functions['work_4'], 0)
            self.assertLess(functions['work_2'], 0)

    def test_tool_divides_by_what_was_watched(self):
        """Six minutes between two profiles of ten seconds are not watched, whichever labels make a run or stand above the stacks."""
        for args, n, seconds in ((('instance,10m',), 3, 20), (('instance,10m', '--by', 'thread'), 3, 20), (('10m',), 1, 60), (('10m', '--by', 'thread'), 1, 60)):
            with self.subTest(args):
                d = json.loads(self.diff(*self.sides(), '--format', 'json', '--replicate', *args))
                self.assertEqual([[r['seconds'] for r in d[side]['runs']] for side in 'ab'], [[seconds] * n] * 2)
        # imports do not say how many CPUs there are
        self.assertIn('how many CPUs', self.diff(*self.sides(), '--per', 'cpu-second', status=2))

    def test_tool_refused(self):
        for args, text in (((CPU + '{}',), 'which selection is before'), ((CPU + '{}', 'now', '--', '{}'), '"now": expected SELECTOR'),
                           ((CPU + '{}', '@x', '--', '{}'), 'cannot parse "x"'), ((CPU + '{}', '@now', 'x', '--', '{}'), '"x": expected how long'),
                           ((CPU + '{job="none"}', '--', '{}'), 'has nothing of it'), (('--replicate', 'x', CPU + '{}', '{}'), '--replicate=x'),
                           (('--per', 'metric:x', CPU + '{}', '{}'), '--per=metric:x: only of files'), ((CPU + '{', '{}'), 'answered with status 400')):
            self.assertIn(text, self.diff(*args, status=2))

    def test_coverage_in_pprof(self):
        """A grouped profile says how long the targets of each group were watched."""
        q = {'query': CPU + '{}', 'start': self.middle, 'end': self.middle + 599, 'group_by': 'instance'}
        p = Pprof(self.scraper.get('/api/v1/profile?' + urllib.parse.urlencode(q)).body)
        self.assertEqual(sorted(c for c in p.comments if c.startswith('covered')), [f'covered {{"instance":"{i}"}} 20.000 s' for i in INSTANCES])
        p = Pprof(self.scraper.get('/api/v1/profile?' + urllib.parse.urlencode({**q, 'group_by': ''})).body)
        self.assertEqual([c for c in p.comments if c.startswith('covered')], ['covered {} 60.000 s'])
        # threads are rows' labels: none is watched by itself
        p = Pprof(self.scraper.get('/api/v1/profile?' + urllib.parse.urlencode({**q, 'group_by': ['thread', 'instance']}, doseq=True)).body)
        self.assertEqual(sorted(c for c in p.comments if c.startswith('covered')), [f'covered {{"instance":"{i}"}} 20.000 s' for i in INSTANCES])

    def test_refused(self):
        for text in ('instance', 'instance,', ',5m', 'a,b,c,d,e,f,g,h,i,5m', 'instance,1ms'):
            self.assertIn('replicate', self.ask(replicate=text, status=400).text)


if __name__ == '__main__':
    unittest.main()
