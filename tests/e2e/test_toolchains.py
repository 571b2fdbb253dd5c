"""The labels compiler, language, jit and build_id, of programs in many languages, stripped ones too."""
import os
import shutil
import subprocess
import tempfile
import unittest

import sonde_e2e as e2e

BESIDE_OTHERS = True

C = 'int main(void) { for (volatile unsigned long i = 0;; i++) ; }\n'
CXX = '#include <iostream>\nint main() { std::string s = "x"; std::cout << s; for (volatile unsigned long i = 0;; i++) s[0] = char(i); }\n'
RUST = 'fn main() { let mut x = 1u64; loop { unsafe { std::ptr::write_volatile(&mut x, x.wrapping_mul(31)) } if x == 0 { println!("{}", x); } } }\n'
GO = 'package main\nfunc main() { for i := 0; ; i++ { sink = i } }\nvar sink int\n'
OCAML = 'let () = let r = ref 1 in while true do r := Sys.opaque_identity (!r * 31) done\n'
HASKELL = 'main :: IO ()\nmain = print (length (filter even (iterate (\\x -> x * 31 + 1) (1 :: Integer))))\n'
ADA = 'procedure Burn is\n   X : Long_Long_Integer := 1;\n   pragma Volatile (X);\nbegin\n   loop\n      X := (X + 1) mod 7;\n   end loop;\nend Burn;\n'
D = 'void main() { for (ulong i = 0;; i++) sink = i; }\n__gshared ulong sink;\n'
FORTRAN = 'program burn\n  integer, volatile :: i\n  do\n    i = mod(i + 1, 7)\n  end do\nend program\n'
NODE = 'let x = 1; function step(n) { for (let i = 0; i < n; i++) x = (x * 31 + i) % 1000003; } for (;;) step(1e6);'

# name, file, text, command ({} is the source; runs in its folder, writes ./prog), language, compiler
PROGRAMS = [
    ('c_gcc', 'a.c', C, 'gcc -O1 -g -o prog {}', 'c', 'gcc'),
    ('c_clang', 'a.c', C, 'clang -O1 -o prog {}', 'c', 'clang'),
    ('cxx_gcc', 'a.cc', CXX, 'g++ -O1 -o prog {}', 'c++', 'gcc'),
    ('cxx_clang', 'a.cc', CXX, 'clang++ -O1 -g -o prog {}', 'c++', 'clang'),
    ('cxx_stripped', 'a.cc', CXX, 'g++ -O1 -s -o prog {}', 'c++', 'gcc'),
    ('rust', 'a.rs', RUST, 'rustc -O -o prog {}', 'rust', 'rustc'),
    ('rust_stripped', 'a.rs', RUST, 'rustc -O -o prog {} && strip -R .comment prog', 'rust', 'rustc'),
    ('go', 'a.go', GO, 'go build -o prog {}', 'go', 'go'),
    ('go_stripped', 'a.go', GO, 'go build -ldflags "-s -w" -o prog {}', 'go', 'go'),
    ('ocaml', 'a.ml', OCAML, 'ocamlopt -o prog {}', 'ocaml', 'ocaml'),
    ('ocaml_stripped', 'a.ml', OCAML, 'ocamlopt -o prog {} && strip -R .comment prog', 'ocaml', 'ocaml'),
    ('haskell', 'a.hs', HASKELL, 'ghc -O0 -o prog {}', 'haskell', 'ghc'),
    ('haskell_stripped', 'a.hs', HASKELL, 'ghc -O0 -o prog {} && strip -R .comment prog', 'haskell', 'ghc'),
    ('ada', 'burn.adb', ADA, 'gnatmake -q -o prog {}', 'ada', 'gcc'),
    ('d', 'a.d', D, 'gdc -O1 -o prog {}', 'd', 'gcc'),
    ('fortran', 'a.f90', FORTRAN, 'gfortran -O1 -o prog {}', 'fortran', 'gcc'),
    ('fortran_static', 'a.f90', FORTRAN, 'gfortran -O1 -static -o prog {}', 'fortran', 'gcc'),
    ('fortran_stripped', 'a.f90', FORTRAN, 'gfortran -O1 -s -o prog {}', 'fortran', 'gcc'),
    ('c_for_fortran', 'a.c', C + 'void MAIN__(void) {}\n', 'gcc -O1 -rdynamic -o prog {}', 'c', 'gcc'),
]


