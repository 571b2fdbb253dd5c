"""Python's stacks through extension modules of others: numpy, greenlet, what Cython compiled. The packages come from PyPI when the test runs."""
import glob
import os
import subprocess
import sys
import unittest

import sonde_e2e as e2e
from test_unwind_python import Pythons, short

PROGRAM = f'{e2e.TOP}/tests/data/python/extensions.py'
CYTHON = '''
def through(f):
    return f(1)
'''


def pip_python():
    """A Python 3 that has pip and headers, the newest."""
    for program in sorted(glob.glob(os.path.expanduser('~/.pyenv/versions/3.1[1-9]*/bin/python3')), reverse=True) + ['/usr/bin/python3']:
        if os.access(program, os.X_OK) and subprocess.run([program, '-m', 'pip', '--version'], capture_output=True).returncode == 0:
            return program
    return None


@e2e.needs_kernel
class Extensions(Pythons):
    @classmethod
    def build(cls):
        cls.python = pip_python()
        if not cls.python:
            raise unittest.SkipTest('no Python 3 has pip here')
        version = subprocess.run([cls.python, '-c', 'import sys; print("%d.%d" % sys.version_info[:2])'], capture_output=True, text=True, check=True).stdout.strip()
        cls.packages = f'{e2e.TOP}/build/cache/python{version}'
        if not os.path.exists(f'{cls.packages}/complete'):
            r = subprocess.run(['timeout', '300', cls.python, '-m', 'pip', 'install', '-q', '--retries', '1', '--upgrade', '--target', cls.packages, 'numpy', 'greenlet',
                                'cython', 'setuptools'], capture_output=True, text=True)
            if r.returncode:
                raise unittest.SkipTest(f'PyPI gives no packages: {r.stderr.strip().splitlines()[-1:]}')
            open(f'{cls.packages}/complete', 'w').close()
        cls.write('sonde_cython.pyx', CYTHON)
        env = dict(os.environ, PYTHONPATH=cls.packages)
        subprocess.run([cls.python, f'{cls.packages}/bin/cython', '-3', 'sonde_cython.pyx'], cwd=cls.dir, env=env, check=True)
        include = subprocess.run([cls.python, '-c', 'import sysconfig; print(sysconfig.get_paths()["include"])'], capture_output=True, text=True, check=True)
        subprocess.run(['gcc', '-O2', '-shared', '-fPIC', f'-I{include.stdout.strip()}', '-o', 'sonde_cython.so', 'sonde_cython.c'], cwd=cls.dir, check=True)

    @classmethod
    def start(cls):
        for name in ('numpy', 'greenlet', 'cython'):
            env = dict(os.environ, PYTHONPATH=f'{cls.packages}:{cls.dir}', OPENBLAS_NUM_THREADS='1')  # others have no stack of Python
            cls.loads[name] = e2e.Workload(cls.python, PROGRAM, name, f'{cls.dir}/{name}.begun', env=env)
        for name in cls.loads:
            e2e.wait_for(f'{name} to be imported', lambda: os.path.exists(f'{cls.dir}/{name}.begun'))
        cls.wait_for_tables()
        cls.window = e2e.Window(cls.exporter)
        cls.window.wait_for('samples of each', lambda samples: all(
            sum(v[0] for _, v, labels in samples if labels['pid'] == str(load.pid)) > 300 for load in cls.loads.values()))

    def callers(self, name, callers):
        """Each chain of language frames goes by `callers`: {callee: callers}; of `rounds` the root is one. Returns the functions seen, with the files between."""
        between = {}
        n = whole = without = 0
        for frames, (value, *_), labels in self.of(name):
            n += value
            whole += value * (labels['stack'] == 'complete')
            at = [i for i, f in enumerate(frames) if self.is_language(f)]
            without += value * (not at)
            for below, above in zip(at, at[1:]):
                a, b = short(frames[above]), short(frames[below])
                self.assertIn(a, callers.get(b, ()), [f.name for f in frames])
                between.setdefault((a, b), set()).update(os.path.basename(f.mapping) for f in frames[below + 1:above])
            if at:
                between.setdefault((short(frames[at[0]]), ''), set()).update(os.path.basename(f.mapping) for f in frames[:at[0]])
                self.assertIn(short(frames[at[-1]]), callers[''], [f.name for f in frames])
        print(f'\n{name}: {n} stacks, {100 * whole / n:.2f} % whole', file=sys.stderr)
        self.assertGreaterEqual(whole, 0.99 * n)
        self.assertLessEqual(without, 0.01 * n)
        return between

    def test_numpy(self):
        between = self.callers('numpy', {'': ('<module>',), 'main': ('<module>',), 'vectorized': ('main',), 'sorting': ('main',), 'called_back': ('vectorized',),
                                         'spin': ('called_back',)})
        self.assertTrue(any('umath' in f for f in between['vectorized', 'called_back']), between)
        self.assertTrue(any('umath' in f for f in between['sorting', '']), between)
        self.assertFalse(any('umath' in f for f in between['main', 'vectorized']), between)

    def test_greenlet(self):
        between = self.callers('greenlet', {'': ('<module>', 'switched'), 'main': ('<module>',), 'switching': ('main', 'deep'), '<lambda>': ('main',),
                                            'deep': ('<lambda>', 'deep'), 'spin': ('switching', 'switched')})
        self.assertIn(('switched', 'spin'), between)
        self.assertIn(('switching', 'spin'), between)

    def test_cython(self):
        between = self.callers('cython', {'': ('<module>',), 'main': ('<module>',), 'compiled': ('main',), 'called_back': ('compiled',), 'spin': ('called_back',)})
        self.assertIn('sonde_cython.so', between['compiled', 'called_back'])


if __name__ == '__main__':
    unittest.main()
