"""The scraper's query API over a target whose profiles are known exactly."""
import gzip
import json
import os
import tempfile
import time
import unittest
import urllib.parse

from pprof_target import CPU_SAMPLES, CPU_TOTAL, EVIL, PprofTarget, encode
from sonde_e2e import Pprof, go_pprof, scraper, wait_for, wait_quiet

BESIDE_OTHERS = True

CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'
CONFIG = '''
global:
  scrape_interval: 1s
  scrape_timeout: 60s
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
        wait_quiet('the target', lambda: cls.target.served)
        cls.n = cls.target.served
        cls.range = {'start': f'{time.time() - 600:.3f}', 'end': f'{time.time() + 5:.3f}'}

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

    def send(self, body, headers=None, method='POST', **params):
        return self.scraper.get(url('/api/v1/import', **params), method=method, body=body, headers=headers or {})

    @staticmethod
    def totals(profile, column):
        """Per function, self and total."""
        out = {}
        for stack, values, _ in profile.samples:
            for f in set(stack):
                own, total = out.get(f, (0, 0))
                out[f] = own + (values[column] if f == stack[0] else 0), total + values[column]
        return out

    def test_import(self):
        day_ago = time.time_ns() - 86400 * 10**9
        types = [('samples', 'count'), ('cpu', 'nanoseconds')]
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, 'in.pb.gz')
            with open(path, 'wb') as f:
                f.write(encode(types, types[1], CPU_SAMPLES, day_ago, 10**9, 10000000))
            out = os.path.join(d, 'out.pb.gz')
            r = go_pprof('-proto', '-output', out, path)
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(out, 'rb') as f:
                body = f.read()
        want = self.totals(Pprof(body), 1)
        labels = {'name': 'nightly', 'label.job': 'bench', 'label.commit': '4f1c'}
        r = self.send(body, **labels)
        self.assertEqual(r.status, 200, r.text)
        data = r.json['data']
        self.assertEqual((data['profiles'], data['rows'], data['duplicates']), (1, 3, 0))
        self.assertEqual(data['profile_types'][1], 'nightly:cpu:nanoseconds:cpu:nanoseconds')
        times = {'start': day_ago / 1e9 - 10, 'end': day_ago / 1e9 + 10}
        query = data['profile_types'][1] + '{job="bench",commit="4f1c"}'
        p = Pprof(self.scraper.get(url('/api/v1/profile', query=query, **times)).body)
        self.assertEqual(self.totals(p, 0), want)
        gc = Pprof(self.scraper.get(url('/api/v1/profile', query=query[:-1] + ',thread_name="gc"}', **times)).body)
        self.assertEqual(self.totals(gc, 0), {'idle': (10000000, 10000000), 'main': (0, 10000000)})
        # Once more, with one more layer of gzip and curl's content type: it is there already.
        again = self.send(gzip.compress(body), method='PUT', **labels,
                          headers={'Content-Encoding': 'gzip', 'Content-Type': 'application/x-www-form-urlencoded'})
        self.assertEqual((again.status, again.json['data']['profiles'], again.json['data']['duplicates']), (200, 0, 1))
        other = encode(types, types[1], CPU_SAMPLES[:1], day_ago, 10**9, 10000000)
        self.assertEqual((r := self.send(other, **labels)).status, 409, r.text)
        self.assertEqual(self.totals(Pprof(self.scraper.get(url('/api/v1/profile', query=query, **times)).body), 0), want)
        metrics = self.scraper.metrics()
        self.assertEqual(metrics['sonde_import_failures_total{reason="conflict"}'], 1)
        self.assertGreaterEqual(metrics['sonde_store_imported_rows_total'], 3)

    def test_import_series(self):
        now = time.time_ns() - 86400 * 10**9
        body = encode([('inuse_space', 'bytes')], ('space', 'bytes'),
                      [(['f'], [7], {'region': 'a'}), (['g'], [5], {'region': 'b'})], now, 0)
        r = self.send(body, name='heap', sample_labels='region')
        self.assertEqual((r.status, r.json['data']['profiles']), (200, 2))
        times = {'start': now / 1e9 - 10, 'end': now / 1e9 + 10}
        types = self.scraper.get(url('/api/v1/profile_types', **times)).json['data']
        self.assertIn(('heap:inuse_space:bytes:space:bytes', 'instant'), {(t['id'], t['kind']) for t in types})
        series = self.scraper.get(url('/api/v1/series', query='heap:inuse_space:bytes:space:bytes{}', **times)).json['data']
        self.assertEqual({s['region'] for s in series}, {'a', 'b'})

    def test_import_refused(self):
        now = time.time_ns()
        good = [(['f'], [1], {})]

        def pprof(time_ns):
            return encode([('cpu', 'nanoseconds')], ('cpu', 'nanoseconds'), good, time_ns, 1)

        for body, code, text, params in [
                (pprof(0), 400, 'time_nanos', {}), (b'<html>', 400, 'not a valid pprof profile', {}),
                (pprof(now)[:-20], 400, 'gzip', {}), (pprof(now), 400, 'label.1x', {'label.1x': 'y'}),
                (pprof(now - 20 * 86400 * 10**9), 422, '--storage.retention.time', {}),
                (pprof(now + 3600 * 10**9), 422, 'ahead of this machine', {})]:
            r = self.send(body, **params)
            self.assertEqual(r.status, code, r.text)
            self.assertIn(text, r.json['error'])
        r = self.send(pprof(now), headers={'Origin': 'http://elsewhere.example'})
        self.assertEqual(r.status, 403)
        self.assertEqual(self.scraper.get('/api/v1/import').status, 405)


if __name__ == '__main__':
    unittest.main()