def build(name, file, text, command):
    """The path of the program, or None where its compiler is not there."""
    tool = command.split()[0]
    if not shutil.which(tool):
        return None
    top = tempfile.mkdtemp(prefix=f'sonde-{name}.')
    with open(f'{top}/{file}', 'w') as f:
        f.write(text)
    env = dict(os.environ, GO111MODULE='off')
    r = subprocess.run(command.replace('{}', file), shell=True, cwd=top, env=env, capture_output=True, text=True)
    if r.returncode:
        raise AssertionError(f'{name}: {command}: {r.stderr[-500:]}')
    return f'{top}/prog'


@e2e.needs_kernel
class Toolchains(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = {}
        cls.workloads = []
        cls.daemon = None
        try:
            for name, file, text, command, language, compiler in PROGRAMS:
                path = build(name, file, text, command)
                if path:
                    cls.programs[name] = path
            cls.daemon = e2e.exporter('--symbols.cache-path=', '--profile.build-id-label', '--symbols.max-cpu=1',
                                      '--profile.max-overhead=0')
            for path in cls.programs.values():
                cls.workloads.append(e2e.Workload(path))
            if shutil.which('node'):
                cls.workloads.append(e2e.Workload('node', '-e', NODE))
                cls.programs['node'] = None
            cls.pids = dict(zip(cls.programs, (w.pid for w in cls.workloads)))
            wanted = len(cls.pids)
            e2e.wait_for('labels of all programs', lambda: len(cls.labelled()) == wanted, timeout=300)
            cls.labels = cls.labelled()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        for w in cls.workloads:
            w.__exit__(None, None, None)
        if cls.daemon:
            cls.daemon.__exit__(None, None, None)
        for path in cls.programs.values():
            if path:
                shutil.rmtree(os.path.dirname(path), ignore_errors=True)

    @classmethod
    def labelled(cls):
        """Labels of each program, once it has a language."""
        p = e2e.Pprof(cls.daemon.get('/debug/pprof/profile?seconds=2&hz=99&' + '&'.join(f'pid={i}' for i in cls.pids.values())).body)
        by_pid = {str(pid): name for name, pid in cls.pids.items()}
        return {by_pid[labels['pid']]: labels for _, _, labels in p.samples if 'language' in labels}

    def test_languages_and_compilers(self):
        got = {n: (self.labels[n]['language'], self.labels[n].get('compiler')) for n, *_ in PROGRAMS if n in self.labels}
        want = {n: (language, compiler) for n, _, _, _, language, compiler in PROGRAMS if n in self.programs}
        self.assertEqual(got, want)
        self.assertGreater(len(got), 6)

    def test_build_ids(self):
        for name in ('c_gcc', 'ocaml'):
            if name not in self.programs:
                continue
            out = subprocess.run(['readelf', '-n', self.programs[name]], capture_output=True, text=True).stdout
            self.assertIn(f"Build ID: {self.labels[name]['build_id']}", out)

    def test_jit(self):
        self.assertNotIn('jit', self.labels['c_gcc'])
        self.assertNotIn('jit', self.labels['go'])
        if 'node' in self.pids:
            self.assertEqual(self.labels['node']['jit'], 'v8')

    def test_filters(self):
        path = '/debug/pprof/profile?seconds=1&hz=99&label.language='

        def window(query, *names):
            """One that has samples of these programs."""
            p = e2e.Pprof(self.daemon.get(path + query).body)
            return p if set(p.by_label('pid')) >= {str(self.pids[name]) for name in names} else None
        p = e2e.wait_for('samples of Go', lambda: window('go', 'go'), interval=0)
        self.assertEqual(set(p.by_label('language')), {'go'})
        p = e2e.wait_for('samples of clang', lambda: window('~c.*&label.compiler=clang', 'c_clang', 'cxx_clang'), interval=0)
        self.assertEqual(set(p.by_label('compiler')), {'clang'})
        r = self.daemon.get(path.replace('language', 'linguage') + 'go')
        self.assertEqual(r.status, 400)
        self.assertIn('language', r.text)


if __name__ == '__main__':
    unittest.main()
