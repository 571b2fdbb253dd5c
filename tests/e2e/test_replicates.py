"""/api/v1/diff with replicates: instances × stretches of time on both sides, q-values and verdicts in every form."""
import random
import time
import unittest
import urllib.parse

from filled import CPU, CPU_TYPES
from pprof_target import encode
from sonde_e2e import http_get, scraper

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
            samples.append(([f, 'main'], [n, n * PERIOD], {}))
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

    def test_refused(self):
        for text in ('instance', 'instance,', ',5m', 'a,b,c,d,e,f,g,h,i,5m', 'instance,1ms'):
            self.assertIn('replicate', self.ask(replicate=text, status=400).text)


if __name__ == '__main__':
    unittest.main()
