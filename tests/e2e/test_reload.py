"""--config.auto-reload: a changed file, a bad one, a symlink swap as ConfigMaps do, and scrapes that a reload does not end."""
import os
import tempfile
import threading
import time
import unittest

from sonde_e2e import Daemon, wait_for
from test_http_client import Target

BESIDE_OTHERS = True


def job(name, address='127.0.0.1:1', interval='1h'):
    return (f'- job_name: {name}\n  scrape_interval: {interval}\n  static_configs: [{{targets: ["{address}"]}}]\n'
            '  profiling_config: {preset: go, pprof_config: {process_cpu: {enabled: false}, block: {enabled: false}, mutex: {enabled: false}, goroutine: {enabled: false}}}\n')


class ConfigMap:
    """A volume as kubelet writes it: files are links into ..data, which is a link that is swapped."""

    def __init__(self, dir_):
        self.dir = dir_
        self.n = 0

    def write(self, **files):
        self.n += 1
        os.mkdir(f'{self.dir}/..v{self.n}')
        for name, text in files.items():
            with open(f'{self.dir}/..v{self.n}/{name}.yml', 'w') as f:
                f.write(text)
            if not os.path.islink(f'{self.dir}/{name}.yml'):
                os.symlink(f'..data/{name}.yml', f'{self.dir}/{name}.yml')
        os.symlink(f'..v{self.n}', f'{self.dir}/..tmp')
        os.rename(f'{self.dir}/..tmp', f'{self.dir}/..data')


class ReloadTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix='sonde-reload.')
        self.addCleanup(tmp.cleanup)
        self.dir = tmp.name
        os.mkdir(f'{self.dir}/config')
        self.map = ConfigMap(f'{self.dir}/config')

    def scraper(self):
        return Daemon('sonde-scraper', f'--config.file={self.dir}/config/main.yml', f'--storage.path={self.dir}/data', '--config.auto-reload',
                      '--config.auto-reload-interval=200ms')

    def pools(self, d):
        return set(d.get('/api/v1/scrape_pools').json['data']['scrapePools'])

    def test_config_map(self):
        self.map.write(main='scrape_config_files: [jobs*.yml]\nscrape_configs:\n' + job('a'), jobs1='scrape_configs:\n' + job('b'))
        with self.scraper() as d:
            wait_for('the pools', lambda: self.pools(d) == {'a', 'b'})
            self.map.write(main='scrape_config_files: [jobs*.yml]\nscrape_configs:\n' + job('a'), jobs1='scrape_configs:\n' + job('c'))
            wait_for('the change of a named file', lambda: self.pools(d) == {'a', 'c'})
            self.map.write(main='scrape_configs:\n' + job('a') + '  nonsense: 1\n', jobs1='')
            wait_for('the error', lambda: d.metrics()['sonde_config_last_reload_successful'] == 0)
            failures = d.metrics()['sonde_config_reload_failures_total']
            self.assertEqual(self.pools(d), {'a', 'c'})
            time.sleep(1)
            self.assertEqual(d.metrics()['sonde_config_reload_failures_total'], failures, 'one state of the files is reported once')
            self.assertIn('nonsense', d.output())
            self.map.write(main='scrape_configs:\n' + job('d'), jobs1='')
            wait_for('the mended file', lambda: self.pools(d) == {'d'})
            self.assertEqual(d.metrics()['sonde_config_last_reload_successful'], 1)
            n = d.metrics()['sonde_config_reloads_total']
            time.sleep(1)
            self.assertEqual(d.metrics()['sonde_config_reloads_total'], n, 'unchanged files are not loaded again')

    def test_a_scrape_under_way_is_stored_and_not_waited_for(self):
        asked, go = threading.Event(), threading.Event()

        def slow(handler, body):
            asked.set()
            go.wait(60)
            return None
        with Target(slow) as t:
            self.map.write(main='scrape_configs:\n' + job('slow', t.address, '5s') + '  scrape_timeout: 60s\n')
            with self.scraper() as d:
                self.assertTrue(asked.wait(30))
                self.map.write(main='scrape_configs:\n' + job('slow', t.address, '5s') + '  scrape_timeout: 60s\n  honor_labels: true\n' + job('other'))
                wait_for('the reload', lambda: 'other' in self.pools(d))
                self.assertFalse(go.is_set())
                go.set()
                wait_for('its profile', lambda: any(p['name'] == 'memory' for p in d.get('/api/v1/profile_types').json['data']))


if __name__ == '__main__':
    unittest.main()
