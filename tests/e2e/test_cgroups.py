"""Labels from control groups: directories named as the runtimes name them, in the hierarchies that this machine has."""
import collections
import json
import os
import shutil
import signal
import subprocess
import unittest

import sonde_e2e as e2e

BESIDE_OTHERS = True

ID = ''.join(f'{i % 16:x}' for i in range(64))
UID = '1f2e3d4c-5b6a-4798-8a9b-acbdcedfe0f1'

# Runs for some milliseconds and ends, or enters the group it was given.
BRIEF = """#include <fcntl.h>
#include <time.h>
#include <unistd.h>
static void run_ms(long ms)
{
	volatile unsigned long sink = 0;
	while (clock() < ms * (CLOCKS_PER_SEC / 1000))
		sink++;
}
"""
BRIEF_C = BRIEF + 'int main(void) { run_ms(15); return 0; }'
LEAVER_C = BRIEF + """int main(int argc, char **argv)
{
	run_ms(15);
	return argc != 2 || write(open(argv[1], O_WRONLY), "0", 1) != 1 || (run_ms(60000), 0);
}
"""
BURN_C = 'volatile unsigned long sink; int main(void) { for (;;) sink++; }'


def hierarchies():
    """{'v2': mount point, controller: mount point …} of what is mounted and can be written."""
    out = {}
    with open('/proc/self/mountinfo') as f:
        for line in f:
            fields, _, fs = line.partition(' - ')
            where, kind = fields.split()[4], fs.split()[0]
            if not os.access(where, os.W_OK):
                continue
            if kind == 'cgroup2':
                out['v2'] = where
            elif kind == 'cgroup':
                out[os.path.basename(where)] = where
    return out


# What is made, relative to the hierarchy, and the labels that must come of it.
CASES = {
    'docker, cgroupfs driver': (f'docker/{ID}', {'container_id': ID}),
    'docker, systemd driver': (f'system.slice/docker-{ID}.scope', {'container_id': ID, 'systemd_unit': f'docker-{ID}.scope'}),
    'containerd': (f'kubepods.slice/kubepods-pod{UID.replace("-", "_")}.slice/cri-containerd-{ID}.scope', {'container_id': ID}),
    'kubelet, cgroupfs driver': (f'kubepods/burstable/pod{UID}/{ID}', {'container_id': ID}),
    'CRI-O': (f'kubepods.slice/kubepods-besteffort.slice/crio-{ID}.scope', {'container_id': ID}),
    'podman': (f'machine.slice/libpod-{ID}.scope/container', {'container_id': ID, 'systemd_unit': f'libpod-{ID}.scope'}),
    'systemd service': ('system.slice/sonde-test.service', {'systemd_unit': 'sonde-test.service', 'container_id': ''}),
    'systemd user unit': ('user.slice/user-7.slice/user@7.service/app.slice/x.service', {'systemd_unit': 'x.service'}),
    'LXC': ('lxc.payload.sonde-test', {'container_name': 'sonde-test', 'container_id': ''}),
    'nspawn': ('machine.slice/systemd-nspawn@sonde-test.service', {'container_name': 'sonde-test'}),
}


