"""Prometheus's endpoints about jobs, the service-discovery page, and sonde check healthy and ready."""
import os
import unittest
import urllib.parse

from sonde_e2e import free_port, scraper, sonde, wait_for
from test_web_config import Files, Server, TLS, bcrypt

BESIDE_OTHERS = True

CONFIG = '''
scrape_configs:
- job_name: shop
  scrape_interval: 1h
  bearer_token: s3cret
  static_configs: [{targets: ["a:1", "b:2"], labels: {team: x}}]
  relabel_configs:
  - {source_labels: [__address__], regex: "(.*):.*", target_label: host}
  - {source_labels: [host], regex: b, action: drop}
  - {target_label: after, replacement: "yes"}
- job_name: other
  static_configs: []
'''


class PoolsTest(unittest.TestCase):
    def test_endpoints(self):
        with scraper(CONFIG) as s:
            wait_for('targets', lambda: s.get('/api/v1/targets').json['data']['activeTargets'])
            yaml = s.get('/api/v1/scrape_pools/config?scrapePool=shop').json['data']['yaml']
            self.assertIn('job_name: shop', yaml)
            self.assertNotIn('other', yaml)
            self.assertNotIn('s3cret', yaml)
            self.assertEqual(s.get('/api/v1/scrape_pools/config?scrapePool=none').status, 404)
            self.assertEqual(s.get('/api/v1/scrape_pools/config').status, 400)

            def steps(pool, labels):
                return s.get('/api/v1/targets/relabel_steps?' + urllib.parse.urlencode({'scrapePool': pool, 'labels': labels}))
            kept = steps('shop', '{"__address__": "a:1"}').json['data']['steps']
            self.assertEqual([(k['keep'], k['output']) for k in kept], [(True, {'__address__': 'a:1', 'host': 'a'}), (True, {'__address__': 'a:1', 'host': 'a'}),
                                                                       (True, {'__address__': 'a:1', 'after': 'yes', 'host': 'a'})])
            self.assertEqual((kept[0]['rule']['target_label'], kept[0]['rule']['regex'], kept[1]['rule']['action']), ('host', '(.*):.*', 'drop'))
            dropped = steps('shop', '{"__address__": "b:2"}').json['data']['steps']
            self.assertEqual([(d['keep'], d['output']) for d in dropped], [(True, {'__address__': 'b:2', 'host': 'b'}), (False, {}), (False, {})])
            self.assertEqual([d['rule'] for d in dropped], [k['rule'] for k in kept])
            self.assertEqual(steps('other', '{}').json['data']['steps'], [])
            for labels in ('', '[]', '{"a": 1}', '{"": "x"}', '{'):
                self.assertEqual(steps('shop', labels).status, 400, labels)
            self.assertEqual(steps('none', '{}').status, 404)
            self.assertEqual(s.get('/api/v1/status/walreplay').json['data']['state'], 'done')

            page = s.get('/plain/service-discovery').text
            self.assertIn('(1 of 2 active)', page)
            self.assertEqual(s.get('/api/v1/targets').json['data']['droppedTargetCounts'], {'shop': 1, 'other': 0})
            self.assertIn('host=&quot;</span>'.replace('</span>', 'a'), page)
            self.assertIn('<tr class="dropped">', page)
            self.assertIn('__address__=&quot;b:2', page)

    def test_dropped_are_counted(self):
        """All of them, also those that keep_dropped_targets does not keep."""
        with scraper('''
scrape_configs:
- job_name: shop
  keep_dropped_targets: 1
  static_configs: [{targets: ["a:1", "b:2", "b:3", "b:4"]}]
  relabel_configs: [{source_labels: [__address__], regex: "b.*", action: drop}]
''') as s:
            wait_for('targets', lambda: s.get('/api/v1/targets').json['data']['activeTargets'])
            data = s.get('/api/v1/targets?state=dropped').json['data']
            self.assertEqual(([t['discoveredLabels']['__address__'] for t in data['droppedTargets']], data['droppedTargetCounts']), (['b:2'], {'shop': 3}))
            self.assertIn('(1 of 4 active)', s.get('/plain/service-discovery').text)

    def test_check_healthy_and_ready(self):
        with scraper(CONFIG) as s:
            for what in ('healthy', 'ready'):
                r = sonde('check', what, '--url', s.url + '/')
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn(what, r.stdout)
        r = sonde('check', 'ready', '--url', f'http://127.0.0.1:{free_port()}')
        self.assertEqual(r.returncode, 1)
        self.assertTrue(r.stderr.strip())

    def test_http_config_file(self):
        f = Files()
        self.addCleanup(f.close)
        with Server(f, TLS + f'basic_auth_users: {{alice: "{bcrypt("secret")}"}}\n') as d:
            url = f'https://127.0.0.1:{d.port}'
            r = sonde('check', 'healthy', '--url', url)
            self.assertEqual(r.returncode, 1)
            self.assertIn('certificate', r.stderr.lower())
            client = os.path.join(f.dir, 'client.yml')
            with open(client, 'w') as out:
                out.write('tls_config: {ca_file: ca.pem}\nbasic_auth: {username: alice, password_file: password}\n')
            with open(os.path.join(f.dir, 'password'), 'w') as out:
                out.write('secret\n')
            r = sonde('check', 'healthy', '--url', url, '--http.config.file', client)
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(os.path.join(f.dir, 'password'), 'w') as out:
                out.write('wrong')
            r = sonde('check', 'healthy', '--url', url, '--http.config.file', client)
            self.assertEqual(r.returncode, 1)
            self.assertIn('401', r.stderr)
            with open(client, 'w') as out:
                out.write('basic_auth: {user: alice}\n')
            r = sonde('check', 'healthy', '--url', url, '--http.config.file', client)
            self.assertIn('client.yml:1:14: basic_auth.user: unknown key', r.stderr)


if __name__ == '__main__':
    unittest.main()
