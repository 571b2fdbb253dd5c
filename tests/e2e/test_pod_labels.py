"""--kubernetes: samples of processes in control groups named as the kubelet names them get what the cluster says of their pods."""
import ssl
import subprocess
import unittest

import sonde_e2e as e2e
import test_cgroups  # the module: its tests must not become tests of this one
from test_cgroups import BURN_C, hierarchies
from test_kubernetes_sd import Api, obj
from test_web_config import Files

BESIDE_OTHERS = True

UID = '7d0c4a52-93a1-4c0e-b1ac-3e1f7f0c5d11'
OTHER = '8e1d5b63-a4b2-4d1f-82bd-4f2a8a1d6e22'
ID, INIT, PAUSE = ('c' * 63 + '1', 'd' * 63 + '2', 'e' * 63 + '3')
NODE = 'sonde-node'


def pod(name, uid, containers, node=NODE, **kw):
    """A running pod; containers: {name: (image, id)}."""
    return obj(name, 'shop', spec={'nodeName': node, 'containers': [{'name': n, 'image': image} for n, (image, _) in containers.items()],
                                   'serviceAccountName': 'default', 'tolerations': [{'operator': 'Exists'}]},
               status={'phase': 'Running', 'qosClass': 'Burstable', 'containerStatuses': [
                   {'name': n, 'image': 'sha256:0', 'containerID': f'containerd://{i}', 'ready': True, 'state': {'running': {}}} for n, (_, i) in containers.items() if i]}, **kw)


def with_uid(o, uid):
    o['metadata']['uid'] = uid
    return o


class Kubelet(Api):
    """The same objects under a kubelet's /pods."""

    def answer(self, handler):
        if self.token and handler.headers.get('Authorization') != f'Bearer {self.token}':
            return self.fail(handler, 401, 'Unauthorized')
        if handler.path != '/pods':
            return self.fail(handler, 404, 'not found')
        with self.lock:
            self.requests.append('GET ' + handler.path)
            items = list(self.objects['pods'].values())
        self.reply(handler, 200, {'kind': 'PodList', 'apiVersion': 'v1', 'metadata': {}, 'items': items})


