"""Names in files that a program or its debug file names: dwz's supplementary files, objects and packages of split units."""
import os
import shutil
import subprocess
import tempfile
import unittest

import linked_files
import sonde_e2e as e2e
from linked_files import build_id, run

BESIDE_OTHERS = True


@e2e.needs_kernel
class LinkedFiles(e2e.WithExporter):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix='sonde-linked.')
        os.chmod(self.top, 0o755)
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)

    def build(self, name, *flags):
        return linked_files.build(self.top, name, self.id(), *flags)

    def deduplicated(self, link):
        return linked_files.deduplicated(self.top, link, self.id() + link)

    def move(self, path, to):
        os.makedirs(os.path.dirname(to), exist_ok=True)
        os.rename(path, to)
        return to

    def has_inlined(self, *cmd, daemon=None):
        def functions():
            # An answer waits two seconds for names; a busy machine may take longer to make them.
            r = (daemon or self.daemon).get(f'/debug/pprof/profile?seconds=1&hz=99&symbolize=lines&pid={w.pid}')
            found = e2e.Pprof(r.body).functions()
            return found if 'burn_hidden' in found else None

        with e2e.Workload(*cmd) as w:
            return 'burn_shared' in e2e.wait_for('the names', functions)

    def counted(self, result):
        return self.daemon.metrics()[f'sonde_debug_files_total{{result="{result}"}}']

    def test_beside_the_debug_file(self):
        prog, debug, common = self.deduplicated('../dwz/common')
        self.move(debug, f'{self.top}/.debug/one.debug')
        run('objcopy', f'--add-gnu-debuglink={self.top}/.debug/one.debug', prog)
        self.move(common, f'{self.top}/dwz/common')
        self.assertTrue(self.has_inlined(prog))

    def test_beside_the_debug_file_behind_a_link(self):
        prog, debug, common = self.deduplicated('../dwz/common')
        run('objcopy', f'--add-gnu-debuglink={debug}', prog)
        self.move(debug, f'{self.top}/pool/files/one.debug')
        os.symlink('pool/files/one.debug', debug)
        self.move(common, f'{self.top}/pool/dwz/common')
        self.assertTrue(self.has_inlined(prog))

    def test_directories_of_distributions(self):
        # In the process's own root, beside what the name says.
        for link, where in (('/usr/lib/debug/.dwz/some/common', '/usr/lib/debug/.dwz/some/common'), ('../../gone/.dwz/common', '/usr/lib/debug/.dwz/common'), ('/gone/common', None)):
            with self.subTest(link):
                prog, debug, common = self.deduplicated(link)
                bid, other = build_id(prog), build_id(common)
                root = f'{self.top}/root'
                self.move(debug, f'{root}/usr/lib/debug/.build-id/{bid[:2]}/{bid[2:]}.debug')
                self.move(common, root + (where or f'/usr/lib/debug/.build-id/{other[:2]}/{other[2:]}.debug'))
                self.move(prog, f'{root}/one')
                self.assertTrue(self.has_inlined('chroot', root, '/one'))
                shutil.rmtree(root)

    def test_as_debian_makes_packages(self):
        """dh_dwz on the programs as they are built, then dh_strip: debug files are compressed, and the programs keep the link too."""
        root = f'{self.top}/root'
        progs = [self.build(name, '-static') for name in ('first', 'second')]
        common = f'{root}/usr/lib/debug/.dwz/x86_64-linux-gnu/programs.debug'
        os.makedirs(os.path.dirname(common))
        run('dwz', '-q', '-m', common, '-M', common[len(root):], *progs)
        run('objcopy', '--compress-debug-sections', common)
        for prog in progs:
            bid = build_id(prog)
            debug = f'{root}/usr/lib/debug/.build-id/{bid[:2]}/{bid[2:]}.debug'
            os.makedirs(os.path.dirname(debug))
            run('objcopy', '--only-keep-debug', '--compress-debug-sections', prog, debug)
            run('strip', '--remove-section=.comment', '--remove-section=.note', prog)
            run('objcopy', '--add-gnu-debuglink', debug, prog)
            shutil.copy(prog, root)
        sections = subprocess.run(['readelf', '-SW', progs[0]], capture_output=True, text=True, check=True).stdout
        self.assertIn('.gnu_debugaltlink', sections)
        self.assertIn('.gnu_debuglink', sections)
        self.assertTrue(self.has_inlined('chroot', root, '/first'))
        self.assertTrue(self.has_inlined('chroot', root, '/second'))
        # Without the package of debug files: nothing is lacking of a program that has no debug information itself.
        lines = f'{e2e.build_dir()}/tests/tools/lines'
        self.assertIn('lacking 0\n', subprocess.run([lines, '-s', progs[0]], capture_output=True, text=True, check=True).stdout)

    def test_another_one_is_left_aside(self):
        prog, debug, common = self.deduplicated(f'{self.top}/common')
        run('objcopy', f'--add-gnu-debuglink={debug}', prog)
        shutil.copy(f'{self.top}/two.debug', common)
        lacking = self.counted('lacking')
        self.assertFalse(self.has_inlined(prog))
        # Programs of the machine may lack theirs too.
        self.assertGreater(self.counted('lacking'), lacking)

    def test_split_units(self):
        for name, flags in (('four', ['-gdwarf-4']), ('five', ['-gdwarf-5'])):
            with self.subTest(name):
                linked = self.counted('linked')
                self.assertTrue(self.has_inlined(self.build(name, '-gsplit-dwarf', *flags)))
                self.assertGreater(self.counted('linked'), linked)

    def test_split_units_beside_the_program(self):
        prog = self.build('moved', '-gsplit-dwarf', '-fdebug-prefix-map={}=/gone'.format(self.top))
        self.assertTrue(self.has_inlined(prog))

    def test_package_of_split_units(self):
        prog = self.build('packed', '-gsplit-dwarf', '-gdwarf-4')
        run('llvm-dwp', '-e', prog, '-o', prog + '.dwp')
        for f in os.listdir(self.top):
            if f.endswith('.dwo'):
                os.unlink(f'{self.top}/{f}')
        self.assertTrue(self.has_inlined(prog))

    def test_units_that_come_later(self):
        # A symbol file in the cache that lacks some is made anew.
        prog = self.build('late', '-gsplit-dwarf')
        objects = [f'{self.top}/{f}' for f in os.listdir(self.top) if f.endswith('.dwo')]
        for f in objects:
            os.rename(f, f + '.aside')
        with e2e.exporter(f'--symbols.cache-path={self.top}/cache') as first:
            self.assertFalse(self.has_inlined(prog, daemon=first))
        for f in objects:
            os.rename(f + '.aside', f)
        with e2e.exporter(f'--symbols.cache-path={self.top}/cache') as second:
            self.assertTrue(self.has_inlined(prog, daemon=second))


if __name__ == '__main__':
    unittest.main()
