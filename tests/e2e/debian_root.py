"""A clean Debian 12 made by debootstrap, to install packages in: made once, then copied for each use."""
import fcntl
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from sonde_e2e import mounts_on, own_mounts

CACHE = os.environ.get('SONDE_DEBIAN_ROOT', '/var/tmp/sonde-debian12')
SOURCES = '/etc/apt/sources.list.d/debian.sources'
# The root is a mount of its own, as programs that make mounts in it expect.
MOUNTS = 'mount --bind "$0" "$0" || exit 1; for d in proc sys dev; do mount --rbind /$d "$0/$d" || exit 1; done; exec chroot "$0" "$@"'


def mirror():
    """Where this machine gets Debian from, else Debian's own address."""
    try:
        with open(SOURCES) as f:
            return re.search(r'^URIs:\s*(\S+)', f.read(), re.M)[1]
    except (OSError, TypeError):
        return 'http://deb.debian.org/debian'


def why_not():
    """Why no such root can be made here, or None. Makes it, when there is none yet (minutes)."""
    if os.geteuid():
        return 'not root'
    if not shutil.which('debootstrap'):
        return 'debootstrap is not installed'
    if not mounts_on('/'):
        return 'the root directory is no mount point (chroot), so another root cannot be given /proc of its own'
    os.makedirs(CACHE, exist_ok=True)
    with open(f'{CACHE}/base.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return None if os.path.exists(f'{CACHE}/base') else make_base(f'{CACHE}/base')


def make_base(base):
    """Why the root could not be made, or None."""
    new = tempfile.mkdtemp(prefix='new.', dir=CACHE)
    try:
        p = subprocess.run(['debootstrap', '--variant=minbase', 'bookworm', new, mirror()], capture_output=True, text=True, timeout=400)
        if p.returncode:
            return f'debootstrap failed: {(p.stdout + p.stderr).strip()[-200:]}'
        os.chmod(new, 0o755)
        os.rename(new, base)
    except subprocess.TimeoutExpired:
        return 'debootstrap took longer than 400 s'
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return None


def make_packages(top, mode, to):
    """{name: file} of the packages that `make deb` makes of this build, copied to the directory `to`, as another test may have them made
    anew at any time; for a clean root: skips the test where there can be none."""
    if not shutil.which('dpkg-shlibdeps'):
        raise unittest.SkipTest('dpkg-shlibdeps is not installed (Debian package dpkg-dev)')
    why = why_not()
    if why:
        raise unittest.SkipTest(f'no clean Debian 12: {why}')
    env = {k: v for k, v in os.environ.items() if k not in ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL')}
    with open(f'{top}/VERSION') as f:
        version = f.read().strip()
    with open(f'{CACHE}/make.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        p = subprocess.run(['make', '-s', f'MODE={mode}', 'deb'], cwd=top, env=env, capture_output=True, text=True, timeout=300)
        if p.returncode:
            raise AssertionError(p.stdout + p.stderr)
        return {name: shutil.copy(glob.glob(f'{top}/build/deb/{name}_{version}_*.deb')[0], to)
                for name in ('sonde', 'sonde-exporter', 'sonde-scraper')}


class DebianRoot:
    """A copy of the clean root; commands run in it as root, with /proc, /sys and /dev of this machine."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix='run.', dir=CACHE)
        subprocess.run(['cp', '-a', '--reflink=auto', f'{CACHE}/base/.', self.path], check=True)
        for f in [*glob.glob('/etc/apt/apt.conf.d/99*'), SOURCES, '/etc/resolv.conf', '/etc/hosts']:
            if os.path.exists(f):
                shutil.copy(f, self.path + f)
        if os.path.exists(SOURCES):
            os.unlink(f'{self.path}/etc/apt/sources.list')
        # Of this machine: the signatures of packages are checked all the same.
        shutil.copytree('/usr/share/keyrings', f'{self.path}/usr/share/keyrings', dirs_exist_ok=True)

    def command(self, *args):
        """What runs a command in there; its mounts end with it."""
        return [*own_mounts(), 'sh', '-c', MOUNTS, self.path, '/usr/bin/env', '-i', 'HOME=/root',
                'LC_ALL=C.UTF-8', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'DEBIAN_FRONTEND=noninteractive', *args]

    def run(self, *args, timeout=300):
        return subprocess.run(self.command(*args), capture_output=True, text=True, timeout=timeout)

    def remove(self):
        subprocess.run(['rm', '-rf', '--one-file-system', self.path], check=True)
