"""`make install` and the man pages: everything lands below DESTDIR and PREFIX, and man renders each page without a warning."""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from sonde_e2e import TOP, build_dir, is_sanitized, program

BESIDE_OTHERS = True


@unittest.skipIf(is_sanitized(), 'make install installs a release build')
class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix='sonde-install.')
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        p = cls.install(cls)
        if p.returncode:
            raise AssertionError(p.stdout + p.stderr)

    def install(self):
        env = {k: v for k, v in os.environ.items() if k not in ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL')}
        return subprocess.run(['make', '-s', f'MODE={os.path.basename(build_dir())}', f'DESTDIR={self.dir}', 'PREFIX=/opt/sonde', 'install'],
                              cwd=TOP, env=env, capture_output=True, text=True, timeout=300)

    def read(self, path):
        with open(self.dir + path) as f:
            return f.read()

    def test_programs_run(self):
        for name in ('sonde', 'sonde-exporter', 'sonde-scraper'):
            out = subprocess.run([f'{self.dir}/opt/sonde/bin/{name}', '--version'], capture_output=True, text=True, check=True).stdout
            self.assertIn(f'{name}, version', out)

    def test_units_name_installed_programs(self):
        for name in ('exporter', 'scraper'):
            self.assertIn(f'\nExecStart=/opt/sonde/bin/sonde-{name} ', self.read(f'/opt/sonde/lib/systemd/system/sonde-{name}.service'))
            self.assertRegex(self.read(f'/opt/sonde/lib/sysusers.d/sonde-{name}.conf'), r'(?m)^u sonde')

    def test_configuration_is_kept(self):
        with open(f'{self.dir}/etc/sonde/sonde.yml', 'w') as f:
            f.write('scrape_configs: []\n')
        p = self.install()
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertEqual(self.read('/etc/sonde/sonde.yml'), 'scrape_configs: []\n')

    def test_every_flag_and_command_has_its_place(self):
        for name in ('sonde-exporter', 'sonde-scraper'):
            text = self.read(f'/opt/sonde/share/man/man8/{name}.8').replace('\\-', '-')
            out = subprocess.run([program(name), '--help'], capture_output=True, text=True, check=True).stdout
            flags = re.findall(r'^ {7}(--\S+)', out, re.M)
            self.assertGreater(len(flags), 10)
            for flag in flags:
                self.assertIn(f'.B {flag}', text)
        out = subprocess.run([program('sonde'), '--help'], capture_output=True, text=True, check=True).stdout
        commands = re.findall(r'^  (\S+(?: \S+)*)  ', out[out.index('commands:'):], re.M)
        self.assertGreater(len(commands), 10)
        pages = {os.path.basename(f) for f in glob.glob(f'{self.dir}/opt/sonde/share/man/man1/*')}
        self.assertEqual(pages, {'sonde.1'} | {f"sonde-{c.replace(' ', '-')}.1" for c in commands})

    @unittest.skipUnless(shutil.which('man') and shutil.which('groff'), 'man is not installed (Debian packages man-db and groff-base)')
    def test_man_renders(self):
        for page in glob.glob(f'{self.dir}/opt/sonde/share/man/man*/*'):
            p = subprocess.run(['man', '--warnings', '-l', page], capture_output=True, text=True, env=dict(os.environ, MANWIDTH='100', LC_ALL='C.UTF-8'))
            self.assertEqual((p.returncode, p.stderr), (0, ''), page)
            for heading in ('NAME', 'SYNOPSIS', 'DESCRIPTION'):
                self.assertRegex(p.stdout, rf'(?m)^{heading}$', page)


if __name__ == '__main__':
    unittest.main()
