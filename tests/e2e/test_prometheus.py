"""Prometheus' query API over profiles: PromQL compared with the real parser, promtool as the client, answers that are known."""
import json
import math
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse

from filled import CPU, HEAP_BYTES, N, SERVICES, Filled, total
from sonde_e2e import http_get

BESIDE_OTHERS = True

CPU_TOTAL = 'process_cpu_cpu_nanoseconds_total'
HEAP = 'memory_inuse_space_bytes'
ALL = total('alpha') + total('beta')
needs_promtool = unittest.skipUnless(shutil.which('promtool'), 'promtool is not installed')

# Valid and invalid expressions, for both parsers.
EXPRESSIONS = [
    '1', '1 + 1', '-1', '+1', '1 +', '(1', '1)', '((1))', '1 2', '0x1F', '017', '08', '1e3', '1e', '.5', '5.', '.', '1..2', 'Inf', 'nan', '-Inf',
    '1_0', '5m', '"x"', '1 + "x"', "'a", '`a`', 'foo', 'foo{}', '{}', '{a="b"}', '{a=""}', '{a!="b"}', '{a=~".*"}', '{a=~".+"}', 'foo{a="b",}',
    'foo{a="b" c="d"}', 'foo{,}', 'foo{a}', 'foo{a=}', 'foo{a=b}', 'foo{a=="b"}', 'foo{a="b"', 'foo{a="b}', 'foo{a=~"("}', 'foo{1a="b"}',
    'foo{__name__="x"}', '{__name__="x"}', 'foo{a="\\n"}', 'foo{a="\\q"}', 'a:b:c', 'a:b:c{d="e"}', 'foo.bar', 'foo-bar', 'foo bar', 'sum',
    'sum{a="b"}', 'by', 'offset', 'rate', 'foo{by="x"}', 'foo{sum="x",offset="y"}', 'foo[5m]', 'foo[5]', 'foo[]', 'foo[5m', 'foo[0s]', 'foo[1h30m]',
    'foo[30m1h]', 'foo[5m][5m]', '(foo)[5m]', '1[5m]', 'foo[5m:1m]', 'foo[5m:]', 'foo[ 5m ]', 'foo offset 5m', 'foo offset', 'foo offset 5',
    'foo offset -5m', 'foo[5m] offset 1d', 'foo offset 5m offset 5m', 'foo offset 5m[5m]', '1 offset 5m', '(foo) offset 5m', 'sum(foo) offset 5m',
    'foo @ 5', 'foo @ start()', 'rate(foo[5m])', 'rate(foo)', 'rate()', 'rate(foo[5m],1)', 'rate(foo[5m],)', 'rate(1)', 'rate(foo[5m]', 'rate foo',
    'Rate(foo[5m])', 'increase(foo{a="b"}[1h] offset 5m)', 'irate(foo[5m])', 'nofunc(foo)', 'abs(foo)', 'abs(1)', 'time()', 'vector(1)',
    'sum(rate(foo[5m]))', 'rate(sum(foo)[5m:])', 'sum(foo)', 'SUM(foo)', 'Sum by (a) (foo)', 'sum by (a) (foo)', 'sum(foo) by (a)',
    'sum by (a,b,) (foo)', 'sum by () (foo)', 'sum by (,) (foo)', 'sum by (a b) (foo)', 'sum by a (foo)', 'sum without (a) (foo)', 'sum by (a)',
    'sum by (a) foo', 'sum by (a) (foo) by (b)', 'sum by (1) (foo)', 'sum by ("a") (foo)', 'sum by (by,sum,offset) (foo)', 'sum()', 'sum(foo,bar)',
    'sum(1)', 'sum(foo[5m])', 'sum(foo,)', 'topk(3, foo)', 'topk(foo, 3)', 'topk(foo)', 'topk(foo, foo)', 'topk(3, 3)', 'topk by (a) (1+1, foo)',
    'topk(3, foo,)', 'count(foo)', 'count by (a:b) (foo)', 'avg(avg(foo))', 'min(foo) + max(foo)', 'group(foo)', 'quantile(0.5, foo)',
    'bottomk(1, foo)', 'count_values("x", foo)', 'stddev(foo)', 'foo + bar', 'foo + 1', '1 - foo', 'foo * bar / 2 % 3 ^ 4', 'foo +* bar', 'foo + ',
    '* foo', 'foo > 1', 'foo > bool 1', 'foo == bar', 'foo and bar', 'foo or bar unless baz', 'foo and 1', 'foo + on(a) bar',
    'foo * ignoring(a) group_left bar', 'foo + bool bar', 'foo[5m] + 1', '1 + foo[5m]', '-foo[5m]', '-foo', '--foo', 'foo ^ -1', '2 ^ 3 ^ 2',
    'foo atan2 bar', '1 > 2', '1 > bool 2', 'foo = bar', 'foo =~ bar', 'foo ! bar', 'foo & bar', 'foo; bar', '# only', 'foo # comment',
    'sum(\n  rate(foo[5m])\n) / 1e9', 'foo{a="b"}{c="d"}', 'foo{a="b"} {c="d"}', '   ', 'é', 'foo{a="é"}', 'foo{é="a"}', '"foo', '}', 'foo}', 'foo]',
    'foo)', ')', 'foo{a="b"}[5m]', 'foo{a!~"x"}', 'foo{a!~""}', 'foo{a=~""}', 'foo{a!=""}', 'foo{a~"x"}', 'foo{a<"x"}', 'NaN + 1', 'inf', 'infinity',
    'Inf5', 'sum(Inf)', 'nan{a="b"}', 'start', 'end', 'bool', 'on(a)', 'group_left', 'foo offset 1y2w3d4h5m6s7ms', 'foo offset 1ms', 'foo[1m1m]',
    '1 % 0', '1/0', 'foo{a="b",a="c"}',
]
# Where both refuse but at another place: Prometheus counts a lone ")" one further and an escape by its string.
OTHER_POSITIONS = {'1)', 'foo)', ')', 'foo{a=~"("}', 'foo{a="\\q"}'}


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Filled()

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__(None, None, None)

    def get(self, path, **params):
        return self.s.get(f'/api/v1/{path}?{urllib.parse.urlencode(params, doseq=True)}')

    def data(self, path, **params):
        r = self.get(path, **params)
        self.assertEqual((r.status, r.json['status']), (200, 'success'), r.text)
        return r.json['data']

    def vector(self, query, time=None):
        """{labels: value} of an instant query at the end of the data; labels as sorted 'a=b' texts, joined."""
        data = self.data('query', query=query, time=time or self.s.end)
        self.assertEqual(data['resultType'], 'vector')
        return {','.join(f'{k}={v}' for k, v in sorted(s['metric'].items())): float(s['value'][1]) for s in data['result']}

    def refused(self, text, path='query', status=400, kind='bad_data', **params):
        r = self.get(path, **params)
        self.assertEqual((r.status, r.json['status'], r.json['errorType']), (status, 'error', kind), r.text)
        self.assertIn(text, r.json['error'])


