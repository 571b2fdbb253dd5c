"""configs/kubernetes: valid by the schemas of Kubernetes, in harmony with each other and with the programs, and with capabilities that suffice."""
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml
from sonde_e2e import TOP, Daemon, Pprof, Workload, compile_c, http_get, is_sanitized, needs_kernel, program, wait_for

BESIDE_OTHERS = True

FOLDER = f'{TOP}/configs/kubernetes'
SPIN = r'''
#include <stdint.h>
__attribute__((noinline)) uint64_t pod_work(uint64_t n) { uint64_t x = n; for (int i = 0; i < 3000000; i++) x = x * 6364136223846793005ULL + 1; return x; }
int main(void) { volatile uint64_t v = 1; for (;;) v = pod_work(v); }
'''


def manifests():
    """{file: its objects}, without kustomize's own."""
    out = {}
    for path in sorted(glob.glob(f'{FOLDER}/*.yml')):
        with open(path) as f:
            out[os.path.basename(path)] = [o for o in yaml.safe_load_all(f) if o]
    return out


def objects(kind=None):
    return [o for file in manifests().values() for o in file if kind in (None, o['kind'])]


def workloads():
    return objects('DaemonSet') + objects('StatefulSet')


def container(name):
    return next(c for w in workloads() for c in w['spec']['template']['spec']['containers'] if c['name'] == name)


class SchemaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which('node'):
            raise unittest.SkipTest('node is not installed')
        p = subprocess.run([f'{TOP}/.ci/npm-install', 'tests/e2e/kubernetes'], capture_output=True, text=True, timeout=180)
        if p.returncode:
            raise unittest.SkipTest(f'the npm packages of the schemas cannot be installed: {p.stderr.strip()[-200:]}')

    def validate(self, *what):
        p = subprocess.run(['node', f'{TOP}/build/npm/kubernetes/validate.mjs'], input=json.dumps(what), capture_output=True, text=True, timeout=120)
        self.assertEqual(p.returncode, 0, p.stderr)
        return json.loads(p.stdout)

    def test_manifests_are_valid(self):
        found = objects()
        self.assertGreater(len(found), 9)
        for o, errors in zip(found, self.validate(*found)):
            self.assertEqual(errors, [], f"{o['kind']} {o['metadata']['name']}")

    def test_validator_finds_mistakes(self):
        wrong, unknown, kind = json.loads(json.dumps([objects('DaemonSet')[0]] * 3))
        wrong['spec']['template']['spec']['containers'][0]['ports'][0]['containerPort'] = 'http'
        unknown['spec']['template']['spec']['hostPid'] = True
        kind['kind'] = 'DemonSet'
        answers = self.validate(wrong, unknown, kind)
        self.assertIn('containerPort must be integer', answers[0][0])
        self.assertEqual(answers[1], ['/spec/template/spec/hostPid is unknown'])
        self.assertIn('DemonSet is no kind', answers[2][0])


class HarmonyTest(unittest.TestCase):
    def test_kustomization_names_every_file(self):
        with open(f'{FOLDER}/kustomization.yaml') as f:
            self.assertEqual(sorted(yaml.safe_load(f)['resources']), sorted(manifests()))

    def test_selectors_select(self):
        labels = [w['spec']['template']['metadata']['labels'] for w in workloads()]
        self.assertEqual(len(labels), 2)
        selectors = [o['spec']['selector'] for o in objects('Service')] + [o['spec']['podSelector']['matchLabels'] for o in objects('NetworkPolicy')]
        selectors += [w['spec']['selector']['matchLabels'] for w in workloads()]
        for s in selectors:
            self.assertEqual(sum(s.items() <= own.items() for own in labels), 1, s)
        accounts = {o['metadata']['name'] for o in objects('ServiceAccount')}
        self.assertEqual({w['spec']['template']['spec']['serviceAccountName'] for w in workloads()}, accounts)

    def test_flags_exist(self):
        for name in ('sonde-exporter', 'sonde-scraper'):
            out = subprocess.run([program(name), '--help'], capture_output=True, text=True, check=True).stdout
            for arg in container(name)['args']:
                self.assertIn(arg.split('=')[0].removeprefix('--'), re.findall(r'^ +--(?:\[no-\])?([a-z.-]+)', out, re.M))

    def test_scrape_configuration_is_valid(self):
        text = objects('ConfigMap')[0]['data']['sonde.yml']
        with tempfile.NamedTemporaryFile('w', suffix='.yml') as f:
            f.write(text)
            f.flush()
            p = subprocess.run([program('sonde'), 'check', 'config', f.name], capture_output=True, text=True)
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)

    def test_nothing_is_privileged(self):
        for w in workloads():
            pod = w['spec']['template']['spec']
            for c in pod['containers']:
                s = c['securityContext']
                self.assertFalse(s.get('privileged'))
                self.assertTrue(s['readOnlyRootFilesystem'])
                self.assertEqual(s['capabilities']['drop'], ['ALL'])
                host = {v['name'] for v in pod.get('volumes', []) if 'hostPath' in v}
                self.assertTrue(all(m.get('readOnly') for m in c['volumeMounts'] if m['name'] in host))
        self.assertNotIn('add', container('sonde-scraper')['securityContext']['capabilities'])


@needs_kernel
@unittest.skipIf(is_sanitized(), 'sanitizers need more than the capabilities')
class CapabilitiesTest(unittest.TestCase):
    def test_listed_capabilities_suffice(self):
        caps = ''.join(f',+{c.lower()}' for c in container('sonde-exporter')['securityContext']['capabilities']['add'])
        state = tempfile.mkdtemp(prefix='sonde-pod.')
        self.addCleanup(shutil.rmtree, state, ignore_errors=True)
        os.chmod(state, 0o777)  # as an emptyDir is
        work = compile_c(SPIN, '-O0', '-fno-omit-frame-pointer', name='podspin')
        self.addCleanup(shutil.rmtree, os.path.dirname(work), ignore_errors=True)
        prefix = ['setpriv', f'--bounding-set=-all{caps}', '--inh-caps=-all', '--no-new-privs']
        with Workload(work), Daemon('sonde-exporter', f'--symbols.cache-path={state}/symbols', prefix=prefix) as d:
            def named():
                return Pprof(http_get(d.url + '/debug/pprof/profile?seconds=2&hz=99&comm=podspin').body).functions().get('pod_work')
            wait_for('the name of a function', named)
            self.assertFalse([k for k in d.metrics() if k.startswith('sonde_capability_missing')], d.output())
            self.assertNotEqual(os.stat(f'{state}/symbols').st_uid, 0)


if __name__ == '__main__':
    unittest.main()
