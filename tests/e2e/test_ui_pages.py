"""Pages of the web interface that show the scraper itself, in a real browser: targets, discovery, configuration, storage."""
import os
import shutil
import tempfile
import time
import unittest
import urllib.parse

from filled import CPU_TYPES, cpu_samples
from pprof_target import PprofTarget, encode
from sonde_e2e import TOP, http_get, scraper, wait_for
from test_ui import drive, missing

BESIDE_OTHERS = True
CONFIG = '''
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: app
    static_configs:
      - targets: ['{target}', '127.0.0.1:1', 'unwanted.example:80']
        labels: {{team: '<b>shop</b>', env: production}}
    relabel_configs:
      - {{source_labels: [__address__], regex: 'unwanted.*', action: drop}}
      - {{source_labels: [__address__], regex: '(.*):.*', target_label: host}}
      - {{action: labeldrop, regex: env}}
'''
BUILDS = [('older', 8 * 3600), ('old', 4 * 3600), ('new', 600)]
SPEEDSCOPE = f'{TOP}/build/npm/browser/node_modules/speedscope/dist/release'
DAMAGED = '01HBADBADBADBADBADBADBADBA'


class UiPagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = missing()
        if why:
            raise unittest.SkipTest(why)
        cls.scratch = tempfile.mkdtemp(prefix='sonde-ui.')
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        data = f'{cls.scratch}/data'
        os.makedirs(f'{data}/blocks/{DAMAGED}')
        with open(f'{data}/blocks/{DAMAGED}/meta.json', 'w') as f:
            f.write('{}')
        cls.target = PprofTarget()
        cls.addClassCleanup(cls.target.__exit__)
        os.makedirs(f'{cls.scratch}/sources/src')
        with open(f'{cls.scratch}/sources/src/app.c', 'w') as f:
            f.write(''.join(f'line {i} <i>of</i> app.c\n' for i in range(1, 31)))
        with open(f'{cls.scratch}/sources/src/whole.c', 'w') as f:
            f.write('#include <x.h>\n\nstatic int whole(int a)\n{\n' + '\ta++;\n' * 20 + '}\n\nint next(void)\n{\n}\n')
        with open(f'{cls.scratch}/sources/src/large.c', 'w') as f:
            f.write('// ' * 2000)
        with open(f'{cls.scratch}/secret.c', 'w') as f:
            f.write('secret\n')
        os.symlink(f'{cls.scratch}/secret.c', f'{cls.scratch}/sources/src/link.c')
        os.symlink('app.c', f'{cls.scratch}/sources/src/inside.c')
        os.mkfifo(f'{cls.scratch}/sources/src/pipe.c')
        cls.scraper = scraper(CONFIG.format(target=cls.target.address), f'--symbols.source-dir={cls.scratch}/sources',
                              f'--web.speedscope-dir={SPEEDSCOPE}', '--symbols.source-max-bytes=4KiB', data=data)
        cls.addClassCleanup(cls.scraper.__exit__, None, None, None)
        s = cls.scraper
        with scraper('scrape_configs: []\n') as bare:
            wait_for('scrapes of both targets', lambda: sorted(t['health'] for t in s.get('/api/v1/targets').json['data']['activeTargets']) == ['down', 'up'])
            wait_for('stored profiles', lambda: s.get('/api/v1/profile_types').json['data'])
            for build, ago in BUILDS:
                at = int(time.time()) - ago
                r = http_get(f'{s.url}/api/v1/import?name=process_cpu&label.service_name=app&label.build_id={build}', method='POST',
                             body=encode(CPU_TYPES, CPU_TYPES[1], cpu_samples('alpha'), at * 10**9, 10 * 10**9, 10_000_000))
                assert r.status == 200, r.text
            r = http_get(f'{s.url}/api/v1/import?name=process_cpu&label.service_name=whole', method='POST',
                         body=encode(CPU_TYPES, CPU_TYPES[1], [(['whole'], [1, 10_000_000], {})], int(time.time() - 600) * 10**9, 10**9, 10_000_000, source='/src/whole.c', first_line=3))
            assert r.status == 200, r.text
            url = s.url + '/'
            stories = {name: {'url': url} for name in ('targets', 'discovery', 'configuration', 'storage', 'builds', 'lines', 'speedscope', 'leaves_requests')}
            stories['configuration']['expected'] = '404'  # Chromium tells of the job that is not there
            stories['lines']['expected'] = '404'  # and of the function that no stack has
            stories['bare'] = {'url': bare.url + '/'}
            cls.results = drive(stories, cls.scratch)

    def answer(self, name):
        self.assertNotIn('error', self.results[name], self.results[name].get('error'))
        return self.results[name]['answer']

    def test_targets(self):
        self.answer('targets')

    def test_discovery(self):
        self.answer('discovery')

    def test_configuration(self):
        self.answer('configuration')

    def test_storage(self):
        self.answer('storage')

    def test_leaves_pages(self):
        """Requests of a page that was left are cancelled."""
        self.answer('leaves_requests')

    def test_compares_builds(self):
        self.answer('builds')

    def test_cost_per_line(self):
        self.answer('lines')

    def test_lines(self):
        """Lines add up to what the function has elsewhere."""
        s, q = self.scraper, 'query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7Bbuild_id="new"%7D&start=now-1d'
        got = s.get(f'/api/v1/lines?{q}&function=work').json['data']
        self.assertEqual(got['lines'], [{'file': '/src/app.c', 'line': 10, 'self': 0, 'total': 30000000}])
        self.assertEqual((got['self'], got['total'], got['whole']), (0, 30000000, 45000000))
        got = s.get(f'/api/v1/lines?{q}&function=leaf').json['data']
        self.assertEqual(got['lines'][0]['self'], 30000000)
        self.assertEqual(s.get(f'/api/v1/lines?{q}&function=none').status, 404)
        self.assertEqual(s.get(f'/api/v1/lines?{q}').status, 400)
        self.assertEqual(s.get(f'/api/v1/lines?{q}&function=work&group_by=job').status, 400)

    def test_source_is_confined(self):
        s = self.scraper
        found = s.get('/api/v1/source?file=/build/of/another/machine/src/app.c').json['data']
        self.assertEqual((found['path'], found['text'].splitlines()[2]), ('src/app.c', 'line 3 <i>of</i> app.c'))
        self.assertEqual(s.get('/api/v1/source?file=src/inside.c').json['data']['text'], found['text'])
        for file in ('../secret.c', 'src/../../secret.c', f'{self.scratch}/secret.c', 'src/link.c', 'src/pipe.c', 'src', '/', '..', 'src/app.c/', '/etc/passwd', '/proc/self/environ'):
            with self.subTest(file):
                r = s.get('/api/v1/source?' + urllib.parse.urlencode({'file': file}))
                self.assertEqual(r.status, 404, r.text)
                self.assertNotIn('secret\n', r.text)
        self.assertEqual(s.get('/api/v1/source').status, 400)
        refused = s.get('/api/v1/source?file=src/large.c')
        self.assertEqual((refused.status, 'src/large.c is larger than --symbols.source-max-bytes=4096' in refused.text), (422, True), refused.text)
        self.assertEqual(s.metrics()['sonde_sources_too_large_total'], 1)
        self.assertEqual(s.get('/speedscope/../secret.c').status, 404)
        self.assertEqual(s.get('/speedscope/%2e%2e/secret.c').status, 404)
        self.assertEqual(s.get('/speedscope/none.js').status, 404)

    def test_opens_speedscope(self):
        self.answer('speedscope')

    def test_nothing_to_show(self):
        self.answer('bare')


if __name__ == '__main__':
    unittest.main()
