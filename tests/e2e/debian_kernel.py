"""Another Linux than this machine's: the kernel that Debian ships, in a virtual machine whose root is this machine's, as seen through an overlay.

Emulated, since a virtual machine seldom may start others: some ten times slower, and what is written in it is gone with it.
"""
import fcntl
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from debian_root import CACHE
from sonde_e2e import build_dir

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = 'linux-image-amd64'
KERNEL = f'{CACHE}/kernel'  # its vmlinuz and mods/*.ko
BUSYBOX = '/bin/busybox'
QEMU = 'qemu-system-x86_64'
# In the order in which one needs the other; those that are built in have no file.
MODULES = ('virtio_ring', 'virtio', 'virtio_pci_modern_dev', 'virtio_pci_legacy_dev', 'virtio_pci', 'netfs', 'fscache', '9pnet', '9pnet_virtio', '9p', 'overlay')
INIT = '''#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for m in /mods/*; do insmod $m; done
share='-t 9p -o trans=virtio,version=9p2000.L,msize=524288'
mount $share,ro,cache=loose host /low && mount -t tmpfs up /up && mkdir /up/u /up/w &&
mount -t overlay -o lowerdir=/low,upperdir=/up/u,workdir=/up/w root /root || poweroff -f
for d in proc sys dev; do mount --move /$d /root/$d; done
mkdir -p /root/dev/shm /root/dev/pts
mount -t tmpfs shm /root/dev/shm; mount -t devpts pts /root/dev/pts; mount -t tmpfs run /root/run
mount -t cgroup2 cgroup /root/sys/fs/cgroup; mount -t tracefs trace /root/sys/kernel/tracing; mount -t bpf bpf /root/sys/fs/bpf
mkdir /root/run/out && mount $share out /root/run/out
ip link set lo up
chroot /root /bin/sh /run/out/guest >/root/run/out/output 2>&1
sync; poweroff -f
'''


def package_file(where):
    """The package with the kernel, downloaded to `where`, or None: the archive's newest, or the next that it has unsigned."""
    depends = subprocess.run(['apt-cache', 'depends', PACKAGE], capture_output=True, text=True).stdout
    names = re.findall(r'Depends: (linux-image-\S+)', depends)
    unsigned = subprocess.run(['apt-cache', 'search', '--names-only', r'^linux-image-[0-9.]+-[0-9]+-amd64-unsigned$'], capture_output=True, text=True).stdout
    by_number = sorted((line.split()[0] for line in unsigned.splitlines()), key=lambda n: [int(x) for x in re.findall(r'\d+', n)], reverse=True)
    for name in names + by_number:
        if subprocess.run(['apt-get', 'download', '-q', name], cwd=where, capture_output=True, timeout=300).returncode == 0:
            return glob.glob(f'{where}/linux-image-*.deb')[0]
    return None


def unpack(package, new):
    """The kernel and the modules that it needs to see its root, from the package, in the folder `new`."""
    subprocess.run(['dpkg-deb', '-x', package, f'{new}/all'], check=True)
    shutil.copy(glob.glob(f'{new}/all/boot/vmlinuz-*')[0], f'{new}/vmlinuz')
    os.mkdir(f'{new}/mods')
    for i, name in enumerate(MODULES):
        for path in glob.glob(f'{new}/all/lib/modules/*/kernel/**/{name}.ko', recursive=True):
            shutil.copy(path, f'{new}/mods/{i:02}-{name}.ko')
    shutil.rmtree(f'{new}/all')
    os.unlink(package)


def why_not():
    """Why there is no such machine here, or None. Fetches the kernel, when it is not there yet."""
    if os.geteuid():
        return 'not root, who alone may show all of this machine to another'
    for name, package in ((QEMU, 'qemu-system-x86'), (BUSYBOX, 'busybox-static'), ('apt-get', 'apt'), ('dpkg-deb', 'dpkg')):
        if not shutil.which(name):
            return f'{name} is not installed (Debian package {package})'
    os.makedirs(CACHE, exist_ok=True)
    with open(f'{CACHE}/kernel.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(KERNEL):
            return None
        new = tempfile.mkdtemp(prefix='new-kernel.', dir=CACHE)
        try:
            package = package_file(new)
            if not package:
                return f'the archive has no {PACKAGE}, or cannot be reached'
            unpack(package, new)
            os.rename(new, KERNEL)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return None


def first_root(folder, kernel):
    """Makes the file `first-root`, which the kernel begins with."""
    root = f'{folder}/root'
    for name in ('proc', 'sys', 'dev', 'low', 'up', 'root', 'bin'):
        os.makedirs(f'{root}/{name}')
    shutil.copy(BUSYBOX, f'{root}/bin/busybox')
    for name in ('sh', 'mount', 'mkdir', 'insmod', 'ip', 'chroot', 'sync', 'poweroff'):
        os.symlink('busybox', f'{root}/bin/{name}')
    shutil.copytree(f'{kernel}/mods', f'{root}/mods')
    with open(f'{root}/init', 'w') as f:
        f.write(INIT)
    os.chmod(f'{root}/init', 0o755)
    with open(f'{folder}/first-root', 'wb') as f:
        names = subprocess.run(['find', '.'], cwd=root, capture_output=True, check=True).stdout
        subprocess.run([BUSYBOX, 'cpio', '-o', '-H', 'newc'], cwd=root, input=names, stdout=f, stderr=subprocess.DEVNULL, check=True)


def boot(folder, kernel, timeout):
    """Runs the machine until it ends; what its console said."""
    share = 'local,security_model=none,multidevs=remap'
    return subprocess.run(
        [QEMU, '-accel', 'tcg,thread=multi', '-cpu', 'max', '-smp', '2', '-m', '2G', '-nographic', '-no-reboot', '-nic', 'none',
         '-kernel', f'{kernel}/vmlinuz', '-initrd', f'{folder}/first-root', '-append', 'console=ttyS0 quiet panic=-1',
         '-fsdev', f'{share},id=host,path=/,readonly=on', '-device', 'virtio-9p-pci,fsdev=host,mount_tag=host',
         '-fsdev', f'{share},id=out,path={folder}/out', '-device', 'virtio-9p-pci,fsdev=out,mount_tag=out'],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace', timeout=timeout).stdout


def run_tests(module, kernel=KERNEL, timeout=600):
    """Runs a test module of this folder there: what run_module.py says of it, and the output."""
    with tempfile.TemporaryDirectory() as folder:
        out = f'{folder}/out'
        os.mkdir(out)
        env = {'HOME': '/root', 'PATH': os.environ['PATH'], 'SONDE_BUILD': build_dir(), 'PYTHONDONTWRITEBYTECODE': '1'}
        command = ['env', '-i', *(f'{k}={v}' for k, v in env.items()), sys.executable, f'{HERE}/run_module.py', module, '/run/out/result']
        with open(f'{out}/guest', 'w') as f:
            f.write(f'cd {shlex.quote(os.getcwd())} && uname -a && {shlex.join(command)}\n')
        first_root(folder, kernel)
        for _ in range(3):  # the emulator trips over a kernel that changes its own code, now and then: before any of ours ran
            console = boot(folder, kernel, timeout)
            if os.path.exists(f'{out}/output'):
                break
        else:
            raise AssertionError(f'the machine did not start:\n{console[-3000:]}')
        with open(f'{out}/output', errors='replace') as f:
            said = f.read()
        try:
            with open(f'{out}/result') as f:
                return json.load(f), said
        except (OSError, ValueError):
            raise AssertionError(f'the machine gave no result:\n{console[-3000:]}\n{said}') from None