class QueryTest(Base):
    def test_numbers(self):
        # Grafana's Save & test asks for 1+1.
        for query, want in [('1+1', '2'), ('-2^2', '-4'), ('2^3^2', '512'), ('7 % 4 - -1', '4'), ('1/0', '+Inf'), ('-1/0', '-Inf'),
                            ('0/0', 'NaN'), ('1e21', '1e+21'), ('123456789012345678', '123456789012345680'), ('1e20', '100000000000000000000'),
                            ('0.1+0.2', '0.30000000000000004'), ('1e-6', '0.000001'), ('1.5e-7', '1.5e-07'), ('-0.001', '-0.001'),
                            ('100', '100'), ('0x1F', '31'), ('-0', '-0'), ('1e-300', '1e-300'), ('5e-324', '5e-324'), ('1/3', '0.3333333333333333')]:
            for method in ('GET', 'POST'):
                form = urllib.parse.urlencode({'query': query, 'time': '1435781451.781'})
                r = http_get(f'{self.s.url}/api/v1/query' + ('?' + form if method == 'GET' else ''), method=method,
                             body=form if method == 'POST' else None, headers={'Content-Type': 'application/x-www-form-urlencoded'})
                self.assertEqual(r.json['data'], {'resultType': 'scalar', 'result': [1435781451.781, want]}, query)
        self.assertIn('[1435781451.100,"1"]', self.get('query', query='1', time='1435781451.1').text)
        self.assertIn('[1435781451,"1"]', self.get('query', query='1', time='2015-07-01T20:10:51Z').text)

    def test_counters(self):
        one = {f'job=app,service_name={s}': total(s) for s in SERVICES}
        self.assertEqual(self.vector(f'increase({CPU_TOTAL}[1m])'), one)
        self.assertEqual(self.vector(f'increase({CPU_TOTAL}[5m])'), {k: 5 * v for k, v in one.items()})
        self.assertEqual(self.vector(f'increase({CPU_TOTAL}[5m] offset 2m)'), {k: 5 * v for k, v in one.items()})
        self.assertEqual(self.vector(f'increase({CPU_TOTAL}[1h])'), {k: N * v for k, v in one.items()})
        self.assertEqual(self.vector(f'rate({CPU_TOTAL}[1m])'), {k: v / 60 for k, v in one.items()})
        self.assertEqual(self.vector(f'increase({CPU_TOTAL}[5s])'), {k: v / 2 for k, v in one.items()})  # half of a window of ten seconds
        self.assertEqual(self.vector(CPU_TOTAL), {f'__name__={CPU_TOTAL},{k}': 5 * v for k, v in one.items()})
        data = self.data('query_range', query=CPU_TOTAL, start=self.s.begin, end=self.s.end, step=60)
        self.assertEqual(data['resultType'], 'matrix')
        self.assertEqual(data['result'][0]['metric'], {'__name__': CPU_TOTAL, 'job': 'app', 'service_name': 'alpha'})
        self.assertEqual(data['result'][0]['values'], [[self.s.begin + i * 60, str((i + 1) * total('alpha'))] for i in range(N)])

    def test_inside_a_window(self):
        """At a time when the first profile had not ended, whose first six seconds lie before it: an instant query has what a range query has."""
        at = self.s.begin - 4
        for query, part in ((f'increase({CPU_TOTAL}[2s])', 2), (f'increase({CPU_TOTAL}[1m])', 6), (CPU_TOTAL, 6),
                            (f'increase({CPU_TOTAL}{{service_name=~".+"}}[4s] offset 1s)', 4)):
            name = f'__name__={CPU_TOTAL},' if query == CPU_TOTAL else ''
            want = {f'{name}job=app,service_name={s}': total(s) * part / 10 for s in SERVICES}
            self.assertEqual(self.vector(query, at), want, query)
            first = {','.join(f'{k}={v}' for k, v in sorted(s['metric'].items())): (s['values'][0][0], float(s['values'][0][1]))
                     for s in self.data('query_range', query=query, start=at, end=at + 60, step=30)['result']}
            self.assertEqual(first, {k: (at, v) for k, v in want.items()}, query)
        self.assertEqual(self.vector(f'increase({CPU_TOTAL}[1m])', self.s.begin - 10), {})

    def test_range_windows(self):
        data = self.data('query_range', query=f'sum(increase({CPU_TOTAL}[5m]))', start=self.s.begin, end=self.s.end + 600, step='30s')
        for t, v in data['result'][0]['values']:
            inside = [i for i in range(N) if t - 300 < self.s.begin + i * 60 <= t]
            # A window's edge may cut a profile's ten seconds; here all edges lie on whole half minutes.
            self.assertEqual(float(v), len(inside) * ALL, t - self.s.begin)

    def test_gauges(self):
        name = f'__name__={HEAP},job=app,service_name=alpha'
        self.assertEqual(self.vector(HEAP), {name: sum(HEAP_BYTES)})
        self.assertEqual(self.vector(HEAP, self.s.end + 200), {name: sum(HEAP_BYTES)})  # within the lookback
        self.assertEqual(self.vector(HEAP, self.s.end + 400), {})
        data = self.data('query_range', query=HEAP, start=self.s.begin, end=self.s.end, step=15)
        self.assertEqual({v for _, v in data['result'][0]['values']}, {str(sum(HEAP_BYTES))})
        self.assertEqual(len(data['result'][0]['values']), (N - 1) * 4 + 1)
        self.refused('is a gauge', query=f'rate({HEAP}[5m])', time=self.s.end)

    def test_aggregations(self):
        inc = f'increase({CPU_TOTAL}[1m])'
        a, b = total('alpha'), total('beta')
        for query, want in [(f'sum({inc})', {'': a + b}), (f'avg by (job) ({inc})', {'job=app': (a + b) / 2}),
                            (f'min({inc})', {'': a}), (f'max({inc}) by (job)', {'job=app': b}), (f'count({inc})', {'': 2}),
                            (f'sum without (service_name) ({inc})', {'job=app': a + b}),
                            (f'topk(1, {inc})', {'job=app,service_name=beta': b}), (f'topk(5, {inc})', {'job=app,service_name=beta': b, 'job=app,service_name=alpha': a}),
                            (f'topk(0, {inc})', {}), (f'sum({inc}) / 1e6', {'': (a + b) / 1e6}), (f'{inc} - {inc}', {'job=app,service_name=alpha': 0, 'job=app,service_name=beta': 0}),
                            (f'{inc} * 2 + 1', {'job=app,service_name=alpha': 2 * a + 1, 'job=app,service_name=beta': 2 * b + 1}),
                            (f'sum by (service_name) ({inc}) / {CPU_TOTAL}', {}),
                            (f'-sum({inc})', {'': -a - b}), (f'2 ^ count({inc})', {'': 4}), (f'sum by (nothing) ({inc})', {'': a + b}),
                            # Labels of rows can be summed by, and selected.
                            (f'sum by (thread_name) ({inc})', {'thread_name=gc': 30000000, 'thread_name=main': ALL - 30000000}),
                            (f'sum(increase({CPU_TOTAL}{{thread_name="gc"}}[1m]))', {'': 30000000}),
                            ('count({job="app"})', {'': 5}), ('count by (__name__) ({job="app",__name__=~".+_total"})',
                             {f'__name__={CPU_TOTAL}': 2, '__name__=process_cpu_samples_count_total': 2})]:
            self.assertEqual(self.vector(query), want, query)
        order = [s['metric']['service_name'] for s in self.data('query', query=f'topk(5, {inc})', time=self.s.end)['result']]
        self.assertEqual(order, ['beta', 'alpha'])
        self.refused('same labelset', status=422, kind='execution', query='increase({job="app",__name__=~".+_total"}[1m])', time=self.s.end)

    def test_errors(self):
        for text, params in [('parse error', {'query': ''}), ('1:3: not supported: operator >', {'query': 'a > 1'}),
                             ('function abs()', {'query': 'abs(a)'}), ('subqueries', {'query': 'a[5m:1m]'}), ('range vector', {'query': 'a[5m]'}),
                             ('"time"', {'query': '1', 'time': 'soon'}), ('"timeout"', {'query': '1', 'timeout': 'x'}),
                             ('"limit"', {'query': '1', 'limit': '-1'}), ('not supported', {'query': '(' * 200}), ('not supported', {'query': '+'.join('1' * 2000)})]:
            self.refused(text, **params)
        good = {'query': '1', 'start': 0, 'end': 10, 'step': 1}
        for text, params in [('"start"', {'start': ''}), ('"end"', {'end': 'x'}), ('before start', {'start': 11}), ('"step"', {'step': ''}),
                             ('zero or negative', {'step': 0}), ('zero or negative', {'step': -1}), ('11,000 points', {'end': 11000})]:
            self.refused(text, path='query_range', **{**good, **params})
        self.assertEqual(len(self.data('query_range', **{**good, 'end': 10999})['result'][0]['values']), 11000)
        self.assertEqual(self.get('query', query='1', format='svg').status, 200)
        metrics = self.s.metrics()
        self.assertGreater(metrics['sonde_queries_total{endpoint="query"}'], 5)
        self.assertGreater(metrics['sonde_query_failures_total{reason="bad_data"}'], 5)

    def test_catalog(self):
        times = {'start': self.s.begin - 60, 'end': self.s.end}
        self.assertEqual(self.data('label/__name__/values', **times), [HEAP, CPU_TOTAL, 'process_cpu_samples_count_total'])
        self.assertIn('service_name', self.data('labels', **times))
        self.assertEqual(self.data('label/service_name/values', **{'match[]': HEAP}, **times), ['alpha'])
        self.assertEqual(len(self.data('series', **{'match[]': '{__name__!=""}'}, **times)), 5)
        meta = self.data('metadata')
        self.assertEqual((meta[CPU_TOTAL][0]['type'], meta[HEAP][0]['type'], meta[HEAP][0]['unit']), ('counter', 'gauge', 'bytes'))
        self.assertEqual(list(self.data('metadata', metric=HEAP)), [HEAP])
        self.assertEqual(len(self.data('metadata', limit=1)), 1)
        self.assertEqual(self.data('rules'), {'groups': []})
        self.assertEqual(self.data('alerts'), {'alerts': []})
        self.assertEqual(self.data('query_exemplars', query='1', start=0, end=1), [])
        self.assertNotIn('features', self.data('status/buildinfo'))
        r = http_get(f'{self.s.url}/api/v1/query_exemplars', method='POST', body='query=1', headers={'Content-Type': 'application/x-www-form-urlencoded'})
        self.assertEqual(r.status, 200)


    def test_widest_range(self):
        """The first and last times that client libraries have are everything that is stored, at every endpoint with a range."""
        want = self.data('labels', start=self.s.begin - 60, end=self.s.end)
        for start, end in (('-9223309901257974', '9223309901257974'),
                           ('-292273086-05-16T16:47:06Z', '292277025-08-18T07:12:54.999999999Z'),
                           ('0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z')):
            times = {'start': start, 'end': end}
            self.assertEqual(self.data('labels', **times), want)
            self.assertEqual(len(self.data('series', **{'match[]': '{__name__!=""}'}, **times)), 5)
            self.assertEqual(self.data('label/service_name/values', **times), ['alpha', 'beta'])
            self.assertEqual(self.data('query_range', query='1', step=10**6, **times)['resultType'], 'matrix')
            for path in ('flamegraph', 'top', 'profiles', 'query_series'):
                data = self.data(path, query=CPU + '{}', group_by='', **times)
                self.assertIn(str(N * ALL), json.dumps(data).replace('.0', ''), path)
            self.data('top_series', query=CPU + '{}', **times)
            self.assertEqual(self.get('diff', query_a=CPU + '{}', query_b=CPU + '{}', start_a=start, end_a=end, start_b=start, end_b=end).status, 200)
            r = self.s.get('/pyroscope/render?' + urllib.parse.urlencode({'query': CPU + '{}', 'from': start, 'until': end}))
            self.assertEqual((r.status, r.json['flamebearer']['numTicks']), (200, N * ALL), r.text[:500])


