"""--config.auto-reload: a changed file, a bad one, a symlink swap as ConfigMaps do, and scrapes that a reload does not end."""
import os
import shutil
import tempfile
import threading
import time
import unittest

from sonde_e2e import Daemon, is_sanitized, stays, wait_for
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

    def scraper(self, interval='200ms'):
        return Daemon('sonde-scraper', f'--config.file={self.dir}/config/main.yml', f'--storage.path={self.dir}/data', '--config.auto-reload',
                      f'--config.auto-reload-interval={interval}')

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
            self.assertEqual(stays('one state of the files is reported once', lambda: d.metrics()['sonde_config_reload_failures_total'], 1), failures)
            self.assertIn('nonsense', d.output())
            self.map.write(main='scrape_configs:\n' + job('d'), jobs1='')
            wait_for('the mended file', lambda: self.pools(d) == {'d'})
            self.assertEqual(d.metrics()['sonde_config_last_reload_successful'], 1)
            stays('unchanged files are not loaded again', lambda: d.metrics()['sonde_config_reloads_total'], 1)

    def test_storm_of_swaps(self):
        """Many swaps a second, of which some lead nowhere and some are bad: what is in force is always one whole set of files."""
        long = '# so that a swap comes between this file and the next\n' * 6000

        def files(n, bad=''):
            sd = '- job_name: sd\n  scrape_interval: 1h\n  file_sd_configs: [{files: [targets.yml]}]\n'
            return {'main': f'scrape_config_files: [jobs.yml]\n{long}scrape_configs:\n{sd}{job(f"a{n}")}{bad}', 'jobs': 'scrape_configs:\n' + job(f'b{n}'),
                    'targets': f'- targets: ["127.0.0.1:{1 + n % 999}"]\n'}

        def swap(over):
            while not over.is_set():
                n = self.map.n + 1
                self.map.write(**files(n, '  nonsense: 1\n' if n % 7 == 0 else ''))
                shutil.rmtree(f'{self.map.dir}/..v{n - 1}')
                if n % 5 == 0:
                    os.symlink('..nowhere', f'{self.map.dir}/..tmp')
                    os.rename(f'{self.map.dir}/..tmp', f'{self.map.dir}/..data')
                time.sleep(0.3 if is_sanitized() else 0.015)  # so many a second make it a storm
        self.map.write(**files(1))
        with self.scraper('100ms') as d:
            def targets():
                return [t['scrapeUrl'] for t in d.get('/api/v1/targets').json['data']['activeTargets'] if t['scrapePool'] == 'sd']
            wait_for('the target of the file', targets)
            descriptors, seen = len(os.listdir(f'/proc/{d.p.pid}/fd')), set()
            over, end = threading.Event(), time.time() + 10

            def look():
                pools = self.pools(d) - {'sd'}
                numbers = {p[1:] for p in pools}
                self.assertEqual((len(numbers), {p[0] for p in pools}), (1, {'a', 'b'}), pools)
                seen.update(numbers)
                self.assertEqual(len(targets()), 1, 'a link that is being swapped took the targets along')
                return time.time() > end and self.map.n > 20 and len(seen) > 3
            storm = threading.Thread(target=swap, args=(over,), daemon=True)
            storm.start()
            try:
                wait_for('changes that got through', look, interval=0)
            finally:
                over.set()
                storm.join()
            last = self.map.n + 1
            self.map.write(**files(last))
            wait_for('the last files', lambda: self.pools(d) == {'sd', f'a{last}', f'b{last}'})
            wait_for('the last target', lambda: f':{1 + last % 999}/' in targets()[0])
            self.assertEqual(d.metrics()['sonde_config_last_reload_successful'], 1)
            self.assertLess(len(os.listdir(f'/proc/{d.p.pid}/fd')), descriptors + 20)

    def test_a_scrape_under_way_is_stored_and_not_waited_for(self):
        asked, go = threading.Event(), threading.Event()

        def slow(handler, body):
            asked.set()
            go.wait(60)
            return None
        with Target(slow) as t:
            self.map.write(main='scrape_configs:\n' + job('slow', t.address, '5s') + '  scrape_timeout: 60s\n')
            with self.scraper() as d:
                self.assertTrue(asked.wait(120))
                self.map.write(main='scrape_configs:\n' + job('slow', t.address, '5s') + '  scrape_timeout: 60s\n  honor_labels: true\n' + job('other'))
                wait_for('the reload', lambda: 'other' in self.pools(d))
                self.assertFalse(go.is_set())
                go.set()
                wait_for('its profile', lambda: any(p['name'] == 'memory' for p in d.get('/api/v1/profile_types').json['data']))


if __name__ == '__main__':
    unittest.main()
