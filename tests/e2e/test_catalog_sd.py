"""consul_sd_configs and nomad_sd_configs against a server with their blocking queries: changes, an index that goes backwards, errors, slow answers."""
import http.server
import json
import threading
import time
import unittest
import urllib.parse

from sonde_e2e import scraper, stays, wait_for
from test_http_client import Target

BESIDE_OTHERS = True


class Catalog:
    """Values by path. A query with `index` waits, like the real ones, until the value is newer than that. A value may be a status as int."""

    def __init__(self, header):
        self.changed = threading.Condition()
        self.values, self.indexes, self.asked, self.slow_s = {}, {}, [], 0
        self.last = 10
        catalog = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                u = urllib.parse.urlsplit(self.path)
                path, query = urllib.parse.unquote(u.path), urllib.parse.parse_qs(u.query, keep_blank_values=True)
                with catalog.changed:
                    catalog.asked.append((path, query, self.headers))
                    if 'index' in query:
                        known, end = int(query['index'][0]), time.time() + 60
                        while catalog.indexes.get(path, 1) == known and not isinstance(catalog.values.get(path), int) and time.time() < end:
                            catalog.changed.wait(1)
                    value, index = catalog.values.get(path, []), catalog.indexes.get(path, 1)
                time.sleep(catalog.slow_s)  # how slow the catalog is
                body = b'rpc error: No cluster leader' if isinstance(value, int) else json.dumps(value).encode()
                self.send_response(value if isinstance(value, int) else 200)
                if header and not isinstance(value, int):
                    self.send_header(header, str(index))
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *args):
                pass

        self.s = Server(('127.0.0.1', 0), Handler)
        self.address = f'127.0.0.1:{self.s.server_address[1]}'
        threading.Thread(target=self.s.serve_forever, daemon=True).start()

    def set(self, path, value, index=None):
        with self.changed:
            self.last += 1
            self.values[path], self.indexes[path] = value, self.last if index is None else index
            self.changed.notify_all()

    def queries(self, path):
        with self.changed:
            return [q for p, q, _ in self.asked if p == path]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.s.shutdown()
        self.s.server_close()


def targets(s):
    return {t['labels']['instance']: {k[7:]: v for k, v in t['discoveredLabels'].items() if k.startswith('__meta_')}
            for t in s.get('/api/v1/targets').json['data']['activeTargets']}


def failures(s, kind):
    # Not there before the first discovery has begun.
    return s.metrics().get(f'sonde_discover_refresh_failures_total{{kind="{kind}"}}', 0)


def config(kind, keys, refresh='1s'):
    return f'scrape_configs:\n- job_name: j\n  scrape_interval: 1h\n  {kind}_sd_configs:\n  - {{refresh_interval: {refresh}, {keys}}}\n'


def instance(service, address='', port=80, status='passing', tags=('a', 'b'), check_id='service:x'):
    """As `GET /v1/health/service/<name>` has it."""
    return {'Node': {'ID': 'uuid', 'Node': 'node1', 'Address': '10.1.1.1', 'Datacenter': 'dc1', 'TaggedAddresses': {'lan': '10.1.1.1', 'wan-ip': '1.2.3.4'},
                     'Meta': {'rack-id': 'r1'}, 'CreateIndex': 5, 'ModifyIndex': 6},
            'Service': {'ID': service + '-1', 'Service': service, 'Tags': list(tags), 'Address': address, 'Port': port, 'Meta': {'profile.path': '/x'},
                        'Weights': {'Passing': 1, 'Warning': 1}, 'Namespace': 'ns1', 'Partition': 'p1'},
            'Checks': [{'Node': 'node1', 'CheckID': 'serfHealth', 'Status': 'passing'}, {'Node': 'node1', 'CheckID': check_id, 'Status': status}]}


SELF, LIST, WEB, API = '/v1/agent/self', '/v1/catalog/services', '/v1/health/service/web', '/v1/health/service/api v2'


