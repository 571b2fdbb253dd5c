"""The page that tells how healthy the profiling is, of a real exporter; and what the scraper keeps for it."""
import shutil
import subprocess
import sys
import tempfile
import unittest

from sonde_e2e import exporter, scraper, wait_for
from test_ui import drive, missing

BESIDE_OTHERS = True

CONFIG = '''
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ['{address}']}}]
'''


class UiHealthTest(unittest.TestCase):
    def test_health(self):
        why = missing()
        if why:
            raise unittest.SkipTest(why)
        scratch = tempfile.mkdtemp(prefix='sonde-ui.')
        self.addCleanup(shutil.rmtree, scratch, ignore_errors=True)
        busy = subprocess.Popen([sys.executable, '-c', 'while True: sum(range(10000))'])
        self.addCleanup(busy.wait)
        self.addCleanup(busy.kill)
        with exporter(f'--symbols.cache-path={scratch}/symbols', '--profile.frequency=49', '--profile.max-overhead=0') as e, \
                scraper(CONFIG.format(address=e.url.split('//')[1])) as s, scraper('scrape_configs: []\n') as bare:
            def values(name):
                got = s.get(f'/api/v1/query?query={name}').json['data']['result']
                return {r['metric'].get('reason', ''): float(r['value'][1]) for r in got}
            wait_for('samples since the scrape before', lambda: values('sonde_samples_taken').get('', 0) > 0)
            self.assertEqual(set(values('sonde_samples_dropped')), {'ring_full', 'scratch_busy', 'held_full', 'log_full'})
            self.assertEqual(values('sonde_profile_frequency_hz'), {'': 49})
            self.assertGreater(values('sonde_scrape_watched_seconds')[''], 0)
            self.assertEqual(values('sonde_scrape_lost_seconds'), {'': 0})
            self.assertGreaterEqual(e.metrics()['sonde_drain_samples_total'], values('sonde_samples_taken')[''])
            wait_for('whole stacks', lambda: s.get('/api/v1/label/stack/values?query=process_cpu%7B%7D').json['data'])
            results = drive({'health': {'url': s.url + '/', 'instance': e.url.split('//')[1]}, 'unhealthy': {'url': bare.url + '/'}}, scratch)
        for name, result in results.items():
            with self.subTest(name):
                self.assertNotIn('error', result, result.get('error'))


if __name__ == '__main__':
    unittest.main()
