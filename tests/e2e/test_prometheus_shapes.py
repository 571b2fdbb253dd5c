"""Status endpoints and targets: whatever keys Prometheus answers with, ours are there too and of the same kind."""
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

from sonde_e2e import free_port, http_get, scraper, wait_for

BESIDE_OTHERS = True

PROMETHEUS = '/usr/bin/prometheus'
CONFIG = '''
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: shop
  basic_auth: {username: a, password: s3cret}
  static_configs: [{targets: ["127.0.0.1:1", "b:2"], labels: {team: x}}]
  relabel_configs:
  - {source_labels: [__address__], regex: "b:.*", action: drop}
- job_name: bar
  static_configs: [{targets: ["localhost:1"]}]
'''
PATHS = ['targets', 'targets?state=active', 'targets?state=dropped', 'targets?scrapePool=bar', 'status/config', 'status/flags', 'status/runtimeinfo',
         'status/buildinfo', 'status/tsdb', 'status/walreplay', 'rules', 'alerts', 'labels', 'metadata']
YOUNGER = {  # than the Prometheus of Debian 12
    'status/runtimeinfo': {'hostname': str, 'serverTime': str, 'GOMEMLIMIT': int},
    'status/walreplay': {'state': str},
    'targets': {'droppedTargetCounts': dict},
    'scrape_pools': {'scrapePools': list},
}


def kind(v):
    return 'number' if isinstance(v, (int, float)) and not isinstance(v, bool) else type(v).__name__


def missing(theirs, ours, at=''):
    """Places where ours lacks something or has another kind of value."""
    if kind(theirs) != kind(ours):
        return [] if theirs is None else [f'{at}: {kind(ours)} instead of {kind(theirs)}']
    if isinstance(theirs, dict):
        return [m for k, v in theirs.items() for m in (missing(v, ours[k], f'{at}.{k}') if k in ours else [f'{at}.{k} is missing'])]
    if isinstance(theirs, list) and theirs:
        return missing(theirs[0], ours[0], f'{at}[]') if ours else [f'{at} is empty']
    return []


@unittest.skipUnless(os.path.exists(PROMETHEUS), 'prometheus is not installed')
class ShapesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix='sonde-prometheus.')
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        with open(f'{cls.dir}/p.yml', 'w') as f:
            f.write(CONFIG)
        cls.url = f'http://127.0.0.1:{free_port()}'
        log = open(f'{cls.dir}/log', 'w')
        cls.addClassCleanup(log.close)
        p = subprocess.Popen([PROMETHEUS, f'--config.file={cls.dir}/p.yml', f'--storage.tsdb.path={cls.dir}/data', '--web.enable-lifecycle',
                              f'--web.listen-address={cls.url[7:]}'], stdout=log, stderr=log)
        cls.addClassCleanup(p.wait)
        cls.addClassCleanup(p.kill)
        cls.s = scraper(CONFIG, '--web.enable-lifecycle').__enter__()
        cls.addClassCleanup(cls.s.__exit__, None, None, None)

        def scraped(url):
            def ask():
                try:
                    r = http_get(f'{url}/api/v1/targets')
                except OSError:
                    return False
                return r.status == 200 and [t['health'] for t in r.json['data']['activeTargets']] == ['down', 'down']
            return ask
        for url in (cls.url, cls.s.url):
            wait_for(f'scrapes of {url}', scraped(url))

    def both(self, path, **kw):
        return http_get(f'{self.url}{path}', **kw), http_get(f'{self.s.url}{path}', **kw)

    def test_answers(self):
        for path in PATHS:
            with self.subTest(path):
                theirs, ours = self.both(f'/api/v1/{path}')
                self.assertEqual((theirs.status, ours.status), (200, 200))
                self.assertEqual(ours.headers['Content-Type'].split(';')[0], 'application/json')
                theirs, ours = theirs.json, ours.json
                if path == 'status/flags':  # other programs, other flags
                    self.assertEqual({kind(v) for v in ours['data'].values()}, {'str'})
                    common = {k for k in theirs['data'] if k in ours['data']}
                    self.assertLessEqual({'config.file', 'web.listen-address', 'web.enable-lifecycle', 'web.enable-admin-api', 'web.external-url',
                                          'web.route-prefix', 'web.config.file', 'web.cors.origin', 'log.level', 'query.timeout'}, common)
                    continue
                if path == 'metadata':
                    theirs['data'] = {}
                self.assertEqual(missing(theirs, ours, path), [])

    def test_younger_keys(self):
        for path, keys in YOUNGER.items():
            data = http_get(f'{self.s.url}/api/v1/{path}').json['data']
            for key, of in keys.items():
                self.assertIsInstance(data[key], of, f'{path}: {key}')

    def test_targets(self):
        """The same jobs give the same targets, labels and URLs' hosts."""
        theirs, ours = ({t['scrapePool']: t for t in r.json['data']['activeTargets']} for r in self.both('/api/v1/targets'))
        for pool in ('shop', 'bar'):
            for key in ('labels', 'health', 'scrapeInterval', 'scrapeTimeout', 'scrapePool'):
                self.assertEqual(ours[pool][key], theirs[pool][key], (pool, key))
            hidden = {'__metrics_path__'}  # a profile's path is its type's
            self.assertEqual({k: v for k, v in ours[pool]['discoveredLabels'].items() if k not in hidden},
                             {k: v for k, v in theirs[pool]['discoveredLabels'].items() if k not in hidden})
            self.assertRegex(ours[pool]['lastScrape'], r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$')
            for t in (ours[pool], theirs[pool]):
                self.assertEqual(t['globalUrl'].split('/')[2], f'{socket.gethostname()}:1')
        dropped = [[t['discoveredLabels']['__address__'] for t in r.json['data']['droppedTargets']] for r in self.both('/api/v1/targets')]
        self.assertEqual(dropped, [['b:2'], ['b:2']])
        self.assertNotIn('s3cret', self.s.get('/api/v1/status/config').text)

    def test_lifecycle_and_health(self):
        for path, method, status in (('/-/healthy', 'GET', 200), ('/-/healthy', 'HEAD', 200), ('/-/ready', 'GET', 200), ('/-/ready', 'HEAD', 200),
                                     ('/-/reload', 'GET', 405), ('/-/quit', 'GET', 405), ('/-/reload', 'POST', 200), ('/-/reload', 'PUT', 200),
                                     ('/api/v1/nothing', 'GET', 404), ('/api/v1/admin/tsdb/snapshot', 'GET', 405)):
            with self.subTest(path=path, method=method):
                theirs, ours = self.both(path, method=method)
                self.assertEqual((theirs.status, ours.status), (status, status))

    def test_admin_is_off(self):
        for what in ('snapshot', 'clean_tombstones', 'delete_series?match[]=up'):
            theirs, ours = self.both(f'/api/v1/admin/tsdb/{what}', method='POST')
            self.assertEqual((ours.status, ours.json['errorType']), (503, 'unavailable'))
            self.assertEqual(theirs.json['errorType'], ours.json['errorType'])


if __name__ == '__main__':
    unittest.main()