class ConsulSdTest(unittest.TestCase):
    def setUp(self):
        self.c = self.enterContext(Catalog('X-Consul-Index'))
        self.c.set(SELF, {'Config': {'Datacenter': 'dc9', 'NodeName': 'n'}, 'Member': {}})
        self.c.set(LIST, {'web': ['a', 'b'], 'api v2': []})
        self.c.set(WEB, [instance('web', '10.2.2.2', 8080)])
        self.c.set(API, [instance('api v2', '', 9090, 'critical', ())])

    def scraper(self, keys='', refresh='1s'):
        return scraper(config('consul', f'server: "{self.c.address}"' + keys, refresh))

    def test_labels_and_changes(self):
        with self.scraper() as s:
            wait_for('two targets', lambda: set(targets(s)) == {'10.2.2.2:8080', '10.1.1.1:9090'})
            self.assertEqual(targets(s)['10.2.2.2:8080'], {
                'consul_address': '10.1.1.1', 'consul_node': 'node1', 'consul_namespace': 'ns1', 'consul_partition': 'p1', 'consul_tags': ',a,b,', 'consul_service': 'web',
                'consul_service_address': '10.2.2.2', 'consul_service_port': '8080', 'consul_service_id': 'web-1', 'consul_health': 'passing', 'consul_dc': 'dc9',
                'consul_metadata_rack_id': 'r1', 'consul_service_metadata_profile_path': '/x', 'consul_tagged_address_lan': '10.1.1.1',
                'consul_tagged_address_wan_ip': '1.2.3.4'})
            self.assertEqual(targets(s)['10.1.1.1:9090'], {
                'consul_address': '10.1.1.1', 'consul_node': 'node1', 'consul_namespace': 'ns1', 'consul_partition': 'p1', 'consul_tags': ',,', 'consul_service': 'api v2',
                'consul_service_port': '9090', 'consul_service_id': 'api v2-1', 'consul_health': 'critical', 'consul_dc': 'dc9', 'consul_metadata_rack_id': 'r1',
                'consul_service_metadata_profile_path': '/x', 'consul_tagged_address_lan': '10.1.1.1', 'consul_tagged_address_wan_ip': '1.2.3.4'})
            self.assertEqual(self.c.queries(WEB)[0], {'stale': ['']})
            wait_for('a blocking query', lambda: any(q.get('wait') == ['120s'] and 'index' in q for q in self.c.queries(WEB)))
            self.c.set(WEB, [instance('web', '10.2.2.3', 8080, check_id='_service_maintenance:web', status='critical')])
            wait_for('the change', lambda: set(targets(s)) == {'10.2.2.3:8080', '10.1.1.1:9090'})
            self.assertEqual(targets(s)['10.2.2.3:8080']['consul_health'], 'maintenance')
            self.c.set(LIST, {'web': ['a', 'b']})
            wait_for('a service less', lambda: set(targets(s)) == {'10.2.2.3:8080'})
            self.assertEqual(failures(s, 'consul'), 0)

    def test_it_waits_instead_of_asking(self):
        with self.scraper(refresh='50ms') as s:
            wait_for('two targets', lambda: len(targets(s)) == 2)
            wait_for('blocking queries', lambda: all('index' in self.c.queries(p)[-1] for p in (LIST, WEB, API)))
            stays('it does not ask', lambda: len(self.c.asked), 2)

    def test_index_goes_backwards(self):
        with self.scraper() as s:
            wait_for('two targets', lambda: len(targets(s)) == 2)
            wait_for('a blocking query', lambda: 'index' in self.c.queries(WEB)[-1])
            self.c.set(WEB, [instance('web', '10.2.2.4', 8080)], index=3)  # a restored snapshot
            wait_for('the change', lambda: '10.2.2.4:8080' in targets(s))
            n = len(self.c.queries(WEB))
            wait_for('the next query', lambda: len(self.c.queries(WEB)) > n or 'index' not in self.c.queries(WEB)[-1])
            self.assertTrue(any('index' not in q for q in self.c.queries(WEB)[1:]), self.c.queries(WEB))
            self.c.set(WEB, [instance('web', '10.2.2.5', 8080)], index=4)
            wait_for('the next change', lambda: '10.2.2.5:8080' in targets(s))

    def test_errors_keep_the_targets(self):
        with self.scraper() as s:
            wait_for('two targets', lambda: len(targets(s)) == 2)
            self.c.set(WEB, 500)
            wait_for('failures', lambda: failures(s, 'consul') >= 2)
            self.c.set(LIST, 503)
            before = failures(s, 'consul')
            wait_for('failures of both', lambda: failures(s, 'consul') >= before + 4)
            self.assertEqual(set(targets(s)), {'10.2.2.2:8080', '10.1.1.1:9090'})
            self.c.set(LIST, {'web': []})
            self.c.set(WEB, [instance('web', '10.2.2.6', 1)])
            wait_for('all well again', lambda: set(targets(s)) == {'10.2.2.6:1'})

    def test_agent_that_comes_late_and_is_slow(self):
        self.c.set(SELF, 500)
        with self.scraper() as s:
            wait_for('failures', lambda: failures(s, 'consul') >= 2)
            self.assertEqual(self.c.queries(LIST), [])
            self.c.slow_s = 2
            self.c.set(SELF, {'Config': {'Datacenter': 'dc9'}})
            wait_for('two targets', lambda: len(targets(s)) == 2)

    def test_selection(self):
        keys = (', token: s3cret, datacenter: dc2, namespace: team, partition: part, services: [web, other], tags: [a], node_meta: {rack-id: r1},'
                ' filter: \'ServiceName != "x y"\', health_filter: \'Service.Port == 1\', allow_stale: false, tag_separator: ";"')
        self.c.set(LIST, {'web': ['a', 'b'], 'other': ['b'], 'third': ['a']})
        with self.scraper(keys) as s:
            wait_for('the target', lambda: set(targets(s)) == {'10.2.2.2:8080'})
            t = targets(s)['10.2.2.2:8080']
            self.assertEqual((t['consul_tags'], t['consul_dc']), (';a;b;', 'dc2'))
            common = {'dc': ['dc2'], 'ns': ['team'], 'partition': ['part'], 'node-meta': ['rack-id:r1']}
            self.assertEqual(self.c.queries(LIST)[0], {**common, 'filter': ['ServiceName != "x y"']})
            self.assertEqual(self.c.queries(WEB)[0], {**common, 'tag': ['a'], 'filter': ['Service.Port == 1']})
            self.assertEqual({p for p, _, _ in self.c.asked}, {LIST, WEB})
            self.assertEqual({h['X-Consul-Token'] for _, _, h in self.c.asked}, {'s3cret'})
            self.assertNotIn('s3cret', s.output() + s.get('/plain/config').text)

    def test_the_token_stays_with_its_server(self):
        with Target(lambda h, body: (307, {'Location': f'http://localhost:{self.c.s.server_address[1]}{h.path}'}, b'')) as first:
            with scraper(config('consul', f'server: "{first.address}", token: s3cret, http_headers: {{X-Open: {{values: [o]}}}}')) as s:
                wait_for('two targets', lambda: len(targets(s)) == 2)
                self.assertEqual({(r[2]['X-Consul-Token'], r[2]['X-Open']) for r in first.requests}, {('s3cret', 'o')})
                self.assertEqual({(h['X-Consul-Token'], h['X-Open']) for _, _, h in self.c.asked}, {(None, 'o')})

    def test_named_services_need_no_list(self):
        with self.scraper(', services: [web]') as s:
            wait_for('the target', lambda: set(targets(s)) == {'10.2.2.2:8080'})
            self.assertEqual(self.c.queries(LIST), [])


