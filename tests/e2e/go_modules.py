"""Programs around Go modules that others wrote, built once and kept outside the tree; skipped where they cannot be had."""
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest

NEEDS = (1, 25)  # what the modules that we use ask for


def build(name, source, *modules):
    """The program made of one file and these modules (path@version). Raises SkipTest where it cannot be made."""
    go = shutil.which('go')
    if not go:
        raise unittest.SkipTest('go is not installed')
    version = subprocess.run([go, 'env', 'GOVERSION'], capture_output=True, text=True).stdout.strip()
    try:
        if tuple(int(x) for x in version.removeprefix('go').split('.')[:2]) < NEEDS:
            raise unittest.SkipTest(f'{version} is too old for {modules[0]}, which needs go {NEEDS[0]}.{NEEDS[1]}')
    except ValueError:
        raise unittest.SkipTest(f'{go} does not tell its version')
    inputs = f'{source}\n// {" ".join(modules)}\n'
    program = os.path.join(tempfile.gettempdir(), f'sonde-go-{name}-{os.getuid()}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}')
    if os.path.exists(program):
        return program
    with tempfile.TemporaryDirectory(prefix='sonde-go-') as d:
        for path, text in (('go.mod', f'module program\n\ngo {NEEDS[0]}.{NEEDS[1]}\n'), ('main.go', inputs)):
            with open(f'{d}/{path}', 'w') as f:
                f.write(text)
        # Compiling is a matter of seconds, and of minutes beside many other programs.
        for cmd, limit in ((['get', *modules], 120), (['build', '-o', f'{program}.{os.getpid()}', '.'], 600)):
            try:
                r = subprocess.run([go, *cmd], cwd=d, capture_output=True, text=True, timeout=limit,
                                   env={**os.environ, 'GOTOOLCHAIN': 'local', 'GOFLAGS': '-mod=mod'})
            except subprocess.TimeoutExpired:
                raise unittest.SkipTest(f'go {cmd[0]} took longer than {limit} s')
            if r.returncode:
                raise unittest.SkipTest(f'go {cmd[0]}: {r.stderr.strip().splitlines()[-1]}')
    os.rename(f'{program}.{os.getpid()}', program)
    return program
