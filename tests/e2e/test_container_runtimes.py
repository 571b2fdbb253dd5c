"""Labels of containers that real runtimes have started: docker, containerd and podman of Debian, in a clean Debian 12."""
import glob
import os
import shutil
import signal
import subprocess
import unittest

import sonde_e2e as e2e
from debian_root import DebianRoot, why_not

PACKAGES = ('docker.io', 'containerd', 'runc', 'podman')
BURN_C = 'volatile unsigned long sink; int main(void) { for (;;) sink++; }'
TASK = '4' * 64
POD_UID = '1f2e3d4c-5b6a-4798-8a9b-acbdcedfe0f1'
GROUP = f'sonde-test-{os.getpid()}'

# As kubelet has containerd start a container, but by ctr. The driver vfs needs no mounts of file systems. When its input ends all that was started goes.
SCRIPT = f'''
P="podman --storage-driver=vfs --cgroup-manager=cgroupfs --runtime=runc"
containerd > /ctr/containerd.log 2>&1 & containerd=$!
for i in $(seq 300); do [ -S /run/containerd/containerd.sock ] && break; sleep 0.1; done
dockerd --iptables=false --bridge=none --storage-driver=vfs --containerd=/run/containerd/containerd.sock > /ctr/dockerd.log 2>&1 & dockerd=$!
ctr -n k8s.io run -d --rootfs --annotation io.kubernetes.cri.container-name=till --annotation io.kubernetes.cri.image-name=reg/till:7 \\
    --annotation io.kubernetes.cri.sandbox-name=till-5f6d --annotation io.kubernetes.cri.sandbox-namespace=shop \\
    --cgroup /{GROUP}/pod{POD_UID}/{TASK} /ctr/rootfs {TASK} /burner || echo failed ctr
tar -C /ctr/rootfs -cf /ctr/image.tar .
$P import -q /ctr/image.tar stall:9 > /dev/null || echo failed import
$P run -q -d --name stall --network=none --cgroup-parent=/{GROUP} --ulimit nofile=1024:1024 --ulimit nproc=100:100 \\
    localhost/stall:9 /burner > /ctr/podman.id || echo failed podman
for i in $(seq 300); do docker version > /dev/null 2>&1 && break; sleep 0.1; done
docker import /ctr/image.tar shop:1.2 > /dev/null || echo failed docker import
docker run -d --network=none --cgroup-parent=/{GROUP} --ulimit nofile=1024:1024 --name shop-1 shop:1.2 /burner > /ctr/docker.id || echo failed docker
echo started
read nothing
docker rm -f shop-1; $P rm -f -t 0 stall; ctr -n k8s.io task kill -s KILL {TASK}; sleep 1; ctr -n k8s.io container rm {TASK}
kill $dockerd; wait $dockerd; kill $containerd; wait $containerd
'''

# The exporter sees the files of those runtimes where a host has them.
SEEN = ('mount -t tmpfs none /var/lib && mount -t tmpfs none /run || exit 1; '
        'for d in /var/lib/containers /var/lib/docker /run/containerd; do mkdir -p $d && mount --bind "$0$d" $d || exit 1; done; exec "$@"')


def remove_groups():
    for top in glob.glob(f'/sys/fs/cgroup/{GROUP}') + glob.glob(f'/sys/fs/cgroup/*/{GROUP}'):
        for path, _, _ in os.walk(top, topdown=False):
            os.rmdir(path)


@e2e.needs_kernel
@unittest.skipIf(e2e.is_sanitized(), 'what a release build shows of packages')
class ContainerRuntimes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = why_not()
        if why:
            raise unittest.SkipTest(f'no clean Debian 12: {why}')
        cls.root = DebianRoot()
        cls.addClassCleanup(cls.root.remove)
        update = cls.root.run('apt-get', 'update', '-q')
        p = cls.root.run('apt-get', 'install', '-y', '-q', '--no-install-recommends', *PACKAGES, timeout=600)
        if update.returncode or p.returncode:
            raise unittest.SkipTest(f'the runtimes cannot be installed: {(update.stderr + p.stderr).strip()[-200:]}')
        os.makedirs(f'{cls.root.path}/ctr/rootfs')
        prog = e2e.compile_c(BURN_C, '-O1', '-static', name='burner')
        shutil.move(prog, f'{cls.root.path}/ctr/rootfs/burner')
        shutil.rmtree(os.path.dirname(prog))
        cls.runtimes = subprocess.Popen(cls.root.command('sh', '-c', SCRIPT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, start_new_session=True)
        cls.addClassCleanup(cls.stop)
        said = []
        for line in cls.runtimes.stdout:
            if line == 'started\n':
                break
            said.append(line)
        if any(line.startswith('failed') for line in said) or cls.runtimes.poll() is not None:
            raise AssertionError(''.join(said)[-2000:])

    @classmethod
    def stop(cls):
        try:
            cls.runtimes.communicate('\n', timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(cls.runtimes.pid, signal.SIGKILL)
            raise
        e2e.wait_for('their groups are empty', lambda: not remove_groups() or True)

    def id_of(self, runtime):
        with open(f'{self.root.path}/ctr/{runtime}.id') as f:
            return f.read().strip()

    def test_labels(self):
        want = {
            'docker': {'container_id': self.id_of('docker'), 'container_name': 'shop-1', 'container_image': 'shop:1.2'},
            'containerd': {'container_id': TASK, 'container_name': 'till', 'container_image': 'reg/till:7', 'pod': 'till-5f6d', 'namespace': 'shop'},
            'podman': {'container_id': self.id_of('podman'), 'container_name': 'stall', 'container_image': 'localhost/stall:9'},
        }
        names = ('container_id', 'container_name', 'container_image', 'pod', 'namespace')
        prefix = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', SEEN, self.root.path]
        with e2e.exporter('--symbols.cache-path=', '--profile.max-overhead=0', prefix=prefix) as d:
            def all_of_them():
                p = e2e.Pprof(d.get('/debug/pprof/profile?seconds=1&hz=99&comm=burner').body)
                got = {labels.get('container_id'): {k: labels[k] for k in names if k in labels} for _, _, labels in p.samples}
                return got if len(got) >= len(want) else None
            got = e2e.wait_for('samples of each', all_of_them, interval=0)
            for runtime, labels in want.items():
                with self.subTest(runtime):
                    self.assertEqual(got.get(labels['container_id']), labels)
            items = d.get('/targets?by=container').json
        by_id = {i['labels']['__meta_container_id']: i['labels'] for i in items if i['labels'].get('__meta_container_id')}
        for runtime, labels in want.items():
            with self.subTest(f'/targets: {runtime}'):
                t = by_id[labels['container_id']]
                self.assertEqual((t['__meta_container_name'], t['__meta_container_image']), (labels['container_name'], labels['container_image']))


if __name__ == '__main__':
    unittest.main()
