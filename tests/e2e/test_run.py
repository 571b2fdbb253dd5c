"""What tests/run says of end-to-end modules, in a tree that has a few small ones."""
import os
import shutil
import subprocess
import tempfile
import unittest

from sonde_e2e import TOP

BESIDE_OTHERS = True

GOOD = '''
import unittest
class Good(unittest.TestCase):
    def test_it(self):
        pass
'''
FLAKY = '''
import os, unittest
class Flaky(unittest.TestCase):
    def test_it(self):
        if not os.path.exists('ran'):
            open('ran', 'w').close()
            self.fail('only this time')
    def test_other(self):
        pass
'''
BROKEN = '''
import unittest
class Broken(unittest.TestCase):
    def test_it(self):
        self.fail('each time')
'''


class RunTest(unittest.TestCase):
    def run_modules(self, **modules):
        d = tempfile.mkdtemp(prefix='sonde-run.')
        self.addCleanup(shutil.rmtree, d)
        os.makedirs(f'{d}/tests/e2e')
        shutil.copy(f'{TOP}/tests/run', f'{d}/tests')
        shutil.copy(f'{TOP}/tests/e2e/run_module.py', f'{d}/tests/e2e')
        for name, text in modules.items():
            with open(f'{d}/tests/e2e/test_{name}.py', 'w') as f:
                f.write(text)
        r = subprocess.run([f'{d}/tests/run', 'build', '--e2e'], capture_output=True, text=True, timeout=300)
        return r.returncode, r.stdout

    def test_all_pass(self):
        status, out = self.run_modules(good=GOOD)
        self.assertEqual((status, out.splitlines()[-1]), (0, '1 passed, 0 failed, 0 skipped'), out)

    def test_passes_only_when_run_again(self):
        status, out = self.run_modules(good=GOOD, flaky=FLAKY)
        self.assertEqual((status, out.splitlines()[-1]), (1, '2 passed, 1 failed, 0 skipped'), out)
        self.assertIn('failed, and passed when run again (a failure all the same):\n  test_flaky: test_it', out)
        self.assertIn('only this time', out)

    def test_fails_twice(self):
        status, out = self.run_modules(good=GOOD, broken=BROKEN)
        self.assertEqual((status, out.splitlines()[-1]), (1, '1 passed, 1 failed, 0 skipped'), out)
        self.assertNotIn('run again', out)


if __name__ == '__main__':
    unittest.main()
