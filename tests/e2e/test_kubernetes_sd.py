"""kubernetes_sd_configs against an API server that lists in pages and watches: every role's labels, changes, and all that goes wrong."""
import base64
import http.server
import json
import os
import re
import ssl
import tempfile
import threading
import unittest
import urllib.parse

from sonde_e2e import mounted, own_mounts, scraper, sonde, wait_for
from test_web_config import Files

BESIDE_OTHERS = True

PATHS = {'pods': '/api/v1', 'nodes': '/api/v1', 'services': '/api/v1', 'endpoints': '/api/v1', 'namespaces': '/api/v1',
         'endpointslices': '/apis/discovery.k8s.io/v1', 'ingresses': '/apis/networking.k8s.io/v1', 'replicasets': '/apis/apps/v1',
         'jobs': '/apis/batch/v1'}

LISTS = {'pods': 'PodList', 'nodes': 'NodeList', 'services': 'ServiceList', 'endpoints': 'EndpointsList', 'namespaces': 'NamespaceList',
         'endpointslices': 'EndpointSliceList', 'ingresses': 'IngressList', 'replicasets': 'ReplicaSetList', 'jobs': 'JobList'}


def obj(name, namespace='web', labels=None, annotations=None, owner=None, **rest):
    """An object as the API gives it, with what nobody asked for too."""
    meta = {'name': name, 'uid': f'uid-{name}', 'creationTimestamp': '2026-01-01T00:00:00Z',
            'managedFields': [{'manager': 'kubelet', 'operation': 'Update', 'fieldsV1': {'f:metadata': {'f:labels': {'.': {}}}}}]}
    if namespace:
        meta['namespace'] = namespace
    if labels:
        meta['labels'] = labels
    if annotations:
        meta['annotations'] = annotations
    if owner:
        meta['ownerReferences'] = [{'apiVersion': 'x/v1', 'kind': 'Helper', 'name': 'other', 'uid': '9'},
                                   {'apiVersion': 'x/v1', 'kind': owner[0], 'name': owner[1], 'uid': '1', 'controller': True, 'blockOwnerDeletion': True}]
    return {'metadata': meta, **rest}


