"""Numbers keep what they mean on every way out: windows, states, negative values, numeric labels, sums beyond 63 bits."""
import http.server
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

from filled import CPU, CPU_TYPES
from pprof_target import encode
from sonde_e2e import GO, Pprof, http_get, scraper, sonde, wait_for
from test_ui import drive, missing

BESIDE_OTHERS = True

MS = 10**6
S = 10**9
HEAP_TYPES = [('objects', 'count'), ('space', 'bytes')]
DIFFERENCE_TYPES = [('alloc_space', 'bytes'), ('inuse_space', 'bytes')]
DIFFERENCE = [(['grow', 'main'], [10000, -20000], {}), (['keep', 'main'], [500, 500], {})]  # as Go's heap?seconds=2 answers
HEAP = [(['leak', 'main'], [100, 100000], {}), (['cache', 'main'], [50, 50000], {})]


class Target:
    """Answers every GET with these bytes, after as many seconds as were asked for."""

    def __init__(self, body, headers=lambda: {}):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get('seconds', ['0'])[0]
                time.sleep(float(asked))
                self.send_response(200)
                self.send_header('Content-Length', str(len(body)))
                for header in headers().items():
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.address = f'127.0.0.1:{self.server.server_address[1]}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()


def job(name, address, types):
    off = {t: '{enabled: false}' for t in ('process_cpu', 'memory', 'mutex', 'block', 'goroutine')} | types
    return f"""
  - job_name: {name}
    scrape_interval: 2s
    scrape_timeout: 30s
    profiling_config: {{preset: go, pprof_config: {{{', '.join(f'{k}: {v}' for k, v in off.items())}}}}}
    static_configs: [{{targets: ['{address}']}}]
"""


def cpu(samples, at, duration, period=10 * MS):
    return encode(CPU_TYPES, CPU_TYPES[1], samples, at, duration, period)


class Scraped(unittest.TestCase):
    def query(self, s, text):
        return sonde('query', '--server', s.url, text)

    def test_window_without_duration(self):
        """Equal work makes no difference, whether a target says how long its window was or not."""
        work = [(['f', 'main'], [10, 100 * MS], {})]
        with Target(cpu(work, 0, S)) as a, Target(cpu(work, 0, 0)) as b:
            jobs = job('with', a.address, {'process_cpu': '{seconds: 1}'}) + job('without', b.address, {'process_cpu': '{seconds: 1}'})
            with scraper('scrape_configs:' + jobs) as s:
                q = urllib.parse.urlencode({f'query_{x}': f'{CPU}{{job="{name}"}}' for x, name in (('a', 'with'), ('b', 'without'))})

                def sides():
                    d = s.get('/api/v1/diff?' + q).json['data']
                    return d['a']['n_profiles'] >= 2 and d['b']['n_profiles'] >= 2 and d

                d = wait_for('two profiles a side', sides)
        for side in (d['a'], d['b']):
            self.assertEqual(side['covered_seconds'], side['n_profiles'])
            self.assertAlmostEqual(side['total'] * side['scale'], 100 * MS)

    def test_heap_in_use(self):
        """Objects and space without a duration are what is in use, under whatever type they are scraped."""
        with Target(encode(HEAP_TYPES, ('space', 'bytes'), HEAP, 0, 0, 524288)) as t, \
                scraper('scrape_configs:' + job('node', t.address, {'memory': '{path: /debug/pprof/heap}'})) as s:
            wait_for('a profile', lambda: s.get('/api/v1/profiles?' + urllib.parse.urlencode({'query': 'memory:space:bytes:space:bytes{}'})).json['data'].get('n_profiles'))
            self.assertIn('Total = 146KiB', self.query(s, 'memory:space:bytes:space:bytes{job="node"}').stdout)


    def test_difference_of_a_heap(self):
        """What a target made the difference of is an amount, and no gauge that is negative."""
        with Target(encode(DIFFERENCE_TYPES, ('space', 'bytes'), DIFFERENCE, 0, 2 * S, 524288)) as t, \
                scraper('scrape_configs:' + job('delta', t.address, {'memory': '{path: /debug/pprof/heap, seconds: 2}'})) as s:
            types = wait_for('its types', lambda: s.get('/api/v1/profile_types').json['data'])
            self.assertEqual({t['kind'] for t in types}, {'delta'})
            out = self.query(s, 'memory:inuse_space:bytes:space:bytes{job="delta"}').stdout
            self.assertRegex(out, r'KiB 97.56% +97.56% +-\S+KiB 97.56%  grow')


    def test_quality(self):
        """Which share of the stacks was cut, and what exporters say of themselves: of the selection's alone, and nothing where nobody says it."""
        work = [(['f', 'main'], [9, 90 * MS], {'stack': 'complete'}), (['f'], [3, 30 * MS], {'stack': 'truncated:no_rows'})]
        totals = iter(range(1, 1000))

        def health():
            n = next(totals)
            return {'Sonde-Exporter': '1', 'Sonde-Health': f'overhead=0.001, hz=19, samples={95 * n}, ring_full={4 * n}, log_full={n}'}

        with Target(cpu(work, 0, S), health) as a, Target(cpu([(['g'], [10, 100 * MS], {})], 0, S)) as b:
            jobs = job('node', a.address, {'process_cpu': '{seconds: 1}'}) + job('app', b.address, {'process_cpu': '{seconds: 1}'})
            with scraper('scrape_configs:' + jobs) as s:
                def quality(selector):
                    r = s.get('/api/v1/quality?' + urllib.parse.urlencode({'query': CPU + selector}))
                    self.assertEqual(r.status, 200, r.text)
                    return r.json['data']

                wait_for('two scrapes', lambda: 'lost' in quality('{}') and quality('{}')['n_targets'] == 2)
                for selector, want in (('{job="node"}', {'n_targets': 1, 'n_exporters': 1, 'cut': 0.25, 'lost': 0.05, 'frequency_hz': {'least': 19, 'most': 19}}),
                                       ('{job="node",stack="complete"}', {'n_targets': 1, 'n_exporters': 1, 'cut': 0, 'lost': 0.05, 'frequency_hz': {'least': 19, 'most': 19}}),
                                       ('{job="app"}', {'n_targets': 1, 'n_exporters': 0}), ('{job="none"}', {'n_targets': 0, 'n_exporters': 0})):
                    with self.subTest(selector):
                        got = quality(selector)
                        self.assertEqual(got.keys(), want.keys())
                        for key in want:
                            self.assertAlmostEqual(got[key], want[key], 9) if key in ('cut', 'lost') else self.assertEqual(got[key], want[key])
                self.assertAlmostEqual(quality('{}')['cut'], 0.25)
                self.assertIn('tagroot', s.get('/api/v1/quality?' + urllib.parse.urlencode({'query': CPU + '{}', 'tagroot': 'x'})).text)


