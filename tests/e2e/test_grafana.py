"""What Grafana and Prometheus are given: the files load, and every panel of a dashboard gets an answer from a scraper that holds profiles."""
import glob
import itertools
import json
import re
import shutil
import subprocess
import unittest
import urllib.parse

from filled import CPU, Filled
from sonde_e2e import TOP, exporter, http_get, needs_kernel, scraper

BESIDE_OTHERS = True

try:
    import yaml
except ImportError:
    yaml = None

# What Grafana puts in for its variables of time.
TIMES = {'$__rate_interval': '1m0s', '$__interval': '15s', '$__range': '3600s'}
ALL = ['$__all']


def load(path):
    with open(f'{TOP}/configs/{path}') as f:
        return yaml.safe_load(f)


def dashboards():
    for path in sorted(glob.glob(f'{TOP}/configs/grafana/dashboards/*.json')):
        with open(path) as f:
            yield path, json.load(f)


def escape(value):
    return re.sub(r'[\\^$*+?.()|\[\]{}/]', r'\\\g<0>', value)


def fill(text, kind, variable, chosen):
    """A panel's text as the plugin of this kind sends it with these values chosen in the one variable.

    Without a format behind its name Prometheus's plugin writes a regular expression for a quoted text, Pyroscope's writes a glob.
    """
    for name, value in TIMES.items():
        text = text.replace(name, value)

    def put(m):
        if chosen == ALL:
            return variable['allValue']
        if m[2] == 'regex' or kind == 'prometheus':
            values = [escape(v) if m[2] else escape(v).replace('\\', '\\\\') for v in chosen]
            return values[0] if len(values) == 1 else f'({"|".join(values)})'
        return chosen[0] if len(chosen) == 1 else f'{{{",".join(chosen)}}}'
    return re.sub(r'\$(?:\{)?(service)(?::(\w+)\})?', put, text)


@unittest.skipUnless(yaml, 'python3-yaml is not installed')
class FilesTest(unittest.TestCase):
    def test_datasources(self):
        sources = load('grafana/provisioning/datasources/sonde.yml')
        self.assertEqual(sources['apiVersion'], 1)
        kinds = {s['uid']: s['type'] for s in sources['datasources']}
        self.assertEqual(kinds, {'sonde-profiles': 'grafana-pyroscope-datasource', 'sonde-totals': 'prometheus'})
        for s in sources['datasources']:
            self.assertEqual((s['access'], s['url']), ('proxy', 'http://127.0.0.1:7272'))
        self.assertEqual(load('grafana/provisioning/dashboards/sonde.yml')['providers'][0]['type'], 'file')

    def test_dashboards(self):
        sources = {s['uid']: s['type'] for s in load('grafana/provisioning/datasources/sonde.yml')['datasources']}
        for path, d in dashboards():
            self.assertTrue(d['uid'] and d['title'] and d['schemaVersion'] >= 36, path)
            self.assertNotIn('id', d)  # one of another Grafana
            ids = [p['id'] for p in d['panels']]
            self.assertEqual(len(ids), len(set(ids)))
            cells = set()
            for p in d['panels']:
                g = p['gridPos']
                here = set(itertools.product(range(g['x'], g['x'] + g['w']), range(g['y'], g['y'] + g['h'])))
                self.assertFalse(here & cells, f'{p["title"]} lies on another panel')
                self.assertLessEqual(g['x'] + g['w'], 24)
                cells |= here
                self.assertTrue(p['targets'] and p['title'] and p['description'])
                refs = [t['refId'] for t in p['targets']]
                self.assertEqual(len(refs), len(set(refs)))
                for t in p['targets']:
                    self.assertEqual(sources[t['datasource']['uid']], t['datasource']['type'])
            names = {v['name'] for v in d['templating']['list']}
            used = set(re.findall(r'\$\{?(\w+)', json.dumps(d['panels'])))
            self.assertEqual({n for n in used if not n.startswith('__')}, names)


class PanelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Filled()

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__(None, None, None)

    def post(self, path, form):
        r = http_get(f'{self.s.url}{path}', method='POST', body=urllib.parse.urlencode(form),
                     headers={'Content-Type': 'application/x-www-form-urlencoded'})
        self.assertEqual(r.status, 200, r.text)
        return r.json['data']

    def connect(self, method, body):
        r = http_get(f'{self.s.url}/querier.v1.QuerierService/{method}', method='POST', body=json.dumps(body),
                     headers={'Content-Type': 'application/json'})
        self.assertEqual(r.status, 200, r.text)
        return r.json

    def ask(self, target, *choice):
        """How many series or levels the answer has."""
        kind = target['datasource']['type']
        if kind == 'prometheus':
            if target.get('instant'):
                return len(self.post('/api/v1/query', {'query': fill(target['expr'], kind, *choice), 'time': self.s.end})['result'])
            form = {'query': fill(target['expr'], kind, *choice), 'start': self.s.begin, 'end': self.s.end, 'step': 15}
            return len(self.post('/api/v1/query_range', form)['result'])
        body = {'profile_typeID': target['profileTypeId'], 'label_selector': fill(target['labelSelector'], kind, *choice),
                'start': self.s.start_ms, 'end': self.s.end_ms}
        if target['queryType'] == 'profile':
            return len(self.connect('SelectMergeStacktraces', {**body, 'max_nodes': target['maxNodes']})['flamegraph']['levels'])
        return len(self.connect('SelectSeries', {**body, 'step': 15, 'group_by': target['groupBy']}).get('series', []))

    def test_panels(self):
        for _, d in dashboards():
            variable, = d['templating']['list']
            for chosen, n in ((ALL, 2), (['alpha', 'beta'], 2), (['alpha'], 1), (['a.b/c-d', 'e+f'], 0)):
                with self.subTest(chosen=chosen):
                    answers = {p['title']: self.ask(t, variable, chosen) for p in d['panels'] for t in p['targets']}
                    self.assertEqual(answers, {'CPU by service': n, 'Most CPU': n, 'On CPU': 4 if n else 1, 'CPU by thread': 2 if n else 0,
                                               'CPU profiles': n, 'Heap in use': 1 if n else 0, 'Targets up': 0})
            for v in d['templating']['list']:
                metric, label = re.fullmatch(r'label_values\((\w+), (\w+)\)', v['definition']).groups()
                q = urllib.parse.urlencode({'match[]': metric, 'start': self.s.begin - 60, 'end': self.s.end})
                self.assertEqual(self.s.get(f'/api/v1/label/{label}/values?{q}').json['data'], ['alpha', 'beta'])

    def test_save_and_test(self):
        """What the two datasources ask when they are saved."""
        self.assertEqual(self.connect('ProfileTypes', {'start': 1000, 'end': 4000}), {})
        self.assertEqual(self.post('/api/v1/query', {'query': '1+1', 'time': '1795000000.123'})['result'][1], '2')
        self.assertIn('version', self.s.get('/api/v1/status/buildinfo').json['data'])
        self.assertEqual(self.connect('ProfileTypes', {})['profileTypes'][0]['ID'], CPU)


@unittest.skipUnless(shutil.which('promtool'), 'promtool is not installed')
class PrometheusFilesTest(unittest.TestCase):
    def promtool(self, *args):
        p = subprocess.run(['promtool', *args], capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        return p.stdout

    def test_files(self):
        out = self.promtool('check', 'config', f'{TOP}/configs/prometheus/prometheus.yml')
        self.assertIn('15 rules found', out)
        self.promtool('check', 'rules', f'{TOP}/configs/prometheus/sonde.rules.yml')
        self.promtool('test', 'rules', f'{TOP}/tests/data/prometheus_rules_test.yml')

    def test_metrics_are_there(self):
        with open(f'{TOP}/configs/prometheus/sonde.rules.yml') as f:
            names = set(re.findall(r'\bsonde_\w+', f.read()))
        docs = ''.join(open(f).read() for f in glob.glob(f'{TOP}/docs/*.md'))
        self.assertGreater(len(names), 12)
        for name in names:
            self.assertIn(f'`{name}', docs)

    @needs_kernel
    def test_metrics_are_served(self):
        """What the alerts ask for is on /metrics of the two daemons, from their start on: an alert on an absent metric never fires."""
        served = set()
        with exporter() as e, scraper('scrape_configs: []') as s:
            for daemon in (e, s):
                served |= set(re.findall(r'^# TYPE (\w+) ', daemon.get('/metrics').text, re.M))
        with open(f'{TOP}/configs/prometheus/sonde.rules.yml') as f:
            self.assertEqual(set(re.findall(r'\bsonde_\w+', f.read())) - served, set())

    def test_alerts_are_tested(self):
        with open(f'{TOP}/configs/prometheus/sonde.rules.yml') as f:
            alerts = set(re.findall(r'alert: (\w+)', f.read()))
        with open(f'{TOP}/tests/data/prometheus_rules_test.yml') as f:
            fired = re.findall(r'alertname: (\w+)\n +exp_alerts', f.read())
        self.assertEqual(set(fired), alerts)


if __name__ == '__main__':
    unittest.main()