@e2e.needs_kernel
class PodLabels(unittest.TestCase):
    make, start_in, rmdir, clean = test_cgroups.Cgroups.make, test_cgroups.Cgroups.start_in, staticmethod(test_cgroups.Cgroups.rmdir), test_cgroups.Cgroups.clean

    def setUp(self):
        self.made, self.running = [], []
        self.addCleanup(self.clean)
        mounts = hierarchies()
        self.mount = mounts.get('v2') or next((m for n, m in mounts.items() if n in ('memory', 'pids')), None)
        if not self.mount:
            self.skipTest('no cgroup hierarchy here')
        self.prog = e2e.compile_c(BURN_C, '-O1', name='burner')

    def start(self, uid, container, driver='cgroupfs'):
        if driver == 'systemd':
            slice_ = f'kubepods-burstable-pod{uid.replace("-", "_")}.slice'
            path = f'kubepods.slice/kubepods-burstable.slice/{slice_}/cri-containerd-{container}.scope'
        else:
            path = f'kubepods/burstable/pod{uid}/{container}'
        return self.start_in(self.make(self.mount, path))

    def exporter(self, *flags):
        return e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', f'--node.name={NODE}', '--kubernetes', *flags)

    def labels(self, daemon, pid, names, **want):
        """Waits until samples of the process have these labels."""
        def right():
            r = daemon.get(f'/debug/pprof/profile?seconds=1&hz=199&pid={pid}')
            found = [{n: s[2].get(n, '') for n in names} for s in e2e.Pprof(r.body).samples]
            return found if found and all(f == {**dict.fromkeys(names, ''), **want} for f in found[-1:]) else None
        try:
            e2e.wait_for(f'labels {want}', right)
        except AssertionError:
            r = daemon.get(f'/debug/pprof/profile?seconds=1&hz=199&pid={pid}')
            raise AssertionError(f'{[s[2] for s in e2e.Pprof(r.body).samples][:2]}\n{daemon.output()[-2000:]}') from None

    NAMES = ('pod', 'namespace', 'container_name', 'container_image', 'pod_label_app_kubernetes_io_name', 'pod_annotation_team')
    SELECT = ('--kubernetes.pod-label=app.kubernetes.io/name', '--kubernetes.pod-annotation=team')
    TILL = dict(pod='till-5f6d', namespace='shop', container_name='till', container_image='reg/till:7',
                pod_label_app_kubernetes_io_name='till', pod_annotation_team='cash')

    def till(self, **kw):
        return with_uid(pod('till-5f6d', UID, {'till': ('reg/till:7', ID)}, labels={'app.kubernetes.io/name': 'till', 'other': 'x'},
                            annotations={'team': 'cash'}, **kw), UID)

    def test_watch(self):
        with Api() as api:
            api.put('pods', self.till(), with_uid(pod('elsewhere', OTHER, {'x': ('i', INIT)}, node='another'), OTHER))
            main, other, pause = self.start(UID, ID), self.start(OTHER, INIT, 'systemd'), self.start(UID, PAUSE, 'systemd')
            with self.exporter(f'--kubernetes.server={api.url}/', *self.SELECT) as d:
                self.labels(d, main, self.NAMES, **self.TILL)
                # the pod's own container is in no status: the pod is known by its uid
                self.labels(d, pause, self.NAMES, **{k: v for k, v in self.TILL.items() if not k.startswith('container')})
                self.labels(d, other, self.NAMES)
                self.assertTrue(all('fieldSelector=spec.nodeName%3Dsonde-node' in u for u in api.seen('pods')), api.seen('.'))
                r = d.get('/debug/pprof/profile?seconds=1&hz=199&label.pod_label_app_kubernetes_io_name=till&label.pod=till-5f6d')
                self.assertEqual(set(e2e.Pprof(r.body).by_label('pod')), {'till-5f6d'})
                r = d.get('/debug/pprof/profile?seconds=1&label.bogus=x')
                self.assertIn('pod_label_app_kubernetes_io_name pod_annotation_team', r.text)
                # scheduled here, then changed, then gone: what its control group was called stays
                moved = with_uid(pod('elsewhere', OTHER, {'x': ('i:2', INIT)}), OTHER)
                api.put('pods', moved)
                self.labels(d, other, self.NAMES, pod='elsewhere', namespace='shop', container_name='x', container_image='i:2')
                moved['metadata']['annotations'] = {'team': 'blue'}
                api.put('pods', moved)
                self.labels(d, other, self.NAMES, pod='elsewhere', namespace='shop', container_name='x', container_image='i:2', pod_annotation_team='blue')
                m = d.metrics()
                self.assertEqual((m['sonde_kubernetes_pods'], m['sonde_kubernetes_containers'], m['sonde_kubernetes_up']), (2, 2, 1))
                api.delete('pods', 'elsewhere', 'shop')
                e2e.wait_for('the pod to go', lambda: d.metrics()['sonde_kubernetes_pods'] == 1)
                self.labels(d, other, self.NAMES, pod='elsewhere', namespace='shop', container_name='x', container_image='i:2', pod_annotation_team='blue')

    def failures(self, d, reason):
        return d.metrics()[f'sonde_kubernetes_failures_total{{reason="{reason}"}}']

    def test_failures_keep_what_was_known(self):
        with Api() as api:
            api.refuse['LIST pods'] = 403
            api.put('pods', self.till())
            main = self.start(UID, ID)
            with self.exporter(f'--kubernetes.server={api.url}', '--kubernetes.max-bytes=64KB', *self.SELECT) as d:
                e2e.wait_for('a refusal', lambda: self.failures(d, 'denied'))
                self.assertIn('pods is forbidden', d.output())
                self.assertEqual(d.metrics()['sonde_kubernetes_up'], 0)
                self.labels(d, main, self.NAMES)
                del api.refuse['LIST pods']
                self.labels(d, main, self.NAMES, **self.TILL)
                # old versions are forgotten: a list, and nobody notices
                failed = sum(self.failures(d, r) for r in ('denied', 'error', 'malformed'))
                lists = len(api.seen('LIST'))
                e2e.wait_for('the watch', lambda: api.watching)
                api.disconnect(forget=True)
                e2e.wait_for('another list', lambda: len(api.seen('LIST')) > lists)
                self.assertEqual(sum(self.failures(d, r) for r in ('denied', 'error', 'malformed')), failed)
                # what is no event, and what is too much
                e2e.wait_for('the watch', lambda: api.watching)
                api.line('pods', '{"type": "ADDED", "object":')
                e2e.wait_for('a malformed event', lambda: self.failures(d, 'malformed'))
                api.put('pods', *(pod(f'many-{i}', 'u', {f'c{k}': ('image' * 40, f'{i}-{k}') for k in range(10)}) for i in range(60)))
                e2e.wait_for('too much', lambda: self.failures(d, 'too_large'))
                self.labels(d, main, self.NAMES, **self.TILL)

    def test_kubelet_with_tls_and_token(self):
        files = Files()
        self.addCleanup(files.close)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files['server.pem'], files['server.key'])
        with open(files['token'], 'w') as f:
            f.write('secret\n')
        with Kubelet(token='secret', context=context) as kubelet:
            kubelet.put('pods', self.till())
            main = self.start(UID, ID)
            flags = (f'--kubernetes.kubelet={kubelet.url}', '--kubernetes.interval=1s', f'--kubernetes.token-file={files["token"]}', *self.SELECT)
            with self.exporter(*flags) as d:
                e2e.wait_for('a certificate that nobody knows', lambda: self.failures(d, 'error'))
            with self.exporter(f'--kubernetes.ca-file={files["ca.pem"]}', *flags) as d:
                self.labels(d, main, self.NAMES, **self.TILL)
                changed = self.till()
                changed['metadata']['labels']['app.kubernetes.io/name'] = 'desk'
                kubelet.put('pods', changed)
                self.labels(d, main, self.NAMES, **{**self.TILL, 'pod_label_app_kubernetes_io_name': 'desk'})
                with open(files['token'], 'w') as f:
                    f.write('stale')
                e2e.wait_for('a refusal', lambda: self.failures(d, 'denied'))
                self.assertNotIn('stale', d.output())


class Flags(unittest.TestCase):
    def refused(self, *flags):
        p = subprocess.run([e2e.program('sonde-exporter'), *flags], capture_output=True, text=True, timeout=120)
        self.assertEqual(p.returncode, 2, p.stderr)
        return p.stderr

    def test_contradictions(self):
        self.assertIn('expected one of them', self.refused('--kubernetes', '--kubernetes.server=http://a', '--kubernetes.kubelet=http://b'))
        self.assertIn('--kubernetes.* without --kubernetes', self.refused('--kubernetes.pod-label=app'))
        self.assertIn('two of them give the label pod_label_a_b', self.refused('--kubernetes', '--kubernetes.pod-label=a.b', '--kubernetes.pod-label=a/b'))
        self.assertIn('--external-label=pod_label_app=x', self.refused('--kubernetes', '--kubernetes.pod-label=app', '--external-label', 'pod_label_app=x'))
        self.assertIn('more than 64', self.refused('--kubernetes', *(f'--kubernetes.pod-label=l{i}' for i in range(65))))


if __name__ == '__main__':
    unittest.main()
