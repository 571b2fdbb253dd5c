"""The scraper's query API over a target whose profiles are known exactly."""
import json
import time
import unittest
import urllib.parse

from pprof_target import CPU_TOTAL, EVIL, PprofTarget
from sonde_e2e import Pprof, go_pprof, scraper, wait_for

CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'
CONFIG = '''
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: app
    static_configs:
      - targets: ['{address}']
        labels: {{team: 'a"b<c>'}}
    profiling_config:
      preset: go
      pprof_config:
        memory: {{enabled: false}}
        mutex: {{enabled: false}}
        block: {{enabled: false}}
'''


def url(path, **params):
    """Lists become repeated parameters."""
    return f'{path}?{urllib.parse.urlencode(params, doseq=True)}' if params else path


class ApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = PprofTarget()
        cls.scraper = scraper(CONFIG.format(address=cls.target.address), '--web.enable-lifecycle')
        wait_for('three scrapes', lambda: cls.target.served >= 3)
        # No more scrapes: what follows compares exact sums.
        cls.scraper.set_config('scrape_configs: []\n')
        assert cls.scraper.get('/-/reload', method='POST').status == 200
        wait_for('the last scrape', lambda: cls.settled())
        cls.n = cls.target.served
        cls.range = {'start': f'{time.time() - 600:.3f}', 'end': f'{time.time() + 5:.3f}'}

    @classmethod
    def settled(cls):
        served = cls.target.served
        time.sleep(1.2)
        return served == cls.target.served

    @classmethod
    def tearDownClass(cls):
        cls.scraper.__exit__(None, None, None)
        cls.target.__exit__()

    def ask(self, path, **params):
        return self.scraper.get(url(path, **{**self.range, **params}))

    def data(self, path, **params):
        r = self.ask(path, **params)
        self.assertEqual(r.status, 200, r.text)
        self.assertEqual(r.json['status'], 'success')
        self.assertIn('parts', r.json['stats'])
        return r.json['data']

    def folded(self, **params):
        r = self.ask('/api/v1/flamegraph', format='folded', **params)
        self.assertEqual(r.status, 200, r.text)
        return dict((k, int(v)) for k, _, v in (line.rpartition(' ') for line in r.text.splitlines()))

    def test_types(self):
        types = {t['id']: t['kind'] for t in self.data('/api/v1/profile_types')}
        self.assertEqual(types, {CPU: 'delta', 'process_cpu:samples:count:cpu:nanoseconds': 'delta',
                                 'goroutine:goroutine:count:goroutine:count': 'instant'})

    def test_sums_are_exact(self):
        n = self.n
        self.assertEqual(self.folded(query=f'{CPU}{{}}'),
                         {'main;work;leaf': 30000000 * n, 'main;idle': 10000000 * n, f'main;{EVIL}': 5000000 * n})
        self.assertEqual(self.data('/api/v1/flamegraph', query=f'{CPU}{{}}')['total'], CPU_TOTAL * n)
        rows = {r['function']: (r['self'], r['total']) for r in self.data('/api/v1/top', query=f'{CPU}{{}}')['rows']}
        self.assertEqual(rows['main'], (0, CPU_TOTAL * n))
        self.assertEqual(rows['leaf'], (30000000 * n, 30000000 * n))
        p = Pprof(self.ask('/api/v1/profile', query=f'{CPU}{{}}').body)
        self.assertEqual((p.total(), p.types, p.period), (CPU_TOTAL * n, [('cpu', 'nanoseconds')], 10000000))
        series = self.data('/api/v1/query_series', query=f'{CPU}{{}}', step=1)['result']
        self.assertEqual(len(series), 1)
        self.assertAlmostEqual(sum(float(v) for _, v in series[0]['values']), CPU_TOTAL * n, delta=1)

    def test_instant_types_are_means(self):
        total = self.data('/api/v1/flamegraph', query='goroutine:goroutine:count:goroutine:count{}')['total']
        self.assertEqual(total, 9)

    def test_row_labels(self):
        n = self.n
        self.assertEqual(self.folded(query=f'{CPU}{{thread_name="gc"}}'), {'main;idle': 10000000 * n})
        self.assertEqual(self.folded(query=f'{CPU}{{thread_name!~"g.*",job="app"}}'),
                         {'main;work;leaf': 30000000 * n, f'main;{EVIL}': 5000000 * n})
        self.assertEqual(self.folded(query=f'{CPU}{{job="other"}}'), {})
        groups = {line['metric']['thread_name']: sum(float(v) for _, v in line['values'])
                  for line in self.data('/api/v1/query_series', query=f'{CPU}{{}}', group_by='thread_name')['result']}
        self.assertAlmostEqual(groups['gc'], 10000000 * n, delta=1)
        self.assertAlmostEqual(groups['main'], 35000000 * n, delta=1)
        p = Pprof(self.ask('/api/v1/profile', query=f'{CPU}{{}}', group_by='thread_name').body)
        self.assertEqual(p.by_label('thread_name'), {'gc': 10000000 * n, 'main': 35000000 * n})

    def test_filters_and_subtree(self):
        n, q = self.n, f'{CPU}{{}}'
        self.assertEqual(self.folded(query=q, focus='leaf'), {'main;work;leaf': 30000000 * n})
        self.assertEqual(self.folded(query=q, ignore='leaf|img'), {'main;idle': 10000000 * n})
        self.assertEqual(self.folded(query=q, hide='^work$', focus='leaf'), {'main;leaf': 30000000 * n})
        self.assertEqual(self.folded(query=q, show_from='work'), {'work;leaf': 30000000 * n})
        self.assertEqual(self.folded(query=q, at=['main', 'work']), {'main;work;leaf': 30000000 * n})
        cut = self.data('/api/v1/flamegraph', query=q, max_nodes=2)
        self.assertEqual(cut['total'], CPU_TOTAL * n)
        self.assertEqual(sum(cut['self']), CPU_TOTAL * n)
        self.assertEqual(sum(cut['cut'].values()) + 2, 6)

    def test_up(self):
        lines = self.data('/api/v1/query_series', query='up{job="app"}', step=600)['result']
        self.assertEqual([v for _, v in lines[0]['values']], ['1'])
        self.assertEqual(lines[0]['metric']['__name__'], 'up')

    def test_labels(self):
        self.assertIn('thread_name', self.data('/api/v1/labels'))
        self.assertEqual(self.data('/api/v1/label/team/values'), ['a"b<c>'])
        self.assertIn('process_cpu_cpu_nanoseconds_total', self.data('/api/v1/label/__name__/values'))
        self.assertIn('process_cpu', self.data('/api/v1/label/__name__/values', query='{}'))
        names = {s['__name__'] for s in self.data('/api/v1/series', **{'match[]': '{job="app"}'})}
        self.assertIn('goroutine_goroutine_count', names)

    def test_speedscope(self):
        doc = self.ask('/api/v1/flamegraph', query=f'{CPU}{{}}', format='speedscope').json
        self.assertEqual(doc['$schema'], 'https://www.speedscope.app/file-format-schema.json')
        for frame in doc['shared']['frames']:
            self.assertIsInstance(frame['name'], str)
            self.assertLessEqual(set(frame), {'name', 'file', 'line', 'col'})
        p = doc['profiles'][0]
        self.assertEqual(set(p), {'type', 'name', 'unit', 'startValue', 'endValue', 'samples', 'weights'})
        self.assertEqual((p['type'], p['unit']), ('sampled', 'nanoseconds'))
        self.assertEqual(len(p['samples']), len(p['weights']))
        self.assertEqual(sum(p['weights']), p['endValue'])
        self.assertTrue(all(0 <= i < len(doc['shared']['frames']) for stack in p['samples'] for i in stack))

    def test_go_tool_pprof(self):
        base = self.scraper.url + url('/api/v1/profile', query=f'{CPU}{{}}', group_by='thread_name', **self.range)
        top = go_pprof('-top', base)
        self.assertEqual(top.returncode, 0, top.stderr)
        self.assertRegex(top.stdout, r'leaf\n')
        self.assertIn('gc', go_pprof('-tags', base).stdout)
        r = go_pprof('-top', '-seconds', '600', self.scraper.url + url('/api/v1/profile', query=f'{CPU}{{}}'))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn('idle', r.stdout)
        bad = go_pprof('-top', self.scraper.url + url('/api/v1/profile', query='{'))
        self.assertNotEqual(bad.returncode, 0)
        self.assertIn('selector, position 1: { is not closed', bad.stderr)

    def test_errors(self):
        for params, text in [({}, 'query: missing'), ({'query': 'a:b:c:d:e{'}, 'is not closed'),
                             ({'query': '{}'}, 'profile types, name one of'),
                             ({'query': f'{CPU}{{}}', 'focus': '('}, 'focus: position')]:
            r = self.ask('/api/v1/flamegraph', **params)
            self.assertEqual((r.status, r.json['errorType']), (400, 'bad_data'))
            self.assertIn(text, r.json['error'])
        r = self.ask('/api/v1/flamegraph', query='{', format='svg')
        self.assertEqual((r.status, r.headers['X-Go-Pprof']), (400, '1'))

    def test_status(self):
        self.assertEqual(self.scraper.get('/-/healthy').status, 200)
        self.assertIn('yaml', self.scraper.get('/api/v1/status/config').json['data'])
        self.assertEqual(self.scraper.get('/api/v1/status/flags').json['data']['web.enable-lifecycle'], 'true')
        self.assertEqual(self.scraper.get('/api/v1/targets').json['data']['activeTargets'], [])
        metrics = self.scraper.metrics()
        self.assertGreater(metrics['sonde_query_rows_total'], 0)

    def test_post_form(self):
        r = self.scraper.get('/api/v1/top', method='POST',
                             headers={'Content-Type': 'application/x-www-form-urlencoded'},
                             body=urllib.parse.urlencode({**self.range, 'query': f'{CPU}{{}}'}))
        self.assertEqual(json.loads(r.body)['data']['total'], CPU_TOTAL * self.n)


if __name__ == '__main__':
    unittest.main()
