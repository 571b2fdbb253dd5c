"""OCaml 5.3 for tests: Debian has 4.13. Built once from the npm package `ocaml`, which is its whole source, into a
cache folder: `python3 tests/e2e/sonde_ocaml.py`, 4 minutes on an idle machine. Tests that need it are skipped until then."""
import fcntl
import os
import shutil
import subprocess

VERSION = '5.3.0'
CACHE = os.environ.get('SONDE_TEST_CACHE') or os.path.expanduser('~/.cache/sonde-tests')


def build(top, prefix):
    shutil.rmtree(f'{top}/package', ignore_errors=True)
    subprocess.run(['npm', 'pack', '--silent', f'ocaml@{VERSION}'], cwd=top, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(['tar', 'xzf', f'ocaml-{VERSION}.tgz'], cwd=top, check=True)
    quiet = {'cwd': f'{top}/package', 'check': True, 'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
    subprocess.run(['./configure', f'--prefix={prefix}', '--disable-ocamldoc', '--disable-ocamltest', '--disable-debugger'], **quiet)
    subprocess.run(['nice', 'make', f'-j{os.cpu_count()}'], **quiet)
    subprocess.run(['make', 'install'], **quiet)
    shutil.rmtree(f'{top}/package', ignore_errors=True)


def built():
    """The path of ocamlopt 5.3, or None."""
    top = f'{CACHE}/ocaml-{VERSION}'
    return f'{top}/install/bin/ocamlopt.opt' if os.path.exists(f'{top}/done') else None


def ocamlopt_5():
    """The same; builds it when it is not there yet. None without npm or when the build fails."""
    top = f'{CACHE}/ocaml-{VERSION}'
    prefix = f'{top}/install'
    program = f'{prefix}/bin/ocamlopt.opt'
    if not shutil.which('npm') and not os.path.exists(program):
        return None
    os.makedirs(top, exist_ok=True)
    with open(f'{top}/lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(f'{top}/done'):
            try:
                build(top, prefix)
            except (subprocess.CalledProcessError, OSError):
                return None
            with open(f'{top}/done', 'w'):
                pass
    return program


if __name__ == '__main__':
    print(ocamlopt_5())
