"""Blocks with damaged pages: each query answers from the rest, the first one too, and says what is missing; nothing else notices."""
import glob
import json
import os
import shutil
import tempfile
import time
import unittest
import urllib.parse

from filled import CPU, CPU_TYPES, cpu_samples, total
from pprof_target import encode
from sonde_e2e import http_get, scraper, sonde, wait_for
from test_ui import drive, missing

BESIDE_OTHERS = True

QUERIER = '/querier.v1.QuerierService/'
NOTHING = 'scrape_configs: []\n'


def damage(directory):
    """A byte in each page's place of each file; what is checked when the store opens stays right."""
    for path in glob.glob(f'{directory}/*'):
        if path.endswith('meta.json'):
            continue
        with open(path, 'r+b') as f:
            f.seek(20)
            f.write(b'damage')


class DamageTest(unittest.TestCase):
    """A block of alpha, which is damaged, and a later one of beta."""

    @classmethod
    def setUpClass(cls):
        cls.dir = cls.enterClassContext(tempfile.TemporaryDirectory(prefix='sonde-damage.'))
        cls.now = int(time.time())
        cls.times = {'alpha': cls.now - 3 * 3600, 'beta': cls.now - 600}
        with scraper(NOTHING, data=f'{cls.dir}/whole') as s:
            for service, at in cls.times.items():
                q = urllib.parse.urlencode({'name': 'process_cpu', 'label.service_name': service})
                body = encode(CPU_TYPES, CPU_TYPES[1], cpu_samples(service), (at - 10) * 10**9, 10**10, 10_000_000)
                r = http_get(f'{s.url}/api/v1/import?{q}', method='POST', body=body)
                assert r.status == 200, r.text
        for path in glob.glob(f'{cls.dir}/whole/blocks/*'):
            with open(f'{path}/meta.json') as f:
                if json.loads(f.read().rsplit('\n', 2)[0])['min_time'] // 10**9 == cls.times['alpha']:
                    cls.block = os.path.basename(path)
                    damage(path)

    def store(self):
        path = tempfile.mkdtemp(dir=self.dir)
        shutil.copytree(f'{self.dir}/whole', path, dirs_exist_ok=True)
        return path

    def queries(self):
        """name: (path, body, how its answer shows beta's part)"""
        q = urllib.parse.quote(CPU + '{}')
        times = f'start={self.now - 4 * 3600}&end={self.now}'
        ms = {'start': (self.now - 4 * 3600) * 1000, 'end': self.now * 1000}
        beta = str(total('beta'))
        return {
            'flamegraph': (f'/api/v1/flamegraph?query={q}&{times}', None, f'"total":{beta}'),
            'folded': (f'/api/v1/profile?format=folded&query={q}&{times}', None, 'main;work;leaf'),
            'top': (f'/api/v1/top?query={q}&{times}', None, beta),
            'series': (f'/api/v1/query_series?query={q}&{times}&group_by=', None, 'values'),
            'profiles': (f'/api/v1/profiles?query={q}&{times}', None, beta),
            'diff': (f'/api/v1/diff?query_a={q}&query_b={q}&start_a={self.now - 4 * 3600}&end_a={self.now}&start_b={self.now - 4 * 3600}&end_b={self.now}', None, beta),
            'types': (f'/api/v1/profile_types?{times}', None, CPU),
            'labels': (f'/api/v1/labels?{times}', None, 'service_name'),
            'values': (f'/api/v1/label/service_name/values?{times}', None, '["beta"]'),
            'by_row': (f'/api/v1/label/service_name/values?{times}&match[]=' + urllib.parse.quote('{thread_name="gc"}'), None, '["beta"]'),
            'sets': (f'/api/v1/series?{times}', None, '"service_name":"beta"'),
            'promql': (f'/api/v1/query_range?query=sum(process_cpu_cpu_nanoseconds_total)&{times}&step=60', None, 'values'),
            'render': (f'/pyroscope/render?query={q}&from={ms["start"]}&until={ms["end"]}', None, f'"numTicks":{beta}'),
            'connect': (QUERIER + 'SelectMergeStacktraces', {'profileTypeID': CPU, 'labelSelector': '{}', **ms}, f'"total":"{beta}"'),
            'plain': (f'/plain?query={q}&{times}', None, 'svg'),
        }

    def ask(self, s, path, body):
        if body is None:
            return s.get(path)
        return http_get(s.url + path, method='POST', body=json.dumps(body), headers={'Content-Type': 'application/json'})

    def test_first_answers(self):
        """Each as the first that meets the damage, and once more after it."""
        for name, (path, body, sign) in self.queries().items():
            with self.subTest(name), scraper(NOTHING, data=self.store()) as s:
                for _ in range(2):
                    r = self.ask(s, path, body)
                    self.assertEqual(r.status, 200, r.text)
                    self.assertIn(sign, r.text)
                    self.assertNotIn(s.data, r.text)
                    if name == 'plain':
                        self.assertIn(f'block {self.block} is damaged: profiles from ', r.text)
                        continue
                    self.assertRegex(r.headers['Sonde-Warnings'] or '', f'^block {self.block} is damaged: profiles from .* may be missing$')
                    if path.startswith('/api/') and name != 'folded':
                        self.assertEqual(r.json['warnings'], [r.headers['Sonde-Warnings']])
                for path_beside in ('/-/ready', '/-/healthy', '/targets', '/plain/targets', '/api/v1/targets'):
                    self.assertEqual(s.get(path_beside).status, 200)
                wait_for('the quarantine', lambda: s.metrics().get('sonde_store_blocks_quarantined') == 1)

    def test_later(self):
        """The warning stays while the block stands in quarantine, for its time alone, over restarts too."""
        data = self.store()
        path = self.queries()['top'][0]
        late = f'/api/v1/top?query={urllib.parse.quote(CPU + "{}")}&start={self.now - 1800}&end={self.now}'
        with scraper(NOTHING, data=data) as s:
            self.assertIn('warnings', s.get(path).json)
            wait_for('the quarantine', lambda: s.metrics().get('sonde_store_blocks_quarantined') == 1)
            self.assertIn('warnings', s.get(path).json)
            self.assertNotIn('warnings', s.get(late).json)
        with scraper(NOTHING, data=data) as s:
            self.assertIn('warnings', s.get(path).json)
            self.assertNotIn('warnings', s.get(late).json)
            shutil.rmtree(f'{data}/quarantine/{self.block}')
            wait_for('nothing is missing', lambda: 'warnings' not in s.get(path).json)

    def test_tool(self):
        with scraper(NOTHING, data=self.store()) as s:
            p = sonde('query', '--server', s.url, '--start', 'now-4h', '--end', 'now', CPU + '{}')
            self.assertRegex(p.stderr, f'warning: block {self.block} is damaged')

    def test_banner(self):
        why = missing()
        if why:
            self.skipTest(why)
        scratch = self.enterContext(tempfile.TemporaryDirectory(prefix='sonde-ui.'))
        with scraper(NOTHING, data=self.store()) as s:
            query = urllib.parse.quote(CPU + '{}')
            got = drive({'warned': {'url': f'{s.url}/?query={query}&start=now-4h&end=now', 'block': self.block}}, scratch)['warned']
            self.assertNotIn('error', got, got.get('error'))

    def test_nothing_left(self):
        data = self.store()
        for path in glob.glob(f'{data}/blocks/*'):
            if os.path.basename(path) != self.block:
                shutil.rmtree(path)
        with scraper(NOTHING, data=data) as s:
            r = s.get(self.queries()['flamegraph'][0])
            self.assertEqual((r.status, r.json['data']['total'], len(r.json['warnings'])), (200, 0, 1), r.text)


if __name__ == '__main__':
    unittest.main()