class SameResultsTest(Base):
    """One store, three APIs: the same numbers."""

    def test_totals(self):
        times = {'start': self.s.begin - 30, 'end': self.s.end}
        own = self.data('flamegraph', query=f'{CPU}{{}}', **times)['total']
        body = {'profileTypeID': CPU, 'labelSelector': '{}', 'start': times['start'] * 1000, 'end': times['end'] * 1000}
        r = http_get(f'{self.s.url}/querier.v1.QuerierService/SelectMergeStacktraces', method='POST', body=json.dumps(body),
                     headers={'Content-Type': 'application/json'})
        connect = int(r.json['flamegraph']['total'])
        render = self.s.get('/pyroscope/render?' + urllib.parse.urlencode(
            {'query': f'{CPU}{{}}', 'from': body['start'], 'until': body['end']})).json['flamebearer']['numTicks']
        prometheus = self.vector(f'sum(increase({CPU_TOTAL}[{times["end"] - times["start"]}s]))')['']
        self.assertEqual({own, connect, render, prometheus}, {N * ALL})

    def test_series(self):
        """Steps that cut profiles, groups by labels of series and rows."""
        for step in (7, 15, 60, 90):
            for label in ('service_name', 'thread_name', 'job'):
                start, end = self.s.begin - 60, self.s.end + 60
                own = self.data('query_series', query=f'{CPU}{{}}', group_by=label, step=step, start=start, end=end)['result']
                own = {s['metric'].get(label, ''): {t: float(v) for t, v in s['values']} for s in own}
                body = {'profileTypeID': CPU, 'labelSelector': '{}', 'start': start * 1000, 'end': end * 1000, 'step': step, 'groupBy': [label]}
                r = http_get(f'{self.s.url}/querier.v1.QuerierService/SelectSeries', method='POST', body=json.dumps(body),
                             headers={'Content-Type': 'application/json'}).json['series']
                connect = {s['labels'][0]['value']: {int(p['timestamp']) / 1000: p['value'] for p in s['points']} for s in r}
                prom = self.data('query_range', query=f'sum by ({label}) (increase({CPU_TOTAL}[{step}s]))', step=step, start=start, end=end)['result']
                prom = {s['metric'].get(label, ''): {t: float(v) for t, v in s['values']} for s in prom}
                self.assertEqual(set(own), set(connect))
                self.assertEqual(set(own), set(prom))
                for key, points in own.items():
                    for other in (connect[key], prom[key]):
                        self.assertEqual(set(points), set(other))
                        self.assertTrue(all(math.isclose(v, other[t], rel_tol=1e-9) for t, v in points.items()), (step, label))
                self.assertTrue(math.isclose(sum(v for p in own.values() for v in p.values()), N * ALL, rel_tol=1e-9))


