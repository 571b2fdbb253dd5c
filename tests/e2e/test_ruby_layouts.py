"""The offsets of Ruby's structures that exporter/parser/runtime has in tables, against those of the crate rbspy-ruby-structs, which were made from the headers
of each release: the first and the last release of each minor version (all of them with SONDE_ALL_RUBIES). SONDE_RUBY_STRUCTS names the folder of its sources;
otherwise it is looked for where cargo puts it (`cargo fetch` of any package that depends on it)."""
import glob
import os
import re
import subprocess
import tempfile
import unittest

BESIDE_OTHERS = True
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
# Versions of the crate that changed a structure in a way that the program must know.
CHANGES = ((2, 6), (3, 0), (3, 2), (3, 4))


def structs():
    folder = os.environ.get('SONDE_RUBY_STRUCTS')
    found = [folder] if folder else sorted(glob.glob(os.path.expanduser('~/.cargo/registry/src/*/rbspy-ruby-structs-*/src')))
    return found[-1] if found else None


def releases(folder):
    """{(major, minor): patches} of the versions that are known."""
    found = {}
    for name in os.listdir(folder):
        m = re.fullmatch(r'ruby_(\d+)_(\d+)_(\d+)\.rs', name)
        if m and (2, 5) <= (int(m[1]), int(m[2])) <= (4, 0):
            found.setdefault((int(m[1]), int(m[2])), []).append(int(m[3]))
    return {k: sorted(v) for k, v in sorted(found.items())}


class Layouts(unittest.TestCase):
    def theirs(self, folder, d, version):
        source = f'{d}/layouts.rs'
        with open(source, 'w') as out, open(f'{TOP}/tests/data/ruby/layouts.rs') as program:
            out.write(f'#[path = "{folder}/ruby_{version[0]}_{version[1]}_{version[2]}.rs"]\nmod ruby;\n' + program.read())
        flags = [f for major, minor in CHANGES if version < (major, minor) for f in ('--cfg', f'below_{major}_{minor}')]
        subprocess.run(['rustc', '--edition', '2021', '-A', 'warnings', '-o', f'{d}/theirs', *flags, source], check=True)
        return subprocess.run([f'{d}/theirs'], capture_output=True, text=True, check=True).stdout

    def test_tables(self):
        folder = structs()
        if not folder:
            self.skipTest('the crate rbspy-ruby-structs is not here')
        if subprocess.run(['sh', '-c', 'command -v rustc'], capture_output=True).returncode:
            self.skipTest('no rustc is here')
        n = 0
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(['gcc', '-std=gnu11', '-D_GNU_SOURCE', '-I.', '-o', f'{d}/ours', 'tests/data/ruby/layouts.c',
                            'exporter/parser/runtime/ruby_layouts.c'], cwd=TOP, check=True)
            for (major, minor), patches in releases(folder).items():
                ours = subprocess.run([f'{d}/ours', str(major), str(minor)], capture_output=True, text=True)
                for patch in patches if os.environ.get('SONDE_ALL_RUBIES') else sorted({patches[0], patches[-1]}):
                    with self.subTest(f'{major}.{minor}.{patch}'):
                        self.assertEqual(ours.returncode, 0, 'this version is not known')
                        self.assertEqual(sorted(ours.stdout.splitlines()), sorted(self.theirs(folder, d, (major, minor, patch)).splitlines()))
                        n += 1
        self.assertGreaterEqual(n, 16)


if __name__ == '__main__':
    unittest.main()
