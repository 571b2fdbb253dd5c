"""Service discovery as Prometheus 3.16 has it: right values for what its providers do at the edges, and, where its Go module can be had, all labels of the same
servers compared with its own code."""
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
import unittest

import go_modules
from sonde_e2e import sonde
from test_catalog_sd import LIST, SELF, Catalog, instance
from test_docker_sd import CONTAINERS, NETWORKS, Engine, container
from test_http_client import Target
from test_kubernetes_sd import NAMESPACE, NODE, POD, Api, obj, pod

BESIDE_OTHERS = True

MODULES = ('github.com/prometheus/prometheus@v0.316.0', 'github.com/prometheus/prometheus/discovery/kubernetes@v0.316.0', 'gopkg.in/yaml.v2@v2.4.0')
TIMEOUT_S = 60


def oracle():
    """The program around Prometheus's module, or why there is none."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'discovery_oracle.go')) as f:
        source = f.read()
    try:
        return go_modules.build('discovery-oracle', source, *MODULES), None
    except unittest.SkipTest as e:
        return None, str(e)


def ours(sd):
    """[labels] of each target that `sonde check service-discovery` finds: its address and what discovery says of it."""
    with tempfile.TemporaryDirectory() as d:
        path = f'{d}/c.yml'
        with open(path, 'w') as f:
            f.write(f'scrape_configs:\n- job_name: j\n  {sd}\n  relabel_configs: [{{target_label: __address__, replacement: "h:1"}}]\n')
        r = sonde('check', 'service-discovery', path, 'j')
    if r.returncode:
        raise AssertionError(r.stderr)
    own = ('job', '__scrape_interval__', '__scrape_timeout__', '__metrics_path__', '__scheme__')  # of the job, not of discovery
    return [{k: v for k, v in t['discoveredLabels'].items() if k not in own} for t in json.loads(r.stdout)]


def in_order(found):
    return sorted(found, key=lambda labels: sorted(labels.items()))


class SdTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.program, cls.why_not = oracle()

    def theirs(self, sd, want):
        """What Prometheus finds, once it is `want` or nothing has changed for long."""
        p = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines, found, end = queue.Queue(), None, time.time() + TIMEOUT_S
        reader = threading.Thread(target=lambda: [lines.put(line) for line in p.stdout])
        reader.start()
        try:
            p.stdin.write(sd + '\n')
            p.stdin.close()
            while found != want and time.time() < end:
                try:
                    line = lines.get(timeout=1)
                except queue.Empty:
                    continue
                if line.startswith('refused'):
                    raise AssertionError(line)
                found = in_order(json.loads(line))
        finally:
            p.kill()
            p.wait()
            reader.join()
            p.stdout.close()
        return found

    def compare(self, sd, want):
        """`want`: {address: some of its labels}, of all targets; a list of pairs where addresses are not alone."""
        found = in_order(ours(sd))
        pairs = list(want.items()) if isinstance(want, dict) else want
        self.assertEqual(sorted(t.get('__address__', '') for t in found), sorted(address for address, _ in pairs), found)
        for address, labels in pairs:
            self.assertTrue(any(t.get('__address__', '') == address and labels.items() <= t.items() for t in found), (address, labels, found))
        if self.program:
            # A ReplicaSet that comes to Prometheus after its pod makes it look at no pod again, so whether it has the deployment's name is chance.
            for _ in range(3):
                theirs = self.theirs(sd, found)
                if theirs == found:
                    break
            self.assertEqual(found, theirs)
        return found

    def test_oracle(self):
        if not self.program:
            self.skipTest(self.why_not)

    # ---- Kubernetes ----

    def kubernetes(self, api, role, want, keys='', server=None):
        return self.compare(f'kubernetes_sd_configs: [{{role: {role}, api_server: "{server or api.url}"{keys}}}]', want)

    def slices(self, **spec):
        """The two slices of a service with one pod, and that service."""
        def one(name, family, address):
            return obj(name, labels={'kubernetes.io/service-name': 'api'}, addressType=family, ports=[{'name': 'http', 'port': 8080, 'protocol': 'TCP'}],
                       endpoints=[{'addresses': [address], 'conditions': {'ready': True}, 'targetRef': {'kind': 'Pod', 'namespace': 'web', 'name': 'p'}}])
        return obj('api', spec={'ports': [{'port': 80}], **spec}), one('api-4', 'IPv4', '10.0.0.5'), one('api-6', 'IPv6', 'fd00::5')

    def test_dual_stack(self):
        both, four, six = {'10.0.0.5:8080': {}, '[fd00::5]:8080': {}}, {'10.0.0.5:8080': {}}, {'[fd00::5]:8080': {}}
        for spec, want in (({'ipFamilyPolicy': 'PreferDualStack', 'ipFamilies': ['IPv4', 'IPv6']}, four),
                           ({'ipFamilyPolicy': 'RequireDualStack', 'ipFamilies': ['IPv6', 'IPv4']}, six),
                           ({'ipFamilyPolicy': 'SingleStack', 'ipFamilies': ['IPv4']}, both), ({'ipFamilyPolicy': 'PreferDualStack'}, both), ({}, both)):
            with self.subTest(spec), Api() as api:
                service, a, b = self.slices(**spec)
                api.put('pods', pod('p', '10.0.0.5'))
                api.put('services', service)
                api.put('endpointslices', a, b, obj('alone', addressType='IPv6', ports=[{'port': 1}], endpoints=[{'addresses': ['fd00::9']}]))
                self.kubernetes(api, 'endpointslice', {**want, '[fd00::9]:1': {}})

    def test_ingress_rules(self):
        with Api() as api:
            api.put('ingresses', obj('web', spec={'tls': [{'hosts': ['*.example.com']}], 'rules': [
                {'host': 'a.example.com', 'http': {'paths': [{'path': '/x', 'pathType': 'Prefix', 'backend': {}}, {'pathType': 'Prefix', 'backend': {}}]}},
                {'host': 'b.c.example.com'}, {'host': 'empty.example.com', 'http': {'paths': []}}, {'host': 'null.example.com', 'http': None}, {}]}),
                obj('none', spec={'defaultBackend': {}}))
            path, scheme = '__meta_kubernetes_ingress_path', '__meta_kubernetes_ingress_scheme'
            self.kubernetes(api, 'ingress', [('a.example.com', {path: '/x', scheme: 'https'}), ('a.example.com', {path: '/'}), ('b.c.example.com', {path: '/', scheme: 'http'}),
                                             ('null.example.com', {path: '/', scheme: 'https'}), ('', {path: '/', scheme: 'http'})])

    def test_load_balancers(self):
        def service(name, status=None, **spec):
            return obj(name, spec={'type': 'LoadBalancer', 'clusterIP': '10.1.0.1', 'ports': [{'port': 80, 'protocol': 'TCP'}], **spec}, status=status or {})
        ip = '__meta_kubernetes_service_loadbalancer_ip'
        with Api() as api:
            api.put('services', service('old', loadBalancerIP='1.2.3.4'), service('one', {'loadBalancer': {'ingress': [{'ip': '5.6.7.8'}]}}, loadBalancerIP='1.2.3.4'),
                    service('two', {'loadBalancer': {'ingress': [{'ip': '5.6.7.8'}, {'hostname': 'h'}, {'ip': 'fd00::1'}]}}),
                    service('name', {'loadBalancer': {'ingress': [{'hostname': 'h'}]}}))
            found = self.kubernetes(api, 'service', {'old.web.svc:80': {ip: '1.2.3.4'}, 'one.web.svc:80': {ip: '5.6.7.8'}, 'two.web.svc:80': {ip: '5.6.7.8,fd00::1'},
                                                     'name.web.svc:80': {}})
            self.assertNotIn(ip, [t for t in found if t['__address__'] == 'name.web.svc:80'][0])

    def test_server_without_a_scheme(self):
        with Api() as api:
            api.put('nodes', NODE)
            self.kubernetes(api, 'node', {'192.168.0.1:10250': {'__meta_kubernetes_node_name': 'n1'}}, server=api.url.replace('http://127.0.0.1', 'localhost'))

    def test_all_roles(self):
        with Api() as api:
            api.put('pods', POD, pod('v6', 'fd00::7'), obj('pending', spec={'containers': [{'name': 'c'}]}, status={'phase': 'Pending'}))
            api.put('nodes', NODE)
            api.put('namespaces', NAMESPACE)
            api.put('replicasets', obj('api-7d9', owner=('Deployment', 'api')))
            api.put('services', obj('api', labels={'tier': 'front'}, spec={'type': 'ExternalName', 'externalName': 'x.example', 'ports': [{'port': 1, 'name': 'a', 'protocol': 'TCP'}]}))
            api.put('endpoints', obj('api', subsets=[{'addresses': [{'ip': '10.0.0.1', 'nodeName': 'n1', 'hostname': 'h', 'targetRef': {'kind': 'Pod', 'namespace': 'web', 'name': 'api-1'}}],
                                                      'notReadyAddresses': [{'ip': '10.0.0.9'}], 'ports': [{'name': 'debug', 'port': 6060, 'protocol': 'TCP'}]}]))
            service, a, _ = self.slices()
            api.put('endpointslices', a)
            attach = ', attach_metadata: {node: true, namespace: true, deployment: true}'
            self.kubernetes(api, 'pod', {'10.0.0.1:8080': {}, '10.0.0.1:6060': {}, '10.0.0.1:7000': {}, '10.0.0.1': {}, '[fd00::7]:8080': {}}, attach)
            self.kubernetes(api, 'node', {'192.168.0.1:10250': {}})
            self.kubernetes(api, 'service', {'api.web.svc:1': {}}, ', attach_metadata: {namespace: true}')
            self.kubernetes(api, 'endpoints', {'10.0.0.1:6060': {}, '10.0.0.9:6060': {}, '10.0.0.1:8080': {}, '10.0.0.1:7000': {}}, attach)
            self.kubernetes(api, 'endpointslice', {'10.0.0.5:8080': {}}, attach)

    # ---- Docker ----

    def test_docker(self):
        six = container('six', {'v6': ''}, [(8080, 'tcp', 80, '::'), (8080, 'tcp', 80, '0.0.0.0')])
        bare = container('bare', {'v6': ''})
        for c, ip in ((six, 'fd00::2'), (bare, 'fd00::3')):
            c['NetworkSettings']['Networks']['v6']['GlobalIPv6Address'] = ip
        both = container('both', {'v6': '172.17.0.9'}, [(1, 'tcp')])
        both['NetworkSettings']['Networks']['v6']['GlobalIPv6Address'] = 'fd00::4'
        with Engine(('127.0.0.1', 0)) as engine:
            engine.lists = {'/containers/json': CONTAINERS[:2] + CONTAINERS[3:4] + [six, bare, both], '/networks': NETWORKS}
            # Docker's own client asks under its version of the API
            for path in list(engine.lists):
                engine.lists.update({f'/v1.{minor}{path}': engine.lists[path] for minor in range(24, 70)})
            ip, private = '__meta_docker_network_ip', '__meta_docker_port_private'
            self.compare(f'docker_sd_configs: [{{host: "http://127.0.0.1:{engine.s.server_address[1]}", refresh_interval: 1s}}]', [
                ('[fd00::2]:8080', {ip: 'fd00::2', private: '8080', '__meta_docker_port_public_ip': '::'}), ('[fd00::2]:8080', {'__meta_docker_port_public_ip': '0.0.0.0'}),
                ('[fd00::3]:80', {ip: 'fd00::3'}), ('172.17.0.9:1', {ip: '172.17.0.9'}), ('10.5.0.2:8080', {}), ('10.5.0.2:9000', {}), ('172.17.0.3:80', {}), ('localhost', {})])

    # ---- Consul ----

    def test_consul(self):
        with Catalog('X-Consul-Index') as c:
            c.set(SELF, {'Config': {'Datacenter': 'dc9'}, 'Member': {}})
            c.set(LIST, {'web': ['a', 'b']})
            for name, states in (('web', ('passing', 'odd')), ('db', ('critical',)), ('api', ('warning',))):
                c.set(f'/v1/health/service/{name}', [instance(name, f'10.2.2.{i}', 80, state) for i, state in enumerate(states)])
            health, keys = '__meta_consul_health', f'consul_sd_configs: [{{server: "{c.address}", refresh_interval: 1s, '
            found = self.compare(keys + 'services: [web]}]', {'10.2.2.0:80': {health: 'passing'}, '10.2.2.1:80': {}})
            self.assertNotIn(health, found[1])
            self.compare(keys + 'services: [db, api]}]', [('10.2.2.0:80', {health: 'critical'}), ('10.2.2.0:80', {health: 'warning'})])
            # the list is asked with the filter, and of the services named those it has are watched
            self.compare(keys + """services: [web, db], filter: 'Service.Tags contains "a"'}]""", {'10.2.2.0:80': {}, '10.2.2.1:80': {}})
            self.assertIn(['Service.Tags contains "a"'], [q.get('filter') for q in c.queries(LIST)])

    # ---- HTTP and files ----

    GROUPS = [{'TARGETS': ['a:1', ''], 'Labels': {'Team': 'x', 'tEAM': 'y'}}, {'targets': ['b:1'], 'labels': None}, {'Targets': ['c:1'], 'targets': ['d:1']}, {'labels': {'a': 'b'}}]

    def test_http(self):
        body = json.dumps(self.GROUPS).encode()
        with Target(lambda handler, _: (200, {'Content-Type': 'application/json; charset=utf-8'}, body)) as t:
            self.compare(f'http_sd_configs: [{{url: "http://{t.address}/x", refresh_interval: 1s}}]', {'a:1': {'__meta_url': f'http://{t.address}/x'}, '': {}, 'b:1': {}, 'd:1': {}})

    def test_files(self):
        with tempfile.TemporaryDirectory() as d:
            with open(f'{d}/t.json', 'w') as f:
                json.dump(self.GROUPS, f)
            with open(f'{d}/t.yml', 'w') as f:
                f.write('- targets: ["e:1", ""]\n  labels: {a: b}\n')
            self.compare(f'file_sd_configs: [{{files: ["{d}/t.*ml", "{d}/t.json"]}}]'.replace('t.*ml', 't.yml'),
                         [('a:1', {}), ('', {}), ('b:1', {}), ('d:1', {}), ('e:1', {}), ('', {})])

    def test_static(self):
        self.compare('static_configs: [{targets: ["a:1", ""], labels: {x: y}}]', {'a:1': {}, '': {}})


if __name__ == '__main__':
    unittest.main()