@needs_promtool
class PromtoolTest(Base):
    def promtool(self, *args):
        p = subprocess.run(['promtool', 'query', *args], capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 0, p.stderr)
        return p.stdout

    def test_instant(self):
        out = self.promtool('instant', '-o', 'json', f'--time={self.s.end}', self.s.url, f'sum by (service_name) (increase({CPU_TOTAL}[1m]))')
        self.assertEqual({s['metric']['service_name']: s['value'] for s in json.loads(out)}, {s: [self.s.end, str(total(s))] for s in SERVICES})
        self.assertEqual(self.promtool('instant', self.s.url, '1+1').split()[:2], ['scalar:', '2'])

    def test_range(self):
        out = self.promtool('range', '-o', 'json', f'--start={self.s.begin}', f'--end={self.s.end}', '--step=1m', self.s.url, f'rate({CPU_TOTAL}[1m])')
        series = json.loads(out)
        self.assertEqual([len(s['values']) for s in series], [N, N])
        self.assertEqual({v for _, v in series[0]['values']}, {str(total('alpha') // 60)})

    def test_series_and_labels(self):
        times = (f'--start={self.s.begin - 60}', f'--end={self.s.end}')
        out = self.promtool('series', '--match', CPU_TOTAL, *times, self.s.url)
        self.assertEqual(len(out.splitlines()), 2)
        self.assertIn('service_name="beta"', out)
        self.assertEqual(self.promtool('labels', *times, self.s.url, 'service_name').split(), ['alpha', 'beta'])

    def test_errors(self):
        p = subprocess.run(['promtool', 'query', 'instant', self.s.url, 'abs(x)'], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn('function abs()', p.stderr)

    def test_expressions(self):
        """What Prometheus' parser takes is taken or named as not supported; what it refuses is refused, at the same place."""
        rules = 'groups:\n- name: g\n  rules:\n' + ''.join(f'  - record: r{i}\n    expr: {json.dumps(e)}\n' for i, e in enumerate(EXPRESSIONS))
        with tempfile.NamedTemporaryFile('w', suffix='.yml') as f:
            f.write(rules)
            f.flush()
            out = subprocess.run(['promtool', 'check', 'rules', f.name], capture_output=True, text=True, timeout=60)
        theirs = {int(i): pos for i, pos in re.findall(r'"r(\d+)": could not parse expression: (\d+:\d+):', out.stdout + out.stderr)}
        self.assertGreater(len(theirs), 60, out.stdout + out.stderr)
        self.assertLess(len(theirs), len(EXPRESSIONS) - 60)
        for i, e in enumerate(EXPRESSIONS):
            r = self.get('query', query=e)
            m = re.search(r'(\d+:\d+): (parse error|not supported): ', r.json.get('error', ''))
            with self.subTest(e):
                if i not in theirs:
                    self.assertTrue(r.status == 200 or m[2] == 'not supported', r.text)
                else:
                    self.assertEqual(r.status, 400, r.text)
                    if m[2] == 'parse error' and e not in OTHER_POSITIONS:
                        self.assertEqual(m[1], theirs[i], r.text)


if __name__ == '__main__':
    unittest.main()
