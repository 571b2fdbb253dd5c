"""Parts of the web interface that need no browser, in node."""
import shutil
import subprocess
import unittest

from sonde_e2e import TOP

BESIDE_OTHERS = True


@unittest.skipUnless(shutil.which('node'), 'node is not installed')
class UiUnits(unittest.TestCase):
    def test_units(self):
        p = subprocess.run(['node', f'{TOP}/tests/e2e/browser/units.mjs', f'{TOP}/build/npm/ui/node_modules'], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(p.returncode, 0, p.stderr)


if __name__ == '__main__':
    unittest.main()
