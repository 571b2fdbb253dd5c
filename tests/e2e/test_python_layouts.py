"""The offsets of CPython's structures that exporter/parser/runtime has in tables, against the headers of each version that is here: Debian's and pyenv's,
and those in the folders that SONDE_PYTHON_HEADERS lists, with `:` between them."""
import glob
import os
import subprocess
import tempfile
import unittest

BESIDE_OTHERS = True
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')


def headers():
    """Folders with a Python.h and its internal headers."""
    found = glob.glob('/usr/include/python3.*') + glob.glob(os.path.expanduser('~/.pyenv/versions/3.*/include/python3.*'))
    found += [f for f in os.environ.get('SONDE_PYTHON_HEADERS', '').split(':') if f]
    return sorted(f for f in found if os.path.exists(f'{f}/Python.h'))


class Layouts(unittest.TestCase):
    def test_tables(self):
        found = headers()
        if not found:
            self.skipTest('no Python has headers here')
        for folder in found:
            with self.subTest(folder), tempfile.TemporaryDirectory() as d:
                program = f'{d}/layouts'
                # A header of Debian's includes another one by its architecture, below the folder of all.
                subprocess.run(['gcc', '-std=gnu11', '-D_GNU_SOURCE', '-I.', f'-I{folder}', f'-I{folder}/internal', f'-I{os.path.dirname(folder)}', '-o', program,
                                'tests/data/python/layouts.c', 'exporter/parser/runtime/python_layouts.c'], cwd=TOP, check=True)
                r = subprocess.run([program], capture_output=True, text=True)
                self.assertEqual(r.returncode, 0, r.stdout)
                self.assertGreaterEqual(int(r.stdout.split()[-2]), 20, r.stdout)


if __name__ == '__main__':
    unittest.main()