class Api:
    """The server. `put` and `delete` change objects and tell watches; the attributes make it fail."""

    def __init__(self, token=None, context=None, history=1000):
        self.lock = threading.Condition()
        self.version = 100
        self.objects = {kind: {} for kind in PATHS}
        self.events = []            # (version, kind, type, object)
        self.oldest = 0             # versions up to this are gone
        self.token = token
        self.requests = []          # (path, query)
        self.refuse = {}            # 'LIST pods' → status, as long as it is there
        self.generation = 0         # a change ends all watches
        self.say = {}               # kind → raw line for its watches, once
        self.expire_pages = 0       # that many continue tokens are answered with 410
        self.watching = 0
        self.stop = False
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                api.answer(self)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args):
                pass

        self.s = Server(('127.0.0.1', 0), Handler)
        if context:
            self.s.socket = context.wrap_socket(self.s.socket, server_side=True)
        self.url = f'{"https" if context else "http"}://127.0.0.1:{self.s.server_address[1]}'
        threading.Thread(target=self.s.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.shut_down()

    def shut_down(self):
        with self.lock:
            self.stop = True
            self.lock.notify_all()
        self.s.shutdown()
        self.s.server_close()

    @staticmethod
    def key(o):
        return o['metadata'].get('namespace', ''), o['metadata']['name']

    def put(self, kind, *objects):
        with self.lock:
            for o in objects:
                self.version += 1
                o = json.loads(json.dumps(o))
                o['metadata']['resourceVersion'] = str(self.version)
                change = 'MODIFIED' if self.key(o) in self.objects[kind] else 'ADDED'
                self.objects[kind][self.key(o)] = o
                self.events.append((self.version, kind, change, o))
            self.lock.notify_all()

    def delete(self, kind, name, namespace='web'):
        with self.lock:
            self.version += 1
            o = self.objects[kind].pop((namespace, name))
            o['metadata']['resourceVersion'] = str(self.version)
            self.events.append((self.version, kind, 'DELETED', o))
            self.lock.notify_all()

    def disconnect(self, forget=False):
        """Ends all watches; with `forget` old versions are gone."""
        with self.lock:
            self.generation += 1
            if forget:
                self.version += 1
                self.oldest = self.version
            self.lock.notify_all()

    def line(self, kind, line):
        with self.lock:
            self.say[kind] = line
            self.lock.notify_all()

    def seen(self, pattern):
        with self.lock:
            return [u for u in self.requests if re.search(pattern, u)]

    def reply(self, handler, status, body):
        data = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header('Content-Type', 'application/json')
        handler.send_header('Content-Length', str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def fail(self, handler, code, message):
        self.reply(handler, code, {'kind': 'Status', 'apiVersion': 'v1', 'status': 'Failure', 'message': message, 'code': code})

    def answer(self, handler):
        u = urllib.parse.urlsplit(handler.path)
        q = dict(urllib.parse.parse_qsl(u.query))
        m = re.fullmatch(r'(.*?)(?:/namespaces/([^/]+))?/([a-z]+)', u.path)
        kind, namespace = (m[3], m[2]) if m else (None, None)
        verb = 'WATCH' if q.get('watch') in ('1', 'true') else 'LIST'
        with self.lock:
            self.requests.append(f'{verb} {handler.path}')
            refused = self.refuse.get(f'{verb} {kind}')
        if self.token and handler.headers.get('Authorization') != f'Bearer {self.token}':
            return self.fail(handler, 401, 'Unauthorized')
        if PATHS.get(kind) != m[1]:
            return self.fail(handler, 404, 'the server could not find the requested resource')
        if 'sendInitialEvents' in q:  # an older server has no such watches: its clients list
            return self.fail(handler, 422, 'sendInitialEvents is forbidden for watch')
        if refused:
            return self.fail(handler, refused, f'{kind} is forbidden: User "system:anonymous" cannot {verb.lower()} resource "{kind}"')

        def wanted(o):
            labels = o['metadata'].get('labels', {})
            for field in (s for s in q.get('fieldSelector', '').split(',') if s.startswith('spec.nodeName=')):
                if o.get('spec', {}).get('nodeName') != field.split('=')[1]:
                    return False
            return ((not namespace or o['metadata'].get('namespace') == namespace) and
                    all(labels.get(s.split('=')[0]) == s.split('=')[1] for s in q.get('labelSelector', '').split(',') if s))
        (self.watch if verb == 'WATCH' else self.list)(handler, kind, q, wanted)

    def list(self, handler, kind, q, wanted):
        limit, start = int(q.get('limit', 0)), int(q.get('continue', 0))
        with self.lock:
            if start and self.expire_pages:
                self.expire_pages -= 1
                return self.fail(handler, 410, 'The provided continue parameter is too old')
            every = [o for _, o in sorted(self.objects[kind].items()) if wanted(o)]
            meta = {'resourceVersion': str(self.version)}
        page = every[start:start + limit] if limit else every
        if limit and start + limit < len(every):
            meta['continue'] = str(start + limit)
        group = PATHS[kind].removeprefix('/apis/').removeprefix('/api/')
        self.reply(handler, 200, {'kind': LISTS[kind], 'apiVersion': group, 'metadata': meta, 'items': page})

    def watch(self, handler, kind, q, wanted):
        version = int(q['resourceVersion'])
        with self.lock:
            generation = self.generation
            if version < self.oldest:
                return self.fail(handler, 410, f'too old resource version: {version} ({self.oldest})')
        handler.send_response(200)
        handler.send_header('Content-Type', 'application/json')
        handler.send_header('Transfer-Encoding', 'chunked')
        handler.end_headers()

        def write(text):
            data = text.encode()
            # in two pieces, so that lines do not come whole
            for part in (data[:len(data) // 2], data[len(data) // 2:]):
                handler.wfile.write(b'%x\r\n%s\r\n' % (len(part), part))
                handler.wfile.flush()
        self.watching += 1
        try:
            while True:
                with self.lock:
                    self.lock.wait_for(lambda: self.stop or self.generation != generation or kind in self.say or
                                       any(v > version and k == kind for v, k, _, _ in self.events), 60)
                    new = [(v, t, o) for v, k, t, o in self.events if v > version and k == kind]
                    raw = self.say.pop(kind, None)
                    ended = self.stop or self.generation != generation
                for version, change, o in new:
                    if wanted(o):
                        write(json.dumps({'type': change, 'object': o}) + '\n')
                if raw is not None:
                    write(raw + '\n')
                if ended or (raw is not None and 'BOOKMARK' not in raw):
                    break
            handler.wfile.write(b'0\r\n\r\n')
        finally:
            self.watching -= 1


POD = obj('api-1', labels={'app': 'api', 'app.kubernetes.io/name': 'api', 'héllo/x': 'ü'}, annotations={'prometheus.io/scrape': 'true'},
          owner=('ReplicaSet', 'api-7d9'),
          spec={'nodeName': 'n1', 'serviceAccountName': 'default', 'volumes': [{'name': 'v', 'emptyDir': {}}],
                'initContainers': [{'name': 'init', 'image': 'init:1', 'ports': [{'containerPort': 7000, 'protocol': 'UDP'}]}],
                'containers': [{'name': 'main', 'image': 'api:2', 'env': [{'name': 'A', 'value': 'b'}],
                                'ports': [{'name': 'http', 'containerPort': 8080, 'protocol': 'TCP'}, {'name': 'debug', 'containerPort': 6060, 'protocol': 'TCP'}]},
                               {'name': 'side', 'image': 'side:1'}]},
          status={'phase': 'Running', 'podIP': '10.0.0.1', 'podIPs': [{'ip': '10.0.0.1'}], 'hostIP': '192.168.0.1',
                  'conditions': [{'type': 'Initialized', 'status': 'True'}, {'type': 'Ready', 'status': 'True', 'lastProbeTime': None}],
                  'containerStatuses': [{'name': 'main', 'containerID': 'containerd://abc', 'restartCount': 0}],
                  'initContainerStatuses': [{'name': 'init', 'containerID': 'containerd://def'}]})


def pod(name, ip, port=8080, **kw):
    return obj(name, spec={'nodeName': 'n1', 'containers': [{'name': 'c', 'image': 'i', 'ports': [{'containerPort': port, 'protocol': 'TCP'}]}]},
               status={'phase': 'Running', 'podIP': ip, 'hostIP': '192.168.0.1'}, **kw)


NODE = obj('n1', None, {'kubernetes.io/arch': 'amd64'}, {'csi.volume': '{}'}, spec={'providerID': 'aws:///x/i-1', 'podCIDR': '10.0.0.0/24'},
           status={'addresses': [{'type': 'Hostname', 'address': 'n1.local'}, {'type': 'InternalIP', 'address': '192.168.0.1'},
                                 {'type': 'InternalIP', 'address': 'fd00::1'}],
                   'conditions': [{'type': 'MemoryPressure', 'status': 'False'}, {'type': 'Ready', 'status': 'True'}, {'type': 'Odd', 'status': 'Unknown'}],
                   'daemonEndpoints': {'kubeletEndpoint': {'Port': 10250}}, 'nodeInfo': {'kubeletVersion': 'v1.30.0'}})


def config(role, server, keys='', http=''):
    return (f'scrape_configs:\n- job_name: j\n  scrape_interval: 1h\n  kubernetes_sd_configs:\n  - role: {role}\n    {server}\n{keys}{http}'
            '  relabel_configs: [{source_labels: [__address__], regex: "([^:]+|.*[]])", target_label: __address__, replacement: "$1:80"}]\n')


def targets(s):
    """discoveredLabels by address, without the prefix."""
    return {t['discoveredLabels']['__address__']: {k.removeprefix('__meta_kubernetes_'): v for k, v in t['discoveredLabels'].items()
                                                    if k.startswith('__meta_') or k == 'instance'}
            for t in s.get('/api/v1/targets').json['data']['activeTargets']}


def check_all(text):
    """What the tool finds: ([(address, labels)], stderr)."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'c.yml')
        with open(path, 'w') as f:
            f.write(text)
        r = sonde('check', 'service-discovery', path, 'j')
        if r.returncode:
            return None, r.stderr
        return [(t['discoveredLabels']['__address__'], {k.removeprefix('__meta_kubernetes_'): v for k, v in t['discoveredLabels'].items()
                                                         if k.startswith('__meta_') or k == 'instance'}) for t in json.loads(r.stdout)], r.stderr


def check(text):
    """The same by address."""
    found, err = check_all(text)
    return dict(found) if found is not None else None, err


def failures(s):
    return s.metrics().get('sonde_discover_refresh_failures_total{kind="kubernetes"}', 0)


def present(role, **labels):
    """The labels of an object's keys and their _present_ twins."""
    return {**{f'{role}_{k}': v for k, v in labels.items()}, **{f'{role}_{k.replace("_", "present_", 1)}': 'true' for k in labels}}


META = {'namespace': 'web', 'pod_name': 'api-1', **present('pod', label_app='api', label_app_kubernetes_io_name='api', label_h_llo_x='ü', annotation_prometheus_io_scrape='true'),
        'pod_ip': '10.0.0.1', 'pod_ready': 'true', 'pod_phase': 'Running', 'pod_node_name': 'n1', 'pod_host_ip': '192.168.0.1', 'pod_uid': 'uid-api-1',
        'pod_controller_kind': 'ReplicaSet', 'pod_controller_name': 'api-7d9'}


# What is attached to the pod above.
NAMESPACE = obj('web', None, {'team': 'shop'}, {'cost/center': '7'})
ATTACH = '    attach_metadata: {node: true, namespace: true, deployment: true, job: true, cronjob: true}\n'
OF_NODE = {'node_name': 'n1', **present('node', label_kubernetes_io_arch='amd64', annotation_csi_volume='{}')}
OF_NAMESPACE = present('namespace', label_team='shop', annotation_cost_center='7')
MAIN = {'pod_container_name': 'main', 'pod_container_image': 'api:2', 'pod_container_init': 'false', 'pod_container_port_protocol': 'TCP'}
INIT = {'pod_container_name': 'init', 'pod_container_image': 'init:1', 'pod_container_init': 'true', 'pod_container_port_number': '7000', 'pod_container_port_protocol': 'UDP'}


class RolesTest(unittest.TestCase):
    maxDiff = None

    def put_attached(self, api):
        api.put('nodes', NODE)
        api.put('namespaces', NAMESPACE)
        api.put('replicasets', obj('api-7d9', owner=('Deployment', 'api')))
        api.put('jobs', obj('nightly-1', owner=('CronJob', 'nightly')))

    def test_pod(self):
        with Api() as api:
            api.put('pods', POD, pod('v6', 'fd00::7'), obj('pending', spec={'containers': [{'name': 'c'}]}, status={'phase': 'Pending'}), obj('bare'),
                    pod('host', '192.168.0.1', 9100, owner=('Job', 'nightly-1')))
            self.put_attached(api)
            found, err = check(config('pod', f'api_server: {api.url}'))
            self.assertEqual(set(found or err), {'10.0.0.1:8080', '10.0.0.1:6060', '10.0.0.1:7000', '10.0.0.1', '[fd00::7]:8080', '192.168.0.1:9100'})
            self.assertEqual(found['10.0.0.1:8080'], {
                **META, 'pod_container_name': 'main', 'pod_container_image': 'api:2', 'pod_container_init': 'false', 'pod_container_id': 'containerd://abc',
                'pod_container_port_name': 'http', 'pod_container_port_number': '8080', 'pod_container_port_protocol': 'TCP'})
            self.assertEqual(found['10.0.0.1:7000'], {
                **META, 'pod_container_name': 'init', 'pod_container_image': 'init:1', 'pod_container_init': 'true', 'pod_container_id': 'containerd://def',
                'pod_container_port_number': '7000', 'pod_container_port_protocol': 'UDP'})
            self.assertEqual(found['10.0.0.1'], {**META, 'pod_container_name': 'side', 'pod_container_image': 'side:1', 'pod_container_init': 'false'})
            self.assertEqual(found['[fd00::7]:8080']['pod_ready'], 'unknown')
            self.assertFalse(api.seen('nodes|replicasets|jobs'))
            found, err = check(config('pod', f'api_server: {api.url}', ATTACH))
            self.assertEqual(found['10.0.0.1'], {
                **META, **OF_NODE, **OF_NAMESPACE, 'pod_container_name': 'side', 'pod_container_image': 'side:1', 'pod_container_init': 'false', 'pod_deployment_name': 'api'})
            self.assertEqual(found['192.168.0.1:9100'], {
                **OF_NODE, **OF_NAMESPACE, 'namespace': 'web', 'pod_name': 'host', 'pod_ip': '192.168.0.1', 'pod_ready': 'unknown', 'pod_phase': 'Running', 'pod_node_name': 'n1',
                'pod_host_ip': '192.168.0.1', 'pod_uid': 'uid-host', 'pod_controller_kind': 'Job', 'pod_controller_name': 'nightly-1', 'pod_job_name': 'nightly-1',
                'pod_cronjob_name': 'nightly', 'pod_container_name': 'c', 'pod_container_image': 'i', 'pod_container_init': 'false', 'pod_container_port_number': '9100',
                'pod_container_port_protocol': 'TCP'})

    def test_ready(self):
        """What a pod's condition of that name says; addresses of a node in their order."""
        with Api() as api:
            for i, status in enumerate(('True', 'False', 'Unknown')):
                p = pod(f'p{i}', f'10.0.0.{i}')
                p['status'].update(phase='Pending', conditions=[{'type': 'Ready', 'status': status}])
                api.put('pods', p)
            found, err = check(config('pod', f'api_server: {api.url}'))
            self.assertEqual([(found or err)[f'10.0.0.{i}:8080']['pod_ready'] for i in range(3)], ['true', 'false', 'unknown'])
            self.assertEqual(found['10.0.0.1:8080']['pod_phase'], 'Pending')
            kinds = ['Hostname', 'LegacyHostIP', 'ExternalDNS', 'ExternalIP', 'InternalDNS', 'InternalIP']
            for i in range(len(kinds)):
                api.put('nodes', obj(f'n{i}', None, status={'addresses': [{'type': k, 'address': k.lower()} for k in kinds[:i + 1]], 'daemonEndpoints': {'kubeletEndpoint': {'Port': i}}}))
            found, err = check(config('node', f'api_server: {api.url}'))
            self.assertEqual(set(found or err), {f'{k.lower()}:{i}' for i, k in enumerate(kinds)})
            self.assertEqual(found['internalip:5'], {'node_name': 'n5', 'instance': 'n5', **{f'node_address_{k}': k.lower() for k in kinds}})

    def test_node(self):
        with Api() as api:
            api.put('nodes', NODE, obj('n2', None, status={'addresses': [{'type': 'Hostname', 'address': 'n2'}]}), obj('none', None), obj('empty', None, status={'addresses': []}))
            found, err = check(config('node', f'api_server: {api.url}'))
            self.assertEqual(found, {
                '192.168.0.1:10250': {'node_name': 'n1', **present('node', label_kubernetes_io_arch='amd64', annotation_csi_volume='{}'), 'instance': 'n1',
                                      'node_provider_id': 'aws:///x/i-1', 'node_condition_memorypressure': 'false', 'node_condition_ready': 'true',
                                      'node_condition_odd': 'unknown', 'node_address_Hostname': 'n1.local', 'node_address_InternalIP': '192.168.0.1'},
                'n2:0': {'node_name': 'n2', 'instance': 'n2', 'node_address_Hostname': 'n2'}}, err)

    def test_service(self):
        with Api() as api:
            self.put_attached(api)
            api.put('services', obj('api', labels={'a-b': 'c'}, annotations={'d/e': 'f'}, spec={'type': 'ClusterIP', 'clusterIP': '10.1.0.1', 'ports': [
                {'name': 'http', 'port': 80, 'targetPort': 'http', 'protocol': 'TCP'}, {'port': 443, 'protocol': 'TCP'}]}),
                obj('out', spec={'type': 'ExternalName', 'externalName': 'db.example', 'ports': [{'port': 5432, 'protocol': 'TCP'}]}),
                obj('lb', spec={'type': 'LoadBalancer', 'clusterIP': '10.1.0.2', 'loadBalancerIP': '1.2.3.4', 'ports': [{'port': 1, 'protocol': 'TCP'}]}),
                obj('headless', spec={'clusterIP': 'None'}))
            found, err = check(config('service', f'api_server: {api.url}'))
            api_meta = {'namespace': 'web', 'service_name': 'api', **present('service', label_a_b='c', annotation_d_e='f'), 'service_type': 'ClusterIP',
                        'service_cluster_ip': '10.1.0.1', 'service_port_protocol': 'TCP'}
            self.assertEqual(found, {
                'api.web.svc:80': {**api_meta, 'service_port_name': 'http', 'service_port_number': '80'},
                'api.web.svc:443': {**api_meta, 'service_port_number': '443'},
                'out.web.svc:5432': {'namespace': 'web', 'service_name': 'out', 'service_type': 'ExternalName', 'service_external_name': 'db.example',
                                     'service_port_number': '5432', 'service_port_protocol': 'TCP'},
                'lb.web.svc:1': {'namespace': 'web', 'service_name': 'lb', 'service_type': 'LoadBalancer', 'service_cluster_ip': '10.1.0.2',
                                 'service_loadbalancer_ip': '1.2.3.4', 'service_port_number': '1', 'service_port_protocol': 'TCP'}}, err)
            found, err = check(config('service', f'api_server: {api.url}', ATTACH))
            self.assertEqual(found['api.web.svc:443'], {**api_meta, **OF_NAMESPACE, 'service_port_number': '443'})
            self.assertFalse(api.seen('nodes|replicasets|jobs'))

    def test_endpoints(self):
        with Api() as api:
            api.put('pods', POD)
            self.put_attached(api)
            api.put('services', obj('api', labels={'tier': 'front'}, annotations={'x.y': 'z'}))
            api.put('endpoints', obj('api', labels={'e': 'f'}, annotations={'g': 'h'}, subsets=[{
                'addresses': [{'ip': '10.0.0.1', 'nodeName': 'n1', 'hostname': 'a', 'targetRef': {'kind': 'Pod', 'namespace': 'web', 'name': 'api-1', 'uid': 'u'}}],
                'notReadyAddresses': [{'ip': '10.0.0.9', 'targetRef': {'kind': 'Node', 'name': 'n1'}}, {'ip': 'fd00::9', 'targetRef': {'kind': 'Pod', 'namespace': 'web', 'name': 'gone'}}],
                'ports': [{'name': 'http', 'port': 8080, 'protocol': 'TCP'}]}]), obj('nothing'), obj('ports-only', subsets=[{'ports': [{'port': 1}]}]))
            found, err = check(config('endpoints', f'api_server: {api.url}', '    attach_metadata: {node: true}\n'))
            own = {'namespace': 'web', 'endpoints_name': 'api', **present('endpoints', label_e='f', annotation_g='h'), 'service_name': 'api',
                   **present('service', label_tier='front', annotation_x_y='z')}
            port = {'endpoint_port_name': 'http', 'endpoint_port_protocol': 'TCP'}
            expected = {
                '10.0.0.1:8080': {**own, **META, **OF_NODE, **port, **MAIN, 'endpoint_ready': 'true', 'endpoint_hostname': 'a', 'endpoint_node_name': 'n1',
                                  'endpoint_address_target_kind': 'Pod', 'endpoint_address_target_name': 'api-1',
                                  'pod_container_port_name': 'http', 'pod_container_port_number': '8080'},
                '10.0.0.9:8080': {**own, **OF_NODE, **port, 'endpoint_ready': 'false', 'endpoint_address_target_kind': 'Node', 'endpoint_address_target_name': 'n1'},
                '[fd00::9]:8080': {**own, **port, 'endpoint_ready': 'false', 'endpoint_address_target_kind': 'Pod', 'endpoint_address_target_name': 'gone'},
                '10.0.0.1:6060': {**own, **META, **MAIN, 'pod_container_port_name': 'debug', 'pod_container_port_number': '6060'},
                '10.0.0.1:7000': {**own, **META, **INIT}}
            self.assertEqual(found, expected, err)
            found, err = check(config('endpoints', f'api_server: {api.url}', ATTACH))
            self.assertEqual(found, {address: {**labels, **OF_NAMESPACE, **({'pod_deployment_name': 'api'} if 'pod_name' in labels else {})}
                                     for address, labels in expected.items()}, err)

    def test_ports_that_several_have(self):
        """Of endpoints the protocol is that of their port, of slices the container's; of several containers the last has its name there."""
        dns = [{'name': 'dns', 'containerPort': 53, 'protocol': 'UDP'}, {'name': 'dns-tcp', 'containerPort': 53, 'protocol': 'TCP'}]
        p = pod('dns', '10.0.0.3')
        p['spec']['containers'] = [{'name': 'first', 'ports': [{'containerPort': 53, 'protocol': 'TCP'}]}, {'name': 'last', 'ports': dns}]
        port = {'name': 'dns-tcp', 'port': 53, 'protocol': 'TCP'}
        ref = {'kind': 'Pod', 'namespace': 'web', 'name': 'dns'}
        with Api() as api:
            api.put('pods', p)
            api.put('endpoints', obj('dns', subsets=[{'addresses': [{'ip': '10.0.0.3', 'targetRef': ref}], 'ports': [port]}]))
            api.put('endpointslices', obj('dns-x', addressType='IPv4', endpoints=[{'addresses': ['10.0.0.3'], 'targetRef': ref}], ports=[port]))
            for role, protocol in (('endpoints', 'TCP'), ('endpointslice', 'UDP')):
                found, err = check(config(role, f'api_server: {api.url}'))
                t = found['10.0.0.3:53']
                self.assertEqual([t[f'pod_container_{k}'] for k in ('name', 'port_name', 'port_protocol')], ['last', 'dns', protocol], err)

    def test_endpointslice(self):
        with Api() as api:
            api.put('pods', pod('p', '10.0.0.5', 9000))
            api.put('services', obj('api'))
            api.put('endpointslices', obj('api-x', labels={'kubernetes.io/service-name': 'api'}, addressType='IPv4', endpoints=[{
                'addresses': ['10.0.0.5', '10.0.0.6'], 'conditions': {'ready': True, 'serving': True, 'terminating': False}, 'hostname': 'h', 'nodeName': 'n1', 'zone': 'z-1',
                'deprecatedTopology': {'topology.kubernetes.io/region': 'eu'}, 'targetRef': {'kind': 'Pod', 'namespace': 'web', 'name': 'p'}},
                {'addresses': ['10.0.0.7']}], ports=[{'name': 'http', 'port': 9000, 'protocol': 'TCP', 'appProtocol': 'http'}]),
                obj('all-ports', addressType='IPv6', endpoints=[{'addresses': ['fd00::3']}], ports=[{'name': 'any', 'port': None}]), obj('none', addressType='IPv4', endpoints=None, ports=None))
            found, err = check(config('endpointslice', f'api_server: {api.url}'))
            self.assertEqual(set(found or err), {'10.0.0.5:9000', '10.0.0.6:9000', '10.0.0.7:9000', 'fd00::3'})
            own = {'namespace': 'web', 'endpointslice_name': 'api-x', 'endpointslice_address_type': 'IPv4', **present('endpointslice', label_kubernetes_io_service_name='api'),
                   'service_name': 'api', 'endpointslice_port': '9000', 'endpointslice_port_name': 'http', 'endpointslice_port_protocol': 'TCP', 'endpointslice_port_app_protocol': 'http'}
            self.assertEqual(found['10.0.0.7:9000'], own)
            e = 'endpointslice_endpoint_'
            self.assertEqual(found['10.0.0.6:9000'], {
                **own, f'{e}conditions_ready': 'true', f'{e}conditions_serving': 'true', f'{e}conditions_terminating': 'false', f'{e}hostname': 'h', f'{e}node_name': 'n1', f'{e}zone': 'z-1',
                f'{e}topology_topology_kubernetes_io_region': 'eu', f'{e}topology_present_topology_kubernetes_io_region': 'true',
                'endpointslice_address_target_kind': 'Pod', 'endpointslice_address_target_name': 'p',
                'pod_name': 'p', 'pod_ip': '10.0.0.5', 'pod_ready': 'unknown', 'pod_phase': 'Running', 'pod_node_name': 'n1', 'pod_host_ip': '192.168.0.1', 'pod_uid': 'uid-p',
                'pod_container_name': 'c', 'pod_container_image': 'i', 'pod_container_init': 'false', 'pod_container_port_number': '9000', 'pod_container_port_protocol': 'TCP'})
            self.assertEqual(found['10.0.0.5:9000'], found['10.0.0.6:9000'])
            self.assertEqual(found['fd00::3'], {'namespace': 'web', 'endpointslice_name': 'all-ports', 'endpointslice_address_type': 'IPv6', 'endpointslice_port_name': 'any'})

    def test_attached_to_slices(self):
        with Api() as api:
            api.put('pods', POD)
            self.put_attached(api)
            api.put('services', obj('api', labels={'tier': 'front'}, annotations={'x.y': 'z'}))
            api.put('endpointslices', obj('api-x', labels={'kubernetes.io/service-name': 'api'}, annotations={'g': 'h'}, addressType='IPv4', endpoints=[
                {'addresses': ['10.0.0.1'], 'conditions': {'ready': False}, 'nodeName': 'n1', 'targetRef': {'kind': 'Pod', 'namespace': 'web', 'name': 'api-1'}},
                {'addresses': ['10.0.0.8'], 'targetRef': {'kind': 'Node', 'name': 'n1'}}], ports=[{'name': 'debug', 'port': 6060, 'protocol': 'TCP'}]))
            found, err = check(config('endpointslice', f'api_server: {api.url}', ATTACH))
            own = {'namespace': 'web', 'endpointslice_name': 'api-x', 'endpointslice_address_type': 'IPv4', 'service_name': 'api',
                   **present('endpointslice', label_kubernetes_io_service_name='api', annotation_g='h'), **present('service', label_tier='front', annotation_x_y='z'), **OF_NAMESPACE}
            port = {'endpointslice_port': '6060', 'endpointslice_port_name': 'debug', 'endpointslice_port_protocol': 'TCP'}
            target = {'endpointslice_address_target_kind': 'Pod', 'endpointslice_address_target_name': 'api-1'}
            of_pod = {**META, 'pod_deployment_name': 'api'}
            self.assertEqual(found, {
                '10.0.0.1:6060': {**own, **port, **target, **OF_NODE, **of_pod, **MAIN, 'pod_container_port_name': 'debug', 'pod_container_port_number': '6060',
                                  'endpointslice_endpoint_conditions_ready': 'false', 'endpointslice_endpoint_node_name': 'n1'},
                '10.0.0.8:6060': {**own, **port, **OF_NODE, 'endpointslice_address_target_kind': 'Node', 'endpointslice_address_target_name': 'n1'},
                '10.0.0.1:8080': {**own, **of_pod, **MAIN, 'pod_container_port_name': 'http', 'pod_container_port_number': '8080'},
                '10.0.0.1:7000': {**own, **of_pod, **INIT}}, err)

    def test_ingress(self):
        with Api() as api:
            self.put_attached(api)
            api.put('ingresses', obj('web', labels={'a': 'b'}, annotations={'c/d': 'e'}, spec={'ingressClassName': 'nginx', 'tls': [{'hosts': ['*.example.com'], 'secretName': 's'}, {}], 'rules': [
                {'host': 'a.example.com', 'http': {'paths': [{'path': '/x', 'pathType': 'Prefix', 'backend': {}}, {'pathType': 'Prefix'}]}},
                {'host': 'b.c.example.com'}]}), obj('no-rules', spec={'defaultBackend': {}}))
            # targets of one host differ by their path alone
            text = config('ingress', f'api_server: {api.url}', ATTACH).replace('relabel_configs: [', 'relabel_configs: [{action: labelmap, regex: "__meta_kubernetes_ingress_(path)"}, ')
            found, err = check_all(text)
            own = {'namespace': 'web', 'ingress_name': 'web', 'ingress_class_name': 'nginx', **present('ingress', label_a='b', annotation_c_d='e'), **OF_NAMESPACE}
            a = {'ingress_scheme': 'https', 'ingress_host': 'a.example.com'}
            self.assertCountEqual(found or err, [
                ('a.example.com', {**own, **a, 'ingress_path': '/x'}), ('a.example.com', {**own, **a, 'ingress_path': '/'}),
                ('b.c.example.com', {**own, 'ingress_scheme': 'http', 'ingress_host': 'b.c.example.com', 'ingress_path': '/'})])


class ProtocolTest(unittest.TestCase):
    """What happens on the way: pages, changes, ends, refusals. `s` is a scraper that knows the pod a:1."""

    def addresses(self, s, *expected):
        wait_for(f'{expected}', lambda: set(targets(s)) == set(expected))

    def test_pages_changes_and_ends(self):
        with Api() as api:
            api.put('pods', *(pod(f'p{i:04}', f'10.1.{i // 250}.{i % 250}') for i in range(1201)))
            api.expire_pages = 1
            with scraper(config('pod', f'api_server: {api.url}')) as s:
                wait_for('all pods', lambda: len(targets(s)) == 1201)
                # a page was gone: once more, at once
                self.assertEqual([len(api.seen(p)) for p in ('limit=500$', 'limit=500&continue=500', 'limit=0$')], [1, 1, 1])
                for kind in range(1200):
                    api.delete('pods', f'p{kind:04}')
                self.addresses(s, '10.1.4.200:8080')
                api.put('pods', pod('new', '10.2.0.1', labels={'v': '1'}))
                self.addresses(s, '10.1.4.200:8080', '10.2.0.1:8080')
                api.put('pods', pod('new', '10.2.0.1', labels={'v': '2'}))
                wait_for('the label', lambda: targets(s)['10.2.0.1:8080'].get('pod_label_v') == '2')
                lists = len(api.seen('LIST'))
                # a bookmark moves the version on from which the next watch starts
                api.line('pods', json.dumps({'type': 'BOOKMARK', 'object': {'kind': 'Pod', 'metadata': {'resourceVersion': str(api.version)}}}))
                watches = len(api.seen('WATCH'))
                api.disconnect()
                wait_for('the next watch', lambda: len(api.seen('WATCH')) > watches)
                self.assertIn(f'resourceVersion={api.version}', api.seen('WATCH')[-1])
                self.assertRegex(api.seen('WATCH')[-1], r'watch=1&allowWatchBookmarks=true&timeoutSeconds=\d+')
                api.put('pods', pod('later', '10.2.0.2'))
                self.addresses(s, '10.1.4.200:8080', '10.2.0.1:8080', '10.2.0.2:8080')
                self.assertEqual(len(api.seen('LIST')), lists)
                self.assertEqual(failures(s), 0)

    def test_lost_versions(self):
        with Api() as api:
            api.put('pods', pod('a', '10.0.0.1'))
            with scraper(config('pod', f'api_server: {api.url}')) as s:
                self.addresses(s, '10.0.0.1:8080')
                api.disconnect(forget=True)     # 410 as the status of the next watch
                wait_for('another list', lambda: len(api.seen('LIST')) == 2)
                wait_for('a watch', lambda: api.watching == 1)
                with api.lock:                  # gone without an event: only a list can tell
                    del api.objects['pods'][('web', 'a')]
                api.put('nodes', NODE)
                api.line('pods', json.dumps({'type': 'ERROR', 'object': {'kind': 'Status', 'code': 410, 'message': 'too old'}}))
                self.addresses(s)
                self.assertEqual(failures(s), 0)
                api.put('pods', pod('b', '10.0.0.2'))
                self.addresses(s, '10.0.0.2:8080')

    def test_refusals_keep_the_targets(self):
        with Api() as api:
            api.put('pods', pod('a', '10.0.0.1'))
            with scraper(config('pod', f'api_server: {api.url}')) as s:
                self.addresses(s, '10.0.0.1:8080')
                for line in ('{', '[]', json.dumps({'type': 'ERROR', 'object': {'code': 500, 'message': 'etcd'}}), json.dumps({'type': 'ADDED', 'object': {'metadata': {'resourceVersion': '1'}}})):
                    before = failures(s)
                    wait_for('a watch', lambda: api.watching >= 1)
                    api.line('pods', line)
                    wait_for(f'a failure of {line}', lambda: failures(s) > before)
                    self.assertEqual(set(targets(s)), {'10.0.0.1:8080'})
                api.refuse = {'LIST pods': 500, 'WATCH pods': 403}
                before = failures(s)
                api.disconnect()
                wait_for('failures', lambda: failures(s) >= before + 2)
                self.assertEqual(set(targets(s)), {'10.0.0.1:8080'})
                api.refuse = {}
                api.put('pods', pod('b', '10.0.0.2'))
                self.addresses(s, '10.0.0.1:8080', '10.0.0.2:8080')
            api.refuse = {'LIST pods': 403}
            self.assertRegex(check(config('pod', f'api_server: {api.url}'))[1],
                             r'kubernetes_sd http://127.*: LIST pods: the server answered with status 403: pods is forbidden: User')

    def test_namespaces_and_selectors(self):
        with Api() as api:
            api.put('pods', pod('a', '10.0.0.1', labels={'app': 'x'}), pod('b', '10.0.0.2', namespace='two', labels={'app': 'x'}),
                    pod('c', '10.0.0.3', namespace='three', labels={'app': 'x'}), pod('d', '10.0.0.4'))
            found, err = check(config('pod', f'api_server: {api.url}', '    namespaces: {names: [web, two, web]}\n    selectors: [{role: pod, label: "app=x"}]\n'))
            self.assertEqual(set(found or err), {'10.0.0.1:8080', '10.0.0.2:8080'})
            self.assertEqual(len(api.seen('LIST /api/v1/namespaces/(web|two)/pods.*labelSelector=app%3Dx')), 2)
            other = pod('e', '10.0.0.5')
            other['spec']['nodeName'] = 'n2'
            api.put('pods', other)
            node = obj('n2', None, {'zone': 'b'}, status={'addresses': [{'type': 'InternalIP', 'address': '10.9.9.9'}]})
            for zone, want in (('b', set()), ('a', {'10.0.0.5:8080'})):
                node['metadata']['labels']['zone'] = zone
                api.put('nodes', node)
                found, err = check(config('pod', f'api_server: {api.url}', '    selectors: [{role: pod, field: "spec.nodeName=n2"}, {role: node, label: "zone=a"}]\n'
                                          '    attach_metadata: {node: true}\n'))
                self.assertEqual(set(found), want, err)
            self.assertEqual([len(api.seen(p)) for p in ('LIST /api/v1/nodes.*labelSelector=zone%3Da$', 'LIST /api/v1/pods.*fieldSelector=spec.nodeName%3Dn2$')], [2, 2])
            check(config('endpoints', f'api_server: {api.url}', '    selectors: [{role: endpoints, label: "a=1"}, {role: service, label: "b=2"}, {role: pod, label: "c=3"}]\n'))
            self.assertEqual([len(api.seen(f'LIST /api/v1/{kind}.*labelSelector={value}$')) for kind, value in
                              (('endpoints', 'a%3D1'), ('services', 'b%3D2'), ('pods', 'c%3D3'))], [1, 1, 1])

    def test_what_is_attached_changes(self):
        with Api() as api:
            api.put('pods', POD)
            api.put('replicasets', obj('api-7d9', owner=('Deployment', 'api')))
            with scraper(config('pod', f'api_server: {api.url}', ATTACH)) as s:
                def labels(*names):
                    return tuple(targets(s).get('10.0.0.1:6060', {}).get(n) for n in names)
                self.assertEqual(targets(s), {})  # on a node that is not known
                api.put('nodes', NODE)
                wait_for('the pod, since its node is known', lambda: labels('pod_deployment_name', 'node_name', 'namespace_label_team') == ('api', 'n1', None))
                api.put('namespaces', NAMESPACE)
                wait_for('its node and namespace', lambda: labels('node_name', 'namespace_label_team') == ('n1', 'shop'))
                api.put('namespaces', obj('web', None, {'team': 'till'}))
                wait_for('a new label', lambda: labels('namespace_label_team') == ('till',))
                api.delete('nodes', 'n1', '')
                api.delete('replicasets', 'api-7d9')
                wait_for('what went', lambda: labels('node_name', 'pod_deployment_name') == (None, None))
                self.assertEqual(failures(s), 0)

    def test_credentials(self):
        f = Files()
        self.addCleanup(f.close)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f['server.pem'], f['server.key'])
        with Api('s3cret', context) as api, tempfile.TemporaryDirectory() as d:
            api.put('pods', pod('a', '10.0.0.1'))
            with open(f'{d}/token', 'w') as out:
                out.write('wrong')
            with scraper(config('pod', f'api_server: {api.url}', http=f'    authorization: {{credentials_file: {d}/token}}\n    tls_config: {{ca_file: {f["ca.pem"]}}}\n')) as s:
                wait_for('a failure', lambda: failures(s))
                self.assertEqual(targets(s), {})
                with open(f'{d}/token', 'w') as out:
                    out.write('s3cret\n')
                self.addresses(s, '10.0.0.1:8080')
            with open(f['ca.pem'], 'rb') as ca:
                data = base64.b64encode(ca.read()).decode()
            kubeconfig = {'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'c', 'contexts': [{'name': 'c', 'context': {'cluster': 'k', 'user': 'u'}}],
                          'clusters': [{'name': 'k', 'cluster': {'server': api.url, 'certificate-authority-data': data}}], 'users': [{'name': 'u', 'user': {'tokenFile': 'token'}}]}
            for user, expected in (({'tokenFile': 'token'}, None), ({'token': 's3cret'}, None), ({'exec': {'command': 'aws'}}, 'come from "exec", which is not supported'),
                                   ({'token': 'no'}, 'status 401: Unauthorized')):
                kubeconfig['users'][0]['user'] = user
                with open(f'{d}/kubeconfig', 'w') as out:
                    json.dump(kubeconfig, out)
                found, err = check(config('pod', f'kubeconfig_file: {d}/kubeconfig'))
                if expected:
                    self.assertIn(expected, err)
                else:
                    self.assertEqual(set(found or err), {'10.0.0.1:8080'})
            self.assertIn('not inside a cluster', check(config('pod', ''))[1])

    @unittest.skipIf(os.geteuid() != 0, 'needs root for a mount namespace')
    def test_in_cluster(self):
        """As a pod: the server from the environment, the service account where kubelet mounts it; its token is renewed."""
        f = Files()
        self.addCleanup(f.close)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f['server.pem'], f['server.key'])
        with Api('first', context) as api, tempfile.TemporaryDirectory() as account:
            def write(name, text):
                with open(f'{account}/.new', 'w') as out:
                    out.write(text)
                os.rename(f'{account}/.new', f'{account}/{name}')
            write('token', 'first\n')
            write('namespace', 'web\n')
            with open(f['ca.pem']) as ca:
                write('ca.crt', ca.read())
            api.put('pods', pod('a', '10.0.0.1'), pod('b', '10.0.0.2', namespace='other'))
            inside = '/run/secrets/kubernetes.io/serviceaccount'
            bind = f'mkdir -p {inside} && mount --bind {account} {inside} && exec "$@"'
            prefix = (mounted('tmpfs', '/run', bind) if os.path.ismount('/run') else
                      [*own_mounts(), 'sh', '-c', f'mount -t tmpfs none /run && {bind}']) + ['sh']
            host, _, port = api.url.removeprefix('https://').rpartition(':')
            env = {**os.environ, 'KUBERNETES_SERVICE_HOST': host, 'KUBERNETES_SERVICE_PORT': port}
            with scraper(config('pod', 'namespaces: {own_namespace: true}'), env=env, prefix=prefix) as s:
                self.addresses(s, '10.0.0.1:8080')
                api.token = 'second'
                api.disconnect(forget=True)
                wait_for('a failure', lambda: failures(s))
                self.addresses(s, '10.0.0.1:8080')
                write('token', 'second')
                api.put('pods', pod('c', '10.0.0.3'))
                self.addresses(s, '10.0.0.1:8080', '10.0.0.3:8080')

    def test_limits(self):
        with Api() as api, scraper(config('pod', f'api_server: {api.url}'), '--discover.max-answer-bytes=64KB', '--discover.max-event-bytes=16KB') as s:
            def too_large():
                return s.metrics()['sonde_discover_too_large_total{kind="kubernetes"}']
            api.put('pods', pod('a', '10.0.0.1'))
            self.addresses(s, '10.0.0.1:8080')
            self.assertEqual(too_large(), 0)
            api.put('pods', pod('b', '10.0.0.2', annotations={'a': 'x' * 20000}))
            wait_for('a refused event', too_large)  # the list that follows holds it
            self.addresses(s, '10.0.0.1:8080', '10.0.0.2:8080')
            n = too_large()
            api.put('pods', pod('c', '10.0.0.3', annotations={'a': 'x' * 70000}))
            wait_for('refused events and lists', lambda: too_large() > n + 1)
            self.addresses(s, '10.0.0.1:8080', '10.0.0.2:8080')
            api.delete('pods', 'c')
            api.put('pods', pod('d', '10.0.0.4'))
            self.addresses(s, '10.0.0.1:8080', '10.0.0.2:8080', '10.0.0.4:8080')


if __name__ == '__main__':
    unittest.main()
