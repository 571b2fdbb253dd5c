"""http_sd_configs against a server: groups, changes, failures that keep the last good targets, credentials, and the tool."""
import base64
import json
import os
import tempfile
import unittest

from sonde_e2e import scraper, sonde, wait_for
from test_http_client import Target

BESIDE_OTHERS = True


class Inventory:
    """What the server answers: (status, headers, body) that a test may set."""

    def __init__(self):
        self.answer = None
        self.set([])

    def set(self, groups, status=200, kind='application/json; charset=utf-8'):
        body = groups if isinstance(groups, bytes) else json.dumps(groups).encode()
        self.answer = (status, {'Content-Type': kind, 'Connection': 'close'}, body)

    def __call__(self, handler, body):
        return self.answer


def config(url, keys=''):
    return (f'scrape_configs:\n- job_name: j\n  scrape_interval: 1h\n  http_sd_configs:\n  - url: {url}\n    refresh_interval: 1s\n{keys}')


def targets(s):
    return {t['labels']['instance']: t for t in s.get('/api/v1/targets').json['data']['activeTargets']}


class HttpSdTest(unittest.TestCase):
    def test_groups_changes_and_failures(self):
        inv = Inventory()
        with Target(inv) as server:
            url = f'http://u:s3cret@{server.address}/sd?x=1'
            inv.set([{'targets': ['a:1', 'b:2'], 'labels': {'team': 'x'}}, {'targets': ['c:3']}])
            with scraper(config(url)) as s:
                wait_for('three targets', lambda: set(targets(s)) == {'a:1', 'b:2', 'c:3'})
                a = targets(s)['a:1']
                self.assertEqual(a['labels']['team'], 'x')
                self.assertEqual({k: v for k, v in a['discoveredLabels'].items() if k.startswith('__meta_') or k == 'team'},
                                 {'__meta_url': f'http://u:xxxxx@{server.address}/sd?x=1', 'team': 'x'})
                headers = server.requests[0][2]
                self.assertEqual((headers['Accept'], headers['X-Prometheus-Refresh-Interval-Seconds']), ('application/json', '1'))
                self.assertEqual(headers['Authorization'], 'Basic ' + base64.b64encode(b'u:s3cret').decode())
                inv.set([{'targets': ['b:2', 'd:4']}])
                wait_for('the change', lambda: set(targets(s)) == {'b:2', 'd:4'})

                def failures():
                    return s.metrics()['sonde_discover_refresh_failures_total{kind="http"}']
                for answer in ((b'[', 200), ([], 500), ([], 404), ([{'targets': 5}], 200), ([{'targets': ['z:1'], 'extra': 1}], 200), ([None], 200)):
                    before = failures()
                    inv.set(*answer)
                    wait_for(f'a failure of {answer}', lambda: failures() > before + 1)
                    self.assertEqual(set(targets(s)), {'b:2', 'd:4'}, answer)
                before = failures()
                inv.set([{'targets': ['z:1']}], 200, 'text/html')
                wait_for('a failure', lambda: failures() > before + 1)
                self.assertEqual(set(targets(s)), {'b:2', 'd:4'})
                inv.set([])
                wait_for('no targets', lambda: not targets(s))
                self.assertNotIn('s3cret', s.output() + s.get('/config').text + s.get('/api/v1/status/config').text)

    def test_a_server_that_is_gone_keeps_the_targets(self):
        inv = Inventory()
        inv.set([{'targets': ['a:1']}])
        with Target(inv) as server:
            s = scraper(config(f'http://{server.address}/'))
            with s:
                wait_for('the target', lambda: set(targets(s)) == {'a:1'})
                server.s.shutdown()
                server.s.server_close()
                wait_for('failures', lambda: s.metrics()['sonde_discover_refresh_failures_total{kind="http"}'] >= 2)
                self.assertEqual(set(targets(s)), {'a:1'})

    def test_bytes_that_are_no_utf_8_cost_themselves(self):
        groups = b'[{"targets":["%s:1"],"labels":{"team":"b\xffc\xc3\xa4"}}]'
        inv = Inventory()
        inv.set(groups % b'a')
        with Target(inv) as server, tempfile.TemporaryDirectory() as d:
            for name, text in (('f.json', groups % b'f'), ('g.yml', b'- targets: ["g:1"]\n  labels: {team: "b\xffc"}\n')):
                with open(os.path.join(d, name), 'wb') as f:
                    f.write(text)
            with scraper(config(f'http://{server.address}/', f'  file_sd_configs: [{{files: ["{d}/*.json", "{d}/*.yml"]}}]\n')) as s:
                wait_for('three targets', lambda: set(targets(s)) == {'a:1', 'f:1', 'g:1'})
                self.assertEqual({k: t['labels']['team'] for k, t in targets(s).items()}, {'a:1': 'b\ufffdcä', 'f:1': 'b\ufffdcä', 'g:1': 'b\ufffdc'})
                wait_for('more answers', lambda: s.metrics()['sonde_discover_replaced_bytes_total{kind="http"}'] >= 3)
                self.assertEqual(s.metrics()['sonde_discover_replaced_bytes_total{kind="file"}'], 2)
                said = [line for line in s.output().splitlines() if 'bytes that are no UTF-8' in line]
                self.assertEqual(len(said), 3, said)
                for name in ('f.json', 'g.yml', server.address):
                    self.assertTrue(any(name in line for line in said), (name, said))

    def test_a_failure_is_logged_once(self):
        inv = Inventory()
        inv.set([], 500)
        with Target(inv) as server, scraper(config(f'http://{server.address}/')) as s:
            wait_for('failures', lambda: s.metrics()['sonde_discover_refresh_failures_total{kind="http"}'] >= 3)
            self.assertEqual(s.output().count('discovery failed'), 1, s.output())
            self.assertIn('status 500', s.output())
            inv.set([])
            wait_for('an answer', lambda: 'discovery works again' in s.output())

    def test_check_service_discovery(self):
        inv = Inventory()
        with Target(inv) as server, tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, 'c.yml')
            with open(path, 'w') as f:
                f.write(config(f'http://{server.address}/', '  relabel_configs: [{source_labels: [__meta_url], target_label: from}]\n'))
            inv.set([{'targets': ['a:1']}])
            r = sonde('check', 'service-discovery', path, 'j')
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(json.loads(r.stdout)[0]['labels']['from'], f'http://{server.address}/')
            inv.set([], 503)
            r = sonde('check', 'service-discovery', path, 'j')
            self.assertEqual(r.returncode, 1)
            self.assertIn('status 503', r.stderr)


if __name__ == '__main__':
    unittest.main()
