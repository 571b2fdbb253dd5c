"""Mappings of a profile, by which tools that read the file themselves find its code: pages of each executable segment, whoever linked it."""
import os
import shutil
import subprocess
import tempfile
import unittest

import sonde_e2e as e2e

BURN_C = r'''
volatile unsigned long n;
__attribute__((noinline)) unsigned long burn(unsigned long k) { for (int i = 0; i < 20000; i++) k = k * 31 + 7; return k; }
int main(void) { for (;;) { n += burn(n); n++; } }
'''
# As BOLT lays a program out: the code that it moved, then the old one, each in a segment of its own.
TWO_C = r'''
volatile unsigned long n;
__attribute__((noinline, section(".bolt.org.text"))) unsigned long burn_old(unsigned long k) { for (int i = 0; i < 20000; i++) k = k * 31 + 7; return k; }
__attribute__((noinline)) unsigned long burn_new(unsigned long k) { for (int i = 0; i < 20000; i++) k = k * 33 + 7; return k; }
int main(void) { for (;;) { n += burn_old(n) + burn_new(n); n++; } }
'''
BURN_RS = r'''
use std::hint::black_box;
#[inline(never)] #[no_mangle] fn burn(mut k: u64) -> u64 { for _ in 0..20000 { k = black_box(k.wrapping_mul(31).wrapping_add(7)); } k }
fn main() { let mut n = 1; loop { n = burn(n) + 1; black_box(n); } }
'''
NEW_GO = '/usr/local/go/bin/go'
LINKERS = {'bfd': 'ld.bfd', 'lld': 'ld.lld', 'mold': 'mold', 'gold': 'ld.gold'}


def read(*cmd):
    return subprocess.run(cmd, check=True, capture_output=True, text=True).stdout.splitlines()


def nm(path):
    return read('nm', '-S', path)


def address_in_file(path, offset):
    """The ELF address of an offset in the file."""
    for line in read('readelf', '-lW', path):
        words = line.split()
        if words[:1] == ['LOAD'] and 'E' in words:
            at, address, _, size = (int(w, 16) for w in words[1:5])
            if at <= offset < at + size:
                return address + offset - at
    return None


@e2e.needs_kernel
class Mappings(e2e.SampledPrograms):
    @classmethod
    def build(cls):
        cls.programs = {f'c_{linker}': e2e.compile_c(BURN_C, '-O2', '-g', f'-fuse-ld={linker}', name=f'c_{linker}')
                        for linker, program in LINKERS.items() if shutil.which(program)}
        cls.programs['fixed'] = e2e.compile_c(BURN_C, '-O2', '-g', '-no-pie', name='fixed')
        cls.programs['two'] = e2e.compile_c(TWO_C, '-O2', '-g', '-Wl,--section-start=.bolt.org.text=0x7123000', name='two')
        if shutil.which('rustc'):
            source = cls.write('burn.rs', BURN_RS)
            cls.programs['rust'] = f'{cls.dir}/rust'
            subprocess.run(['rustc', '-O', '-g', '-o', cls.programs['rust'], source], check=True, stderr=subprocess.DEVNULL)

    @classmethod
    def start(cls):
        cls.loads = {name: e2e.Workload(path) for name, path in cls.programs.items()}
        cls.window = e2e.Window(cls.exporter)
        cls.window.wait_for('samples of all', lambda samples: {s[2]['comm'] for s in samples} >= set(cls.programs))
        cls.wait_for_tables()

    def profile(self, name, more, functions=()):
        """Bytes of a profile of the program that has its samples, in functions of these names if any are given."""
        def sampled():
            r = self.exporter.get(f'/debug/pprof/profile?seconds=1&hz=199&pid={self.loads[name].pid}&{more}')
            self.assertEqual(r.status, 200, r.text)
            p = e2e.Pprof(r.body)
            return r.body if p.samples and set(functions) <= set(p.functions()) else None
        return e2e.wait_for(f'a profile of {name}', sampled)

    def functions(self, name):
        return ('burn_old', 'burn_new') if name == 'two' else ('burn',)

    def test_locations_lie_in_their_mappings(self):
        for name, path in self.programs.items():
            with self.subTest(name):
                symbols = {s[3]: (int(s[0], 16), int(s[1], 16)) for s in map(str.split, nm(path)) if len(s) == 4}
                p = e2e.Pprof(self.profile(name, '', self.functions(name)))
                own = {i: m for i, m in p.mappings.items() if not m['file'].startswith('[')}
                self.assertEqual(len([m for m in own.values() if m['file'] == path]), 1 + (name == 'two'))
                for m in own.values():
                    self.assertFalse((m['start'] | m['limit'] | m['offset']) % 4096, m)
                for address, mapping, function in p.addresses:
                    if mapping not in own:
                        continue
                    m = own[mapping]
                    self.assertTrue(m['start'] <= address < m['limit'], (hex(address), m))
                    if function in self.functions(name):
                        # By the file alone, as tools do it: through its offset to the address that the file gives it.
                        start, size = symbols[function]
                        self.assertTrue(start <= address_in_file(path, address - m['start'] + m['offset']) < start + size, function)

    def pprof(self, body, *args):
        with tempfile.NamedTemporaryFile(suffix='.pb.gz') as f:
            f.write(body)
            f.flush()
            return e2e.go_pprof(*args, f.name, go=NEW_GO).stdout

    # That of Go 1.19 takes for a mapping's start where the segment begins in it.
    @unittest.skipUnless(os.path.exists(NEW_GO), 'no Go newer than 1.19')
    def test_tools_find_the_code(self):
        for name in self.programs:
            with self.subTest(name):
                shown = self.pprof(self.profile(name, 'symbolize=lines', self.functions(name)), '-disasm=burn')
                for function in self.functions(name):
                    self.assertRegex(shown, rf'ROUTINE =+ {function}\n +[1-9]')
                # By itself Go 1.26 finds what lies in a file's first segment only.
                if name != 'two':
                    self.assertRegex(self.pprof(self.profile(name, 'symbolize=none'), '-top'), r'[1-9]\S*s +\S+%  burn\n')


if __name__ == '__main__':
    unittest.main()