class NomadSdTest(unittest.TestCase):
    def test_all(self):
        def service(address, tags):
            return {'Address': address, 'AllocID': 'alloc', 'CreateIndex': 1, 'Datacenter': 'dc1', 'ID': '_nomad-task-1', 'JobID': 'job', 'Namespace': 'team',
                    'NodeID': 'node-uuid', 'Port': 27660, 'ServiceName': 'web', 'Tags': tags}
        with Catalog('X-Nomad-Index') as c:
            c.set('/v1/services', [{'Namespace': 'team', 'Services': [{'ServiceName': 'web', 'Tags': ['a']}]}])
            c.set('/v1/service/web', [service('10.0.0.1', ['a', 'b'])])
            with scraper(config('nomad', f'server: "http://{c.address}/", region: eu, namespace: team')) as s:
                wait_for('the target', lambda: set(targets(s)) == {'10.0.0.1:27660'})
                self.assertEqual(targets(s)['10.0.0.1:27660'], {
                    'nomad_address': '10.0.0.1', 'nomad_dc': 'dc1', 'nomad_namespace': 'team', 'nomad_node_id': 'node-uuid', 'nomad_service': 'web',
                    'nomad_service_address': '10.0.0.1', 'nomad_service_id': '_nomad-task-1', 'nomad_service_port': '27660', 'nomad_tags': ',a,b,'})
                self.assertEqual(c.queries('/v1/services')[0], {'region': ['eu'], 'namespace': ['team'], 'stale': ['']})
                c.set('/v1/service/web', [service('10.0.0.2', [])])
                wait_for('the change', lambda: set(targets(s)) == {'10.0.0.2:27660'})
                self.assertNotIn('nomad_tags', targets(s)['10.0.0.2:27660'])
                for address, index in (('10.0.0.3', 3), ('10.0.0.4', 4)):  # a restored snapshot, and what follows it
                    c.set('/v1/service/web', [service(address, [])], index)
                    wait_for('the change', lambda a=address: set(targets(s)) == {f'{a}:27660'})
                self.assertTrue(any('index' not in q for q in c.queries('/v1/service/web')[1:]), c.queries('/v1/service/web'))
                self.assertEqual(failures(s, 'nomad'), 0)
                c.slow_s = 2
                c.set('/v1/service/web', [service('10.0.0.2', [])])
                wait_for('the slow answer', lambda: set(targets(s)) == {'10.0.0.2:27660'})
                c.slow_s = 0
                c.set('/v1/service/web', 500)
                wait_for('failures', lambda: failures(s, 'nomad') >= 2)
                self.assertEqual(set(targets(s)), {'10.0.0.2:27660'})
                c.set('/v1/services', [], index=2)
                wait_for('no targets', lambda: not targets(s))


if __name__ == '__main__':
    unittest.main()