class Pushed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scraper = scraper('scrape_configs: []\n')
        cls.now = int(time.time()) - 600

    @classmethod
    def tearDownClass(cls):
        cls.scraper.__exit__(None, None, None)

    def push(self, name, body, **labels):
        q = urllib.parse.urlencode({'name': name, **{f'label.{k}': v for k, v in labels.items()}})
        r = http_get(f'{self.scraper.url}/api/v1/import?{q}', method='POST', body=body)
        self.assertEqual(r.status, 200, r.text)

    def query(self, selector, *args):
        p = sonde('query', '--server', self.scraper.url, '--start', str(self.now - 60), *args, selector)
        self.assertEqual(p.returncode, 0, p.stderr)
        return p.stdout

    def test_heap_snapshots(self):
        for i in range(3):
            self.push('heap', encode(HEAP_TYPES, ('space', 'bytes'), HEAP, (self.now + i) * S, 0, 524288), job='node')
        self.assertIn('Total = 146KiB', self.query('heap:space:bytes:space:bytes{job="node"}'))

    def test_numeric_labels(self):
        """They come out as numbers, so that pprof's ranges select the same as in what came in."""
        body = encode([('inuse_objects', 'count'), ('inuse_space', 'bytes')], ('space', 'bytes'),
                      [(['a', 'main'], [1, 10], {'bytes': (4096, 'bytes')}), (['a', 'main'], [1, 20], {'bytes': (65536, 'bytes')})], self.now * S, 0, 524288)
        self.push('memory', body, job='num')
        q = urllib.parse.urlencode({'query': 'memory:inuse_space:bytes:space:bytes{job="num"}', 'start': self.now - 60, 'group_by': 'bytes'})
        out = self.scraper.get('/api/v1/profile?' + q).body
        self.assertEqual(Pprof(out).by_label('bytes'), {4096: 10, 65536: 20})
        with tempfile.TemporaryDirectory() as d:
            for name, data in (('in', body), ('out', out)):
                path = f'{d}/{name}.pb.gz'
                with open(path, 'wb') as f:
                    f.write(data)
                if os.path.exists(GO):
                    top = subprocess.run([GO, 'tool', 'pprof', '-top', '-tagfocus=bytes=1kb:8kb', path], capture_output=True, text=True, timeout=300).stdout
                    self.assertIn('accounting for 10B', top)
                by = sonde('top', '--by', 'label:bytes', path).stdout
                self.assertRegex(by, r'20B +66.67% +20B +66.67% +65536bytes')
        by = sonde('top', '--server', self.scraper.url, '--start', str(self.now - 60), '--query', 'memory:inuse_space:bytes:space:bytes{job="num"}', '--by', 'label:bytes').stdout
        self.assertRegex(by, r'20B +66.67% +20B +66.67% +65536bytes')

    def test_negative_values(self):
        """Shares are of the sum without signs, as those of go tool pprof; pictures show what fell, and say so."""
        body = encode(DIFFERENCE_TYPES, ('space', 'bytes'), DIFFERENCE, self.now * S, 2 * S, 524288)
        self.push('memory', body, job='delta')
        selector = 'memory:inuse_space:bytes:space:bytes{job="delta"}'
        rows = r'-19.5KiB 97.56% +97.56% +-19.5KiB 97.56%  grow.*\n +500B +2.44% +95.12% +500B +2.44%  keep'
        with tempfile.TemporaryDirectory() as d:
            path = f'{d}/delta.pb.gz'
            with open(path, 'wb') as f:
                f.write(body)
            self.assertRegex(sonde('top', path).stdout, rows)
            self.assertRegex(sonde('top', '--by', 'label:x', path).stdout, r'Total: -19.0KiB\n.*\n +-19.0KiB +95.12%')
            svg = sonde('flamegraph', path, '--format', 'svg', '-o', '-').stdout
        self.assertRegex(self.query(selector), rows)
        self.assertRegex(svg, r'<title>grow[^<]*-19.5KiB, 97.56%')
        self.assertRegex(svg, r'<title>keep[^<]*500B, 2.44%')
        self.assertIn('as wide as its values without their signs', svg)
        q = urllib.parse.urlencode({'query': selector, 'start': self.now - 60})
        graph = self.scraper.get('/api/v1/flamegraph?' + q).json['data']
        self.assertEqual((graph['total'], graph['magnitude']), (-19500, 20500))
        bearer = self.scraper.get('/pyroscope/render?' + urllib.parse.urlencode({'query': selector, 'from': self.now - 60, 'until': self.now + 60})).json
        self.assertEqual(bearer['flamebearer']['numTicks'], 20500)
        self.assertEqual(set(bearer['flamebearer']['names']), {'total', 'main (negative)', 'grow (negative)', 'keep'})

    def push_half_cores(self, job, at):
        """Two instances, ten windows of 10 s each."""
        for instance in ('a:1', 'b:1'):
            for i in range(10):
                self.push('process_cpu', cpu([(['work', 'main'], [500, 5 * S], {})], (at + 10 * i) * S, 10 * S), job=job, instance=instance)

    def test_number_in_the_web_interface(self):
        """Heads, plot, legend, table and tooltip of a comparison, per instance and of the service: half a core each, two of them."""
        why = missing()
        if why:
            self.skipTest(why)
        at = self.now - 600
        self.push_half_cores('seen', at)
        asked = {f'{name}_{side}': v for side in 'ab' for name, v in (('query', CPU + '{job="seen"}'), ('start', at - 60), ('end', at + 160))}
        with tempfile.TemporaryDirectory(prefix='sonde-units.') as d:
            story = {'url': self.scraper.url + '/', 'compare': urllib.parse.urlencode({**asked, 'width': 'a'}), 'instance': '0.5 cores', 'service': '1.00 cores',
                     'range': urllib.parse.urlencode({'query': CPU + '{job="seen"}', 'start': at, 'end': at + 90})}
            result = drive({'one_number': story}, os.environ.get('SONDE_SCREENSHOTS', d))['one_number']
        self.assertNotIn('error', result, result.get('error'))

    def test_quality_of_the_range_alone(self):
        at = self.now - 1200
        for before, instance in ((130, 'early:1'), (10, 'late:1')):
            self.push('process_cpu', cpu([(['work'], [500, 5 * S], {'stack': 'truncated:no_rows' if before > 100 else 'complete'})], (at - before) * S, 10 * S), job='worth', instance=instance)
        for start, end, want in ((at - 100, at, (1, 0)), (at - 150, at, (2, 0.5)), (at, at, (1, 0))):
            q = {'query': CPU + '{job="worth"}', 'start': start, 'end': end}
            got = self.scraper.get('/api/v1/quality?' + urllib.parse.urlencode(q)).json['data']
            self.assertEqual((got['n_targets'], got.get('cut')), want, q)

    def test_values_over_time_of_what_was_watched(self):
        """Half a core an instance, one watched always and one half the time: values as they were measured, of the service and of an instance."""
        at = self.now - 1200
        for i in range(10):
            for instance, seconds in (('always:1', 10), ('half:1', 5)):
                self.push('process_cpu', cpu([(['work', 'main'], [50 * seconds, seconds * S // 2], {})], (at + 10 * i) * S, seconds * S), job='watched', instance=instance)

        def ask(path='query_series', matchers='', **q):
            q = {'query': f'{CPU}{{job="watched"{matchers}}}', 'start': at + 20, 'end': at + 80, 'step': 20, **q}
            r = self.scraper.get(f'/api/v1/{path}?' + urllib.parse.urlencode(q))
            self.assertEqual(r.status, 200, r.text)
            return [{round(float(v) / S, 6) for _, v in line['values']} for line in r.json['data']['result']]

        for matchers, of, want in (('', {}, 15), ('', {'of': 'service'}, 15), ('', {'of': 'instance'}, 10),
                                   (',instance="half:1"', {}, 5), (',instance="half:1"', {'of': 'service'}, 10), (',instance="half:1"', {'of': 'instance'}, 10)):
            with self.subTest((matchers, of)):
                self.assertEqual(ask(matchers=matchers, group_by='', **of), [{want}])
                self.assertEqual(ask('top_series', matchers, **of), [{want}])
        self.assertEqual(ask(group_by='instance', of='instance'), [{10}, {10}])
        self.assertEqual(ask(of='instance', group_by='', focus='work'), [{10}], 'rows are read')
        # Who has nothing of what is looked for was watched too: half a core of one of two instances is a quarter each.
        for i in range(10):
            for instance, function in (('has:1', 'rare'), ('lacks:1', 'usual')):
                self.push('process_cpu', cpu([([function, 'main'], [500, 5 * S], {})], (at + 10 * i) * S, 10 * S), job='partly', instance=instance)
        of_one = {'query': CPU + '{job="partly"}', 'of': 'instance', 'group_by': ''}
        self.assertEqual(ask(**of_one), [{10}])
        self.assertEqual(ask(**of_one, focus='rare'), [{5}])
        for path in ('query_series', 'top_series'):
            r = self.scraper.get(f'/api/v1/{path}?' + urllib.parse.urlencode({'query': CPU + '{}', 'of': 'x'}))
            self.assertEqual((r.status, r.json['error']), (400, 'of: "x" is none of instance, service'))

    def test_all_ways_to_one_number(self):
        """Two instances, ten windows of 10 s each, half a core an instance: whoever shows the number shows this one."""
        at = self.now - 300
        self.push_half_cores('same', at)
        selector, start, end = CPU + '{job="same"}', at - 60, at + 160
        total, per_instance, of_service = 100 * S, 0.5, 1.0
        both = {f'{name}_{side}': v for side in 'ab' for name, v in (('query', selector), ('start', start), ('end', end))}

        def get(path, **params):
            r = self.scraper.get(f'{path}?' + urllib.parse.urlencode(params))
            self.assertEqual(r.status, 200, r.text)
            return r

        def diff(**params):
            return get('/api/v1/diff', **both, **params).json['data']

        def rate(**params):
            d = diff(**params)
            return [d[side]['total'] * d[side]['scale'] / S for side in 'ab']

        def points():
            m = get('/api/v1/query_series', query=selector, start=start, end=end, step=10, group_by='').json['data']
            return [float(v) for _, v in m['result'][0]['values']]

        def grafana():
            return get('/pyroscope/render', query=selector, **{'from': start, 'until': end}).json

        def connect(method, **more):
            """As Grafana's data source asks."""
            r = http_get(f'{self.scraper.url}/querier.v1.QuerierService/{method}', method='POST', headers={'Content-Type': 'application/json'},
                         body=json.dumps({'profile_typeID': CPU, 'label_selector': '{job="same"}', 'start': start * 1000, 'end': end * 1000, **more}))
            self.assertEqual(r.status, 200, r.text)
            return r.json

        def grafana_points(**more):
            return [p['value'] for s in connect('SelectSeries', step=10, **more)['series'] for p in s['points']]

        def cli(*args):
            p = sonde(*args)
            self.assertEqual(p.returncode, 0, p.stderr)
            return p.stdout

        query = ('--server', self.scraper.url, '--start', str(start), '--end', str(end), selector)
        side = (selector, f'@{end}', f'{end - start}s')
        compared = ('diff', '--server', self.scraper.url, *side, '--', *side)
        merged = Pprof(get('/api/v1/profile', query=selector, start=start, end=end).body)
        ways = [
            ('pprof', lambda: merged.total(), total),
            ('flame graph', lambda: get('/api/v1/flamegraph', query=selector, start=start, end=end).json['data']['total'], total),
            ('table', lambda: get('/api/v1/top', query=selector, start=start, end=end).json['data']['total'], total),
            ('profiles', lambda: get('/api/v1/profiles', query=selector, start=start, end=end).json['data']['total'], total),
            ('plot, its sum', lambda: sum(points()), total),
            ('plot, its mean as a rate', lambda: sum(points()) / len(points()) / 10 / S, of_service),
            ('diff, sums', lambda: [diff(per='run')[side]['total'] for side in 'ab'], [total, total]),
            ('diff, per instance', lambda: rate(), [per_instance, per_instance]),
            ('diff, of the service', lambda: rate(of='service'), [of_service, of_service]),
            ('diff, its replicates', lambda: diff(replicate='instance,1m')['statistics']['mean_a'] / S, per_instance),
            ('diff, its replicates of the service', lambda: diff(replicate='instance,1m', of='service')['statistics']['mean_a'] / S, of_service),
            ('Grafana, its flame graph', lambda: grafana()['flamebearer']['numTicks'], total),
            ('Grafana, its plot', lambda: sum(grafana()['timeline']['samples']), total),
            # The data source divides what SelectSeries answers by the step, and nanoseconds by 10^9: "cores".
            ('Grafana, its data source\'s plot', lambda: sum(grafana_points()) / len(grafana_points()) / 10 / S, of_service),
            ('Grafana, its data source\'s plot by instance', lambda: sum(grafana_points(groupBy=['instance'])) / len(grafana_points(groupBy=['instance'])) / 10 / S, per_instance),
            ('Grafana, its data source\'s flame graph', lambda: float(connect('SelectMergeStacktraces')['flamegraph']['total']), total),
            ('sonde query', lambda: 'Total = 1.67min' in cli('query', *query), True),
            ('sonde top', lambda: 'Total = 1.67min' in cli('top', '--server', self.scraper.url, '--start', str(start), '--query', selector), True),
            ('sonde diff', lambda: json.loads(cli(*compared, '--format', 'json'))['a']['median'] / S, per_instance),
            ('sonde diff, its words', lambda: re.findall(r'cpu in cores per instance, B against A\nA: median (\S+ cores)', cli(*compared)), ['0.5 cores']),
            ('sonde diff, of the service', lambda: json.loads(cli(*compared, '--format', 'json', '--of', 'service'))['a']['median'] / S, of_service),
            ('sonde diff, of the service, its words', lambda: re.findall(r'cpu in cores of the service, B against A\nA: median (\S+ cores)', cli(*compared, '--of=service')), ['1.00 cores']),
        ]
        for name, ask, want in ways:
            with self.subTest(name):
                got = ask()
                self.assertEqual(len(got), len(want)) if isinstance(want, list) else None
                for g, w in zip(got, want) if isinstance(want, list) else [(got, want)]:
                    if isinstance(w, str):
                        self.assertEqual(g, w)
                    else:
                        self.assertAlmostEqual(g, w, delta=abs(w) * 1e-6)

    def test_sum_beyond_63_bits(self):
        with tempfile.TemporaryDirectory() as d:
            paths = [f'{d}/{i}.pb.gz' for i in range(2)]
            for i, path in enumerate(paths):
                body = cpu([(['a', 'main'], [5 * S, 5 * 10**18], {})], (self.now + i * 10) * S, 10 * S)
                self.push('process_cpu', body, job='big')
                with open(path, 'wb') as f:
                    f.write(body)
            self.assertIn('Total = at least 106752d', sonde('top', *paths).stdout)
            self.assertIn('Total: at least 106752d', sonde('top', '--by', 'file', *paths).stdout)
        self.assertIn('Total = at least 106752d', self.query(CPU + '{job="big"}'))


if __name__ == '__main__':
    unittest.main()
