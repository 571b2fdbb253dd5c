"""Parts of the web interface that need no browser, in node."""
import shutil
import subprocess
import unittest

from sonde_e2e import TOP

BESIDE_OTHERS = True


@unittest.skipUnless(shutil.which('node'), 'node is not installed')
class UiUnits(unittest.TestCase):
    def run_file(self, name):
        p = subprocess.run(['node', f'{TOP}/tests/e2e/browser/{name}.mjs', f'{TOP}/build/npm/ui/node_modules'], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(p.returncode, 0, p.stderr)

    def test_units(self):
        self.run_file('units')

    def test_times(self):
        self.run_file('times')


if __name__ == '__main__':
    unittest.main()
