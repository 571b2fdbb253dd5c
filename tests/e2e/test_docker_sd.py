"""docker_sd_configs and dockerswarm_sd_configs against a server that speaks the Docker Engine API, on a Unix socket, over TCP and TLS."""
import http.server
import json
import os
import socketserver
import ssl
import tempfile
import threading
import unittest
import urllib.parse

from sonde_e2e import scraper, sonde, wait_for
from test_web_config import Files

BESIDE_OTHERS = True


class Engine:
    """Lists by path, or a status as int. `address` is a path or ('127.0.0.1', 0)."""

    def __init__(self, address, context=None):
        self.lists, self.asked = {}, []
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                u = urllib.parse.urlsplit(self.path)
                engine.asked.append((u.path, urllib.parse.parse_qs(u.query)))
                answer = engine.lists.get(u.path, 404)
                status, body = (answer, {'message': 'page not found'}) if isinstance(answer, int) else (200, answer)
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def address_string(self):
                return 'client'

            def log_message(self, *args):
                pass

        class Unix(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        class Tcp(http.server.ThreadingHTTPServer):
            def handle_error(self, *args):
                pass

        self.s = (Unix if isinstance(address, str) else Tcp)(address, Handler)
        if context:
            self.s.socket = context.wrap_socket(self.s.socket, server_side=True)
        threading.Thread(target=self.s.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.s.shutdown()
        self.s.server_close()


def container(name, networks, ports=(), mode='bridge', **labels):
    """As `GET /containers/json` of Engine 24.0 has it, without what nobody reads here."""
    return {'Id': name * 8, 'Names': ['/' + name], 'Image': f'{name}:1', 'ImageID': 'sha256:' + name, 'Command': 'run', 'Created': 1700000000,
            'Ports': [dict(zip(('PrivatePort', 'Type', 'PublicPort', 'IP'), p)) for p in ports], 'Labels': labels, 'State': 'running', 'Status': 'Up 2 hours',
            'HostConfig': {'NetworkMode': mode}, 'Mounts': [],
            'NetworkSettings': {'Networks': {n: {'IPAMConfig': None, 'NetworkID': 'id-' + n, 'EndpointID': 'e', 'Gateway': '172.17.0.1', 'IPAddress': ip,
                                                 'IPPrefixLen': 16, 'GlobalIPv6Address': ''} for n, ip in networks.items()}}}


NETWORKS = [{'Name': n, 'Id': 'id-' + n, 'Created': '2024-01-01T00:00:00Z', 'Scope': 'local', 'Driver': 'bridge', 'EnableIPv6': False, 'Internal': n == 'back',
             'Attachable': False, 'Ingress': False, 'Containers': {}, 'Options': {}, 'Labels': {'net.zone': n}} for n in ('bridge', 'back', 'host')]
CONTAINERS = [
    container('web', {'bridge': '172.17.0.2', 'back': '10.5.0.2'}, [(8080, 'tcp', 80, '0.0.0.0'), (9000, 'tcp'), (53, 'udp')], **{'com.example/team': 'a', 'é/x': 'u'}),
    container('plain', {'bridge': '172.17.0.3'}),
    container('side', {}, [(7000, 'tcp')], mode='container:' + 'web' * 8),
    container('metal', {'host': ''}, mode='host'),
    container('loop', {}, mode='container:' + 'loop' * 8),
]


def config(kind, host, keys='', pool='j'):
    return f'scrape_configs:\n- job_name: {pool}\n  scrape_interval: 1h\n  {kind}_sd_configs:\n  - {{host: "{host}", refresh_interval: 1s{keys}}}\n'


def targets(s):
    return {t['labels']['instance']: {k[7:]: v for k, v in t['discoveredLabels'].items() if k.startswith('__meta_')}
            for t in s.get('/api/v1/targets').json['data']['activeTargets']}


class DockerSdTest(unittest.TestCase):
    def setUp(self):
        self.dir = self.enterContext(tempfile.TemporaryDirectory())
        self.socket = os.path.join(self.dir, 'docker.sock')

    def test_a_socket_that_is_not_there_is_named(self):
        path = f'{self.dir}/f.yml'
        with open(path, 'w') as f:
            f.write(f'scrape_configs:\n- job_name: j\n  docker_sd_configs: [{{host: "unix://{self.socket}"}}]\n')
        r = sonde('check', 'service-discovery', path, 'j')
        self.assertEqual((r.returncode, r.stderr), (1, f'docker_sd unix://{self.socket}: cannot connect to the Unix socket: No such file or directory\n'))

    def test_containers_on_a_unix_socket(self):
        with Engine(self.socket) as engine:
            engine.lists = {'/containers/json': CONTAINERS, '/networks': NETWORKS}
            keys = ', host_networking_host: "node1:7273", filters: [{name: status, values: [running, paused]}, {name: label, values: [\'a="b"\']}]'
            with scraper(config('docker', 'unix://' + self.socket, keys)) as s:
                # of two networks only the first by name: back
                expected = {'10.5.0.2:8080', '10.5.0.2:9000', '172.17.0.3:80', '10.5.0.2:7000', 'node1:7273'}
                wait_for('the targets', lambda: set(targets(s)) == expected)
                t = targets(s)
                self.assertEqual(t['10.5.0.2:8080'], {
                    'docker_container_id': 'web' * 8, 'docker_container_name': '/web', 'docker_container_image': 'web:1', 'docker_container_image_id': 'sha256:web',
                    'docker_container_network_mode': 'bridge', 'docker_container_label_com_example_team': 'a', 'docker_container_label___x': 'u', 'docker_network_id': 'id-back',
                    'docker_network_name': 'back', 'docker_network_scope': 'local', 'docker_network_internal': 'true', 'docker_network_ingress': 'false',
                    'docker_network_label_net_zone': 'back', 'docker_network_ip': '10.5.0.2', 'docker_port_private': '8080', 'docker_port_public': '80',
                    'docker_port_public_ip': '0.0.0.0'})
                self.assertNotIn('docker_port_public', t['10.5.0.2:9000'])

                def others(name, mode, network):
                    return {'docker_container_id': name * 8, 'docker_container_name': '/' + name, 'docker_container_image': name + ':1', 'docker_container_image_id': 'sha256:' + name,
                            'docker_container_network_mode': mode, 'docker_network_id': 'id-' + network, 'docker_network_name': network, 'docker_network_scope': 'local',
                            'docker_network_internal': str(network == 'back').lower(), 'docker_network_ingress': 'false', 'docker_network_label_net_zone': network}
                self.assertEqual(t['172.17.0.3:80'], {**others('plain', 'bridge', 'bridge'), 'docker_network_ip': '172.17.0.3'})
                self.assertEqual(t['10.5.0.2:7000'], {**others('side', 'container:' + 'web' * 8, 'back'), 'docker_network_ip': '10.5.0.2', 'docker_port_private': '7000'})
                self.assertEqual(t['node1:7273'], others('metal', 'host', 'host'))
                query = dict(engine.asked)['/containers/json']
                self.assertEqual(json.loads(query['filters'][0]), {'status': {'running': True, 'paused': True}, 'label': {'a="b"': True}})
                self.assertEqual(dict(engine.asked)['/networks'], {})
                self.check_failures(s, engine, expected)

    def check_failures(self, s, engine, expected):
        def failures():
            return s.metrics()['sonde_discover_refresh_failures_total{kind="docker"}']
        for path, answer in (('/containers/json', 500), ('/networks', 403), ('/containers/json', b'[{'), ('/containers/json', {'message': 'x'})):
            before, good = failures(), engine.lists[path]
            engine.lists[path] = answer
            wait_for(f'failures of {answer}', lambda: failures() > before + 1)
            self.assertEqual(set(targets(s)), expected)
            engine.lists[path] = good
        engine.lists['/containers/json'] = CONTAINERS[1:2]
        wait_for('fewer targets', lambda: set(targets(s)) == {'172.17.0.3:80'})

    def test_all_networks_over_tcp(self):
        with Engine(('127.0.0.1', 0)) as engine:
            engine.lists = {'/containers/json': CONTAINERS[:1], '/networks': NETWORKS}
            with scraper(config('docker', f'tcp://127.0.0.1:{engine.s.server_address[1]}', ', match_first_network: false')) as s:
                wait_for('the targets', lambda: set(targets(s)) == {f'{ip}:{port}' for ip in ('10.5.0.2', '172.17.0.2') for port in (8080, 9000)})

    def test_tls(self):
        files = Files()
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files['ca.pem'])
            context.load_cert_chain(files['server.pem'], files['server.key'])
            context.verify_mode = ssl.CERT_REQUIRED
            with Engine(('127.0.0.1', 0), context) as engine:
                engine.lists = {'/containers/json': CONTAINERS[1:2], '/networks': NETWORKS}
                tls = ', tls_config: {ca_file: "%s", cert_file: "%s", key_file: "%s", server_name: localhost}' % tuple(
                    files[f] for f in ('ca.pem', 'good.pem', 'good.key'))
                with scraper(config('docker', f'tcp://127.0.0.1:{engine.s.server_address[1]}', tls)) as s:
                    wait_for('the target', lambda: set(targets(s)) == {'172.17.0.3:80'})
        finally:
            files.close()


SWARM = {
    '/services': [{
        'ID': 'svc1', 'Version': {'Index': 20}, 'Spec': {
            'Name': 'api', 'Labels': {'team-name': 'x'}, 'TaskTemplate': {'ContainerSpec': {'Image': 'api:2', 'Hostname': 'api-host'}}, 'Mode': {'Replicated': {'Replicas': 2}}},
        'Endpoint': {'Spec': {'Mode': 'vip'}, 'Ports': [{'Name': 'http', 'Protocol': 'tcp', 'TargetPort': 80, 'PublishedPort': 8080, 'PublishMode': 'ingress'},
                                                        {'Protocol': 'udp', 'TargetPort': 53, 'PublishedPort': 53, 'PublishMode': 'ingress'}],
                     'VirtualIPs': [{'NetworkID': 'net1', 'Addr': '10.0.0.5/24'}]},
        'UpdateStatus': {'State': 'completed'}}, {
        'ID': 'svc2', 'Spec': {'Name': 'agent', 'Labels': {}, 'TaskTemplate': {'ContainerSpec': {'Image': 'agent:1'}}, 'Mode': {'Global': {}}},
        'Endpoint': {'VirtualIPs': [{'NetworkID': 'net1', 'Addr': '10.0.0.9/24'}]}}],
    '/networks': [{'Name': 'over', 'Id': 'net1', 'Scope': 'swarm', 'Internal': False, 'Ingress': True, 'Labels': {'k': 'v'}}],
    '/nodes': [{
        'ID': 'n1', 'Spec': {'Labels': {'zone': 'z1'}, 'Role': 'manager', 'Availability': 'active'},
        'Description': {'Hostname': 'h1', 'Platform': {'Architecture': 'x86_64', 'OS': 'linux'}, 'Engine': {'EngineVersion': '24.0.7'}},
        'Status': {'State': 'ready', 'Addr': '192.168.0.1'}, 'ManagerStatus': {'Leader': True, 'Reachability': 'reachable', 'Addr': '192.168.0.1:2377'}}, {
        'ID': 'n2', 'Spec': {'Labels': {}, 'Role': 'worker', 'Availability': 'drain'},
        'Description': {'Hostname': 'h2', 'Platform': {'Architecture': 'x86_64', 'OS': 'linux'}, 'Engine': {'EngineVersion': '24.0.7'}},
        'Status': {'State': 'ready', 'Addr': 'fd00::2'}}],
    '/tasks': [{
        'ID': 't1', 'ServiceID': 'svc1', 'NodeID': 'n1', 'Slot': 2, 'DesiredState': 'running', 'Spec': {'ContainerSpec': {'Labels': {'c.l': 'd'}}},
        'Status': {'State': 'running', 'ContainerStatus': {'ContainerID': 'c1', 'PID': 12}, 'PortStatus': {'Ports': [
            {'Protocol': 'tcp', 'TargetPort': 9100, 'PublishedPort': 9101, 'PublishMode': 'host'}]}},
        'NetworksAttachments': [{'Network': {'ID': 'net1'}, 'Addresses': ['10.0.0.6/24']}]}, {
        'ID': 't2', 'ServiceID': 'svc2', 'NodeID': 'n2', 'DesiredState': 'running', 'Spec': {'ContainerSpec': {}},
        'Status': {'State': 'starting', 'PortStatus': {}}, 'NetworksAttachments': [{'Network': {'ID': 'net1'}, 'Addresses': ['10.0.0.7/24']}]}],
}
NODE1 = {'node_id': 'n1', 'node_role': 'manager', 'node_availability': 'active', 'node_hostname': 'h1', 'node_platform_architecture': 'x86_64', 'node_platform_os': 'linux',
         'node_engine_version': '24.0.7', 'node_status': 'ready', 'node_address': '192.168.0.1', 'node_manager_leader': 'true', 'node_manager_reachability': 'reachable',
         'node_manager_address': '192.168.0.1:2377', 'node_label_zone': 'z1'}
NODE2 = {'node_id': 'n2', 'node_role': 'worker', 'node_availability': 'drain', 'node_hostname': 'h2', 'node_platform_architecture': 'x86_64', 'node_platform_os': 'linux',
         'node_engine_version': '24.0.7', 'node_status': 'ready', 'node_address': 'fd00::2'}
NETWORK = {'network_id': 'net1', 'network_name': 'over', 'network_scope': 'swarm', 'network_internal': 'false', 'network_ingress': 'true', 'network_label_k': 'v'}
SERVICE1 = {'service_id': 'svc1', 'service_name': 'api', 'service_mode': 'replicated', 'service_label_team_name': 'x'}
SERVICE2 = {'service_id': 'svc2', 'service_name': 'agent', 'service_mode': 'global'}
TASK1 = {'task_id': 't1', 'task_container_id': 'c1', 'task_desired_state': 'running', 'task_state': 'running', 'task_slot': '2', 'container_label_c_l': 'd'}


def prefixed(*labels):
    return {'dockerswarm_' + k: v for part in labels for k, v in part.items()}


class SwarmSdTest(unittest.TestCase):
    maxDiff = None

    def check(self, role, expected):
        with tempfile.TemporaryDirectory() as d, Engine(d + '/s') as engine:
            engine.lists = dict(SWARM)
            filters = ', filters: [{name: name, values: [x]}]'
            with scraper(config('dockerswarm', f'unix://{d}/s', f', role: {role}{filters}')) as s:
                wait_for('the targets', lambda: set(targets(s)) == set(expected))
                found = targets(s)
                self.assertEqual(found, expected)
                self.assertEqual({path for path, query in engine.asked if query}, {'/' + role})
                engine.lists['/' + role] = 503
                wait_for('a failure', lambda: s.metrics()['sonde_discover_refresh_failures_total{kind="dockerswarm"}'] >= 1)
                self.assertEqual(set(targets(s)), set(expected))

    def test_services(self):
        self.check('services', {
            '10.0.0.5:8080': prefixed(SERVICE1, NETWORK, {
                'service_endpoint_port_name': 'http', 'service_endpoint_port_publish_mode': 'ingress', 'service_updating_status': 'completed',
                'service_task_container_hostname': 'api-host', 'service_task_container_image': 'api:2'}),
            '10.0.0.9:80': prefixed(SERVICE2, NETWORK, {'service_task_container_image': 'agent:1'})})

    def test_nodes(self):
        self.check('nodes', {'192.168.0.1:80': prefixed(NODE1), '[fd00::2]:80': prefixed(NODE2)})

    def test_tasks(self):
        self.check('tasks', {
            '192.168.0.1:9101': prefixed(SERVICE1, NODE1, TASK1, {'task_port_publish_mode': 'host'}),
            '10.0.0.6:8080': prefixed(SERVICE1, NODE1, TASK1, NETWORK, {'task_port_publish_mode': 'ingress'}),
            '10.0.0.7:80': prefixed(SERVICE2, NODE2, NETWORK, {'task_id': 't2', 'task_desired_state': 'running', 'task_state': 'starting', 'task_slot': '0'})})


if __name__ == '__main__':
    unittest.main()
