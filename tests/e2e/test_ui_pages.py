"""Pages of the web interface that show the scraper itself, in a real browser: targets, discovery, configuration, storage."""
import os
import shutil
import tempfile
import time
import unittest

from filled import CPU_TYPES, cpu_samples
from pprof_target import PprofTarget, encode
from sonde_e2e import http_get, scraper, wait_for
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
        cls.scraper = scraper(CONFIG.format(target=cls.target.address), data=data)
        cls.addClassCleanup(cls.scraper.__exit__, None, None, None)
        s = cls.scraper
        with scraper('scrape_configs: []\n') as bare:
            wait_for('scrapes of both targets', lambda: sorted(t['health'] for t in s.get('/api/v1/targets').json['data']['activeTargets']) == ['down', 'up'], timeout=90)
            wait_for('stored profiles', lambda: s.get('/api/v1/profile_types').json['data'], timeout=90)
            for build, ago in BUILDS:
                at = int(time.time()) - ago
                r = http_get(f'{s.url}/api/v1/import?name=process_cpu&label.service_name=app&label.build_id={build}', method='POST',
                             body=encode(CPU_TYPES, CPU_TYPES[1], cpu_samples('alpha'), at * 10**9, 10 * 10**9, 10_000_000))
                assert r.status == 200, r.text
            url = s.url + '/'
            stories = {name: {'url': url} for name in ('targets', 'discovery', 'configuration', 'storage', 'builds')}
            stories['configuration']['expected'] = '404'  # Chromium tells of the job that is not there
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

    def test_compares_builds(self):
        self.answer('builds')

    def test_nothing_to_show(self):
        self.answer('bare')


if __name__ == '__main__':
    unittest.main()
