"""The exporter on the kernel of Debian 12 (tests/e2e/guest_kernel.py is what runs there): its verifier refuses what newer ones see through."""
import unittest

import debian_kernel
from sonde_e2e import is_sanitized

BESIDE_OTHERS = True


class OnDebiansKernel(unittest.TestCase):
    def test_it_loads_and_its_stacks_are_whole(self):
        if is_sanitized():
            self.skipTest('the build with sanitizers is too slow in an emulated machine')
        why = debian_kernel.why_not()
        if why:
            self.skipTest(f"no machine with Debian's kernel: {why}")
        result, output = debian_kernel.run_tests('guest_kernel')
        print(output)
        self.assertEqual(result['failed'], [], output)
        self.assertEqual(result['skipped'], [], output)
        self.assertGreater(result['passed'], 3, output)