@e2e.needs_kernel
class Cgroups(unittest.TestCase):
    def setUp(self):
        self.made, self.running = [], []
        self.addCleanup(self.clean)
        self.mounts = hierarchies()
        self.prog = e2e.compile_c(BURN_C, '-O1', name='burner')
        self.addCleanup(lambda: (os.unlink(self.prog), os.unlink(self.prog + '.c'), os.rmdir(os.path.dirname(self.prog))))

    def clean(self):
        for p in self.running:
            p.send_signal(signal.SIGKILL)
            p.wait()
        for path in reversed(self.made):
            e2e.wait_for(f'rmdir {path}', lambda path=path: self.rmdir(path))

    @staticmethod
    def rmdir(path):
        try:
            os.rmdir(path)
        except OSError:
            return not os.path.exists(path)
        return True

    def make(self, mount, path):
        """Makes the directories that are missing; remembers those it made."""
        at = mount
        for part in path.split('/'):
            at = f'{at}/{part}'
            if not os.path.isdir(at):
                os.mkdir(at)
                self.made.append(at)
        return at

    def start_in(self, *directories, command=None):
        def enter():
            for directory in directories:
                with open(f'{directory}/cgroup.procs', 'w') as f:
                    f.write(str(os.getpid()))
        p = subprocess.Popen(command or [self.prog], preexec_fn=enter, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.running.append(p)
        return p.pid

    def labels_by_pid(self, daemon, *pids):
        """Of a window that has samples of each."""
        def window():
            r = daemon.get('/debug/pprof/profile?seconds=1&hz=499&comm=burner')
            self.assertEqual(r.status, 200, r.text[:200])
            out = {int(labels['pid']): labels for _, _, labels in e2e.Pprof(r.body).samples}
            return out if out.keys() >= set(pids) else None
        return e2e.wait_for('samples of each', window, interval=0)

    def check_all(self, mounts):
        started = {}
        for what, (path, want) in CASES.items():
            started[what] = (self.start_in(*[self.make(mount, path) for mount in mounts]), '/' + path, want)
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0') as daemon:
            by_pid = self.labels_by_pid(daemon, *[pid for pid, _, _ in started.values()])
        for what, (pid, path, want) in started.items():
            with self.subTest(what):
                labels = by_pid[pid]
                self.assertEqual(labels.get('cgroup', ''), path)
                for name, value in want.items():
                    self.assertEqual(labels.get(name, ''), value, labels)

    def test_v2(self):
        if 'v2' not in self.mounts:
            self.skipTest('no cgroup v2 hierarchy here')
        self.check_all([self.mounts['v2']])

    def test_v1(self):
        # As runtimes do: the same path in each; the longest of all is what names the process.
        v1 = [m for name, m in self.mounts.items() if name in ('memory', 'pids', 'systemd')]
        if not v1:
            self.skipTest('no cgroup v1 hierarchy here')
        self.check_all(v1)

    def test_a_child_that_leaves(self):
        """What a runtime does: forks, runs a little, moves to the container's group. The group it left keeps its name."""
        if 'v2' not in self.mounts:
            self.skipTest('no cgroup v2 hierarchy here')
        mount = self.mounts['v2']
        runtime, container = (self.make(mount, f'sonde-test.slice/{name}.service') for name in ('runtime', 'container'))
        leaver, brief = e2e.compile_c(LEAVER_C, '-O1', name='leaver'), e2e.compile_c(BRIEF_C, '-O1', name='brief')
        self.addCleanup(lambda: [shutil.rmtree(os.path.dirname(p)) for p in (leaver, brief)])
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', '--profile.frequency=499') as daemon:
            for _ in range(3):
                self.start_in(runtime, command=[leaver, f'{container}/cgroup.procs'])
            # Gone before anybody can ask where they were.
            self.start_in(runtime, command=['sh', '-c', f'while :; do {brief}; done'])
            groups = collections.defaultdict(collections.Counter)
            for _ in range(10):  # on a busy machine these run little
                r = daemon.get('/debug/pprof/profile?seconds=4')
                self.assertEqual(r.status, 200, r.text[:200])
                for _, values, labels in e2e.Pprof(r.body).samples:
                    groups[labels['comm']][os.path.basename(labels.get('cgroup', ''))] += values[0]
                if groups['brief']['runtime.service'] > 100 and groups['leaver']['container.service'] > 100:
                    break
        self.assertEqual(set(groups['brief']), {'runtime.service'}, groups)
        self.assertGreater(groups['brief']['runtime.service'], 100)
        self.assertGreater(groups['leaver']['container.service'], 100, groups)

    def state_file(self, path, document):
        """A file as a runtime keeps it; what was made is taken away again."""
        at, missing = os.path.dirname(path), []
        while not os.path.isdir(at):
            missing.append(at)
            at = os.path.dirname(at)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.assertFalse(os.path.exists(path), f'{path} is there already')
        with open(path, 'w') as f:
            json.dump(document, f)
        os.chmod(path, 0o600)
        self.addCleanup(lambda: [os.unlink(path)] + [os.rmdir(d) for d in missing])

    def test_state_of_container_runtimes(self):
        mount = self.mounts.get('v2') or next((m for n, m in self.mounts.items() if n in ('memory', 'pids')), None)
        if not mount:
            self.skipTest('no cgroup hierarchy here')
        ids = [f'{i:x}' * 64 for i in range(4, 8)]
        task = '/run/containerd/io.containerd.runtime.v2.task/k8s.io'
        cases = {
            'docker': (f'docker/{ids[0]}', f'/var/lib/docker/containers/{ids[0]}/config.v2.json',
                       {'ID': ids[0], 'Name': '/shop-1', 'Config': {'Image': 'shop:1.2', 'Labels': {'a': 'b'}}},
                       {'container_name': 'shop-1', 'container_image': 'shop:1.2', 'pod': ''}),
            'containerd': (f'kubepods/pod{UID}/{ids[1]}', f'{task}/{ids[1]}/config.json',
                           {'ociVersion': '1.1.0', 'annotations': {
                               'io.kubernetes.cri.container-name': 'till', 'io.kubernetes.cri.image-name': 'reg/till:7',
                               'io.kubernetes.cri.sandbox-name': 'till-5f6d', 'io.kubernetes.cri.sandbox-namespace': 'shop'}},
                           {'container_name': 'till', 'container_image': 'reg/till:7', 'pod': 'till-5f6d', 'namespace': 'shop'}),
            'CRI-O': (f'kubepods.slice/crio-{ids[2]}.scope', f'/run/containers/storage/overlay-containers/{ids[2]}/userdata/config.json',
                      {'annotations': {'io.kubernetes.container.name': 'cart', 'io.kubernetes.cri-o.ImageName': 'reg/cart:2',
                                       'io.kubernetes.pod.name': 'cart-0', 'io.kubernetes.pod.namespace': 'shop'}},
                      {'container_name': 'cart', 'container_image': 'reg/cart:2', 'pod': 'cart-0', 'namespace': 'shop'}),
            'podman': (f'machine.slice/libpod-{ids[3]}.scope', '/var/lib/containers/storage/overlay-containers/containers.json',
                       [{'id': 'f' * 64, 'names': ['other']},
                        {'id': ids[3], 'names': ['stall'], 'metadata': json.dumps({'image-name': 'docker.io/library/stall:9', 'name': 'stall'})}],
                       {'container_name': 'stall', 'container_image': 'docker.io/library/stall:9', 'pod': ''}),
        }
        pids = {}
        for what, (group, path, document, _) in cases.items():
            self.state_file(path, document)
            pids[what] = self.start_in(self.make(mount, group))
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0') as daemon:
            by_pid = self.labels_by_pid(daemon, *pids.values())
            found = daemon.metrics()['sonde_container_lookups_total{result="found"}']
            r = daemon.get('/debug/pprof/profile?seconds=1&hz=99&container=till')
        for what, (_, _, _, want) in cases.items():
            with self.subTest(what):
                labels = by_pid[pids[what]]
                self.assertEqual({k: labels.get(k, '') for k in want}, want)
        self.assertEqual(found, len(cases))
        self.assertEqual(set(e2e.Pprof(r.body).by_label('container_name')), {'till'})

    def test_move_is_seen(self):
        if 'v2' not in self.mounts:
            self.skipTest('no cgroup v2 hierarchy here')
        before, after = (self.make(self.mounts['v2'], f'system.slice/sonde-{x}.service') for x in ('before', 'after'))
        pid = self.start_in(before)
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0') as daemon:
            self.assertEqual(self.labels_by_pid(daemon, pid)[pid]['systemd_unit'], 'sonde-before.service')
            with open(f'{after}/cgroup.procs', 'w') as f:
                f.write(str(pid))
            self.assertEqual(self.labels_by_pid(daemon, pid)[pid]['systemd_unit'], 'sonde-after.service')


if __name__ == '__main__':
    unittest.main()
