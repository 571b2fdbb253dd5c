"""The parsers that run in the browser (pprof, folded stacks, the flame graph message) with mutated files: each gives a sound tree or an error."""
import os
import subprocess
import tempfile
import unittest

from sonde_e2e import TOP

BESIDE_OTHERS = True
ROUNDS = 4000


class Parsers(unittest.TestCase):
    def test_mutated_files(self):
        with tempfile.TemporaryDirectory() as d:
            with open(f'{d}/all.ts', 'w') as f:
                f.writelines(f"export * from '{TOP}/ui/src/flame/{name}';\n" for name in ('pprof', 'decode', 'tree', 'search'))
            esbuild = f'{TOP}/build/npm/ui/node_modules/.bin/esbuild'
            if not os.path.exists(esbuild):
                self.skipTest('the npm packages of ui are not installed')
            subprocess.run([esbuild, '--bundle', '--platform=node', '--format=esm', '--log-level=error', f'--outfile={d}/all.mjs', f'{d}/all.ts'], check=True)
            p = subprocess.run(['node', f'{TOP}/tests/tools/ui_parsers.mjs', f'{d}/all.mjs', '--rounds', str(ROUNDS)], capture_output=True, text=True, timeout=400)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        self.assertRegex(p.stdout, rf'^{ROUNDS} files, [1-9]\d\d+ of them were read\n$')


if __name__ == '__main__':
    unittest.main()
